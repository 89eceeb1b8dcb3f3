// SPDX-License-Identifier: Apache-2.0

//! Translation on the way through a network: as a relation between packets before and after it.
//!
//! The first packet of a connection gets what a rule says; where a rule leaves a choice, the choice
//! is an input. A connection that was there before is an input, too: its packets get the addresses
//! that the connection has in the other direction.

use std::net::IpAddr;
use std::ops::Range;

use penstock_program::Hook;
use penstock_program::expr::{CtDir, CtKey, NatKind};
use penstock_wire::protocol;

use super::{Failure, Walk};
use crate::base::Base as BaseChain;
use crate::bits::{self, Bit};
use crate::diagram::{Decided, Region};
use crate::fate::{End, Refusal};
use crate::field::{Base, Done, Field, What, state};
use crate::way::Start;

/// `NF_NAT_RANGE_*`.
pub(crate) mod flags {
    pub const MAP_IPS: u32 = 1;
    pub const PROTO_SPECIFIED: u32 = 1 << 1;
    pub const PROTO_RANDOM: u32 = 1 << 2;
    pub const PROTO_RANDOM_FULLY: u32 = 1 << 4;
}

/// Protocols of which ports are translated.
pub(crate) const WITH_PORTS: [u8; 5] =
    [protocol::TCP, protocol::UDP, protocol::UDPLITE, protocol::SCTP, protocol::DCCP];

/// `IPS_SRC_NAT`, `IPS_DST_NAT`.
const STATUS: [u32; 2] = [1 << 4, 1 << 5];

/// What is translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// The source.
    Source,
    /// The destination.
    Destination,
}

impl Side {
    /// What is translated at a hook.
    pub(crate) fn at(hook: Hook) -> Option<Side> {
        match hook {
            Hook::Prerouting | Hook::Output => Some(Side::Destination),
            Hook::Input | Hook::Postrouting => Some(Side::Source),
            Hook::Ingress | Hook::Forward | Hook::Egress => None,
        }
    }

    /// Whether packets are translated before they come to a base chain.
    pub(crate) fn is_before(self, base: &BaseChain) -> bool {
        // `NF_IP_PRI_NAT_DST`, `NF_IP_PRI_NAT_SRC`.
        let own = match self {
            Side::Destination => -100,
            Side::Source => 100,
        };
        base.priority > own
    }

    /// What the connection's status says of it.
    pub(crate) fn status(self) -> u32 {
        STATUS[usize::from(self == Side::Destination)]
    }

    fn kinds(self) -> [NatKind; 2] {
        match self {
            Side::Source => [NatKind::Source, NatKind::Masquerade],
            Side::Destination => [NatKind::Destination, NatKind::Redirect],
        }
    }

    /// Where it stands in the network header, of IPv4 or IPv6.
    pub(crate) fn address(self, v6: bool) -> Range<u16> {
        match (self, v6) {
            (Side::Source, false) => 12..16,
            (Side::Destination, false) => 16..20,
            (Side::Source, true) => 8..24,
            (Side::Destination, true) => 24..40,
        }
    }

    /// Where its port stands in the transport header.
    pub(crate) fn port(self) -> u16 {
        if self == Side::Source { 0 } else { 2 }
    }

    /// What the connection calls the address, and the port.
    pub(crate) fn keys(self, v6: bool) -> [CtKey; 2] {
        match (self, v6) {
            (Side::Source, false) => [CtKey::SrcIp, CtKey::ProtoSrc],
            (Side::Source, true) => [CtKey::SrcIp6, CtKey::ProtoSrc],
            (Side::Destination, false) => [CtKey::DstIp, CtKey::ProtoDst],
            (Side::Destination, true) => [CtKey::DstIp6, CtKey::ProtoDst],
        }
    }

    /// The other side.
    pub(crate) fn other(self) -> Side {
        match self {
            Side::Source => Side::Destination,
            Side::Destination => Side::Source,
        }
    }

