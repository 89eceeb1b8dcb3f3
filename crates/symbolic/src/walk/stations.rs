// SPDX-License-Identifier: Apache-2.0

//! Which frames pass a device: by their link addresses, as far as rules ask for them, and by their
//! tags (`eth_type_trans()`, `br_handle_frame()`, `br_handle_frame_finish()`).
//!
//! What bridges have learned is not known: an address that the configuration does not put at a port
//! may be at each port that learns or is flooded.

use penstock_net::FdbEntry;
use penstock_packet::PacketType;
use penstock_program::expr::MetaKey;

use super::Walk;
use super::frames::Framed;
use super::link::asks_destination;
use crate::bits;
use crate::diagram::{Decided, Region};
use crate::field::{Base, Field};
use crate::way::{Crossing, Stage, Way};

impl Walk<'_, '_> {
    /// Packets that can arrive, by the device, by what their frames pass, and by their addresses.
    pub(super) fn can_arrive(&mut self, way: &Way<'_>) -> Decided<Region> {
        let kinds =
            self.universe.has(Field::Meta(MetaKey::PktType)) || asks_destination(self.universe);
        let sources = (6..12).any(|at| self.universe.has(Field::Header { base: Base::Link, at }));
        let mut known = Vec::new();
        for device in way.entrances() {
            let here = self.arriving_on(device)?;
            for of in self.apart(device, way.arriving(device), &here, true)? {
                let mut region = of.region.clone();
                if let Some((number, ids)) = &of.passing.open {
                    let id = self.arrived_id(*number)?;
                    let d = &self.universe.diagrams;
                    let mut open = Vec::new();
                    for (first, last) in ids.ranges() {
                        open.push(d.and(
                            &bits::at_least(d, &id, &short(*first))?,
                            &bits::at_most(d, &id, &short(*last))?,
                        )?);
                    }
                    region = d.and(&region, &d.union(&open)?)?;
                }
                if kinds {
                    let kinds = self.kinds(way, &of)?;
                    region = self.universe.diagrams.and(&region, &kinds)?;
                }
                if sources && let Some(crossing) = &of.passing.crossing {
                    let sources = self.sources(way, crossing)?;
                    region = self.universe.diagrams.and(&region, &sources)?;
                }
                known.push(region);
            }
        }
        self.universe.diagrams.union(&known)
    }

    /// Packets that have an address of the link header, from a byte on.
    fn link_address(&mut self, from: u16, mac: [u8; 6]) -> Decided<Region> {
        let mut address = Vec::new();
        for at in from..from + 6 {
            address.extend(self.universe.bits(Field::Header { base: Base::Link, at })?);
        }
        bits::equal(&self.universe.diagrams, &address, &mac, &[0xff; 6])
    }

    /// Packets for a link address, of those that arrive.
    pub(super) fn sent_to(&mut self, mac: [u8; 6]) -> Decided<Region> {
        self.link_address(0, mac)
    }

    /// Packets to or from groups.
    fn group(&mut self, at: u16) -> Decided<Region> {
        let first = self.universe.bits(Field::Header { base: Base::Link, at })?;
        bits::equal(&self.universe.diagrams, &first, &[1], &[1])
    }

    /// Packets that have the address of an entry of a bridge's forwarding table in the link header,
    /// from a byte on, and are in its VLAN; `is_meant` says of which entries.
    fn at_entries(
        &mut self,
        way: &Way<'_>,
        crossing: &Crossing<'_>,
        from: u16,
        is_meant: impl Fn(&FdbEntry) -> bool,
    ) -> Decided<Region> {
        let mut all = Vec::new();
        for entry in way.network.fdb() {
            let of_it = entry.bridge == crossing.bridge && crossing.vids.has(entry.vid);
            if !of_it || !is_meant(entry) {
                continue;
            }
            let mut region = self.link_address(from, entry.mac.0)?;
            if let Some(number) = crossing.named {
                let id = self.arrived_id(number)?;
                let d = &self.universe.diagrams;
                region = d.and(&region, &bits::equal(d, &id, &short(entry.vid), &[0xff, 0xf0])?)?;
            }
            all.push(region);
        }
        self.universe.diagrams.union(&all)
    }

