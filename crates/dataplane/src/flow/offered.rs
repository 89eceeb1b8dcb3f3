// SPDX-License-Identifier: Apache-2.0

//! Flows that a device forwards (`nf_flow_table_offload.c`): offered to it, counted there, and back
//! in software when it gives them up.
//!
//! Nothing waits for the device. At most one request is on its way for a flow; where the queue is
//! full, the flow stays as it is and the next look at it tries again.

use penstock_conntrack::Conntrack;
use penstock_flowtable::offload::{Answer, HardwareCounts, HardwareHalf, Request};
use penstock_flowtable::{At, Direction, Flowtable, Offloader, state};
use penstock_net::Network;
use penstock_program::image::FlowtableIndex;
use penstock_ruleset::link::{CannotOffload, LinkedFlowtable};

use crate::flow::direction::of_connection;
use crate::flow::events::{FlowEvent, Watch};
use crate::flow::hardware::{Hardware, can_offload, described};
use crate::flow::table::Table;
use crate::flow::{Flows, token};
use crate::settings::SECOND;

/// Least time without packets in software after which the device is asked
/// (`nf_flow_offload_stats()` asks when a tenth of the life is over).
const ASK_AFTER: u64 = 3 * SECOND;

impl Table {
    /// Offers a flow to the device, if it is wanted there and is not.
    #[cold]
    pub(crate) fn offer(&mut self, hardware: &mut Hardware, flow: u32) {
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
    pub(crate) fn offer_again(&mut self, hardware: &mut Hardware, flow: u32, now: u64) {
        if self.flows.is_live(flow) && now < self.flows.used(flow).saturating_add(ASK_AFTER) {
            self.offer(hardware, flow);
        }
    }

    /// Name of a flow for the device.
    fn cookie(&self, flow: u32) -> u64 {
        token::of_flow(self.uid, flow)
    }

    /// What a flow of the device needs now and then (`nf_flow_offload_gc_step()`).
    pub(crate) fn tend(&mut self, hardware: &mut Hardware, flow: u32, now: u64) {
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

    fn answered(
        &mut self,
        conntrack: &mut Conntrack,
        watch: &mut Watch,
        flow: u32,
        answer: &Answer,
    ) {
        self.flows.clear_state(flow, state::PENDING);
        let before = self.flows.half(At { flow, direction: Direction::Original }).state;
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
        // The end of the others was told when it came.
        if half.state & state::TEARDOWN == 0 && (half.state ^ before) & state::HARDWARE != 0 {
            let event = match half.has(state::HARDWARE) {
                true => FlowEvent::ToDevice,
                false => FlowEvent::FromDevice,
            };
            watch.tell(event, || self.listed(conntrack, flow));
        }
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

    /// Other devices can forward flows from now on.
    pub(crate) fn set_devices(&mut self, devices: Vec<u32>) {
        if let Some(hardware) = &mut self.hardware {
            hardware.devices = devices;
            self.next_sweep = 0;
        }
    }

    /// A new flow goes to the device too.
    pub(crate) fn offer(&mut self, index: FlowtableIndex, flow: u32) {
        if let Some(hardware) = &mut self.hardware
            && let Some(table) = self.tables.get_mut(index.0 as usize)
            && (table.hardware || hardware.all)
        {
            table.offer(hardware, flow);
            self.next_sweep = 0;
        }
    }

    /// What the device has answered meanwhile.
    pub(crate) fn take_answers(&mut self, conntrack: &mut Conntrack) {
        let Some(hardware) = &mut self.hardware else { return };
        while let Some(answer) = hardware.offloader.answer() {
            let (Answer::Added(cookie, _)
            | Answer::Deleted(cookie, _)
            | Answer::Statistics(cookie, _)) = answer;
            let (uid, flow) = token::flow(cookie);
            match self.tables.iter_mut().chain(&mut self.leaving).find(|t| t.uid == uid) {
                Some(table) if table.flows.is_live(flow) => {
                    table.answered(conntrack, &mut self.watch, flow, &answer)
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
