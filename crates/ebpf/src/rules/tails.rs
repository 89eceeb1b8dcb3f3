// SPDX-License-Identifier: Apache-2.0

//! Tails of rules in long chains: what is left to do when a search has found a rule.
//!
//! Most rules of a long list end alike: they count and have one of a few verdicts. Those share
//! their code, and the number of the counter stands in the map. Other tails have their own code.

use std::collections::HashMap;

use penstock_bpf::asm::{Cond, Label, Reg::*};
use penstock_program::image::{LinkedVerdict, RuleIndex};
use penstock_program::op::Op;

use super::chain::Rule;
use super::counters::Counters;
use super::{Compiler, NotOffloadable};

/// What is done with a rule that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Tail {
    /// The packet is counted, in the counter whose number was found with the rule, and there is a
    /// verdict, or the next rule follows.
    Plain { counts: bool, verdict: Option<LinkedVerdict> },
    /// The operations of a rule but for the first.
    Operations { rule: RuleIndex, skip: usize },
}

/// The tails of a chain.
pub(super) struct Tails<'a> {
    pub(super) all: Vec<Tail>,
    numbers: HashMap<Tail, u32>,
    counters: &'a Counters,
    /// Rules may share code.
    share: bool,
}

impl<'a> Tails<'a> {
    /// None. Where rules do not share code, each has its own.
    pub(super) fn new(counters: &'a Counters, share: bool) -> Self {
        Tails { all: Vec::new(), numbers: HashMap::new(), counters, share }
    }

    /// The number of a rule's tail, which begins after some operations, and that of the counter.
    pub(super) fn number(&mut self, ops: &[Op], skip: usize, rule: u32) -> (u32, u32) {
        let rest = ops.get(skip..).unwrap_or_default();
        let (counter, after) = match rest {
            [first, after @ ..] => {
                match first.counter().and_then(|state| self.counters.index(state)) {
                    Some(counter) => (Some(counter), after),
                    None => (None, rest),
                }
            }
            [] => (None, rest),
        };
        let counts = counter.is_some();
        let tail = match after {
            _ if !self.share => Tail::Operations { rule: RuleIndex(rule), skip },
            [] => Tail::Plain { counts, verdict: None },
            [Op::Verdict(verdict)] if !matches!(verdict, LinkedVerdict::Queue { .. }) => {
                Tail::Plain { counts, verdict: Some(*verdict) }
            }
            _ => Tail::Operations { rule: RuleIndex(rule), skip },
        };
        let Tails { all, numbers, .. } = self;
        let number = *numbers.entry(tail).or_insert_with(|| {
            all.push(tail);
            all.len() as u32 - 1
        });
        (number, counter.unwrap_or(0) as u32)
    }
}

/// Tails from which on a jump over the dispatch among them may be too far for a condition.
const FAR: usize = 4096;

impl Compiler<'_> {
    /// Does what the tail with number R2 says; R3 is the number of a counter. The search goes on as
    /// `found` says, or at `placed` where the packet is as it was.
    pub(super) fn tails(
        &mut self,
        tails: &[Tail],
        found: &Rule,
        placed: Label,
    ) -> Result<(), NotOffloadable> {
        let labels: Vec<Label> = tails.iter().map(|_| self.asm.label()).collect();
        self.dispatch_tails(&labels, 0);
        for (tail, label) in tails.iter().zip(labels) {
            self.check_size()?;
            self.asm.bind(label);
            match *tail {
                Tail::Plain { counts, verdict } => {
                    if counts {
                        self.count_number();
                    }
                    let verdict = verdict.unwrap_or(LinkedVerdict::Break);
                    let rule = Rule { next: placed, ..*found };
                    self.verdict(&verdict, &rule).map_err(NotOffloadable::all)?;
                    self.asm.jump(placed);
                }
                Tail::Operations { rule: index, skip } => {
                    // The search can be far.
                    let next = self.asm.label();
                    self.operations(skip, &mut Rule { index, next, ..*found })?;
                    self.asm.bind(next);
                    self.asm.jump(found.next);
                }
            }
        }
        Ok(())
    }

    /// Goes to the label with number R2, of those from `first` on.
    fn dispatch_tails(&mut self, labels: &[Label], first: usize) {
        match labels {
            [] => self.asm.jump(self.drop),
            [label] => self.asm.jump(*label),
            _ => {
                let (low, high) = labels.split_at(labels.len() / 2);
                let (lower, upper) = (self.asm.label(), self.asm.label());
                let middle = (first + low.len()) as i32;
                if low.len() > FAR {
                    self.asm.jump_if(Cond::Lt, R2, middle, lower);
                    self.asm.jump(upper);
                    self.asm.bind(lower);
                } else {
                    self.asm.jump_if(Cond::Ge, R2, middle, upper);
                }
                self.dispatch_tails(low, first);
                self.asm.bind(upper);
                self.dispatch_tails(high, first + low.len());
            }
        }
    }
}
