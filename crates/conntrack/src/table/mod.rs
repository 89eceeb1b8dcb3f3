// SPDX-License-Identifier: Apache-2.0

//! The table of one worker: it stores connections, finds them, and ends them.
//!
//! It knows tuples, times, status bits and numbers, and no protocol. What a tracker or a helper
//! remembers of a connection it keeps in the entry ([`entry`], [`extra`]) without looking into it.
//!
//! - Storage: entries by number with their timing wheel ([`store`]), the hash table over both
//!   tuples ([`index`], [`hash`]), lists by source ([`source`]).
//! - Life: [`life`] allocates, enters and ends entries, [`begun`] is about one between the two,
//!   [`pressure`] makes room, [`lookup`] finds them, [`counters`] and [`attach`] are what lives as
//!   long as they do.
//! - On the side: expectations ([`expect`]), source identifiers that packets do not carry
//!   ([`keys`]), shifts of sequence numbers ([`sequence`]), what rules ask for beforehand
//!   ([`template`]), connections that flowtables forward ([`offload`]).
//! - Other workers: [`shared`] over the [`directory`] of all tuples.
//! - For readers: [`connection`] is the view of one entry, [`events`] tells of changes.

mod attach;
mod begun;
mod connection;
mod counters;
mod directory;
mod entry;
mod events;
mod expect;
mod extra;
mod hash;
mod index;
mod keys;
mod life;
mod lookup;
mod memos;
mod offload;
mod pressure;
mod sequence;
mod shared;
mod source;
mod statistics;
mod store;
mod template;

pub use connection::Connection;
pub use counters::Counter;
pub use events::{EventKind, Observer};
pub use offload::{Ended, Return};
pub use shared::{Datagram, OwnerLookup, PacketOwner, Shared, Span};
pub use statistics::Statistics;
pub use template::{PolicyError, Template};

pub(crate) use entry::NONE;
pub(crate) use expect::zone_of;
pub(crate) use life::NotEntered;
pub(crate) use lookup::{Translation, sides};

use crate::complaint::Complaints;
use crate::helper;
use crate::settings::Settings;
use begun::Begun;
use expect::Expectations;
use extra::Extra;
use hash::Hasher;
use index::Index;
use keys::SourceKeys;
use pressure::Pressure;
use shared::Member;
use source::Sources;
use std::sync::Arc;
use store::{Store, Waiting};
use template::{Policies, Templates};

/// The connections that one worker tracks.
pub struct Conntrack {
    pub(crate) settings: Settings,
    pub(crate) now: u64,
    pub(crate) store: Store,
    index: Index,
    hasher: Hasher,
    pub(crate) extras: Vec<Extra>,
    extras_free: Vec<u32>,
    accounting: Vec<[Counter; 2]>,
    stamps: Vec<[u64; 2]>,
    /// Devices through which sources are masqueraded, by number of the entry as far as there are
    /// any; 0 for none.
    masqueraded: Vec<u32>,
    /// Words of the user for each direction, by number of the entry as far as there are any.
    memos: Vec<[u32; 2]>,
    count: u32,
    /// The connection that began last.
    begun: Begun,
    zones: Vec<u32>,
    labels_wanted: bool,
    templates: Templates,
    pub(crate) policies: Policies,
    sources: Sources,
    expects: Expectations,
    keys: SourceKeys,
    pressure: Pressure,
    observer: Option<Box<dyn Observer>>,
    /// All helpers.
    pub(crate) helpers: helper::Helpers,
    /// What helpers may do.
    pub(crate) helper_options: helper::Options,
    /// Tokens of the flows of offloaded connections, by number of the entry.
    offloads: Vec<u64>,
    /// Such connections that ended.
    offloads_ended: Vec<Ended>,
    pub(crate) statistics: Statistics,
    /// What is wrong with the last packet, where it is to be said.
    pub(crate) complaints: Complaints,
    /// Its place among several workers.
    member: Option<Member>,
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
    /// An empty table with a random secret.
    pub fn new(settings: Settings) -> Self {
        Self::with_seed(settings, fastrand::u64(..))
    }

    /// An empty table with random numbers from `seed`: the same packets give the same results.
    pub fn with_seed(settings: Settings, seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        Self {
            now: 0,
            store: Store::new(settings.max().min(1 << 24)),
            index: Index::new(settings.bucket_count()),
            hasher: Hasher::new(&mut rng),
            extras: Vec::new(),
            extras_free: Vec::new(),
            accounting: Vec::new(),
            stamps: Vec::new(),
            masqueraded: Vec::new(),
            memos: Vec::new(),
            count: 0,
            begun: Begun::default(),
            zones: Vec::new(),
            labels_wanted: false,
            templates: Templates::default(),
            policies: Policies::default(),
            sources: Sources::default(),
            expects: Expectations::default(),
            keys: SourceKeys::default(),
            pressure: Pressure::default(),
            observer: None,
            helpers: helper::Helpers::default(),
            helper_options: helper::Options::default(),
            offloads: Vec::new(),
            offloads_ended: Vec::new(),
            statistics: Statistics::default(),
            complaints: Complaints::default(),
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

    /// Changes settings. A new number of buckets makes a new hash table at once; connections for
    /// which a smaller one has no room end. More connections at most make a larger one. Fewer leave
    /// it as it is, and no connection ends, as in the kernel.
    pub fn set_settings(&mut self, settings: Settings) {
        let resize = match (settings.buckets, self.settings.buckets) {
            (None, None) => settings.max() > self.settings.max(),
            (now, before) => now != before,
        };
        self.settings = settings;
        if !resize {
            return;
        }
        self.index = Index::new(self.settings.bucket_count());
        let mut lost = Vec::new();
        for n in 0..self.store.end() {
            let e = &self.store[n];
            if !e.is_listed() {
                continue;
            }
            let hashes = [self.hasher.tuple(&e.original), self.hasher.tuple(&e.reply)];
            if self.index_both(n, hashes).is_err() {
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

    /// Connections of all workers.
    #[inline]
    pub(crate) fn count_of_all(&self) -> u32 {
        self.member.as_ref().map_or(self.count, Member::connections)
    }

    /// Its number among several workers.
    pub(crate) fn worker(&self) -> usize {
        self.member.as_ref().map_or(0, |member| member.worker)
    }

    /// Connections that wait for their confirmation: while there are any, a packet of the same flow
    /// would begin another, and the two become one only when they are confirmed.
    pub fn unconfirmed(&self) -> u32 {
        self.store.waiting_len(Waiting::Unconfirmed)
    }

    /// Connections with their original direction in `zone`.
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
}

impl Settings {
    /// Whether there is memory for the tables of so many workers. It is as cheap as making them: no
    /// memory is touched.
    ///
    /// # Errors
    ///
    /// A sentence that names the settings.
    pub fn check_room(&self, workers: usize) -> Result<(), String> {
        let buckets = self.bucket_count();
        let mut taken: Vec<Vec<u32>> = Vec::new();
        for _ in 0..workers {
            let mut table = Vec::new();
            table.try_reserve_exact(index::words_for(buckets)).map_err(|_| {
                format!("nf_conntrack_max, nf_conntrack_buckets: {buckets} buckets: Cannot allocate memory")
            })?;
            taken.push(table);
        }
        Ok(())
    }
}

/// Makes room for a place of entry `n`, somewhat more than that at a time.
fn grow<T: Default + Clone>(v: &mut Vec<T>, n: u32) {
    let need = n as usize + 1;
    if v.len() < need {
        if v.capacity() < need {
            v.reserve((need / 2).max(1024));
        }
        v.resize(need, T::default());
    }
}
