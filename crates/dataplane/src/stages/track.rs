// SPDX-License-Identifier: Apache-2.0

//! Connection tracking at a packet: the stages before routing and at the end of the path, and the
//! clock.
//!
//! A packet that begins a connection holds an entry that nobody else can find until
//! [`Worker::confirm`] enters it into the table. However the packet ends before that, the entry
//! goes when no packet of the burst is on its way any more.

use penstock_conntrack::{Helped, Hook as TrackHook, Surroundings, Verdict};
use penstock_packet::Packet;
use penstock_program::expr::Log;
use penstock_program::{Context, Family, Hook};
use penstock_wire::ethernet;

use crate::addresses;
use crate::hook_result::HookResult;
use crate::reason::{DropReason, Place};
use crate::settings::SECOND;
use crate::sink::{LogRecord, Sink};
use crate::worker::Worker;

/// Time between two looks for connections that have lived out. A packet never finds one of these,
/// so only the number of entries depends on it.
const EXPIRY: u64 = SECOND / 100;

impl<S: Sink> Worker<'_, S> {
    /// The stage at -200 (`nf_conntrack_in()`).
    pub(crate) fn track(&mut self, context: Context, packet: &mut Packet) -> HookResult {
        let hook =
            if context.hook == Hook::Output { TrackHook::Output } else { TrackHook::Prerouting };
        let conntrack = &mut self.state.conntrack;
        let full = conntrack.statistics().table_full;
        let verdict = conntrack.track(packet, hook);
        self.log_invalid(context, packet);
        self.tracked(verdict, full, packet)
    }

    /// What is wrong with a packet that was tracked just now goes where `log` statements go, if
    /// that is asked for (`nf_l4proto_log_invalid()`).
    #[inline]
    pub(crate) fn log_invalid(&mut self, context: Context, packet: &Packet) {
        if self.state.conntrack.settings().log_invalid != 0 {
            self.log_complaints(context, packet);
        }
    }

    /// Logs why a helper drops a packet, which names neither hook nor devices
    /// (`nf_ct_helper_log()`).
    #[cold]
    fn log_helper(&mut self, packet: &Packet) {
        let family = if packet.meta.protocol == ethernet::IPV6 { Family::Ip6 } else { Family::Ip };
        self.log_said(Context { family, hook: Hook::Prerouting }, (0, 0), packet);
    }

    #[cold]
    fn log_complaints(&mut self, context: Context, packet: &Packet) {
        self.log_said(context, crate::hooks::devices(context.hook, packet), packet);
    }

    /// Logs what connection tracking says of a packet that has come to a place.
    fn log_said(&mut self, context: Context, devices: (u32, u32), packet: &Packet) {
        for complaint in self.state.conntrack.take_complaints().into_iter().flatten() {
            let log = Log::by_default(format!("{complaint} ").into());
            let place = Place { family: context.family, table: "", chain: "", rule: None };
            let (input, output) = (self.net.link(devices.0), self.net.link(devices.1));
            let ports = self.bridge_ports(packet);
            let connection = self.state.conntrack.connection(&packet.meta.ct);
            let log = &log;
            let record = LogRecord { log, place, context, input, output, ports, connection };
            self.sink.log(&record, packet);
        }
    }

    /// The result of tracking for a packet; `full` is the number of packets dropped before because
    /// the table was full.
    #[inline]
    pub(crate) fn tracked(&mut self, verdict: Verdict, full: u64, packet: &Packet) -> HookResult {
        match verdict {
            Verdict::Accept => HookResult::Accept,
            Verdict::Drop => {
                let full = self.state.conntrack.statistics().table_full != full;
                self.drop(
                    if full { DropReason::ConntrackFull } else { DropReason::Conntrack },
                    packet,
                );
                HookResult::Dropped
            }
        }
    }

    /// The last stage (`nf_confirm()`): helpers read the packet, and what they changed earlier
    /// shifts its sequence numbers.
    pub(crate) fn confirm(&mut self, packet: &mut Packet) -> HookResult {
        let surroundings = Surroundings { broadcast_mask: self.broadcast_mask(packet) };
        match self.state.conntrack.help(packet, surroundings, penstock_nat::text::replace) {
            Helped::Accept => self.enter(packet),
            Helped::Drop => {
                self.log_helper(packet);
                self.drop(DropReason::Helper, packet);
                HookResult::Dropped
            }
            // Without a listener it passes, and its connection is not entered
            // (nfnl_userspace_cthelper()).
            Helped::Queue(num) => HookResult::Queue { num, bypass: true, rule: None },
        }
    }

    /// The rest of the last stage for a packet that a program has read, which is the helper of its
    /// connection (`nf_confirm_cthelper()`).
    pub(crate) fn confirm_read(&mut self, packet: &mut Packet) -> HookResult {
        if self.state.conntrack.adjust(packet) == Verdict::Drop {
            self.drop(DropReason::Helper, packet);
            return HookResult::Dropped;
        }
        self.enter(packet)
    }

    /// The new connection of a packet is entered into the table (`nf_conntrack_confirm()`).
    pub(crate) fn enter(&mut self, packet: &mut Packet) -> HookResult {
        match self.state.conntrack.confirm(packet) {
            Verdict::Accept => HookResult::Accept,
            Verdict::Drop => {
                self.drop(DropReason::ConntrackInsert, packet);
                HookResult::Dropped
            }
        }
    }

    /// The mask of the broadcast address that this host sends a packet to
    /// (`nf_conntrack_broadcast_help()`).
    #[inline]
    fn broadcast_mask(&self, packet: &Packet) -> Option<[u8; 4]> {
        if packet.meta.iif != 0 || packet.meta.protocol != ethernet::IPV4 {
            return None;
        }
        let (_, to) = addresses::of4(packet)?;
        let link = self.net.link(packet.meta.oif)?;
        let address = link.addresses4.iter().find(|a| a.broadcast == Some(to))?;
        Some(u32::MAX.checked_shl(32 - u32::from(address.len)).unwrap_or(0).to_be_bytes())
    }

    /// Whether the clock may bring something about up to then.
    #[inline]
    pub(crate) fn is_due(&self, time: u64) -> bool {
        let state = &self.state;
        let queues = state.tc.as_ref().is_some_and(|tc| tc.is_due(time));
        queues
            || self.has_fragments()
            || state.flows.is_due(time)
            || time >= state.tracking.next_expiry
    }

    /// Advances the clock: fragments and connections expire.
    #[inline]
    pub(crate) fn pass_time(&mut self, now: u64) {
        self.run_queues(now);
        self.expire_fragments(now);
        // Before connections expire because their packets bypassed them.
        self.state.flows.pass_time(&mut self.state.conntrack, now);
        self.recheck_hardware(now);
        if now >= self.state.tracking.next_expiry {
            // Where much ends at once, the rest follows with the next packets.
            let done = self.state.conntrack.expire(now);
            self.state.tracking.connlimit.tidy(&self.state.conntrack);
            self.state.tracking.next_expiry = if done { now.saturating_add(EXPIRY) } else { now };
        }
    }
}
