// SPDX-License-Identifier: Apache-2.0

//! Flows that a device forwards (`nf_flow_table_offload.c`): offered to it, counted there, and back
//! in software when it gives them up.
//!
//! Nothing waits for the device. At most one request is on its way for a flow; where the queue is
//! full, the flow stays as it is and the next look at it tries again.

use penstock_conntrack::Conntrack;
use penstock_flowtable::offload::{Answer, HardwareCounts, HardwareFlow, HardwareHalf, Request};
use penstock_flowtable::{At, Direction, Flowtable, Key, Offloader, state};
use penstock_net::Network;
use penstock_program::image::FlowtableIndex;
use penstock_ruleset::link::{CannotOffload, LinkedFlowtable, OffloadPart};

use super::Flows;
use super::add::of_connection;
use super::table::{Cause, Table};
use super::token;
use crate::hooks::names;
use crate::settings::SECOND;
use crate::sink::Sink;
use crate::worker::Worker;

/// Least time without packets in software after which the device is asked
/// (`nf_flow_offload_stats()` asks when a tenth of the life is over).
const ASK_AFTER: u64 = 3 * SECOND;

/// A device that forwards flows, and the devices of the network whose frames it sees.
#[derive(Debug)]
pub(super) struct Hardware {
    pub(super) offloader: Offloader,
    pub(super) devices: Vec<u32>,
    /// Of flowtables without `flags offload`, too.
    pub(super) all: bool,
}

/// A flow as devices are told.
fn described(flows: &Flowtable, flow: u32) -> HardwareFlow {
    let half = |direction| {
        let at = At { flow, direction };
        let (key, other) = (flows.key(at), flows.key(At { flow, direction: direction.opposite() }));
        let [src, dst] = other.port_numbers();
        let leaves = Key::new(other.destination(), other.source(), [dst, src], key.l4);
        HardwareHalf { key, arrival: *flows.arrival_at(key.arrival), leaves, way: *flows.way(at) }
    };
    HardwareFlow { halves: Direction::BOTH.map(half) }
}

impl Table {
    /// Offers a flow to the device, if it is wanted there and is not.
    #[cold]
    pub(super) fn offer(&mut self, hardware: &mut Hardware, flow: u32) {
        let half = self.flows.half(At { flow, direction: Direction::Original });
        let busy = state::HARDWARE | state::PENDING | state::CLOSING | state::TEARDOWN;
        if half.state & busy != 0 {
            return;
        }
        let described = described(&self.flows, flow);
        let seen = |half: &HardwareHalf| hardware.devices.contains(&half.arrival.device);
        if described.halves.iter().any(seen)
            && hardware.offloader.ask(Request::Add(self.cookie(flow), described.into()))
        {
            self.flows.set_state(flow, state::PENDING);
        }
    }

    /// Offers a flow again that has packets.
    pub(super) fn offer_anew(&mut self, hardware: &mut Hardware, flow: u32, now: u64) {
        if self.flows.is_live(flow) && now < self.flows.used(flow).saturating_add(ASK_AFTER) {
            self.offer(hardware, flow);
        }
    }

    /// Name of a flow for the device.
    fn cookie(&self, flow: u32) -> u64 {
        token::of_flow(self.uid, flow)
    }

    /// What a flow of the device needs now and then (`nf_flow_offload_gc_step()`).
    pub(super) fn tend(&mut self, hardware: &mut Hardware, flow: u32, now: u64) {
        if !self.flows.is_live(flow) {
            return;
        }
        let half = self.flows.half(At { flow, direction: Direction::Original });
        if half.state & state::PENDING != 0 {
            return;
        }
        let cookie = self.cookie(flow);
        let request = if half.state & state::HARDWARE == 0 {
            if half.state & state::TEARDOWN != 0 {
                self.forget(flow);
            }
            return;
        } else if half.state & (state::TEARDOWN | state::CLOSING) != 0 {
            Request::Delete(cookie)
        } else if now >= self.flows.used(flow).saturating_add(ASK_AFTER) {
            Request::Statistics(cookie)
        } else {
            return;
        };
        if hardware.offloader.ask(request) {
            self.flows.set_state(flow, state::PENDING);
        }
    }

    /// Takes over what the device has counted.
    fn take_counts(&mut self, conntrack: &mut Conntrack, flow: u32, counts: &HardwareCounts) {
        let connection = conntrack.resolve_ref(token::connection(self.flows.life(flow).connection));
        for direction in Direction::BOTH {
            let half = self.flows.half_mut(At { flow, direction });
            let (packets, bytes) = counts.packets[direction as usize];
            half.count(counts.used, packets, bytes);
            if self.counter
                && let Some(n) = connection
            {
                conntrack.count_offloaded(n, of_connection(direction), packets, bytes);
            }
        }
    }

