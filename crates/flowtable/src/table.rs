// SPDX-License-Identifier: Apache-2.0

//! The table: flows by number, found by the key of either direction.

use crate::arrival::{Arrival, ArrivalId};
use crate::flow::{Addresses, At, Direction, Half, HalfId, Life, state};
use crate::hash::Hasher;
use crate::index::Index;
use crate::interned::Interned;
use crate::key::{self, IPV4, Key, Key4};
use crate::memory;
use crate::rewrite;
use crate::xmit::{Xmit, XmitId};

/// No flow.
const NONE: u32 = u32::MAX;
/// Flows that a table can have, whatever is asked for: half of the numbers that an index can tell
/// apart.
const MOST: u32 = 1 << 30;

/// Bounds of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Flows at most. The kernel's table has no bound of its own: a flow has a connection, and
    /// those are bounded.
    pub flows: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { flows: 262_144 }
    }
}

/// One direction of a flow to add.
#[derive(Clone, Copy, Debug)]
pub struct NewHalf {
    /// What packets have when they arrive; where they do is given separately.
    pub key: Key,
    /// Where they arrive.
    pub arrival: Arrival,
    /// How they leave.
    pub xmit: Xmit,
}

/// A flow to add: a packet of one direction leaves with the tuple that the other direction's key is
/// the inverse of.
#[derive(Clone, Copy, Debug)]
pub struct NewFlow {
    /// Original and reply direction.
    pub halves: [NewHalf; 2],
    /// What it belongs to ([`Life::connection`]).
    pub connection: u64,
    /// What its ways were looked up with ([`Life::lookup`]).
    pub lookup: u64,
    /// In which network ([`Half::network`]).
    pub network: u8,
    /// Its connection is translated.
    pub translated: bool,
    /// The time, nanoseconds.
    pub now: u64,
}

/// Why a flow was not added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddError {
    /// There are as many as there may be.
    Full,
    /// One of its keys is that of another flow.
    Taken,
}

/// The flows of one flowtable.
#[derive(Debug)]
pub struct Flowtable {
    limits: Limits,
    hasher: Hasher,
    index: Index,
    halves: Vec<[Half; 2]>,
    lives: Vec<Life>,
    free: u32,
    len: u32,
    addresses: Vec<Addresses>,
    free_addresses: Vec<u32>,
    arrivals: Interned<Arrival>,
    xmits: Interned<Xmit>,
}

/// Room for `most`; the system allocates its memory as it is used. If it refuses that much at once,
/// allocation happens later.
fn reserved<T>(most: u32) -> Vec<T> {
    let mut v = Vec::new();
    let mut want = most as usize;
    while v.try_reserve_exact(want).is_err() && want > 1024 {
        want /= 2;
    }
    memory::in_large_pages(&v);
    v
}

impl Flowtable {
    /// An empty table; hashes follow from `seed`.
    pub fn new(limits: Limits, seed: u64) -> Self {
        let limits = Limits { flows: limits.flows.min(MOST) };
        Flowtable {
            limits,
            hasher: Hasher::new(seed),
            index: Index::new(2 * limits.flows as usize),
            halves: reserved(limits.flows),
            lives: reserved(limits.flows),
            free: NONE,
            len: 0,
            addresses: Vec::new(),
            free_addresses: Vec::new(),
            arrivals: Interned::default(),
            xmits: Interned::default(),
        }
    }

    /// Flows that there are, also those that are torn down and still have to go.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// One past the highest number of a flow.
    pub fn end(&self) -> u32 {
        self.halves.len() as u32
    }

    /// Bytes of memory that the flows take, index included.
    pub fn memory(&self) -> usize {
        self.halves.len() * size_of::<[Half; 2]>()
            + self.lives.len() * size_of::<Life>()
            + self.addresses.len() * size_of::<Addresses>()
            + self.index.memory()
    }

    // ---- finding ----

    /// The hash of a key.
    #[inline(always)]
    pub fn hash(&self, key: &Key) -> u64 {
        self.hasher.key(key)
    }

