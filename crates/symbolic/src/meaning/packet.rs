// SPDX-License-Identifier: Apache-2.0

//! What a rule reads from the packet and its metadata, and writes into them.

use penstock_program::Hook;
use penstock_program::expr::{ChecksumType, MetaKey};
use penstock_program::op::Op;
use penstock_wire::protocol;

use super::{Answer, Follows, Meaning, next, unable};
use crate::bits::{self, Bit};
use crate::diagram::{Decided, Region};
use crate::field::{Base, Field};
use crate::machine::known;

impl Meaning<'_> {
    /// Packets that have so many bytes from the start of a header on.
    fn present(&mut self, base: Base, bytes: u16) -> Decided<Region> {
        match self.universe.place.always_has(base, bytes) {
            true => Ok(self.universe.diagrams.all()),
            false => {
                let there = self.machine.field(self.universe, Field::Present { base, bytes })?;
                Ok(there[0].region(&self.universe.diagrams))
            }
        }
    }

    /// Why bytes of a header are not known of some of the packets.
    pub(super) fn hidden(
        &self,
        base: Base,
        bytes: std::ops::Range<u16>,
        live: &Region,
    ) -> Decided<Option<&'static str>> {
        for of in self.machine.hidden.iter().filter(|of| of.base == base) {
            if of.bytes.start < bytes.end
                && bytes.start < of.bytes.end
                && self.universe.diagrams.meet(&of.region, live)?
            {
                return Ok(Some(of.reason));
            }
        }
        Ok(None)
    }

    pub(super) fn header(
        &mut self,
        base: Base,
        dst: u8,
        len: u8,
        offset: u16,
        live: Region,
    ) -> Answer {
        let Some(end) = offset.checked_add(len.into()) else { return next(live) };
        if let Some(reason) = self.hidden(base, offset..end, &live)? {
            return unable(reason);
        }
        let there = self.present(base, end)?;
        let mut live = self.universe.diagrams.and(&live, &there)?;
        let of_fragments = matches!(len, 1 | 2 | 4) && offset.is_multiple_of(u16::from(len));
        if base == Base::Transport && !of_fragments {
            let later = self.universe.holds(Field::LaterFragment)?;
            live = self.universe.diagrams.minus(&live, &later)?;
        }
        let mut value = Vec::new();
        for at in offset..end {
            let field = Field::Header { base, at };
            if let Some(summed) = self.machine.summed.get(&field)
                && self.universe.diagrams.meet(summed, &live)?
            {
                return unable("it reads a checksum that a rule has changed");
            }
            value.extend(self.machine.field(self.universe, field)?);
        }
        self.machine.load(dst, &value);
        next(live)
    }

    pub(super) fn payload_set(&mut self, op: &Op, live: Region) -> Answer {
        let &Op::PayloadSet { base, src, len, offset, csum_offset, csum_type, pseudo } = op else {
            return next(live);
        };
        let sum = (csum_type == ChecksumType::Inet).then_some(csum_offset);
        if !matches!(base, Base::Network | Base::Transport) {
            return unable("it writes outside of network and transport header");
        }
        let end = offset.saturating_add(len.into());
        if let Some(reason) = self.hidden(base, offset..end, &live)? {
            return unable(reason);
        }
        let there = self.present(base, end)?;
        let mut live = self.universe.diagrams.and(&live, &there)?;
        if let Some(sum) = sum {
            let there = self.present(base, sum + 2)?;
            live = self.universe.diagrams.and(&live, &there)?;
        }
        if base == Base::Transport {
            let later = self.universe.holds(Field::LaterFragment)?;
            live = self.universe.diagrams.minus(&live, &later)?;
        }
        let sums = if pseudo { self.pseudo_sums(&live)? } else { Vec::new() };
        for (_, _, broken) in &sums {
            live = self.universe.diagrams.minus(&live, broken)?;
        }
        let value = self.machine.read(src, len);
        for (at, byte) in (offset..end).zip(value.chunks(8)) {
            self.machine.write(self.universe, &live, Field::Header { base, at }, byte)?;
        }
        if let Some(at) = sum {
            self.summed(base, at, &live)?;
        }
        for (at, region, _) in sums {
            self.summed(Base::Transport, at, &region)?;
        }
        if csum_type == ChecksumType::Sctp {
            live = self.sctp_summed(live)?;
        }
        next(live)
    }

    /// Checksums that have a pseudo header: where they are in the transport header, for which of the
    /// packets, and for which there is no place for them, so that the rule breaks
    /// (`nft_payload_l4csum_update()`). UDP may go without.
    fn pseudo_sums(&mut self, live: &Region) -> Decided<Vec<(u16, Region, Region)>> {
        let carried = self.universe.bits(Field::Meta(MetaKey::L4Proto))?;
        let header = self.universe.holds(Field::Transport)?;
        let later = self.universe.holds(Field::LaterFragment)?;
        let first = self.universe.diagrams.minus(&header, &later)?;
        let mut all = Vec::new();
        for (protocol, at) in
            [(protocol::TCP, 16), (protocol::UDP, 6), (protocol::UDPLITE, 6), (protocol::ICMPV6, 2)]
        {
            let there = self.present(Base::Transport, at + 2)?;
            let d = &self.universe.diagrams;
            let of = d.and(&bits::equal(d, &carried, &[protocol], &[0xff])?, &first)?;
            let region = d.and(live, &of)?;
            let broken = match protocol {
                protocol::UDP => d.none(),
                _ => d.minus(&region, &there)?,
            };
            all.push((at, region, broken));
        }
        Ok(all)
    }

    /// The checksum of SCTP is computed anew: without a whole header the rule breaks, after bytes
    /// were written (`nft_payload_csum_sctp()`).
    fn sctp_summed(&mut self, live: Region) -> Decided<Region> {
        const HEADER: u16 = 12;
        let carried = self.universe.bits(Field::Meta(MetaKey::L4Proto))?;
        let whole = self.present(Base::Transport, HEADER)?;
        let d = &self.universe.diagrams;
        let of = bits::equal(d, &carried, &[protocol::SCTP], &[0xff])?;
        let region = d.and(&live, &of)?;
        let broken = d.minus(&region, &whole)?;
        for at in [8, 10] {
            self.summed(Base::Transport, at, &region)?;
        }
        self.universe.diagrams.minus(&live, &broken)
    }

    /// A checksum is brought up to date: what it is then is not known.
    fn summed(&mut self, base: Base, at: u16, region: &Region) -> Decided<()> {
        for at in [at, at + 1] {
            let all = self.machine.summed.entry(Field::Header { base, at });
            let all = all.or_insert_with(|| self.universe.diagrams.none());
            *all = self.universe.diagrams.or(all, region)?;
        }
        Ok(())
    }

    pub(super) fn meta(&mut self, key: MetaKey, dst: u8, live: Region) -> Answer {
        let field = Field::Meta(key);
        let needs = match key {
            MetaKey::L4Proto => Some(Field::Transport),
            MetaKey::IifType => Some(Field::HasMeta(match self.universe.place.hook {
                Hook::Postrouting | Hook::Egress => MetaKey::Oif,
                _ => MetaKey::Iif,
            })),
            MetaKey::IifGroup | MetaKey::IifKind => Some(Field::HasMeta(MetaKey::Iif)),
            MetaKey::OifType | MetaKey::OifGroup | MetaKey::OifKind => {
                Some(Field::HasMeta(MetaKey::Oif))
            }
            MetaKey::SkUid | MetaKey::SkGid | MetaKey::Cgroup => {
                Some(Field::HasMeta(MetaKey::SkUid))
            }
            MetaKey::RtClassid
            | MetaKey::BriIifPvid
            | MetaKey::BriIifVproto
            | MetaKey::BriIifHwAddr => Some(Field::HasMeta(key)),
            MetaKey::BriBroute => return Ok(Follows::default()),
            MetaKey::Prandom => return self.number(0, 0, dst, live),
            MetaKey::Sdif | MetaKey::SdifName => {
                return unable("it asks for the interface below a VRF");
            }
            MetaKey::Len
            | MetaKey::Protocol
            | MetaKey::Priority
            | MetaKey::Mark
            | MetaKey::Iif
            | MetaKey::Oif
            | MetaKey::IifName
            | MetaKey::OifName
            | MetaKey::NfTrace
            | MetaKey::SecMark
            | MetaKey::NfProto
            | MetaKey::BriIifName
            | MetaKey::BriOifName
            | MetaKey::PktType
            | MetaKey::Cpu
            | MetaKey::SecPath
            | MetaKey::TimeNs
            | MetaKey::TimeDay
            | MetaKey::TimeHour => None,
        };
        let mut live = live;
        if let Some(needs) = needs {
            let there =
                self.machine.field(self.universe, needs)?[0].region(&self.universe.diagrams);
            live = self.universe.diagrams.and(&live, &there)?;
        }
        let value = match key {
            // Sockets are in the root class.
            MetaKey::Cgroup => known(&[0; 4]),
            _ => self.machine.in_register(self.universe, field)?,
        };
        if matches!(key, MetaKey::IifKind | MetaKey::OifKind) {
            let none = bits::equal(&self.universe.diagrams, &value, &[0; 16], &[0xff; 16])?;
            live = self.universe.diagrams.minus(&live, &none)?;
        }
        self.machine.load(dst, &value);
        next(live)
    }

    pub(super) fn meta_set(&mut self, key: MetaKey, src: u8, live: Region) -> Answer {
        let field = Field::Meta(key);
        match key {
            MetaKey::Mark | MetaKey::Priority | MetaKey::SecMark => {
                let value = self.machine.read(src, 4);
                self.machine.write_register(self.universe, &live, field, &value)?;
            }
            MetaKey::BriBroute if self.universe.has_way() => {
                return unable("it has a port hand frames to the host itself (meta broute)");
            }
            MetaKey::NfTrace | MetaKey::BriBroute => {
                let value = self.machine.read(src, 1);
                let d = &self.universe.diagrams;
                let zero = bits::equal(d, &value, &[0], &[0xff])?;
                let mut bits = vec![Bit::ZERO; 7];
                bits.push(Bit::Of(d.not(&zero)));
                self.machine.write(self.universe, &live, field, &bits)?;
            }
            MetaKey::PktType => {
                let value = self.machine.read(src, 1);
                let old = self.machine.field(self.universe, field)?;
                let d = &self.universe.diagrams;
                let (wanted, settable) =
                    (bits::at_most(d, &value, &[3])?, bits::at_most(d, &old, &[3])?);
                let region = d.and(&live, &d.and(&wanted, &settable)?)?;
                self.machine.write(self.universe, &region, field, &value)?;
            }
            _ => return unable("it writes metadata that cannot be written"),
        }
        next(live)
    }
}
