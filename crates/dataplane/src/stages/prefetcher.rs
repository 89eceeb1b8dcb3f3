// SPDX-License-Identifier: Apache-2.0

//! Looking ahead in a burst: the headers of its frames are read, their routes and the places of
//! their connections found, and the memory that is needed next is fetched.

use penstock_conntrack::{Conntrack, TupleLookup};
use penstock_jit::Head;
use penstock_net::{Network, RouteNumber};
use penstock_packet::Frame;
use penstock_wire::cache::prefetch;
use penstock_wire::frame::{Around, ip_packet};
use penstock_wire::{ethernet, ipv6};

use crate::pending_frames::{BURST, PendingFrames};
use crate::stages::fast_path::{EgressPrecheck, FastPath, ParsedHeaders};

/// What is known of the frames of a burst, as far as they were looked at; reused.
#[derive(Debug)]
pub(crate) struct Prefetcher {
    lookup: [Option<TupleLookup>; BURST],
    headers: [Option<ParsedHeaders>; BURST],
    /// The routes of those with headers, to the destination that they have on arrival.
    routes: [RouteNumber; BURST],
    v4: Destinations<u32>,
    v6: Destinations<u128>,
    /// Frames that were looked at.
    read: PendingFrames,
    /// Frames with prefetched entries.
    fetched: usize,
    /// The turn at which there is something to do again.
    due: usize,
}

impl Default for Prefetcher {
    fn default() -> Self {
        Prefetcher {
            lookup: [None; BURST],
            headers: [None; BURST],
            routes: [RouteNumber::NONE; BURST],
            v4: Destinations::new(),
            v6: Destinations::new(),
            read: PendingFrames::NONE,
            fetched: 0,
            due: 0,
        }
    }
}

/// What connection tracking may look up: the packet of a wire, or of one VLAN.
const AROUND: Around = Around { tags: 1, sessions: false };

/// What is looked at in a burst.
#[derive(Clone, Copy)]
pub(crate) struct Ahead<'a> {
    pub(crate) frames: &'a [Frame<'a>],
    /// Those of the frames that will have their turn.
    pub(crate) wanted: PendingFrames,
    /// What frames of one device may take.
    pub(crate) fast_path: Option<&'a FastPath<'a>>,
    /// Where connections are looked up, if they are tracked.
    pub(crate) conntrack: Option<&'a Conntrack>,
    pub(crate) net: &'a Network,
}

impl Prefetcher {
    /// Frames of which entries are fetched together.
    const STEP: usize = 8;

    /// Another burst begins.
    pub(crate) fn begin(&mut self) {
        (self.read, self.fetched, self.due) = (PendingFrames::NONE, 0, 0);
    }

