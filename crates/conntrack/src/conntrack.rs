// SPDX-License-Identifier: Apache-2.0

//! The table: how entries come, live and go.

use crate::dissect::Layers;
use crate::entry::{Counter, Entry, Extra, NONE, Proto, Ref, flag, list};
use crate::events::event;
use crate::hash::Hasher;
use crate::index::{self, Index};
use crate::settings::{LONGEST, SECOND, Settings, Timeouts, Tracker};
use crate::shared::{Member, Shared};
use crate::source::Sources;
use crate::store::{Store, Waiting};
use crate::template::{Policies, Templates};
use crate::tuple::IPV4;
use crate::{Direction, Tuple, status};
use penstock_packet::{Ct, CtInfo};
use penstock_wire::checksum;
use std::sync::Arc;

/// Where a packet is tracked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// Received: checksums are verified.
    Prerouting,
    /// Sent by this host.
    Output,
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It goes on.
    Accept,
    /// It is to be dropped: [`Statistics`] says why.
    Drop,
}

/// What a protocol's tracker says (`nf_conntrack_handle_packet()`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Part of the connection.
    Accept,
    /// Not part of any connection (`-NF_ACCEPT`).
    Invalid,
    /// To be dropped (`-NF_DROP`).
    Drop,
    /// The entry is gone, and the packet begins a new one (`-NF_REPEAT`).
    Repeat,
}

/// Why things happened, as `conntrack -S` counts them, and drops by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Packets that were found invalid.
    pub invalid: u64,
    /// Entries that were inserted.
    pub insert: u64,
    /// Entries that could not be inserted.
    pub insert_failed: u64,
    /// Packets dropped by connection tracking, for whatever reason.
    pub drop: u64,
    /// Packets dropped because the table was full.
    pub table_full: u64,
    /// Entries dropped early to make room.
    pub early_drop: u64,
    /// ICMP errors that could not be looked at.
    pub error: u64,
    /// Clashes that were resolved.
    pub clash_resolve: u64,
    /// Entries refused because too many with near hashes are there.
    pub chaintoolong: u64,
    /// Connections that were expected.
    pub expect_new: u64,
    /// Expectations made.
    pub expect_create: u64,
    /// Expectations removed.
    pub expect_delete: u64,
}

impl Statistics {
    /// Adds what happened in another table.
    pub fn add(&mut self, other: &Statistics) {
        let Statistics {
            invalid,
            insert,
            insert_failed,
            drop,
            table_full,
            early_drop,
            error,
            clash_resolve,
            chaintoolong,
            expect_new,
            expect_create,
            expect_delete,
        } = other;
        self.invalid += invalid;
        self.insert += insert;
        self.insert_failed += insert_failed;
        self.drop += drop;
        self.table_full += table_full;
        self.early_drop += early_drop;
        self.error += error;
        self.clash_resolve += clash_resolve;
        self.chaintoolong += chaintoolong;
        self.expect_new += expect_new;
        self.expect_create += expect_create;
        self.expect_delete += expect_delete;
    }
}

/// A packet as trackers see it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen<'a> {
    pub network: &'a [u8],
    pub at: Layers,
    pub info: CtInfo,
    pub hook: Hook,
    /// Length that counts (`skb->len`).
    pub len: usize,
    /// The checksum is made when the packet leaves, so it is not there to be verified.
    pub unfinished: bool,
}

impl<'a> Seen<'a> {
    /// From the transport header on.
    #[inline]
    pub fn transport(&self) -> &'a [u8] {
        self.network.get(self.at.offset..).unwrap_or(&[])
    }

    #[inline]
    pub fn direction(&self) -> Direction {
        if self.info.is_reply() { Direction::Reply } else { Direction::Original }
    }

    /// Whether the sum over pseudo header and the first `coverage` bytes is right
    /// (`nf_checksum()`).
    #[inline(always)]
    pub fn checksum_ok(&self, coverage: usize) -> bool {
        let data = self.transport();
        let Some(covered) = data.get(..coverage) else { return false };
        self.pseudo(data.len()).bytes(covered).is_valid()
    }

    /// Sum over the pseudo header.
    #[inline]
    pub fn pseudo(&self, len: usize) -> checksum::Sum {
        let n = self.network;
        let addresses = if self.at.l3 == IPV4 { n.get(12..20) } else { n.get(8..40) };
        checksum::Sum::new()
            .bytes(addresses.unwrap_or(&[]))
            .u16(u16::from(self.at.protocol))
            .u32(len as u32)
    }
}

