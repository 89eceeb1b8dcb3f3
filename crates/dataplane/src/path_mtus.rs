// SPDX-License-Identifier: Apache-2.0

//! MTUs that were learned of paths: exceptions of routes (`struct fib_nh_exception` of
//! `net/ipv4/route.c`, `struct rt6_exception` of `net/ipv6/route.c`).
//!
//! What ICMP messages to the host say is known to all workers. What a tunnel says of the packets
//! that enter it, each worker finds out again.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::route::Route;

/// Paths of each kind that are kept at most.
const PATHS: usize = 4096;

/// A path: a destination, and the next hop towards it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Path {
    /// IPv4 addresses are mapped ones.
    pub(crate) destination: u128,
    /// Index of the device.
    pub(crate) oif: u32,
    pub(crate) gateway: Option<IpAddr>,
}

impl Path {
    /// The path of a route to a destination.
    #[inline]
    pub(crate) fn of(to: &Route, destination: u128) -> Path {
        Path { destination, oif: to.oif, gateway: to.gateway }
    }
}

/// What was learned of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PathMtu {
    /// In bytes.
    pub(crate) mtu: u32,
    /// Less was heard than may be believed (`net.ipv4.route.min_pmtu`): until it expires nothing
    /// else is learned, and forwarded packets are held to it, too.
    pub(crate) locked: bool,
    /// When it expires, in nanoseconds of the packet clock.
    pub(crate) until: u64,
}

/// Something that an ICMP message said.
#[derive(Clone, Copy, Debug)]
pub(crate) struct News {
    pub(crate) path: Path,
    pub(crate) found: PathMtu,
    /// Flows that go through the path are to be checked again.
    pub(crate) of_flows: bool,
}

/// The paths that a worker knows.
#[derive(Debug, Default)]
pub(crate) struct PathMtus {
    /// From ICMP messages.
    heard: HashMap<Path, PathMtu>,
    /// From tunnels that packets enter here.
    entered: HashMap<Path, PathMtu>,
    shared: SharedPathMtus,
    /// Number of news of all workers that `heard` contains.
    taken: u64,
    destinations: Destinations,
}

/// Destinations of paths: those that are in here, and few others.
#[derive(Debug)]
struct Destinations {
    bits: Box<[u64; 64]>,
    /// Nobody can know which destinations fall together.
    key: u64,
}

impl Default for Destinations {
    fn default() -> Self {
        Destinations { bits: Box::new([0; 64]), key: RandomState::new().hash_one(0) }
    }
}

impl Destinations {
    /// Word and bit of a destination.
    #[inline]
    fn place(&self, destination: u128) -> (usize, u32) {
        let folded = (destination >> 64) as u64 ^ destination as u64 ^ self.key;
        let spread = folded.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ folded.rotate_left(29);
        let spread = spread.wrapping_mul(self.key | 1);
        ((spread >> 58) as usize, (spread >> 52) as u32 % u64::BITS)
    }

    fn insert(&mut self, destination: u128) {
        let (word, bit) = self.place(destination);
        self.bits[word] |= 1 << bit;
    }
}

impl PathMtus {
    /// Of a worker that shares what it hears.
    pub(crate) fn new(shared: SharedPathMtus) -> Self {
        PathMtus { shared, ..Self::default() }
    }

