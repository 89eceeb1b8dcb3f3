// SPDX-License-Identifier: Apache-2.0

//! Looking ahead in a burst: the headers of its frames are read, the places of their connections
//! found, and the memory that is needed next is fetched.

use penstock_conntrack::{Conntrack, TupleLookup};
use penstock_nat::choose::drawn_port;
use penstock_packet::Frame;
use penstock_random::Random;
use penstock_wire::cache::prefetch;
use penstock_wire::frame::{Around, ip_packet};

use crate::pending_frames::{BURST, PendingFrames};
use crate::stages::device_path::FastPath;
use crate::stages::headers_ahead::{HeadersAhead, ParsedHeaders};
use crate::stages::ingress_batch::IngressBatch;
use crate::stages::routes_ahead::{RouteAhead, RoutesAhead};

/// A frame that may take the fast path, with what was found out before its turn.
pub(crate) struct ParsedFrame<'a> {
    pub(crate) frame: &'a Frame<'a>,
    pub(crate) headers: &'a ParsedHeaders,
    /// Where its connection is looked up, if that is what happens first.
    pub(crate) lookup: Option<&'a TupleLookup>,
    /// The route to its destination.
    pub(crate) route: RouteAhead<'a>,
    /// It is known that it passes egress ([`FastPath::egress_precheck`]).
    pub(crate) egress_prechecked: bool,
    /// The ingress that it has passed, if there is any.
    pub(crate) ingress_batch: Option<&'a IngressBatch<'a>>,
}

/// What is known of the frames of a burst, as far as they were looked at; reused.
#[derive(Debug)]
pub(crate) struct Prefetcher {
    headers: HeadersAhead,
    lookups: [TupleLookup; BURST],
    /// The frames that have a lookup.
    sought: PendingFrames,
    routes: RoutesAhead,
    /// Frames of which it is known that their packets pass egress ([`FastPath::egress_precheck`]).
    prechecked: PendingFrames,
    /// Frames with prefetched entries.
    fetched: usize,
    /// Those that are likely to begin a connection that is translated.
    beginning: PendingFrames,
    /// The turn at which there is something to do again.
    due: usize,
}

impl Default for Prefetcher {
    fn default() -> Self {
        Prefetcher {
            headers: HeadersAhead::new(),
            lookups: [TupleLookup::default(); BURST],
            sought: PendingFrames::NONE,
            routes: RoutesAhead::new(),
            prechecked: PendingFrames::NONE,
            fetched: 0,
            beginning: PendingFrames::NONE,
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
    /// What ports are drawn by.
    pub(crate) random: &'a Random,
}

impl Prefetcher {
    /// Frames of which entries are fetched together.
    const STEP: usize = 8;

    /// Another burst begins.
    pub(crate) fn begin(&mut self) {
        self.headers.begin();
        self.sought = PendingFrames::NONE;
        self.routes.begin();
        self.prechecked = PendingFrames::NONE;
        self.beginning = PendingFrames::NONE;
        (self.fetched, self.due) = (0, 0);
    }

    /// It is the turn of frame number `turn`.
    #[inline]
    pub(crate) fn reach<'f>(&mut self, turn: usize, ahead: impl FnOnce() -> Ahead<'f>) {
        if turn >= self.due || !self.headers.read().has(turn) {
            self.look(turn, &ahead());
        }
    }

    fn look(&mut self, turn: usize, ahead: &Ahead<'_>) {
        if !self.headers.read().has(turn) {
            let these = ahead.wanted.with(turn).without(self.headers.read());
            self.read_headers(these, ahead);
        }
        let Some(conntrack) = ahead.conntrack else {
            self.due = BURST;
            return;
        };
        self.due = self.due.max(turn + Self::STEP);
        let near = (turn + 2 * Self::STEP).min(ahead.frames.len()).min(BURST);
        for at in self.fetched.max(turn)..near {
            if self.sought.has(at) && !conntrack.prefetch_sought(&mut self.lookups[at]) {
                self.beginning = self.beginning.with(at);
            }
        }
        self.fetched = self.fetched.max(near);
        if self.beginning != PendingFrames::NONE {
            self.prefetch_translations(turn, conntrack, ahead.random);
        }
    }

    /// Fetches what is asked about the translation of connections that begin next.
    #[inline(never)]
    fn prefetch_translations(&self, turn: usize, conntrack: &Conntrack, random: &Random) {
        let mut drawn = 0;
        for at in (turn..(turn + Self::STEP).min(BURST)).filter(|at| self.beginning.has(*at)) {
            let draws = conntrack.prefetch_translated(&self.lookups[at], |reply| {
                reply.dst_id = drawn_port(reply.dst_id, random.foretold_u16(drawn));
            });
            drawn += usize::from(draws);
        }
    }

    /// Reads the headers of frames, and asks for what follows from them.
    fn read_headers(&mut self, these: PendingFrames, ahead: &Ahead<'_>) {
        /// Frames between the one that is read and the one that is fetched.
        const FETCHED: usize = 16;
        let &Ahead { frames, fast_path, conntrack, .. } = ahead;
        let fetch = |at: usize| {
            frames.get(at).and_then(|later| later.bytes.first()).map(prefetch);
        };
        let first = these.first().unwrap_or(0);
        (first..frames.len().min(first + FETCHED)).for_each(fetch);
        for at in these {
            fetch(at + FETCHED);
            let Some(frame) = frames.get(at) else { break };
            let headers = self.headers.read_frame(at, frame, fast_path);
            if let Some(table) = conntrack {
                let lookup = &mut self.lookups[at];
                let sought = match (headers, fast_path) {
                    (Some(headers), Some(path)) => headers.seek(frame, path, table, lookup),
                    _ => ip_packet(frame.bytes, AROUND)
                        .is_some_and(|network| table.seek(network, lookup)),
                };
                self.sought = self.sought.with_if(at, sought);
            }
        }
        if let Some(precheck) = fast_path.and_then(|path| path.egress_precheck.as_ref()) {
            let asked = these.and_only(self.headers.fast4());
            self.prechecked = self.prechecked.and_also(precheck.pass(frames, asked));
        }
    }

    /// A frame that may take the fast path, with what was found out about it.
    #[inline(always)]
    pub(crate) fn parsed<'a>(
        &'a mut self,
        at: usize,
        frames: &'a [Frame<'a>],
        ingress_batch: Option<&'a IngressBatch<'a>>,
    ) -> Option<ParsedFrame<'a>> {
        let (frame, headers) = (frames.get(at)?, self.headers.get(at)?);
        let lookup = self.sought.has(at).then(|| &self.lookups[at % BURST]);
        let route = RouteAhead { at, routes: &mut self.routes, headers: &self.headers, frames };
        let egress_prechecked = self.prechecked.has(at);
        Some(ParsedFrame { frame, headers, lookup, route, egress_prechecked, ingress_batch })
    }
}
