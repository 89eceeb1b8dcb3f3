// SPDX-License-Identifier: Apache-2.0

//! The link layer of a way: devices, bridges and their chains that frames pass before IP gets their
//! packets, after it has sent them, and in place of it.

use std::collections::HashMap;

use penstock_program::Hook;
use penstock_program::expr::MetaKey;

use super::link::Tagged;
use super::live::Live;
use super::way_out::of_device;
use super::{Failure, Left, Walk};
use crate::bits::{self, Bit};
use crate::diagram::{Decided, Region};
use crate::fate::{End, Refusal};
use crate::field::{Field, Input, What, state};
use crate::way::{Code, Device, Id, Passage, Passing, Stage, Step, Tag, Way};

/// Packets with what their frames pass.
pub(super) struct Framed<'w> {
    pub(super) region: Region,
    pub(super) passing: Passing<'w>,
}

impl Framed<'_> {
    /// Where the frames are after some steps, or after the last one.
    fn at(&self, number: usize) -> &Step<'_> {
        &self.passing.steps[number.min(self.passing.steps.len() - 1)]
    }

    /// The step that the frames make now, if they make one.
    fn step(&self, number: usize) -> Option<&Step<'_>> {
        self.passing.steps.get(number)
    }
}

/// Priority and drop eligibility that VLAN devices gave frames: by the number of the frames and the
/// link of the device.
type Given = HashMap<(usize, u32), Vec<Bit>>;

