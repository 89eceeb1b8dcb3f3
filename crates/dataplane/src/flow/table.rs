// SPDX-License-Identifier: Apache-2.0

//! A flowtable of the ruleset with its flows.

use std::sync::Arc;

use penstock_conntrack::{Conntrack, Outline, Return};
use penstock_flowtable::encap::Lately;
use penstock_flowtable::tunnel::Head;
use penstock_flowtable::{ArrivalId, At, Direction, Flowtable, Limits, XmitId, state};
use penstock_ruleset::Family;
use penstock_ruleset::link::LinkedFlowtable;
use penstock_wire::protocol;

use crate::flow::events::{FlowEnd, FlowEvent, Watch};
use crate::flow::hardware::Hardware;
use crate::flow::resolved::Resolved;
use crate::flow::token;
use crate::settings::FlowSettings;

/// `NFT_FLOWTABLE_COUNTER`.
const COUNTER: u32 = 2;

/// What tells flowtables apart from one generation to the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) family: Family,
    pub(crate) table: Arc<str>,
    pub(crate) name: Arc<str>,
    /// Handles of the table and of the flowtable: a recreated one has others.
    handles: (u64, u64),
}

impl Identity {
    pub(crate) fn of(linked: &LinkedFlowtable) -> Self {
        let LinkedFlowtable { family, table: (table, handle), flowtable } = linked;
        Identity {
            family: *family,
            table: table.clone(),
            name: flowtable.name.clone(),
            handles: (*handle, flowtable.handle),
        }
    }
}

/// Why a flow ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// No packets for as long as its timeout.
    Expired,
    /// A packet, or a change of routes, devices or rules.
    TornDown,
}

/// What happened to the flows of a table so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowCounts {
    /// Flows that were added.
    pub added: u64,
    /// Flows that ended without packets.
    pub expired: u64,
    /// Those that ended because of a packet, or a change of routes, devices or rules.
    pub torn_down: u64,
    /// Flows that ended with their connection.
    pub ended: u64,
    /// Packets that were forwarded.
    pub packets: u64,
    /// Of those, packets that left in a chain after another one.
    pub chained: u64,
    /// Packets of flows that went the normal way.
    pub fell_back: u64,
    /// How often a device took a flow.
    pub taken: u64,
    /// How often a device refused a flow.
    pub not_taken: u64,
}

impl FlowCounts {
    /// Both together.
    pub const fn plus(self, other: &FlowCounts) -> FlowCounts {
        FlowCounts {
            added: self.added + other.added,
            expired: self.expired + other.expired,
            torn_down: self.torn_down + other.torn_down,
            ended: self.ended + other.ended,
            packets: self.packets + other.packets,
            chained: self.chained + other.chained,
            fell_back: self.fell_back + other.fell_back,
            taken: self.taken + other.taken,
            not_taken: self.not_taken + other.not_taken,
        }
    }
}

/// A flowtable at work.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) identity: Identity,
    /// Never used again.
    pub(crate) uid: u32,
    pub(crate) early: bool,
    pub(crate) counter: bool,
    pub(crate) hardware: bool,
    pub(crate) flows: Flowtable,
    pub(crate) counts: FlowCounts,
    /// Numbers of the arrivals of plain packets, by device; [`Table::NOWHERE`] where no flow
    /// arrives.
    pub(crate) plain: Vec<ArrivalId>,
    /// Some flows arrive with something around their packets.
    pub(crate) around: bool,
    /// Where those arrive that came lately.
    pub(crate) lately: Option<Box<Lately>>,
    /// Ways as they are in the present generation and network.
    pub(crate) resolved: Vec<Resolved>,
    /// Headers of transmissions with encapsulation.
    heads: Vec<Option<Box<Head>>>,
    /// Where the look for flows that have lived out continues, and when.
    swept: u32,
    next_sweep: u64,
    pub(crate) timeouts: Timeouts,
}

/// Timeout of flows without packets, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timeouts {
    tcp: u64,
    udp: u64,
    other: u64,
}

impl Timeouts {
    pub(crate) const fn of_settings(settings: &FlowSettings) -> Self {
        let FlowSettings { tcp_timeout: tcp, udp_timeout: udp, other_timeout: other, .. } =
            *settings;
        Timeouts { tcp, udp, other }
    }

