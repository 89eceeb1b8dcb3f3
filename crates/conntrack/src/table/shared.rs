// SPDX-License-Identifier: Apache-2.0

//! What the tables of several workers share: the owner of a packet, the tuples and expectations of
//! the others, and the number of all connections.
//!
//! A connection belongs to one worker, which enters both its tuples, and what it announces, into a
//! directory when it begins, and removes them when it ends. The receiver of a packet looks them up:
//!
//! ```text
//! packet -> tuple (of an ICMP error: of the packet inside, inverted)
//!             |-> directory of all tuples     asked only while there are connections
//!             |-> expectations                asked only while there are any
//!             |-> directory of sources        of clients that are translated, so that they are by the same address again
//!             \-> who received it, or where that is one for all: a symmetric hash
//! ```
//!
//! Zones do not count here, since they are not known of a packet when it arrives: connections that
//! differ in their zone only are one worker's. Nor do source keys of GRE, which the tables know
//! from PPTP's control connections.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::directory::{self, Directory};
use super::hash::Hasher;
use crate::dissect;
use crate::expectation::{ExpectError, Expectation};
use crate::tuple::{IPV4, IPV6};
use crate::{Settings, Tuple};
use penstock_wire::{ipv4, ipv6, ipv6_ext, protocol};

/// Counts of the filter before the expectations.
const FILTER: usize = 4096;

/// What the workers of one path share.
#[derive(Debug)]
pub struct Shared {
    workers: usize,
    hasher: Hasher,
    directory: Directory,
    /// Connections of all workers.
    connections: AtomicU32,
    /// Sources in the directory.
    sources: AtomicU32,
    expected: Expected,
}

/// Expectations of all workers by their destination.
#[derive(Debug)]
struct Expected {
    count: AtomicU32,
    /// How many there are with this hash: the lock is taken for expected packets only.
    filter: Box<[AtomicU32]>,
    all: Mutex<HashMap<Tuple, Vec<(usize, Expectation)>>>,
}

/// The owner of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketOwner {
    /// This worker's.
    Worker(usize),
    /// A fragment. Its worker is known by its datagram's first one only.
    Fragment {
        /// What all fragments of the datagram have in common.
        datagram: Datagram,
        /// Which part of it this is.
        span: Span,
        /// The worker that determines the owner.
        finder: usize,
        /// The datagram's worker, if this is the first fragment.
        first: Option<usize>,
    },
}

/// The parsed headers of a packet before its owner lookup ([`Shared::seek_owner`]).
#[derive(Clone, Copy, Debug)]
pub struct OwnerLookup(OwnerKey);

#[derive(Clone, Copy, Debug)]
enum OwnerKey {
    /// With its hash.
    Tuple(Tuple, u64),
    Fragment,
    /// It has no tuple.
    Nothing,
}

/// What fragments of one datagram have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Datagram {
    src: [u8; 16],
    dst: [u8; 16],
    id: u32,
    /// Of IPv4 only.
    protocol: u8,
    l3: u8,
}

/// Part of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Bytes before it.
    pub offset: u32,
    /// Its bytes.
    pub len: u32,
    /// Nothing follows.
    pub is_last: bool,
}

/// The tuple of a packet that is no later fragment, and of an ICMP error that of the packet inside,
/// inverted.
#[inline]
fn arriving(network: &[u8]) -> Option<Tuple> {
    let at = dissect::layers(network)?;
    let inner = match at.protocol {
        protocol::ICMP | protocol::ICMPV6 => dissect::quoted(network, &at),
        _ => None,
    };
    let tuple = match inner {
        Some(inner) => dissect::layers(inner)
            .filter(|inner| inner.l3 == at.l3)
            .and_then(|at| dissect::tuple(inner, &at, 0, |_| 0)?.invert()),
        None => None,
    };
    tuple.or_else(|| dissect::tuple(network, &at, 0, |_| 0))
}

/// The destination of a tuple in any zone.
fn destination(t: &Tuple) -> Tuple {
    Tuple { zone: 0, ..t.destination_only() }
}

