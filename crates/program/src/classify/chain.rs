// SPDX-License-Identifier: Apache-2.0

//! A chain's lookup: not there yet, there, or still the one of the chain before a change.

use std::sync::{Arc, OnceLock};

use penstock_packet::Packet;

use super::{Candidate, Lookup, WORTHWHILE};
use crate::Env;
use crate::linked::LinkedRule;
use crate::op::Op;

/// The lookup of a chain. It is built after the chain is in force, by any thread. Until then
/// packets walk, or ask the lookup of the chain before its last change.
#[derive(Debug)]
pub struct ChainLookup {
    least: usize,
    built: OnceLock<Option<Arc<Lookup>>>,
    before: Option<Before>,
}

/// The lookup of a chain that has changed since.
#[derive(Debug)]
struct Before {
    lookup: Arc<Lookup>,
    /// Today's number of each rule; of one that is gone, that of the next one that is not, with
    /// [`GONE`].
    numbers: Vec<u32>,
    /// Rules that are new, ascending.
    new: Vec<u32>,
}

const GONE: u32 = 1 << 31;

/// A lookup that is there.
#[derive(Clone, Copy, Debug)]
pub struct Finder<'i>(Which<'i>);

#[derive(Clone, Copy, Debug)]
enum Which<'i> {
    Built(&'i Lookup),
    Before(&'i Before),
}

impl Default for ChainLookup {
    fn default() -> Self {
        ChainLookup::with_least(WORTHWHILE)
    }
}

impl ChainLookup {
    /// For a chain in which so many rules ask something that can be looked up.
    pub fn with_least(least: usize) -> Self {
        ChainLookup { least, built: OnceLock::new(), before: None }
    }

    /// For a chain that has changed: `numbers` says of each of its rules before which number it has
    /// now, `None` for those that are gone, and now there are `count`. Rules that stay must be what
    /// they were, in the order in which they were.
    pub fn after(&self, numbers: impl ExactSizeIterator<Item = Option<u32>>, count: u32) -> Self {
        let before = match (self.built.get(), &self.before) {
            (Some(Some(lookup)), _) => Before::new(lookup.clone(), numbers.collect(), count),
            (None, Some(before)) => before.after(&numbers.collect::<Vec<_>>(), count),
            (Some(None), _) | (None, None) => None,
        };
        ChainLookup { least: self.least, built: OnceLock::new(), before }
    }

    /// Builds it, unless that was done.
    pub fn build(&self, rules: &[LinkedRule], ops: &[Op]) {
        self.built.get_or_init(|| Lookup::new(rules, ops, self.least).map(Arc::new));
    }

    /// Whether it was built; whether it was worth while is another question.
    pub fn is_built(&self) -> bool {
        self.built.get().is_some()
    }

    /// The lookup, if it was built and is worth while.
    pub fn lookup(&self) -> Option<&Arc<Lookup>> {
        self.built.get()?.as_ref()
    }

    /// What finds rules now.
    #[inline]
    pub fn finder(&self) -> Option<Finder<'_>> {
        match self.built.get() {
            Some(built) => Some(Finder(Which::Built(built.as_deref()?))),
            None => Some(Finder(Which::Before(self.before.as_ref()?))),
        }
    }
}

impl Finder<'_> {
    /// Rules before this one are all run, one after the other.
    #[inline]
    pub fn start(&self) -> u32 {
        match self.0 {
            Which::Built(lookup) => lookup.start(),
            Which::Before(_) => 0,
        }
    }

    /// What is found first for each of several packets, at most [`PACKETS`](super::PACKETS).
    /// `false` if packets are better looked up one by one.
    pub fn first_of<E: Env>(
        &self,
        packets: &[Packet],
        env: &mut E,
        found: &mut [Option<Candidate>],
    ) -> bool {
        match self.0 {
            Which::Built(lookup) if lookup.start() == 0 => lookup.first_of(packets, env, found),
            Which::Built(_) | Which::Before(_) => return false,
        }
        true
    }

    /// The first rule from `from` on that may do something to the packet.
    #[inline]
    pub fn next<E: Env>(&self, from: u32, packet: &Packet, env: &mut E) -> Option<Candidate> {
        match self.0 {
            Which::Built(lookup) => lookup.next(from, packet, env),
            Which::Before(before) => before.next(from, packet, env),
        }
    }
}

impl Before {
    /// `None` where so much is new that it does not help.
    fn new(lookup: Arc<Lookup>, numbers: Vec<Option<u32>>, count: u32) -> Option<Before> {
        let mut taken = vec![false; count as usize];
        for number in numbers.iter().flatten() {
            *taken.get_mut(*number as usize)? = true;
        }
        let new: Vec<u32> = (0..count).filter(|n| !taken[*n as usize]).collect();
        let mut next = count | GONE;
        let mut numbers: Vec<u32> = numbers
            .into_iter()
            .rev()
            .map(|number| match number {
                Some(number) => {
                    next = number | GONE;
                    number
                }
                None => next,
            })
            .collect();
        numbers.reverse();
        (new.len() * 4 <= count as usize).then_some(Before { lookup, numbers, new })
    }

    fn after(&self, numbers: &[Option<u32>], count: u32) -> Option<Before> {
        let now = |number: &u32| {
            if number & GONE == 0 { numbers.get(*number as usize).copied()? } else { None }
        };
        Before::new(self.lookup.clone(), self.numbers.iter().map(now).collect(), count)
    }

    fn next<E: Env>(&self, from: u32, packet: &Packet, env: &mut E) -> Option<Candidate> {
        let new = self.new.get(self.new.partition_point(|n| *n < from)).copied();
        let mut old = self.numbers.partition_point(|n| n & !GONE < from) as u32;
        let found = loop {
            let Some(candidate) = self.lookup.next(old, packet, env) else { break None };
            match self.numbers.get(candidate.rule as usize) {
                Some(number) if number & GONE == 0 => {
                    break Some(Candidate { rule: *number, ..candidate });
                }
                _ => old = candidate.rule + 1,
            }
        };
        match (found, new) {
            (Some(found), Some(new)) if new < found.rule => Some(Candidate { rule: new, skip: 0 }),
            (None, Some(new)) => Some(Candidate { rule: new, skip: 0 }),
            (found, _) => found,
        }
    }
}
