// SPDX-License-Identifier: Apache-2.0

//! The way of packets through a network: from where they arrive, or the host sends them, from hook
//! to hook to where they end.
//!
//! There is one machine for the whole way: what a chain writes, a translation or routing changes,
//! later chains and routing see. All of it is a function of the packet as it came.

use std::collections::HashMap;

use penstock_packet::PacketType;
use penstock_program::Hook;
use penstock_program::expr::MetaKey;

use super::link::Asked;
use super::live::Live;
use super::routed::Out;
use super::translation::Moved;
use super::{Failure, Left, Walk, Walked};
use crate::bits::{self, Bit};
use crate::diagram::{Decided, Region};
use crate::fate::{End, Refusal};
use crate::field::{Base, Done, Field};
use crate::machine::Machine;
use crate::program::{bridges_track, looks_at_hops, written_fields};
use crate::way::{Start, Way};

impl Walk<'_, '_> {
    /// The whole way of the packets of a region.
    pub(super) fn journey(&mut self, way: &Way<'_>, enter: &Region) -> Walked {
        // What is impossible is left out at the end: on the way regions are simpler with it.
        let mut region = enter.clone();
        if self.universe.has_several_ways() {
            let here = self.looked_at(way);
            let here = self.limit(here)?;
            region = self.limit(self.universe.diagrams.and(enter, &here))?;
            let absent = self.limit(self.universe.diagrams.minus(enter, &region))?;
            self.decide(absent, End::Refused(Refusal::Absent), None);
        }
        self.no_way_out();
        self.asked_link = Asked::by(self.program);
        self.bridges_track = bridges_track(self.program);
        if way.start == Start::Arrival {
            let known = self.universe.by_arrival();
            let known = self.limit(known)?;
            let known = self.universe.device_bits(&known);
            self.machine.writes.extend(self.limit(known)?);
        } else {
            self.no_link();
        }
        let first = self.first_tuples(&region);
        self.limit(first)?;
        let live = Live::undecided(region);
        match way.start {
            Start::Arrival => self.arrive(way, live)?,
            Start::Host => self.send(way, live)?,
        }
        let told = self.all_told();
        self.machine.writes = self.limit(told)?;
        Ok(())
    }

    /// What a packet finds that arrives.
    fn arrive(&mut self, way: &Way<'_>, live: Live) -> Walked {
        let arriving = self.arriving(way);
        let arriving = self.limit(arriving)?;
        let live = self.ingress(way, &arriving, live)?;
        let mut live = self.forwarded(&arriving, live)?;
        let refused = self.refused6(way, &live.region);
        for (why, region) in self.limit(refused)? {
            self.end_some(&live, &region, End::Refused(why))?;
            live = self.without(&live, &region)?;
        }
        let all = live.region.clone();
        let every = self.universe.diagrams.all();
        self.tell(&every);
        let live = self.pass(way, Hook::Prerouting, live)?;
        self.tell(&all);
        self.each_branch(live, &mut |walk, live| walk.arrived(way, live))
    }

    /// Routing of packets that arrive, and what comes after it.
    fn arrived(&mut self, way: &Way<'_>, live: Live) -> Walked {
        if live.region.is_none() {
            return Ok(());
        }
        let routed = self.route_arrivals(way, &live.region)?;
        for (refusal, region) in &routed.refused {
            self.end_some(&live, region, End::Refused(*refusal))?;
        }
        // What is translated at `input` is no matter of those that are forwarded.
        let machine = self.machine.clone();
        let host = self.only(&live, &routed.host)?;
        self.note_routed(End::Host, &routed.host);
        let host = self.pass(way, Hook::Input, host)?;
        self.end_all(&host, End::Host)?;
        self.tell(&routed.host);
        self.machine = machine;
        let by_device = self.by_device(way, &routed.ways)?;
        let on = self.on_their_way(&by_device)?;
        let hop = self.hop(on);
        let (on, ended) = self.limit(hop)?;
        for (refusal, region) in ended {
            self.end_some(&live, &region, End::Refused(refusal))?;
        }
        let live = self.only(&live, &on)?;
        self.each_device(way, live, &by_device, &mut |walk, device, live| {
            let all = live.region.clone();
            let live = walk.pass(way, Hook::Forward, live)?;
            walk.tell(&all);
            walk.leave(way, live, device, &routed.ways)
        })
    }