impl Shared {
    /// For so many workers, at most 255, and connections as the settings say.
    pub fn new(workers: usize, settings: &Settings, seed: u64) -> Arc<Self> {
        Arc::new(Shared {
            workers: workers.clamp(1, directory::MOST),
            hasher: Hasher::new(&mut fastrand::Rng::with_seed(seed)),
            directory: Directory::new(settings.max()),
            connections: AtomicU32::new(0),
            sources: AtomicU32::new(0),
            expected: Expected {
                count: AtomicU32::new(0),
                filter: (0..FILTER).map(|_| AtomicU32::new(0)).collect(),
                all: Mutex::default(),
            },
        })
    }

    /// How many workers there are.
    pub fn workers(&self) -> usize {
        self.workers
    }

    fn spread(&self, hash: u64) -> usize {
        (((hash >> 32) * self.workers as u64) >> 32) as usize
    }

    /// The worker of a tuple and of its inverse, if nothing else is known.
    #[inline]
    pub fn home(&self, t: &Tuple) -> usize {
        let ports = !matches!(t.protocol, protocol::ICMP | protocol::ICMPV6 | protocol::GRE);
        let (src_id, dst_id) = if ports { (t.src_id, t.dst_id) } else { (0, 0) };
        let (src, dst) = ((t.src, src_id), (t.dst, dst_id));
        let (low, high) = if src <= dst { (src, dst) } else { (dst, src) };
        let between =
            if matches!(t.protocol, protocol::ICMP | protocol::ICMPV6) { t.src_id } else { 0 };
        let both = Tuple {
            src: low.0,
            dst: high.0,
            src_id: low.1,
            dst_id: high.1,
            zone: between,
            l3: t.l3,
            protocol: t.protocol,
        };
        self.spread(self.hasher.tuple(&both))
    }

    /// The worker of a packet with this tuple. A new connection belongs to its receiver, or if that
    /// is `None`, to a worker chosen by hash.
    #[inline]
    pub fn owner(&self, t: &Tuple, receiver: Option<usize>) -> usize {
        self.owner_by(t, self.hasher.tuple(&t.on_arrival()), receiver)
    }

    /// The owner of a tuple with this hash as [`Shared::owner`] has it.
    #[inline]
    fn owner_by(&self, t: &Tuple, hash: u64, receiver: Option<usize>) -> usize {
        // Expectations are of connections.
        if self.connections.load(Relaxed) != 0 {
            let t = t.on_arrival();
            let found = self.directory.find(hash);
            let found = found.or_else(|| self.expecting(&t)).or_else(|| self.with_source(&t));
            if let Some(worker) = found {
                return worker;
            }
        }
        receiver.unwrap_or_else(|| self.home(t))
    }

    /// The owner of a packet that this worker has received, as [`Shared::owner`]: `network` are its
    /// bytes from the IP header on. What is cut is its receiver's, or the first worker's.
    #[inline]
    pub fn packet_owner(&self, network: &[u8], receiver: Option<usize>) -> PacketOwner {
        self.found_owner(&self.seek_owner(network), network, receiver)
    }

    /// Reads the headers of a packet before its owner lookup, and prefetches the memory for that.
    /// `network` are its bytes from the IP header on.
    #[inline]
    pub fn seek_owner(&self, network: &[u8]) -> OwnerLookup {
        if datagram(network).is_some() {
            return OwnerLookup(OwnerKey::Fragment);
        }
        let Some(tuple) = arriving(network) else { return OwnerLookup(OwnerKey::Nothing) };
        let hash = self.hasher.tuple(&tuple.on_arrival());
        if self.connections.load(Relaxed) != 0 {
            self.directory.prefetch(hash);
        }
        OwnerLookup(OwnerKey::Tuple(tuple, hash))
    }

