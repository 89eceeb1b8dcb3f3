// SPDX-License-Identifier: Apache-2.0

//! Sends the chains of early ingress that need more than [`Worker::send_to_wire`] does: IPv6, what
//! passes rules or queues of its device, IPsec, and packets that end their flow or fall back.

use penstock_flowtable::tunnel::Head;
use penstock_flowtable::{Half, rewrite};
use penstock_net::Link;
use penstock_packet::{Frame, Meta, Packet};
use penstock_wire::ethernet;

use crate::flow::FlowRef;
use crate::flow::fate::{Fate, fate};
use crate::flow::flow_packet::{self, FlowPacket};
use crate::flow::resolved::{Kind, Resolved};
use crate::flow::scratch::{Scratch, copy, make_room};
use crate::flow::table::Cause;
use crate::pending_frames::PendingFrames;
use crate::reason::DropReason;
use crate::sink::Sink;
use crate::stages::flow::ipsec::Sealing;
use crate::worker::Worker;

/// Frames of a burst that are of one direction of a flow, from the first that is still to be sent.
pub(super) struct Chain<'c, 'f> {
    pub(super) flow: FlowRef,
    /// All frames of the burst.
    pub(super) frames: &'c [Frame<'f>],
    /// Number of the first frame; [`Scratch::following`] has the others.
    pub(super) first: usize,
}

/// Where the frames of a chain leave.
enum Out<'a> {
    /// By a wire, where nothing looks at them.
    Wire(ToWire<'a>),
    /// By such a wire, encrypted.
    Sealed(Sealing<'a>),
    /// Through their device, as other packets do.
    Device,
}

/// What all frames of a chain that leave by a wire have in common.
pub(super) struct ToWire<'a> {
    pub(super) link: &'a Link,
    pub(super) half: Half,
    /// [`Flowtable::addresses`](penstock_flowtable::Flowtable::addresses), for IPv6.
    pub(super) addresses: [[u64; 2]; 2],
    /// Headers in front of the packets.
    pub(super) head: Option<Head>,
}

impl ToWire<'_> {
    /// Bytes in front of a packet.
    pub(super) fn before(&self) -> usize {
        self.head.as_ref().map_or(ethernet::LEN, Head::len)
    }
}

/// Packets of a chain that have left and are not counted yet, and when the latest came.
#[derive(Default)]
struct Sent {
    packets: u64,
    bytes: u64,
    chained: u64,
    latest: u64,
}

impl<'a, S: Sink> Worker<'a, S> {
    /// Sends a chain, or what is left of it, whatever it takes. Returns the frames that have left.
    #[inline(never)]
    pub(super) fn send_rest(
        &mut self,
        chain: &Chain<'_, '_>,
        scratch: &mut Scratch,
        packet: &mut Packet,
    ) -> PendingFrames {
        let &Chain { flow: FlowRef { table: index, at }, frames, first } = chain;
        let network = self.state.flows.network;
        let Some((table, epoch)) = self.state.flows.at(index) else { return PendingFrames::NONE };
        let half = *table.flows.half(at);
        // Nearly always all is known already.
        let known = table.resolved(half.xmit, epoch).filter(|_| half.network == network).copied();
        if let Some(xmit) = known {
            return self.send_chain(chain, (&half, &xmit), scratch, packet);
        }
        if self.flow_is_current(index, at) {
            if let Some(xmit) = self.xmit(index, at) {
                return self.send_chain(chain, (&half, &xmit), scratch, packet);
            }
        } else if let Some(frame) = frames.get(first) {
            let (flows, conntrack) = (&mut self.state.flows, &mut self.state.conntrack);
            flows.end_flow(conntrack, index, at.flow, Cause::TornDown, frame.time);
        }
        PendingFrames::NONE
    }

