// SPDX-License-Identifier: Apache-2.0

//! Which packets can be: of all values of the fields that rules ask those that go together.

use penstock_program::Family;
use penstock_program::expr::{CtDir, CtKey, MetaKey};
use penstock_wire::ethernet;

use super::Universe;
use crate::bits::{self, Bit};
use crate::diagram::{Decided, Diagrams, Region};
use crate::field::{Base, Field, state};

/// Extension headers of IPv6 that the walk to the transport header passes.
const EXTENSIONS: [u8; 4] = [0, 43, 44, 60];

impl Universe {
    /// Packets that can be: of all values of the fields that were asked those that go together.
    pub fn possible(&self) -> Decided<Region> {
        let d = &self.diagrams;
        let mut possible = self.within.clone().unwrap_or_else(|| d.all());
        self.protocols(&mut possible)?;
        self.lengths(&mut possible)?;
        self.exthdrs(&mut possible)?;
        self.interfaces(&mut possible)?;
        self.connections(&mut possible)?;
        for (input, (first, last)) in &self.numbers {
            let bits = self.known_bits(Field::Input(*input))?;
            let from = 4 - (bits.len() / 8).min(4);
            let range = d.and(
                &bits::at_least(d, &bits, &first.to_be_bytes()[from..])?,
                &bits::at_most(d, &bits, &last.to_be_bytes()[from..])?,
            )?;
            possible = d.and(&possible, &range)?;
        }
        for (key, last) in [
            (MetaKey::PktType, 4u32),
            (MetaKey::NfTrace, 1),
            (MetaKey::SecPath, 1),
            (MetaKey::BriBroute, 1),
            (MetaKey::TimeDay, 6),
            (MetaKey::TimeHour, 86_399),
            (MetaKey::Len, 65_535),
        ] {
            let field = Field::Meta(key);
            if self.has(field) {
                let value = last.to_be_bytes();
                let value = &value[4 - (field.width() / 8) as usize..];
                let range = bits::at_most(d, &self.known_bits(field)?, value)?;
                possible = d.and(&possible, &range)?;
            }
        }
        Ok(possible)
    }

    /// What protocol a packet has, by its several names.
    fn protocols(&self, possible: &mut Region) -> Decided<()> {
        let d = &self.diagrams;
        let nfproto = Field::Meta(MetaKey::NfProto);
        let protocols: Vec<[u8; 1]> = self.place.protocols().iter().map(|p| [*p]).collect();
        let protocols: Vec<&[u8]> = protocols.iter().map(|p| &p[..]).collect();
        *possible = d.and(possible, &self.one_of(nfproto, &protocols)?)?;
        let version = |v: u8| match self.place.family {
            Family::Inet => self.one_of(nfproto, &[&[v]]),
            family if family as u8 == v => Ok(d.all()),
            _ => Ok(d.none()),
        };
        let (ip, ip6) = (version(2)?, version(10)?);
        let protocol = Field::Meta(MetaKey::Protocol);
        let ethertype = |value: u16| self.one_of(protocol, &[&value.to_be_bytes()]);
        if self.place.is_ip() {
            // In chains of inet the question that tells the versions apart has to be there, where
            // something follows from them.
            self.imply(
                possible,
                &ip,
                &d.or(&ethertype(ethernet::IPV4)?, &self.unknown_version())?,
            )?;
            self.imply(
                possible,
                &ip6,
                &d.or(&ethertype(ethernet::IPV6)?, &self.unknown_version())?,
            )?;
            if self.unknown_version().is_all() {
                let both = d.or(&ethertype(ethernet::IPV4)?, &ethertype(ethernet::IPV6)?)?;
                *possible = d.and(possible, &both)?;
                return Ok(());
            }
            // An IPv4 header always leads to a transport header.
            self.imply(possible, &ip, &self.is(Field::Transport, true)?)?;
            let first = Field::Header { base: Base::Network, at: 0 };
            if self.has(first) {
                let bits = self.known_bits(first)?;
                let four = bits::equal(d, &bits[..4], &[0x40], &[0xf0])?;
                let long = bits::at_least(d, &bits[4..], &[0x50])?;
                self.imply(possible, &ip, &d.and(&four, &long)?)?;
                let six = bits::equal(d, &bits[..4], &[0x60], &[0xf0])?;
                self.imply(possible, &ip6, &six)?;
            }
            self.same_protocol(possible, &ip, 9, &[])?;
            self.same_protocol(possible, &ip6, 6, &EXTENSIONS)?;
            // These are not what a packet carries in the end.
            let named = Field::Meta(MetaKey::L4Proto);
            if self.has(named) {
                let bits = self.known_bits(named)?;
                let carried = d.and(&ip6, &self.is(Field::Transport, true)?)?;
                for extension in EXTENSIONS {
                    let wrong = bits::equal(d, &bits, &[extension], &[0xff])?;
                    self.imply(possible, &carried, &d.not(&wrong))?;
                }
            }
            // A later fragment says so in its header; those of IPv6 are not looked at.
            let later = self.is(Field::LaterFragment, true)?;
            if self.has(Field::LaterFragment) {
                self.imply(possible, &later, &ip)?;
                let offset = [6, 7].map(|at| Field::Header { base: Base::Network, at });
                if offset.iter().any(|field| self.has(*field)) {
                    let mut zero = d.all();
                    for (field, mask) in offset.iter().zip([0x1f, 0xff]) {
                        if self.has(*field) {
                            let bits = self.known_bits(*field)?;
                            zero = d.and(&zero, &bits::equal(d, &bits, &[0], &[mask])?)?;
                        }
                    }
                    let fragment = d.and(&ip, &later)?;
                    if offset.iter().all(|field| self.has(*field)) {
                        self.imply(possible, &fragment, &d.not(&zero))?;
                    }
                    let first = d.minus(&ip, &later)?;
                    self.imply(possible, &first, &zero)?;
                }
            }
        } else if self.has(protocol) {
            // Only IP has transport headers, and the frame says what it carries.
            let (ip4, ip6) = (ethertype(ethernet::IPV4)?, ethertype(ethernet::IPV6)?);
            if self.has(Field::Transport) {
                self.imply(possible, &self.is(Field::Transport, true)?, &d.or(&ip4, &ip6)?)?;
                self.same_protocol(possible, &ip4, 9, &[])?;
                self.same_protocol(possible, &ip6, 6, &EXTENSIONS)?;
            }
            self.ethertype_in_frame(possible)?;
        }
        Ok(())
    }