/// How long an entry that no packet confirmed is kept.
const UNCONFIRMED_AGE: u64 = 60 * SECOND;
/// Entries that may wait for their confirmation.
const UNCONFIRMED_MAX: u32 = 65_536;
/// How long a killed entry is kept for packets that still belong to it.
const DYING_AGE: u64 = SECOND;
const DYING_MAX: u32 = 1024;
/// Steps of the wheel per call.
const EXPIRE_BUDGET: u32 = 512;
/// Entries whose places in the hash table are fetched together.
const EXPIRE_BATCH: usize = 8;

/// The connections that one worker tracks.
pub struct Conntrack {
    pub(crate) settings: Settings,
    pub(crate) now: u64,
    pub(crate) store: Store,
    pub(crate) index: Index,
    pub(crate) hasher: Hasher,
    pub(crate) extras: Vec<Extra>,
    extras_free: Vec<u32>,
    accounting: Vec<[Counter; 2]>,
    stamps: Vec<[u64; 2]>,
    /// Devices through which sources are masqueraded, by number of the entry as far as there are
    /// any; 0 for none.
    pub(crate) masqueraded: Vec<u32>,
    count: u32,
    zones: Vec<u32>,
    labels_wanted: bool,
    pub(crate) templates: Templates,
    pub(crate) policies: Policies,
    pub(crate) sources: Sources,
    pub(crate) expects: crate::expect::Expectations,
    pub(crate) helpers: crate::helper::Helpers,
    pub(crate) keymap: crate::gre::Keymap,
    pub(crate) pressure: crate::pressure::Pressure,
    pub(crate) observer: Option<Box<dyn crate::events::Observer>>,
    /// What stands for the flows of connections whose packets are not tracked, by number of the
    /// entry.
    pub(crate) offloads: Vec<u64>,
    /// Those of connections that ended.
    pub(crate) offloads_ended: Vec<u64>,
    pub(crate) statistics: Statistics,
    /// Its place among several workers.
    pub(crate) member: Option<Member>,
}

impl std::fmt::Debug for Conntrack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Conntrack")
            .field("count", &self.count)
            .field("now", &self.now)
            .finish_non_exhaustive()
    }
}

impl Conntrack {
    /// An empty table with a secret of its own.
    pub fn new(settings: Settings) -> Self {
        Self::with_seed(settings, fastrand::u64(..))
    }

    /// An empty table whose random numbers follow from `seed`: the same packets give the same
    /// results.
    pub fn with_seed(settings: Settings, seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let buckets = settings.buckets.unwrap_or_else(|| index::buckets_for(settings.max()));
        Self {
            now: 0,
            store: Store::new(settings.max().min(1 << 24)),
            index: Index::new(buckets),
            hasher: Hasher::new(&mut rng),
            extras: Vec::new(),
            extras_free: Vec::new(),
            accounting: Vec::new(),
            stamps: Vec::new(),
            masqueraded: Vec::new(),
            count: 0,
            zones: Vec::new(),
            labels_wanted: false,
            templates: Templates::default(),
            policies: Policies::default(),
            sources: Sources::default(),
            expects: Default::default(),
            helpers: Default::default(),
            keymap: Default::default(),
            pressure: Default::default(),
            observer: None,
            offloads: Vec::new(),
            offloads_ended: Vec::new(),
            statistics: Statistics::default(),
            member: None,
            settings,
        }
    }

    /// An empty table of one of several workers, by its number from 0 on. Limits are for all of
    /// them together.
    pub fn of_worker(settings: Settings, seed: u64, shared: &Arc<Shared>, worker: usize) -> Self {
        let member = Some(Member { shared: shared.clone(), worker });
        Self { member, ..Self::with_seed(settings, seed) }
    }

