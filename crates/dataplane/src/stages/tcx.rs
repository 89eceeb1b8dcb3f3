// SPDX-License-Identifier: Apache-2.0

//! Programs of traffic control, at tcx: before the filters of tc at both ends of a device
//! (`tcx_run()`, `sch_handle_ingress()`, `sch_handle_egress()`).

use penstock_ebpfvm::{Context as ProgramContext, Counts, Skb};
use penstock_packet::{Packet, PacketType, VlanTag};
use penstock_tc::Hook;

use crate::bpf::{BpfAttachment, SKB};
use crate::reason::DropReason;
use crate::sink::Sink;
use crate::stages::mirred::Sent;
use crate::worker::Worker;

/// Verdicts (`enum tcx_action_base`); all others are like the next program's.
const PASS: u32 = 0;
const DROP: u32 = 2;
const REDIRECT: u32 = 7;

/// What programs make of a packet.
pub(super) enum Tcx {
    /// The filters of tc see it next.
    Next,
    /// It continues, past the filters of tc.
    Passed,
    /// It ends; whether its sender takes it for sent.
    Ended(bool),
}

impl<S: Sink> Worker<'_, S> {
    /// The programs at a hook of a device.
    #[inline(never)]
    pub(super) fn tcx(&mut self, hook: Hook, device: u32, packet: &mut Packet) -> Tcx {
        let Some(programs) = self.state.bpf.tc(hook, device).cloned() else { return Tcx::Next };
        for attached in programs.iter() {
            let BpfAttachment { program, label, counts, .. } = &**attached;
            let mut context = self.state.bpf.take(SKB);
            if let ProgramContext::Skb(skb) = &mut *context {
                self.fill_skb(skb, hook, device, packet);
            }
            let time = packet.meta.time;
            let verdict = self.run_program(program, (label, counts), &mut context, time);
            let mut redirect = None;
            if let ProgramContext::Skb(skb) = &*context {
                redirect = skb.redirect;
                take_back(skb, packet);
            }
            self.state.bpf.give_back(SKB, context);
            match verdict {
                Some(PASS) => {
                    Counts::count(&counts.passed);
                    return Tcx::Passed;
                }
                Some(DROP) => {
                    Counts::count(&counts.dropped);
                    self.drop(DropReason::Tc, packet);
                    return Tcx::Ended(false);
                }
                Some(REDIRECT) => {
                    let Some(to) = redirect.filter(|to| self.net.link(to.device).is_some()) else {
                        Counts::count(&counts.nowhere);
                        self.drop(DropReason::Tc, packet);
                        return Tcx::Ended(false);
                    };
                    Counts::count(&counts.redirected);
                    if let Sent::TooOften = self.redirect(packet, to.device, to.ingress) {
                        self.drop(DropReason::Recursion, packet);
                        return Tcx::Ended(false);
                    }
                    self.state.counters.taken += 1;
                    self.state.counters.absorbed += 1;
                    return Tcx::Ended(true);
                }
                Some(_) => _ = Counts::count(&counts.passed),
                None => {
                    self.drop(DropReason::BpfFault, packet);
                    return Tcx::Ended(false);
                }
            }
        }
        Tcx::Next
    }

    /// `skb_do_redirect()`: to ingress a packet comes as from a wire, when what is being done is
    /// done.
    fn redirect(&mut self, packet: &mut Packet, device: u32, ingress: bool) -> Sent {
        if ingress && let Some(link) = self.net.link(device) {
            let destination = packet.link().first_chunk().copied().map(penstock_net::Mac);
            packet.meta.packet_type = destination
                .map_or(PacketType::Host, |to| penstock_packet::packet_type(to, link.mac));
        }
        // As what an egress filter sends: received later.
        self.tc_send(packet, Hook::Egress, device, ingress)
    }

    /// What a program sees of a packet.
    fn fill_skb(&self, skb: &mut Skb, hook: Hook, device: u32, packet: &Packet) {
        let meta = &packet.meta;
        skb.packet.set(packet.frame());
        skb.socket = false;
        skb.packet_type = meta.packet_type as u32;
        skb.mark = meta.mark;
        skb.priority = meta.priority;
        skb.protocol = u32::from(meta.protocol.to_be());
        skb.vlan = meta.vlan.map(|tag| (tag.tci, tag.protocol.to_be()));
        skb.ingress_ifindex = if hook == Hook::Ingress { device } else { 0 };
        skb.ifindex = device;
        skb.mtu = self.net.link(device).map_or(0, |link| link.mtu);
        // qdisc_pkt_len_init(): at ingress the link header does not count.
        let link = if hook == Hook::Ingress { 0 } else { packet.link().len() };
        skb.gso_headers = 0;
        let (size, segments, headers) = match (meta.gso, packet.gso_headers()) {
            (Some(gso), Some(headers)) => {
                skb.gso_headers = headers.payload as u32;
                let payload = packet.network().len().saturating_sub(headers.payload);
                let size = usize::from(gso.size).max(1);
                let headers = link + headers.payload;
                (u32::from(gso.size), payload.div_ceil(size) as u32, headers as u32)
            }
            _ => (0, 0, 0),
        };
        (skb.gso_size, skb.gso_segs) = (size, segments);
        let len = (link + packet.network().len()) as u32;
        skb.wire_len = len + segments.saturating_sub(1) * headers;
        (skb.queue_mapping, skb.hash, skb.tstamp, skb.hwtstamp) = (0, 0, 0, 0);
        (skb.tc_index, skb.tc_classid, skb.napi_id) = (0, 0, 0);
        skb.cb = [0; 20];
    }
}

/// What the program has changed.
fn take_back(skb: &Skb, packet: &mut Packet) {
    let meta = &mut packet.meta;
    meta.mark = skb.mark;
    meta.priority = skb.priority;
    meta.protocol = u16::from_be(skb.protocol as u16);
    let tag = |(tci, protocol): (u16, u16)| VlanTag { protocol: u16::from_be(protocol), tci };
    meta.vlan = skb.vlan.map(tag);
    let bytes = skb.packet.bytes();
    if *bytes == *packet.frame() {
        return;
    }
    let (link, at_link) = (packet.link().len(), packet.data_start() < 0);
    let meta = std::mem::take(&mut packet.meta);
    packet.load(bytes, link);
    packet.meta = meta;
    if at_link {
        packet.data_at_link();
    }
}
