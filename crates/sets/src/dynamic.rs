// SPDX-License-Identifier: Apache-2.0

//! A table of elements that packets add, renew and remove while other workers look them up.
//!
//! Everything is words of atomic integers, made once for a fixed number of elements: no operation
//! allocates, and memory that was never used is never touched. Each bucket is one word: the first
//! element of its chain and a sequence number, which is odd while a writer changes the chain. All
//! of it is shared without `&mut`:
//!
//! - A lookup writes nothing. It walks the chain, copies what it needs, and does so again if the
//!   sequence number has changed meanwhile. It waits only for a writer in the very same bucket,
//!   which only does a handful of stores.
//! - A writer takes the bucket by making its sequence number odd, so a key is never there twice,
//!   and no two writers change a chain at once. Writers in different buckets share nothing but the
//!   count, the list of free slots and the bounds of expiry.
//! - The words of a value that lookups hand out stay valid memory, but once its element is gone
//!   they may belong to another one: code that keeps them for longer than the lookup must only do
//!   what harms neither, such as counting. Words that must fit each other are to be read in the
//!   closure of [`Dynamic::lookup`].
//!
//! What has expired is as good as gone; its slot is taken back when a chain is changed, and by a
//! search through some slots when the table is full.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

use crate::hash::{SPREAD, fold, seed};
use crate::sync::{AtomicBool, AtomicU32, AtomicU64, fence, spin_loop, zeros};

/// The expiry of what does not expire.
pub const NEVER: u64 = u64::MAX;

/// Most bytes of one table's slots: what does not fit finds the table full, as memory ends in the
/// kernel.
const BYTES_MAX: usize = 1 << 30;
/// Bytes that a large table leaves to the rest of the process, at least.
const SPARE: usize = 16 << 20;
/// Slots that an insertion looks through for something that has expired when the table is full.
const SEARCHED: u32 = 256;

/// Words of a slot: the next slot of the chain (plus one) below the hash; the expiry; then key and
/// value.
const NEXT: usize = 0;
const EXPIRES: usize = 1;
const KEY: usize = 2;

/// One step of a bucket's sequence number; odd numbers are writers'.
const SEQUENCE: u64 = 1 << 32;
const LOW: u64 = SEQUENCE - 1;

/// An element as [`Dynamic::elements`] found it.
#[derive(Clone, Debug)]
pub struct DynamicElement<R> {
    /// Key bytes.
    pub key: Box<[u8]>,
    /// When it expires (ns); `None` for never.
    pub expires_at: Option<u64>,
    /// Where its value is: [`Dynamic::value`].
    pub slot: u32,
    /// What was read of its value.
    pub read: R,
}

/// The table. Keys are bytes in register layout, values are words that only the caller knows.
pub struct Dynamic {
    key_len: usize,
    key_words: usize,
    stride: usize,
    seed: u64,
    capacity: u32,
    buckets: Box<[AtomicU64]>,
    slots: Box<[AtomicU64]>,
    /// At most so many elements.
    limit: AtomicU32,
    /// Elements there are, and places reserved.
    len: AtomicU32,
    /// Slots that were ever in use.
    used: AtomicU32,
    /// First free slot (plus one), below a number that changes with every change.
    free: AtomicU64,
    /// Nothing expires before.
    earliest: AtomicU64,
    /// Nothing that was added or passed in this round of [`Dynamic::search`] expires before.
    earliest_of_round: AtomicU64,
    searching: AtomicBool,
    /// Places of [`Dynamic::remove_later`] that are not free yet, and when they are.
    leaving: AtomicU32,
    leave_at: AtomicU64,
    /// The slot where the search continues.
    hand: AtomicU32,
}

impl std::fmt::Debug for Dynamic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dynamic").field("key_len", &self.key_len).field("len", &self.len()).finish()
    }
}

/// A key in words, and its hash.
struct Key {
    words: [u64; 8],
    hash: u32,
}

