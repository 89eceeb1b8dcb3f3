// SPDX-License-Identifier: Apache-2.0

//! Chains over IPv4 that leave by a wire without taps, which is the usual case. Everything else,
//! and packets with an obstacle, are for [`Worker::send_chain`](super::early).

use penstock_flowtable::rewrite;
use penstock_flowtable::tunnel::Head;
use penstock_packet::Frame;
use penstock_wire::ethernet;

use crate::flow::resolved::Kind;
use crate::flow::scratch::{END, Scratch, copy};
use crate::flow::{FlowRef, around, flow_packet};
use crate::pending_frames::PendingFrames;
use crate::sink::Sink;
use crate::state::State;
use crate::worker::Worker;

impl<S: Sink> Worker<'_, S> {
    /// Sends the frames of a chain from `first` on, as long as nothing speaks against it. Returns
    /// the frame that is not sent, if there is one.
    #[inline(always)]
    pub(crate) fn send_to_wire(
        &mut self,
        flow: FlowRef,
        frames: &[Frame<'_>],
        first: usize,
        scratch: &mut Scratch,
        gone: &mut PendingFrames,
    ) -> Option<usize> {
        let Worker { net, state, sink, .. } = self;
        let State { flows, counters, numbers, .. } = &mut **state;
        let network = flows.network;
        let Some((table, epoch)) = flows.at(flow.table) else { return Some(first) };
        let half = table.flows.half(flow.at);
        let xmit = table.resolved(half.xmit, epoch);
        let Some(xmit) = xmit.filter(|xmit| xmit.kind == Kind::Wire) else { return Some(first) };
        let Some(link) = net.link(xmit.device) else { return Some(first) };
        if half.network != network || !half.is_ipv4() {
            return Some(first);
        }
        let timeout = table.timeouts.of(half.protocol());
        let Scratch { out, meta, seen, next, .. } = scratch;
        let head = if xmit.around { table.head(half.xmit) } else { None };
        let before = head.map_or(ethernet::LEN, Head::len);
        if out.len() < before + xmit.mtu as usize {
            out.resize(before + xmit.mtu as usize, 0);
        }
        if head.is_none() {
            out[..12].copy_from_slice(&xmit.link);
            out[12..ethernet::LEN].copy_from_slice(&ethernet::IPV4.to_be_bytes());
        }
        meta.protocol = ethernet::IPV4;
        meta.oif = xmit.device;
        let (mut packets, mut bytes, mut latest) = (0, 0, half.used);
        let mut member = first;
        let rest = loop {
            let Some((frame, seen)) = frames.get(member).zip(seen.get(member)) else { break None };
            let len = seen.len as usize;
            let usual = seen.flags & flow_packet::tcp_flag::ANY == 0
                && seen.len <= xmit.mtu
                && frame.time <= latest.saturating_add(timeout);
            let start = ethernet::LEN + usize::from(seen.at);
            let (Some(from), Some(whole)) =
                (frame.bytes.get(start..start + len), out.get_mut(..before + len))
            else {
                break Some(member);
            };
            if !usual {
                break Some(member);
            }
            let to = &mut whole[before..];
            copy(from, to);
            rewrite::ipv4(half, to);
            if let Some(head) = head {
                let id = if head.wants_id() { around::next_id(&mut numbers.ip_id) } else { 0 };
                head.write(whole, id);
            }
            meta.time = frame.time;
            sink.transmit(link, whole, meta);
            packets += 1;
            bytes += u64::from(seen.len);
            latest = latest.max(frame.time);
            *gone = gone.with(member);
            member = usize::from(next[member]);
            if member == usize::from(END) {
                break None;
            }
        };
        if packets > 0 {
            counters.received += packets;
            counters.fast += packets;
            counters.transmitted += packets;
            table.counts.chained += packets - 1;
            self.state.flows.count_flow(&mut self.state.conntrack, flow, latest, packets, bytes);
        }
        rest
    }
}
