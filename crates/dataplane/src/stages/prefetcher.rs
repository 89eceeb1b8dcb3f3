// SPDX-License-Identifier: Apache-2.0

//! Looking ahead in a burst: while some frames are worked on, the headers of later ones are read,
//! and the memory that their look-up will need is fetched.

use penstock_conntrack::{Conntrack, TupleLookup};
use penstock_jit::Head;
use penstock_packet::{Frame, prefetch};
use penstock_wire::frame::{Around, ip_packet};

use crate::pending_frames::BURST;
use crate::stages::fast_path::{EgressPrecheck, FastPath, ParsedHeaders};

/// What is known of the frames of a burst, as far as they were looked at; reused.
#[derive(Debug)]
pub(crate) struct Prefetcher {
    lookup: [Option<TupleLookup>; BURST],
    headers: [Option<ParsedHeaders>; BURST],
    /// Frames with parsed headers.
    read: usize,
    /// Frames with prefetched entries.
    fetched: usize,
    /// The turn at which there is something to do again.
    due: usize,
}

impl Default for Prefetcher {
    fn default() -> Self {
        Prefetcher { lookup: [None; BURST], headers: [None; BURST], read: 0, fetched: 0, due: 0 }
    }
}

/// What connection tracking may look up: the packet of a wire, or of one VLAN.
const AROUND: Around = Around { tags: 1, sessions: false };

impl Prefetcher {
    /// Frames that are looked at together.
    const STEP: usize = 8;

    /// Another burst begins.
    pub(crate) fn begin(&mut self) {
        (self.read, self.fetched, self.due) = (0, 0, 0);
    }

    /// It is the turn of frame number `turn`. `fast_path` is what frames of one device may take;
    /// connections are only looked up if there is tracking.
    #[inline]
    pub(crate) fn reach(
        &mut self,
        turn: usize,
        frames: &[Frame<'_>],
        fast_path: Option<&FastPath<'_>>,
        conntrack: Option<&Conntrack>,
    ) {
        if turn >= self.due {
            self.look(turn, frames, fast_path, conntrack);
        }
    }

    fn look(
        &mut self,
        turn: usize,
        frames: &[Frame<'_>],
        fast_path: Option<&FastPath<'_>>,
        conntrack: Option<&Conntrack>,
    ) {
        let all = frames.len().min(BURST);
        let (near, far) = ((turn + Self::STEP).min(all), (turn + 2 * Self::STEP).min(all));
        let first = if self.read == 0 { turn } else { far };
        for later in frames.iter().take(far + Self::STEP).skip(first) {
            later.bytes.first().map(prefetch);
        }
        const NOTHING: &Head = &[0; size_of::<Head>()];
        let mut heads = [NOTHING; 2 * Self::STEP];
        // Those before this turn are done with.
        let these = self.read.max(turn)..far;
        for (at, head) in these.clone().zip(&mut heads) {
            let Some(frame) = frames.get(at) else { break };
            self.headers[at] =
                fast_path.and_then(|fast_path| ParsedHeaders::read(frame, fast_path, head));
            if let Some(table) = conntrack {
                self.lookup[at] = match (&self.headers[at], fast_path) {
                    (Some(headers), Some(fast_path)) => headers.seek(frame, fast_path, table),
                    _ => ip_packet(frame.bytes, AROUND).and_then(|network| table.seek(network)),
                };
            } else if self.lookup[at].is_some() {
                self.lookup[at] = None;
            }
        }
        if let Some(EgressPrecheck { code, list, .. }) =
            fast_path.and_then(|fast_path| fast_path.egress_precheck)
        {
            let pass = code.egress_precheck(list, &heads[..these.len().min(heads.len())]);
            for (bit, headers) in self.headers[these].iter_mut().enumerate() {
                if let Some(headers) = headers {
                    headers.egress_prechecked = !headers.v6 && pass >> bit & 1 != 0;
                }
            }
        }
        self.read = self.read.max(far);
        if let Some(conntrack) = conntrack {
            let these = self.lookup.get(self.fetched.max(turn)..near).unwrap_or(&[]);
            these.iter().flatten().for_each(|lookup| conntrack.prefetch_sought(lookup));
        }
        self.fetched = self.fetched.max(near);
        self.due = turn + Self::STEP;
    }

    /// The headers of a frame that may take the fast path, and where its connection is looked up.
    #[inline]
    pub(crate) fn headers(&self, at: usize) -> Option<(&ParsedHeaders, Option<&TupleLookup>)> {
        let headers = self.headers.get(at)?.as_ref()?;
        Some((headers, self.lookup.get(at)?.as_ref()))
    }
}