/// A chain after [`Dynamic::clean`].
struct Cleaned {
    /// Its first slot (plus one).
    first: u32,
    /// The slot (plus one) with the key that was searched, or 0.
    found: u32,
    /// How many elements went.
    removed: u32,
}

/// Elements that a table of this size has room for.
fn capacity_of(stride: usize, size: u32) -> usize {
    (size as usize).clamp(1, BYTES_MAX / (stride * 8)).min(1 << 31)
}

fn buckets_of(capacity: usize) -> usize {
    capacity.next_power_of_two().max(8)
}

fn has_expired(slot: &[AtomicU64], now: u64) -> bool {
    slot.get(EXPIRES).is_some_and(|e| e.load(Relaxed) <= now)
}

/// The hash of one more word.
#[inline]
fn with_word(hash: u64, word: u64) -> u64 {
    fold(hash ^ word, SPREAD)
}

/// A hash as elements carry it.
#[inline]
fn in_half(hash: u64) -> u32 {
    (hash ^ hash >> 32) as u32
}

fn word(bytes: &[u8]) -> u64 {
    let mut padded = [0; 8];
    padded[..bytes.len()].copy_from_slice(bytes);
    u64::from_ne_bytes(padded)
}

impl Dynamic {
    /// An empty table for keys of 1 to 64 bytes and values of so many words, which holds `size`
    /// elements.
    pub fn new(key_len: usize, value_words: usize, size: u32) -> Self {
        let key_len = key_len.clamp(1, 64);
        let key_words = key_len.div_ceil(8);
        let stride = KEY + key_words + value_words;
        let capacity = capacity_of(stride, size);
        Dynamic {
            key_len,
            key_words,
            stride,
            seed: seed(),
            capacity: capacity as u32,
            buckets: zeros(buckets_of(capacity)),
            slots: zeros(capacity * stride),
            limit: AtomicU32::new(size.min(capacity as u32)),
            len: AtomicU32::new(0),
            used: AtomicU32::new(0),
            free: AtomicU64::new(0),
            earliest: AtomicU64::new(NEVER),
            earliest_of_round: AtomicU64::new(NEVER),
            searching: AtomicBool::new(false),
            leaving: AtomicU32::new(0),
            leave_at: AtomicU64::new(0),
            hand: AtomicU32::new(0),
        }
    }

    /// Whether there is memory for such a table, and some for the rest of the process, too. It
    /// is as cheap as making one: no memory is touched.
    pub fn has_room(key_len: usize, value_words: usize, size: u32) -> bool {
        let stride = KEY + key_len.clamp(1, 64).div_ceil(8) + value_words;
        let capacity = capacity_of(stride, size);
        let words = capacity * stride + buckets_of(capacity);
        // A small table is no more than the process needs for other things.
        let spare = if words * 8 > SPARE { SPARE / 8 } else { 0 };
        Vec::<u64>::new().try_reserve_exact(words + spare).is_ok()
    }

    /// Bytes of a key.
    pub fn key_len(&self) -> usize {
        self.key_len
    }

