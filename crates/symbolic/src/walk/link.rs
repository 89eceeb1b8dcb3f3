// SPDX-License-Identifier: Apache-2.0

//! The link layer of a way: devices that frames pass before IP gets their packets and after it has
//! sent them, with their link headers (`__netif_receive_skb_core()`, `__dev_queue_xmit()`).

use std::collections::BTreeSet;
use std::ops::Range;

use penstock_program::Hook;
use penstock_program::expr::MetaKey;
use penstock_wire::ethernet;

use super::journey::Live;
use super::{Failure, Walk};
use crate::bits::{self, Bit};
use crate::diagram::{Decided, Region};
use crate::field::{Base, Field};
use crate::machine::{Hidden, Machine};
use crate::program::{Program, reachable};
use crate::universe::Universe;
use crate::way::{Device, Level, Tag, Way};

/// Bytes of the link addresses.
const ADDRESSES: u16 = 12;
/// Bytes of a tag.
const TAG: u16 = 4;

/// What rules ask of link headers.
#[derive(Default)]
pub(super) struct Asked {
    /// Bytes after the addresses.
    bytes: BTreeSet<u16>,
    /// Lengths.
    present: BTreeSet<u16>,
}

impl Asked {
    pub(super) fn by(program: &Program<'_>) -> Asked {
        let mut asked = Asked::default();
        for rule in reachable(program) {
            for load in program.image.ops_at(rule).iter().filter_map(|op| op.header_load()) {
                let end = load.offset.saturating_add(load.len.into());
                if load.base == Base::Link {
                    asked.bytes.extend(load.offset.max(ADDRESSES)..end);
                    asked.present.insert(end);
                }
            }
        }
        asked
    }

    fn is_empty(&self) -> bool {
        self.present.is_empty()
    }
}

/// Packets whose link headers have the same tags.
#[derive(Clone)]
pub(super) struct Tagged {
    pub(super) region: Region,
    /// The outermost first, each with the bits before its ID: priority and drop eligibility.
    pub(super) tags: Vec<(Tag, Vec<Bit>)>,
}

/// A device of arrival with its packets and the devices that they pass.
struct Arriving<'w> {
    region: Region,
    levels: Vec<Level<'w>>,
}

impl Arriving<'_> {
    /// Where its packets are after some steps.
    fn at(&self, step: usize) -> Option<&Level<'_>> {
        self.levels.get(step.min(self.levels.len() - 1))
    }
}

impl Walk<'_, '_> {
    /// Ingress of all devices that packets pass, the lowest first.
    pub(super) fn ingress(&mut self, way: &Way<'_>, live: Live) -> Result<Live, Failure> {
        let known = self.universe.by_arrival();
        let known = self.limit(known)?;
        let arriving: Vec<Arriving<'_>> = known
            .into_iter()
            .filter_map(|(device, region)| {
                let of_way = way.device(device.link).filter(|of| of.index == device.index)?;
                Some(Arriving { region, levels: way.levels(of_way) })
            })
            .collect();
        let passages: Vec<_> = way.of_devices(Hook::Ingress).collect();
        let steps = arriving.iter().map(|of| of.levels.len()).max().unwrap_or(0);
        let mut live = live;
        let kind = self.first_kinds(way, &arriving);
        self.limit(kind)?;
        for step in 0..steps {
            let climbed = self.climb(way, &arriving, step);
            self.limit(climbed)?;
            for (index, passage) in &passages {
                let here = arriving.iter().filter(|of| {
                    of.levels.get(step).is_some_and(|level| level.device.index == *index)
                });
                let here: Vec<Region> = here.map(|of| of.region.clone()).collect();
                if !here.is_empty() {
                    let here = self.limit(self.universe.diagrams.union(&here))?;
                    live = self.pass_some(passage, live, &here)?;
                }
            }
        }
        Ok(live)
    }