    fn told(self) -> [Done; 2] {
        match self {
            Side::Source => [Done::NewSource, Done::NewSourcePort],
            Side::Destination => [Done::NewDestination, Done::NewDestinationPort],
        }
    }
}

/// An address that packets of a region were given.
pub(super) struct Moved {
    /// The bytes of it.
    pub fields: Vec<Field>,
    pub region: Region,
    pub value: Vec<Bit>,
}

/// A side of packets gets another address and port, from one of the directions of their connection,
/// if that is translated so.
pub(crate) struct Reversal {
    /// The packets' direction.
    pub direction: CtDir,
    /// `IPS_*` of the connection.
    pub status: u32,
    /// Address and port of the connection.
    pub keys: [(CtKey, CtDir); 2],
}

/// What packets of connections that were there before get at a side: what the other direction has
/// on its other side.
pub(crate) fn reversals(side: Side, v6: bool) -> [Reversal; 2] {
    let from = |direction: CtDir, of: CtDir, status: u32| {
        let keys = side.other().keys(v6).map(|key| (key, of));
        Reversal { direction, status, keys }
    };
    [
        from(CtDir::Original, CtDir::Reply, side.status()),
        from(CtDir::Reply, CtDir::Original, side.other().status()),
    ]
}

impl Walk<'_, '_> {
    /// The tuples of connections that packets begin, where rules ask for them.
    pub(super) fn first_tuples(&mut self, region: &Region) -> Decided<()> {
        let first = self.universe.holds(Field::Untranslated)?;
        let first = self.universe.diagrams.and(region, &first)?;
        for (v6, side) in [(false, Side::Source), (false, Side::Destination)]
            .into_iter()
            .chain([(true, Side::Source), (true, Side::Destination)])
        {
            let version = self.version(v6)?;
            let first = self.universe.diagrams.and(&first, &version)?;
            let address = self.network(side.address(v6))?;
            let ports = self.has_ports(true)?;
            let with_ports = self.universe.diagrams.and(&first, &ports)?;
            let [original, port] = side.keys(v6);
            let [reply, reply_port] = side.other().keys(v6);
            for (key, direction) in [(original, CtDir::Original), (reply, CtDir::Reply)] {
                let field = Field::Ct(key, Some(direction));
                if self.universe.has(field) {
                    self.machine.write(self.universe, &first, field, &address)?;
                }
            }
            for (key, direction) in [(port, CtDir::Original), (reply_port, CtDir::Reply)] {
                let field = Field::Ct(key, Some(direction));
                if self.universe.has(field) {
                    let port = self.transport(side.port())?;
                    self.machine.write(self.universe, &with_ports, field, &port)?;
                }
            }
        }
        Ok(())
    }

    /// Translates packets of a region at a hook; those that can be.
    pub(super) fn translate(&mut self, side: Side, region: &Region) -> Result<Region, Failure> {
        if region.is_none() {
            return Ok(region.clone());
        }
        let translated = self.translate_first(side, region).and_then(|region| {
            self.translate_known(side, &region)?;
            Ok(region)
        });
        self.limit(translated)
    }

