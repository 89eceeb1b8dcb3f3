// SPDX-License-Identifier: Apache-2.0

//! The entries by number, and the timing wheel that they are linked into.
//!
//! Numbers of ended entries are reused, the last one first. A packet's refresh only changes
//! [`Entry::expires`]: the wheel checks an entry at the time for which it was armed, and rearms it
//! if it lives longer. An entry with an earlier new end is moved at once. So every entry is in the
//! wheel no later than it ends, and refreshing costs nothing.

use super::entry::{Entry, NONE, list};

/// A tick is 2^24 ns, about 17 ms.
const TICK: u32 = 24;
const LEVELS: usize = 5;
const SLOTS: u64 = 64;
const BITS: u32 = 6;

#[derive(Clone, Copy, Debug)]
struct List {
    head: u32,
    tail: u32,
    len: u32,
}

impl List {
    const EMPTY: List = List { head: NONE, tail: NONE, len: 0 };
}

/// The slab of entries with all lists that link them.
#[derive(Debug)]
pub(crate) struct Store {
    entries: Vec<Entry>,
    free: u32,
    serial: u32,
    /// Slots of the wheel by level.
    slots: [u32; LEVELS * SLOTS as usize],
    occupied: [u64; LEVELS],
    /// Tick up to which the wheel has turned.
    cursor: u64,
    started: bool,
    unconfirmed: List,
    dying: List,
}

impl std::ops::Index<u32> for Store {
    type Output = Entry;

    #[inline(always)]
    fn index(&self, n: u32) -> &Entry {
        &self.entries[n as usize]
    }
}

impl std::ops::IndexMut<u32> for Store {
    #[inline(always)]
    fn index_mut(&mut self, n: u32) -> &mut Entry {
        &mut self.entries[n as usize]
    }
}

/// Which of the two lists outside of the wheel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    Unconfirmed,
    Dying,
}

impl Store {
    /// Room for `max` entries; their memory is taken as they are used. If the system refuses that
    /// much at once, the rest is allocated later.
    pub fn new(max: u32) -> Self {
        let mut entries = Vec::new();
        // Killed entries that packets still hold do not count, so there can be some more.
        let mut want = max as usize + 8192;
        while entries.try_reserve_exact(want).is_err() && want > 1024 {
            want /= 2;
        }
        Self {
            entries,
            free: NONE,
            serial: 0,
            slots: [NONE; LEVELS * SLOTS as usize],
            occupied: [0; LEVELS],
            cursor: 0,
            started: false,
            unconfirmed: List::EMPTY,
            dying: List::EMPTY,
        }
    }

    /// One past the highest number in use.
    pub fn end(&self) -> u32 {
        self.entries.len() as u32
    }

    /// The entry, if there is one of this number and serial.
    #[inline(always)]
    pub fn get(&self, n: u32, serial: u32) -> Option<&Entry> {
        self.entries.get(n as usize).filter(|e| e.serial == serial && serial != 0)
    }

    /// The entry of this number, if it is in use.
    pub fn get_live(&self, n: u32) -> Option<&Entry> {
        (n < self.end()).then(|| &self[n]).filter(|e| e.serial != 0)
    }

    /// A fresh entry with a serial.
    pub fn take(&mut self) -> u32 {
        let n = match self.free {
            NONE => {
                self.entries.push(Entry::FREE);
                self.entries.len() as u32 - 1
            }
            n => {
                self.free = self[n].next;
                // Most entries that begin are not the last.
                self.prefetch(self.free, true);
                n
            }
        };
        self.serial = self.serial.wrapping_add(1).max(1);
        let serial = self.serial;
        self[n] = Entry { serial, ..Entry::FREE };
        n
    }

    /// Gives an entry back that is in no list.
    pub fn give(&mut self, n: u32) {
        debug_assert_eq!(self[n].list, list::NOWHERE);
        let free = self.free;
        let e = &mut self[n];
        e.serial = 0;
        e.status = 0;
        e.next = free;
        self.free = n;
    }

    /// Fetches the cache lines of an entry that every packet needs, with or without that of the
    /// reply tuple.
    #[inline(always)]
    pub fn prefetch(&self, n: u32, reply: bool) {
        if let Some(e) = self.entries.get(n as usize) {
            penstock_wire::cache::prefetch(e);
            penstock_wire::cache::prefetch(&e.proto);
            if reply {
                penstock_wire::cache::prefetch(&e.reply);
            }
        }
    }

    /// Fetches the links of the entries before and after one in the list of its source.
    #[inline]
    pub fn prefetch_linked(&self, e: &Entry) {
        for n in [e.source_prev, e.source_next] {
            if let Some(e) = self.entries.get(n as usize) {
                penstock_wire::cache::prefetch(&e.reply);
            }
        }
    }

    // ---- lists outside of the wheel ----

