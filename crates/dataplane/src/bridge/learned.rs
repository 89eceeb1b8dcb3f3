// SPDX-License-Identifier: Apache-2.0

//! What a bridge has learned, for all workers: without locks, and lookups write nothing.
//!
//! ```text
//! address, VLAN --hash--> two buckets of eight places:  key    | port, some bits of the key's hash | last seen
//! ```
//!
//! A slot belongs to the key in it; it is entered by exchanging a zero for it, and taken back by
//! exchanging it for zero. The port stands beside bits of the key that it was written for, so that
//! a reader who was late, and finds the place to be another address's by now, takes nothing for the
//! other's. What was entered at two places at once stays at the first of them.

use std::hash::BuildHasher;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

use super::{Mac, ROOM};
use crate::sync::{AtomicBool, AtomicU64, AtomicUsize};

/// Places of a bucket.
const PLACES: usize = 8;
/// Between looking for what is over, in nanoseconds (`br_fdb_cleanup()`).
const PAUSE: u64 = 10_000_000;
/// A station is noted to be there at most so often, in nanoseconds: a tick of the kernel's.
const TICK: u64 = 1_000_000;

/// Address and VLAN in one word, which is never zero: nothing is learned of an address of zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key(u64);

impl Key {
    pub(crate) fn new(mac: Mac, vid: u16) -> Key {
        let [a, b, c, d, e, f] = mac.0;
        let [v, w] = vid.to_be_bytes();
        Key(u64::from_be_bytes([v, w, a, b, c, d, e, f]))
    }
}

/// What an address is learned under.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// Nanoseconds after which it is forgotten.
    pub(crate) ageing: u64,
    /// Addresses at most.
    pub(crate) limit: usize,
}

#[derive(Debug, Default)]
#[repr(align(64))]
struct Bucket {
    keys: [AtomicU64; PLACES],
    ports: [AtomicU64; PLACES],
    seen: [AtomicU64; PLACES],
}

/// A place of a bucket.
#[derive(Clone, Copy)]
struct Slot<'a> {
    key: &'a AtomicU64,
    port: &'a AtomicU64,
    seen: &'a AtomicU64,
}

impl Bucket {
    fn places(&self) -> impl Iterator<Item = Slot<'_>> {
        let all = self.keys.iter().zip(&self.ports).zip(&self.seen);
        all.map(|((key, port), seen)| Slot { key, port, seen })
    }
}

/// Where a key may be, and the hash bits stored with its port.
#[derive(Clone, Copy)]
struct Hashed {
    buckets: [usize; 2],
    check: u32,
}

impl Hashed {
    fn port(self, port: u32) -> u64 {
        u64::from(port) << 32 | u64::from(self.check)
    }

    /// The port, if it was written for this key.
    fn unpack(self, word: u64) -> Option<u32> {
        (word as u32 == self.check && word >> 32 != 0).then_some((word >> 32) as u32)
    }
}

impl Slot<'_> {
    fn is_over(&self, now: u64, ageing: u64) -> bool {
        self.seen.load(Acquire).saturating_add(ageing) <= now
    }

    /// The address is at a port.
    fn note(&self, hashed: Hashed, port: u32, now: u64, ageing: u64) {
        let word = hashed.port(port);
        if self.port.load(Relaxed) != word {
            self.port.store(word, Release);
        }
        // Many frames of a station come within a tick: their workers are not to wait for each
        // other's memory.
        let tick = TICK.min(ageing >> 10);
        if now > self.seen.load(Relaxed).saturating_add(tick) {
            self.seen.store(now, Release);
        }
    }
}

/// The learned addresses of one bridge.
#[derive(Debug)]
pub(crate) struct Learned {
    secret: [u64; 2],
    /// There from the first address on.
    buckets: OnceLock<Box<[Bucket]>>,
    count: AtomicUsize,
    /// The ageing time that `next_sweep` goes by.
    ageing: AtomicU64,
    /// Nothing is over before.
    next_sweep: AtomicU64,
    sweeping: AtomicBool,
}

impl Default for Learned {
    fn default() -> Self {
        let random = std::hash::RandomState::new();
        Learned::with_secret([0u8, 1].map(|n| random.hash_one(n)))
    }
}

impl Learned {
    /// With nothing learned, and what others do not know of the hash.
    pub(crate) fn with_secret(secret: [u64; 2]) -> Self {
        Learned {
            secret,
            buckets: OnceLock::new(),
            count: AtomicUsize::new(0),
            ageing: AtomicU64::new(0),
            next_sweep: AtomicU64::new(0),
            sweeping: AtomicBool::new(false),
        }
    }
}

