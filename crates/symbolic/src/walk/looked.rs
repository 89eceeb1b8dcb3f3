// SPDX-License-Identifier: Apache-2.0

//! Which packets are looked at on a way.

use penstock_net::Network;
use penstock_program::expr::CtKey;

use super::Walk;
use crate::bits;
use crate::diagram::{Decided, Region};
use crate::field::{Base, Field, state};
use crate::program::{Program, looks_at_hops};
use crate::universe::Universe;
use crate::way::{Start, Way};

/// `IPS_SRC_NAT`, `IPS_DST_NAT`, `IPS_SEQ_ADJUST` and that both have been decided.
const TRANSLATED: u32 = 0x1f0;

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
    /// Packets that are looked at: whole ones; those of the host have one of its addresses.
    pub(super) fn looked_at(&mut self, way: &Way<'_>) -> Decided<Region> {
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
}
