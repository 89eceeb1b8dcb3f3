// SPDX-License-Identifier: Apache-2.0

//! Flows through IPsec (`FLOW_OFFLOAD_XMIT_XFRM`): states that packets of a direction go through
//! are part of their way, and packets that must have come through states arrive apart from those in
//! the clear, so that neither is taken for the other.
//!
//! Where no rule can see the encrypted packet it goes to its neighbour at once; otherwise it passes
//! `output` and `postrouting` as any packet of the host's own.

use penstock_conntrack::{Direction as CtDirection, Tuple};
use penstock_flowtable::{Arrival, ArrivalId, At, Direction, Half, Xmit, XmitType, rewrite};
use penstock_net::{Link, Mac};
use penstock_packet::{Frame, Packet};
use penstock_program::Hook;
use penstock_program::image::FlowtableIndex;
use penstock_wire::cache::prefetch;
use penstock_wire::{ethernet, protocol};
use penstock_xfrm::{Direction as PolicyDirection, Flow, Outer, SecPath, Stat};

use crate::addresses::{as_v4, as_v6};
use crate::course::Course;
use crate::flow::flow_packet::{self, FlowPacket};
use crate::flow::resolved::{Kind, Resolved};
use crate::flow::scratch::{Scratch, make_room};
use crate::flow::sealed::DirectState;
use crate::flow::table::Cause;
use crate::flow::{FlowRef, NotOffloaded};
use crate::hook_result::HookResult;
use crate::hooks::Protocol;
use crate::ipsec::reason;
use crate::reason::DropReason;
use crate::route::Route;
use crate::sink::Sink;
use crate::stages::flow::add::Path;
use crate::worker::Worker;

/// What policies are asked about a direction: as its packets arrive (`leaving` not set), or as they
/// leave.
fn policy_flow(
    tuples: &[Tuple; 2],
    direction: Direction,
    leaving: bool,
    mark: u32,
    oif: u32,
) -> Flow {
    let [there, back] = [direction, direction.opposite()].map(|d| &tuples[d as usize]);
    let v6 = there.l3 != penstock_conntrack::tuple::IPV4;
    let number = |bytes: [u8; 16]| {
        let number = u128::from_be_bytes(bytes);
        if v6 { number } else { number >> 96 }
    };
    let ((saddr, sport), (daddr, dport)) = if leaving {
        ((back.dst, back.dst_id), (back.src, back.src_id))
    } else {
        ((there.src, there.src_id), (there.dst, there.dst_id))
    };
    let protocol = there.protocol;
    let (sport, dport) = if protocol == protocol::GRE { (0, 0) } else { (sport, dport) };
    Flow { v6, saddr: number(saddr), daddr: number(daddr), protocol, sport, dport, mark, oif }
}

/// What all frames of a chain have in common that is encrypted where it leaves.
pub(super) struct Sealing<'a> {
    pub(super) straight: DirectState,
    pub(super) link: &'a Link,
    pub(super) half: &'a Half,
    /// [`Flowtable::addresses`](penstock_flowtable::Flowtable::addresses), for IPv6.
    pub(super) addresses: [[u64; 2]; 2],
    /// Link addresses.
    pub(super) addressed: [u8; 12],
}

/// A packet that came out of IPsec.
pub(super) struct InnerPacket<'a> {
    /// From its IP header on.
    pub(super) network: &'a [u8],
    /// Its ethertype.
    pub(super) protocol: u16,
    /// Where it came in.
    pub(super) device: u32,
    pub(super) mark: u32,
    /// What it came through.
    pub(super) path: SecPath,
    pub(super) time: u64,
}

impl InnerPacket<'_> {
    /// What the fast path reads of it, as one that arrives there.
    #[inline(always)]
    pub(super) fn read(&self, arrival: ArrivalId) -> Option<FlowPacket> {
        match self.protocol {
            ethernet::IPV4 => flow_packet::ipv4(self.network, arrival).ok(),
            ethernet::IPV6 => flow_packet::ipv6(self.network, arrival).ok(),
            _ => None,
        }
    }
}

