// SPDX-License-Identifier: Apache-2.0

//! Packets that filters and programs of traffic control send to a device, which are received or
//! sent there (`act_mirred.c`).

use penstock_packet::Packet;
use penstock_tc::Hook;

use crate::reason::DropReason;
use crate::sink::Sink;
use crate::worker::Worker;

/// How often filters may send a packet to be received somewhere (`MIRRED_DEFER_LIMIT`).
const RECEIVED_MOST: u8 = 3;

/// What came of a packet, or its copy, that a filter sends to a device.
pub(super) enum Sent {
    /// It went there, or was dropped for a reason of that device.
    Done,
    /// It is being sent on that device: nothing was done.
    Loop,
    /// It has been sent too often: the filter drops the packet.
    TooOften,
}

impl<S: Sink> Worker<'_, S> {
    /// `tcf_mirred_act()`: a copy goes to a device.
    pub(super) fn tc_send(
        &mut self,
        packet: &Packet,
        from: Hook,
        device: u32,
        ingress: bool,
    ) -> Sent {
        let up = self.net.link(device).is_some_and(|l| l.up);
        let Some(tc) = &mut self.state.tc else { return Sent::TooOften };
        if tc.sending.is_full() || packet.meta.tc_depth >= RECEIVED_MOST {
            return Sent::TooOften;
        }
        if !ingress && tc.sending.has(device) {
            return Sent::Loop;
        }
        self.state.counters.originated += 1;
        if !up {
            self.drop(DropReason::LinkDown, packet);
        } else if ingress {
            self.tc_receive(packet, from, device);
        } else {
            tc.sending.push(device);
            self.nested(packet.meta.time, |worker, copy| {
                copy.clone_from(packet);
                if let Some(tc) = &mut worker.state.tc {
                    tc.skip_egress = true;
                }
                worker.transmit(copy, device, None);
            });
            if let Some(tc) = &mut self.state.tc {
                tc.sending.pop();
            }
        }
        Sent::Done
    }

    /// A copy is received on a device.
    fn tc_receive(&mut self, packet: &Packet, from: Hook, device: u32) {
        let mut copy = self.state.buffers.spare.pop().unwrap_or_default();
        copy.clone_from(packet);
        copy.data_at_network();
        (copy.meta.iif, copy.meta.oif) = (device, 0);
        copy.meta.tc_depth += 1;
        if from == Hook::Ingress {
            self.pass_up(&mut copy, None);
            self.state.buffers.spare.push(copy);
        } else {
            // netif_rx(): received when what is being done is done.
            self.state.buffers.backlog.push_back((copy, None));
        }
    }
}