    /// Follows packets by the device by which they leave, each with a machine of its own.
    fn each_device(
        &mut self,
        way: &Way<'_>,
        live: Live,
        by_device: &[(u32, Region)],
        follow: &mut dyn FnMut(&mut Self, u32, Live) -> Walked,
    ) -> Walked {
        let machine = self.machine.clone();
        for (index, region) in by_device {
            let live = self.only(&live, region)?;
            if !live.region.is_none() {
                self.machine = machine.clone();
                self.say_way_out(way, *index);
                follow(self, *index, live)?;
            }
        }
        Ok(())
    }

    /// Notes where packets are to leave; all of them.
    fn on_their_way(&mut self, by_device: &[(u32, Region)]) -> Result<Region, Failure> {
        for (index, region) in by_device {
            self.note_routed(End::Leaves(*index), region);
        }
        let regions: Vec<Region> = by_device.iter().map(|(_, region)| region.clone()).collect();
        self.limit(self.universe.diagrams.union(&regions))
    }

    /// Follows packets by the address that they were given at a hook, each with a machine of its
    /// own: for packets of one address rules and routes are quickly looked up, for those of all
    /// together each bit would be a choice among addresses.
    fn each_branch(
        &mut self,
        live: Live,
        follow: &mut dyn FnMut(&mut Self, Live) -> Walked,
    ) -> Walked {
        let addresses = (8..40).map(|at| Field::Header { base: Base::Network, at });
        let written = written_fields(self.program);
        let moved = std::mem::take(&mut self.moved);
        if moved.is_empty() || addresses.clone().any(|field| written.contains(&field)) {
            return follow(self, live);
        }
        let mut plain = self.machine.clone();
        for field in addresses {
            plain.writes.remove(&field);
        }
        let mut rest = live.region.clone();
        for Moved { fields, region, value } in moved {
            let here = self.limit(self.universe.diagrams.and(&rest, &region))?;
            if here.is_none() {
                continue;
            }
            rest = self.limit(self.universe.diagrams.minus(&rest, &here))?;
            self.machine = plain.clone();
            for (field, byte) in fields.into_iter().zip(value.chunks(8)) {
                self.machine.writes.insert(field, byte.to_vec());
            }
            let eased = self.ease(&here);
            self.limit(eased)?;
            let live = self.only(&live, &here)?;
            follow(self, live)?;
        }
        self.machine = plain;
        let eased = self.ease(&rest);
        self.limit(eased)?;
        let live = self.only(&live, &rest)?;
        follow(self, live)
    }

    /// Makes values simpler that rules look at: there are no other packets than those of a region.
    fn ease(&mut self, live: &Region) -> Decided<()> {
        let d = &self.universe.diagrams;
        let looked_at = |field: &Field| {
            matches!(
                field,
                Field::Header { base: Base::Transport, .. } | Field::Meta(_) | Field::Ct(..)
            )
        };
        for (_, bits) in self.machine.writes.iter_mut().filter(|(field, _)| looked_at(field)) {
            for bit in bits {
                if let Bit::Of(region) = bit {
                    *bit = Bit::of(d.among(region, live)?);
                }
            }
        }
        Ok(())
    }

    /// Keeps what was done to packets of a region until now.
    fn tell(&mut self, region: &Region) {
        if !region.is_none() {
            self.told.push((region.clone(), self.machine.writes.clone()));
        }
    }

    /// What was done to all packets.
    fn all_told(&mut self) -> Decided<HashMap<Field, Vec<Bit>>> {
        let written = written_fields(self.program);
        let is_told = |field: &Field| match field {
            // They are about one hook.
            Field::Done(
                Done::Nat
                | Done::NatFlags
                | Done::NatAddress
                | Done::NatLastAddress
                | Done::NatPort
                | Done::NatLastPort
                | Done::NatBasePort,
            ) => false,
            Field::Done(_) => true,
            // It is about the hooks before tracking.
            Field::CtBefore => false,
            field => written.contains(field),
        };
        let mut all = Machine::new();
        for (region, writes) in std::mem::take(&mut self.told) {
            for (field, bits) in writes.iter().filter(|(field, _)| is_told(field)) {
                all.write(self.universe, &region, *field, bits)?;
            }
        }
        Ok(all.writes)
    }

    /// What a packet finds that the host sends.
    fn send(&mut self, way: &Way<'_>, live: Live) -> Walked {
        let every = self.universe.diagrams.all();
        self.tell(&every);
        let routed = self.route_own(way, &live.region)?;
        // The sender learns of it, and there is no packet.
        for (refusal, region) in &routed.refused {
            self.end_some(&live, region, End::Refused(*refusal))?;
        }
        let by_device = self.by_device(way, &routed.ways)?;
        self.on_their_way(&by_device)?;
        self.each_device(way, live, &by_device, &mut |walk, device, live| {
            walk.turned = Some(walk.universe.diagrams.none());
            let all = live.region.clone();
            let live = walk.pass(way, Hook::Output, live)?;
            walk.tell(&all);
            let turned = walk.turned.take().unwrap_or_else(|| walk.universe.diagrams.none());
            walk.each_branch(live, &mut |walk, live| {
                walk.sent(way, live, &turned, device, &routed.ways)
            })
        })
    }

