// SPDX-License-Identifier: Apache-2.0

//! Sets and maps: of a fixed content, and those that packets change.

use std::sync::Arc;

use penstock_program::DynamicSet;
use penstock_program::expr::DynsetOp;
use penstock_program::image::{LinkedValue, LinkedVerdict};
use penstock_program::op::{Load, Op, SetUpdate};
use penstock_sets::Set;

use super::{Answer, At, Follows, Meaning, RuleEnd, next, unable};
use crate::bits::Bit;
use crate::diagram::{Decided, Diagrams, Region};
use crate::field::{Done, Field, Input, What};
use crate::lookup;

impl Meaning<'_> {
    /// A set or map that stays as it is.
    pub(super) fn lookup(&mut self, op: &Op, live: Region) -> Answer {
        let Op::Lookup { src, key_len, inverse, load, set } = op else { return next(live) };
        let key = self.machine.read(*src, *key_len);
        if live.is_none() {
            return Ok(Follows::default());
        }
        let now = self.at.now;
        if *load == Load::Nothing && !lookup::may_end(set, now) {
            let address = Arc::as_ptr(set) as usize;
            let find = |d: &Diagrams| lookup::members(d, &key, set, now);
            let found = self.universe.found_once(address, &key, find)?;
            return self.only(live, &found, !*inverse);
        }
        let found = lookup::found(&self.universe.diagrams, &key, set, *load, now, &live)?;
        self.looked_up(found, *inverse, *load, live)
    }

    /// A set that packets change.
    pub(super) fn lookup_dynamic(&mut self, op: &Op, live: Region) -> Answer {
        let Op::LookupDynamic { src, key_len, inverse, load, set } = op else { return next(live) };
        if *load != Load::Nothing {
            return unable("it reads a map that packets change");
        }
        let key = self.machine.read(*src, *key_len);
        let found = match self.listed {
            true => lookup::listed(&self.universe.diagrams, &key, set, self.at.now)?,
            false => self.member(set, &key)?,
        };
        self.only(live, &found, !*inverse)
    }

    pub(super) fn set_update(&mut self, update: &SetUpdate, live: Region) -> Answer {
        let done = Done::Element((self.set_number)(&update.set));
        let operation = update.op as u32 + 1;
        if update.op == DynsetOp::Delete {
            self.machine.done(self.universe, &live, done, operation)?;
            return next(live);
        }
        let added = self.input(What::Added)?;
        let there = self.universe.diagrams.and(&live, &added)?;
        self.machine.done(self.universe, &there, done, operation)?;
        self.only(live, &added, !update.invert)
    }

    /// A map from keys to objects, of which only counters let all packets go on.
    pub(super) fn object_map(
        &mut self,
        src: u8,
        key_len: u8,
        set: &Set<LinkedValue>,
        live: Region,
    ) -> Answer {
        let key = self.machine.read(src, key_len);
        match lookup::objects(&self.universe.diagrams, &key, set, self.at.now)? {
            Some(found) => self.only(live, &found, true),
            None => unable("a map of objects other than counters"),
        }
    }

    fn looked_up(
        &mut self,
        found: lookup::Found,
        inverse: bool,
        load: Load,
        live: Region,
    ) -> Answer {
        if found.has_statements {
            return unable("elements with statements that may end the rule");
        }
        if inverse {
            return self.only(live, &found.all, false);
        }
        match load {
            Load::Nothing => self.only(live, &found.all, true),
            Load::Bytes { dst, .. } => {
                self.machine.load(dst, &found.value);
                self.only(live, &found.all, true)
            }
            Load::Verdict => {
                let d = &self.universe.diagrams;
                let (mut on, mut ends) = (Vec::new(), Vec::new());
                for (region, verdict) in found.verdicts {
                    let region = d.and(&live, &region)?;
                    match verdict {
                        _ if region.is_none() => {}
                        LinkedVerdict::Continue => on.push(region),
                        LinkedVerdict::Break => {}
                        verdict => ends.push((region, RuleEnd::Verdict(verdict))),
                    }
                }
                Ok(Follows { next: Some(d.union(&on)?), ends })
            }
        }
    }

    /// Whether a set that packets change has the key: the same answer for the same key, until the
    /// set is changed on the way.
    fn member(&mut self, set: &Arc<DynamicSet>, key: &[Bit]) -> Decided<Region> {
        let number = (self.set_number)(set);
        let At { rule, op, .. } = self.at;
        let input = match self.machine.writes.contains_key(&Field::Done(Done::Element(number))) {
            // What the packet itself has done to it is not followed.
            true => Input { what: What::Member, rule: u32::MAX - rule, op },
            false => Input { what: What::Member, rule: number, op: self.universe.key(number, key) },
        };
        self.universe.note_member(rule, op, input, key);
        self.universe.holds(Field::Input(input))
    }
}