    /// The most elements that [`Dynamic::set_limit`] can allow.
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Elements, those that have expired unnoticed and reserved places included.
    pub fn len(&self) -> u32 {
        self.len.load(Relaxed)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many elements are allowed.
    pub fn limit(&self) -> u32 {
        self.limit.load(Relaxed)
    }

    /// Allows so many elements, at most as many as there is room for. More may be there already.
    pub fn set_limit(&self, size: u32) {
        self.limit.store(size.min(self.capacity), Relaxed);
    }

    /// The words of the value in a slot.
    #[inline]
    pub fn value(&self, slot: u32) -> &[AtomicU64] {
        self.slot(slot).get(KEY + self.key_words..).unwrap_or_default()
    }

    #[inline]
    fn slot(&self, slot: u32) -> &[AtomicU64] {
        let from = slot as usize * self.stride;
        self.slots.get(from..from + self.stride).unwrap_or_default()
    }

    /// The words before the key, and its first one.
    #[inline]
    fn head(&self, slot: u32) -> Option<&[AtomicU64; KEY + 1]> {
        self.slots.get(slot as usize * self.stride..)?.first_chunk()
    }

    #[inline]
    fn key(&self, key: &[u8]) -> Option<Key> {
        if key.len() != self.key_len {
            return None;
        }
        let mut words = [0; 8];
        let mut hash = self.seed;
        for (to, bytes) in words.iter_mut().zip(key.chunks(8)) {
            *to = match bytes.try_into() {
                Ok(whole) => u64::from_ne_bytes(whole),
                Err(_) => word(bytes),
            };
            hash = with_word(hash, *to);
        }
        Some(Key { words, hash: in_half(hash) })
    }

    #[inline]
    fn bucket(&self, hash: u32) -> &AtomicU64 {
        &self.buckets[hash as usize & (self.buckets.len() - 1)]
    }

    #[inline]
    fn holds(&self, slot: &[AtomicU64], key: &Key) -> bool {
        let words = slot.get(KEY..KEY + self.key_words).unwrap_or_default();
        words.iter().zip(&key.words).all(|(a, b)| a.load(Relaxed) == *b)
    }

    /// The element with this key that has not expired at time `now` (ns): what `read` makes of its
    /// value, which is of one element and one moment, and its slot. `read` may be called several
    /// times.
    #[inline]
    pub fn lookup<R>(
        &self,
        key: &[u8],
        now: u64,
        read: impl FnMut(&[AtomicU64]) -> R,
    ) -> Option<(R, u32)> {
        let key = self.key(key)?;
        self.find(key.hash, |at, _| self.holds(self.slot(at), &key), now, read)
    }

    /// Whether there is an element that has not expired at time `now` (ns) with this key, of at
    /// most 8 bytes, its first byte the lowest of a number.
    #[inline]
    pub fn contains_short(&self, key: u64, now: u64) -> bool {
        let key = u64::from_ne_bytes(key.to_le_bytes());
        let holds = |_, first: &AtomicU64| first.load(Relaxed) == key;
        let hash = in_half(with_word(self.seed, key));
        self.key_words == 1 && self.find(hash, holds, now, |_| ()).is_some()
    }

    /// [`Dynamic::lookup`] of the key with a hash that `holds` knows by a slot and the first word
    /// of the key there.
    #[inline(always)]
    fn find<R>(
        &self,
        hash: u32,
        holds: impl Fn(u32, &AtomicU64) -> bool,
        now: u64,
        mut read: impl FnMut(&[AtomicU64]) -> R,
    ) -> Option<(R, u32)> {
        let bucket = self.bucket(hash);
        'again: loop {
            let seen = bucket.load(Acquire);
            let mut at = (seen & LOW) as u32;
            if at == 0 {
                return None;
            }
            if seen & SEQUENCE != 0 {
                spin_loop();
                continue;
            }
            let mut found = None;
            while at != 0 {
                let [next, expires, first] = self.head(at - 1)?;
                if holds(at - 1, first) {
                    if now < expires.load(Relaxed) {
                        found = Some((read(self.value(at - 1)), at - 1));
                    }
                    break;
                }
                at = next.load(Relaxed) as u32;
                // A slot that went to another chain leads astray.
                if bucket.load(Relaxed) != seen {
                    continue 'again;
                }
            }
            fence(Acquire);
            if bucket.load(Relaxed) == seen {
                return found;
            }
        }
    }

    /// Takes a bucket: its word, as long as it is taken.
    #[inline]
    fn lock(&self, bucket: &AtomicU64) -> u64 {
        loop {
            let seen = bucket.load(Relaxed);
            if seen & SEQUENCE == 0
                && bucket.compare_exchange_weak(seen, seen + SEQUENCE, Acquire, Relaxed).is_ok()
            {
                // The sequence number is odd before anything changes.
                fence(Release);
                return seen + SEQUENCE;
            }
            spin_loop();
        }
    }

    /// Gives a bucket back with another first slot (plus one).
    #[inline]
    fn unlock(&self, bucket: &AtomicU64, locked: u64, first: u32) {
        bucket.store((locked & !LOW).wrapping_add(SEQUENCE) | u64::from(first), Release);
    }

