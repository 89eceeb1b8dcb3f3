// SPDX-License-Identifier: Apache-2.0

//! What a bridge has learned about groups, for all workers. Frames are looked up without a lock:
//!
//! ```text
//! topic, port --keyed hash--> two buckets of eight places:  hash | until when
//! ```
//!
//! Messages about memberships take a lock, under which stands what the places are copied from. So a
//! message costs the same however many memberships there are, and what is over is removed before
//! it counts.

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use penstock_net::GroupAddress;

/// Memberships that a bridge learns at most.
const ROOM: usize = 1 << 15;
/// Places of a bucket.
const PLACES: usize = 8;
const BUCKETS: usize = ROOM * 2 / PLACES;

/// A group on a bridge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Group {
    /// VLAN, 0 without filtering.
    pub(crate) vid: u16,
    pub(crate) address: GroupAddress,
}

/// What a port is known for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Topic {
    /// It is a member.
    Group(Group),
    /// A multicast router is there.
    Router { v6: bool },
}

/// How many groups there may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit<'a> {
    /// So many, with these.
    pub(crate) groups: usize,
    /// Groups of the configuration.
    pub(crate) fixed: &'a HashMap<Group, Vec<u32>>,
}

impl Limit<'_> {
    /// Whether there is room for a group next to the learned ones.
    fn allows(self, group: &Group, learned: &HashMap<Group, u32>) -> bool {
        if learned.contains_key(group) || self.fixed.contains_key(group) {
            return true;
        }
        let only_fixed = self.fixed.keys().filter(|fixed| !learned.contains_key(fixed)).count();
        learned.len() + only_fixed < self.groups
    }
}

/// There is no room for a group: from now on the bridge does not snoop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

#[derive(Debug, Default)]
#[repr(align(64))]
struct Bucket {
    hashes: [AtomicU64; PLACES],
    until: [AtomicU64; PLACES],
}

impl Bucket {
    fn places(&self) -> impl Iterator<Item = (&AtomicU64, &AtomicU64)> {
        self.hashes.iter().zip(&self.until)
    }
}

/// When somebody who asks for memberships is known, in nanoseconds of the packet clock.
#[derive(Debug, Default)]
struct Querier {
    /// When all have answered the first question.
    since: AtomicU64,
    until: AtomicU64,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    topic: Topic,
    port: u32,
    until: u64,
}

/// What stands under the lock.
#[derive(Debug, Default)]
struct Kept {
    /// By the hash of topic and port.
    known: HashMap<u64, Known>,
    /// What is over first comes first.
    ends: BTreeSet<(u64, u64)>,
    /// How many members each group has.
    groups: HashMap<Group, u32>,
    /// Addresses of queriers.
    queriers: [u128; 2],
}

/// The learned memberships of one bridge.
#[derive(Debug, Default)]
pub(crate) struct Memberships {
    hasher: RandomState,
    /// There from the first membership on.
    buckets: OnceLock<Box<[Bucket]>>,
    /// Of IPv4, of IPv6.
    queriers: [Querier; 2],
    closed: AtomicBool,
    kept: Mutex<Kept>,
}

impl Memberships {
    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Never 0, which marks a place as free.
    fn hash(&self, topic: Topic, port: u32) -> u64 {
        self.hasher.hash_one((topic, port)).max(1)
    }

    /// The buckets where a hash may be.
    fn two(&self, hash: u64) -> impl Iterator<Item = &Bucket> {
        let buckets = self.buckets.get().map_or(&[][..], |buckets| buckets);
        let two = [hash as usize % BUCKETS, (hash >> 32) as usize % BUCKETS];
        two.into_iter().filter_map(|at| buckets.get(at))
    }

    /// The place of a hash.
    fn place(&self, hash: u64) -> Option<(&AtomicU64, &AtomicU64)> {
        self.two(hash).flat_map(Bucket::places).find(|(place, _)| place.load(Acquire) == hash)
    }

    /// A place for a hash, in the emptier one of its buckets: so none is full long before the table
    /// is.
    fn free_place(&self, hash: u64) -> Option<(&AtomicU64, &AtomicU64)> {
        let is_free = |(place, _): &(&AtomicU64, &AtomicU64)| place.load(Relaxed) == 0;
        let bucket = self.two(hash).max_by_key(|b| b.places().filter(is_free).count())?;
        bucket.places().find(is_free)
    }

