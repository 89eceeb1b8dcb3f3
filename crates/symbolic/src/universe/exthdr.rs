// SPDX-License-Identifier: Apache-2.0

//! Which extension headers and options packets can have, and what their bytes can be.

use penstock_program::Family;
use penstock_program::expr::{ExthdrOp, MetaKey};
use penstock_wire::{ethernet, protocol, tcp};

use super::Universe;
use crate::bits;
use crate::diagram::{Decided, Region};
use crate::field::{Base, Field};

/// Headers after which an IPv6 packet goes on, by the walk that finds the transport header.
const PASSED: [u8; 4] = [0, 43, 44, 60];

impl Universe {
    /// What extension headers and options have to do with the rest of the packet. Where several of
    /// them do not fit together, packets are possible here that cannot be made.
    pub(super) fn exthdrs(&self, possible: &mut Region) -> Decided<()> {
        let d = &self.diagrams;
        let mut all: Vec<(ExthdrOp, u8, u16)> = self
            .order
            .iter()
            .filter_map(|field| match *field {
                Field::HasExthdr { op, kind, bytes } => Some((op, kind, bytes)),
                _ => None,
            })
            .collect();
        all.sort_unstable_by_key(|(op, kind, bytes)| (*op as u8, *kind, *bytes));
        let has = |op, kind, bytes| self.is(Field::HasExthdr { op, kind, bytes }, true);
        for pair in all.windows(2) {
            let [(op, kind, less), (other, same, more)] = [pair[0], pair[1]];
            if (op, kind) == (other, same) {
                self.imply(possible, &has(op, kind, more)?, &has(op, kind, less)?)?;
            }
        }
        for (op, kind, bytes) in all {
            let there = has(op, kind, bytes)?;
            match op {
                ExthdrOp::Ipv6 => self.ipv6_header(possible, kind, bytes, &there)?,
                ExthdrOp::Ipv4Opt => {
                    let version = self.of_version(2, ethernet::IPV4)?;
                    self.imply(possible, &there, &version)?;
                    // Bytes are read also where they stand behind the option.
                    self.has_bytes(possible, &there, Base::Network, 20 + bytes.max(1))?;
                    let first = Field::Header { base: Base::Network, at: 0 };
                    self.header_words(possible, &there, first, 4..8, 1)?;
                }
                ExthdrOp::TcpOpt => self.tcp_option(possible, kind, bytes, &there)?,
                // They are not asked.
                ExthdrOp::Sctp | ExthdrOp::Dccp => *possible = d.minus(possible, &there)?,
            }
        }
        for field in &self.order {
            if let Field::Exthdr { op, kind, at } = *field {
                self.exthdr_byte(possible, op, kind, at)?;
            }
        }
        Ok(())
    }

    /// Packets of a version of IP.
    fn of_version(&self, nfproto: u8, ethertype: u16) -> Decided<Region> {
        match self.place.family {
            Family::Inet => self.one_of(Field::Meta(MetaKey::NfProto), &[&[nfproto]]),
            family if family as u8 == nfproto => Ok(self.diagrams.all()),
            Family::Ip | Family::Ip6 | Family::Arp => Ok(self.diagrams.none()),
            Family::Bridge | Family::Netdev => {
                self.one_of(Field::Meta(MetaKey::Protocol), &[&ethertype.to_be_bytes()])
            }
        }
    }

    /// Packets whose headers are walked over to the end: with a transport header, and no later
    /// fragments.
    fn walked(&self) -> Decided<Region> {
        let d = &self.diagrams;
        d.and(&self.is(Field::Transport, true)?, &self.is(Field::LaterFragment, false)?)
    }

    fn carries(&self, protocols: &[u8]) -> Decided<Region> {
        let all: Vec<[u8; 1]> = protocols.iter().map(|protocol| [*protocol]).collect();
        let all: Vec<&[u8]> = all.iter().map(|protocol| &protocol[..]).collect();
        self.one_of(Field::Meta(MetaKey::L4Proto), &all)
    }

    fn ipv6_header(
        &self,
        possible: &mut Region,
        kind: u8,
        bytes: u16,
        there: &Region,
    ) -> Decided<()> {
        let d = &self.diagrams;
        let version = self.of_version(10, ethernet::IPV6)?;
        self.imply(possible, there, &version)?;
        self.has_bytes(possible, there, Base::Network, 40 + bytes)?;
        let next = Field::Header { base: Base::Network, at: 6 };
        if self.has(next) && self.place.is_ip() {
            let first: [&[u8]; 6] = [&[0], &[43], &[44], &[51], &[60], &[kind]];
            self.imply(possible, there, &self.one_of(next, &first)?)?;
            if bytes == 0 {
                let named = d.and(&version, &self.one_of(next, &[&[kind]])?)?;
                self.imply(possible, &named, there)?;
            }
        }
        if bytes == 0 && !PASSED.contains(&kind) {
            // The walk to the transport header ends here, or at an authentication header before it.
            let walked = d.and(&version, &self.walked()?)?;
            let ends = self.carries(&[kind, protocol::AH])?;
            self.imply(possible, &d.and(&walked, there)?, &ends)?;
            self.imply(possible, &d.and(&walked, &self.carries(&[kind])?)?, there)?;
        }
        Ok(())
    }