    /// Gives a bucket back of which nothing has changed that readers could have seen half of.
    #[inline]
    fn unlock_unchanged(&self, bucket: &AtomicU64, locked: u64) {
        bucket.store(locked - SEQUENCE, Release);
    }

    /// Searches a chain that is taken for the key, and removes from it all that `gone` says so of,
    /// by its words and whether it has the key.
    fn clean(
        &self,
        locked: u64,
        key: Option<&Key>,
        gone: impl Fn(&[AtomicU64], bool) -> bool,
    ) -> Cleaned {
        let mut chain = Cleaned { first: (locked & LOW) as u32, found: 0, removed: 0 };
        let (mut before, mut at) = (0, chain.first);
        while at != 0 {
            let slot = self.slot(at - 1);
            let next = slot.get(NEXT).map_or(0, |n| n.load(Relaxed) as u32);
            let same = key.is_some_and(|key| self.holds(slot, key));
            if gone(slot, same) {
                chain.removed += 1;
                match before {
                    0 => chain.first = next,
                    _ => self.link(before - 1, next),
                }
                self.give_back(at - 1);
            } else {
                if same {
                    chain.found = at;
                }
                before = at;
            }
            at = next;
        }
        chain
    }

    /// Gives a bucket back after [`Dynamic::clean`].
    fn unlock_cleaned(&self, bucket: &AtomicU64, locked: u64, chain: &Cleaned) {
        match chain.removed {
            0 => self.unlock_unchanged(bucket, locked),
            _ => self.unlock(bucket, locked, chain.first),
        }
    }

    fn link(&self, slot: u32, next: u32) {
        if let Some(word) = self.slot(slot).get(NEXT) {
            word.store(word.load(Relaxed) & !LOW | u64::from(next), Relaxed);
        }
    }

    /// Puts a slot on the list of free ones.
    fn give_back(&self, slot: u32) {
        let words = self.slot(slot);
        let (Some(next), Some(expires)) = (words.get(NEXT), words.get(EXPIRES)) else { return };
        expires.store(NEVER, Relaxed);
        let mut head = self.free.load(Relaxed);
        loop {
            next.store(head & LOW, Relaxed);
            let new = (head & !LOW).wrapping_add(SEQUENCE) | u64::from(slot + 1);
            match self.free.compare_exchange_weak(head, new, Release, Relaxed) {
                Ok(_) => break,
                Err(other) => head = other,
            }
        }
        self.len.fetch_sub(1, Release);
    }

    /// A free slot for a place that is reserved.
    fn take_slot(&self) -> Option<u32> {
        let mut head = self.free.load(Acquire);
        while head & LOW != 0 {
            let slot = (head & LOW) as u32 - 1;
            let next = self.slot(slot).get(NEXT)?.load(Relaxed) & LOW;
            let new = (head & !LOW).wrapping_add(SEQUENCE) | next;
            match self.free.compare_exchange_weak(head, new, AcqRel, Acquire) {
                Ok(_) => return Some(slot),
                Err(other) => head = other,
            }
        }
        let more = |used: u32| (used < self.capacity).then_some(used + 1);
        self.used.fetch_update(Relaxed, Relaxed, more).ok()
    }

    /// Reserves a place for [`Dynamic::insert_reserved`], if there are fewer elements than the
    /// limit and `beyond` allow.
    pub fn reserve(&self, beyond: u32) -> bool {
        let limit = self.limit.load(Relaxed).saturating_add(beyond);
        self.len.fetch_update(Acquire, Relaxed, |len| (len < limit).then_some(len + 1)).is_ok()
    }

    /// Gives a reserved place back.
    pub fn release(&self) {
        self.len.fetch_sub(1, Release);
    }

