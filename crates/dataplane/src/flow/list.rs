// SPDX-License-Identifier: Apache-2.0

//! What is in flowtables, and why what is not there is not.

use penstock_conntrack::{Connection, Conntrack, Outline, status};
use penstock_flowtable::{At, Direction, state};
use penstock_ruleset::Family;

use crate::flow::listed::ListedFlow;
use crate::flow::table::{Cause, Table};
use crate::flow::{FlowCounts, Flows, NotOffloaded, token};

/// A connection that a rule wanted in a flowtable, and that is not there.
#[derive(Clone, Copy)]
pub struct RefusedFlow<'a> {
    /// Family of the ruleset's table that the flowtable is in.
    pub family: Family,
    /// Its name.
    pub table: &'a str,
    /// The flowtable's.
    pub flowtable: &'a str,
    /// The connection's.
    pub outline: Outline,
    /// Why its latest packet that met such a rule could not put it there.
    pub reason: NotOffloaded,
}

/// A connection that is in a flowtable, or that a rule wanted there.
#[derive(Clone, Copy)]
#[allow(clippy::large_enum_variant)]
pub enum FlowEntry<'a> {
    /// It is there.
    Flow(ListedFlow<'a>),
    /// It is not.
    Refused(RefusedFlow<'a>),
}

impl Table {
    /// A flow for listings. `None` if its connection has ended: it goes before the next packet.
    pub(crate) fn listed(&self, conntrack: &Conntrack, flow: u32) -> Option<ListedFlow<'_>> {
        let connection = token::connection(self.flows.life(flow).connection);
        let connection = conntrack.connection_ref(connection)?;
        let ends = connection.status() & status::DYING != 0;
        (!ends).then(|| self.listed_as(flow, connection.outline()))
    }

    /// A flow whose connection has this outline, or had it at its end.
    pub(crate) fn listed_as(&self, flow: u32, outline: Outline) -> ListedFlow<'_> {
        let life = self.flows.life(flow);
        let at = Direction::BOTH.map(|direction| At { flow, direction });
        let halves = at.map(|at| self.flows.half(at));
        ListedFlow {
            family: self.identity.family,
            table: &self.identity.table,
            flowtable: &self.identity.name,
            outline,
            added: life.added,
            used: self.flows.used(flow),
            closing: halves[0].has(state::CLOSING),
            hardware: halves[0].has(state::HARDWARE),
            packets: halves.map(|half| (half.packets, half.bytes)),
            arrivals: halves.map(|half| self.flows.arrival_at(half.arrival())),
            xmits: at.map(|at| self.flows.xmit(at)),
        }
    }
}

impl Flows {
    /// All flows.
    pub(crate) fn list<'a>(
        &'a self,
        conntrack: &'a Conntrack,
    ) -> impl Iterator<Item = ListedFlow<'a>> {
        self.tables.iter().flat_map(move |table| {
            table.flows.iter().filter_map(move |flow| table.listed(conntrack, flow))
        })
    }

    /// All connections that are not where a rule wanted them.
    pub(crate) fn list_refused<'a>(
        &'a self,
        conntrack: &'a Conntrack,
    ) -> impl Iterator<Item = RefusedFlow<'a>> {
        let connections = self.tables.first().map(|_| conntrack.iter()).into_iter().flatten();
        connections.filter_map(move |connection| self.refused(conntrack, connection))
    }

    fn refused<'a>(
        &'a self,
        conntrack: &'a Conntrack,
        connection: Connection<'a>,
    ) -> Option<RefusedFlow<'a>> {
        let (index, reason) = token::refusal(conntrack.refusal(connection.number())?)?;
        let identity = &self.table(index)?.identity;
        Some(RefusedFlow {
            family: identity.family,
            table: &identity.table,
            flowtable: &identity.name,
            outline: connection.outline(),
            reason,
        })
    }

    /// The listing entry of a connection.
    pub(crate) fn entry<'a>(
        &'a self,
        conntrack: &'a Conntrack,
        connection: Connection<'a>,
    ) -> Option<FlowEntry<'a>> {
        let Some(token) = conntrack.offloaded(connection.number()) else {
            return self.refused(conntrack, connection).map(FlowEntry::Refused);
        };
        let (uid, flow) = token::flow(token);
        let table = self.tables.iter().find(|table| table.uid == uid)?;
        table.listed(conntrack, flow).map(FlowEntry::Flow)
    }

    /// Gives the flow of a connection back to connection tracking. `false` if it is in no flowtable.
    pub(crate) fn give_back(&mut self, conntrack: &mut Conntrack, connection: u32) -> bool {
        let Some(token) = conntrack.offloaded(connection) else { return false };
        let (uid, flow) = token::flow(token);
        let Some(table) = self.tables.iter_mut().find(|table| table.uid == uid) else {
            return false;
        };
        table.tear_down(conntrack, &mut self.watch, flow, Cause::TornDown);
        true
    }

    /// How often `flow add` did not put a packet's flow into a flowtable, by reason; only those
    /// that occurred.
    pub(crate) fn refusals(&self) -> impl Iterator<Item = (NotOffloaded, u64)> + '_ {
        let counts = NotOffloaded::ALL.iter().zip(&self.refusals);
        counts.filter(|(_, count)| **count > 0).map(|(reason, count)| (*reason, *count))
    }

    /// How many there are in all tables.
    pub(crate) fn count(&self) -> usize {
        self.tables.iter().map(|table| table.flows.len() as usize).sum()
    }

    /// What happened in all tables together.
    pub(crate) fn counts(&self) -> FlowCounts {
        self.tables.iter().fold(self.gone, |all, table| all.plus(&table.counts))
    }
}