    /// Says of packets that arrive where they are after some steps up.
    fn climb(&mut self, way: &Way<'_>, arriving: &[Arriving<'_>], step: usize) -> Decided<()> {
        let is_flat = arriving.iter().all(|of| of.levels.len() == 1);
        if is_flat {
            let plain = Tagged { region: self.universe.diagrams.all(), tags: Vec::new() };
            return self.say_link(&[plain]);
        }
        let devices: Vec<(Device, Region)> = arriving
            .iter()
            .filter_map(|of| Some((of.at(step)?.device.clone(), of.region.clone())))
            .collect();
        let known = self.universe.device_bits(&devices)?;
        self.machine.writes.extend(known);
        let mut tagged: Vec<Tagged> = Vec::new();
        for of in arriving {
            let Some(level) = of.at(step) else { continue };
            let taken = of.levels[0].tags.len() - level.tags.len();
            match tagged.iter_mut().find(|known| known.has(&level.tags)) {
                Some(known) => {
                    known.region = self.universe.diagrams.or(&known.region, &of.region)?
                }
                None => {
                    let mut tags = Vec::new();
                    for (number, tag) in (taken..).zip(&level.tags) {
                        tags.push((*tag, self.code(number)?));
                    }
                    tagged.push(Tagged { region: of.region.clone(), tags });
                }
            }
        }
        self.say_link(&tagged)?;
        if step == 0 {
            return Ok(());
        }
        // `vlan_do_receive()`.
        let field = Field::Meta(MetaKey::Priority);
        let up = arriving.iter().filter(|of| step < of.levels.len());
        let up: Vec<Region> = up.map(|of| of.region.clone()).collect();
        let up = self.universe.diagrams.union(&up)?;
        self.machine.write(self.universe, &up, field, &bits::constant(&[0; 4]))?;
        for of in arriving.iter().filter(|of| step < of.levels.len()) {
            let below = &of.levels[step - 1];
            let Some(tag) = below.tags.first() else { continue };
            let Some(link) = way.network.link(tag.link) else { continue };
            let taken = of.levels[0].tags.len() - below.tags.len();
            let map = link.vlan().map_or(&[][..], |vlan| &vlan.ingress_qos);
            for (code, priority) in map {
                let known = self.code(taken)?;
                let d = &self.universe.diagrams;
                let here = bits::equal(d, &known[..3], &[code << 5], &[0xe0])?;
                let here = d.and(&here, &of.region)?;
                let priority = bits::constant(&priority.to_be_bytes());
                self.machine.write(self.universe, &here, field, &priority)?;
            }
            self.own_kind(&of.region, link.mac.0)?;
        }
        Ok(())
    }

    /// Priority and drop eligibility in a tag that packets arrive with, by its number from the
    /// outside.
    fn code(&mut self, number: usize) -> Decided<Vec<Bit>> {
        let at = ADDRESSES + 2 + TAG * number as u16;
        let byte = self.universe.bits(Field::Header { base: Base::Link, at })?;
        Ok(byte[..4].to_vec())
    }

    /// Packets for a link address, of those that arrive.
    pub(super) fn sent_to(&mut self, mac: [u8; 6]) -> Decided<Region> {
        let mut destination = Vec::new();
        for at in 0..6 {
            destination.extend(self.universe.bits(Field::Header { base: Base::Link, at })?);
        }
        bits::equal(&self.universe.diagrams, &destination, &mac, &[0xff; 6])
    }

    /// `meta pkttype` on the lowest device (`eth_type_trans()`).
    fn first_kinds(&mut self, way: &Way<'_>, arriving: &[Arriving<'_>]) -> Decided<()> {
        let field = Field::Meta(MetaKey::PktType);
        if !self.universe.has(field) {
            return Ok(());
        }
        for of in arriving {
            let mac =
                |level: &Level<'_>| way.network.link(level.device.link).map(|link| link.mac.0);
            let Some(lowest) = of.levels.first().and_then(mac) else { continue };
            for own in of.levels[1..].iter().filter_map(mac).filter(|own| *own != lowest) {
                let here = self.sent_to(own)?;
                let here = self.universe.diagrams.and(&here, &of.region)?;
                let other = bits::constant(&[penstock_packet::PacketType::OtherHost as u8]);
                self.machine.write(self.universe, &here, field, &other)?;
            }
        }
        Ok(())
    }

    /// Packets for others are the host's own, if they are for the address of a device above.
    fn own_kind(&mut self, region: &Region, mac: [u8; 6]) -> Decided<()> {
        let field = Field::Meta(MetaKey::PktType);
        if !self.universe.has(field) {
            return Ok(());
        }
        let kind = self.machine.field(self.universe, field)?;
        let other = [penstock_packet::PacketType::OtherHost as u8];
        let others = bits::equal(&self.universe.diagrams, &kind, &other, &[0xff])?;
        let here = self.sent_to(mac)?;
        let d = &self.universe.diagrams;
        let here = d.and(&d.and(&here, &others)?, region)?;
        self.machine.write(self.universe, &here, field, &bits::constant(&[0]))
    }

    /// Packets by `meta pkttype`, as their destination has it: of those that are for the host, or
    /// for a group.
    pub(super) fn kinds(&mut self, way: &Way<'_>) -> Decided<Region> {
        use penstock_packet::PacketType::{Broadcast, Host, Multicast};
        let kind = self.universe.bits(Field::Meta(MetaKey::PktType))?;
        let is = |walk: &Self, of: penstock_packet::PacketType| {
            bits::equal(&walk.universe.diagrams, &kind, &[of as u8], &[0xff])
        };
        let all = self.sent_to([0xff; 6])?;
        let first = self.universe.bits(Field::Header { base: Base::Link, at: 0 })?;
        let group = bits::equal(&self.universe.diagrams, &first, &[1], &[1])?;
        let d = &self.universe.diagrams;
        let groups = d.and(&is(self, Multicast)?, &d.minus(&group, &all)?)?;
        let broadcasts = d.and(&is(self, Broadcast)?, &all)?;
        let mut kinds = vec![groups, broadcasts];
        for device in way.arrivals() {
            let here = self.arriving_on(device)?;
            for level in way.levels(device) {
                let Some(link) = way.network.link(level.device.link) else { continue };
                let own = self.sent_to(link.mac.0)?;
                kinds.push(self.universe.diagrams.and(&here, &own)?);
            }
        }
        let own = self.universe.diagrams.union(&kinds[2..])?;
        let own = self.universe.diagrams.and(&own, &is(self, Host)?)?;
        kinds.truncate(2);
        kinds.push(own);
        self.universe.diagrams.union(&kinds)
    }

    /// Says what link headers have after the addresses, what packets then are, and what is not
    /// looked at behind several tags.
    pub(super) fn say_link(&mut self, tagged: &[Tagged]) -> Decided<()> {
        self.machine.hidden.clear();
        let six = self.version(true)?;
        let [four, other] = [ethernet::IPV4, ethernet::IPV6].map(|of| of.to_be_bytes());
        let mut ethertype = bits::constant(&four);
        for (bit, other) in ethertype.iter_mut().zip(bits::constant(&other)) {
            *bit = bit.replaced(&six, &other, &self.universe.diagrams)?;
        }
        let mut protocol = ethertype.clone();
        self.machine.writes.remove(&Field::Transport);
        for of in tagged.iter().filter(|of| of.tags.len() > 1) {
            self.machine.write(self.universe, &of.region, Field::Transport, &[Bit::ZERO])?;
            let inner = bits::constant(&of.tags[1].0.protocol.to_be_bytes());
            for (bit, value) in protocol.iter_mut().zip(&inner) {
                *bit = bit.replaced(&of.region, value, &self.universe.diagrams)?;
            }
            for base in [Base::Network, Base::Transport] {
                self.machine.hidden.push(Hidden {
                    base,
                    bytes: 0..u16::MAX,
                    region: of.region.clone(),
                    reason: "it looks behind several VLAN tags",
                });
            }
        }
        self.machine.writes.insert(Field::Meta(MetaKey::Protocol), protocol);
        if self.asked_link.is_empty() {
            return Ok(());
        }
        for at in self.asked_link.bytes.clone() {
            let mut value = vec![Bit::ZERO; 8];
            for of in tagged {
                let byte = link_byte(at, of, &ethertype);
                for (bit, byte) in value.iter_mut().zip(&byte) {
                    *bit = bit.replaced(&of.region, byte, &self.universe.diagrams)?;
                }
            }
            self.machine.writes.insert(Field::Header { base: Base::Link, at }, value);
        }
        for bytes in &self.asked_link.present {
            let field = Field::Present { base: Base::Link, bytes: *bytes };
            self.machine.writes.insert(field, vec![Bit::Known(true)]);
        }
        for of in tagged {
            self.machine.hidden.push(Hidden {
                base: Base::Link,
                bytes: ADDRESSES + 2 + TAG * of.tags.len() as u16..u16::MAX,
                region: of.region.clone(),
                reason: "it looks past the link header",
            });
        }
        Ok(())
    }

    /// That packets have no link header, as those have that the host sends, until a device sends
    /// them.
    pub(super) fn no_link(&mut self) {
        for bytes in &self.asked_link.present {
            let field = Field::Present { base: Base::Link, bytes: *bytes };
            self.machine.writes.insert(field, vec![Bit::ZERO]);
        }
    }

    /// Egress of a device and of those below it, and what the frames are there.
    pub(super) fn egress(
        &mut self,
        way: &Way<'_>,
        device: u32,
        live: Live,
    ) -> Result<Live, Failure> {
        let Some(device) = way.devices.iter().find(|of| of.index == device) else {
            return Ok(live);
        };
        let passages: Vec<_> = way.of_devices(Hook::Egress).collect();
        let levels = way.levels(device);
        if !levels.iter().any(|level| passages.iter().any(|(of, _)| *of == level.device.index)) {
            return Ok(live);
        }
        self.universe.place.hook = Hook::Egress;
        self.untranslated = None;
        self.no_arrival();
        if let Some(link) = way.network.link(device.link) {
            for (at, byte) in (6..).zip(link.mac.0) {
                let field = Field::Header { base: Base::Link, at };
                self.machine.writes.insert(field, bits::constant(&[byte]));
            }
        }
        let mut live = live;
        let mut tags = Vec::new();
        for level in levels.iter().rev() {
            if let Some(tag) = level.tags.first() {
                let code = self.code_by_priority(way, tag);
                tags.insert(0, (*tag, self.limit(code)?));
            }
            self.say_way_out(way, level.device.index);
            let all = self.universe.diagrams.all();
            let kinds = self.kinds_of_way_out(&all);
            self.limit(kinds)?;
            let said = self.say_link(&[Tagged { region: all.clone(), tags: tags.clone() }]);
            self.limit(said)?;
            self.hide_next(&all);
            for (_, passage) in passages.iter().filter(|(of, _)| *of == level.device.index) {
                live = self.through(passage, live)?;
            }
        }
        self.machine.hidden.clear();
        Ok(live)
    }

    /// Devices and link header are again as they were; what chains have written stays.
    pub(super) fn forget_devices(&mut self, before: Machine) {
        let is_of_link = |field: &Field| match field {
            Field::Header { base: Base::Link, .. } | Field::Present { base: Base::Link, .. } => {
                true
            }
            Field::HasMeta(_) | Field::Transport => true,
            Field::Meta(key) => matches!(
                key,
                MetaKey::Iif
                    | MetaKey::IifName
                    | MetaKey::IifKind
                    | MetaKey::IifType
                    | MetaKey::IifGroup
                    | MetaKey::Oif
                    | MetaKey::OifName
                    | MetaKey::OifKind
                    | MetaKey::OifType
                    | MetaKey::OifGroup
                    | MetaKey::Protocol
            ),
            _ => false,
        };
        self.machine.writes.retain(|field, _| !is_of_link(field));
        let known = before.writes.into_iter().filter(|(field, _)| is_of_link(field));
        self.machine.writes.extend(known);
    }

    /// Neighbours are not looked at: nobody knows the link address that frames are sent to.
    fn hide_next(&mut self, all: &Region) {
        self.machine.hidden.push(Hidden {
            base: Base::Link,
            bytes: Range { start: 0, end: 6 },
            region: all.clone(),
            reason: "it asks for the link address of the next hop",
        });
    }

    /// On the way out of a device the device of arrival is not known.
    fn no_arrival(&mut self) {
        use MetaKey::{Iif, IifGroup, IifKind, IifName};
        for key in [Iif, IifName, IifKind, IifGroup] {
            let field = Field::Meta(key);
            self.machine.writes.insert(field, vec![Bit::ZERO; field.width() as usize]);
        }
        self.machine.writes.insert(Field::HasMeta(Iif), vec![Bit::ZERO]);
    }

    /// Priority and drop eligibility in the tag that a VLAN device gives frames
    /// (`vlan_dev_get_egress_qos_mask()`).
    fn code_by_priority(&mut self, way: &Way<'_>, tag: &Tag) -> Decided<Vec<Bit>> {
        let mut code = vec![Bit::ZERO; 4];
        let vlan = way.network.link(tag.link).and_then(|link| link.vlan());
        for (priority, of) in vlan.map_or(&[][..], |vlan| &vlan.egress_qos) {
            let known = self.machine.field(self.universe, Field::Meta(MetaKey::Priority))?;
            let d = &self.universe.diagrams;
            let here = bits::equal(d, &known, &priority.to_be_bytes(), &[0xff; 4])?;
            for (bit, value) in code.iter_mut().zip(bits::constant(&[of << 5])) {
                *bit = bit.replaced(&here, &value, d)?;
            }
        }
        Ok(code)
    }
}