    /// It is the turn of frame number `turn`.
    #[inline]
    pub(crate) fn reach<'f>(&mut self, turn: usize, ahead: impl FnOnce() -> Ahead<'f>) {
        if turn >= self.due || !self.read.has(turn) {
            self.look(turn, &ahead());
        }
    }

    fn look(&mut self, turn: usize, ahead: &Ahead<'_>) {
        if !self.read.has(turn) {
            let these = ahead.wanted.with(turn).without(self.read);
            self.read_headers(these, ahead);
            self.read = self.read.and_also(these);
        }
        self.due = self.due.max(turn + Self::STEP);
        if let Some(conntrack) = ahead.conntrack {
            let near = (turn + 2 * Self::STEP).min(ahead.frames.len()).min(BURST);
            let these = self.lookup.get(self.fetched.max(turn)..near).unwrap_or(&[]);
            these.iter().flatten().for_each(|lookup| conntrack.prefetch_sought(lookup));
            self.fetched = self.fetched.max(near);
        }
    }

    /// Reads the headers of frames, and asks for what follows from them.
    fn read_headers(&mut self, these: PendingFrames, ahead: &Ahead<'_>) {
        /// Frames between the one that is read and the one that is fetched.
        const FETCHED: usize = 16;
        let &Ahead { frames, fast_path, conntrack, net, .. } = ahead;
        let fetch = |at: usize| {
            frames.get(at).and_then(|later| later.bytes.first()).map(prefetch);
        };
        let first = these.first().unwrap_or(0);
        (first..frames.len().min(first + FETCHED)).for_each(fetch);
        let v4 = &mut self.v4;
        v4.clear();
        let mut v6 = PendingFrames::NONE;
        for at in these {
            fetch(at + FETCHED);
            let Some(frame) = frames.get(at) else { break };
            let headers = fast_path.and_then(|path| ParsedHeaders::read(frame, path));
            match &headers {
                Some(headers) if headers.v6 => v6 = v6.with(at),
                Some(headers) => v4.add(at, headers.destination()),
                None => {}
            }
            self.lookup[at] = conntrack.and_then(|table| match (&headers, fast_path) {
                (Some(headers), Some(path)) => headers.seek(frame, path, table),
                _ => ip_packet(frame.bytes, AROUND).and_then(|network| table.seek(network)),
            });
            self.headers[at] = headers;
        }
        v4.find(&mut self.routes, |destinations, found| net.route_numbers4(destinations, found));
        if v6 != PendingFrames::NONE {
            self.find_routes6(v6, ahead);
        }
        if let Some(precheck) = fast_path.and_then(|path| path.egress_precheck.as_ref()) {
            self.precheck_egress(these, frames, precheck);
        }
    }

    #[inline(never)]
    fn find_routes6(&mut self, these: PendingFrames, ahead: &Ahead<'_>) {
        const DESTINATION: usize = ethernet::LEN + ipv6::LEN - 16;
        let v6 = &mut self.v6;
        v6.clear();
        for at in these {
            let frame = ahead.frames.get(at).and_then(|frame| frame.bytes.get(DESTINATION..));
            let address = frame.and_then(|bytes| bytes.first_chunk());
            v6.add(at, address.map_or(0, |address| u128::from_be_bytes(*address)));
        }
        let net = ahead.net;
        v6.find(&mut self.routes, |destinations, found| net.route_numbers6(destinations, found));
    }

    /// Asks which packets are known to pass egress.
    #[inline(never)]
    fn precheck_egress(
        &mut self,
        these: PendingFrames,
        frames: &[Frame<'_>],
        precheck: &EgressPrecheck<'_>,
    ) {
        let mut heads: [&Head; BURST] = [&[0; size_of::<Head>()]; BURST];
        let mut last = 0;
        for at in these {
            let frame = frames.get(at).filter(|_| self.headers[at].is_some());
            let head = frame.and_then(|frame| frame.bytes.get(ethernet::LEN..)?.first_chunk());
            if let Some(head) = head {
                heads[at] = head;
                last = at;
            }
        }
        let pass = precheck.code.egress_precheck(precheck.list, &heads[..=last]);
        for at in these {
            if let Some(headers) = &mut self.headers[at] {
                headers.egress_prechecked = !headers.v6 && pass >> at & 1 != 0;
            }
        }
    }

    /// The route of a frame that may take the fast path, to the destination that it has on arrival.
    #[inline(always)]
    pub(crate) fn route(&self, at: usize) -> RouteNumber {
        self.routes.get(at).copied().unwrap_or(RouteNumber::NONE)
    }

    /// The headers of a frame that may take the fast path, and where its connection is looked up.
    #[inline]
    pub(crate) fn headers(&self, at: usize) -> Option<(&ParsedHeaders, Option<&TupleLookup>)> {
        let headers = self.headers.get(at).filter(|_| self.read.has(at))?.as_ref()?;
        Some((headers, self.lookup.get(at)?.as_ref()))
    }
}

/// Destinations of one family in a burst. What follows a packet to the same one has no place of its
/// own.
#[derive(Debug)]
struct Destinations<A> {
    addresses: [A; BURST],
    found: [RouteNumber; BURST],
    count: usize,
    frames: PendingFrames,
    /// The places of their destinations.
    places: [u8; BURST],
}

impl<A: Copy + Default + PartialEq> Destinations<A> {
    fn new() -> Self {
        Destinations {
            addresses: [A::default(); BURST],
            found: [RouteNumber::NONE; BURST],
            count: 0,
            frames: PendingFrames::NONE,
            places: [0; BURST],
        }
    }

    fn clear(&mut self) {
        (self.count, self.frames) = (0, PendingFrames::NONE);
    }

    #[inline(always)]
    fn add(&mut self, frame: usize, address: A) {
        let same = self.count > 0 && self.addresses.get(self.count - 1) == Some(&address);
        if !same && let Some(next) = self.addresses.get_mut(self.count) {
            *next = address;
            self.count += 1;
        }
        self.places[frame % BURST] = self.count as u8 - 1;
        self.frames = self.frames.with(frame);
    }

    /// Finds the routes of all, and gives them to their frames.
    #[inline(always)]
    fn find(
        &mut self,
        routes: &mut [RouteNumber; BURST],
        find: impl FnOnce(&[A], &mut [RouteNumber]),
    ) {
        find(&self.addresses[..self.count], &mut self.found[..self.count]);
        for frame in self.frames {
            routes[frame] = self.found[usize::from(self.places[frame]) % BURST];
        }
    }
}