    fn waiting(&mut self, which: Waiting) -> (&mut List, u16) {
        match which {
            Waiting::Unconfirmed => (&mut self.unconfirmed, list::UNCONFIRMED),
            Waiting::Dying => (&mut self.dying, list::DYING),
        }
    }

    /// Entries that wait there.
    pub fn waiting_len(&self, which: Waiting) -> u32 {
        match which {
            Waiting::Unconfirmed => self.unconfirmed.len,
            Waiting::Dying => self.dying.len,
        }
    }

    /// Appends an entry to a list.
    pub fn wait(&mut self, n: u32, which: Waiting, now: u64) {
        let (l, id) = self.waiting(which);
        let tail = l.tail;
        l.tail = n;
        l.len += 1;
        if tail == NONE {
            l.head = n;
        }
        if tail != NONE {
            self[tail].next = n;
        }
        let e = &mut self[n];
        e.list = id;
        e.prev = tail;
        e.next = NONE;
        e.armed = (now >> TICK) as u32;
    }

    /// The entry that waits longest, if that is at least `age` nanoseconds.
    pub fn oldest(&self, which: Waiting, age: u64, now: u64) -> Option<u32> {
        let n = match which {
            Waiting::Unconfirmed => self.unconfirmed.head,
            Waiting::Dying => self.dying.head,
        };
        if n == NONE {
            return None;
        }
        let waited = ((now >> TICK) as u32).wrapping_sub(self[n].armed);
        (u64::from(waited) << TICK >= age).then_some(n)
    }

    /// Takes an entry out of whatever list it is in.
    pub fn unlink(&mut self, n: u32) {
        let Entry { next, prev, list: id, .. } = self[n];
        match id {
            list::NOWHERE => return,
            list::UNCONFIRMED | list::DYING => {
                let which = if id == list::DYING { Waiting::Dying } else { Waiting::Unconfirmed };
                let (l, _) = self.waiting(which);
                l.len -= 1;
                if prev == NONE {
                    l.head = next;
                }
                if next == NONE {
                    l.tail = prev;
                }
            }
            slot => {
                if prev == NONE {
                    self.slots[usize::from(slot)] = next;
                    if next == NONE {
                        self.occupied[usize::from(slot) >> BITS] &=
                            !(1 << (u64::from(slot) & (SLOTS - 1)));
                    }
                }
            }
        }
        if prev != NONE {
            self[prev].next = next;
        }
        if next != NONE {
            self[next].prev = prev;
        }
        let e = &mut self[n];
        e.list = list::NOWHERE;
        e.next = NONE;
        e.prev = NONE;
    }

    // ---- the wheel ----

    /// Puts an entry that is in no list into the wheel for the time when it ends.
    pub fn arm(&mut self, n: u32, now: u64) {
        if !self.started {
            self.started = true;
            self.cursor = now >> TICK;
        }
        let due = self[n].expires.div_ceil(1 << TICK);
        let furthest = (1 << (BITS * LEVELS as u32)) - 1;
        let delta = due.saturating_sub(self.cursor).clamp(1, furthest);
        let tick = self.cursor + delta;
        let level = (63 - delta.leading_zeros()) / BITS;
        let slot =
            level as usize * SLOTS as usize + (tick >> (BITS * level) & (SLOTS - 1)) as usize;
        let head = std::mem::replace(&mut self.slots[slot], n);
        self.occupied[level as usize] |= 1 << (slot as u64 & (SLOTS - 1));
        let e = &mut self[n];
        e.list = slot as u16;
        e.prev = NONE;
        e.next = head;
        e.armed = tick as u32;
        if head != NONE {
            self[head].prev = n;
        }
    }

    /// Notes that an entry in the wheel ends earlier than before.
    pub fn hasten(&mut self, n: u32, now: u64) {
        let e = &self[n];
        if e.list >= list::DYING {
            return;
        }
        let due = e.expires.div_ceil(1 << TICK) as u32;
        if (e.armed.wrapping_sub(due) as i32) > 0 {
            self.unlink(n);
            self.arm(n, now);
        }
    }

    /// The next tick at which some slot has to be looked at.
    fn next_tick(&self) -> Option<u64> {
        let mut first = None;
        for level in 0..LEVELS {
            let occupied = self.occupied[level];
            if occupied == 0 {
                continue;
            }
            let shift = BITS * level as u32;
            let at = self.cursor >> shift;
            // Bit i is now the slot i + 1 places ahead.
            let ahead = occupied.rotate_right((at & (SLOTS - 1)) as u32).rotate_right(1);
            let tick = (at + 1 + u64::from(ahead.trailing_zeros())) << shift;
            if first.is_none_or(|f| tick < f) {
                first = Some(tick);
            }
        }
        first
    }

