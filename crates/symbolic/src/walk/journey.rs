// SPDX-License-Identifier: Apache-2.0

//! The way of packets through a network: from where they arrive, or the host sends them, from hook
//! to hook to where they end.
//!
//! There is one machine for the whole way: what a chain writes, a translation or routing changes,
//! later chains and routing see. All of it is a function of the packet as it came.

use std::collections::HashMap;

use penstock_net::Network;
use penstock_packet::PacketType;
use penstock_program::Hook;
use penstock_program::expr::{CtDir, CtKey, MetaKey};
use penstock_program::image::{ChainIndex, RuleIndex};
use penstock_program::op::Op;

use super::routed::Out;
use super::translation::{Moved, Side};
use super::{Failure, Walk};
use crate::bits::{self, Bit};
use crate::diagram::{Decided, Region};
use crate::fate::{End, Refusal};
use crate::field::{Base, Done, Field, state};
use crate::machine::Machine;
use crate::program::{Program, reachable, written_fields};
use crate::universe::Universe;
use crate::way::{Passage, Start, Way};

/// `IPS_SRC_NAT`, `IPS_DST_NAT`, `IPS_SEQ_ADJUST` and that both have been decided.
const TRANSLATED: u32 = 0x1f0;

/// That packets were followed, or why they could not be.
type Walked = Result<(), Failure>;

/// Packets on their way, and what last decided that they go on.
pub(super) struct Piece {
    pub region: Region,
    rule: Option<RuleIndex>,
    base: Option<ChainIndex>,
}

/// Whether chains of a hook filter: what they decide is what decides of a packet.
pub(crate) fn filters(hook: Hook) -> bool {
    matches!(hook, Hook::Input | Hook::Forward | Hook::Output)
}

/// Whether rules look at the hops that are left, or write them: at a byte of the network header.
fn looks_at_hops(program: &Program<'_>, at: u16) -> bool {
    let rules = reachable(program);
    let mut ops = rules.iter().flat_map(|rule| program.image.ops_at(*rule));
    ops.any(|op| {
        let load = op.header_load();
        load.is_some_and(|l| l.base == Base::Network && l.offset == at && l.len == 1)
            || matches!(op, Op::PayloadSet { base: Base::Network, offset, len, .. }
                if (*offset..offset.saturating_add((*len).into())).contains(&at))
    })
}

