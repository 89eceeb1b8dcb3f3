// SPDX-License-Identifier: Apache-2.0

//! How entries come, live and go.

use super::Conntrack;
use super::entry::{NONE, flag};
use super::index::ChainTooLong;
use super::store::Waiting;
use crate::settings::{LONGEST, SECOND};
use crate::{Direction, Tuple, event, status};
use penstock_packet::Ct;

/// How long an entry that no packet confirmed is kept.
const UNCONFIRMED_AGE: u64 = 60 * SECOND;
/// Entries that may wait for their confirmation.
const UNCONFIRMED_MAX: u32 = 65_536;
/// How long a killed entry is kept for packets that still belong to it.
const DYING_AGE: u64 = SECOND;
const DYING_MAX: u32 = 1024;
/// Steps of the wheel per call.
const EXPIRE_BUDGET: u32 = 512;
/// Entries with slots in the hash table that are prefetched together.
const EXPIRE_BATCH: usize = 8;

/// Why an entry is not in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotEntered {
    /// There is no place near one of its hashes.
    ChainTooLong,
    /// Another worker has one of its tuples.
    Anothers,
}

impl Conntrack {
    /// A new entry that is not confirmed yet; `None` if the table is full
    /// (`__nf_conntrack_alloc()`).
    pub(crate) fn allocate(&mut self, original: &Tuple, reply: &Tuple, hash: u64) -> Option<u32> {
        if self.count_of_all() >= self.settings.max() {
            self.expire(self.now);
            if self.count_of_all() >= self.settings.max() && !self.early_drop(hash) {
                self.pressure.wanted = true;
                self.statistics.table_full += 1;
                return None;
            }
        }
        if self.store.waiting_len(Waiting::Unconfirmed) >= UNCONFIRMED_MAX
            && let Some(n) = self.store.oldest(Waiting::Unconfirmed, 0, self.now)
        {
            self.destroy(n);
        }
        let n = self.store.take();
        self.store.wait(n, Waiting::Unconfirmed, self.now);
        self.count += 1;
        if let Some(member) = &self.member {
            member.count(true);
        }
        self.count_zone(original.zone, true);
        let flags = self.begin_counting(n);
        if let Some(device) = self.masqueraded.get_mut(n as usize) {
            *device = 0;
        }
        self.forget_memo(n);
        let e = &mut self.store[n];
        e.original = *original;
        e.reply = *reply;
        e.flags = flags;
        if self.labels_wanted {
            self.extra_mut(n).has_labels = true;
        }
        Some(n)
    }

    /// Enters both tuples of an entry into the hash table, or none.
    pub(super) fn index_both(&mut self, n: u32, hashes: [u64; 2]) -> Result<(), ChainTooLong> {
        self.index.insert(hashes[0], n, Direction::Original)?;
        let second = self.index.insert(hashes[1], n, Direction::Reply);
        if second.is_err() {
            self.index.remove(hashes[0], n, Direction::Original);
        }
        second
    }

    /// Enters an entry by the hashes of both tuples, and begins its life.
    ///
    /// # Errors
    /// See [`NotEntered`]; then it is as before.
    pub(crate) fn enter(&mut self, n: u32, hashes: [u64; 2]) -> Result<(), NotEntered> {
        self.index_both(n, hashes).map_err(|ChainTooLong| NotEntered::ChainTooLong)?;
        if !self.claim(n) {
            self.index.remove(hashes[0], n, Direction::Original);
            self.index.remove(hashes[1], n, Direction::Reply);
            return Err(NotEntered::Anothers);
        }
        self.start(n);
        Ok(())
    }

    /// Enters an entry by its reply tuple alone, and begins its life.
    ///
    /// # Errors
    /// See [`NotEntered`]; then it is as before.
    pub(crate) fn enter_reply(&mut self, n: u32, hash: u64) -> Result<(), NotEntered> {
        let entered = self.index.insert(hash, n, Direction::Reply);
        entered.map_err(|ChainTooLong| NotEntered::ChainTooLong)?;
        if !self.claim(n) {
            self.index.remove(hash, n, Direction::Reply);
            return Err(NotEntered::Anothers);
        }
        self.start(n);
        Ok(())
    }