    /// [`Shared::packet_owner`] for a packet after [`Shared::seek_owner`].
    #[inline]
    pub fn found_owner(
        &self,
        lookup: &OwnerLookup,
        network: &[u8],
        receiver: Option<usize>,
    ) -> PacketOwner {
        match &lookup.0 {
            OwnerKey::Tuple(tuple, hash) => {
                PacketOwner::Worker(self.owner_by(tuple, *hash, receiver))
            }
            OwnerKey::Nothing => PacketOwner::Worker(receiver.unwrap_or(0)),
            OwnerKey::Fragment => self.fragment_owner(network, receiver),
        }
    }

    #[cold]
    fn fragment_owner(&self, network: &[u8], receiver: Option<usize>) -> PacketOwner {
        if let Some((datagram, span)) = datagram(network) {
            let addresses =
                Tuple { src: datagram.src, dst: datagram.dst, l3: datagram.l3, ..Tuple::ZERO };
            let finder =
                self.spread(self.hasher.word(self.hasher.tuple(&addresses), datagram.id.into()));
            let owner = || arriving(network).map_or(0, |tuple| self.owner(&tuple, None));
            let first = (span.offset == 0).then(owner);
            return PacketOwner::Fragment { datagram, span, finder, first };
        }
        PacketOwner::Worker(receiver.unwrap_or(0))
    }

    /// The worker that has connections of a source.
    fn with_source(&self, t: &Tuple) -> Option<usize> {
        match self.sources.load(Relaxed) {
            0 => None,
            _ => self.directory.find(self.hasher.source(t)),
        }
    }

    // ---- expectations ----

    fn filter(&self, destination: &Tuple) -> Option<&AtomicU32> {
        self.expected.filter.get(self.hasher.tuple(destination) as usize % FILTER)
    }

    fn expectations(&self) -> MutexGuard<'_, HashMap<Tuple, Vec<(usize, Expectation)>>> {
        self.expected.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The worker that expects a tuple.
    fn expecting(&self, t: &Tuple) -> Option<usize> {
        if self.expected.count.load(Relaxed) == 0 {
            return None;
        }
        let to = destination(t);
        if self.filter(&to)?.load(Relaxed) == 0 {
            return None;
        }
        let all = self.expectations();
        all.get(&to)?
            .iter()
            .rev()
            .find(|(_, expected)| expected.is_met_on_arrival(t))
            .map(|(worker, _)| *worker)
    }
}

/// A worker's place among those who share.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub shared: Arc<Shared>,
    pub worker: usize,
}

impl Member {
    fn hash(&self, t: &Tuple) -> u64 {
        self.shared.hasher.tuple(&t.on_arrival())
    }

    /// Connections of all workers.
    pub fn connections(&self) -> u32 {
        self.shared.connections.load(Relaxed)
    }

    /// One connection more, or less.
    pub fn count(&self, up: bool) {
        let count = &self.shared.connections;
        if up {
            count.fetch_add(1, Relaxed)
        } else {
            count.fetch_sub(1, Relaxed)
        };
    }

    /// Whether another worker has a tuple.
    pub fn is_anothers(&self, t: &Tuple) -> bool {
        self.shared.directory.find(self.hash(t)).is_some_and(|worker| worker != self.worker)
    }

    /// Fetches what entering these tuples, or taking them back, will look at.
    pub fn prefetch(&self, tuples: [&Tuple; 2]) {
        tuples.into_iter().for_each(|t| self.shared.directory.prefetch(self.hash(t)));
    }

    /// Enters both tuples of a connection; `false` if one is another worker's.
    pub fn claim(&self, tuples: [&Tuple; 2]) -> bool {
        let [first, second] = tuples.map(|t| self.hash(t));
        let directory = &self.shared.directory;
        if directory.claim(first, self.worker).is_err() {
            return false;
        }
        if directory.claim(second, self.worker).is_err() {
            directory.release(first, self.worker);
            return false;
        }
        true
    }

    /// Takes both tuples of a connection back.
    pub fn release(&self, tuples: [&Tuple; 2]) {
        tuples.into_iter().for_each(|t| self.shared.directory.release(self.hash(t), self.worker));
    }

