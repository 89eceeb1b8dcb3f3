// SPDX-License-Identifier: Apache-2.0

//! Elements of sets and maps that packets change: packets leave no word of them, so the sets are
//! read again and again, and what is another element than at the last look is told.

use std::collections::HashMap;
use std::sync::Arc;

use penstock_ctsync::secure::{ElementKey, ElementState, Record};
use penstock_program::dynamic::DynamicSet;
use penstock_ruleset::Generation;

/// Nanoseconds of a millisecond.
const MILLISECOND: u64 = 1_000_000;
/// How often sets are read, in nanoseconds.
const PERIOD: u64 = 1_000 * MILLISECOND;
/// Reading takes the twentieth part of the thread's time at most.
const SHARE: u64 = 20;
/// Elements that are known at most.
const MOST: usize = 1 << 20;

/// Which set: the number of its family, and the names of table and set.
type SetName = (u8, Arc<str>, Arc<str>);

/// An element as it was told.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Told {
    data: Box<[u8]>,
    timeout: u64,
    expires_at: Option<u64>,
    /// At which look it was there.
    seen: u64,
}

impl Told {
    fn state(&self, now: u64) -> ElementState {
        let left = self.expires_at.map_or(0, |at| at.saturating_sub(now) / MILLISECOND);
        let timeout = if self.expires_at.is_some() { self.timeout.max(1) } else { 0 };
        ElementState {
            data: self.data.clone(),
            timeout,
            left: if timeout == 0 { 0 } else { left.max(1) },
        }
    }

    /// Whether the peer needs to know of another expiry: later by a second, or by a tenth of the
    /// timeout.
    fn is_near(&self, expires_at: Option<u64>) -> bool {
        let most = (self.timeout * MILLISECOND / 10).max(PERIOD);
        match (self.expires_at, expires_at) {
            (Some(told), Some(now)) => told.abs_diff(now) < most,
            (told, now) => told == now,
        }
    }
}

/// What was told of all sets.
#[derive(Debug, Default)]
pub(super) struct Elements {
    told: HashMap<SetName, HashMap<Box<[u8]>, Told>>,
    looks: u64,
    next: u64,
    /// Elements that found no place.
    pub(super) refused: u64,
}

/// Sets of a generation that packets change and rules name.
fn dynamic_sets(generation: &Generation) -> impl Iterator<Item = (SetName, &Arc<DynamicSet>)> {
    generation.tables.iter().flat_map(|table| {
        let named = table.sets.iter().filter(|set| !set.anonymous);
        named.filter_map(|set| {
            let name = (table.family as u8, table.name.clone(), set.name.clone());
            Some((name, set.dynamic()?))
        })
    })
}

fn key((family, table, set): &SetName, key: &[u8]) -> ElementKey {
    ElementKey { family: *family, table: (**table).into(), set: (**set).into(), key: key.into() }
}

impl Elements {
    /// Whether the sets are to be read.
    pub(super) fn is_due(&self, now: u64) -> bool {
        now >= self.next
    }

    /// Reads the sets: what has changed since the last time.
    pub(super) fn changes(&mut self, generation: &Generation, now: u64) -> Vec<Record> {
        let mut out = Vec::new();
        self.looks += 1;
        let look = self.looks;
        let mut known: usize = self.told.values().map(HashMap::len).sum();
        for (name, set) in dynamic_sets(generation) {
            let told = self.told.entry(name.clone()).or_default();
            for element in set.current(now).into_iter().filter(|e| !e.key.is_empty()) {
                let expires_at = element.expires_at;
                if let Some(told) = told.get_mut(&element.key)
                    && *told.data == *element.data
                    && told.is_near(expires_at)
                {
                    told.seen = look;
                    continue;
                }
                if !told.contains_key(&element.key) {
                    if known >= MOST {
                        self.refused += 1;
                        continue;
                    }
                    known += 1;
                }
                let data = element.data.into();
                let new = Told { data, timeout: element.timeout, expires_at, seen: look };
                let key = key(&name, &element.key);
                if key.is_nameable() {
                    out.push(Record::Element(key, new.state(now)));
                }
                told.insert(element.key, new);
            }
        }
        for (name, told) in &mut self.told {
            told.retain(|element, told| {
                let there = told.seen == look;
                // What has expired ends at the peer, too.
                if !there && told.expires_at.is_none_or(|at| at > now) {
                    out.push(Record::NoElement(key(name, element)));
                }
                there
            });
        }
        self.told.retain(|_, told| !told.is_empty());
        let took = crate::now().saturating_sub(now);
        self.next = now + PERIOD.max(took * SHARE);
        out
    }

    /// All elements, as they were at the last look.
    pub(super) fn all(&self, now: u64) -> impl Iterator<Item = Record> {
        self.told.iter().flat_map(move |(name, told)| {
            told.iter().filter_map(move |(element, told)| {
                let key = Some(key(name, element)).filter(ElementKey::is_nameable)?;
                Some(Record::Element(key, told.state(now)))
            })
        })
    }
}

/// Adds elements of the peer to the sets of a generation, each with what was told of it and when.
/// Returns how many there are now, and how many could not be.
pub(super) fn restore(
    generation: &Generation,
    all: impl IntoIterator<Item = (ElementKey, ElementState, u64)>,
    now: u64,
) -> (u64, u64) {
    let sets: HashMap<_, _> = dynamic_sets(generation).collect();
    let (mut entered, mut failed) = (0, 0);
    for (ElementKey { family, table, set, key }, state, told) in all {
        let ends = (state.timeout != 0).then(|| told + state.left.saturating_mul(MILLISECOND));
        if ends.is_some_and(|at| at <= now) {
            continue;
        }
        let set = sets.get(&(family, table.into(), set.into()));
        match set.is_some_and(|set| set.restore(&key, &state.data, state.timeout, ends, now)) {
            true => entered += 1,
            false => failed += 1,
        }
    }
    (entered, failed)
}