    /// The first packets of connections, as rules say; those that can be.
    fn translate_first(&mut self, side: Side, region: &Region) -> Decided<Region> {
        let mut possible = region.clone();
        let kind = self.machine.field(self.universe, Field::Done(Done::Nat))?;
        let flags = self.machine.field(self.universe, Field::Done(Done::NatFlags))?;
        let of_flag = |flag: u32| {
            let at = 31 - flag.trailing_zeros() as usize;
            flags.get(at).cloned().unwrap_or(Bit::ZERO)
        };
        let d = &self.universe.diagrams;
        let [mapped, with_port] =
            [flags::MAP_IPS, flags::PROTO_SPECIFIED].map(|flag| of_flag(flag).region(d));
        let random = d.or(
            &of_flag(flags::PROTO_RANDOM).region(d),
            &of_flag(flags::PROTO_RANDOM_FULLY).region(d),
        )?;
        let Some(way) = &self.program.way else { return Ok(possible) };
        let own = way.start == Start::Host;
        let mut all = self.universe.diagrams.none();
        for of in side.kinds() {
            let d = &self.universe.diagrams;
            let of_kind = bits::equal(d, &kind, &[of as u8 + 1], &[0xff])?;
            if !d.meet(region, &of_kind)? {
                continue;
            }
            // What others get does not matter: they are not on their way here.
            let of_kind = d.among(&of_kind, region)?;
            all = d.or(&all, &of_kind)?;
            for v6 in [false, true] {
                let version = self.version(v6)?;
                let here = self.universe.diagrams.and(&of_kind, &version)?;
                if here.is_none() {
                    continue;
                }
                let given = match of {
                    NatKind::Source | NatKind::Destination => {
                        let mapped = self.universe.diagrams.among(&mapped, region)?;
                        let here = self.universe.diagrams.and(&here, &mapped)?;
                        let wrong = self.ranged_address(side, v6, &here)?;
                        possible = self.universe.diagrams.minus(&possible, &wrong)?;
                        continue;
                    }
                    NatKind::Masquerade => self.masquerade_addresses(way, v6)?,
                    NatKind::Redirect => self.redirect_addresses(way, v6)?,
                };
                for (address, to) in given {
                    let to = self.universe.diagrams.and(&here, &to)?;
                    if let Some(address) = address {
                        let address = match address {
                            IpAddr::V4(address) => bits::constant(&address.octets()),
                            IpAddr::V6(address) => bits::constant(&address.octets()),
                        };
                        self.give_address(side, v6, &to, &address)?;
                        continue;
                    }
                    // They are dropped, and no rule says so.
                    let to = self.universe.diagrams.and(&to, region)?;
                    possible = self.universe.diagrams.minus(&possible, &to)?;
                    let base = self.base.take();
                    self.decide(to, End::Refused(Refusal::NoAddress), None);
                    self.base = base;
                }
            }
        }
        if all.is_none() {
            return Ok(possible);
        }
        let ports = self.has_ports(true)?;
        let with_ports = self.universe.diagrams.and(&all, &ports)?;
        let [with_port, random] =
            [with_port, random].map(|of| self.universe.diagrams.among(&of, region));
        let wrong = self.ranged_port(side, &with_ports, &with_port?, &random?)?;
        possible = self.universe.diagrams.minus(&possible, &wrong)?;
        let status = Field::Ct(CtKey::Status, None);
        if self.universe.has(status) {
            let mut bits = self.machine.field(self.universe, status)?;
            let at = 31 - side.status().trailing_zeros() as usize;
            bits[at] = bits[at].replaced(&all, &Bit::Known(true), &self.universe.diagrams)?;
            self.machine.writes.insert(status, bits);
        }
        if own
            && side == Side::Destination
            && let Some(turned) = self.turned.take()
        {
            let all = self.universe.diagrams.and(&all, region)?;
            self.turned = Some(self.universe.diagrams.or(&turned, &all)?);
        }
        // The next hook has translations of its own.
        for done in [
            Done::Nat,
            Done::NatFlags,
            Done::NatAddress,
            Done::NatLastAddress,
            Done::NatPort,
            Done::NatLastPort,
            Done::NatBasePort,
        ] {
            self.machine.done(self.universe, &all, done, 0)?;
        }
        Ok(possible)
    }