    /// Enters the source of a connection; `false` if it is there already. The connection that
    /// entered it removes it.
    pub fn claim_source(&self, original: &Tuple) -> bool {
        let hash = self.shared.hasher.source(&original.on_arrival());
        let claimed = self.shared.directory.find(hash).is_none()
            && self.shared.directory.claim(hash, self.worker).is_ok();
        if claimed {
            self.shared.sources.fetch_add(1, Relaxed);
        }
        claimed
    }

    /// Takes the source of a connection back.
    pub fn release_source(&self, original: &Tuple) {
        self.shared
            .directory
            .release(self.shared.hasher.source(&original.on_arrival()), self.worker);
        self.shared.sources.fetch_sub(1, Relaxed);
    }

    /// Enters an expectation.
    ///
    /// # Errors
    /// Another worker expects what cannot be told from it, or all together expect `max`.
    pub fn expect(&self, expectation: &Expectation, max: u32) -> Result<(), ExpectError> {
        let to = destination(&expectation.tuple);
        let mut all = self.shared.expectations();
        if self.shared.expected.count.load(Relaxed) >= max {
            return Err(ExpectError::TableFull);
        }
        let same = all.entry(to).or_default();
        if same.iter().any(|(worker, other)| *worker != self.worker && expectation.clashes(other)) {
            return Err(ExpectError::Busy);
        }
        same.push((self.worker, expectation.clone()));
        self.shared.expected.count.fetch_add(1, Relaxed);
        if let Some(filter) = self.shared.filter(&to) {
            filter.fetch_add(1, Relaxed);
        }
        Ok(())
    }

    /// Takes an expectation back.
    pub fn unexpect(&self, expectation: &Expectation) {
        let to = destination(&expectation.tuple);
        let mut all = self.shared.expectations();
        let Some(same) = all.get_mut(&to) else { return };
        let Some(place) = same.iter().position(|(w, e)| *w == self.worker && e == expectation)
        else {
            return;
        };
        same.remove(place);
        if same.is_empty() {
            all.remove(&to);
        }
        self.shared.expected.count.fetch_sub(1, Relaxed);
        if let Some(filter) = self.shared.filter(&to) {
            filter.fetch_sub(1, Relaxed);
        }
    }
}

/// What a fragment is of, and which part; `None` for what is no fragment.
fn datagram(network: &[u8]) -> Option<(Datagram, Span)> {
    match network.first()? >> 4 {
        4 => {
            let h = ipv4::Header::new(network)?;
            if !h.is_fragment() {
                return None;
            }
            let (mut src, mut dst) = ([0; 16], [0; 16]);
            src[..4].copy_from_slice(&h.src().octets());
            dst[..4].copy_from_slice(&h.dst().octets());
            let datagram =
                Datagram { src, dst, id: h.id().into(), protocol: h.protocol(), l3: IPV4 };
            let len = u32::from(h.total_len()).saturating_sub(h.header_len() as u32);
            Some((
                datagram,
                Span { offset: u32::from(h.fragment_offset()) * 8, len, is_last: !h.mf() },
            ))
        }
        6 => {
            let h = ipv6::Header::new(network)?;
            if !ipv6_ext::is_extension(h.next_header()) {
                return None;
            }
            let at = ipv6_ext::find(network, Some(protocol::FRAGMENT), ipv6_ext::Walk::default())
                .ok()?
                .offset;
            let f = ipv6_ext::Fragment::new(network.get(at..)?)?;
            if f.fragment_offset() == 0 && !f.more() {
                return None;
            }
            let (src, dst) = (h.src().octets(), h.dst().octets());
            let datagram = Datagram { src, dst, id: f.id(), protocol: 0, l3: IPV6 };
            let end = ipv6::LEN + usize::from(h.payload_len());
            let len = end.saturating_sub(at + ipv6_ext::FRAGMENT_LEN) as u32;
            Some((
                datagram,
                Span { offset: u32::from(f.fragment_offset()) * 8, len, is_last: !f.more() },
            ))
        }
        _ => None,
    }
}
