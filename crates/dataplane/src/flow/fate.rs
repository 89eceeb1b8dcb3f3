// SPDX-License-Identifier: Apache-2.0

//! The fate of a packet of a flow.

use penstock_conntrack::Conntrack;
use penstock_flowtable::{At, state};
use penstock_program::image::FlowtableIndex;

use crate::flow::direction::of_connection;
use crate::flow::flow_packet::{FlowPacket, tcp_flag};
use crate::flow::resolved::{Kind, Resolved};
use crate::flow::table::{Cause, Table};
use crate::flow::{FlowRef, Flows, token};

/// The fate of a packet of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
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
pub(crate) fn fate(
    table: &mut Table,
    at: At,
    seen: &FlowPacket,
    longest: u32,
    xmit: &Resolved,
    now: u64,
) -> Fate {
    let half = table.flows.half(at);
    if longest > xmit.mtu {
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
    if xmit.kind == Kind::Gone {
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
    pub(crate) fn at(&mut self, at: FlowtableIndex) -> Option<(&mut Table, u32)> {
        let epoch = self.epoch;
        self.tables.get_mut(at.0 as usize).map(|table| (table, epoch))
    }

    /// Notes packets of a flow that leave, and their bytes from the network header on.
    #[inline(always)]
    pub(crate) fn count_flow(
        &mut self,
        conntrack: &mut Conntrack,
        flow: FlowRef,
        now: u64,
        packets: u64,
        bytes: u64,
    ) {
        let at = flow.at;
        let Some((table, _)) = self.at(flow.table) else { return };
        table.flows.half_mut(at).count(now, packets, bytes);
        table.counts.packets += packets;
        if table.counter {
            let connection = token::connection(table.flows.life(at.flow).connection);
            if let Some(n) = conntrack.resolve_ref(connection) {
                conntrack.count_offloaded(n, of_connection(at.direction), packets, bytes);
            }
        }
    }

    /// Ends a flow.
    #[cold]
    pub(crate) fn end_flow(
        &mut self,
        conntrack: &mut Conntrack,
        table: FlowtableIndex,
        flow: u32,
        cause: Cause,
        now: u64,
    ) {
        conntrack.advance(now);
        self.drop_ended(conntrack);
        if let Some(table) = self.tables.get_mut(table.0 as usize) {
            table.tear_down(conntrack, &mut self.watch, flow, cause);
        }
    }
}
