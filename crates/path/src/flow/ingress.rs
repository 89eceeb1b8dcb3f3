// SPDX-License-Identifier: Apache-2.0

//! The fast path for a packet at ingress of a device (`nf_flow_offload_ip_hook()`,
//! `nf_flow_offload_ipv6_hook()`).

use penstock_flowtable::{At, WayId, rewrite, state};
use penstock_packet::Packet;
use penstock_program::image::FlowtableIndex;
use penstock_wire::ethernet;

use super::Flows;
use super::add::of_connection;
use super::around;
use super::seen::{Seen, tcp_flag};
use super::table::{Cause, Table};
use super::token;
use super::ways::{Kind, Resolved};
use crate::hook_result::End;
use crate::sink::Sink;
use crate::worker::{State, Worker};

/// What becomes of a packet of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It leaves.
    Goes,
    /// It takes the normal way.
    FallsBack,
    /// So does all of the flow.
    Ends(Cause),
}

/// What a packet's length, flags and time mean for its flow (`nf_flow_exceeds_mtu()`,
/// `nf_flow_state_check()`). `longest` is its largest part that leaves on its own, in bytes from
/// the network header on.
#[inline(always)]
pub(super) fn fate(
    table: &mut Table,
    at: At,
    seen: &Seen,
    longest: u32,
    way: &Resolved,
    now: u64,
) -> Fate {
    let half = table.flows.half(at);
    if longest > way.mtu {
        return Fate::FallsBack;
    }
    if seen.flags & tcp_flag::ANY != 0 {
        let closing = half.has(state::CLOSING);
        if closing && seen.flags & tcp_flag::SYN != 0 {
            return Fate::Ends(Cause::TornDown);
        }
        if !closing && seen.flags & (tcp_flag::FIN | tcp_flag::RST) != 0 {
            table.flows.set_state(at.flow, state::CLOSING);
        }
    }
    if way.kind == Kind::Gone {
        return Fate::Ends(Cause::TornDown);
    }
    // The other direction may have been used since.
    let half = table.flows.half(at);
    if table.is_over(half.protocol(), half.used, now)
        && table.is_over(half.protocol(), table.flows.used(at.flow), now)
    {
        return Fate::Ends(Cause::Expired);
    }
    Fate::Goes
}

impl Flows {
    /// Tables for changes, and the epoch.
    #[inline(always)]
    pub(super) fn at(&mut self, at: FlowtableIndex) -> Option<(&mut Table, u32)> {
        let epoch = self.epoch;
        self.tables.get_mut(at.0 as usize).map(|table| (table, epoch))
    }
}

impl State {
    /// Notes packets of a flow that leave.
    #[inline(always)]
    pub(super) fn count_flow(
        &mut self,
        table: FlowtableIndex,
        at: At,
        now: u64,
        packets: u64,
        bytes: u64,
    ) {
        let Some((table, _)) = self.flows.at(table) else { return };
        table.flows.half_mut(at).count(now, packets, bytes);
        table.counts.packets += packets;
        if table.counter {
            let connection = token::connection(table.flows.life(at.flow).connection);
            if let Some(n) = self.conntrack.resolve_ref(connection) {
                self.conntrack.count_offloaded(n, of_connection(at.direction), packets, bytes);
            }
        }
    }

    /// Ends a flow.
    #[cold]
    pub(super) fn end_flow(&mut self, table: FlowtableIndex, flow: u32, cause: Cause, now: u64) {
        self.conntrack.advance(now);
        if let Some(table) = self.flows.table_mut(table) {
            table.tear_down(&mut self.conntrack, flow, cause);
        }
    }
}

/// Largest part of a packet that leaves on its own: all of it, or a segment of a super-packet.
fn longest(packet: &Packet, seen: &Seen) -> u32 {
    match packet.meta.gso.zip(packet.gso_headers()) {
        Some((gso, headers)) => (headers.payload - headers.network) as u32 + u32::from(gso.size),
        None => seen.len,
    }
}