    /// [`Flowtable::hash`] of a key over IPv4.
    #[inline(always)]
    pub fn hash4(&self, key: &Key4) -> u64 {
        self.hasher.key4(key)
    }

    /// First step of finding several: fetches the bucket for a hash.
    #[inline(always)]
    pub fn prefetch(&self, hash: u64) {
        self.index.prefetch(hash);
    }

    /// Second step, when the bucket has come: fetches the direction of a flow that it is likely to
    /// be, and gives it for [`Flowtable::is4`].
    #[inline(always)]
    pub fn prefetch_flow(&self, hash: u64) -> HalfId {
        let id = self.index.candidate(hash);
        self.halves.as_flattened().get(id.0 as usize).map(penstock_wire::cache::prefetch);
        id
    }

    /// Whether packets with this key belong to a direction of a flow. Any number may be given.
    #[inline(always)]
    pub fn is4(&self, id: HalfId, key: &Key4) -> bool {
        self.halves.as_flattened().get(id.0 as usize).is_some_and(|half| half.is4(key))
    }

    /// [`Flowtable::find`] over IPv4.
    #[inline(always)]
    pub fn find4(&self, hash: u64, key: &Key4) -> Option<HalfId> {
        self.index.find(hash, |id| self.is4(id, key))
    }

    /// Whether packets with this key belong to a direction of a flow.
    #[inline(always)]
    pub fn is(&self, at: At, key: &Key) -> bool {
        let Some(halves) = self.halves.get(at.flow as usize) else { return false };
        let half = &halves[at.direction as usize];
        half.is(key) && (half.l3 == IPV4 || self.addresses_are(at, key))
    }

    /// The direction of a flow to which packets with this key belong. Those that are torn down are
    /// not found.
    #[inline(always)]
    pub fn find(&self, hash: u64, key: &Key) -> Option<At> {
        self.index.find(hash, |id| self.is(id.at(), key)).map(HalfId::at)
    }

    fn addresses_are(&self, at: At, key: &Key) -> bool {
        let number = self.halves[at.flow as usize][at.direction as usize].addresses;
        self.addresses
            .get(number as usize)
            .is_some_and(|a| a.of[at.direction as usize] == [key.src, key.dst])
    }

    /// Finds several, with the memory for all being fetched together.
    pub fn find_burst(&self, keys: &[Key], found: &mut [Option<At>]) {
        /// More than a processor fetches at a time gains nothing.
        const STEP: usize = 16;
        for (keys, found) in keys.chunks(STEP).zip(found.chunks_mut(STEP)) {
            let mut hashes = [0; STEP];
            for (hash, key) in hashes.iter_mut().zip(keys) {
                *hash = self.hash(key);
                self.prefetch(*hash);
            }
            for &hash in hashes.iter().take(keys.len()) {
                self.prefetch_flow(hash);
            }
            for ((hash, key), found) in hashes.iter().zip(keys).zip(found) {
                *found = self.find(*hash, key);
            }
        }
    }

    // ---- a flow ----

    /// A direction of a flow that is there.
    #[inline(always)]
    pub fn half(&self, at: At) -> &Half {
        &self.halves[at.flow as usize][at.direction as usize]
    }

    /// The direction of a flow with a number, for changes.
    #[inline(always)]
    pub fn half_by_id(&mut self, id: HalfId) -> Option<&mut Half> {
        self.halves.as_flattened_mut().get_mut(id.0 as usize)
    }

    /// [`Flowtable::half`], for changes.
    #[inline(always)]
    pub fn half_mut(&mut self, at: At) -> &mut Half {
        &mut self.halves[at.flow as usize][at.direction as usize]
    }

    /// Whether there is a flow with this number.
    pub fn is_live(&self, flow: u32) -> bool {
        self.halves.get(flow as usize).is_some_and(|h| h[0].has(state::LIVE))
    }

    /// The original direction of a flow, if there is one with this number.
    pub fn live(&self, flow: u32) -> Option<&Half> {
        self.halves.get(flow as usize).map(|h| &h[0]).filter(|h| h.has(state::LIVE))
    }