    /// An address of a range; the packets for which a choice is none.
    fn ranged_address(&mut self, side: Side, v6: bool, region: &Region) -> Decided<Region> {
        let len = if v6 { 128 } else { 32 };
        let mut ends = Vec::new();
        for done in [Done::NatAddress, Done::NatLastAddress] {
            let mut bits = self.machine.field(self.universe, Field::Done(done))?;
            bits.truncate(len);
            ends.push(bits);
        }
        let same = bits::same(&self.universe.diagrams, &ends[0], &ends[1])?;
        let one = self.universe.diagrams.and(region, &same)?;
        let first = ends[0].clone();
        self.give_address(side, v6, &one, &first)?;
        let several = self.universe.diagrams.minus(region, &same)?;
        if several.is_none() {
            return Ok(several);
        }
        let input = self.universe.choice(What::Address, &ends.concat());
        let mut chosen = self.universe.bits(Field::Input(input))?;
        chosen.truncate(len);
        self.give_address(side, v6, &several, &chosen)?;
        self.outside(&several, &chosen, &ends)
    }

    /// Packets of a region for which a choice is not between two values.
    fn outside(&mut self, region: &Region, chosen: &[Bit], ends: &[Vec<Bit>]) -> Decided<Region> {
        let d = &self.universe.diagrams;
        let inside =
            d.and(&bits::not_above(d, &ends[0], chosen)?, &bits::not_above(d, chosen, &ends[1])?)?;
        d.minus(region, &inside)
    }

    /// A port of a range, for those that a range is given for, or any for those that want one; the
    /// packets for which a choice is none. The others keep theirs.
    fn ranged_port(
        &mut self,
        side: Side,
        region: &Region,
        given: &Region,
        random: &Region,
    ) -> Decided<Region> {
        let mut ends = Vec::new();
        for done in [Done::NatPort, Done::NatLastPort] {
            ends.push(self.machine.field(self.universe, Field::Done(done))?);
        }
        let d = &self.universe.diagrams;
        let ranged = d.and(region, given)?;
        let same = bits::same(d, &ends[0], &ends[1])?;
        let one = d.and(&ranged, &same)?;
        let several = d.minus(&ranged, &same)?;
        let any = d.and(&d.minus(region, given)?, random)?;
        let first = ends[0].clone();
        self.give_port(side, &one, &first)?;
        let mut wrong = self.universe.diagrams.none();
        let widest = vec![bits::constant(&[0, 1]), bits::constant(&[0xff, 0xff])];
        for (region, ends) in [(several, ends), (any, widest)] {
            if region.is_none() {
                continue;
            }
            let input = self.universe.choice(What::Port, &ends.concat());
            let chosen = self.universe.bits(Field::Input(input))?;
            self.give_port(side, &region, &chosen)?;
            let outside = self.outside(&region, &chosen, &ends)?;
            wrong = self.universe.diagrams.or(&wrong, &outside)?;
        }
        Ok(wrong)
    }

    /// Gives packets another address.
    fn give_address(
        &mut self,
        side: Side,
        v6: bool,
        region: &Region,
        address: &[Bit],
    ) -> Decided<()> {
        self.write_address(side, v6, region, address)?;
        let [told, _] = side.told();
        let mut whole = address.to_vec();
        whole.resize(128, Bit::ZERO);
        self.machine.write(self.universe, region, Field::Done(told), &whole)?;
        let [key, _] = side.other().keys(v6);
        self.answer_to(key, region, address)?;
        self.sums(v6, region)
    }

    fn write_address(
        &mut self,
        side: Side,
        v6: bool,
        region: &Region,
        address: &[Bit],
    ) -> Decided<()> {
        let mut fields = Vec::new();
        for (at, byte) in side.address(v6).zip(address.chunks(8)) {
            let field = Field::Header { base: Base::Network, at };
            self.machine.write(self.universe, region, field, byte)?;
            fields.push(field);
        }
        self.moved.push(Moved { fields, region: region.clone(), value: address.to_vec() });
        Ok(())
    }