    /// The slot of the element with this key, which is made if there is none, and whether it was
    /// made; `None` if the table is full. The new element's value is what `fill` writes into its
    /// words, which hold anything before.
    #[inline]
    pub fn insert(
        &self,
        key: &[u8],
        now: u64,
        expires_at: u64,
        fill: impl FnOnce(&[AtomicU64]),
    ) -> Option<(u32, bool)> {
        match self.lookup(key, now, |_| ()) {
            Some(((), slot)) => Some((slot, false)),
            None => self.insert_missing(key, now, expires_at, false, fill),
        }
    }

    /// [`Dynamic::insert`] into a slot from [`Dynamic::reserve`].
    pub fn insert_reserved(
        &self,
        key: &[u8],
        now: u64,
        expires_at: u64,
        fill: impl FnOnce(&[AtomicU64]),
    ) -> Option<(u32, bool)> {
        let inserted = self.insert_missing(key, now, expires_at, true, fill);
        if !matches!(inserted, Some((_, true))) {
            self.release();
        }
        inserted
    }

    #[inline(never)]
    fn insert_missing(
        &self,
        key: &[u8],
        now: u64,
        expires_at: u64,
        reserved: bool,
        fill: impl FnOnce(&[AtomicU64]),
    ) -> Option<(u32, bool)> {
        let key = self.key(key)?;
        let bucket = self.bucket(key.hash);
        let mut searched = false;
        loop {
            let locked = self.lock(bucket);
            let chain = self.clean(locked, Some(&key), |slot, _| has_expired(slot, now));
            let leave = || self.unlock_cleaned(bucket, locked, &chain);
            if chain.found != 0 {
                leave();
                return Some((chain.found - 1, false));
            }
            if !reserved && !self.reserve(0) {
                leave();
                if searched || self.make_room(now, SEARCHED) == 0 {
                    return None;
                }
                searched = true;
                continue;
            }
            let Some(slot) = self.take_slot() else {
                leave();
                if !reserved {
                    self.release();
                }
                return None;
            };
            // Who still looks at the slot as one of another bucket is to see that bucket changed
            // before anything of this: the fence of the lock came before it was known that the slot
            // is free.
            fence(Release);
            let words = self.slot(slot);
            if let [next, expires, key_words @ ..] = words {
                next.store(u64::from(key.hash) << 32 | u64::from(chain.first), Relaxed);
                expires.store(expires_at, Relaxed);
                for (to, from) in key_words.iter().take(self.key_words).zip(&key.words) {
                    to.store(*from, Relaxed);
                }
            }
            fill(self.value(slot));
            self.unlock(bucket, locked, slot + 1);
            self.note(expires_at);
            return Some((slot, true));
        }
    }

    /// Gives the element with this key another expiry, where `renew` has one for its value, which
    /// it may change; its slot.
    #[inline]
    pub fn renew(
        &self,
        key: &[u8],
        now: u64,
        renew: impl FnOnce(&[AtomicU64]) -> Option<u64>,
    ) -> Option<u32> {
        // Most of what is not there is found out without taking the bucket.
        self.lookup(key, now, |_| ())?;
        let key = self.key(key)?;
        let bucket = self.bucket(key.hash);
        let locked = self.lock(bucket);
        let mut at = (locked & LOW) as u32;
        while at != 0 {
            let slot = self.slot(at - 1);
            let [next, expires, ..] = slot else { break };
            if self.holds(slot, &key) {
                if expires.load(Relaxed) <= now {
                    break;
                }
                let renewed = renew(self.value(at - 1));
                if let Some(expires_at) = renewed {
                    expires.store(expires_at, Relaxed);
                }
                self.unlock(bucket, locked, (locked & LOW) as u32);
                if let Some(expires_at) = renewed {
                    self.note(expires_at);
                }
                return Some(at - 1);
            }
            at = next.load(Relaxed) as u32;
        }
        self.unlock_unchanged(bucket, locked);
        None
    }

    /// Removes the element with this key; whether it was there and had not expired.
    pub fn remove(&self, key: &[u8], now: u64) -> bool {
        if self.lookup(key, now, |_| ()).is_none() {
            return false;
        }
        let Some(key) = self.key(key) else { return false };
        let bucket = self.bucket(key.hash);
        let locked = self.lock(bucket);
        let chain = self.clean(locked, Some(&key), |_, same| same);
        self.unlock_cleaned(bucket, locked, &chain);
        chain.removed > 0
    }