    /// Its beginning.
    pub fn life(&self, flow: u32) -> &Life {
        &self.lives[flow as usize]
    }

    /// Numbers of all flows that packets can find.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.end()).filter(|&flow| {
            let half = self.half(At { flow, direction: Direction::Original });
            half.state & (state::LIVE | state::TEARDOWN) == state::LIVE
        })
    }

    /// When the latest packet of either direction went, nanoseconds.
    pub fn used(&self, flow: u32) -> u64 {
        self.halves[flow as usize].iter().map(|h| h.used).max().unwrap_or(0)
    }

    /// Sets bits of [`state`] in both directions.
    pub fn set_state(&mut self, flow: u32, bits: u8) {
        self.halves[flow as usize].iter_mut().for_each(|h| h.state |= bits);
    }

    /// Notes that its ways hold in a network ([`Half::network`]).
    pub fn set_network(&mut self, flow: u32, network: u8) {
        self.halves[flow as usize].iter_mut().for_each(|h| h.network = network);
    }

    /// Clears bits of [`state`] in both directions.
    pub fn clear_state(&mut self, flow: u32, bits: u8) {
        self.halves[flow as usize].iter_mut().for_each(|h| h.state &= !bits);
    }

    /// The key by which a direction is found.
    pub fn key(&self, at: At) -> Key {
        let half = self.half(at);
        let [src, dst] = self.key_addresses(at);
        let (ports, arrival) = key::ports_and_arrival(half.place);
        Key { src, dst, ports, arrival, l3: half.l3, l4: half.l4 }
    }

    fn key_addresses(&self, at: At) -> [[u64; 2]; 2] {
        let half = self.half(at);
        match half.l3 {
            IPV4 => key::wide4(half.addresses),
            _ => self.addresses[half.addresses as usize].of[at.direction as usize],
        }
    }

    /// Source and destination with which a packet over IPv6 leaves: those that the other direction
    /// answers to.
    #[inline(always)]
    pub fn addresses(&self, at: At) -> [[u64; 2]; 2] {
        let number = self.half(at).addresses;
        match self.addresses.get(number as usize) {
            Some(addresses) => {
                let [src, dst] = addresses.of[at.direction.opposite() as usize];
                [dst, src]
            }
            None => [[0; 2]; 2],
        }
    }

    /// How packets of a direction leave.
    #[inline(always)]
    pub fn xmit(&self, at: At) -> &Xmit {
        self.xmits.get(self.half(at).xmit.0)
    }

    /// The way with a number that some flow has.
    #[inline(always)]
    pub fn xmit_at(&self, xmit: XmitId) -> &Xmit {
        self.xmits.get(xmit.0)
    }

    /// How many ways the flows have in common.
    pub fn xmits(&self) -> usize {
        self.xmits.len()
    }

    /// Number of a way that some flow has.
    pub fn xmit_id(&self, xmit: &Xmit) -> Option<XmitId> {
        self.xmits.number(xmit).map(XmitId)
    }

    /// Number of an arrival at which some flow arrives: without it no flow does.
    pub fn arrival(&self, arrival: &Arrival) -> Option<ArrivalId> {
        self.arrivals.number(arrival).map(ArrivalId)
    }

    /// Grows when an arrival comes or goes.
    #[inline(always)]
    pub fn arrivals_changed(&self) -> u64 {
        self.arrivals.changed()
    }

    /// The arrival with a number that some flow has.
    pub fn arrival_at(&self, id: ArrivalId) -> &Arrival {
        self.arrivals.get(id.0)
    }

    /// All arrivals of flows.
    pub fn arrivals(&self) -> impl Iterator<Item = (ArrivalId, &Arrival)> {
        self.arrivals.iter().map(|(n, a)| (ArrivalId(n), a))
    }

    // ---- life ----

    /// Adds a flow, both directions or none (`flow_offload_add()`).
    ///
    /// # Errors
    /// It is full, or a key is another flow's.
    pub fn add(&mut self, new: &NewFlow) -> Result<u32, AddError> {
        if self.len >= self.limits.flows {
            return Err(AddError::Full);
        }
        let arrivals = new.halves.map(|half| ArrivalId(self.arrivals.acquire(&half.arrival)));
        let [original, reply] = new.halves;
        let keys = [original.key.arriving(arrivals[0]), reply.key.arriving(arrivals[1])];
        let hashes = keys.map(|key| self.hash(&key));
        let taken = (0..2).any(|i| self.find(hashes[i], &keys[i]).is_some()) || keys[0] == keys[1];
        if taken {
            arrivals.iter().for_each(|a| self.arrivals.release(a.0));
            return Err(AddError::Taken);
        }
        let xmits = new.halves.map(|half| XmitId(self.xmits.acquire(&half.xmit)));
        let flow = self.take();
        let addresses = if keys[0].l3 == IPV4 { NONE } else { self.put_addresses(&keys) };
        self.lives[flow as usize] = Life {
            connection: new.connection,
            lookup: new.lookup,
            added: new.now,
            next: NONE,
            addresses,
        };
        for direction in Direction::BOTH {
            let (own, other) = (&keys[direction as usize], &keys[direction.opposite() as usize]);
            // It leaves as what the other direction answers to.
            let (src_port, dst_port) = (other.ports.to_ne_bytes(), own.ports);
            let [a, b, c, d] = src_port;
            let leaves = Key {
                src: other.dst,
                dst: other.src,
                ports: u32::from_ne_bytes([c, d, a, b]),
                ..*own
            };
            let (header_delta, transport_delta) = rewrite::deltas(own, &leaves);
            let translated = new.translated
                || leaves.src != own.src
                || leaves.dst != own.dst
                || leaves.ports != dst_port;
            let (wide, words) = (own.l3 != IPV4, Key4::of(own));
            self.halves[flow as usize][direction as usize] = Half {
                addresses: if wide { addresses.into() } else { words.addresses },
                place: words.place,
                l3: own.l3,
                l4: own.l4,
                state: state::LIVE | if translated { state::TRANSLATED } else { 0 },
                network: new.network,
                new_src: key::low4(leaves.src),
                new_dst: key::low4(leaves.dst),
                new_ports: leaves.ports,
                header_delta,
                transport_delta,
                xmit: xmits[direction as usize],
                used: new.now,
                packets: 0,
                bytes: 0,
            };
            self.index.insert(hashes[direction as usize], At { flow, direction });
        }
        self.len += 1;
        Ok(flow)
    }

    fn take(&mut self) -> u32 {
        if self.free == NONE {
            self.halves.push([Half::FREE; 2]);
            self.lives.push(Life {
                connection: 0,
                added: 0,
                lookup: 0,
                next: NONE,
                addresses: NONE,
            });
            return self.halves.len() as u32 - 1;
        }
        let flow = self.free;
        self.free = self.lives[flow as usize].next;
        flow
    }

    fn put_addresses(&mut self, keys: &[Key; 2]) -> u32 {
        let addresses = Addresses { of: [[keys[0].src, keys[0].dst], [keys[1].src, keys[1].dst]] };
        match self.free_addresses.pop() {
            Some(n) => {
                self.addresses[n as usize] = addresses;
                n
            }
            None => {
                self.addresses.push(addresses);
                self.addresses.len() as u32 - 1
            }
        }
    }

    /// Removes a flow; nothing happens if there is none with this number.
    pub fn remove(&mut self, flow: u32) {
        if !self.is_live(flow) {
            return;
        }
        for direction in Direction::BOTH {
            let at = At { flow, direction };
            let hash = self.hash(&self.key(at));
            self.index.remove(hash, at);
            let half = self.half(at);
            let (arrival, xmit) = (half.arrival(), half.xmit);
            self.arrivals.release(arrival.0);
            self.xmits.release(xmit.0);
        }
        let life = &mut self.lives[flow as usize];
        if life.addresses != NONE {
            self.free_addresses.push(life.addresses);
        }
        life.next = self.free;
        self.halves[flow as usize] = [Half::FREE; 2];
        self.free = flow;
        self.len -= 1;
    }
}
