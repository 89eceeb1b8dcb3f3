// SPDX-License-Identifier: Apache-2.0

//! The tc stage: filters before ingress chains and after egress chains, and the queue of a device
//! (`sch_handle_ingress()`, `sch_handle_egress()`).

use penstock_net::Link;
use penstock_packet::Packet;
use penstock_tc::{Cursor, Hook, Step};

use crate::reason::DropReason;
use crate::sink::Sink;
use crate::stages::mirred::Sent;
use crate::stages::tcx::Tcx;
use crate::state::State;
use crate::tc::Tc;
use crate::worker::Worker;

impl<S: Sink> Worker<'_, S> {
    /// Whether filters or programs look at frames that arrive at a device.
    #[inline]
    pub(crate) fn filtered(&self, device: u32) -> bool {
        let State { tc, bpf, .. } = &*self.state;
        tc.as_ref().is_some_and(|tc| {
            tc.config.has_filters(Hook::Ingress, device) || bpf.tc(Hook::Ingress, device).is_some()
        })
    }

    /// Programs and filters at a hook of a device. `None` if the packet continues, else whether its sender takes
    /// it for sent.
    #[inline]
    pub(crate) fn tc(&mut self, hook: Hook, device: u32, packet: &mut Packet) -> Option<bool> {
        let State { tc: Some(tc), bpf, .. } = &*self.state else { return None };
        if bpf.tc(hook, device).is_some() {
            match self.tcx(hook, device, packet) {
                Tcx::Next => {}
                Tcx::Passed => return None,
                Tcx::Ended(sent) => return Some(sent),
            }
            return self.tc_filters(hook, device, packet);
        }
        if tc.config.may_match(hook, device, packet) {
            return self.tc_filters(hook, device, packet);
        }
        None
    }

    #[inline(never)]
    fn tc_filters(&mut self, hook: Hook, device: u32, packet: &mut Packet) -> Option<bool> {
        let mut cursor = Cursor::default();
        loop {
            let tc = self.state.tc.as_mut()?;
            match tc.config.classify(hook, device, &mut cursor, packet, &mut tc.filters) {
                Step::Pass => return None,
                Step::Drop => {
                    self.drop(DropReason::Tc, packet);
                    return Some(false);
                }
                Step::Taken => {
                    self.state.counters.taken += 1;
                    self.state.counters.absorbed += 1;
                    return Some(true);
                }
                Step::Mirror { device, ingress } => {
                    if let Sent::TooOften = self.tc_send(packet, hook, device, ingress) {
                        self.drop(DropReason::Recursion, packet);
                        return Some(false);
                    }
                }
                Step::Redirect { device, ingress } => {
                    if let Sent::TooOften = self.tc_send(packet, hook, device, ingress) {
                        self.drop(DropReason::Recursion, packet);
                        return Some(false);
                    }
                    self.state.counters.taken += 1;
                    self.state.counters.absorbed += 1;
                    return Some(true);
                }
            }
        }
    }

    /// Puts a packet into the queue of its device. `None` if there is none, else whether the packet
    /// was taken.
    #[inline]
    pub(crate) fn enqueue(&mut self, packet: &Packet, link: &Link) -> Option<bool> {
        match &self.state.tc {
            Some(tc) if tc.config.has_queue(link.index) => self.enqueue_there(packet, link),
            _ => None,
        }
    }

    #[inline(never)]
    fn enqueue_there(&mut self, packet: &Packet, link: &Link) -> Option<bool> {
        let Tc { config, queues, .. } = self.state.tc.as_deref_mut()?;
        if !queues.put(config, link.index, packet) {
            self.drop(DropReason::Qdisc, packet);
            return Some(false);
        }
        self.run_queue(link.index, packet.meta.time);
        Some(true)
    }

    /// Sends what may leave a device at `now`.
    fn run_queue(&mut self, device: u32, now: u64) {
        while let Some(Tc { config, queues, .. }) = self.state.tc.as_deref_mut()
            && let Some(mut packet) = queues.leave(config, device, now)
        {
            match self.net.link(device) {
                Some(link) => self.hand_to_device(&mut packet, link, None),
                None => self.drop(DropReason::LinkDown, &packet),
            }
            if let Some(tc) = &mut self.state.tc {
                tc.queues.give_back(packet);
            }
        }
    }

    /// Sends what queues held back until `now`, in the order of time.
    pub(crate) fn run_queues(&mut self, now: u64) {
        while let Some(tc) = &mut self.state.tc
            && let Some((at, device)) = tc.queues.next_time(now)
        {
            self.run_queue(device, at);
        }
    }
}