    /// The settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Changes settings. A new number of buckets, or of connections at most, makes a new hash table
    /// at once; connections for which a smaller one has no room end.
    pub fn set_settings(&mut self, settings: Settings) {
        let resize =
            settings.buckets != self.settings.buckets || settings.max() != self.settings.max();
        self.settings = settings;
        if !resize {
            return;
        }
        let buckets =
            self.settings.buckets.unwrap_or_else(|| index::buckets_for(self.settings.max()));
        self.index = Index::new(buckets);
        let mut lost = Vec::new();
        for n in 0..self.store.end() {
            let e = &self.store[n];
            if e.serial == 0 || !e.has(status::CONFIRMED) || e.has(status::DYING) {
                continue;
            }
            let hashes = [self.hasher.tuple(&e.original), self.hasher.tuple(&e.reply)];
            if self.index.insert(hashes[0], n, Direction::Original).is_err() {
                lost.push(n);
            } else if self.index.insert(hashes[1], n, Direction::Reply).is_err() {
                self.index.remove(hashes[0], n, Direction::Original);
                lost.push(n);
            }
        }
        for n in lost {
            self.kill(n);
        }
    }

    /// What happened so far.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// Time of the latest packet, in nanoseconds: it never goes back.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Lets time pass; a time before the latest changes nothing.
    #[inline(always)]
    pub fn advance(&mut self, now: u64) {
        self.now = self.now.max(now);
    }

    /// Connections in the table, those that wait for their confirmation included
    /// (`nf_conntrack_count`).
    pub fn count(&self) -> u32 {
        self.count
    }

    /// The same of all workers.
    #[inline]
    pub(crate) fn count_of_all(&self) -> u32 {
        self.member.as_ref().map_or(self.count, Member::connections)
    }

    /// Connections that wait for their confirmation: while there are any, a packet of the same flow
    /// would begin another, and the two become one only when they are confirmed.
    pub fn unconfirmed(&self) -> u32 {
        self.store.waiting_len(Waiting::Unconfirmed)
    }

    /// Connections whose original direction is in `zone`.
    pub fn count_in_zone(&self, zone: u16) -> u32 {
        match (self.zones.get(usize::from(zone)), zone) {
            (Some(n), _) => *n,
            (None, 0) => self.count,
            (None, _) => 0,
        }
    }

    fn count_zone(&mut self, zone: u16, up: bool) {
        if self.zones.is_empty() {
            if zone == 0 {
                return;
            }
            self.zones = vec![0; 65_536];
            // So far all were in zone 0; the one that is being counted is in another.
            self.zones[0] = self.count - u32::from(up);
        }
        let n = &mut self.zones[usize::from(zone)];
        *n = if up { *n + 1 } else { *n - 1 };
    }

    /// Says that rules use labels: connections that begin from now on have room for them.
    pub fn want_labels(&mut self, wanted: bool) {
        self.labels_wanted = wanted;
    }

    // ---- hashes ----

    /// Finds a confirmed connection that has not ended by one of its tuples.
    #[inline]
    pub fn find(&self, tuple: &Tuple) -> Option<(Ref, Direction)> {
        let (n, dir) = self.find_hashed(self.hasher.tuple(tuple), tuple)?;
        let e = &self.store[n];
        (e.expires > self.now).then_some((Ref { entry: n, serial: e.serial }, dir))
    }

    #[inline(always)]
    pub(crate) fn find_hashed(&self, hash: u64, tuple: &Tuple) -> Option<(u32, Direction)> {
        let store = &self.store;
        let (n, dir) = self.index.find(hash, |n, dir| store[n].tuple(dir) == tuple)?;
        // A host that talks to itself may have a flow whose directions look alike: the kernel finds
        // the one that was entered last, which is that of replies.
        let alike = tuple.src == tuple.dst && store[n].reply == *tuple;
        Some((n, if alike { Direction::Reply } else { dir }))
    }

    /// Whether some other connection than `except` has this tuple in either direction
    /// (`nf_conntrack_tuple_taken()`). One with the same original tuple as `except` does not count:
    /// it is the same flow, and the clash of the two is resolved when `except` is confirmed.
    pub fn is_taken(&self, tuple: &Tuple, except: u32) -> bool {
        let hash = self.hasher.tuple(tuple);
        let store = &self.store;
        let me = store.get_live(except);
        if self.member.as_ref().is_some_and(|member| member.is_anothers(tuple)) {
            return true;
        }
        self.index
            .find(hash, |n, dir| {
                let e = &store[n];
                if n == except || e.tuple(dir) != tuple || e.expires <= self.now {
                    return false;
                }
                !me.is_some_and(|me| e.original == me.original)
            })
            .is_some()
    }