    /// [`Dynamic::remove`] with a delay: the slot is free only after so many nanoseconds, counted
    /// from the first such removal with a slot still taken, as dead elements of the kernel wait for
    /// the next sweep.
    pub fn remove_later(&self, key: &[u8], now: u64, delay: u64) -> bool {
        if self.lookup(key, now, |_| ()).is_none() {
            return false;
        }
        self.len.fetch_add(1, Relaxed);
        if !self.remove(key, now) {
            self.release();
            return false;
        }
        self.free_left(now);
        if self.leaving.fetch_add(1, AcqRel) == 0 {
            self.leave_at.store(now.saturating_add(delay), Release);
        }
        true
    }

    /// Frees places for a table that is full: of those that left long enough ago, and of those that
    /// have expired, as far as a look at so many slots tells. How many.
    pub fn make_room(&self, now: u64, slots: u32) -> u32 {
        self.free_left(now) + self.search(now, slots)
    }

    /// Frees the places of those that left long enough ago; how many.
    fn free_left(&self, now: u64) -> u32 {
        if self.leaving.load(Acquire) == 0 || now < self.leave_at.load(Acquire) {
            return 0;
        }
        let freed = self.leaving.swap(0, AcqRel);
        self.len.fetch_sub(freed, Release);
        freed
    }

    /// Removes all elements.
    pub fn clear(&self) {
        for bucket in self.buckets.iter().filter(|b| b.load(Acquire) & LOW != 0) {
            let locked = self.lock(bucket);
            let chain = self.clean(locked, None, |_, _| true);
            self.unlock_cleaned(bucket, locked, &chain);
        }
    }

    /// Keeps the bounds of expiry.
    #[inline]
    fn note(&self, expires_at: u64) {
        // First the round's, then the one that the search looks at: see there.
        if expires_at < self.earliest_of_round.load(SeqCst) {
            self.earliest_of_round.fetch_min(expires_at, SeqCst);
        }
        if expires_at < self.earliest.load(SeqCst) {
            self.earliest.fetch_min(expires_at, SeqCst);
        }
    }

    /// Looks through so many slots for what has expired, and takes it back; how many. It continues
    /// where it stopped, and does nothing while nothing can have expired or while another worker is
    /// at it.
    fn search(&self, now: u64, slots: u32) -> u32 {
        if now < self.earliest.load(SeqCst) || self.searching.swap(true, Acquire) {
            return 0;
        }
        let mut removed = 0;
        let used = self.used.load(Relaxed);
        let mut hand = self.hand.load(Relaxed);
        for _ in 0..slots.min(used) {
            if let [next, expires, ..] = self.slot(hand) {
                let expires_at = expires.load(Relaxed);
                if expires_at <= now {
                    removed += self.drop_expired((next.load(Relaxed) >> 32) as u32, now);
                } else if expires_at < self.earliest_of_round.load(SeqCst) {
                    self.earliest_of_round.fetch_min(expires_at, SeqCst);
                }
            }
            hand += 1;
            if hand >= used {
                hand = 0;
                // What was added after the swap is in the new round's bound, which therefore counts
                // again.
                let bound = self.earliest_of_round.swap(NEVER, SeqCst);
                self.earliest.store(bound, SeqCst);
                self.earliest.fetch_min(self.earliest_of_round.load(SeqCst), SeqCst);
                if now < bound {
                    break;
                }
            }
        }
        self.hand.store(hand, Relaxed);
        self.searching.store(false, Release);
        removed
    }