/// Says which packets are looked at where programs have a way: those that can be on one of them.
///
/// # Errors
/// A limit.
pub fn look_at(universe: &mut Universe, programs: &[&Program<'_>]) -> Decided<()> {
    let mut all = Vec::new();
    let mut networks: Vec<&Network> = Vec::new();
    for program in programs {
        let Some(way) = &program.way else { continue };
        if networks.iter().any(|known| std::ptr::eq(*known, way.network)) {
            continue;
        }
        networks.push(way.network);
        if way.start == Start::Arrival {
            universe.arrive_on(way.arrivals());
        }
        all.push(Walk::new(universe, program).looked_at(way)?);
    }
    if !all.is_empty() {
        let within = universe.diagrams.union(&all)?;
        universe.keep_within(within, all.len() > 1);
    }
    Ok(())
}

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
        let first = self.first_tuples(&region);
        self.limit(first)?;
        let live = vec![Piece { region, rule: None, base: None }];
        match way.start {
            Start::Arrival => self.arrive(way, live)?,
            Start::Host => self.send(way, live)?,
        }
        let told = self.all_told();
        self.machine.writes = self.limit(told)?;
        Ok(())
    }

    /// Packets that are looked at: whole ones; those of the host have one of its addresses.
    fn looked_at(&mut self, way: &Way<'_>) -> Decided<Region> {
        let later = self.universe.holds(Field::LaterFragment)?;
        let mut region = self.universe.diagrams.not(&later);
        for field in self.universe.fields().to_vec() {
            let is_whole = match field {
                Field::Present { base: Base::Network, bytes } => bytes <= 20,
                Field::Present { base: Base::Link, bytes } => bytes <= 14,
                _ => continue,
            };
            if is_whole {
                let there = self.universe.holds(field)?;
                region = self.universe.diagrams.and(&region, &there)?;
            }
        }
        // Packets have hops left, unless rules look at them.
        for (at, v6) in [(8, false), (7, true)] {
            let field = Field::Header { base: Base::Network, at };
            if !self.universe.has(field) || looks_at_hops(self.program, at) {
                continue;
            }
            let hops = self.universe.bits(field)?;
            let version = self.version(v6)?;
            let d = &self.universe.diagrams;
            let last = d.and(&version, &bits::at_most(d, &hops, &[1])?)?;
            region = d.minus(&region, &last)?;
        }
        // Packets of a connection without answers are translated as the first one is.
        let first = self.universe.holds(Field::Untranslated)?;
        let states = self.universe.bits(Field::CtState)?;
        let d = &self.universe.diagrams;
        let new = bits::equal(d, &states, &[state::NEW], &[0xff])?;
        region = d.minus(&region, &d.minus(&new, &first)?)?;
        // No first packet is translated yet.
        let status = Field::Ct(CtKey::Status, None);
        if self.universe.has(status) || way.translates() {
            let status = self.universe.bits(status)?;
            let d = &self.universe.diagrams;
            let none = bits::equal(d, &status, &[0; 4], &TRANSLATED.to_be_bytes())?;
            region = d.minus(&region, &d.minus(&first, &none)?)?;
        }
        if way.start == Start::Host {
            let own = self.own_source(way)?;
            region = self.universe.diagrams.and(&region, &own)?;
        } else {
            let before = self.universe.holds(Field::CtBefore)?;
            region = self.universe.diagrams.minus(&region, &before)?;
            let mut known = Vec::new();
            for device in way.arrivals() {
                known.push(self.arriving_on(device)?);
            }
            let d = &self.universe.diagrams;
            region = d.and(&region, &d.union(&known)?)?;
            if self.universe.has(Field::Meta(MetaKey::PktType)) {
                let kind = self.universe.bits(Field::Meta(MetaKey::PktType))?;
                let d = &self.universe.diagrams;
                let seen = bits::at_most(d, &kind, &[PacketType::Multicast as u8])?;
                region = d.and(&region, &seen)?;
            }
        }
        Ok(region)
    }

    /// What a packet finds that arrives.
    fn arrive(&mut self, way: &Way<'_>, live: Vec<Piece>) -> Walked {
        let mut live = live;
        for (index, passage) in way.of_devices(Hook::Ingress) {
            let Some(device) = way.devices.iter().find(|device| device.index == index) else {
                continue;
            };
            let on_it = self.arriving_on(device);
            let on_it = self.limit(on_it)?;
            live = self.pass_some(passage, live, &on_it)?;
        }
        let all = self.union(&live)?;
        let refused = self.refused6(way, &all);
        for (why, region) in self.limit(refused)? {
            self.end_some(&live, &region, End::Refused(why))?;
            live = self.without(live, &region)?;
        }
        let all = self.union(&live)?;
        let every = self.universe.diagrams.all();
        self.tell(&every);
        let live = self.pass(way, Hook::Prerouting, live)?;
        self.tell(&all);
        self.each_branch(live, &mut |walk, live| walk.arrived(way, live))
    }

    /// Routing of packets that arrive, and what comes after it.
    fn arrived(&mut self, way: &Way<'_>, live: Vec<Piece>) -> Walked {
        let all = self.union(&live)?;
        if all.is_none() {
            return Ok(());
        }
        let routed = self.route_arrivals(way, &all)?;
        for (refusal, region) in &routed.refused {
            self.end_some(&live, region, End::Refused(*refusal))?;
        }
        // What is translated at `input` is no matter of those that are forwarded.
        let machine = self.machine.clone();
        let host = self.only(&live, &routed.host)?;
        self.note_routed(End::Host, &routed.host);
        let host = self.pass(way, Hook::Input, host)?;
        self.end_all(host, End::Host);
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
            let all = walk.union(&live)?;
            let live = walk.pass(way, Hook::Forward, live)?;
            walk.tell(&all);
            walk.leave(way, live, device, &routed.ways)
        })
    }

    /// Follows packets by the device by which they leave, each with a machine of its own.
    fn each_device(
        &mut self,
        way: &Way<'_>,
        live: Vec<Piece>,
        by_device: &[(u32, Region)],
        follow: &mut dyn FnMut(&mut Self, u32, Vec<Piece>) -> Walked,
    ) -> Walked {
        let machine = self.machine.clone();
        for (index, region) in by_device {
            let live = self.only(&live, region)?;
            if !live.is_empty() {
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
        live: Vec<Piece>,
        follow: &mut dyn FnMut(&mut Self, Vec<Piece>) -> Walked,
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
        let mut rest = self.union(&live)?;
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
    fn send(&mut self, way: &Way<'_>, live: Vec<Piece>) -> Walked {
        let all = self.union(&live)?;
        let every = self.universe.diagrams.all();
        self.tell(&every);
        let routed = self.route_own(way, &all)?;
        // The sender learns of it, and there is no packet.
        for (refusal, region) in &routed.refused {
            self.end_some(&live, region, End::Refused(*refusal))?;
        }
        let by_device = self.by_device(way, &routed.ways)?;
        self.on_their_way(&by_device)?;
        self.each_device(way, live, &by_device, &mut |walk, device, live| {
            walk.turned = Some(walk.universe.diagrams.none());
            let all = walk.union(&live)?;
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
        live: Vec<Piece>,
        turned: &Region,
        device: u32,
        ways: &[Out],
    ) -> Walked {
        let all = self.union(&live)?;
        let turned = self.limit(self.universe.diagrams.and(&all, turned))?;
        let machine = self.machine.clone();
        let straight = self.only(&live, &self.universe.diagrams.not(&turned))?;
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
    fn leave(&mut self, way: &Way<'_>, live: Vec<Piece>, device: u32, ways: &[Out]) -> Walked {
        let all = self.union(&live)?;
        if all.is_none() {
            return Ok(());
        }
        self.ways = ways.to_vec();
        let kinds = self.kinds_of_way_out(&all);
        self.limit(kinds)?;
        let mut live = self.pass(way, Hook::Postrouting, live)?;
        for (index, passage) in way.of_devices(Hook::Egress) {
            if index == device {
                self.universe.place.hook = Hook::Egress;
                self.untranslated = None;
                live = self.through(passage, live)?;
            }
        }
        self.tell(&all);
        self.passed.left.push((all, self.machine.writes.clone()));
        self.end_all(live, End::Leaves(device));
        Ok(())
    }

    /// Passes packets through the chains of a hook, and translates them there.
    fn pass(&mut self, way: &Way<'_>, hook: Hook, live: Vec<Piece>) -> Result<Vec<Piece>, Failure> {
        self.universe.place.hook = hook;
        self.untranslated = Side::at(hook).filter(|_| way.translates());
        self.moved.clear();
        let mut live = match way.passage(hook) {
            Some(passage) => self.through(passage, live)?,
            None => live,
        };
        if let Some(side) = self.untranslated.take() {
            let all = self.union(&live)?;
            let possible = self.translate(side, &all)?;
            live = self.only(&live, &possible)?;
        }
        Ok(live)
    }

    /// Passes those packets through chains that are in a region, and the others around them.
    fn pass_some(
        &mut self,
        passage: &Passage,
        live: Vec<Piece>,
        region: &Region,
    ) -> Result<Vec<Piece>, Failure> {
        self.universe.place.hook = passage.hook;
        self.untranslated = None;
        let inside = self.only(&live, region)?;
        let mut all = self.without(live, region)?;
        all.extend(self.through(passage, inside)?);
        Ok(all)
    }

    /// Passes packets through chains.
    fn through(&mut self, passage: &Passage, live: Vec<Piece>) -> Result<Vec<Piece>, Failure> {
        let all = self.union(&live)?;
        if all.is_none() {
            return Ok(live);
        }
        let first = self.decisions.len();
        // Rules look at addresses themselves: a region without what routing says of them is simpler,
        // and what is too much in it is taken out at the end.
        let addresses = (8..40).map(|at| Field::Header { base: Base::Network, at });
        let known = [CtKey::SrcIp, CtKey::DstIp, CtKey::SrcIp6, CtKey::DstIp6];
        let known = known
            .into_iter()
            .flat_map(|key| [CtDir::Original, CtDir::Reply].map(|dir| Field::Ct(key, Some(dir))));
        let free: Vec<u32> =
            addresses.chain(known).flat_map(|f| self.universe.variables(f).to_vec()).collect();
        let wider = self.limit(self.universe.diagrams.whatever(&all, free.into_iter()))?;
        self.hook(&passage.bases, &wider)?;
        let mut on = Vec::new();
        for mut decision in self.decisions.split_off(first) {
            decision.region = self.limit(self.universe.diagrams.and(&decision.region, &all))?;
            if decision.region.is_none() {
                continue;
            }
            match decision.end {
                End::Accept => on.push(Piece {
                    region: decision.region,
                    rule: decision.rule,
                    base: decision.base,
                }),
                _ => self.decisions.push(decision),
            }
        }
        if filters(passage.hook) {
            return Ok(on);
        }
        // Whoever decided before is still who decided.
        let mut pieces = Vec::new();
        for piece in &live {
            for passed in &on {
                let both = self.universe.diagrams.and(&piece.region, &passed.region);
                let region = self.limit(both)?;
                if !region.is_none() {
                    // A policy that lets all pass decides nothing.
                    let is_new = piece.base.is_none() && passed.rule.is_some();
                    let from = if is_new { passed } else { piece };
                    pieces.push(Piece { region, rule: from.rule, base: from.base });
                }
            }
        }
        Ok(pieces)
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

    fn union(&self, live: &[Piece]) -> Result<Region, Failure> {
        let regions: Vec<Region> = live.iter().map(|piece| piece.region.clone()).collect();
        self.limit(self.universe.diagrams.union(&regions))
    }

    /// Those packets that are in a region.
    fn only(&self, live: &[Piece], region: &Region) -> Result<Vec<Piece>, Failure> {
        let mut all = Vec::new();
        for piece in live {
            let inside = self.limit(self.universe.diagrams.and(&piece.region, region))?;
            if !inside.is_none() {
                all.push(Piece { region: inside, rule: piece.rule, base: piece.base });
            }
        }
        Ok(all)
    }

    /// Those packets that are not in a region.
    fn without(&self, live: Vec<Piece>, region: &Region) -> Result<Vec<Piece>, Failure> {
        let others = self.universe.diagrams.not(region);
        self.only(&live, &others)
    }

    /// Packets of a region come to an end.
    fn end_some(&mut self, live: &[Piece], region: &Region, end: End) -> Walked {
        let ended = self.only(live, region)?;
        match end {
            // The network decides, and no rule.
            End::Refused(_) => {
                let region = self.union(&ended)?;
                self.base = None;
                self.decide(region, end, None);
            }
            _ => self.end_all(ended, end),
        }
        Ok(())
    }

    fn end_all(&mut self, live: Vec<Piece>, end: End) {
        for Piece { region, rule, base } in live {
            self.base = base;
            self.decide(region, end, rule);
        }
    }

    fn note_routed(&mut self, end: End, region: &Region) {
        if !region.is_none() {
            self.passed.routed.push((end, region.clone()));
        }
    }
}