/// Product of two words folded to one.
const fn fold(a: u64, b: u64) -> u64 {
    let wide = a as u128 * b as u128;
    wide as u64 ^ (wide >> 64) as u64
}

impl Learned {
    fn buckets(&self) -> &[Bucket] {
        self.buckets.get().map_or(&[], |buckets| buckets)
    }

    /// With room for twice as many as there may be.
    fn make(&self) -> &[Bucket] {
        self.buckets.get_or_init(|| (0..ROOM * 2 / PLACES).map(|_| Bucket::default()).collect())
    }

    fn hashed(&self, key: Key) -> Hashed {
        let hash = fold(key.0 ^ self.secret[0], self.secret[1] | 1);
        let at = |bits: u64| bits as usize % (ROOM * 2 / PLACES);
        Hashed { buckets: [at(hash), at(hash >> 32)], check: fold(hash, self.secret[0] | 1) as u32 }
    }

    fn places(&self, hashed: Hashed) -> impl Iterator<Item = Slot<'_>> {
        let [first, second] = hashed.buckets;
        let buckets = self.buckets();
        let second = (second != first).then(|| buckets.get(second)).flatten();
        buckets.get(first).into_iter().chain(second).flat_map(Bucket::places)
    }

    fn place(&self, hashed: Hashed, key: Key) -> Option<Slot<'_>> {
        self.places(hashed).find(|place| place.key.load(Acquire) == key.0)
    }

    /// Addresses that are learned.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.count.load(SeqCst)
    }

    /// The port at which an address was seen.
    pub(crate) fn find(&self, key: Key, now: u64, ageing: u64) -> Option<u32> {
        let hashed = self.hashed(key);
        let place = self.place(hashed, key)?;
        let port = hashed.unpack(place.port.load(Acquire))?;
        (!place.is_over(now, ageing)).then_some(port)
    }

    /// An address was seen at a port.
    pub(crate) fn learn(&self, key: Key, port: u32, now: u64, terms: Terms) {
        let hashed = self.hashed(key);
        match self.place(hashed, key) {
            Some(place) => place.note(hashed, port, now, terms.ageing),
            None => self.enter(key, hashed, port, now, terms),
        }
    }

    #[cold]
    fn enter(&self, key: Key, hashed: Hashed, port: u32, now: u64, terms: Terms) {
        self.make();
        if self.ageing.swap(terms.ageing, Relaxed) != terms.ageing {
            let first =
                if self.count.load(SeqCst) == 0 { now.saturating_add(terms.ageing) } else { now };
            self.next_sweep.store(first, Relaxed);
        }
        if now >= self.next_sweep.load(Relaxed) {
            self.sweep(now, terms.ageing);
        }
        if self.count.fetch_add(1, SeqCst) >= terms.limit.min(ROOM) {
            self.count.fetch_sub(1, SeqCst);
            return;
        }
        let [first, second] = hashed.buckets;
        let free = |bucket: usize| {
            let places = self.buckets().get(bucket).into_iter().flat_map(Bucket::places);
            places.filter(|place| place.key.load(Relaxed) == 0).count()
        };
        let fuller_first = free(first) < free(second);
        let order = if fuller_first { [second, first] } else { [first, second] };
        let places =
            order.into_iter().filter_map(|at| self.buckets().get(at)).flat_map(Bucket::places);
        for place in places {
            match place.key.compare_exchange(0, key.0, SeqCst, SeqCst) {
                Ok(_) => {
                    // A slot without a port is not treated as expired.
                    place.seen.store(now, Release);
                    place.port.store(hashed.port(port), Release);
                    self.leave_one(key, hashed);
                    return;
                }
                Err(other) if other == key.0 => {
                    place.note(hashed, port, now, terms.ageing);
                    break;
                }
                Err(_) => {}
            }
        }
        self.count.fetch_sub(1, SeqCst);
    }

    /// Takes an address back wherever it is after its first place: of two that have entered it at
    /// once, each sees the other, or one of them does.
    fn leave_one(&self, key: Key, hashed: Hashed) {
        let same = self.places(hashed).filter(|place| place.key.load(SeqCst) == key.0);
        same.skip(1).for_each(|place| self.remove(place, key.0));
    }

    fn remove(&self, place: Slot<'_>, key: u64) {
        // Should the place be another's by now, that one's port is written again when it is seen
        // next.
        place.port.store(0, Release);
        if place.key.compare_exchange(key, 0, SeqCst, SeqCst).is_ok() {
            self.count.fetch_sub(1, SeqCst);
        }
    }

    /// Removes entries that were not seen for the ageing time, unless another worker does so
    /// already.
    fn sweep(&self, now: u64, ageing: u64) {
        if self.sweeping.swap(true, SeqCst) {
            return;
        }
        let mut oldest = now;
        for place in self.buckets().iter().flat_map(Bucket::places) {
            let key = place.key.load(Acquire);
            if key == 0 {
                continue;
            }
            // One that is just being entered has no port yet.
            if self.hashed(Key(key)).unpack(place.port.load(Acquire)).is_none() {
                continue;
            }
            if place.is_over(now, ageing) {
                self.remove(place, key);
            } else {
                oldest = oldest.min(place.seen.load(Relaxed));
            }
        }
        let next = oldest.saturating_add(ageing).max(now.saturating_add(PAUSE));
        self.next_sweep.store(next, Relaxed);
        self.sweeping.store(false, SeqCst);
    }

    /// Forgets all at ports that do not stay.
    pub(crate) fn forget(&self, stays: impl Fn(u32) -> bool) {
        for place in self.buckets().iter().flat_map(Bucket::places) {
            let key = place.key.load(Acquire);
            if key != 0
                && let Some(port) = self.hashed(Key(key)).unpack(place.port.load(Acquire))
                && !stays(port)
            {
                self.remove(place, key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERMS: Terms = Terms { ageing: 1_000_000_000, limit: ROOM };

    fn key(n: u64) -> Key {
        let [_, _, bytes @ ..] = n.to_be_bytes();
        Key::new(Mac(bytes), 0)
    }

    #[test]
    fn the_table_has_slots_for_the_learning_limit() {
        let table = Learned::default();
        for n in 1..=ROOM as u64 + 1000 {
            table.learn(key(n), n as u32, n, TERMS);
        }
        let known = (1..=ROOM as u64 + 1000)
            .filter(|n| table.find(key(*n), *n, TERMS.ageing) == Some(*n as u32));
        // Were both buckets of an address full, it would have found none.
        assert!(known.count() >= ROOM - 10);
        let later = TERMS.ageing + ROOM as u64 / 2;
        table.learn(key(1 << 40), 7, later, TERMS);
        assert!((ROOM / 2 - 10..=ROOM / 2 + 1010).contains(&table.len()), "{}", table.len());
        table.forget(|port| port == 7);
        assert_eq!((table.len(), table.find(key(1 << 40), later, TERMS.ageing)), (1, Some(7)));
    }

    #[test]
    fn concurrent_learning_keeps_addresses_unique() {
        const THREADS: u64 = 4;
        const ADDRESSES: u64 = 300;
        const ROUNDS: u64 = 20_000;
        let (table, clock) = (Learned::default(), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (table, clock) = (&table, &clock);
                scope.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(thread);
                    for _ in 0..ROUNDS {
                        // Some addresses are not seen for so long that they are forgotten
                        // meanwhile.
                        let now = clock.fetch_add(random.u64(..200_000), SeqCst);
                        let n = 1 + random.u64(..ADDRESSES);
                        let port = (n * 10) as u32 + random.u32(1..4);
                        let terms = Terms { ageing: 100_000_000, ..TERMS };
                        table.learn(key(n), port, now, terms);
                        let n = 1 + random.u64(..ADDRESSES);
                        if let Some(found) = table.find(key(n), now, terms.ageing) {
                            assert_eq!(u64::from(found) / 10, n, "another's port");
                        }
                        if random.u32(..2000) == 0 {
                            let gone = random.u32(1..4);
                            table.forget(|port| port % 10 != gone);
                        }
                    }
                });
            }
        });
        let now = clock.load(SeqCst);
        let places =
            || table.buckets().iter().flat_map(Bucket::places).map(|place| place.key.load(SeqCst));
        let mut keys: Vec<u64> = places().filter(|key| *key != 0).collect();
        assert_eq!(keys.len(), table.len(), "connlimit");
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), table.len(), "once each");
        for n in 1..=ADDRESSES {
            table.learn(key(n), n as u32, now, TERMS);
            assert_eq!(table.find(key(n), now, TERMS.ageing), Some(n as u32));
        }
        assert_eq!(table.len(), ADDRESSES as usize);
    }

    #[test]
    fn the_learning_limit_holds_across_threads() {
        let (table, terms) = (Learned::default(), Terms { limit: 100, ..TERMS });
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let table = &table;
                scope.spawn(move || {
                    for n in 0..1000 {
                        table.learn(key(1 + thread * 1000 + n), 1, n, terms);
                        assert!(
                            table.len() <= 100 + 4,
                            "each has connlimit one at most that it takes back"
                        );
                    }
                });
            }
        });
        assert_eq!(table.len(), 100);
    }
}
