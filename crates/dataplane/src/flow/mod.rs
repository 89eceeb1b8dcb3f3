// SPDX-License-Identifier: Apache-2.0

//! Flowtables at work: flows that left the rules (`net/netfilter/nf_flow_table_*.c`).
//!
//! - `table`: the flows of a table; they end, and go back to connection tracking;
//! - `flow_packet`, `around`, `burst_packet`, `scratch`: what is read of packets, of what is around
//!   them, and of bursts;
//! - `fate`: whether a packet of a flow leaves, falls back, or ends the flow;
//! - `resolved`, `sealed`: ways as they are in the present generation and network;
//! - `hardware`, `offered`: a device that forwards flows;
//! - `list`, `listed`, `reason`: what there is, and why what is not there is not;
//! - `events`: what happens to flows, for who listens.
//!
//! What happens to packets is in [`stages::flow`](crate::stages::flow).

pub(crate) mod around;
pub(crate) mod burst_packet;
pub(crate) mod direction;
pub(crate) mod events;
pub(crate) mod fate;
pub(crate) mod flow_packet;
pub(crate) mod hardware;
pub(crate) mod list;
pub(crate) mod listed;
pub(crate) mod offered;
pub(crate) mod reason;
pub(crate) mod resolved;
pub(crate) mod scratch;
pub(crate) mod sealed;
pub(crate) mod summary;
pub(crate) mod table;
pub(crate) mod token;

use penstock_conntrack::Conntrack;
use penstock_flowtable::At;
use penstock_program::image::FlowtableIndex;
use penstock_ruleset::link::Linked;

use crate::flow::events::Watch;
use crate::flow::hardware::Hardware;
use crate::flow::scratch::Scratch;
use crate::flow::table::{Identity, Table, Timeouts};
use crate::settings::{FlowSettings, Settings};

pub use events::{FlowEnd, FlowEvent, FlowObserver};
pub use hardware::can_offload;
pub use list::{FlowEntry, RefusedFlow};
pub use listed::ListedFlow;
pub use reason::NotOffloaded;
pub use summary::FlowSummary;
pub use table::FlowCounts;

/// A direction of a flow, in one of the flowtables.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlowRef {
    pub(crate) table: FlowtableIndex,
    pub(crate) at: At,
}

/// How often answers of a device are looked for.
const ANSWERS: u64 = crate::settings::SECOND / 1000;

/// All flowtables of a generation with their flows.
#[derive(Debug)]
pub(crate) struct Flows {
    /// By [`FlowtableIndex`].
    pub(crate) tables: Vec<Table>,
    /// Those of before with flows that a device still has.
    pub(crate) leaving: Vec<Table>,
    pub(crate) hardware: Option<Hardware>,
    /// Where the look at a device's flows continues that another network calls for.
    pub(crate) recheck: Option<(FlowtableIndex, u32)>,
    pub(crate) settings: FlowSettings,
    pub(crate) next_uid: u32,
    pub(crate) seed: u64,
    /// Grows when anything changes that ways depend on; never 0.
    pub(crate) epoch: u32,
    /// Number of the network, modulo 256: flows note in which one their ways were looked up.
    pub(crate) network: u8,
    /// When flows are looked for next that have lived out.
    pub(crate) next_sweep: u64,
    pub(crate) refusals: Vec<u64>,
    /// Counts of removed tables.
    pub(crate) gone: FlowCounts,
    pub(crate) scratch: Option<Box<Scratch>>,
    pub(crate) watch: Watch,
}

impl Flows {
    /// `first` is a number below those of its tables.
    pub(crate) fn new(settings: &Settings, seed: u64, first: u32) -> Self {
        let max = settings.flow.max.min(settings.conntrack.max());
        let settings = FlowSettings { max, ..settings.flow.clone() };
        Flows {
            tables: Vec::new(),
            leaving: Vec::new(),
            hardware: None,
            recheck: None,
            settings,
            next_uid: first.wrapping_add(1),
            seed,
            epoch: 1,
            network: 0,
            next_sweep: u64::MAX,
            refusals: vec![0; NotOffloaded::ALL.len()],
            gone: FlowCounts::default(),
            scratch: Some(Box::default()),
            watch: Watch::default(),
        }
    }

