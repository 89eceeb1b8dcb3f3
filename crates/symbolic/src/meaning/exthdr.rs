// SPDX-License-Identifier: Apache-2.0

//! Extension headers and options: whether a packet has them, and their bytes.

use penstock_program::expr::{ExthdrOp, MetaKey};
use penstock_program::op::Op;
use penstock_program::{Family, Hook};
use penstock_wire::ethernet;

use super::{Answer, Meaning, next, unable};
use crate::bits::{self, Bit};
use crate::diagram::{Decided, Region};
use crate::field::{Base, Done, Field};

impl Meaning<'_> {
    /// Loads bytes of an extension header or an option, or whether it is there
    /// (`net/netfilter/nft_exthdr.c`).
    pub(super) fn exthdr(&mut self, operation: &Op, live: Region) -> Answer {
        let &Op::Exthdr { op, kind, offset, len, present, dst } = operation else {
            return next(live);
        };
        let end = u16::from(offset) + u16::from(len);
        if self.moved()? {
            return unable(
                "it looks for an option or a header after a rule has changed what leads there",
            );
        }
        if let Some(reason) = self.hidden(Base::Network, 0..u16::MAX, &live)? {
            return unable(reason);
        }
        let mut live = live;
        // `present` of a TCP option asks for its bytes, too.
        let bytes = match op {
            ExthdrOp::Ipv6 => {
                let of_family = self.of_family(10, ethernet::IPV6)?;
                live = self.universe.diagrams.and(&live, &of_family)?;
                if present { 0 } else { end }
            }
            ExthdrOp::Ipv4Opt if self.universe.place.hook == Hook::Egress => {
                return unable("it looks for an IPv4 option at egress");
            }
            ExthdrOp::Ipv4Opt => {
                let of_family = self.of_family(2, ethernet::IPV4)?;
                live = self.universe.diagrams.and(&live, &of_family)?;
                if present { 0 } else { end }
            }
            ExthdrOp::TcpOpt => end.max(1),
            ExthdrOp::Sctp | ExthdrOp::Dccp => {
                return unable("it looks for a chunk of SCTP or an option of DCCP");
            }
        };
        // What tells where there can be one.
        self.universe.holds(Field::Transport)?;
        self.universe.holds(Field::LaterFragment)?;
        self.universe.bits(Field::Meta(MetaKey::L4Proto))?;
        if self.universe.place.family == Family::Inet {
            self.universe.bits(Field::Meta(MetaKey::NfProto))?;
        } else if !self.universe.place.family.is_ip() {
            self.universe.bits(Field::Meta(MetaKey::Protocol))?;
        }
        let there = self.universe.holds(Field::HasExthdr { op, kind, bytes })?;
        if present {
            let mut value = vec![Bit::ZERO; 7];
            value.push(Bit::Of(there));
            self.machine.load(dst, &value);
            return next(live);
        }
        if op != ExthdrOp::TcpOpt {
            self.universe.holds(Field::HasExthdr { op, kind, bytes: 0 })?;
        }
        let written = Field::Done(Done::TcpOption(kind));
        if op == ExthdrOp::TcpOpt && self.machine.writes.contains_key(&written) {
            return unable("it reads a TCP option that a rule has changed");
        }
        live = self.universe.diagrams.and(&live, &there)?;
        let mut value = Vec::new();
        for at in u16::from(offset)..end {
            value.extend(self.universe.bits(Field::Exthdr { op, kind, at })?);
        }
        self.machine.load(dst, &value);
        next(live)
    }

    /// Whether rules have changed bytes that may say which headers and options follow, or be part of
    /// those.
    fn moved(&mut self) -> Decided<bool> {
        let only_ipv6 = self.universe.place.protocols() == [10];
        let says = |field: &Field| match field {
            Field::Header { base: Base::Network, at } if only_ipv6 => *at == 6 || *at >= 40,
            Field::Header { base: Base::Network, at } => matches!(at, 0 | 6 | 9) || *at >= 20,
            Field::Header { base: Base::Transport, at } => *at == 12 || *at >= 20,
            _ => false,
        };
        for (field, written) in self.machine.writes.iter().filter(|(field, _)| says(field)) {
            // A write of a few bits writes the rest of its bytes as they were.
            let came = self.universe.bits(*field)?;
            if !bits::same(&self.universe.diagrams, &came, written)?.is_all() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Packets of a version of IP: by `NFPROTO_*` and ethertype.
    fn of_family(&mut self, nfproto: u8, ethertype: u16) -> Decided<Region> {
        let place = self.universe.place;
        let (field, value) = match place.protocols() {
            [2, 10] => (Field::Meta(MetaKey::NfProto), vec![nfproto]),
            [own @ (2 | 3 | 10)] if *own == nfproto => return Ok(self.universe.diagrams.all()),
            [2 | 3 | 10] => return Ok(self.universe.diagrams.none()),
            _ => (Field::Meta(MetaKey::Protocol), ethertype.to_be_bytes().to_vec()),
        };
        let bits = self.universe.bits(field)?;
        bits::equal(&self.universe.diagrams, &bits, &value, &[0xff; 2])
    }
}