    /// All packets if nothing tells IPv4 and IPv6 apart where there are both.
    fn unknown_version(&self) -> Region {
        match self.place.family == Family::Inet && !self.has(Field::Meta(MetaKey::NfProto)) {
            true => self.diagrams.all(),
            false => self.diagrams.none(),
        }
    }

    /// `meta l4proto` is what the network header says, unless extension headers follow it.
    fn same_protocol(
        &self,
        possible: &mut Region,
        version: &Region,
        at: u16,
        extensions: &[u8],
    ) -> Decided<()> {
        let (named, byte) =
            (Field::Meta(MetaKey::L4Proto), Field::Header { base: Base::Network, at });
        if !self.has(named) || !self.has(byte) {
            return Ok(());
        }
        let d = &self.diagrams;
        let (a, b) = (self.known_bits(named)?, self.known_bits(byte)?);
        let mut when = d.and(version, &self.is(Field::Transport, true)?)?;
        for extension in extensions {
            when = d.minus(&when, &bits::equal(d, &b, &[*extension], &[0xff])?)?;
        }
        self.imply(possible, &when, &bits::same(d, &a, &b)?)
    }

    /// `meta protocol` is the ethertype of the frame, after its tag.
    fn ethertype_in_frame(&self, possible: &mut Region) -> Decided<()> {
        let d = &self.diagrams;
        let protocol = self.known_bits(Field::Meta(MetaKey::Protocol))?;
        let pair = |at: u16| -> Decided<Option<Vec<Bit>>> {
            let fields = [at, at + 1].map(|at| Field::Header { base: Base::Link, at });
            if !fields.iter().all(|field| self.has(*field)) {
                return Ok(None);
            }
            Ok(Some([self.known_bits(fields[0])?, self.known_bits(fields[1])?].concat()))
        };
        let Some(outer) = pair(12)? else { return Ok(()) };
        let tagged = d.or(
            &bits::equal(d, &outer, &[0x81, 0x00], &[0xff; 2])?,
            &bits::equal(d, &outer, &[0x88, 0xa8], &[0xff; 2])?,
        )?;
        self.imply(possible, &d.not(&tagged), &bits::same(d, &outer, &protocol)?)?;
        if let Some(inner) = pair(16)? {
            self.imply(possible, &tagged, &bits::same(d, &inner, &protocol)?)?;
        }
        Ok(())
    }