    #[inline(always)]
    pub(crate) const fn of(&self, l4: u8) -> u64 {
        match l4 {
            protocol::TCP => self.tcp,
            protocol::UDP => self.udp,
            _ => self.other,
        }
    }
}

/// How often all flows are looked at.
const SWEEP: u64 = crate::settings::SECOND;
/// Flows looked at in one go at most.
const SWEEP_BUDGET: u32 = 1024;

impl Table {
    /// Number of no arrival.
    pub(crate) const NOWHERE: ArrivalId = ArrivalId(u32::MAX);

    pub(crate) fn new(
        linked: &LinkedFlowtable,
        uid: u32,
        settings: &FlowSettings,
        seed: u64,
    ) -> Self {
        let mut table = Table {
            identity: Identity::of(linked),
            uid,
            early: false,
            counter: false,
            hardware: false,
            flows: Flowtable::new(Limits { flows: settings.max }, seed),
            counts: FlowCounts::default(),
            plain: Vec::new(),
            around: false,
            lately: None,
            resolved: Vec::new(),
            heads: Vec::new(),
            swept: 0,
            next_sweep: 0,
            timeouts: Timeouts::of_settings(settings),
        };
        table.update(linked);
        table
    }

    /// What may change while it is there.
    pub(crate) fn update(&mut self, linked: &LinkedFlowtable) {
        self.early = linked.flowtable.early;
        self.counter = linked.flowtable.flags & COUNTER != 0;
        self.hardware = linked.is_for_devices();
    }

    /// A flow was added.
    pub(crate) fn added(&mut self, flow: u32) {
        self.counts.added += 1;
        for direction in Direction::BOTH {
            let half = self.flows.half(At { flow, direction });
            let (xmit, arrival) = (half.xmit, half.arrival());
            // A number may stand for something else than before.
            if let Some(resolved) = self.resolved.get_mut(xmit.0 as usize) {
                *resolved = Resolved::UNKNOWN;
            }
            let arrives = self.flows.arrival_at(arrival);
            if arrives.is_plain() {
                let device = arrives.device as usize;
                if self.plain.len() <= device {
                    self.plain.resize(device + 1, Self::NOWHERE);
                }
                self.plain[device] = arrival;
            } else {
                self.around = true;
            }
        }
    }

    /// The number of plain packets' arrival on a device.
    #[inline(always)]
    pub(crate) fn plain(&self, device: u32) -> ArrivalId {
        self.plain.get(device as usize).copied().unwrap_or(Self::NOWHERE)
    }

    /// A way as it is now, if that is known.
    #[inline(always)]
    pub(crate) fn resolved(&self, xmit: XmitId, epoch: u32) -> Option<&Resolved> {
        self.resolved.get(xmit.0 as usize).filter(|r| r.epoch == epoch)
    }

    /// The headers in front of packets of a way that puts something around them.
    #[inline(always)]
    pub(crate) fn head(&self, xmit: XmitId) -> Option<&Head> {
        self.heads.get(xmit.0 as usize)?.as_deref()
    }

    pub(crate) fn put_resolved(&mut self, xmit: XmitId, resolved: Resolved, head: Option<Head>) {
        let at = xmit.0 as usize;
        if self.heads.len() <= at && head.is_some() {
            self.heads.resize(at + 1, None);
        }
        if let Some(place) = self.heads.get_mut(at) {
            *place = head.map(Box::new);
        }
        if self.resolved.len() <= at {
            self.resolved.resize(at + 1, Resolved::UNKNOWN);
        }
        self.resolved[at] = resolved;
    }

    /// Whether a flow with its latest packet in either direction at `used` has expired.
    #[inline(always)]
    pub(crate) fn is_over(&self, l4: u8, used: u64, now: u64) -> bool {
        now > used.saturating_add(self.timeouts.of(l4))
    }

