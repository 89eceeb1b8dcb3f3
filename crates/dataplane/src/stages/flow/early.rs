// SPDX-License-Identifier: Apache-2.0

//! Early ingress: bursts of frames directly after reception, before taps and everything else ("New
//! fast forwarding path", 2018).
//!
//! Packets of one flow within a burst are a chain: found once, rewritten alike, sent one after the
//! other. They are not merged, so nothing has to be cut again. What falls back is received in its
//! place among what is left of the burst; a packet that may be overtaken (a fragment, an ICMP
//! message) keeps what follows between the same hosts after it. A SYN of a flow may end it: what
//! comes before in both directions is sent before, and what follows is looked up after.

use penstock_flowtable::ArrivalId;
use penstock_flowtable::encap::Lately;
use penstock_net::Mac;
use penstock_packet::{Frame, Packet};
use penstock_program::image::FlowtableIndex;
use penstock_wire::cache::prefetch;
use penstock_wire::{ethernet, protocol};

use crate::flow::FlowRef;
use crate::flow::around::{self, FlowCandidate};
use crate::flow::burst_packet::BurstPacket;
use crate::flow::flow_packet::{self, FlowPacket, Not};
use crate::flow::resolved::Resolved;
use crate::flow::scratch::Scratch;
use crate::flow::table::Table;
use crate::hook_result::HookResult;
use crate::pending_frames::PendingFrames;
use crate::plain_frame::{self, PlainFrame};
use crate::sink::Sink;
use crate::stages::flow::chain::Chain;
use crate::stages::flow::to_wire::Obstacle;
use crate::worker::Worker;

/// Where frames of a device arrive.
#[derive(Clone, Copy)]
struct Arrives {
    mac: Mac,
    /// Address of the bridge that it is a port of, else the same.
    bridge: Mac,
    /// Both, as the beginnings of frames have them.
    receivers: [u64; 2],
    arrival: ArrivalId,
}