    /// Which headers are there, and how long they are.
    fn lengths(&self, possible: &mut Region) -> Decided<()> {
        let d = &self.diagrams;
        for base in [Base::Link, Base::Network, Base::Transport, Base::Inner] {
            let mut all: Vec<u16> = self
                .order
                .iter()
                .filter_map(|field| match field {
                    Field::Present { base: of, bytes } if *of == base => Some(*bytes),
                    _ => None,
                })
                .collect();
            all.sort_unstable();
            let present = |bytes| self.is(Field::Present { base, bytes }, true);
            for pair in all.windows(2) {
                self.imply(possible, &present(pair[1])?, &present(pair[0])?)?;
            }
            if base == Base::Transport && self.has(Field::Transport) {
                for bytes in &all {
                    self.imply(possible, &present(*bytes)?, &self.is(Field::Transport, true)?)?;
                }
            }
            let nfproto = Field::Meta(MetaKey::NfProto);
            if base == Base::Network && self.place.is_ip() && self.has(nfproto) {
                let ip6 = self.one_of(nfproto, &[&[10]])?;
                for bytes in all.iter().filter(|bytes| **bytes <= 40) {
                    self.imply(possible, &ip6, &present(*bytes)?)?;
                }
            }
            // What is there is not longer than the packet.
            let len = Field::Meta(MetaKey::Len);
            if self.has(len)
                && self.place.is_ip()
                && matches!(base, Base::Network | Base::Transport)
            {
                let bits = self.known_bits(len)?;
                let least = if self.place.protocols() == [10] { 40 } else { 20 };
                let at_least = bits::at_least(d, &bits, &u32::to_be_bytes(least))?;
                *possible = d.and(possible, &at_least)?;
                for bytes in &all {
                    let before = if base == Base::Transport { least } else { 0 };
                    let needed = before + u32::from(*bytes);
                    let long = bits::at_least(d, &bits, &needed.to_be_bytes())?;
                    self.imply(possible, &present(*bytes)?, &long)?;
                    if base == Base::Network {
                        self.imply(possible, &long, &present(*bytes)?)?;
                    } else {
                        // After the longest IPv4 header.
                        let surely = (60 + u32::from(*bytes)).to_be_bytes();
                        let surely = bits::at_least(d, &bits, &surely)?;
                        let known = match self.place.family {
                            Family::Ip => surely,
                            _ => d.none(),
                        };
                        self.imply(possible, &known, &present(*bytes)?)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Interfaces: those that packets have at the hook, with names that are names; the same
    /// interface is the same in all that is asked of it.
    fn interfaces(&self, possible: &mut Region) -> Decided<()> {
        let d = &self.diagrams;
        let sides = [
            (self.place.has_iif(), [MetaKey::Iif, MetaKey::IifName]),
            (Some(self.place.has_oif()), [MetaKey::Oif, MetaKey::OifName]),
        ];
        for (has, keys) in sides {
            let presence = Field::HasMeta(keys[0]);
            if let Some(has) = has {
                *possible = d.and(possible, &self.is(presence, has)?)?;
            }
            let mut zero: Vec<Region> = Vec::new();
            if self.has(presence) {
                zero.push(self.is(presence, false)?);
            }
            for key in keys {
                let field = Field::Meta(key);
                if self.has(field) {
                    let bits = self.known_bits(field)?;
                    zero.push(bits::equal(d, &bits, &[0; 16], &[0xff; 16])?);
                }
            }
            if let Some(has) = has {
                for none in &zero {
                    let wrong = if has { none.clone() } else { d.not(none) };
                    *possible = d.minus(possible, &wrong)?;
                }
            }
            for pair in zero.windows(2) {
                let differ = d.xor(&pair[0], &pair[1])?;
                *possible = d.minus(possible, &differ)?;
            }
        }
        for key in [
            MetaKey::IifName,
            MetaKey::OifName,
            MetaKey::BriIifName,
            MetaKey::BriOifName,
            MetaKey::IifKind,
            MetaKey::OifKind,
        ] {
            if self.has(Field::Meta(key)) {
                let bits = self.known_bits(Field::Meta(key))?;
                *possible = d.and(possible, &names(d, &bits)?)?;
            }
        }
        let arrivals: Decided<Vec<Region>> =
            self.arrivals.iter().map(|device| self.of_device(device)).collect();
        if !self.arrivals.is_empty() {
            *possible = d.and(possible, &d.union(&arrivals?)?)?;
        }
        // One interface.
        let pairs = [
            (MetaKey::Iif, MetaKey::Oif),
            (MetaKey::IifName, MetaKey::OifName),
            (MetaKey::IifType, MetaKey::OifType),
            (MetaKey::IifGroup, MetaKey::OifGroup),
            (MetaKey::IifKind, MetaKey::OifKind),
        ];
        let mut same = Vec::new();
        for (a, b) in pairs {
            let (a, b) = (Field::Meta(a), Field::Meta(b));
            if self.has(a) && self.has(b) {
                same.push(bits::same(d, &self.known_bits(a)?, &self.known_bits(b)?)?);
            }
        }
        if self.place.has_iif() != Some(false) && self.place.has_oif() {
            for name in same.iter().take(2) {
                for other in &same {
                    self.imply(possible, name, other)?;
                }
            }
        }
        Ok(())
    }

    /// What connection tracking says goes together.
    fn connections(&self, possible: &mut Region) -> Decided<()> {
        let d = &self.diagrams;
        let state = |values: &[u8]| {
            let values: Vec<[u8; 1]> = values.iter().map(|v| [*v]).collect();
            let values: Vec<&[u8]> = values.iter().map(|v| &v[..]).collect();
            self.one_of(Field::CtState, &values)
        };
        if self.has(Field::CtState) {
            *possible = d.and(possible, &state(&state::ALL)?)?;
            let begins = state(&[state::NEW, state::RELATED])?;
            if self.has(Field::Untranslated) {
                self.imply(possible, &self.is(Field::Untranslated, true)?, &begins)?;
            }
            if self.has(Field::CtBefore) {
                let before = self.is(Field::CtBefore, true)?;
                self.imply(possible, &before, &state(&state::WITH_ENTRY)?)?;
            }
        }
        let direction = Field::Ct(CtKey::Direction, None);
        *possible = d.and(possible, &self.one_of(direction, &[&[0], &[1]])?)?;
        let reply = self.one_of(direction, &[&[CtDir::Reply as u8]])?;
        if self.has(direction) && self.has(Field::CtState) {
            let replies = state(&[state::ESTABLISHED, state::RELATED])?;
            // Without a connection there is no direction, and nothing asks for it.
            let with = state(&state::WITH_ENTRY)?;
            self.imply(possible, &d.and(&reply, &with)?, &replies)?;
        }
        let status = Field::Ct(CtKey::Status, None);
        if self.has(status) && self.has(Field::CtState) {
            let bits = self.known_bits(status)?;
            let bit =
                |value: u32| bits::equal(d, &bits, &value.to_be_bytes(), &value.to_be_bytes());
            const EXPECTED: u32 = 1;
            const SEEN_REPLY: u32 = 2;
            self.imply(possible, &state(&[state::ESTABLISHED])?, &bit(SEEN_REPLY)?)?;
            let new = state(&[state::NEW])?;
            self.imply(possible, &new, &d.not(&bit(SEEN_REPLY)?))?;
            self.imply(possible, &new, &d.not(&bit(EXPECTED)?))?;
        }
        // Addresses of the connection's family.
        let nfproto = Field::Meta(MetaKey::NfProto);
        for (keys, version) in
            [([CtKey::SrcIp, CtKey::DstIp], 2), ([CtKey::SrcIp6, CtKey::DstIp6], 10)]
        {
            for key in keys {
                for dir in [Some(CtDir::Original), Some(CtDir::Reply)] {
                    let has = Field::HasCt(key, dir);
                    if !self.has(has) {
                        continue;
                    }
                    let has = self.is(has, true)?;
                    if !self.place.protocols().contains(&version) {
                        *possible = d.minus(possible, &has)?;
                    } else if self.has(nfproto) {
                        let differ = d.xor(&has, &self.one_of(nfproto, &[&[version]])?)?;
                        *possible = d.minus(possible, &differ)?;
                    } else if self.place.protocols() == [version] {
                        *possible = d.and(possible, &has)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Packets for which a field has one of these values; all if it was not asked.
    pub(super) fn one_of(&self, field: Field, values: &[&[u8]]) -> Decided<Region> {
        if !self.has(field) {
            return Ok(self.diagrams.all());
        }
        let bits = self.known_bits(field)?;
        let mut all = Vec::new();
        for value in values {
            all.push(bits::equal(&self.diagrams, &bits, value, &[0xff; 16])?);
        }
        self.diagrams.union(&all)
    }

    /// Packets for which a field of one bit is 1; all if it was not asked.
    pub(super) fn is(&self, field: Field, value: bool) -> Decided<Region> {
        match self.variables(field) {
            [number] => self.diagrams.variable(*number, value),
            _ => Ok(self.diagrams.all()),
        }
    }

    /// Takes away from a region what holds in `when` and not in `then`.
    pub(super) fn imply(&self, region: &mut Region, when: &Region, then: &Region) -> Decided<()> {
        let wrong = self.diagrams.minus(when, then)?;
        *region = self.diagrams.minus(region, &wrong)?;
        Ok(())
    }
}

/// Names: after the first zero byte there are only zero bytes.
fn names(d: &Diagrams, bits: &[Bit]) -> Decided<Region> {
    // From the end: the rest is a name, or nothing but zeros.
    let (mut name, mut zeros) = (d.all(), d.all());
    for byte in bits.chunks(8).rev() {
        let zero = bits::equal(d, byte, &[0], &[0xff])?;
        zeros = d.and(&zero, &zeros)?;
        name = d.select(&zero, &zeros, &name)?;
    }
    Ok(name)
}
