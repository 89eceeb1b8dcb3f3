// SPDX-License-Identifier: Apache-2.0

//! Addresses that were seen lately, and when (`net/netfilter/xt_recent.c`).

use std::hint::spin_loop;
use std::sync::OnceLock;
use std::sync::atomic::{
    AtomicBool, AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};

use penstock_sets::zeros;

use crate::sync::AtomicU64;

/// Addresses of a table (the module's parameter `ip_list_tot`).
const ADDRESSES: usize = 100;
/// Times of an address that a table keeps without a number of hits, and the most that it ever
/// keeps (`XT_RECENT_MAX_NSTAMPS`).
pub(crate) const FEWEST: u32 = 32;
pub(crate) const MOST: u32 = 65_536;

/// What a rule asks of a table, and does with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecentAction {
    /// Notes the time, and matches.
    Set,
    /// Forgets the address, and matches if it was there.
    Remove,
    /// Matches if the address was seen often enough.
    Check {
        /// Notes the time then.
        update: bool,
        /// Only times of the last so many seconds count; 0 for all.
        seconds: u32,
        /// Times that have to be there; 0 as 1.
        hits: u32,
        /// Forgets the address that was not seen for longest, if that is longer ago than `seconds`.
        reap: bool,
    },
}

/// An address as rules look for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Masked; an IPv4 address in the first 4 bytes.
    pub address: [u8; 16],
    pub v6: bool,
    pub ttl: u8,
    /// It has to have the same TTL as before.
    pub same_ttl: bool,
}

/// A place for an address.
#[derive(Debug, Default)]
struct Place {
    address: [AtomicU64; 2],
    /// 0 if it is free; else the family's version and, from bit 8 on, the TTL.
    kind: AtomicU32,
    /// Where the next time goes, and how many there are.
    next: AtomicU32,
    times: AtomicU32,
    /// Grows with each change: the smallest one was not changed for longest.
    changed: AtomicU64,
}

/// A table. All of it is changed under one flag, which a worker holds for as long as it looks
/// through the addresses; there are never many.
#[derive(Debug)]
pub struct Recent {
    taken: AtomicBool,
    places: Box<[Place]>,
    /// Times of all places, by the logarithm of how many an address has.
    times: [OnceLock<Box<[AtomicU64]>>; 17],
    kept: AtomicU32,
    changes: AtomicU64,
    /// Bits of addresses that count.
    pub(crate) mask: [u8; 16],
}

/// Times that a table keeps of an address for a rule with so many hits
/// (`recent_mt_check()`).
pub(crate) fn kept_for(hits: u32) -> u32 {
    if hits == 0 { FEWEST } else { hits.min(MOST).next_power_of_two() }
}

impl Recent {
    /// An empty table.
    pub(crate) fn new(mask: [u8; 16], hits: u32) -> Self {
        let table = Recent {
            taken: AtomicBool::new(false),
            places: (0..ADDRESSES).map(|_| Place::default()).collect(),
            times: [const { OnceLock::new() }; 17],
            kept: AtomicU32::new(0),
            changes: AtomicU64::new(0),
            mask,
        };
        table.keep(kept_for(hits));
        table
    }

    /// Keeps at least so many times of each address, a power of two. If those are more than before
    /// all addresses are forgotten.
    pub(crate) fn keep(&self, times: u32) {
        let Some(class) = self.times.get(times.ilog2() as usize) else { return };
        class.get_or_init(|| zeros(ADDRESSES * times as usize));
        self.alone(|| {
            if times > self.kept.load(Relaxed) {
                self.places.iter().for_each(|place| place.kind.store(0, Relaxed));
                self.kept.store(times, Relaxed);
            }
        });
    }

    /// Does something while no other worker looks at the table.
    fn alone<R>(&self, act: impl FnOnce() -> R) -> R {
        while self.taken.compare_exchange_weak(false, true, Acquire, Relaxed).is_err() {
            spin_loop();
        }
        let result = act();
        self.taken.store(false, Release);
        result
    }

    /// The times of a place.
    fn times_of(&self, at: usize) -> &[AtomicU64] {
        let kept = self.kept.load(Relaxed) as usize;
        let all = self.times.get(kept.ilog2() as usize).and_then(OnceLock::get);
        all.and_then(|all| all.get(at * kept..(at + 1) * kept)).unwrap_or_default()
    }

    fn find(&self, seen: &Seen) -> Option<usize> {
        let [a, b] = words(seen.address);
        self.places.iter().position(|place| {
            let kind = place.kind.load(Relaxed);
            let ttl = (kind >> 8) as u8;
            kind & 0xff == version(seen)
                && place.address[0].load(Relaxed) == a
                && place.address[1].load(Relaxed) == b
                && (!seen.same_ttl || seen.ttl == ttl || seen.ttl == 0 || ttl == 0)
        })
    }

    /// A place for a new address: a free one, or that which was not changed for longest.
    fn room(&self) -> Option<usize> {
        let age = |place: &Place| match place.kind.load(Relaxed) {
            0 => 0,
            _ => place.changed.load(Relaxed),
        };
        (0..self.places.len()).min_by_key(|at| age(&self.places[*at]))
    }

    fn add(&self, seen: &Seen, now: u64) {
        let Some(at) = self.room() else { return };
        let place = &self.places[at];
        for (to, word) in place.address.iter().zip(words(seen.address)) {
            to.store(word, Relaxed);
        }
        place.next.store(0, Relaxed);
        place.times.store(0, Relaxed);
        self.note(at, seen, now);
    }

