// SPDX-License-Identifier: Apache-2.0

//! Sets and maps: what finding an element means.

use std::collections::HashMap;

use penstock_program::image::{LinkedData, LinkedValue, LinkedVerdict, Stateful};
use penstock_program::op::{Load, Op};
use penstock_sets::Set;

use super::chain::Rule;
use super::frame::SCRATCH;
use super::lower::{home, refused};
use super::search::{Member, Members};
use super::{Compiler, StateRef};
use penstock_bpf::asm::{Alu, Cond, Label, Reg::*, Width};

/// What finding an element means.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Outcome {
    /// Number of the counter that counts.
    counter: Option<usize>,
    /// What is loaded.
    data: Vec<u8>,
    /// Number of the verdict.
    verdict: Option<usize>,
}

/// All sets, each once; they are numbered from 1 on.
#[derive(Default)]
struct Outcomes {
    all: Vec<Outcome>,
    numbers: HashMap<Outcome, u32>,
    verdicts: Vec<LinkedVerdict>,
}

impl Outcomes {
    fn number(&mut self, outcome: Outcome) -> u32 {
        if let Some(number) = self.numbers.get(&outcome) {
            return *number;
        }
        self.all.push(outcome.clone());
        let number = self.all.len() as u32;
        self.numbers.insert(outcome, number);
        number
    }

    fn verdict(&mut self, verdict: &LinkedVerdict) -> usize {
        self.verdicts.iter().position(|v| v == verdict).unwrap_or_else(|| {
            self.verdicts.push(*verdict);
            self.verdicts.len() - 1
        })
    }

    fn count(&self) -> bool {
        self.all.iter().any(|o| o.counter.is_some())
    }

    /// A row of eight bytes, counter from 1 on and verdict, and the data, for each outcome; one for
    /// none in front.
    fn table(&self, row: usize) -> Vec<u8> {
        let mut table = vec![0; row];
        for outcome in &self.all {
            let start = table.len();
            table.extend((outcome.counter.map_or(0, |c| c + 1) as u32).to_ne_bytes());
            table.extend((outcome.verdict.unwrap_or(0) as u32).to_ne_bytes());
            table.extend(&outcome.data);
            table.resize(start + row, 0);
        }
        table
    }
}