    /// Gives packets another port.
    fn give_port(&mut self, side: Side, region: &Region, port: &[Bit]) -> Decided<()> {
        self.write_port(side, region, port)?;
        let [_, told] = side.told();
        self.machine.write(self.universe, region, Field::Done(told), port)?;
        let [_, key] = side.other().keys(false);
        self.answer_to(key, region, port)
    }

    fn write_port(&mut self, side: Side, region: &Region, port: &[Bit]) -> Decided<()> {
        for (at, byte) in (side.port()..).zip(port.chunks(8)) {
            let field = Field::Header { base: Base::Transport, at };
            self.machine.write(self.universe, region, field, byte)?;
        }
        Ok(())
    }

    /// What answers will have on their other side, where rules ask for it.
    fn answer_to(&mut self, key: CtKey, region: &Region, value: &[Bit]) -> Decided<()> {
        let field = Field::Ct(key, Some(CtDir::Reply));
        match self.universe.has(field) {
            true => self.machine.write(self.universe, region, field, value),
            false => Ok(()),
        }
    }

    /// Checksums follow; what they are then is not known.
    fn sums(&mut self, v6: bool, region: &Region) -> Decided<()> {
        let network = (!v6).then_some([(Base::Network, 10), (Base::Network, 11)]);
        // Of TCP and UDP; where ICMP has its checksum, others have a port.
        let transport = [16, 17, 6, 7].map(|at| (Base::Transport, at));
        for (base, at) in network.into_iter().flatten().chain(transport) {
            let field = Field::Header { base, at };
            let all = self.machine.summed.entry(field);
            let all = all.or_insert_with(|| self.universe.diagrams.none());
            *all = self.universe.diagrams.or(all, region)?;
        }
        Ok(())
    }

    /// Packets of connections that were there before: they get what the connection has in the other
    /// direction.
    fn translate_known(&mut self, side: Side, region: &Region) -> Decided<()> {
        let first = self.universe.holds(Field::Untranslated)?;
        let states = self.universe.bits(Field::CtState)?;
        let d = &self.universe.diagrams;
        let mut with = Vec::new();
        // New ones count as the first.
        for value in [state::ESTABLISHED, state::RELATED] {
            with.push(bits::equal(d, &states, &[value], &[0xff])?);
        }
        let known = d.minus(&d.union(&with)?, &first)?;
        if !d.meet(&known, region)? {
            return Ok(());
        }
        let untracked = self.machine.field(self.universe, Field::Done(Done::Notrack))?;
        let untracked = untracked[0].region(&self.universe.diagrams);
        let untracked = self.universe.diagrams.among(&untracked, region)?;
        let known = self.universe.diagrams.minus(&known, &untracked)?;
        let directions = self.universe.bits(Field::Ct(CtKey::Direction, None))?;
        let status = self.universe.bits(Field::Ct(CtKey::Status, None))?;
        let ports = self.has_ports(true)?;
        let way = self.program.way.as_ref();
        for v6 in [false, true].into_iter().filter(|v6| way.is_some_and(|w| w.translates_of(*v6))) {
            let version = self.version(v6)?;
            for Reversal { direction, status: of, keys } in reversals(side, v6) {
                let d = &self.universe.diagrams;
                let is_so = bits::equal(d, &status, &of.to_be_bytes(), &of.to_be_bytes())?;
                let goes_so = bits::equal(d, &directions, &[direction as u8], &[0xff])?;
                let here = d.and(&d.and(&known, &version)?, &d.and(&is_so, &goes_so)?)?;
                if !d.meet(&here, region)? {
                    continue;
                }
                let [(address, of), (port, _)] = keys;
                let mut value = self.universe.bits(Field::Ct(address, Some(of)))?;
                value.truncate(if v6 { 128 } else { 32 });
                self.write_address(side, v6, &here, &value)?;
                let value = self.universe.bits(Field::Ct(port, Some(of)))?;
                let here = self.universe.diagrams.and(&here, &ports)?;
                self.write_port(side, &here, &value)?;
            }
        }
        Ok(())
    }
}