    /// Enters a connection's tuples into the shared directory; `false` if another worker has one.
    #[inline]
    fn claim(&self, n: u32) -> bool {
        let e = &self.store[n];
        self.member.as_ref().is_none_or(|member| member.claim([&e.original, &e.reply]))
    }

    /// Begins the life of an entry that is in the hash table.
    fn start(&mut self, n: u32) {
        let now = self.now;
        self.store.unlink(n);
        let e = &mut self.store[n];
        // Counted from here, however long the packet took.
        e.expires = now.saturating_add(e.expires);
        e.status |= status::CONFIRMED;
        self.store.arm(n, now);
        self.stamp_start(n);
        self.statistics.insert += 1;
        if self.observer.is_some() {
            let x = self.extra(n);
            let new =
                if x.is_some_and(|x| x.master.is_some()) { event::RELATED } else { event::NEW };
            let helper = if x.is_some_and(|x| x.helper.is_some()) { event::HELPER } else { 0 };
            self.note(n, new | helper);
        }
    }

    /// The hashes of an entry's tuples.
    fn hashes_of(&self, n: u32) -> [u64; 2] {
        let e = &self.store[n];
        [self.hasher.tuple(&e.original), self.hasher.tuple(&e.reply)]
    }

    /// Takes an entry out of everything; its number stays with it. The hashes of its tuples are
    /// given, if they are known.
    fn detach(&mut self, n: u32, hashes: Option<[u64; 2]>) {
        let e = &self.store[n];
        debug_assert!(e.serial != 0 && !e.has(status::DYING));
        let zone = e.original.zone;
        if e.has(status::CONFIRMED) {
            let hashes = hashes.unwrap_or_else(|| self.hashes_of(n));
            self.index.remove(hashes[0], n, Direction::Original);
            self.index.remove(hashes[1], n, Direction::Reply);
            if let Some(member) = &self.member {
                member.release([&e.original, &e.reply]);
            }
            self.stamp_end(n);
            self.tell_end(n);
            self.tell_offload(n);
            let helping = self.extra(n).and_then(|x| x.helper.as_ref());
            let e = &self.store[n];
            if let Some(call) = helping.and_then(|helping| helping.call([e.original, e.reply])) {
                // Entries that are about to be collected end there, and once.
                self.end_call(n, call, Self::end_soon);
            }
        }
        self.store.unlink(n);
        if self.store[n].flags & flag::SOURCE_CLAIMED != 0
            && let Some(member) = &self.member
        {
            self.store[n].flags &= !flag::SOURCE_CLAIMED;
            member.release_source(&self.store[n].original);
        }
        if self.store[n].flags & flag::BY_SOURCE != 0 {
            self.sources.remove(&mut self.store, &self.hasher, n);
        }
        if self.store[n].extra != NONE {
            self.remove_expectations_of(n);
            self.detach_all(n);
            self.leave_master(n);
            self.remove_keys(n);
        }
        self.count -= 1;
        if let Some(member) = &self.member {
            member.count(false);
        }
        self.count_zone(zone, false);
        self.store[n].status |= status::DYING;
    }

    /// Ends the connections of a call that connection `n` made, or else what is expected of them
    /// (`pptp_destroy_siblings()`).
    pub(crate) fn end_call(&mut self, n: u32, tuples: [Tuple; 2], end: fn(&mut Self, u32)) {
        self.forget_keys(n);
        let zone = self.store[n].original.zone;
        for tuple in tuples {
            let tuple = Tuple { zone, ..tuple };
            match self.find(&tuple) {
                Some((other, _)) => end(self, other.entry),
                None => self.unexpect_found(&tuple),
            }
        }
    }

    /// Lets a connection expire: no packet finds it any more.
    fn end_soon(&mut self, n: u32) {
        self.store[n].expires = self.now;
        self.store.hasten(n, self.now);
    }

    fn free(&mut self, n: u32) {
        self.store.unlink(n);
        self.free_extra(n);
        self.store.give(n);
    }

    /// Ends an entry that no packet refers to.
    pub(crate) fn destroy(&mut self, n: u32) {
        self.destroy_hashed(n, None);
    }

    /// [`Conntrack::destroy`] with the hashes of its tuples, if they are known.
    fn destroy_hashed(&mut self, n: u32, hashes: Option<[u64; 2]>) {
        if !self.store[n].has(status::DYING) {
            self.detach(n, hashes);
        }
        self.free(n);
    }