    /// Sends the frames of a chain, up to one that falls back.
    #[inline(always)]
    fn send_chain(
        &mut self,
        chain: &Chain<'_, '_>,
        (half, xmit): (&Half, &Resolved),
        scratch: &mut Scratch,
        packet: &mut Packet,
    ) -> PendingFrames {
        let &Chain { flow: FlowRef { table: index, at }, frames, first } = chain;
        let mut gone = PendingFrames::NONE;
        let Some(table) = self.state.flows.table(index) else { return gone };
        let timeout = table.timeouts.of(half.protocol());
        let out = self.xmit_out(chain, half, xmit, scratch);
        let mut sent = Sent { latest: half.used, ..Sent::default() };
        let mut member = Some(first);
        while let Some(now) = member
            && let Some(frame) = frames.get(now)
        {
            let seen = scratch.seen(now);
            // All that speaks against it is rare.
            let usual = seen.flags & flow_packet::tcp_flag::ANY == 0
                && seen.len <= xmit.mtu
                && xmit.kind != Kind::Gone
                && frame.time <= sent.latest.saturating_add(timeout);
            let fate = if !self.is_usable(xmit, frame.time) {
                Fate::Ends(Cause::TornDown)
            } else if usual {
                Fate::Goes
            } else {
                // It asks when the flow was used last.
                self.count_chain(chain, &out, &mut sent);
                let Some(table) = self.state.flows.table_mut(index) else { break };
                fate(table, at, &seen, seen.len, xmit, frame.time)
            };
            if fate != Fate::Goes {
                self.count_chain(chain, &out, &mut sent);
                self.fall_back(chain, now, scratch);
                if let Fate::Ends(cause) = fate {
                    let (flows, conntrack) = (&mut self.state.flows, &mut self.state.conntrack);
                    flows.end_flow(conntrack, index, at.flow, cause, frame.time);
                }
                return gone;
            }
            match &out {
                Out::Wire(wire) => {
                    if !self.send_frame_to_wire(wire, frame, &seen, scratch) {
                        self.count_chain(chain, &out, &mut sent);
                        self.fall_back(chain, now, scratch);
                        return gone;
                    }
                }
                Out::Sealed(sealing) => {
                    let ahead = scratch.following(now).and_then(|next| frames.get(next));
                    if !self.seal_frame(sealing, (frame, ahead), &seen, scratch, packet) {
                        packet.load(frame.bytes, ethernet::LEN);
                        packet.meta.time = frame.time;
                        self.drop(DropReason::XfrmOutBundleGenError, packet);
                    }
                }
                Out::Device => self.send_flow_frame(chain.flow, frame, &seen, xmit, packet),
            }
            sent.packets += 1;
            sent.bytes += u64::from(seen.len);
            sent.chained += u64::from(now != first);
            sent.latest = sent.latest.max(frame.time);
            gone = gone.with(now);
            member = scratch.following(now);
        }
        self.count_chain(chain, &out, &mut sent);
        gone
    }

