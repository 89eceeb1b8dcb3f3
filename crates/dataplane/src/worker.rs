// SPDX-License-Identifier: Apache-2.0

//! One worker at one packet: what every stage needs.

use penstock_jit::Compiled;
use penstock_net::{Devconf, Network};
use penstock_packet::Packet;
use penstock_program::Image;

use crate::hooks::Hooks;
use crate::reason::{DropEvent, DropReason, Place};
use crate::route::Route;
use crate::settings::Settings;
use crate::sink::Sink;
use crate::state::State;

/// Packets that one packet may bring about in a row: answers to answers, copies of copies.
const DEPTH: u32 = 16;

/// A worker with everything that it needs for the length of a burst.
pub(crate) struct Worker<'a, S> {
    pub(crate) net: &'a Network,
    pub(crate) image: &'a Image,
    pub(crate) hooks: &'a Hooks,
    /// Machine code of the hook lists, where there is some.
    pub(crate) code: Option<&'a Compiled>,
    /// Whether packets may take the fast path; else they pass stage by stage.
    pub(crate) fast_path: bool,
    /// Packets of a direction of a connection after which their way is remembered.
    pub(crate) remember_after: u32,
    pub(crate) settings: &'a Settings,
    pub(crate) state: &'a mut State,
    pub(crate) sink: &'a mut S,
}

impl<'a, S: Sink> Worker<'a, S> {
    /// Ends a packet.
    pub(crate) fn drop(&mut self, reason: DropReason, packet: &Packet) {
        self.state.counters.count(reason);
        self.sink.drop(&DropEvent { reason, place: None }, packet);
    }

    /// Ends a packet where a rule or chain said so.
    #[inline]
    pub(crate) fn drop_at(
        &mut self,
        reason: DropReason,
        place: Option<Place<'_>>,
        packet: &Packet,
    ) {
        self.drop_by(&DropEvent { reason, place }, packet);
    }

    /// Ends a packet, and tells the sink this.
    #[inline]
    pub(crate) fn drop_by(&mut self, drop: &DropEvent<'_>, packet: &Packet) {
        self.state.counters.count(drop.reason);
        self.sink.drop(drop, packet);
    }

    /// Runs `f` with a buffer for another packet, unless packets already bring about packets too
    /// deeply.
    pub(crate) fn nested(&mut self, time: u64, f: impl FnOnce(&mut Self, &mut Packet)) {
        let mut packet = self.state.buffers.spare.pop().unwrap_or_default();
        if self.state.nesting.depth >= DEPTH {
            self.state.counters.originated += 1;
            packet.load(&[], 0);
            self.drop(DropReason::Recursion, &packet);
        } else {
            self.state.nesting.depth += 1;
            packet.load(&[], 0);
            packet.meta.time = time;
            f(self, &mut packet);
            self.state.nesting.depth -= 1;
        }
        self.state.buffers.spare.push(packet);
    }

    /// A byte buffer; give it back with [`Worker::give_back`].
    pub(crate) fn bytes(&mut self) -> Vec<u8> {
        let mut bytes = self.state.buffers.scratch.pop().unwrap_or_default();
        bytes.clear();
        bytes
    }

    /// Takes a byte buffer back.
    pub(crate) fn give_back(&mut self, bytes: Vec<u8>) {
        self.state.buffers.scratch.push(bytes);
    }

    /// The MTU towards a destination.
    pub(crate) fn mtu(&self, to: &Route) -> usize {
        let device = self.net.link(to.oif).map_or(1500, |l| l.mtu);
        let mtu = if to.mtu != 0 { to.mtu } else { device };
        let mtu =
            if to.mtu == 0 && to.mtu_locked && to.gateway.is_some() { mtu.min(576) } else { mtu };
        mtu.min(65535) as usize
    }

    /// The value of a setting that counts for a device.
    #[inline]
    pub(crate) fn conf_of(&self, device: u32, setting: Devconf) -> u32 {
        self.net.link(device).map_or(0, |link| link.conf.get(setting))
    }

    /// Hop limit of a packet that this host makes for an IPv6 route (`ip6_dst_hoplimit()`).
    pub(crate) fn hop_limit6(&self, to: &Route) -> u8 {
        match to.hop_limit {
            0 => self.conf_of(to.oif, Devconf::HopLimit).clamp(1, 255) as u8,
            set => set,
        }
    }

    /// Hop limit of a packet that this host makes for no route.
    pub(crate) fn hop_limit6_of_all(&self) -> u8 {
        self.net.conf_all(Devconf::HopLimit).clamp(1, 255) as u8
    }

    /// Mark of an answer to a packet.
    pub(crate) fn answer_mark(&self, packet: &Packet) -> u32 {
        if self.settings.fwmark_reflect { packet.meta.mark } else { 0 }
    }
}