    // ---- life ----

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
        let mut flags = 0;
        if self.settings.acct {
            flags |= flag::ACCT;
            grow(&mut self.accounting, n);
            self.accounting[n as usize] = Default::default();
        }
        if self.settings.timestamp {
            flags |= flag::STAMP;
            grow(&mut self.stamps, n);
            self.stamps[n as usize] = [0; 2];
        }
        if let Some(device) = self.masqueraded.get_mut(n as usize) {
            *device = 0;
        }
        let e = &mut self.store[n];
        e.original = *original;
        e.reply = *reply;
        e.flags = flags;
        if self.labels_wanted {
            self.extra_mut(n).has_labels = true;
        }
        Some(n)
    }

    /// Takes an entry out of everything; its number stays with it.
    fn detach(&mut self, n: u32) {
        let e = &self.store[n];
        debug_assert!(e.serial != 0 && !e.has(status::DYING));
        let zone = e.original.zone;
        if e.has(status::CONFIRMED) {
            let hashes = [self.hasher.tuple(&e.original), self.hasher.tuple(&e.reply)];
            self.index.remove(hashes[0], n, Direction::Original);
            self.index.remove(hashes[1], n, Direction::Reply);
            if let Some(member) = &self.member {
                member.release([&e.original, &e.reply]);
            }
            if self.stamped(n) {
                self.stamps[n as usize][1] = self.now;
            }
            self.tell_end(n);
            self.tell_offload(n);
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
            self.forget_helper(n);
        }
        self.count -= 1;
        if let Some(member) = &self.member {
            member.count(false);
        }
        self.count_zone(zone, false);
        self.store[n].status |= status::DYING;
    }

    fn free(&mut self, n: u32) {
        self.store.unlink(n);
        let extra = std::mem::replace(&mut self.store[n].extra, NONE);
        if extra != NONE {
            self.extras[extra as usize] = Extra::default();
            self.extras_free.push(extra);
        }
        self.store.give(n);
    }

    /// Ends an entry to which no packet belongs any more.
    pub(crate) fn destroy(&mut self, n: u32) {
        if !self.store[n].has(status::DYING) {
            self.detach(n);
        }
        self.free(n);
    }

    /// Ends a connection (`nf_ct_kill()`). Its number stays for a second, for packets that are
    /// still on their way.
    pub fn kill(&mut self, n: u32) {
        if self.store.get_live(n).is_none_or(|e| e.has(status::DYING)) {
            return;
        }
        self.detach(n);
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

    /// Ends all entries that are not confirmed. To be called when no packet is on its way: those
    /// that were dropped before [`Conntrack::confirm`] leave nothing behind, whatever ended them.
    #[inline]
    pub fn release_unconfirmed(&mut self) {
        while let Some(n) = self.store.oldest(Waiting::Unconfirmed, 0, self.now) {
            self.destroy(n);
        }
    }

    /// Ends what has lived out at `now`, as far as one call's budget goes, so that no call takes
    /// long. What is left is not found by packets any more and ends with the next calls. Gives
    /// whether all is done.
    pub fn expire(&mut self, now: u64) -> bool {
        self.advance(now);
        let mut budget = EXPIRE_BUDGET;
        loop {
            let mut batch = [NONE; EXPIRE_BATCH];
            for slot in &mut batch {
                let Some(n) = self.store.next_due(self.now, &mut budget) else { break };
                let e = &self.store[n];
                self.index.prefetch(self.hasher.tuple(&e.original));
                self.index.prefetch(self.hasher.tuple(&e.reply));
                if let Some(member) = &self.member {
                    member.prefetch([&e.original, &e.reply]);
                }
                *slot = n;
            }
            for n in batch.into_iter().take_while(|n| *n != NONE) {
                self.destroy(n);
            }
            if batch[EXPIRE_BATCH - 1] == NONE {
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
        budget > 0 && !self.store.behind(self.now)
    }

    /// The number of the connection that a packet holds, if it is still that one.
    #[inline(always)]
    pub fn resolve(&self, ct: &Ct) -> Option<u32> {
        self.store.get(ct.entry, ct.serial).map(|_| ct.entry)
    }

    /// The same by reference.
    #[inline]
    pub fn resolve_ref(&self, r: Ref) -> Option<u32> {
        self.store.get(r.entry, r.serial).map(|_| r.entry)
    }

    /// The reference to an entry.
    pub fn reference(&self, n: u32) -> Ref {
        Ref { entry: n, serial: self.store[n].serial }
    }

    // ---- what trackers do ----

    /// The timeouts that hold for an entry: its policy's, or the settings'.
    #[inline(always)]
    pub(crate) fn timeouts(&self, n: u32, tracker: Tracker) -> &Timeouts {
        let extra = self.store[n].extra;
        if extra != NONE {
            let policy = self.extras[extra as usize].policy;
            if policy != 0
                && let Some(timeouts) = self.policies.timeouts(policy)
            {
                return timeouts;
            }
        }
        self.settings.timeouts(tracker)
    }

    /// Renews an entry's life and counts the packet (`nf_ct_refresh_acct()`).
    #[inline(always)]
    pub(crate) fn refresh(&mut self, n: u32, p: &Seen<'_>, timeout: u64) {
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
            self.account(n, p.direction(), p.len);
        }
    }

    #[inline(never)]
    pub(crate) fn account(&mut self, n: u32, direction: Direction, len: usize) {
        if self.store[n].flags & flag::ACCT == 0 {
            return;
        }
        let c = &mut self.accounting[n as usize][direction as usize];
        c.packets += 1;
        c.bytes += len as u64;
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

    /// Marks an entry as one that is not dropped early.
    pub(crate) fn assure(&mut self, n: u32) {
        self.store[n].status |= status::ASSURED;
        self.note(n, event::ASSURED);
    }

    #[inline(always)]
    pub(crate) fn verifies(&self, p: &Seen<'_>) -> bool {
        self.settings.checksum && p.hook == Hook::Prerouting && !p.unfinished
    }

    // ---- what few entries have ----

    pub(crate) fn extra(&self, n: u32) -> Option<&Extra> {
        match self.store[n].extra {
            NONE => None,
            x => Some(&self.extras[x as usize]),
        }
    }

    pub(crate) fn extra_mut(&mut self, n: u32) -> &mut Extra {
        let mut x = self.store[n].extra;
        if x == NONE {
            x = self.extras_free.pop().unwrap_or_else(|| {
                self.extras.push(Extra::default());
                self.extras.len() as u32 - 1
            });
            self.store[n].extra = x;
        }
        &mut self.extras[x as usize]
    }

    pub(crate) fn stamped(&self, n: u32) -> bool {
        self.store[n].flags & flag::STAMP != 0
    }

    pub(crate) fn stamp_start(&mut self, n: u32) {
        if self.stamped(n) {
            self.stamps[n as usize][0] = self.now;
        }
    }

    pub(crate) fn stamps(&self, n: u32) -> Option<[u64; 2]> {
        self.stamped(n).then(|| self.stamps[n as usize])
    }

    pub(crate) fn counters(&self, n: u32) -> Option<&[Counter; 2]> {
        (self.store[n].flags & flag::ACCT != 0).then(|| &self.accounting[n as usize])
    }

    pub(crate) fn counters_mut(&mut self, n: u32) -> Option<&mut [Counter; 2]> {
        (self.store[n].flags & flag::ACCT != 0).then(|| &mut self.accounting[n as usize])
    }

    /// Gives an entry counters, also if none were wanted.
    pub(crate) fn put_counters(&mut self, n: u32, counters: [Counter; 2]) {
        self.store[n].flags |= flag::ACCT;
        grow(&mut self.accounting, n);
        self.accounting[n as usize] = counters;
    }

    /// Gives an entry a start, also if none was wanted.
    pub(crate) fn put_start(&mut self, n: u32, start: u64) {
        self.store[n].flags |= flag::STAMP;
        grow(&mut self.stamps, n);
        self.stamps[n as usize] = [start, 0];
    }

    /// State of the tracker, for those that keep one.
    pub(crate) fn proto(&self, n: u32) -> &Proto {
        &self.store[n].proto
    }

    pub(crate) fn is_listed(e: &Entry) -> bool {
        e.serial != 0 && e.has(status::CONFIRMED) && !e.has(status::DYING)
    }
}

impl Store {
    /// The entry of this number, if it is in use.
    pub(crate) fn get_live(&self, n: u32) -> Option<&Entry> {
        (n < self.end()).then(|| &self[n]).filter(|e| e.serial != 0)
    }
}

pub(crate) fn grow<T: Default + Clone>(v: &mut Vec<T>, n: u32) {
    let need = n as usize + 1;
    if v.len() < need {
        if v.capacity() < need {
            v.reserve((need / 2).max(1024));
        }
        v.resize(need, T::default());
    }
}

const _: () = assert!(list::DYING < list::UNCONFIRMED);