    /// What comes after `output`. Chains of type route and translation may lead packets elsewhere.
    fn sent(
        &mut self,
        way: &Way<'_>,
        live: Live,
        turned: &Region,
        device: u32,
        ways: &[Out],
    ) -> Walked {
        let turned = self.limit(self.universe.diagrams.and(&live.region, turned))?;
        let machine = self.machine.clone();
        let straight = self.without(&live, &turned)?;
        self.leave(way, straight, device, ways)?;
        if turned.is_none() {
            return Ok(());
        }
        self.machine = machine;
        let again = self.route_own(way, &turned)?;
        for (refusal, region) in &again.refused {
            self.end_some(&live, region, End::Refused(*refusal))?;
        }
        let by_device = self.by_device(way, &again.ways)?;
        self.each_device(way, live, &by_device, &mut |walk, device, live| {
            walk.leave(way, live, device, &again.ways)
        })
    }

    /// The hooks on the way out by a device, and the way out.
    fn leave(&mut self, way: &Way<'_>, live: Live, device: u32, ways: &[Out]) -> Walked {
        let all = live.region.clone();
        if all.is_none() {
            return Ok(());
        }
        self.ways = ways.to_vec();
        let kinds = self.kinds_of_way_out(&all);
        self.limit(kinds)?;
        let live = self.pass(way, Hook::Postrouting, live)?;
        let sent = self.machine.clone();
        let live = self.egress(way, device, live)?;
        self.forget_devices(sent);
        self.tell(&all);
        let values = self.machine.writes.clone();
        self.passed.left.push(Left { region: all, device, values });
        self.end_all(&live, End::Leaves(device))
    }

    /// Makes the last hop count, where rules look at it.
    fn hop(&mut self, region: Region) -> Decided<(Region, Vec<(Refusal, Region)>)> {
        let mut region = region;
        let mut ended = Vec::new();
        let kind = Field::Meta(MetaKey::PktType);
        if self.universe.has(kind) {
            let bits = self.machine.field(self.universe, kind)?;
            let d = &self.universe.diagrams;
            let own = bits::equal(d, &bits, &[PacketType::Host as u8], &[0xff])?;
            ended.push((Refusal::NotForHost, d.minus(&region, &own)?));
            region = d.and(&region, &own)?;
        }
        for (at, v6) in [(8, false), (7, true)] {
            let field = Field::Header { base: Base::Network, at };
            if !looks_at_hops(self.program, at) {
                continue;
            }
            let version = self.version(v6)?;
            let hops = self.machine.field(self.universe, field)?;
            let d = &self.universe.diagrams;
            let of_it = d.and(&region, &version)?;
            let over = d.and(&of_it, &bits::at_most(d, &hops, &[1])?)?;
            let less = bits::one_less(d, &hops)?;
            region = d.minus(&region, &over)?;
            ended.push((Refusal::Hops, over));
            self.machine.write(self.universe, &of_it, field, &less)?;
        }
        Ok((region, ended))
    }

    /// What makes the host route a packet again if a chain of type route changes it: addresses, TOS
    /// and mark (`nft_chain_route.c`).
    pub(super) fn route_key(&mut self) -> Decided<Vec<Bit>> {
        let mut all = Vec::new();
        let bytes = [0, 1, 2, 3, 7].into_iter().chain(8..40);
        let fields = bytes.map(|at| Field::Header { base: Base::Network, at });
        for field in fields.chain([Field::Meta(MetaKey::Mark)]) {
            match self.universe.has(field) || self.machine.writes.contains_key(&field) {
                true => all.extend(self.machine.field(self.universe, field)?),
                false => all.extend(vec![Bit::ZERO; field.width() as usize]),
            }
        }
        Ok(all)
    }

    /// Packets of a region that a chain of type route has changed since a moment.
    pub(super) fn turned_since(&mut self, before: &[Bit], region: &Region) -> Decided<Region> {
        let after = self.route_key()?;
        let d = &self.universe.diagrams;
        let mut turned = Vec::new();
        for (before, after) in before.iter().zip(&after).filter(|(a, b)| a != b) {
            turned.push(d.and(region, &before.xor(after, d)?.region(d))?);
        }
        d.union(&turned)
    }
}
