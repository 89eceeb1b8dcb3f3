// SPDX-License-Identifier: Apache-2.0

//! The tc stage: filters before ingress chains and after egress chains, and the queue of a device
//! (`sch_handle_ingress()`, `sch_handle_egress()`, `act_mirred.c`).

use penstock_net::Link;
use penstock_packet::Packet;
use penstock_tc::{Cursor, Hook, Step};

use crate::reason::DropReason;
use crate::sink::Sink;
use crate::tc::Tc;
use crate::worker::Worker;

/// Devices that a packet may be sent to one from the other (`MIRRED_NEST_LIMIT`).
const NEST_LIMIT: u32 = 4;

impl<S: Sink> Worker<'_, S> {
    /// Whether filters look at frames that arrive at a device.
    #[inline]
    pub(crate) fn filtered(&self, device: u32) -> bool {
        self.state.tc.as_ref().is_some_and(|tc| tc.config.has_filters(Hook::Ingress, device))
    }

    /// Filters at a hook of a device. `None` if the packet continues, else whether its sender takes
    /// it for sent.
    #[inline]
    pub(crate) fn tc(&mut self, hook: Hook, device: u32, packet: &mut Packet) -> Option<bool> {
        match &self.state.tc {
            Some(tc) if tc.config.may_match(hook, device, packet) => {
                self.tc_filters(hook, device, packet)
            }
            _ => None,
        }
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
                Step::Mirror { device, ingress } => self.tc_send(packet, hook, device, ingress),
                Step::Redirect { device, ingress } => {
                    self.state.counters.taken += 1;
                    self.state.counters.absorbed += 1;
                    self.tc_send(packet, hook, device, ingress);
                    return Some(true);
                }
            }
        }
    }

    /// `tcf_mirred_to_dev()`: a copy goes to a device.
    fn tc_send(&mut self, packet: &Packet, from: Hook, device: u32, ingress: bool) {
        self.state.counters.originated += 1;
        let up = self.net.link(device).is_some_and(|l| l.up);
        if !up {
            return self.drop(DropReason::LinkDown, packet);
        }
        let Some(tc) = &mut self.state.tc else { return self.drop(DropReason::Tc, packet) };
        if tc.nested >= NEST_LIMIT {
            return self.drop(DropReason::Recursion, packet);
        }
        tc.nested += 1;
        if ingress {
            let mut copy = self.state.buffers.spare.pop().unwrap_or_default();
            copy.clone_from(packet);
            copy.data_at_network();
            (copy.meta.iif, copy.meta.oif) = (device, 0);
            if from == Hook::Ingress {
                self.pass_up(&mut copy, None);
                self.state.buffers.spare.push(copy);
            } else {
                // netif_rx(): received when what is being done is done.
                self.state.buffers.backlog.push_back((copy, None));
            }
        } else {
            self.nested(packet.meta.time, |worker, copy| {
                copy.clone_from(packet);
                if let Some(tc) = &mut worker.state.tc {
                    tc.skip_egress = true;
                }
                worker.transmit(copy, device, None);
            });
        }
        if let Some(tc) = &mut self.state.tc {
            tc.nested -= 1;
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