    /// Gives a flow back to connection tracking (`flow_offload_teardown()`,
    /// `flow_offload_fixup_ct()`).
    pub(crate) fn tear_down(
        &mut self,
        conntrack: &mut Conntrack,
        watch: &mut Watch,
        flow: u32,
        cause: Cause,
    ) {
        let half = self.flows.live(flow);
        if half.is_none_or(|half| half.has(state::TEARDOWN)) {
            return;
        }
        let end = match cause {
            Cause::Expired => FlowEnd::Expired,
            Cause::TornDown => FlowEnd::TornDown,
        };
        watch.tell(FlowEvent::Removed(end), || self.listed(conntrack, flow));
        let connection = token::connection(self.flows.life(flow).connection);
        let half = self.flows.half(At { flow, direction: Direction::Original });
        let (closing, timeout) = (half.has(state::CLOSING), self.timeouts.of(half.protocol()));
        if let Some(n) = conntrack.resolve_ref(connection) {
            let back = match cause {
                Cause::Expired => {
                    let since = self.flows.used(flow).saturating_add(timeout);
                    Return { since, over: timeout, closing }
                }
                Cause::TornDown => Return { since: conntrack.now(), over: 0, closing },
            };
            conntrack.return_offloaded(n, back);
        }
        match cause {
            Cause::Expired => self.counts.expired += 1,
            Cause::TornDown => self.counts.torn_down += 1,
        }
        self.remove(flow);
    }

    /// Ends a flow with its connection.
    pub(crate) fn ended(&mut self, watch: &mut Watch, flow: u32, outline: Outline) {
        if self.flows.is_live(flow) {
            self.counts.ended += 1;
            watch.tell(FlowEvent::Removed(FlowEnd::WithConnection), || {
                Some(self.listed_as(flow, outline))
            });
            self.remove(flow);
        }
    }

    /// Removes a flow; if a device has it, packets no longer find it, and it is freed when the
    /// device has removed it.
    fn remove(&mut self, flow: u32) {
        let half = self.flows.half(At { flow, direction: Direction::Original });
        if half.state & (state::HARDWARE | state::PENDING) != 0 {
            self.flows.set_state(flow, state::TEARDOWN);
        } else {
            self.forget(flow);
        }
    }

    pub(crate) fn forget(&mut self, flow: u32) {
        let arrivals = Direction::BOTH.map(|direction| {
            *self.flows.arrival_at(self.flows.half(At { flow, direction }).arrival())
        });
        self.flows.remove(flow);
        for arrives in arrivals.iter().filter(|a| a.is_plain()) {
            // Other flows may arrive there.
            if let Some(place) = self.plain.get_mut(arrives.device as usize) {
                *place = self.flows.arrival(arrives).unwrap_or(Self::NOWHERE);
            }
        }
    }

    /// Ends all flows.
    pub(crate) fn clear(&mut self, conntrack: &mut Conntrack, watch: &mut Watch) {
        for flow in 0..self.flows.end() {
            self.tear_down(conntrack, watch, flow, Cause::TornDown);
        }
    }

    /// Looks at a share of the flows, so that all are looked at about once in a second
    /// (`nf_flow_offload_gc_step()`): those that have lived out end, and connections of the others
    /// live on. Returns when to come again.
    pub(crate) fn sweep(
        &mut self,
        conntrack: &mut Conntrack,
        watch: &mut Watch,
        mut hardware: Option<&mut Hardware>,
        now: u64,
    ) -> u64 {
        if now < self.next_sweep {
            return self.next_sweep;
        }
        let end = self.flows.end();
        for _ in 0..SWEEP_BUDGET {
            if self.swept >= end {
                self.swept = 0;
                self.next_sweep = now.saturating_add(SWEEP);
                return self.next_sweep;
            }
            let flow = self.swept;
            self.swept += 1;
            if !self.flows.is_live(flow) {
                continue;
            }
            let half = self.flows.half(At { flow, direction: Direction::Original });
            if self.is_over(half.protocol(), self.flows.used(flow), now) {
                self.tear_down(conntrack, watch, flow, Cause::Expired);
            }
            if let Some(hardware) = &mut hardware
                && (self.hardware || hardware.all)
            {
                // A refusal may have been for lack of room.
                self.offer_again(hardware, flow, now);
                self.tend(hardware, flow, now);
            }
            if let Some(n) =
                conntrack.resolve_ref(token::connection(self.flows.life(flow).connection))
            {
                conntrack.extend_offloaded(n);
            }
        }
        // The rest with the next packets, evenly.
        self.next_sweep =
            now.saturating_add(SWEEP / (1 + u64::from(end) / u64::from(SWEEP_BUDGET)));
        self.next_sweep
    }
}
