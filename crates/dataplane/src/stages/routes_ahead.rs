// SPDX-License-Identifier: Apache-2.0

//! The routes of the packets of a burst, found together when the first of them is asked for:
//! packets whose connection remembers their way ask for none.

use penstock_net::{Network, RouteNumber};
use penstock_packet::Frame;
use penstock_wire::{ethernet, ipv6};

use crate::pending_frames::{BURST, PendingFrames};
use crate::stages::headers_ahead::HeadersAhead;

/// The routes of a burst; reused.
#[derive(Debug)]
pub(crate) struct RoutesAhead {
    /// To the destinations that packets have on arrival.
    routes: [RouteNumber; BURST],
    /// The frames with a packet of which the route was found.
    found: PendingFrames,
    v6: Destinations6,
}

impl RoutesAhead {
    pub(crate) fn new() -> Self {
        RoutesAhead {
            routes: [RouteNumber::NONE; BURST],
            found: PendingFrames::NONE,
            v6: Destinations6::new(),
        }
    }

    /// Another burst begins.
    #[inline(always)]
    pub(crate) fn begin(&mut self) {
        self.found = PendingFrames::NONE;
    }

    #[inline(never)]
    fn find(&mut self, headers: &HeadersAhead, frames: &[Frame<'_>], net: &Network) {
        let these = headers.read().without(self.found);
        self.found = headers.read();
        // Frames in between that are not asked for cost less than to leave them out.
        let span = these.span();
        let v6 = headers.v6();
        if these.without(v6) != PendingFrames::NONE {
            let destinations = &headers.destinations()[span.clone()];
            net.route_numbers4(destinations, &mut self.routes[span.clone()]);
        }
        if v6 != PendingFrames::NONE {
            self.find6(v6.and(|at| span.contains(&at)), frames, net);
        }
    }

    #[inline(never)]
    fn find6(&mut self, these: PendingFrames, frames: &[Frame<'_>], net: &Network) {
        const DESTINATION: usize = ethernet::LEN + ipv6::LEN - 16;
        let v6 = &mut self.v6;
        v6.clear();
        for at in these {
            let frame = frames.get(at).and_then(|frame| frame.bytes.get(DESTINATION..));
            let address = frame.and_then(|bytes| bytes.first_chunk());
            v6.add(at, address.map_or(0, |address| u128::from_be_bytes(*address)));
        }
        v6.find(&mut self.routes, net);
    }
}

/// The route of a packet, which is found when it is asked for.
pub(crate) struct RouteAhead<'a> {
    pub(crate) at: usize,
    pub(crate) routes: &'a mut RoutesAhead,
    pub(crate) headers: &'a HeadersAhead,
    pub(crate) frames: &'a [Frame<'a>],
}

impl RouteAhead<'_> {
    /// The route to the destination that the packet has on arrival.
    #[inline(always)]
    pub(crate) fn number(self, net: &Network) -> RouteNumber {
        let RouteAhead { at, routes, headers, frames } = self;
        if !routes.found.has(at) {
            routes.find(headers, frames, net);
        }
        routes.routes[at % BURST]
    }
}

/// Destinations of IPv6 in a burst. What follows a packet to the same one has no place of its own.
#[derive(Debug)]
struct Destinations6 {
    addresses: [u128; BURST],
    found: [RouteNumber; BURST],
    count: usize,
    frames: PendingFrames,
    /// The places of their destinations.
    places: [u8; BURST],
}

impl Destinations6 {
    fn new() -> Self {
        Destinations6 {
            addresses: [0; BURST],
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
    fn add(&mut self, frame: usize, address: u128) {
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
    fn find(&mut self, routes: &mut [RouteNumber; BURST], net: &Network) {
        net.route_numbers6(&self.addresses[..self.count], &mut self.found[..self.count]);
        for frame in self.frames {
            routes[frame] = self.found[usize::from(self.places[frame]) % BURST];
        }
    }
}