impl<S: Sink> Worker<'_, S> {
    /// The way of a direction as it is now.
    #[inline(always)]
    pub(super) fn way(&mut self, index: FlowtableIndex, at: At) -> Option<Resolved> {
        let (table, epoch) = self.state.flows.at(index)?;
        let id = table.flows.half(at).way;
        match table.resolved(id, epoch) {
            Some(resolved) => Some(*resolved),
            None => self.way_anew(index, id),
        }
    }

    #[cold]
    fn way_anew(&mut self, index: FlowtableIndex, id: WayId) -> Option<Resolved> {
        let (table, epoch) = self.state.flows.at(index)?;
        let way = *table.flows.way_at(id);
        let resolved = self.resolve(&way, epoch);
        let head = if resolved.around { around::head(&way, &resolved.link) } else { None };
        self.state.flows.table_mut(index)?.put_resolved(id, resolved, head);
        Some(resolved)
    }

    /// Whether a flow's ways hold in the present network.
    #[inline(always)]
    pub(super) fn flow_is_current(&mut self, index: FlowtableIndex, at: At) -> bool {
        let network = self.state.flows.network;
        let current =
            self.state.flows.table(index).is_some_and(|t| t.flows.half(at).network == network);
        current || self.flow_holds(index, at.flow)
    }

    /// A flowtable among the hooks of a device. Packets of its flows are taken.
    pub(crate) fn flowtable(&mut self, index: FlowtableIndex, packet: &mut Packet) -> End {
        if !self.flow_is_for_us(packet) {
            return End::Accept;
        }
        if packet.meta.secpath != 0 {
            return self.flowtable_ipsec(index, packet);
        }
        self.state.flows.drop_ended(&mut self.state.conntrack);
        let Some(seen) = self.seen_at_ingress(index, packet) else { return End::Accept };
        let Some(table) = self.state.flows.table(index) else { return End::Accept };
        let Some(at) = table.flows.find(table.flows.hash(&seen.key), &seen.key) else {
            return End::Accept;
        };
        let Some(way) = self.way(index, at) else { return End::Accept };
        let now = packet.meta.time;
        if !self.flow_is_current(index, at) {
            self.state.end_flow(index, at.flow, Cause::TornDown, now);
            return End::Accept;
        }
        if packet.meta.gso.is_some() && way.around {
            // Each segment gets its own.
            return End::Accept;
        }
        let longest = longest(packet, &seen);
        self.forward_found(index, at, &seen, longest, &way, packet)
    }

    /// A packet whose flow was found: on its way, or back to the normal one. `longest` as for
    /// [`fate`].
    pub(super) fn forward_found(
        &mut self,
        index: FlowtableIndex,
        at: At,
        seen: &Seen,
        longest: u32,
        way: &Resolved,
        packet: &mut Packet,
    ) -> End {
        let now = packet.meta.time;
        let Some(table) = self.state.flows.table_mut(index) else { return End::Accept };
        match fate(table, at, seen, longest, way, now) {
            Fate::Goes => {}
            Fate::FallsBack => {
                table.counts.fell_back += 1;
                return End::Accept;
            }
            Fate::Ends(cause) => {
                table.counts.fell_back += 1;
                self.state.end_flow(index, at.flow, cause, now);
                return End::Accept;
            }
        }
        self.state.count_flow(index, at, now, 1, u64::from(seen.len));
        self.send_flow(index, at, seen, way, packet);
        End::Taken
    }

    /// Rewrites a packet of a flow and sends it.
    pub(super) fn send_flow(
        &mut self,
        index: FlowtableIndex,
        at: At,
        seen: &Seen,
        way: &Resolved,
        packet: &mut Packet,
    ) {
        let Some(table) = self.state.flows.table(index) else { return };
        let half = table.flows.half(at);
        let is4 = half.is_ipv4();
        self.take_off(packet, seen, if is4 { ethernet::IPV4 } else { ethernet::IPV6 });
        if is4 {
            rewrite::ipv4(half, packet.network_mut());
        } else {
            rewrite::ipv6(half, table.flows.addresses(at), packet.network_mut());
        }
        packet.set_transport(None);
        if let Kind::Ipsec(number, _) = way.kind {
            return self.send_flow_ipsec(packet, number);
        }
        let full = *table.flows.way_at(half.way);
        self.state.counters.fast += 1;
        self.send_by_way(packet, &full, way);
    }
}
