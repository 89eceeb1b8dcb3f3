// SPDX-License-Identifier: Apache-2.0

//! The fast path for a packet at ingress of a device (`nf_flow_offload_ip_hook()`,
//! `nf_flow_offload_ipv6_hook()`).

use penstock_flowtable::{At, XmitId, rewrite};
use penstock_packet::Packet;
use penstock_program::image::FlowtableIndex;
use penstock_wire::ethernet;

use crate::flow::fate::{Fate, fate};
use crate::flow::flow_packet::FlowPacket;
use crate::flow::resolved::{Kind, Resolved};
use crate::flow::table::Cause;
use crate::flow::{FlowRef, around};
use crate::hook_result::HookResult;
use crate::sink::Sink;
use crate::worker::Worker;

/// Largest part of a packet that leaves on its own: all of it, or a segment of a super-packet.
fn longest(packet: &Packet, seen: &FlowPacket) -> u32 {
    match packet.meta.gso.zip(packet.gso_headers()) {
        Some((gso, headers)) => (headers.payload - headers.network) as u32 + u32::from(gso.size),
        None => seen.len,
    }
}

impl<S: Sink> Worker<'_, S> {
    /// The way of a direction as it is now.
    #[inline(always)]
    pub(crate) fn xmit(&mut self, index: FlowtableIndex, at: At) -> Option<Resolved> {
        let (table, epoch) = self.state.flows.at(index)?;
        let id = table.flows.half(at).xmit;
        match table.resolved(id, epoch) {
            Some(resolved) => Some(*resolved),
            None => self.resolve_xmit(index, id),
        }
    }

    #[cold]
    fn resolve_xmit(&mut self, index: FlowtableIndex, id: XmitId) -> Option<Resolved> {
        let (table, epoch) = self.state.flows.at(index)?;
        let xmit = *table.flows.xmit_at(id);
        let resolved = self.resolve(&xmit, epoch);
        let head = if resolved.around { around::head(&xmit, &resolved.link) } else { None };
        self.state.flows.table_mut(index)?.put_resolved(id, resolved, head);
        Some(resolved)
    }

    /// Whether a flow's ways hold in the present network.
    #[inline(always)]
    pub(crate) fn flow_is_current(&mut self, index: FlowtableIndex, at: At) -> bool {
        let network = self.state.flows.network;
        let current =
            self.state.flows.table(index).is_some_and(|t| t.flows.half(at).network == network);
        current || self.flow_holds(index, at.flow)
    }

    /// A flowtable among the hooks of a device. Packets of its flows are taken.
    pub(crate) fn flowtable(&mut self, index: FlowtableIndex, packet: &mut Packet) -> HookResult {
        if !self.flow_is_for_us(packet) {
            return HookResult::Accept;
        }
        if packet.meta.secpath != 0 {
            return self.flowtable_ipsec(index, packet);
        }
        self.state.flows.drop_ended(&mut self.state.conntrack);
        let Some(seen) = self.seen_at_ingress(index, packet) else { return HookResult::Accept };
        let Some(table) = self.state.flows.table(index) else { return HookResult::Accept };
        let Some(at) = table.flows.find(table.flows.hash(&seen.key), &seen.key) else {
            return HookResult::Accept;
        };
        let Some(xmit) = self.xmit(index, at) else { return HookResult::Accept };
        let now = packet.meta.time;
        if !self.flow_is_current(index, at) {
            self.state.flows.end_flow(
                &mut self.state.conntrack,
                index,
                at.flow,
                Cause::TornDown,
                now,
            );
            return HookResult::Accept;
        }
        if packet.meta.gso.is_some() && xmit.around {
            // Each segment gets its own.
            return HookResult::Accept;
        }
        let longest = longest(packet, &seen);
        self.forward_found(FlowRef { table: index, at }, &seen, longest, &xmit, packet)
    }

    /// Handles a packet of a flow: sends it, or returns it to the slow path. `longest` as for
    /// [`fate`].
    pub(crate) fn forward_found(
        &mut self,
        flow: FlowRef,
        seen: &FlowPacket,
        longest: u32,
        xmit: &Resolved,
        packet: &mut Packet,
    ) -> HookResult {
        let (now, FlowRef { table: index, at }) = (packet.meta.time, flow);
        let Some(table) = self.state.flows.table_mut(index) else { return HookResult::Accept };
        match fate(table, at, seen, longest, xmit, now) {
            Fate::Goes => {}
            Fate::FallsBack => {
                table.counts.fell_back += 1;
                return HookResult::Accept;
            }
            Fate::Ends(cause) => {
                table.counts.fell_back += 1;
                self.state.flows.end_flow(&mut self.state.conntrack, index, at.flow, cause, now);
                return HookResult::Accept;
            }
        }
        self.state.flows.count_flow(&mut self.state.conntrack, flow, now, 1, u64::from(seen.len));
        self.send_flow(flow, seen, xmit, packet);
        HookResult::Stolen
    }

    /// Rewrites a packet of a flow and sends it.
    pub(crate) fn send_flow(
        &mut self,
        flow: FlowRef,
        seen: &FlowPacket,
        xmit: &Resolved,
        packet: &mut Packet,
    ) {
        let FlowRef { table: index, at } = flow;
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
        if let Kind::Ipsec(number, _) = xmit.kind {
            return self.send_flow_ipsec(packet, number);
        }
        let full = *table.flows.xmit_at(half.xmit);
        self.state.counters.fast += 1;
        self.send_by_xmit(packet, &full, xmit);
    }
}
