// SPDX-License-Identifier: Apache-2.0

//! The way of packets through a network: from where they arrive, or the host sends them, from hook
//! to hook to where they end.
//!
//! There is one machine for the whole way: what a chain writes, a translation or routing changes,
//! later chains and routing see. All of it is a function of the packet as it came.

use std::collections::HashMap;
use std::rc::Rc;

use penstock_net::Network;
use penstock_packet::PacketType;
use penstock_program::Hook;
use penstock_program::expr::{CtDir, CtKey, MetaKey};
use penstock_program::image::{ChainIndex, RuleIndex};
use penstock_program::op::Op;

use super::link::Asked;
use super::routed::Out;
use super::translation::{Moved, Side};
use super::{Decision, Failure, Left, Walk};
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
#[derive(Clone)]
pub(super) struct Live {
    pub(super) region: Region,
    /// Apart from each other, and together at least the region. They are cut to it where that
    /// matters: what the network says of packets makes each of them larger.
    pieces: Rc<[Piece]>,
}

/// Packets that the same rule has let on.
struct Piece {
    region: Region,
    rule: Option<RuleIndex>,
    base: Option<ChainIndex>,
}

impl Live {
    /// Packets of which nothing has decided yet.
    fn undecided(region: Region) -> Live {
        let piece = Piece { region: region.clone(), rule: None, base: None };
        Live { region, pieces: Rc::new([piece]) }
    }
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
            universe.arrive_on(way.entrances());
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
        self.asked_link = Asked::by(self.program);
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

    /// Packets that are looked at: whole ones; those of the host have one of its addresses.
    fn looked_at(&mut self, way: &Way<'_>) -> Decided<Region> {
        let later = self.universe.holds(Field::LaterFragment)?;
        let mut region = self.universe.diagrams.not(&later);
        for field in self.universe.fields().to_vec() {
            let is_whole = match field {
                Field::Present { base: Base::Network, bytes } => bytes <= 20,
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
            let known = self.can_arrive(way)?;
            region = self.universe.diagrams.and(&region, &known)?;
        }
        Ok(region)
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

    /// Passes packets through the chains of a hook, and translates them there.
    fn pass(&mut self, way: &Way<'_>, hook: Hook, live: Live) -> Result<Live, Failure> {
        self.universe.place.hook = hook;
        self.untranslated = Side::at(hook).filter(|_| way.translates());
        self.moved.clear();
        let mut live = match way.passage(hook) {
            Some(passage) => self.through(passage, live)?,
            None => live,
        };
        if let Some(side) = self.untranslated.take() {
            let possible = self.translate(side, &live.region)?;
            live = self.only(&live, &possible)?;
        }
        Ok(live)
    }

    /// Passes those packets through chains that are in a region, and the others around them.
    pub(super) fn pass_some(
        &mut self,
        passage: &Passage,
        live: Live,
        region: &Region,
    ) -> Result<Live, Failure> {
        self.universe.place.hook = passage.hook;
        self.untranslated = None;
        let outside = self.without(&live, region)?;
        let inside = self.only(&live, region)?;
        let inside = self.through(passage, inside)?;
        let region = self.limit(self.universe.diagrams.or(&outside.region, &inside.region))?;
        let mut pieces = self.cut(&outside)?;
        pieces.extend(self.cut(&inside)?);
        Ok(Live { region, pieces: pieces.into() })
    }

    /// Passes packets through chains.
    pub(super) fn through(&mut self, passage: &Passage, live: Live) -> Result<Live, Failure> {
        if live.region.is_none() {
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
        let wider = self.universe.diagrams.whatever(&live.region, free.into_iter());
        let wider = self.limit(wider)?;
        let untranslated = self.untranslated.is_some();
        self.hook(&passage.bases, &wider)?;
        let mut on = Vec::new();
        let mut lost = Vec::new();
        for mut decision in self.decisions.split_off(first) {
            if decision.end == End::Accept {
                let Decision { region, rule, base, .. } = decision;
                on.push(Piece { region, rule, base });
                continue;
            }
            decision.region =
                self.limit(self.universe.diagrams.and(&decision.region, &live.region))?;
            if !decision.region.is_none() {
                lost.push(decision.region.clone());
                self.decisions.push(decision);
            }
        }
        let d = &self.universe.diagrams;
        let region = match untranslated && self.untranslated.is_none() {
            // Some choices of translation are none: nothing became of such packets.
            true => {
                let regions: Vec<Region> = on.iter().map(|piece| piece.region.clone()).collect();
                d.union(&regions).and_then(|on| d.and(&live.region, &on))
            }
            false => d.union(&lost).and_then(|lost| d.minus(&live.region, &lost)),
        };
        let region = self.limit(region)?;
        if passage.filters() {
            return Ok(Live { region, pieces: on.into() });
        }
        // Whoever decided before is still who decided; a policy that lets all pass decides nothing.
        let is_decided = live.pieces.iter().all(|piece| piece.base.is_some());
        if is_decided || on.iter().all(|passed| passed.rule.is_none()) {
            return Ok(Live { region, pieces: live.pieces });
        }
        let mut pieces = Vec::new();
        for piece in live.pieces.iter() {
            for passed in &on {
                let both = self.universe.diagrams.and(&piece.region, &passed.region);
                let region = self.limit(both)?;
                if !region.is_none() {
                    let is_new = piece.base.is_none() && passed.rule.is_some();
                    let from = if is_new { passed } else { piece };
                    pieces.push(Piece { region, ..*from });
                }
            }
        }
        Ok(Live { region, pieces: pieces.into() })
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

    /// Those packets that are in a region.
    pub(super) fn only(&self, live: &Live, region: &Region) -> Result<Live, Failure> {
        let region = self.limit(self.universe.diagrams.and(&live.region, region))?;
        Ok(Live { region, pieces: live.pieces.clone() })
    }

    /// Those packets that are not in a region.
    pub(super) fn without(&self, live: &Live, region: &Region) -> Result<Live, Failure> {
        let others = self.universe.diagrams.not(region);
        self.only(live, &others)
    }

    /// Packets by what let them on.
    fn cut(&self, live: &Live) -> Result<Vec<Piece>, Failure> {
        let mut all = Vec::new();
        for piece in live.pieces.iter() {
            let region = self.limit(self.universe.diagrams.and(&piece.region, &live.region))?;
            if !region.is_none() {
                all.push(Piece { region, ..*piece });
            }
        }
        Ok(all)
    }

    /// Packets of a region come to an end.
    pub(super) fn end_some(&mut self, live: &Live, region: &Region, end: End) -> Walked {
        let ended = self.only(live, region)?;
        match end {
            // The network decides, and no rule.
            End::Refused(_) => {
                self.base = None;
                self.decide(ended.region, end, None);
                Ok(())
            }
            _ => self.end_all(&ended, end),
        }
    }

    fn end_all(&mut self, live: &Live, end: End) -> Walked {
        let all = self.cut(live)?;
        self.decisions.extend(all.into_iter().map(|piece| {
            let Piece { region, rule, base } = piece;
            Decision { region, end, rule, base }
        }));
        Ok(())
    }

    pub(super) fn note_routed(&mut self, end: End, region: &Region) {
        if !region.is_none() {
            self.passed.routed.push((end, region.clone()));
        }
    }
}