impl<S: Sink> Worker<'_, S> {
    /// Sends away what flowtables at early ingress take of a burst; returns what is left.
    pub(crate) fn early_ingress(
        &mut self,
        frames: &[Frame<'_>],
        left: PendingFrames,
        packet: &mut Packet,
    ) -> PendingFrames {
        let Some(mut scratch) = self.state.flows.scratch.take() else { return left };
        if let Some(frame) = frames.first() {
            self.pass_time(frame.time);
        }
        self.state.flows.drop_ended(&mut self.state.conntrack);
        scratch.kept_apart = 0;
        let hooks = self.hooks;
        let mut left = left;
        if self.state.ipsec.is_some() {
            left = self.early_esp(frames, left, &mut scratch, packet);
        }
        let mut todo = left;
        while let Some(frame) = todo.first().and_then(|at| frames.get(at)) {
            let device = frame.device;
            let others = frames.iter().fold(0, |others, frame| others | (frame.device ^ device));
            let mut same = match others {
                0 => todo,
                _ => todo.and(|at| frames.get(at).is_some_and(|f| f.device == device)),
            };
            if let Some(other) = todo.without(same).first()
                && todo.into_iter().any(|at| frames.get(at).is_some_and(|f| self.may_be_syn(f)))
            {
                same = same.and(|at| at < other);
            }
            todo = todo.without(same);
            let mut rest = same;
            for index in hooks.early(device) {
                if rest != PendingFrames::NONE {
                    rest =
                        rest.without(self.early_table(*index, frames, rest, &mut scratch, packet));
                }
            }
            left = left.without(same.without(rest));
        }
        self.state.flows.scratch = Some(scratch);
        left
    }

    /// Early ingress of one flowtable and frames of its devices; returns those that left.
    fn early_table(
        &mut self,
        index: FlowtableIndex,
        frames: &[Frame<'_>],
        these: PendingFrames,
        scratch: &mut Scratch,
        packet: &mut Packet,
    ) -> PendingFrames {
        self.find_chains(index, frames, these, scratch);
        if scratch.syns != PendingFrames::NONE && scratch.chains > 1 {
            let syns = self.syns_of_flows(index, scratch);
            if syns != PendingFrames::NONE {
                return self.early_parts(index, frames, apart_from(these, syns), scratch, packet);
            }
        }
        self.send_chains(index, frames, scratch, packet)
    }

    /// Early ingress of parts of a burst, one after the other.
    #[cold]
    fn early_parts(
        &mut self,
        index: FlowtableIndex,
        frames: &[Frame<'_>],
        parts: impl Iterator<Item = PendingFrames>,
        scratch: &mut Scratch,
        packet: &mut Packet,
    ) -> PendingFrames {
        let mut gone = PendingFrames::NONE;
        for part in parts {
            self.find_chains(index, frames, part, scratch);
            gone = gone.and_also(self.send_chains(index, frames, scratch, packet));
        }
        gone
    }

    /// Those SYNs of a burst that belong to flows.
    #[cold]
    fn syns_of_flows(&self, index: FlowtableIndex, scratch: &Scratch) -> PendingFrames {
        let Some(table) = self.state.flows.table(index) else { return PendingFrames::NONE };
        scratch.syns.and(|at| {
            let key = scratch.key(at);
            table.flows.find(table.flows.hash(&key), &key).is_some()
        })
    }

    /// Whether a frame may be a SYN for one of its device's flowtables.
    #[cold]
    fn may_be_syn(&self, frame: &Frame<'_>) -> bool {
        let around =
            |index: &FlowtableIndex| self.state.flows.table(*index).is_some_and(|t| t.around);
        match flow_packet::is_syn(frame.bytes) {
            Some(is) => is,
            None => self.hooks.early(frame.device).iter().any(around),
        }
    }

    /// Sends the chains that were found.
    #[inline(always)]
    fn send_chains(
        &mut self,
        index: FlowtableIndex,
        frames: &[Frame<'_>],
        scratch: &mut Scratch,
        packet: &mut Packet,
    ) -> PendingFrames {
        let mut gone = PendingFrames::NONE;
        let mut next = 0;
        while let Some(stop) = self.send_to_wires(index, frames, scratch, &mut next, &mut gone) {
            let Obstacle { flow, begin, at } = stop;
            let chain = Chain { flow, frames, first: at };
            gone = gone.and_also(self.send_rest(&chain, scratch, packet));
            if at != begin
                && gone.has(at)
                && let Some(table) = self.state.flows.table_mut(index)
            {
                table.counts.chained += 1;
            }
        }
        gone
    }

    /// Reads frames, all of one device, and puts those of one flow into chains.
    #[inline(always)]
    fn find_chains(
        &mut self,
        index: FlowtableIndex,
        frames: &[Frame<'_>],
        these: PendingFrames,
        scratch: &mut Scratch,
    ) {
        /// Frames between the one that is read and the one that is fetched.
        const FETCHED: usize = 8;
        scratch.begin();
        let chained = self.settings.flow.chains;
        let Some(table) = self.state.flows.table_mut(index) else { return };
        let mut lately = table.lately.take();
        let Some(table) = self.state.flows.table(index) else { return };
        let device = these.first().and_then(|at| frames.get(at)).map(|frame| frame.device);
        let here = device.and_then(|device| self.arrives(table, device));
        if let Some(here) = here {
            for at in these {
                let Some(frame) = frames.get(at) else { break };
                frames.get(at + FETCHED).and_then(|later| later.bytes.first()).map(prefetch);
                let Some(start) = PlainFrame::read(frame.bytes) else {
                    chain_other(table, frame, at, (&here, chained), &mut lately, scratch);
                    continue;
                };
                if !(start.is_to(here.receivers[0]) || start.is_to(here.receivers[1])) {
                    continue;
                }
                let packet = BurstPacket::of(&start, here.arrival);
                if scratch.is_apart(|| packet.key4().key()) {
                    continue;
                }
                let hash = || table.flows.hash4(&packet.key4());
                if let Some(hash) = scratch.chain(at, packet, hash, chained) {
                    table.flows.prefetch(hash);
                }
            }
        }
        if let Some(table) = self.state.flows.table_mut(index) {
            table.lately = lately;
        }
    }

    fn arrives(&self, table: &Table, device: u32) -> Option<Arrives> {
        let link = self.net.link(device).filter(|l| l.up)?;
        let arrival = table.plain(device);
        let bridge =
            link.port.as_ref().and_then(|p| self.net.link(p.bridge)).map_or(link.mac, |b| b.mac);
        (arrival != Table::NOWHERE || table.around).then_some(Arrives {
            mac: link.mac,
            bridge,
            receivers: [link.mac, bridge].map(|mac| plain_frame::receiver(mac.0)),
            arrival,
        })
    }

    /// Sends a frame through its device as other packets.
    pub(crate) fn send_flow_frame(
        &mut self,
        flow: FlowRef,
        frame: &Frame<'_>,
        seen: &FlowPacket,
        xmit: &Resolved,
        packet: &mut Packet,
    ) {
        let Some(link) = self.net.link(frame.device) else { return };
        packet.receive_ethernet(frame.bytes, link.mac);
        packet.meta.time = frame.time;
        packet.meta.iif = frame.device;
        self.send_flow(flow, seen, xmit, packet);
        self.drain();
    }

    /// Early ingress of a super-packet. Whether it left.
    pub(crate) fn early_super(&mut self, packet: &mut Packet) -> bool {
        let hooks = self.hooks;
        hooks
            .early(packet.meta.iif)
            .iter()
            .any(|index| self.flowtable(*index, packet) != HookResult::Accept)
    }
}

/// Reads a frame that is not plain, and puts it into its chain. If it is of no flow, what follows
/// may have to stay behind it.
#[inline(never)]
fn chain_other(
    table: &Table,
    frame: &Frame<'_>,
    at: usize,
    (here, chained): (&Arrives, bool),
    lately: &mut Option<Box<Lately>>,
    scratch: &mut Scratch,
) {
    let Some((link, network)) = frame.bytes.split_first_chunk::<{ ethernet::LEN }>() else {
        return;
    };
    if link[..6] != here.mac.0 && link[..6] != here.bridge.0 {
        return;
    }
    let ethertype = u16::from_be_bytes([link[12], link[13]]);
    let tunnelled =
        |network: &[u8]| matches!(network.get(9), Some(&(protocol::IPIP | protocol::IPV6)));
    let mut seen = match ethertype {
        ethernet::IPV4 if table.around && tunnelled(network) => Err(Not::Other),
        ethernet::IPV4 => flow_packet::ipv4(network, here.arrival),
        ethernet::IPV6 => flow_packet::ipv6(network, here.arrival),
        _ => Err(Not::Other),
    };
    if seen.is_err() && table.around {
        let lately = lately.get_or_insert_default();
        match around::find(&table.flows, lately, frame.device, None, ethertype, network) {
            FlowCandidate::Packet(found) => seen = Ok(found),
            FlowCandidate::Not(not @ Not::Between(..)) => seen = Err(not),
            FlowCandidate::Not(Not::Other) => {}
            FlowCandidate::Hidden => scratch.keep_all_apart(),
        }
    }
    match seen {
        Ok(seen) if !scratch.is_apart(|| seen.key) => {
            let hash = || table.flows.hash(&seen.key);
            if let Some(hash) = scratch.chain_any(at, &seen, hash, chained) {
                table.flows.prefetch(hash);
            }
        }
        Ok(_) | Err(Not::Other) => {}
        Err(Not::Between(src, dst)) => scratch.keep_apart(src, dst),
    }
}

/// Parts of a burst around some of its frames: what comes before, the frame alone, what follows.
fn apart_from(burst: PendingFrames, some: PendingFrames) -> impl Iterator<Item = PendingFrames> {
    let mut rest = burst;
    std::iter::from_fn(move || {
        let first = rest.first()?;
        let part = match some.and(|at| at >= first).first() {
            Some(at) if at == first => PendingFrames::NONE.with(first),
            Some(at) => rest.and(|other| other < at),
            None => rest,
        };
        rest = rest.without(part);
        Some(part)
    })
}