    /// Takes over another generation: tables that it does not have end with their flows.
    pub(crate) fn set_rules(&mut self, linked: &Linked, conntrack: &mut Conntrack) {
        self.drop_ended(conntrack);
        let mut old = std::mem::take(&mut self.tables);
        for new in &linked.flowtables {
            let identity = Identity::of(new);
            let table = match old.iter().position(|t| t.identity == identity) {
                Some(at) => {
                    let mut table = old.swap_remove(at);
                    table.update(new);
                    table
                }
                None => {
                    let uid = self.next_uid;
                    self.next_uid = self.next_uid.wrapping_add(1).max(1);
                    Table::new(new, uid, &self.settings, self.seed ^ u64::from(uid))
                }
            };
            self.tables.push(table);
        }
        for mut table in old {
            table.clear(conntrack, &mut self.watch);
            if table.flows.is_empty() {
                self.gone = self.gone.plus(&table.counts);
            } else {
                self.leaving.push(table);
            }
        }
        let none = self.tables.is_empty() && self.leaving.is_empty();
        self.next_sweep = if none { u64::MAX } else { 0 };
        self.changed();
    }

    /// Other timeouts count from now on, for the flows that there are, too.
    pub(crate) fn set_timeouts(&mut self, settings: &FlowSettings) {
        let FlowSettings { tcp_timeout, udp_timeout, other_timeout, .. } = *settings;
        self.settings =
            FlowSettings { tcp_timeout, udp_timeout, other_timeout, ..self.settings.clone() };
        let timeouts = Timeouts::of_settings(&self.settings);
        self.tables.iter_mut().for_each(|table| table.timeouts = timeouts);
    }

    /// Something that ways depend on has changed.
    pub(crate) fn changed(&mut self) {
        self.epoch = self.epoch.wrapping_add(1).max(1);
    }

    /// Routes, neighbours or devices have changed.
    pub(crate) fn set_network(&mut self, conntrack: &mut Conntrack) {
        self.changed();
        self.network = self.network.wrapping_add(1);
        if self.network == 0 {
            // The numbers begin again: none of before may be taken for a new one.
            self.drop_ended(conntrack);
            let Flows { tables, watch, .. } = self;
            tables.iter_mut().for_each(|table| table.clear(conntrack, watch));
        }
        self.recheck = self.hardware.is_some().then_some((FlowtableIndex(0), 0));
    }

    pub(crate) fn table(&self, at: FlowtableIndex) -> Option<&Table> {
        self.tables.get(at.0 as usize)
    }

    pub(crate) fn table_mut(&mut self, at: FlowtableIndex) -> Option<&mut Table> {
        self.tables.get_mut(at.0 as usize)
    }

    /// Flows of ended connections are gone afterwards.
    #[inline(always)]
    pub(crate) fn drop_ended(&mut self, conntrack: &mut Conntrack) {
        if conntrack.has_ended() {
            self.drop_each_ended(conntrack);
        }
    }

    #[cold]
    fn drop_each_ended(&mut self, conntrack: &mut Conntrack) {
        while let Some(ended) = conntrack.next_ended() {
            let (uid, flow) = token::flow(ended.token);
            if let Some(table) =
                self.tables.iter_mut().chain(&mut self.leaving).find(|t| t.uid == uid)
            {
                table.ended(&mut self.watch, flow, ended.outline);
            }
        }
    }

    /// Advances the clock.
    #[inline(always)]
    pub(crate) fn pass_time(&mut self, conntrack: &mut Conntrack, now: u64) {
        if now >= self.next_sweep {
            self.sweep(conntrack, now);
        }
    }

    /// Whether there is something to be done then.
    #[inline(always)]
    pub(crate) fn is_due(&self, now: u64) -> bool {
        now >= self.next_sweep || self.recheck.is_some()
    }

    #[inline(never)]
    fn sweep(&mut self, conntrack: &mut Conntrack, now: u64) {
        conntrack.advance(now);
        self.drop_ended(conntrack);
        self.take_answers(conntrack);
        let mut next = u64::MAX;
        for table in self.tables.iter_mut().chain(&mut self.leaving) {
            let hardware = self.hardware.as_mut();
            next = next.min(table.sweep(conntrack, &mut self.watch, hardware, now));
        }
        // What a device answers is not left lying.
        let waits = self.hardware.as_ref().is_some_and(|h| h.offloader.pending() > 0);
        self.next_sweep = if waits { next.min(now.saturating_add(ANSWERS)) } else { next };
    }

    /// Tells who listens that a flow was added.
    pub(crate) fn tell_added(&mut self, conntrack: &Conntrack, at: FlowtableIndex, flow: u32) {
        if let Some(table) = self.tables.get(at.0 as usize) {
            self.watch.tell(FlowEvent::Added, || table.listed(conntrack, flow));
        }
    }

    pub(crate) fn count_refusal(&mut self, reason: NotOffloaded) {
        if let Some(count) = self.refusals.get_mut(reason as usize) {
            *count += 1;
        }
    }
}