    /// An entry that has ended at `now`, taken out of the wheel; `None` if there is none, or
    /// `budget` steps were made. The wheel's time is that of the last complete turn, so it is right
    /// to call again later with a new budget.
    pub fn next_due(&mut self, now: u64, budget: &mut u32) -> Option<u32> {
        if !self.started {
            return None;
        }
        let target = now >> TICK;
        loop {
            // First what is due at the cursor itself, higher levels before lower ones.
            for level in (0..LEVELS).rev() {
                let shift = BITS * level as u32;
                if self.cursor & ((1 << shift) - 1) != 0 {
                    continue;
                }
                let slot = level * SLOTS as usize + (self.cursor >> shift & (SLOTS - 1)) as usize;
                while self.slots[slot] != NONE {
                    if *budget == 0 {
                        return None;
                    }
                    *budget -= 1;
                    let n = self.slots[slot];
                    self.unlink(n);
                    if let Some(next) = self.entries.get(self.slots[slot] as usize) {
                        penstock_wire::cache::prefetch(next);
                    }
                    if self[n].expires <= now {
                        return Some(n);
                    }
                    self.arm(n, now);
                }
            }
            match self.next_tick() {
                Some(tick) if tick <= target => self.cursor = tick,
                _ => {
                    self.cursor = self.cursor.max(target);
                    return None;
                }
            }
        }
    }

    /// Whether more than budget allowed is due.
    pub fn overdue(&self, now: u64) -> bool {
        self.started && self.cursor < now >> TICK
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    const SECOND: u64 = 1_000_000_000;

    fn due(store: &mut Store, now: u64) -> Vec<u32> {
        let mut out = Vec::new();
        let mut budget = u32::MAX;
        while let Some(n) = store.next_due(now, &mut budget) {
            out.push(n);
        }
        out.sort();
        out
    }

    #[test]
    fn entries_expire_at_their_time_and_never_early() {
        let seed = penstock_testkit::seed();
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut store = Store::new(10);
        let mut alive: BTreeMap<u32, u64> = BTreeMap::new();
        let mut now = 1_700_000_000 * SECOND + rng.u64(..SECOND);
        for _ in 0..3000 {
            match rng.u32(..4) {
                0 => {
                    let n = store.take();
                    let life = 1 << rng.u32(..56);
                    store[n].expires = now + rng.u64(..=life);
                    store.arm(n, now);
                    alive.insert(n, store[n].expires);
                }
                1 => {
                    // Refresh: mostly longer, sometimes shorter.
                    let Some((&n, _)) = alive.iter().nth(rng.usize(..alive.len().max(1))) else {
                        continue;
                    };
                    let expires = now + (1 << rng.u32(..50));
                    let shorter = expires < store[n].expires;
                    store[n].expires = expires;
                    if shorter {
                        store.hasten(n, now);
                    }
                    alive.insert(n, expires);
                }
                2 => {
                    let Some((&n, _)) = alive.iter().nth(rng.usize(..alive.len().max(1))) else {
                        continue;
                    };
                    store.unlink(n);
                    store.give(n);
                    alive.remove(&n);
                }
                _ => {
                    let most = 1 << rng.u32(1..52);
                    now += rng.u64(..most);
                    for n in due(&mut store, now) {
                        assert!(alive.remove(&n).unwrap() <= now, "not before its end");
                        store.give(n);
                    }
                    let late = now.saturating_sub(2 << TICK);
                    assert!(
                        alive.values().all(|&end| end > late),
                        "nothing later than two ticks after its end"
                    );
                }
            }
        }
        due(&mut store, u64::MAX >> 1);
        assert_eq!(store.occupied, [0; LEVELS]);
    }

    #[test]
    fn expiry_with_a_budget_loses_no_entry() {
        let mut store = Store::new(10);
        for k in 0..1000 {
            let n = store.take();
            store[n].expires = SECOND + k % 7 * 100 * SECOND;
            store.arm(n, 0);
        }
        let now = 1000 * SECOND;
        let mut seen = 0;
        let mut calls = 0;
        loop {
            let mut budget = 16;
            while store.next_due(now, &mut budget).is_some() {
                seen += 1;
            }
            calls += 1;
            if !store.overdue(now) {
                break;
            }
        }
        assert_eq!(seen, 1000);
        assert!(calls > 60);
    }

    #[test]
    fn waiting_lists_keep_their_order() {
        let mut store = Store::new(10);
        let all: Vec<u32> = (0..5).map(|_| store.take()).collect();
        for &n in &all {
            store.wait(n, Waiting::Unconfirmed, u64::from(n) * SECOND);
        }
        store.unlink(2);
        store.unlink(0);
        store.unlink(4);
        assert_eq!(store.waiting_len(Waiting::Unconfirmed), 2);
        let at = 10 * SECOND;
        assert_eq!(store.oldest(Waiting::Unconfirmed, 11 * SECOND, at), None);
        assert_eq!(store.oldest(Waiting::Unconfirmed, 5 * SECOND, at), Some(1));
        store.unlink(1);
        assert_eq!(store.oldest(Waiting::Unconfirmed, 5 * SECOND, at), Some(3));
        store.unlink(3);
        assert_eq!(store.oldest(Waiting::Unconfirmed, 0, at), None);
    }
}