impl Walk<'_, '_> {
    /// Packets of a region by what their frames pass to come to a device, or to leave by it.
    pub(super) fn apart<'w>(
        &mut self,
        device: &Device,
        passings: Vec<Passing<'w>>,
        region: &Region,
        arrive: bool,
    ) -> Decided<Vec<Framed<'w>>> {
        if passings.len() < 2 {
            let all = passings.into_iter();
            return Ok(all.map(|passing| Framed { region: region.clone(), passing }).collect());
        }
        let input = self.frames_input(device, &passings, arrive);
        let number = self.universe.bits(Field::Input(input))?;
        let mut all = Vec::new();
        for (at, passing) in (0u16..).zip(passings) {
            let d = &self.universe.diagrams;
            let chosen = bits::equal(d, &number, &at.to_be_bytes(), &[0xff; 2])?;
            all.push(Framed { region: d.and(region, &chosen)?, passing });
        }
        Ok(all)
    }

    fn frames_input(&mut self, device: &Device, all: &[Passing<'_>], arrive: bool) -> Input {
        let name = frames_name(device, all, arrive);
        let input = self.universe.choice(What::Frames, &bits::constant(&name));
        self.universe.bound(input, 0, all.len() as u32 - 1);
        let arrival = arrive.then_some(device.interface.name);
        self.universe.call_choices(input, arrival, || all.iter().map(Passing::words).collect());
        input
    }

    /// What frames pass that arrive, by the few bits that tell devices apart.
    pub(super) fn arriving<'w>(&mut self, way: &'w Way<'_>) -> Decided<Vec<Framed<'w>>> {
        let mut all = Vec::new();
        for (device, region) in self.universe.by_arrival()? {
            let of_way = way.device(device.link).filter(|of| of.index == device.index);
            if let Some(device) = of_way {
                all.extend(self.apart(device, way.arriving(device), &region, true)?);
            }
        }
        Ok(all)
    }

    /// All stages before IP; and of packets that a bridge forwards, all.
    pub(super) fn ingress(
        &mut self,
        way: &Way<'_>,
        arriving: &[Framed<'_>],
        live: Live,
    ) -> Result<Live, Failure> {
        let kinds = self.first_kinds(way, arriving);
        self.limit(kinds)?;
        let before = self.machine.clone();
        let live = self.follow(way, arriving, live)?;
        self.forget_devices(before);
        let plain = Tagged { region: self.universe.diagrams.all(), tags: Vec::new() };
        let said = self.say_link(&[plain]);
        self.limit(said)?;
        Ok(live)
    }

    /// Ends packets that bridges have forwarded; the others.
    pub(super) fn forwarded(
        &mut self,
        arriving: &[Framed<'_>],
        live: Live,
    ) -> Result<Live, Failure> {
        let mut by_device: Vec<(&Device, Vec<Region>)> = Vec::new();
        for of in arriving {
            let Some(device) = of.passing.leaves() else { continue };
            match by_device.iter_mut().find(|(known, _)| known.index == device.index) {
                Some((_, regions)) => regions.push(of.region.clone()),
                None => by_device.push((device, vec![of.region.clone()])),
            }
        }
        let mut live = live;
        for (device, regions) in by_device {
            let region = self.limit(self.universe.diagrams.union(&regions))?;
            let end = End::Leaves(device.index);
            self.note_routed(end, &region);
            let mut values = self.machine.writes.clone();
            values.extend(of_device(device));
            self.passed.left.push(Left { region: region.clone(), device: device.index, values });
            self.end_some(&live, &region, end)?;
            live = self.without(&live, &region)?;
        }
        Ok(live)
    }

    /// All stages after IP on the way out by a device.
    pub(super) fn egress(
        &mut self,
        way: &Way<'_>,
        device: u32,
        live: Live,
    ) -> Result<Live, Failure> {
        let Some(device) = way.devices.iter().find(|of| of.index == device) else {
            return Ok(live);
        };
        let passings = way.leaving(device);
        if passings.is_empty() {
            let all = live.region.clone();
            self.end_some(&live, &all, End::Refused(Refusal::NoPort))?;
            return self.without(&live, &all);
        }
        let mut steps = passings.iter().flat_map(|of| &of.steps);
        if !steps.any(|step| way.passage_at(step).is_some()) {
            return Ok(live);
        }
        self.sent_by(way, device);
        let all = self.universe.diagrams.all();
        let leaving = self.apart(device, passings, &all, false);
        let leaving = self.limit(leaving)?;
        let live = self.follow(way, &leaving, live)?;
        self.machine.hidden.clear();
        Ok(live)
    }

    /// Passes packets through the chains of all their steps.
    fn follow(
        &mut self,
        way: &Way<'_>,
        framed: &[Framed<'_>],
        live: Live,
    ) -> Result<Live, Failure> {
        let steps = framed.iter().map(|of| of.passing.steps.len()).max().unwrap_or(0);
        // Devices below others, and bridges, are told of where there are any.
        let arrive = framed.iter().all(|of| of.at(0).stage == Stage::Ingress);
        let is_flat = steps == 1 && arrive;
        let mut given = Given::new();
        let mut live = live;
        for number in 0..steps {
            let said = match is_flat {
                true => {
                    let all = self.universe.diagrams.all();
                    self.say_link(&[Tagged { region: all, tags: Vec::new() }])
                }
                false => self.place(way, framed, number, &mut given),
            };
            self.limit(said)?;
            if !arrive {
                self.hide_next();
            }
            let mut passages: Vec<(&Passage, Vec<Region>)> = Vec::new();
            for of in framed {
                let Some(passage) = of.step(number).and_then(|step| way.passage_at(step)) else {
                    continue;
                };
                match passages.iter_mut().find(|(known, _)| std::ptr::eq(*known, passage)) {
                    Some((_, regions)) => regions.push(of.region.clone()),
                    None => passages.push((passage, vec![of.region.clone()])),
                }
            }
            for (passage, regions) in passages {
                let here = self.limit(self.universe.diagrams.union(&regions))?;
                live = self.pass_some(passage, live, &here)?;
            }
        }
        Ok(live)
    }

    /// Says of packets where they are at a step: devices, bridges, tags.
    fn place(
        &mut self,
        way: &Way<'_>,
        framed: &[Framed<'_>],
        number: usize,
        given: &mut Given,
    ) -> Decided<()> {
        self.place_arrival(framed, number)?;
        self.place_way_out(framed, number)?;
        if self.asked_link.bridge {
            self.place_bridge(way, framed, number)?;
        }
        let mut tagged: Vec<Tagged> = Vec::new();
        for (which, of) in framed.iter().enumerate() {
            let mut tags = Vec::new();
            for tag in &of.at(number).tags {
                tags.push((tag.protocol, self.control(way, which, tag, given)?));
            }
            match tagged.iter_mut().find(|known| known.tags == tags) {
                Some(known) => {
                    known.region = self.universe.diagrams.or(&known.region, &of.region)?;
                }
                None => tagged.push(Tagged { region: of.region.clone(), tags }),
            }
        }
        // Where there is one kind of frames, it is that of packets that are none of them, too.
        if let [only] = &mut tagged[..] {
            only.region = self.universe.diagrams.all();
        }
        self.say_link(&tagged)?;
        self.tags_taken(way, framed, number)?;
        self.known_to_bridges(framed, number)
    }

    /// The tag control information of a tag.
    fn control(
        &mut self,
        way: &Way<'_>,
        which: usize,
        tag: &Tag,
        given: &mut Given,
    ) -> Decided<Vec<Bit>> {
        let mut control = match tag.code {
            Code::Arrived(number) => self.code(number)?,
            Code::Zero => vec![Bit::ZERO; 4],
            Code::Given(link) => match given.get(&(which, link)) {
                Some(code) => code.clone(),
                None => {
                    let code = self.code_by_priority(way, link)?;
                    given.insert((which, link), code.clone());
                    code
                }
            },
        };
        control.extend(match tag.id {
            Id::Known(id) => bits::constant(&id.to_be_bytes())[4..].to_vec(),
            Id::Arrived(number) => self.arrived_id(number)?,
        });
        Ok(control)
    }

    /// The device of arrival, as rules see it.
    fn place_arrival(&mut self, framed: &[Framed<'_>], number: usize) -> Decided<()> {
        let here = framed.iter().filter_map(|of| Some((of.at(number).iif?.clone(), &of.region)));
        let here: Vec<(Device, Region)> =
            here.map(|(device, region)| (device, region.clone())).collect();
        if here.is_empty() {
            self.no_arrival();
            return Ok(());
        }
        let without = framed.iter().filter(|of| of.at(number).iif.is_none());
        let without: Vec<Region> = without.map(|of| of.region.clone()).collect();
        let without = self.universe.diagrams.union(&without)?;
        let mut known = self.universe.device_bits(&here)?;
        let there = self.universe.diagrams.not(&without);
        for bit in known.iter_mut().flat_map(|(_, bits)| bits) {
            *bit = bit.replaced(&without, &Bit::ZERO, &self.universe.diagrams)?;
        }
        known.push((Field::HasMeta(MetaKey::Iif), vec![Bit::of(there)]));
        self.machine.writes.extend(known);
        Ok(())
    }

    /// The device on the way out, as rules see it.
    fn place_way_out(&mut self, framed: &[Framed<'_>], number: usize) -> Decided<()> {
        self.no_way_out();
        let mut by_device: Vec<(&Device, Vec<Region>)> = Vec::new();
        for of in framed {
            let Some(device) = of.at(number).oif else { continue };
            match by_device.iter_mut().find(|(known, _)| known.index == device.index) {
                Some((_, regions)) => regions.push(of.region.clone()),
                None => by_device.push((device, vec![of.region.clone()])),
            }
        }
        if let [(device, regions)] = &by_device[..]
            && regions.len() == framed.len()
        {
            self.machine.writes.extend(of_device(device));
        } else {
            for (device, regions) in by_device {
                let region = self.universe.diagrams.union(&regions)?;
                for (field, value) in of_device(device) {
                    self.machine.write(self.universe, &region, field, &value)?;
                }
            }
        }
        let late = framed.iter().filter(|of| {
            matches!(of.at(number).stage, Stage::Egress | Stage::Bridge(Hook::Postrouting))
        });
        let late: Vec<Region> = late.map(|of| of.region.clone()).collect();
        let late = match late.len() == framed.len() {
            true => self.universe.diagrams.all(),
            false => self.universe.diagrams.union(&late)?,
        };
        self.kinds_of_way_out(&late)
    }

    /// What rules ask of bridges: their names, and what the port of arrival says of VLANs.
    fn place_bridge(&mut self, way: &Way<'_>, framed: &[Framed<'_>], number: usize) -> Decided<()> {
        use MetaKey::{BriIifHwAddr, BriIifName, BriIifPvid, BriIifVproto, BriOifName};
        for key in [BriIifName, BriOifName, BriIifPvid, BriIifVproto, BriIifHwAddr] {
            let field = Field::Meta(key);
            self.machine.writes.insert(field, vec![Bit::ZERO; field.width() as usize]);
            self.machine.writes.insert(Field::HasMeta(key), vec![Bit::ZERO]);
        }
        for of in framed {
            let step = of.at(number);
            let port = |device: Option<&Device>| way.as_port(device?.link);
            if let Some(port) = port(step.iif) {
                let mut known =
                    vec![(BriIifName, port.bridge.to_vec()), (BriIifHwAddr, port.address.to_vec())];
                if let Some((pvid, protocol)) = port.vlan {
                    known.push((BriIifPvid, pvid.to_be_bytes().to_vec()));
                    known.push((BriIifVproto, protocol.to_be_bytes().to_vec()));
                }
                for (key, bytes) in known {
                    let value = bits::constant(&bytes);
                    self.machine.write(self.universe, &of.region, Field::Meta(key), &value)?;
                    let there = [Bit::Known(true)];
                    self.machine.write(self.universe, &of.region, Field::HasMeta(key), &there)?;
                }
            }
            if let Some(port) = port(step.oif) {
                let value = bits::constant(&port.bridge);
                self.machine.write(self.universe, &of.region, Field::Meta(BriOifName), &value)?;
            }
        }
        Ok(())
    }

    /// What VLAN devices say of packets whose tags they have taken (`vlan_do_receive()`), and
    /// devices whose address frames are sent to.
    fn tags_taken(&mut self, way: &Way<'_>, framed: &[Framed<'_>], number: usize) -> Decided<()> {
        let field = Field::Meta(MetaKey::Priority);
        for of in framed {
            let Some(step) = of.step(number) else { continue };
            if let Some((link, tag)) = step.taken {
                let zero = bits::constant(&[0; 4]);
                self.machine.write(self.universe, &of.region, field, &zero)?;
                let vlan = way.network.link(link).and_then(|link| link.vlan());
                for (code, priority) in vlan.map_or(&[][..], |vlan| &vlan.ingress_qos) {
                    let known = match tag.code {
                        Code::Arrived(number) => self.code(number)?,
                        Code::Zero | Code::Given(_) => vec![Bit::ZERO; 4],
                    };
                    let d = &self.universe.diagrams;
                    let here = bits::equal(d, &known[..3], &[code << 5], &[0xe0])?;
                    let here = d.and(&here, &of.region)?;
                    let priority = bits::constant(&priority.to_be_bytes());
                    self.machine.write(self.universe, &here, field, &priority)?;
                }
            }
            if let Some(own) = step.own {
                self.own_kind(&of.region, own)?;
            }
        }
        Ok(())
    }

    /// Packets that a bridge has tracked have their connection before IP sees them; a new one of
    /// packets that are not for this host alone is forgotten (`nf_ct_bridge_in()`).
    fn known_to_bridges(&mut self, framed: &[Framed<'_>], number: usize) -> Decided<()> {
        if !self.bridges_track {
            return Ok(());
        }
        let handed_up = framed.iter().filter(|of| {
            let before = number.checked_sub(1).and_then(|last| of.step(last));
            before.is_some_and(|step| step.stage == Stage::Bridge(Hook::Input))
        });
        let handed_up: Vec<Region> = handed_up.map(|of| of.region.clone()).collect();
        if handed_up.is_empty() {
            return Ok(());
        }
        let mut known = self.universe.diagrams.union(&handed_up)?;
        let kind = Field::Meta(MetaKey::PktType);
        if self.universe.has(kind) {
            let kind = self.machine.field(self.universe, kind)?;
            let states = self.universe.bits(Field::CtState)?;
            let d = &self.universe.diagrams;
            let host = bits::equal(d, &kind, &[0], &[0xff])?;
            let new = bits::equal(d, &states, &[state::NEW], &[0xff])?;
            known = d.minus(&known, &d.minus(&new, &host)?)?;
        }
        let field = Field::CtBefore;
        self.machine.write(self.universe, &known, field, &[Bit::Known(true)])
    }
}

/// What the network calls the choice among passings of a device.
pub(crate) fn frames_name(device: &Device, all: &[Passing<'_>], arrive: bool) -> Vec<u8> {
    let mut name = vec![u8::from(arrive)];
    name.extend(device.link.to_be_bytes());
    name.extend(all.iter().flat_map(Passing::name));
    name
}