    /// Looks through so many slots for elements that `idle` says so of, by their value, and removes
    /// them; how many. It continues where it stopped, and does nothing while another worker is at
    /// it.
    pub fn drop_some(&self, slots: u32, idle: impl Fn(&[AtomicU64]) -> bool) -> u32 {
        if self.searching.swap(true, Acquire) {
            return 0;
        }
        let mut removed = 0;
        let used = self.used.load(Relaxed);
        let mut hand = self.hand.load(Relaxed);
        let value = |slot: &[AtomicU64]| KEY + self.key_words..slot.len();
        let is_idle = |slot: &[AtomicU64], _| idle(slot.get(value(slot)).unwrap_or_default());
        for _ in 0..slots.min(used) {
            let slot = self.slot(hand);
            if is_idle(slot, false)
                && let Some(next) = slot.get(NEXT)
            {
                let bucket = self.bucket((next.load(Relaxed) >> 32) as u32);
                let locked = self.lock(bucket);
                let chain = self.clean(locked, None, is_idle);
                self.unlock_cleaned(bucket, locked, &chain);
                removed += chain.removed;
            }
            hand = if hand + 1 >= used { 0 } else { hand + 1 };
        }
        self.hand.store(hand, Relaxed);
        self.searching.store(false, Release);
        removed
    }

    /// Removes what has expired from the chain of a hash; how many.
    fn drop_expired(&self, hash: u32, now: u64) -> u32 {
        let bucket = self.bucket(hash);
        let locked = self.lock(bucket);
        let chain = self.clean(locked, None, |slot, _| has_expired(slot, now));
        self.unlock_cleaned(bucket, locked, &chain);
        chain.removed
    }

    fn key_bytes(&self, slot: &[AtomicU64]) -> Box<[u8]> {
        let words = slot.get(KEY..KEY + self.key_words).unwrap_or_default();
        words.iter().flat_map(|w| w.load(Relaxed).to_ne_bytes()).take(self.key_len).collect()
    }

    /// All live elements, in no order. Each is consistent; elements that change during the walk may
    /// be included or not, and one that is removed and added again may appear twice.
    pub fn elements<R>(
        &self,
        now: u64,
        mut read: impl FnMut(&[AtomicU64]) -> R,
    ) -> Vec<DynamicElement<R>> {
        let mut elements = Vec::with_capacity(self.len() as usize);
        for slot in 0..self.used.load(Acquire) {
            elements.extend(self.element(slot, now, &mut read));
        }
        elements
    }

    /// At most so many live elements from a place on, as [`Dynamic::elements`] gives them, and the
    /// place where the next ones begin. Places are taken in the order of additions, and again after
    /// removals.
    pub fn page<R>(
        &self,
        from: u32,
        most: usize,
        now: u64,
        mut read: impl FnMut(&[AtomicU64]) -> R,
    ) -> (Vec<DynamicElement<R>>, Option<u32>) {
        let mut elements = Vec::with_capacity(most.min(self.len() as usize));
        for slot in from..self.used.load(Acquire) {
            if elements.len() >= most {
                return (elements, Some(slot));
            }
            elements.extend(self.element(slot, now, &mut read));
        }
        (elements, None)
    }

    /// The element in a slot.
    fn element<R>(
        &self,
        slot: u32,
        now: u64,
        read: &mut impl FnMut(&[AtomicU64]) -> R,
    ) -> Option<DynamicElement<R>> {
        let words = self.slot(slot);
        loop {
            let bucket = self.bucket((words.get(NEXT)?.load(Relaxed) >> 32) as u32);
            let seen = bucket.load(Acquire);
            if seen & SEQUENCE != 0 {
                spin_loop();
                continue;
            }
            let mut at = (seen & LOW) as u32;
            while at != 0 && at != slot + 1 && bucket.load(Relaxed) == seen {
                at = self.slot(at - 1).get(NEXT)?.load(Relaxed) as u32;
            }
            let expires_at = words.get(EXPIRES)?.load(Relaxed);
            let found = (at == slot + 1 && now < expires_at).then(|| DynamicElement {
                key: self.key_bytes(words),
                expires_at: (expires_at != NEVER).then_some(expires_at),
                slot,
                read: read(self.value(slot)),
            });
            fence(Acquire);
            if bucket.load(Relaxed) == seen {
                return found;
            }
        }
    }
}