impl Compiler<'_> {
    fn counter_of(&self, state: &StateRef) -> Result<usize, String> {
        self.plan.counters_ref().index(state).ok_or_else(refused)
    }

    /// A set's elements, and the number of what the catch-all means.
    fn members(
        &self,
        set: &Set<LinkedValue>,
        key_len: u8,
        mut outcome: impl FnMut(&LinkedValue) -> Result<u32, String>,
    ) -> Result<(Members, Option<u32>), String> {
        let (mut all, mut catch_all) = (Vec::new(), None);
        for element in set.iter() {
            let outcome = outcome(element.value)?;
            if element.key.is_empty() {
                catch_all = Some(outcome);
            } else {
                let to = element.key_end.map(Box::from);
                all.push(Member { from: element.key.into(), to, outcome });
            }
        }
        let description = set.description();
        let fields = if description.interval { description.fields.clone() } else { Vec::new() };
        Ok((Members { all, fields, key_len, mute: false }, catch_all))
    }

    /// The set or map expression.
    pub(super) fn lookup(&mut self, op: &Op, rule: &mut Rule) -> Result<(), String> {
        if self.live_lookup(op, rule)? {
            return Ok(());
        }
        let Op::Lookup { src, key_len, inverse, load, set } = op else { return Err(refused()) };
        // They may where the set is a map of its own, which it is not.
        if set.may_expire() && set.iter_unordered().any(|e| e.expires_at.is_some()) {
            return Err("elements of the set expire".into());
        }
        let (src, key_len, inverse, load) = (*src, *key_len, *inverse, *load);
        let mut outcomes = Outcomes::default();
        let (mut members, catch_all) = self.members(set, key_len, |value| {
            let counter = match &*value.statements {
                [] => None,
                [Stateful::Counter(state)] => Some(self.counter_of(state)?),
                _ => return Err(refused()),
            };
            let (data, verdict) = match (load, &value.data) {
                (Load::Nothing, _) => (Vec::new(), None),
                (Load::Bytes { len, .. }, LinkedData::Value(bytes)) => {
                    (bytes.get(..usize::from(len)).unwrap_or(bytes).to_vec(), None)
                }
                (Load::Bytes { len, .. }, LinkedData::Long(bytes)) => {
                    (bytes.get(..usize::from(len)).unwrap_or(bytes).to_vec(), None)
                }
                (Load::Verdict, LinkedData::Verdict(verdict)) => {
                    (Vec::new(), Some(outcomes.verdict(verdict)))
                }
                _ => return Err(refused()),
            };
            Ok(outcomes.number(Outcome { counter, data, verdict }))
        })?;
        let plain = load == Load::Nothing && !outcomes.count();
        members.mute = plain || inverse;
        let (hit, missed) = (self.asm.label(), self.asm.label());
        if inverse {
            // A match ends the rule; otherwise it continues.
            let absent = if catch_all.is_some() { rule.next } else { hit };
            self.search(&members, src, rule.next, absent, rule)?;
            self.asm.bind(hit);
            return Ok(());
        }
        let miss = if catch_all.is_some() { missed } else { rule.next };
        self.search(&members, src, hit, miss, rule)?;
        if let Some(outcome) = catch_all {
            self.asm.bind(missed);
            self.asm.mov32(R0, outcome);
        }
        self.asm.bind(hit);
        if !plain {
            self.meaning(&outcomes, load, rule)?;
        }
        Ok(())
    }

    /// The object of a map's element, which is a counter.
    pub(super) fn object(
        &mut self,
        set: &Set<LinkedValue>,
        src: u8,
        key_len: u8,
        rule: &mut Rule,
    ) -> Result<(), String> {
        let mut outcomes = Outcomes::default();
        let (members, catch_all) = self.members(set, key_len, |value| match &value.data {
            LinkedData::Object(Stateful::Counter(state)) => {
                let counter = Some(self.counter_of(state)?);
                Ok(outcomes.number(Outcome { counter, data: Vec::new(), verdict: None }))
            }
            _ => Err(refused()),
        })?;
        let (hit, missed) = (self.asm.label(), self.asm.label());
        let miss = if catch_all.is_some() { missed } else { rule.next };
        self.search(&members, src, hit, miss, rule)?;
        if let Some(outcome) = catch_all {
            self.asm.bind(missed);
            self.asm.mov32(R0, outcome);
        }
        self.asm.bind(hit);
        self.meaning(&outcomes, Load::Nothing, rule)
    }

    /// Does what outcome R0 means.
    fn meaning(&mut self, outcomes: &Outcomes, load: Load, rule: &mut Rule) -> Result<(), String> {
        let counts = outcomes.count();
        // Without counters there is one outcome for each verdict, in the same order.
        if load == Load::Verdict && !counts {
            self.asm.alu(Alu::Sub, R0, 1);
            return self.dispatch(&outcomes.verdicts, rule);
        }
        let words = outcomes.all.iter().map(|o| o.data.len().div_ceil(4)).max().unwrap_or(0);
        let row = (8 + words * 4).next_multiple_of(8);
        let map = self.one_value("rule_set_data", outcomes.table(row));
        self.asm.jump_if(Cond::Gt, R0, outcomes.all.len() as i32, rule.next);
        self.asm.alu(Alu::Mul, R0, row as i32);
        self.asm.map_value(R5, &map, 0);
        self.asm.alu(Alu::Add, R5, R0);
        if let Load::Bytes { dst, len } = load {
            for word in 0..len.div_ceil(4) {
                self.asm.load(Width::W, R1, R5, 8 + i16::from(word) * 4);
                self.asm.store(Width::W, R10, home(dst + word), R1);
            }
            rule.words.set_at(dst, home(dst), len);
        }
        if counts {
            self.count_of();
        }
        if load == Load::Verdict {
            self.asm.load(Width::W, R0, R5, 4);
            self.dispatch(&outcomes.verdicts, rule)?;
        }
        Ok(())
    }

    /// Counts the packet in the counter that the outcome's row at R5 names, if there is one.
    fn count_of(&mut self) {
        let none = self.asm.label();
        self.asm.load(Width::W, R3, R5, 0);
        self.asm.jump_if(Cond::Eq, R3, 0, none);
        self.asm.alu(Alu::Sub, R3, 1);
        self.asm.store(Width::D, R10, SCRATCH, R5);
        self.count_number();
        self.asm.load(Width::D, R5, R10, SCRATCH);
        self.asm.bind(none);
    }

    /// Goes where verdict number R0 says.
    pub(super) fn dispatch(
        &mut self,
        verdicts: &[LinkedVerdict],
        rule: &Rule,
    ) -> Result<(), String> {
        let go_on = self.asm.label();
        self.dispatch_to(verdicts, 0, go_on, rule)?;
        self.asm.bind(go_on);
        Ok(())
    }

    /// Dispatches among those from `first` on; the next operation of the rule follows at `go_on`.
    fn dispatch_to(
        &mut self,
        verdicts: &[LinkedVerdict],
        first: usize,
        go_on: Label,
        rule: &Rule,
    ) -> Result<(), String> {
        match verdicts {
            [] => self.asm.jump(rule.next),
            [verdict] => {
                self.verdict(verdict, rule)?;
                if *verdict == LinkedVerdict::Continue {
                    self.asm.jump(go_on);
                }
            }
            _ => {
                let (low, high) = verdicts.split_at(verdicts.len() / 2);
                let upper = self.asm.label();
                self.asm.jump_if(Cond::Ge, R0, (first + low.len()) as i32, upper);
                self.dispatch_to(low, first, go_on, rule)?;
                self.asm.bind(upper);
                self.dispatch_to(high, first + low.len(), go_on, rule)?;
            }
        }
        Ok(())
    }
}