    /// Where a chain leaves; `scratch` has what the frames begin with, and their metadata.
    fn xmit_out<'w>(
        &self,
        chain: &Chain<'_, '_>,
        half: &'w Half,
        xmit: &Resolved,
        scratch: &mut Scratch,
    ) -> Out<'w>
    where
        'a: 'w,
    {
        let Some(table) = self.state.flows.table(chain.flow.table) else { return Out::Device };
        let addresses =
            if half.is_ipv4() { [[0; 2]; 2] } else { table.flows.addresses(chain.flow.at) };
        let protocol = if half.is_ipv4() { ethernet::IPV4 } else { ethernet::IPV6 };
        // All else in it is always as it is at first.
        (scratch.meta.protocol, scratch.meta.oif) = (protocol, xmit.device);
        let Some(link) = self.net.link(xmit.device) else { return Out::Device };
        match xmit.kind {
            Kind::Wire => {
                let Some(wire) = self.to_wire(chain.flow, xmit) else { return Out::Device };
                if wire.head.is_none() {
                    xmit.put_link(&mut scratch.out, protocol);
                }
                Out::Wire(wire)
            }
            Kind::Ipsec(_, Some(straight)) => {
                Out::Sealed(Sealing { straight, link, half, addresses, addressed: xmit.link })
            }
            Kind::Ipsec(_, None) | Kind::Device | Kind::Gone => Out::Device,
        }
    }

    /// What packets of a flow that leave by a wire have in common.
    pub(super) fn to_wire(&self, flow: FlowRef, xmit: &Resolved) -> Option<ToWire<'a>> {
        let link = self.net.link(xmit.device)?;
        let table = self.state.flows.table(flow.table)?;
        let half = *table.flows.half(flow.at);
        let addresses = if half.is_ipv4() { [[0; 2]; 2] } else { table.flows.addresses(flow.at) };
        let head = if xmit.around { table.head(half.xmit).copied() } else { None };
        Some(ToWire { link, half, addresses, head })
    }

    /// Whether packets can leave by a way at a time, as far as its IPsec states go.
    #[inline(always)]
    fn is_usable(&mut self, xmit: &Resolved, now: u64) -> bool {
        match xmit.kind {
            Kind::Ipsec(number, straight) => self.ipsec_is_usable(number, straight, now),
            Kind::Wire | Kind::Device | Kind::Gone => true,
        }
    }

    /// A frame is copied to where it leaves from, rewritten there and sent; `false` if it is
    /// shorter than it says.
    #[inline(always)]
    fn send_frame_to_wire(
        &mut self,
        wire: &ToWire<'_>,
        frame: &Frame<'_>,
        seen: &FlowPacket,
        scratch: &mut Scratch,
    ) -> bool {
        let (len, before) = (seen.len as usize, wire.before());
        let end = before + len;
        make_room(&mut scratch.out, end);
        let start = ethernet::LEN + usize::from(seen.at);
        let (Some(from), Some(to)) =
            (frame.bytes.get(start..start + len), scratch.out.get_mut(before..end))
        else {
            return false;
        };
        copy(from, to);
        scratch.meta.time = frame.time;
        self.rewrite_to_wire(wire, &mut scratch.out[..end], &scratch.meta);
        true
    }

    /// Rewrites a packet that is where it leaves from, and sends it. `frame` has the link header in
    /// front of it, or room for what comes there instead.
    #[inline(always)]
    pub(super) fn rewrite_to_wire(&mut self, wire: &ToWire<'_>, frame: &mut [u8], meta: &Meta) {
        let packet = frame.get_mut(wire.before()..).unwrap_or_default();
        if wire.half.is_ipv4() {
            rewrite::ipv4(&wire.half, packet);
        } else {
            rewrite::ipv6(&wire.half, wire.addresses, packet);
        }
        if let Some(head) = &wire.head {
            let id = if head.wants_id() { self.next_ip_id() } else { 0 };
            head.write(frame, id);
        }
        self.sink.transmit(wire.link, frame, meta);
    }

    /// What is left of a chain from a frame on takes the slow path.
    fn fall_back(&mut self, chain: &Chain<'_, '_>, now: usize, scratch: &mut Scratch) {
        scratch.keep_after(now);
        if let Some(table) = self.state.flows.table_mut(chain.flow.table) {
            table.counts.fell_back += 1;
        }
    }

    /// Notes what of a chain has left.
    #[inline]
    fn count_chain(&mut self, chain: &Chain<'_, '_>, out: &Out<'_>, sent: &mut Sent) {
        let Sent { packets, bytes, chained, latest } =
            std::mem::replace(sent, Sent { latest: sent.latest, ..Sent::default() });
        if packets == 0 {
            return;
        }
        self.state.counters.received += packets;
        if let Out::Wire(_) = out {
            self.state.counters.fast += packets;
            self.state.counters.transmitted += packets;
        }
        let (flows, conntrack) = (&mut self.state.flows, &mut self.state.conntrack);
        flows.count_flow(conntrack, chain.flow, latest, packets, bytes);
        if let Some(table) = self.state.flows.table_mut(chain.flow.table) {
            table.counts.chained += chained;
        }
    }
}