    /// Ends a connection (`nf_ct_kill()`). Its number stays for a second, for packets that are
    /// still on their way.
    pub fn kill(&mut self, n: u32) {
        if self.store.get_live(n).is_none_or(|e| e.has(status::DYING)) {
            return;
        }
        self.detach(n, None);
        self.store.wait(n, Waiting::Dying, self.now);
        if self.store.waiting_len(Waiting::Dying) > DYING_MAX
            && let Some(oldest) = self.store.oldest(Waiting::Dying, 0, self.now)
        {
            self.free(oldest);
        }
    }

    /// Takes the connection from a packet that ends here. An entry that was not confirmed ends with
    /// it, so every packet that is dropped, or kept from [`Conntrack::confirm`] otherwise, must
    /// come here.
    pub fn release(&mut self, ct: &mut Ct) {
        if let Some(n) = self.resolve(ct)
            && !self.store[n].has(status::CONFIRMED | status::DYING)
        {
            self.destroy(n);
        }
        *ct = Ct::default();
    }

    /// Ends all entries that are not confirmed. Called when no packet is in flight: packets dropped
    /// before [`Conntrack::confirm`] leave no entry, whatever dropped them.
    #[inline]
    pub fn release_unconfirmed(&mut self) {
        while let Some(n) = self.store.oldest(Waiting::Unconfirmed, 0, self.now) {
            self.destroy(n);
        }
    }

    /// Ends entries expired at `now`, within a budget, so that no call takes long. Packets no
    /// longer find the rest, which ends with the next calls. Returns whether all are done.
    pub fn expire(&mut self, now: u64) -> bool {
        self.advance(now);
        let mut budget = EXPIRE_BUDGET;
        loop {
            let mut batch = [(NONE, [0; 2]); EXPIRE_BATCH];
            for slot in &mut batch {
                let Some(n) = self.store.next_due(self.now, &mut budget) else { break };
                let hashes = self.hashes_of(n);
                hashes.into_iter().for_each(|hash| self.index.prefetch(hash));
                let e = &self.store[n];
                self.prefetch_directory([&e.original, &e.reply]);
                if e.flags & flag::BY_SOURCE != 0 {
                    self.sources.prefetch(&self.hasher, &e.original);
                    self.store.prefetch_linked(e);
                }
                *slot = (n, hashes);
            }
            for (n, hashes) in batch.into_iter().take_while(|(n, _)| *n != NONE) {
                self.destroy_hashed(n, Some(hashes));
            }
            if batch[EXPIRE_BATCH - 1].0 == NONE {
                break;
            }
        }
        for (which, age) in [(Waiting::Unconfirmed, UNCONFIRMED_AGE), (Waiting::Dying, DYING_AGE)] {
            while let Some(n) = self.store.oldest(which, age, self.now)
                && budget > 0
            {
                budget -= 1;
                self.destroy(n);
            }
        }
        self.relieve();
        self.expire_expectations(&mut budget);
        budget > 0 && !self.store.overdue(self.now)
    }

    /// Renews an entry's life for a packet of `len` bytes, and counts that
    /// (`nf_ct_refresh_acct()`).
    #[inline(always)]
    pub(crate) fn refresh(&mut self, n: u32, direction: Direction, len: usize, timeout: u64) {
        let now = self.now;
        let e = &mut self.store[n];
        if !e.has(status::FIXED_TIMEOUT) {
            if e.has(status::CONFIRMED) {
                let expires = now.saturating_add(timeout);
                let hasten = expires < e.expires;
                e.expires = expires;
                if hasten {
                    self.store.hasten(n, now);
                }
            } else {
                e.expires = timeout;
            }
        }
        if !self.accounting.is_empty() {
            self.account(n, direction, len);
        }
    }

    /// Sets how long a connection lives from now on (`nf_ct_refresh()`).
    pub fn set_timeout(&mut self, n: u32, timeout: u64) {
        let timeout = timeout.min(LONGEST);
        let now = self.now;
        let e = &mut self.store[n];
        if e.has(status::FIXED_TIMEOUT | status::DYING) {
            return;
        }
        if e.has(status::CONFIRMED) {
            e.expires = now + timeout;
            self.store.hasten(n, now);
        } else {
            e.expires = timeout;
        }
    }
}