    fn tcp_option(
        &self,
        possible: &mut Region,
        kind: u8,
        bytes: u16,
        there: &Region,
    ) -> Decided<()> {
        let d = &self.diagrams;
        let tcp = d.and(&self.walked()?, &self.carries(&[protocol::TCP])?)?;
        self.imply(possible, there, &tcp)?;
        if kind <= tcp::option::NOP && bytes > 1 {
            *possible = d.minus(possible, there)?;
        }
        // No option is found in the last byte of a header.
        let len = bytes.max(2);
        self.has_bytes(possible, there, Base::Transport, 20 + len.next_multiple_of(4))?;
        let words = Field::Header { base: Base::Transport, at: 12 };
        self.header_words(possible, there, words, 0..4, len)?;
        let length = Field::Exthdr { op: ExthdrOp::TcpOpt, kind, at: 1 };
        if kind > tcp::option::NOP && bytes >= 2 && self.has(length) {
            let long = bits::at_least(d, &self.known_bits(length)?, &[bytes.min(255) as u8])?;
            self.imply(possible, there, &long)?;
            let whole = Field::HasExthdr { op: ExthdrOp::TcpOpt, kind, bytes: 2 };
            if self.has(whole) {
                self.imply(possible, &d.and(&self.is(whole, true)?, &long)?, there)?;
            }
        }
        Ok(())
    }

    /// What is there is in the packet: so many bytes from the start of a header on.
    fn has_bytes(
        &self,
        possible: &mut Region,
        there: &Region,
        base: Base,
        bytes: u16,
    ) -> Decided<()> {
        let d = &self.diagrams;
        for field in &self.order {
            if let Field::Present { base: of, bytes: some } = *field
                && of == base
                && some <= bytes
            {
                self.imply(possible, there, &self.is(*field, true)?)?;
            }
        }
        let len = Field::Meta(MetaKey::Len);
        if self.has(len) && self.place.is_ip() {
            let before = if base == Base::Transport { 20 } else { 0 };
            let least = u32::from(before + bytes).to_be_bytes();
            self.imply(possible, there, &bits::at_least(d, &self.known_bits(len)?, &least)?)?;
        }
        Ok(())
    }

    /// The length of a header in words, which stands in four bits of a byte, leaves room for so many
    /// bytes of options.
    fn header_words(
        &self,
        possible: &mut Region,
        there: &Region,
        field: Field,
        four: std::ops::Range<usize>,
        options: u16,
    ) -> Decided<()> {
        let d = &self.diagrams;
        let words = 5 + options.div_ceil(4);
        if words > 15 {
            *possible = d.minus(possible, there)?;
        } else if self.has(field) {
            let bits = self.known_bits(field)?;
            let long = bits::at_least(d, &bits[four], &[(words as u8) << 4])?;
            self.imply(possible, there, &long)?;
        }
        Ok(())
    }

    fn exthdr_byte(&self, possible: &mut Region, op: ExthdrOp, kind: u8, at: u16) -> Decided<()> {
        let d = &self.diagrams;
        let field = Field::Exthdr { op, kind, at };
        let mut there = d.none();
        for other in &self.order {
            if let Field::HasExthdr { op: of, kind: same, bytes } = *other
                && (of, same) == (op, kind)
                && bytes > at
            {
                there = d.or(&there, &self.is(*other, true)?)?;
            }
        }
        match (op, at) {
            (ExthdrOp::TcpOpt | ExthdrOp::Ipv4Opt, 0) => {
                self.imply(possible, &there, &self.one_of(field, &[&[kind]])?)?;
            }
            (ExthdrOp::Ipv6, 0) if PASSED.contains(&kind) => {
                let there = d.and(&there, &self.walked()?)?;
                let mut last = there.clone();
                for next in PASSED {
                    let named = d.and(&there, &self.one_of(field, &[&[next]])?)?;
                    last = d.minus(&last, &named)?;
                    let has = Field::HasExthdr { op, kind: next, bytes: 0 };
                    self.imply(possible, &named, &self.is(has, true)?)?;
                }
                let carried = self.known_bits(Field::Meta(MetaKey::L4Proto))?;
                let same = bits::same(d, &self.known_bits(field)?, &carried)?;
                self.imply(possible, &last, &same)?;
            }
            (ExthdrOp::Ipv6, 2 | 3) if kind == protocol::FRAGMENT => {
                let mask = if at == 2 { 0xff } else { 0xf8 };
                let zero = bits::equal(d, &self.known_bits(field)?, &[0], &[mask])?;
                self.imply(possible, &d.and(&there, &self.walked()?)?, &zero)?;
            }
            _ => {}
        }
        Ok(())
    }
}