    /// Whether more groups came than there may be.
    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Relaxed)
    }

    /// Somebody switched it on again.
    pub(crate) fn reopen(&self) {
        self.closed.store(false, Relaxed);
    }

    /// Whether something is known of a port, and not over.
    pub(crate) fn is_pending(&self, topic: Topic, port: u32, now: u64) -> bool {
        if self.buckets.get().is_none() {
            return false;
        }
        let hash = self.hash(topic, port);
        self.place(hash).is_some_and(|(place, until)| {
            let pending = until.load(Acquire) > now;
            // By now the place may be another's.
            pending && place.load(Acquire) == hash
        })
    }

    /// Whether somebody asks, and all had the time to answer.
    #[inline]
    pub(crate) fn has_querier(&self, v6: bool, now: u64) -> bool {
        let querier = &self.queriers[usize::from(v6)];
        querier.until.load(Acquire) > now && querier.since.load(Acquire) < now
    }

    /// Whether somebody asks.
    pub(crate) fn querier_is_pending(&self, v6: bool, now: u64) -> bool {
        self.queriers[usize::from(v6)].until.load(Acquire) > now
    }

    /// A question about all groups from this address, with the time when all have answered, and how
    /// long it counts: it comes from the querier if its address is the least
    /// (`br_multicast_select_querier()`).
    pub(crate) fn query(&self, v6: bool, from: u128, times: (u64, u64), now: u64) -> bool {
        let (answered, interval) = times;
        let mut kept = self.lock();
        let querier = &self.queriers[usize::from(v6)];
        let pending = querier.until.load(Acquire) > now;
        let address = &mut kept.queriers[usize::from(v6)];
        if pending && from > *address && (v6 || *address != 0) {
            return false;
        }
        *address = from;
        if !pending {
            querier.since.store(answered, Release);
        }
        querier.until.store(now.saturating_add(interval), Release);
        true
    }

    /// A port, or the host, is known for something until then.
    pub(crate) fn join(
        &self,
        topic: Topic,
        port: u32,
        until: u64,
        now: u64,
        limit: Limit<'_>,
    ) -> Result<(), Full> {
        let hash = self.hash(topic, port);
        let mut kept = self.lock();
        self.expire(&mut kept, now);
        if kept.known.contains_key(&hash) {
            self.set(&mut kept, hash, until);
            return Ok(());
        }
        let fits = match topic {
            Topic::Group(group) => limit.allows(&group, &kept.groups),
            Topic::Router { .. } => true,
        };
        self.buckets.get_or_init(|| (0..BUCKETS).map(|_| Bucket::default()).collect());
        let place = self.free_place(hash).filter(|_| kept.known.len() < ROOM);
        let Some((free, ends)) = place.filter(|_| fits) else {
            self.closed.store(true, Relaxed);
            return Err(Full);
        };
        ends.store(until, Release);
        free.store(hash, Release);
        kept.known.insert(hash, Known { topic, port, until });
        kept.ends.insert((until, hash));
        if let Topic::Group(group) = topic {
            *kept.groups.entry(group).or_default() += 1;
        }
        Ok(())
    }

    /// Nothing is known of a port any more.
    pub(crate) fn end(&self, topic: Topic, port: u32) {
        let hash = self.hash(topic, port);
        self.remove(&mut self.lock(), hash);
    }

    /// What is known of these ports ends then, unless it ends before.
    pub(crate) fn shorten(
        &self,
        topic: Topic,
        ports: impl IntoIterator<Item = u32>,
        until: u64,
        now: u64,
    ) {
        let mut kept = self.lock();
        self.expire(&mut kept, now);
        for port in ports {
            let hash = self.hash(topic, port);
            if kept.known.get(&hash).is_some_and(|known| known.until > until) {
                self.set(&mut kept, hash, until);
            }
        }
    }

    /// Forgets all at ports that do not stay.
    pub(crate) fn forget(&self, stays: impl Fn(u32) -> bool) {
        let mut kept = self.lock();
        let gone = kept.known.iter().filter(|(_, known)| !stays(known.port));
        let gone: Vec<u64> = gone.map(|(hash, _)| *hash).collect();
        gone.into_iter().for_each(|hash| self.remove(&mut kept, hash));
    }

    /// Nobody asks any more.
    pub(crate) fn forget_queriers(&self) {
        self.queriers.iter().for_each(|querier| querier.until.store(0, Release));
    }

    /// Another time for what is known already.
    fn set(&self, kept: &mut Kept, hash: u64, until: u64) {
        let Some(known) = kept.known.get_mut(&hash) else { return };
        let before = std::mem::replace(&mut known.until, until);
        kept.ends.remove(&(before, hash));
        kept.ends.insert((until, hash));
        if let Some((_, ends)) = self.place(hash) {
            ends.store(until, Release);
        }
    }

    fn remove(&self, kept: &mut Kept, hash: u64) {
        let Some(known) = kept.known.remove(&hash) else { return };
        kept.ends.remove(&(known.until, hash));
        if let Some((place, _)) = self.place(hash) {
            place.store(0, Release);
        }
        if let Topic::Group(group) = known.topic
            && let Some(members) = kept.groups.get_mut(&group)
        {
            *members -= 1;
            if *members == 0 {
                kept.groups.remove(&group);
            }
        }
    }

    /// Removes what is over.
    fn expire(&self, kept: &mut Kept, now: u64) {
        while let Some((until, hash)) = kept.ends.first().copied()
            && until <= now
        {
            self.remove(kept, hash);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn group(n: u32) -> Group {
        Group { vid: 0, address: GroupAddress::V4(Ipv4Addr::from(0xef01_0000 + n)) }
    }

    fn limit(groups: usize, fixed: &HashMap<Group, Vec<u32>>) -> Limit<'_> {
        Limit { groups, fixed }
    }

    #[test]
    fn memberships_end_at_their_time() {
        let (table, none) = (Memberships::default(), HashMap::new());
        let topic = Topic::Group(group(1));
        let join = |port, until, now| table.join(topic, port, until, now, limit(8, &none));
        assert_eq!((join(1, 100, 0), join(2, 50, 0)), (Ok(()), Ok(())));
        let members = |now| [1, 2, 3].map(|port| table.is_pending(topic, port, now));
        assert_eq!(members(49), [true, true, false]);
        assert_eq!(members(50), [true, false, false]);
        table.shorten(topic, [1, 2, 3], 60, 55);
        assert_eq!(members(59), [true, false, false]);
        assert_eq!(members(60), [false; 3]);
        assert_eq!(join(1, 200, 70), Ok(()));
        table.end(topic, 1);
        assert_eq!(members(71), [false; 3]);
        assert_eq!(table.lock().groups.len(), 0);
    }

    #[test]
    fn one_group_too_many_closes_the_table() {
        let (table, fixed) = (Memberships::default(), HashMap::from([(group(9), vec![1])]));
        let join = |n, now| table.join(Topic::Group(group(n)), 1, now + 10, now, limit(3, &fixed));
        assert_eq!([1, 2, 9, 2].map(|n| join(n, 0)), [Ok(()); 4]);
        assert!(!table.is_closed());
        // Those that are over do not count.
        assert_eq!([3, 4].map(|n| join(n, 10)), [Ok(()); 2]);
        assert_eq!((join(5, 11), table.is_closed()), (Err(Full), true));
        table.reopen();
        assert!(!table.is_closed());
    }

    #[test]
    fn there_is_room_for_as_many_memberships_as_the_table_promises() {
        let (table, none) = (Memberships::default(), HashMap::new());
        let count = ROOM as u32;
        let join =
            |n: u32| table.join(Topic::Group(group(n / 8)), n % 8, 10, 0, limit(usize::MAX, &none));
        assert!((0..count).all(|n| join(n).is_ok()));
        assert!((0..count).all(|n| table.is_pending(Topic::Group(group(n / 8)), n % 8, 9)));
        assert_eq!(join(count), Err(Full));
        table.forget(|port| port == 3);
        assert_eq!(table.lock().known.len(), ROOM / 8);
        assert!(table.is_pending(Topic::Group(group(5)), 3, 9));
        assert!(!table.is_pending(Topic::Group(group(5)), 4, 9));
    }

    #[test]
    fn readers_see_memberships_of_their_group_only() {
        const ROUNDS: u64 = if cfg!(miri) { 20 } else { 3000 };
        let (table, none) = (Memberships::default(), HashMap::new());
        std::thread::scope(|scope| {
            for thread in 0..3u32 {
                let (table, none) = (&table, &none);
                scope.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(thread.into());
                    for now in 0..ROUNDS {
                        let port = random.u32(1..4);
                        // Odd groups never have members.
                        let topic = Topic::Group(group(2 * random.u32(0..40)));
                        let joined = table.join(topic, port, now + 2, now, limit(64, none));
                        assert_eq!(joined, Ok(()));
                        let none = Topic::Group(group(2 * random.u32(0..40) + 1));
                        assert!(!table.is_pending(none, random.u32(1..4), now));
                        if random.u8(..4) == 0 {
                            table.end(topic, port);
                        }
                    }
                });
            }
        });
    }
}