    /// Whether nothing was learned of any path.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.heard.is_empty() && self.entered.is_empty()
    }

    /// Whether something may have been learned of a path to a destination; mostly not where it was
    /// not.
    #[inline]
    pub(crate) fn may_know(&self, destination: u128) -> bool {
        let known = || {
            let (word, bit) = self.destinations.place(destination);
            self.destinations.bits[word] >> bit & 1 != 0
        };
        !self.is_empty() && known()
    }

    /// Paths are gone.
    fn forget_destinations(&mut self) {
        self.destinations.bits.fill(0);
        for path in self.heard.keys().chain(self.entered.keys()) {
            self.destinations.insert(path.destination);
        }
    }

    /// What is known of a path.
    pub(crate) fn get(&self, path: &Path, now: u64) -> Option<PathMtu> {
        let valid = |known: &HashMap<Path, PathMtu>| {
            known.get(path).filter(|found| now < found.until).copied()
        };
        match (valid(&self.heard), valid(&self.entered)) {
            (Some(a), Some(b)) => Some(if a.mtu <= b.mtu { a } else { b }),
            (a, b) => a.or(b),
        }
    }

    /// A tunnel says what fits into it.
    pub(crate) fn enter(&mut self, path: Path, found: PathMtu) {
        if self.entered.len() >= PATHS && !self.entered.contains_key(&path) {
            self.entered.clear();
            self.forget_destinations();
        }
        self.destinations.insert(path.destination);
        self.entered.insert(path, found);
    }

    /// An ICMP message says something. Other workers learn it with their next burst.
    pub(crate) fn hear(&mut self, news: News) {
        self.keep(&news);
        self.shared.publish(news);
    }

    /// Whether a worker has heard something that this one has not taken over.
    #[inline]
    pub(crate) fn is_behind(&self) -> bool {
        self.shared.published() != self.taken
    }

    /// Takes over what workers have heard, and gives it.
    pub(crate) fn take_news(&mut self) -> Vec<News> {
        let latest = self.shared.latest();
        let published = self.shared.published();
        let missing = usize::try_from(published - self.taken).unwrap_or(usize::MAX);
        let known = latest.len().saturating_sub(missing);
        let news: Vec<News> = latest.iter().skip(known).copied().collect();
        drop(latest);
        self.taken = published;
        news.iter().for_each(|one| self.keep(one));
        news
    }

    fn keep(&mut self, news: &News) {
        if self.heard.len() >= PATHS && !self.heard.contains_key(&news.path) {
            let first = self.heard.iter().min_by_key(|(_, found)| found.until);
            if let Some(path) = first.map(|(path, _)| *path) {
                self.heard.remove(&path);
                self.forget_destinations();
            }
        }
        self.destinations.insert(news.path.destination);
        self.heard.insert(news.path, news.found);
    }
}

/// What all workers have heard. A worker takes the lock where an ICMP message told something new,
/// and where another has heard something since its last burst.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedPathMtus(Arc<Published>);

#[derive(Debug, Default)]
struct Published {
    /// News so far.
    count: AtomicU64,
    /// The latest of them, at most [`PATHS`].
    latest: Mutex<VecDeque<News>>,
}

impl SharedPathMtus {
    /// News so far.
    #[inline]
    fn published(&self) -> u64 {
        self.0.count.load(Ordering::Acquire)
    }

    /// The latest news; none come while they are read.
    fn latest(&self) -> std::sync::MutexGuard<'_, VecDeque<News>> {
        self.0.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn publish(&self, news: News) {
        let mut latest = self.latest();
        if latest.len() >= PATHS {
            latest.pop_front();
        }
        latest.push_back(news);
        self.0.count.fetch_add(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(destination: u128) -> Path {
        Path { destination, oif: 2, gateway: None }
    }

    fn news(destination: u128, mtu: u32, until: u64) -> News {
        let found = PathMtu { mtu, locked: false, until };
        News { path: path(destination), found, of_flows: false }
    }

    #[test]
    fn all_workers_know_what_one_has_heard() {
        let shared = SharedPathMtus::default();
        let [mut a, mut b] = [0; 2].map(|_| PathMtus::new(shared.clone()));
        a.hear(news(1, 1400, 10));
        assert_eq!(b.get(&path(1), 5), None);
        assert!(b.is_behind());
        assert_eq!((b.take_news().len(), b.is_behind(), b.take_news().len()), (1, false, 0));
        assert_eq!(b.get(&path(1), 5).map(|p| p.mtu), Some(1400));
        assert_eq!(b.get(&path(1), 10), None, "expired");
        assert_eq!(b.get(&Path { oif: 3, ..path(1) }, 5), None, "another next hop");
        // Its own comes back to it, and changes nothing.
        b.hear(news(2, 1300, 10));
        a.take_news();
        b.take_news();
        let both = [&a, &b].map(|w| (w.get(&path(1), 5), w.get(&path(2), 5)));
        assert_eq!(both[0], both[1]);
    }

    #[test]
    fn a_full_table_forgets_what_expires_first() {
        let mut paths = PathMtus::default();
        for n in 0..PATHS as u128 + 1 {
            paths.hear(news(n, 1400, 1000 + n as u64));
        }
        assert_eq!(paths.get(&path(0), 0), None);
        assert!(paths.get(&path(1), 0).is_some() && paths.get(&path(PATHS as u128), 0).is_some());
        assert!((1..=PATHS as u128).all(|n| paths.may_know(n)));
        // What enters tunnels does not displace it.
        for n in 0..PATHS as u128 + 1 {
            paths.enter(path(n), PathMtu { mtu: 1300, locked: false, until: 9 });
        }
        assert_eq!(paths.get(&path(1), 10).map(|p| p.mtu), Some(1400));
        assert_eq!(paths.get(&path(PATHS as u128), 1).map(|p| p.mtu), Some(1300));
    }
}