    /// Notes the time (`recent_entry_update()`).
    fn note(&self, at: usize, seen: &Seen, now: u64) {
        let (place, times) = (&self.places[at], self.times_of(at));
        let next = place.next.load(Relaxed) as usize & times.len().wrapping_sub(1);
        if let Some(time) = times.get(next) {
            time.store(now, Relaxed);
        }
        let next = next as u32 + 1;
        place.next.store(next, Relaxed);
        place.times.fetch_max(next, Relaxed);
        place.kind.store(version(seen) | u32::from(seen.ttl) << 8, Relaxed);
        place.changed.store(self.changes.fetch_add(1, Relaxed) + 1, Relaxed);
    }

    fn forget(&self, at: usize) {
        self.places[at].kind.store(0, Relaxed);
    }

    /// Whether a rule matches at a time (ns), before it is inverted (`recent_mt()`).
    pub(crate) fn meet(&self, action: RecentAction, seen: &Seen, inverted: bool, now: u64) -> bool {
        self.alone(|| self.meet_alone(action, seen, inverted, now))
    }

    fn meet_alone(&self, action: RecentAction, seen: &Seen, inverted: bool, now: u64) -> bool {
        let found = self.find(seen);
        match (action, found) {
            (RecentAction::Set, None) => self.add(seen, now),
            (RecentAction::Set, Some(at)) => self.note(at, seen, now),
            (_, None) => return false,
            (RecentAction::Remove, Some(at)) => self.forget(at),
            (RecentAction::Check { update, seconds, hits, reap }, Some(at)) => {
                let since = now.saturating_sub(u64::from(seconds) * 1_000_000_000);
                let known = self.places[at].times.load(Relaxed) as usize;
                let times = self.times_of(at).iter().take(known);
                let count = times.filter(|t| seconds == 0 || t.load(Relaxed) >= since);
                let enough = count.take(hits.max(1) as usize).count() >= hits.max(1) as usize;
                let notes = update && enough != inverted;
                if reap {
                    self.reap(since, (at, notes));
                }
                if notes {
                    self.note(at, seen, now);
                }
                return enough;
            }
        }
        true
    }

    /// `recent_entry_reap()`, where one address is at work, and is to be changed or not.
    fn reap(&self, since: u64, (working, changes): (usize, bool)) {
        let used = |at: &usize| self.places[*at].kind.load(Relaxed) != 0;
        let age = |at: &usize| self.places[*at].changed.load(Relaxed);
        let Some(oldest) = (0..self.places.len()).filter(used).min_by_key(age) else { return };
        if oldest == working && changes {
            return;
        }
        let last = self.places[oldest].next.load(Relaxed).wrapping_sub(1) as usize;
        if self.times_of(oldest).get(last).is_some_and(|time| time.load(Relaxed) < since) {
            self.forget(oldest);
        }
    }
}

fn version(seen: &Seen) -> u32 {
    if seen.v6 { 6 } else { 4 }
}

fn words(address: [u8; 16]) -> [u64; 2] {
    let (words, _) = address.as_chunks::<8>();
    [0, 1].map(|i| words.get(i).map_or(0, |word| u64::from_ne_bytes(*word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn from(n: u8) -> Seen {
        Seen { address: [n; 16], v6: false, ttl: 64, same_ttl: false }
    }

    fn check(seconds: u32, hits: u32) -> RecentAction {
        RecentAction::Check { update: false, seconds, hits, reap: false }
    }

    #[test]
    fn addresses_are_seen_as_often_as_they_were_noted() {
        let table = Recent::new([0xff; 16], 0);
        assert!(!table.meet(check(0, 0), &from(1), false, 0));
        for second in 10..15 {
            assert!(table.meet(RecentAction::Set, &from(1), false, second * SECOND));
        }
        for (seconds, hits, now, expected) in [
            (0, 0, 99, true),
            (0, 5, 99, true),
            (0, 6, 99, false),
            (3, 3, 15, true),
            (3, 4, 15, false),
            (3, 1, 18, false),
        ] {
            let met = table.meet(check(seconds, hits), &from(1), false, now * SECOND);
            assert_eq!(met, expected, "{hits} within {seconds} s at {now}");
        }
        assert!(!table.meet(check(0, 0), &from(2), false, 99 * SECOND));
        assert!(table.meet(RecentAction::Remove, &from(1), false, 99 * SECOND));
        assert!(!table.meet(RecentAction::Remove, &from(1), false, 99 * SECOND));
    }

    #[test]
    fn a_full_table_forgets_the_address_that_was_not_seen_for_longest() {
        let table = Recent::new([0xff; 16], 0);
        for n in 0..=ADDRESSES as u8 {
            table.meet(RecentAction::Set, &from(n), false, u64::from(n));
        }
        let known = |n| table.meet(check(0, 0), &from(n), false, SECOND);
        assert_eq!([0, 1, 100].map(known), [false, true, true]);
    }

    #[test]
    fn a_rule_with_more_hits_starts_the_table_again() {
        let table = Recent::new([0xff; 16], 0);
        table.meet(RecentAction::Set, &from(1), false, 0);
        table.keep(kept_for(20));
        assert!(table.meet(check(0, 0), &from(1), false, 0));
        table.keep(kept_for(40));
        assert!(!table.meet(check(0, 0), &from(1), false, 0));
    }
}
