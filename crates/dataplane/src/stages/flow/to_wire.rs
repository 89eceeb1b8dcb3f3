// SPDX-License-Identifier: Apache-2.0

//! Chains over IPv4 that leave by a wire without taps, which is the usual case. Everything else,
//! and packets with an obstacle, are for [`Worker::send_rest`](super::chain).

use penstock_flowtable::tunnel::Head;
use penstock_flowtable::{HalfId, XmitId, rewrite};
use penstock_net::{Link, Network};
use penstock_packet::{Frame, Meta};
use penstock_program::image::FlowtableIndex;
use penstock_wire::ethernet;

use crate::flow::direction::of_connection;
use crate::flow::resolved::Kind;
use crate::flow::scratch::{END, Scratch, copy};
use crate::flow::table::Table;
use crate::flow::{FlowRef, around, flow_packet, token};
use crate::pending_frames::{BURST, PendingFrames};
use crate::sink::Sink;
use crate::state::State;
use crate::worker::Worker;

/// Chains between the one that leaves and the one whose flow is fetched: about as many as a
/// processor fetches lines at a time.
const AHEAD: usize = 16;

/// Where a chain could not continue.
pub(super) struct Obstacle {
    pub(super) flow: FlowRef,
    /// The first frame of the chain.
    pub(super) begin: usize,
    /// The frame that is not sent.
    pub(super) at: usize,
}

/// The wire by which a chain leaves. Those that follow it often do, too.
struct Wire<'a> {
    xmit: XmitId,
    link: &'a Link,
    mtu: u32,
    /// Bytes in front of the packet.
    before: usize,
    /// Headers in front of it, if they are not the same for all packets.
    head: Option<Head>,
}

/// The wire of a way, if it is known and packets may leave by it at once. `out` and `meta` are made
/// ready for its packets.
#[inline]
fn wire<'a>(
    net: &'a Network,
    (table, epoch): (&Table, u32),
    xmit: XmitId,
    out: &mut Vec<u8>,
    meta: &mut Meta,
) -> Option<Wire<'a>> {
    let to = table.resolved(xmit, epoch).filter(|to| to.kind == Kind::Wire)?;
    let link = net.link(to.device)?;
    let head = if to.around { table.head(xmit).copied() } else { None };
    let before = head.as_ref().map_or(ethernet::LEN, Head::len);
    if out.len() < before + to.mtu as usize {
        out.resize(before + to.mtu as usize, 0);
    }
    if head.is_none() {
        to.put_link(out, ethernet::IPV4);
    }
    meta.protocol = ethernet::IPV4;
    meta.oif = to.device;
    Some(Wire { xmit, link, mtu: to.mtu, before, head })
}

/// The direction of a flow that the chain from a frame on is of, if it is not the likely one.
#[inline(never)]
fn find(table: &Table, begin: usize, scratch: &Scratch) -> Option<HalfId> {
    let hash = scratch.hashes[begin];
    let packet = &scratch.packets[begin];
    match packet.is_v6() {
        false => table.flows.find4(hash, &packet.key4()),
        true => table.flows.find(hash, &scratch.key(begin)).map(HalfId::of),
    }
}

impl<S: Sink> Worker<'_, S> {
    /// Sends chains from number `next` on, as long as nothing speaks against it, and skips those of
    /// no flow. Says where it stopped; `next` is the chain after that.
    #[inline(always)]
    pub(super) fn send_to_wires(
        &mut self,
        index: FlowtableIndex,
        frames: &[Frame<'_>],
        scratch: &mut Scratch,
        next: &mut usize,
        gone: &mut PendingFrames,
    ) -> Option<Obstacle> {
        let Worker { net, state, sink, .. } = self;
        let State { flows, conntrack, counters, numbers, .. } = &mut **state;
        let network = flows.network;
        let (table, epoch) = flows.at(index)?;
        let chains = scratch.chains.min(BURST);
        if *next == 0 {
            for &first in &scratch.first[..chains.min(AHEAD)] {
                let first = usize::from(first) % BURST;
                scratch.likely[first] = table.flows.prefetch_flow(scratch.hashes[first]);
            }
        }
        let mut known: Option<Wire<'_>> = None;
        let (mut sent, mut after_first) = (0, 0);
        let stop = loop {
            let Some(&begin) = scratch.first[..chains].get(*next) else { break None };
            if let Some(&ahead) = scratch.first[..chains].get(*next + AHEAD) {
                let ahead = usize::from(ahead) % BURST;
                scratch.likely[ahead] = table.flows.prefetch_flow(scratch.hashes[ahead]);
            }
            *next += 1;
            let begin = usize::from(begin) % BURST;
            let likely = scratch.likely[begin];
            let id = if table.flows.is4(likely, &scratch.packets[begin].key4()) {
                likely
            } else {
                let Some(id) = find(table, begin, scratch) else { continue };
                id
            };
            let flow = FlowRef { table: index, at: id.at() };
            let Some(half) = table.flows.half_by_id(id) else { continue };
            let (xmit, protocol) = (half.xmit, half.protocol());
            if half.network != network || !half.is_ipv4() {
                break Some(Obstacle { flow, begin, at: begin });
            }
            if known.as_ref().is_none_or(|wire| wire.xmit != xmit) {
                let Scratch { out, meta, .. } = &mut *scratch;
                known = wire(net, (table, epoch), xmit, out, meta);
            }
            let Some(to) = &known else {
                break Some(Obstacle { flow, begin, at: begin });
            };
            let timeout = table.timeouts.of(protocol);
            let Some(half) = table.flows.half_by_id(id) else { continue };
            let Scratch { out, meta, packets, next: following, .. } = &mut *scratch;
            let (mut count, mut bytes, mut latest) = (0, 0, half.used);
            let mut member = begin;
            let rest = loop {
                let Some(frame) = frames.get(member) else { break None };
                let packet = &packets[member % BURST];
                let len = packet.len as usize;
                let usual = packet.flags & flow_packet::tcp_flag::ANY == 0
                    && packet.len <= to.mtu
                    && frame.time <= latest.saturating_add(timeout);
                let start = ethernet::LEN + usize::from(packet.at);
                let (Some(from), Some(whole)) =
                    (frame.bytes.get(start..start + len), out.get_mut(..to.before + len))
                else {
                    break Some(member);
                };
                if !usual {
                    break Some(member);
                }
                let place = &mut whole[to.before..];
                copy(from, place);
                rewrite::ipv4(half, place);
                if let Some(head) = &to.head {
                    let id = if head.wants_id() { around::next_id(&mut numbers.ip_id) } else { 0 };
                    head.write(whole, id);
                }
                meta.time = frame.time;
                sink.transmit(to.link, whole, meta);
                count += 1;
                bytes += u64::from(packet.len);
                latest = latest.max(frame.time);
                *gone = gone.with(member);
                member = usize::from(following[member % BURST]);
                if member == usize::from(END) {
                    break None;
                }
            };
            if count > 0 {
                half.count(latest, count, bytes);
                sent += count;
                after_first += count - 1;
                if table.counter {
                    let connection = token::connection(table.flows.life(flow.at.flow).connection);
                    if let Some(n) = conntrack.resolve_ref(connection) {
                        let direction = of_connection(flow.at.direction);
                        conntrack.count_offloaded(n, direction, count, bytes);
                    }
                }
            }
            if let Some(at) = rest {
                break Some(Obstacle { flow, begin, at });
            }
        };
        counters.received += sent;
        counters.fast += sent;
        counters.transmitted += sent;
        table.counts.packets += sent;
        table.counts.chained += after_first;
        stop
    }
}