    fn answered(&mut self, conntrack: &mut Conntrack, flow: u32, answer: &Answer) {
        self.flows.clear_state(flow, state::PENDING);
        let connection = conntrack.resolve_ref(token::connection(self.flows.life(flow).connection));
        let in_hardware = |conntrack: &mut Conntrack, flows: &mut Flowtable, on| {
            if on {
                flows.set_state(flow, state::HARDWARE);
            } else {
                flows.clear_state(flow, state::HARDWARE);
            }
            if let Some(n) = connection {
                conntrack.set_hardware(n, on);
            }
        };
        match answer {
            Answer::Added(_, Ok(())) => {
                self.counts.taken += 1;
                in_hardware(conntrack, &mut self.flows, true);
            }
            Answer::Added(_, Err(_)) => self.counts.not_taken += 1,
            Answer::Statistics(_, Some(counts)) => self.take_counts(conntrack, flow, counts),
            Answer::Statistics(_, None) => in_hardware(conntrack, &mut self.flows, false),
            Answer::Deleted(_, counts) => {
                self.take_counts(conntrack, flow, counts);
                in_hardware(conntrack, &mut self.flows, false);
            }
        }
        let half = self.flows.half(At { flow, direction: Direction::Original });
        if half.state & (state::TEARDOWN | state::HARDWARE) == state::TEARDOWN {
            self.forget(flow);
        }
    }
}

impl Flows {
    /// Gives a device the flows of flowtables with `flags offload`, or of `all`, from now on.
    pub(crate) fn set_hardware(&mut self, offloader: Offloader, devices: Vec<u32>, all: bool) {
        self.hardware = Some(Hardware { offloader, devices, all });
        self.next_sweep = 0;
    }

    /// A new flow goes to the device too.
    pub(super) fn offer(&mut self, index: FlowtableIndex, flow: u32) {
        if let Some(hardware) = &mut self.hardware
            && let Some(table) = self.tables.get_mut(index.0 as usize)
            && (table.hardware || hardware.all)
        {
            table.offer(hardware, flow);
            self.next_sweep = 0;
        }
    }

    /// What the device has answered meanwhile.
    pub(super) fn take_answers(&mut self, conntrack: &mut Conntrack) {
        let Some(hardware) = &mut self.hardware else { return };
        while let Some(answer) = hardware.offloader.answer() {
            let (Answer::Added(cookie, _)
            | Answer::Deleted(cookie, _)
            | Answer::Statistics(cookie, _)) = answer;
            let (uid, flow) = token::flow(cookie);
            match self.tables.iter_mut().chain(&mut self.leaving).find(|t| t.uid == uid) {
                Some(table) if table.flows.is_live(flow) => {
                    table.answered(conntrack, flow, &answer)
                }
                Some(_) | None => {}
            }
        }
        self.gone = self
            .leaving
            .iter()
            .filter(|t| t.flows.is_empty())
            .fold(self.gone, |all, t| all.plus(&t.counts));
        self.leaving.retain(|table| !table.flows.is_empty());
    }

    /// Whether all devices of flowtables that want it can forward flows.
    pub(crate) fn can_offload(
        &self,
        net: &Network,
        flowtables: &[LinkedFlowtable],
    ) -> Result<(), CannotOffload> {
        let devices = self.hardware.as_ref().map_or(&[][..], |h| &h.devices);
        can_offload(net, flowtables, devices)
    }
}

impl<S: Sink> Worker<'_, S> {
    /// Ends flows that a device forwards whose ways do not hold in the present network: no packet
    /// of theirs would show it here (`nf_flow_is_outdated()`). Some with each call.
    #[inline]
    pub(crate) fn recheck_hardware(&mut self, now: u64) {
        if self.state.flows.recheck.is_some() {
            self.recheck_some(now);
        }
    }

    #[cold]
    fn recheck_some(&mut self, now: u64) {
        /// Flows that are looked at in one go.
        const BUDGET: usize = 256;
        let Some((mut index, mut flow)) = self.state.flows.recheck.take() else { return };
        for _ in 0..BUDGET {
            let network = self.state.flows.network;
            let Some(table) = self.state.flows.table(index) else { return };
            if flow >= table.flows.end() {
                (index, flow) = (FlowtableIndex(index.0 + 1), 0);
                continue;
            }
            let half = table.flows.live(flow);
            let offered = state::HARDWARE | state::PENDING;
            let in_hardware =
                half.is_some_and(|half| half.network != network && half.state & offered != 0);
            if in_hardware && !self.flow_holds(index, flow) {
                self.state.end_flow(index, flow, Cause::TornDown, now);
                let Flows { tables, hardware, .. } = &mut self.state.flows;
                if let (Some(table), Some(hardware)) = (tables.get_mut(index.0 as usize), hardware)
                {
                    table.tend(hardware, flow, now);
                }
            }
            flow += 1;
        }
        self.state.flows.recheck = Some((index, flow));
    }
}

/// Whether all devices of flowtables with `flags offload` can forward flows, if these devices of a
/// network can: the kernel refuses a flowtable else.
///
/// # Errors
/// One cannot.
pub fn can_offload(
    net: &Network,
    flowtables: &[LinkedFlowtable],
    devices: &[u32],
) -> Result<(), CannotOffload> {
    for LinkedFlowtable { family, table, flowtable } in
        flowtables.iter().filter(|f| f.is_for_devices())
    {
        let mut wanted =
            net.links().iter().filter(|l| flowtable.devices.iter().any(|d| names(d, &l.name)));
        if let Some(link) = wanted.find(|l| !devices.contains(&l.index)) {
            return Err(CannotOffload {
                family: *family,
                table: table.0.clone(),
                part: OffloadPart::Flowtable(flowtable.name.clone()),
                device: link.name.clone(),
            });
        }
    }
    Ok(())
}