impl Tagged {
    fn has(&self, tags: &[Tag]) -> bool {
        self.tags.len() == tags.len() && self.tags.iter().zip(tags).all(|((a, _), b)| a == b)
    }
}

/// A byte of the link header after the addresses, as if the tags stood in it; zero past its end.
fn link_byte(at: u16, of: &Tagged, ethertype: &[Bit]) -> Vec<Bit> {
    let from = at - ADDRESSES;
    let (number, part) = (usize::from(from / TAG), usize::from(from % TAG));
    if let Some((tag, code)) = of.tags.get(number) {
        let id = bits::constant(&tag.id.to_be_bytes());
        let protocol = bits::constant(&tag.protocol.to_be_bytes());
        return match part {
            0 => protocol[..8].to_vec(),
            1 => protocol[8..].to_vec(),
            2 => [code, &id[4..8]].concat(),
            _ => id[8..].to_vec(),
        };
    }
    match from - TAG * of.tags.len() as u16 {
        0 => ethertype[..8].to_vec(),
        1 => ethertype[8..].to_vec(),
        _ => vec![Bit::ZERO; 8],
    }
}

/// Whether rules look at the link addresses that packets arrive with.
pub(super) fn asks_destination(universe: &Universe) -> bool {
    universe.has(Field::Header { base: Base::Link, at: 0 })
}