    /// Packets by `meta pkttype`, as their destination has it.
    fn kinds(&mut self, way: &Way<'_>, of: &Framed<'_>) -> Decided<Region> {
        use PacketType::{Broadcast, Host, Multicast, OtherHost};
        let kind = self.universe.bits(Field::Meta(MetaKey::PktType))?;
        let is = |walk: &Self, of: PacketType| {
            bits::equal(&walk.universe.diagrams, &kind, &[of as u8], &[0xff])
        };
        let (host, other) = (is(self, Host)?, is(self, OtherHost)?);
        let all = self.sent_to([0xff; 6])?;
        let group = self.group(0)?;
        let groups = self.universe.diagrams.minus(&group, &all)?;
        let mut own = Vec::new();
        for mac in self.own_addresses(way, of) {
            own.push(self.sent_to(mac)?);
        }
        let own = self.universe.diagrams.union(&own)?;
        let (multicast, broadcast) = (is(self, Multicast)?, is(self, Broadcast)?);
        let d = &self.universe.diagrams;
        let broadcasts = d.and(&broadcast, &all)?;
        let groups = d.and(&multicast, &groups)?;
        let Some(crossing) = &of.passing.crossing else {
            return d.union(&[groups, broadcasts, d.and(&own, &host)?]);
        };
        // Frames to groups of the link alone are for the port itself.
        let near = self.near_groups()?;
        let groups = self.universe.diagrams.minus(&groups, &near)?;
        let local = self.at_entries(way, crossing, 0, |entry| entry.local)?;
        let d = &self.universe.diagrams;
        let Some(to) = crossing.to else {
            let own = d.and(&d.and(&own, &local)?, &host)?;
            return d.union(&[groups, broadcasts, own]);
        };
        let port = way.network.link(to.link).and_then(|link| link.port.as_ref());
        let bridge = way.network.link(crossing.bridge).and_then(|link| link.bridge());
        let (Some(port), Some(bridge)) = (port, bridge) else { return Ok(d.none()) };
        let one = d.minus(&d.not(&group), &local)?;
        let here = |entry: &FdbEntry| !entry.local && entry.port == to.link;
        let fixed = self.at_entries(way, crossing, 0, |entry| entry.is_static && here(entry))?;
        let elsewhere = self.at_entries(way, crossing, 0, |entry| {
            entry.is_static && !entry.local && entry.port != to.link
        })?;
        let free = match port.flood || port.learning && bridge.ageing != 0 {
            true => self.universe.diagrams.all(),
            false => self.at_entries(way, crossing, 0, here)?,
        };
        let d = &self.universe.diagrams;
        let one = d.and(&one, &d.or(&fixed, &d.minus(&free, &elsewhere)?)?)?;
        let kinds = d.or(&d.and(&own, &host)?, &d.minus(&other, &own)?)?;
        let mut all = vec![d.and(&one, &kinds)?];
        if port.mcast_flood || bridge.snooping.on {
            all.push(groups);
        }
        if port.bcast_flood {
            all.push(broadcasts);
        }
        d.union(&all)
    }

    /// Addresses of the devices that frames pass, the lowest first, and of their bridge.
    fn own_addresses(&self, way: &Way<'_>, of: &Framed<'_>) -> Vec<[u8; 6]> {
        let steps = of.passing.steps.iter().filter(|step| step.stage == Stage::Ingress);
        let links = steps.filter_map(|step| step.iif).map(|device| device.link);
        let links = links.chain(of.passing.crossing.as_ref().map(|crossing| crossing.bridge));
        links.filter_map(|link| way.network.link(link)).map(|link| link.mac.0).collect()
    }

    /// Groups that no bridge sends on, 01:80:c2:00:00:0X.
    fn near_groups(&mut self) -> Decided<Region> {
        let mut address = Vec::new();
        for at in 0..6 {
            address.extend(self.universe.bits(Field::Header { base: Base::Link, at })?);
        }
        let group = [0x01, 0x80, 0xc2, 0, 0, 0];
        let mask = [0xff, 0xff, 0xff, 0xff, 0xff, 0xf0];
        bits::equal(&self.universe.diagrams, &address, &group, &mask)
    }

    /// Packets of stations from which a bridge takes frames at a port.
    fn sources(&mut self, way: &Way<'_>, crossing: &Crossing<'_>) -> Decided<Region> {
        let group = self.group(6)?;
        let none = self.link_address(6, [0; 6])?;
        let d = &self.universe.diagrams;
        let mut region = d.not(&d.or(&group, &none)?);
        let from = crossing.from.map_or(0, |from| from.link);
        let port = way.network.link(from).and_then(|link| link.port.as_ref());
        if port.is_some_and(|port| port.locked) {
            let known = |entry: &FdbEntry| !entry.local && entry.port == from;
            let known = self.at_entries(way, crossing, 6, known)?;
            region = self.universe.diagrams.and(&region, &known)?;
        }
        Ok(region)
    }

    /// `meta pkttype` on the lowest device.
    pub(super) fn first_kinds(&mut self, way: &Way<'_>, arriving: &[Framed<'_>]) -> Decided<()> {
        let field = Field::Meta(MetaKey::PktType);
        if !self.universe.has(field) {
            return Ok(());
        }
        for of in arriving {
            let own = self.own_addresses(way, of);
            let Some(lowest) = own.first().copied() else { continue };
            for own in own.into_iter().filter(|own| *own != lowest) {
                let here = self.sent_to(own)?;
                let here = self.universe.diagrams.and(&here, &of.region)?;
                let other = bits::constant(&[PacketType::OtherHost as u8]);
                self.machine.write(self.universe, &here, field, &other)?;
            }
        }
        Ok(())
    }

    /// Packets for others are the host's own, if they are for the address of a device above.
    pub(super) fn own_kind(&mut self, region: &Region, mac: [u8; 6]) -> Decided<()> {
        let field = Field::Meta(MetaKey::PktType);
        if !self.universe.has(field) {
            return Ok(());
        }
        let kind = self.machine.field(self.universe, field)?;
        let other = [PacketType::OtherHost as u8];
        let others = bits::equal(&self.universe.diagrams, &kind, &other, &[0xff])?;
        let here = self.sent_to(mac)?;
        let d = &self.universe.diagrams;
        let here = d.and(&d.and(&here, &others)?, region)?;
        self.machine.write(self.universe, &here, field, &bits::constant(&[0]))
    }
}

/// A VLAN ID in the first 12 of 16 bits.
fn short(id: u16) -> [u8; 2] {
    (id << 4).to_be_bytes()
}