impl<S: Sink> Worker<'_, S> {
    /// The transmissions of a flow with the states that policy requires: that of the given
    /// direction first. Also, by direction, whether its packets must come out of IPsec.
    pub(crate) fn ipsec_xmits(
        &mut self,
        (mark, class, now): (u32, u8, u64),
        tuples: &[Tuple; 2],
        direction: Direction,
        xmits: [Route; 2],
    ) -> Result<([Route; 2], [bool; 2]), NotOffloaded> {
        let mut through = [false; 2];
        let mut found = xmits;
        for (xmit, direction) in found.iter_mut().zip([direction, direction.opposite()]) {
            // Where it comes in is no part of how it leaves.
            let plain = Route { iif: 0, redirect: false, ..self.xfrm_before(xmit) };
            let flow = policy_flow(tuples, direction, true, mark, plain.oif);
            *xmit =
                self.xfrm_lookup_flow(&flow, class, now, plain).map_err(|_| NotOffloaded::Ipsec)?;
            if xmit.is_by_host() {
                return Err(NotOffloaded::Ipsec);
            }
            let flow = policy_flow(tuples, direction, false, mark, plain.oif);
            let Some(ipsec) = self.state.ipsec.as_deref_mut() else { continue };
            match ipsec.xfrm.check(
                PolicyDirection::Forward,
                &flow,
                None,
                &mut SecPath::default(),
                now,
            ) {
                Ok(()) => {}
                Err(Stat::InTmplMismatch) => through[direction as usize] = true,
                Err(_) => return Err(NotOffloaded::Ipsec),
            }
        }
        Ok((found, through))
    }

    /// A way through states, and where answers arrive.
    pub(crate) fn ipsec_path(&self, to: &Route) -> Option<Path> {
        if to.bundle == 0 {
            return None;
        }
        let xmit_type = XmitType::Xfrm(to.bundle);
        let xmit = Xmit { xmit_type, ..Xmit::neighbour(to.oif, [0; 6], [0; 6], to.mtu) };
        Some(Path { xmit, answers: Arrival::on(to.oif) })
    }

    /// Works out a way through states.
    pub(crate) fn resolve_ipsec(&self, number: u32, link: &Link, resolved: &mut Resolved) {
        let Some(xmit) = self.xfrm_bundle(number) else { return };
        resolved.kind = Kind::Ipsec(number, None);
        let &[id] = xmit.states.states() else { return };
        let Some(ipsec) = self.state.ipsec.as_deref() else { return };
        let config = &ipsec.xfrm.state(id).config;
        let v6 = config.destination.is_ipv6();
        let protocol = if v6 { Protocol::Ip6 } else { Protocol::Ip };
        let seen_by_rules = [Hook::Output, Hook::Postrouting].into_iter().any(|hook| {
            self.hooks.list(protocol, hook).has_chains || !self.hooks.nat(protocol, hook).is_empty()
        });
        let wire = link.is_wire();
        let watched = !self.hooks.egress(link.index).is_empty() || self.state.tc.is_some();
        // Transport mode is for the host's own packets, and so are tunnels in which it ends.
        if config.mode == penstock_xfrm::Mode::Transport || seen_by_rules || !wire || watched {
            return;
        }
        let next = match config.destination {
            std::net::IpAddr::V4(a) => {
                self.link_address4(link, as_v4(xmit.after.gateway).unwrap_or(a.into()))
            }
            std::net::IpAddr::V6(a) => {
                self.link_address6(link, as_v6(xmit.after.gateway).unwrap_or(a.into()))
            }
        };
        let Some(Mac(mac)) = next else { return };
        resolved.link[..6].copy_from_slice(&mac);
        resolved.link[6..].copy_from_slice(&link.mac.0);
        let hop_limit =
            if xmit.after.hop_limit != 0 { xmit.after.hop_limit } else { self.settings.ttl };
        resolved.kind = Kind::Ipsec(number, Some(DirectState { id, hop_limit, v6 }));
    }

    /// Whether packets can leave by the states of a way.
    #[inline(always)]
    pub(super) fn ipsec_is_usable(
        &mut self,
        number: u32,
        straight: Option<DirectState>,
        now: u64,
    ) -> bool {
        if let (Some(DirectState { id, .. }), Some(ipsec)) =
            (straight, self.state.ipsec.as_deref_mut())
        {
            return ipsec.xfrm.is_usable(id, now);
        }
        let Some(xmit) = self.xfrm_bundle(number) else { return false };
        let Some(ipsec) = self.state.ipsec.as_deref_mut() else { return false };
        xmit.states.states().iter().all(|&id| ipsec.xfrm.is_usable(id, now))
    }

    /// A frame is copied to where it leaves from, rewritten and encrypted there; `false` if it
    /// could not be. `ahead` is the one that is next.
    #[inline(always)]
    pub(super) fn seal_frame(
        &mut self,
        sealing: &Sealing<'_>,
        (frame, ahead): (&Frame<'_>, Option<&Frame<'_>>),
        seen: &FlowPacket,
        scratch: &mut Scratch,
        packet: &mut Packet,
    ) -> bool {
        let Sealing { straight, link, half, addresses, addressed } = sealing;
        let len = seen.len as usize;
        let begin = ethernet::LEN + usize::from(seen.at);
        let Some(from) = frame.bytes.get(begin..begin + len) else { return false };
        self.state.numbers.ip_id = self.state.numbers.ip_id.wrapping_add(1);
        let outer = Outer { hop_limit: straight.hop_limit, id: self.state.numbers.ip_id };
        let Some(ipsec) = self.state.ipsec.as_deref_mut() else { return false };
        let Ok(room) = ipsec.xfrm.room(straight.id, from) else { return false };
        let start = ethernet::LEN + room.head;
        let end = start + len + room.tail;
        let Scratch { out, meta, .. } = scratch;
        make_room(out, end + LINE);
        let Some(out) = aligned(out, start) else { return false };
        let Some(to) = out.get_mut(start..start + len) else { return false };
        to.copy_from_slice(from);
        if half.is_ipv4() {
            rewrite::ipv4(half, to);
        } else {
            rewrite::ipv6(half, *addresses, to);
        }
        let Some((head, network)) =
            out.get_mut(..end).and_then(|o| o.split_first_chunk_mut::<{ ethernet::LEN }>())
        else {
            return false;
        };
        let protocol = if straight.v6 { ethernet::IPV6 } else { ethernet::IPV4 };
        head[..12].copy_from_slice(addressed);
        head[12..].copy_from_slice(&protocol.to_be_bytes());
        fetch_ahead(ahead);
        match ipsec.xfrm.seal(straight.id, network, room, outer, frame.time) {
            Ok(()) => {
                (meta.protocol, meta.time) = (protocol, frame.time);
                self.state.counters.fast += 1;
                self.state.counters.transmitted += 1;
                self.sink.transmit(link, out.get(..end).unwrap_or_default(), meta);
            }
            Err(stat) => {
                packet.load(frame.bytes, ethernet::LEN);
                packet.meta.time = frame.time;
                self.drop(reason(stat), packet);
            }
        }
        true
    }

    /// A packet of a flow, rewritten, goes through its states as other packets do.
    pub(crate) fn send_flow_ipsec(&mut self, packet: &mut Packet, number: u32) {
        let protocol = match packet.meta.protocol {
            ethernet::IPV6 => Protocol::Ip6,
            _ => Protocol::Ip,
        };
        self.state.counters.fast += 1;
        match self.xfrm_destination(number) {
            Some(to) => {
                let mut course = Course::to(to);
                match self.xfrm_output(protocol, packet, &mut course) {
                    Some(next) => {
                        self.run(next, packet, &mut course);
                    }
                    None => self.drop(DropReason::XfrmOutBundleGenError, packet),
                }
            }
            None => self.drop(DropReason::XfrmOutBundleGenError, packet),
        }
    }

    /// A flowtable among the hooks of a device, and a packet that came out of IPsec there. Policy
    /// has to allow it as on the normal way.
    pub(crate) fn flowtable_ipsec(
        &mut self,
        index: FlowtableIndex,
        packet: &mut Packet,
    ) -> HookResult {
        let Some(ipsec) = self.state.ipsec.as_deref() else { return HookResult::Accept };
        let inner = InnerPacket {
            network: packet.network(),
            protocol: packet.meta.protocol,
            device: packet.meta.iif,
            mark: packet.meta.mark,
            path: ipsec.secpath(packet),
            time: packet.meta.time,
        };
        let Some((at, xmit, seen)) = self.flow_of_inner(index, &inner) else {
            return HookResult::Accept;
        };
        self.forward_found(FlowRef { table: index, at }, &seen, seen.len, &xmit, packet)
    }

    /// The flow of a packet that came out of IPsec, if policy lets it pass.
    pub(super) fn flow_of_inner(
        &mut self,
        index: FlowtableIndex,
        inner: &InnerPacket<'_>,
    ) -> Option<(At, Resolved, FlowPacket)> {
        self.state.flows.drop_ended(&mut self.state.conntrack);
        let table = self.state.flows.table(index)?;
        let arrival = table.flows.arrival(&Arrival::out_of_ipsec(inner.device))?;
        let seen = inner.read(arrival)?;
        let at = table.flows.find(table.flows.hash(&seen.key), &seen.key)?;
        let xmit = self.xmit(index, at)?;
        if !self.flow_is_current(index, at) {
            let (flows, conntrack) = (&mut self.state.flows, &mut self.state.conntrack);
            flows.end_flow(conntrack, index, at.flow, Cause::TornDown, inner.time);
            return None;
        }
        let flow = self.arriving_flow(index, at, inner.mark)?;
        let ipsec = self.state.ipsec.as_deref_mut()?;
        let mut path = inner.path;
        ipsec.xfrm.check(PolicyDirection::Forward, &flow, None, &mut path, inner.time).ok()?;
        Some((at, xmit, seen))
    }

    /// What policies are asked about a packet of a flow as it arrives.
    fn arriving_flow(&self, index: FlowtableIndex, at: At, mark: u32) -> Option<Flow> {
        let table = self.state.flows.table(index)?;
        let connection = crate::flow::token::connection(table.flows.life(at.flow).connection);
        let connection = self.state.conntrack.connection_ref(connection)?;
        let tuples = [CtDirection::Original, CtDirection::Reply].map(|d| *connection.tuple(d));
        let oif = table.flows.xmit(at).device;
        Some(policy_flow(&tuples, at.direction, false, mark, oif))
    }
}

/// Bytes of a cache line.
pub(super) const LINE: usize = 64;

/// What of a buffer begins so that the byte at `start` is the first of a cache line: ciphers are
/// slower with data that lies across lines.
#[inline(always)]
pub(super) fn aligned(buffer: &mut [u8], start: usize) -> Option<&mut [u8]> {
    let skip = (buffer.as_ptr() as usize).wrapping_add(start).wrapping_neg() % LINE;
    buffer.get_mut(skip..)
}

/// Fetches a frame that is to be copied: memory has nothing else to do while a cipher runs.
#[inline(always)]
pub(super) fn fetch_ahead(frame: Option<&Frame<'_>>) {
    let bytes = frame.map_or(&[][..], |frame| frame.bytes);
    bytes.iter().step_by(LINE).for_each(prefetch);
}
