// SPDX-License-Identifier: Apache-2.0

//! Flows through IPsec (`FLOW_OFFLOAD_XMIT_XFRM`): states that packets of a direction go through
//! are part of their way, and packets that must have come through states arrive apart from those in
//! the clear, so that neither is taken for the other.
//!
//! Where no rule can see the encrypted packet it goes to its neighbour at once; otherwise it passes
//! `output` and `postrouting` as any packet of the host's own.

use std::net::IpAddr;

use penstock_conntrack::{Direction as CtDirection, Tuple};
use penstock_flowtable::{Arrival, At, Direction, Half, Xmit, XmitType, rewrite};
use penstock_net::{Link, Mac};
use penstock_packet::{Frame, Packet};
use penstock_program::Hook;
use penstock_program::image::FlowtableIndex;
use penstock_wire::{esp, ethernet, ipv4, ipv6, protocol, udp};
use penstock_xfrm::{
    Direction as PolicyDirection, Encapsulated, Flow, Outer, SecPath, Stat, StateId, classify,
};

use crate::addresses::{as_v4, as_v6};
use crate::course::Course;
use crate::flow::fate::{Fate, fate};
use crate::flow::flow_packet::{self, FlowPacket};
use crate::flow::resolved::{Kind, Resolved};
use crate::flow::scratch::{Scratch, make_room};
use crate::flow::sealed::DirectState;
use crate::flow::table::Cause;
use crate::flow::{FlowRef, NotOffloaded};
use crate::hook_result::HookResult;
use crate::hooks::Protocol;
use crate::ipsec::reason;
use crate::pending_frames::PendingFrames;
use crate::reason::DropReason;
use crate::route::Route;
use crate::sink::Sink;
use crate::stages::flow::add::Path;
use crate::worker::Worker;

/// SPIs of a burst that are kept in order after one of their packets took the normal way.
const HELD: usize = 8;

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
    /// could not be.
    #[inline(always)]
    pub(super) fn seal_frame(
        &mut self,
        sealing: &Sealing<'_>,
        frame: &Frame<'_>,
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
        let Some((at, xmit, seen)) = self.flow_of_inner(index, packet) else {
            return HookResult::Accept;
        };
        self.forward_found(FlowRef { table: index, at }, &seen, seen.len, &xmit, packet)
    }

    /// The flow of a packet that came out of IPsec, if policy lets it pass.
    fn flow_of_inner(
        &mut self,
        index: FlowtableIndex,
        packet: &Packet,
    ) -> Option<(At, Resolved, FlowPacket)> {
        self.state.flows.drop_ended(&mut self.state.conntrack);
        let table = self.state.flows.table(index)?;
        let arrival = table.flows.arrival(&Arrival::out_of_ipsec(packet.meta.iif))?;
        let read = match packet.meta.protocol {
            ethernet::IPV4 => flow_packet::ipv4,
            ethernet::IPV6 => flow_packet::ipv6,
            _ => return None,
        };
        let seen = read(packet.network(), arrival).ok()?;
        let at = table.flows.find(table.flows.hash(&seen.key), &seen.key)?;
        let xmit = self.xmit(index, at)?;
        let now = packet.meta.time;
        if !self.flow_is_current(index, at) {
            self.state.flows.end_flow(
                &mut self.state.conntrack,
                index,
                at.flow,
                Cause::TornDown,
                now,
            );
            return None;
        }
        let flow = self.arriving_flow(index, at, packet)?;
        let ipsec = self.state.ipsec.as_deref_mut()?;
        let mut path = ipsec.secpath(packet);
        ipsec.xfrm.check(PolicyDirection::Forward, &flow, None, &mut path, now).ok()?;
        Some((at, xmit, seen))
    }

    /// What policies are asked about a packet of a flow as it arrives.
    fn arriving_flow(&self, index: FlowtableIndex, at: At, packet: &Packet) -> Option<Flow> {
        let table = self.state.flows.table(index)?;
        let connection = crate::flow::token::connection(table.flows.life(at.flow).connection);
        let connection = self.state.conntrack.connection_ref(connection)?;
        let tuples = [CtDirection::Original, CtDirection::Reply].map(|d| *connection.tuple(d));
        let oif = table.flows.xmit(at).device;
        Some(policy_flow(&tuples, at.direction, false, packet.meta.mark, oif))
    }

    /// ESP packets of a burst at devices with a flowtable at early ingress: those of one SPI are
    /// looked up once; what comes out of them and belongs to a flow leaves at once. Everything else
    /// is left as it came, and what follows with its SPI, too.
    pub(crate) fn early_esp(
        &mut self,
        frames: &[Frame<'_>],
        left: PendingFrames,
        packet: &mut Packet,
    ) -> PendingFrames {
        let mut rest = left;
        let Some(ipsec) = self.state.ipsec.as_deref() else { return left };
        let takes_udp = ipsec.xfrm.takes_any_udp();
        let mut known: Option<((u32, Arriving), StateId)> = None;
        let (mut held_back, mut held) = ([0; HELD], 0);
        for at in left {
            let Some(frame) = frames.get(at) else { continue };
            let Some(arriving) = Arriving::of(frame.bytes, takes_udp) else { continue };
            let spi = arriving.spi;
            if held_back.get(..held).is_none_or(|held| held.contains(&spi)) {
                continue;
            }
            let key = (frame.device, arriving);
            let id = match known {
                Some((known, id)) if known == key => id,
                _ => match self.state_of_esp(frame, &arriving) {
                    Some(id) => {
                        known = Some((key, id));
                        id
                    }
                    None => continue,
                },
            };
            if self.forward_esp(frame, &arriving, id, packet) {
                rest = rest.without(PendingFrames::NONE.with(at));
            } else {
                // With more of them than there is room for, nothing overtakes.
                if let Some(place) = held_back.get_mut(held) {
                    *place = spi;
                }
                held += 1;
            }
        }
        rest
    }

    /// The state of an ESP packet to this host, where flows may take what it holds.
    fn state_of_esp(&mut self, frame: &Frame<'_>, arriving: &Arriving) -> Option<StateId> {
        let &Arriving { spi, to, udp, .. } = arriving;
        let arrival = Arrival::out_of_ipsec(frame.device);
        let hooks = self.hooks;
        let tables = hooks.early(frame.device);
        let any = |index: &FlowtableIndex| {
            self.state.flows.table(*index).is_some_and(|t| t.flows.arrival(&arrival).is_some())
        };
        let own = match to {
            IpAddr::V4(to) => self.net.own4(to.into()),
            IpAddr::V6(to) => self.net.own6(to.into(), None),
        };
        if !own || !tables.iter().any(any) {
            return None;
        }
        let link = self.net.link(frame.device).filter(|l| l.up)?;
        if frame.bytes.first_chunk::<6>() != Some(&link.mac.0) {
            return None;
        }
        let ipsec = self.state.ipsec.as_deref_mut()?;
        if udp.is_some_and(|port| !ipsec.xfrm.takes_udp(port)) {
            return None;
        }
        ipsec.xfrm.start(frame.time);
        let id = ipsec.xfrm.find(to, spi, 0, udp.is_some(), frame.time).ok()?;
        let config = &ipsec.xfrm.state(id).config;
        (config.mode == penstock_xfrm::Mode::Tunnel && config.output_mark == Default::default())
            .then_some(id)
    }

    /// Decrypts a packet and sends on what it holds, if that belongs to a flow; `false` if nothing
    /// came of it.
    fn forward_esp(
        &mut self,
        frame: &Frame<'_>,
        arriving: &Arriving,
        id: StateId,
        packet: &mut Packet,
    ) -> bool {
        let Some(link) = self.net.link(frame.device) else { return false };
        if !packet.receive_ethernet(frame.bytes, link.mac) {
            return false;
        }
        let network = packet.network();
        let checked = match arriving.to {
            IpAddr::V4(_) => ipv4::check_input(network).ok(),
            IpAddr::V6(_) => ipv6::check_input(network, false).ok(),
        };
        let Some(total) = checked else { return false };
        packet.trim_network(total);
        (packet.meta.time, packet.meta.iif) = (frame.time, frame.device);
        let Some(ipsec) = self.state.ipsec.as_deref_mut() else { return false };
        let Arriving { at, kept, .. } = *arriving;
        let Some(opened) = ipsec.xfrm.try_open(id, packet.network_mut(), at, kept, frame.time)
        else {
            return false;
        };
        packet.pull_network(opened.skip);
        packet.trim_network(opened.len);
        let v6 = opened.protocol == protocol::IPV6;
        packet.meta.protocol = if v6 { ethernet::IPV6 } else { ethernet::IPV4 };
        let mut path = SecPath::default();
        path.push(id);
        packet.meta.secpath = ipsec.note(path);
        let hooks = self.hooks;
        for &index in hooks.early(frame.device) {
            let Some((at, xmit, seen)) = self.flow_of_inner(index, packet) else { continue };
            let Some(table) = self.state.flows.table_mut(index) else { continue };
            match fate(table, at, &seen, seen.len, &xmit, frame.time) {
                Fate::Goes => {}
                Fate::FallsBack => return false,
                Fate::Ends(cause) => {
                    self.state.flows.end_flow(
                        &mut self.state.conntrack,
                        index,
                        at.flow,
                        cause,
                        frame.time,
                    );
                    return false;
                }
            }
            if let Some(ipsec) = self.state.ipsec.as_deref_mut() {
                ipsec.xfrm.take(id, &opened);
            }
            self.state.counters.received += 1;
            self.state.flows.count_flow(
                &mut self.state.conntrack,
                FlowRef { table: index, at },
                frame.time,
                1,
                u64::from(seen.len),
            );
            self.send_flow(FlowRef { table: index, at }, &seen, &xmit, packet);
            self.drain();
            return true;
        }
        false
    }
}

/// Bytes of a cache line.
const LINE: usize = 64;

/// What of a buffer begins so that the byte at `start` is the first of a cache line: ciphers are
/// slower with data that lies across lines.
#[inline(always)]
fn aligned(buffer: &mut [u8], start: usize) -> Option<&mut [u8]> {
    let skip = (buffer.as_ptr() as usize).wrapping_add(start).wrapping_neg() % LINE;
    buffer.get_mut(skip..)
}

/// An ESP packet as it arrives: whole, directly after an IP header without options or extension
/// headers, or within UDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Arriving {
    spi: u32,
    to: IpAddr,
    /// Route port, within UDP.
    udp: Option<u16>,
    /// Where ESP begins after the link header.
    at: usize,
    /// Bytes of the IP header, and where in it the type is of what follows.
    kept: (usize, usize),
}

impl Arriving {
    /// From a frame. With `takes_udp` datagrams may be ESP, too.
    #[inline(always)]
    fn of(frame: &[u8], takes_udp: bool) -> Option<Arriving> {
        /// More fragments, and their offset.
        const FRAGMENT: u16 = 0x3fff;
        let (link, network) = frame.split_first_chunk::<{ ethernet::LEN }>()?;
        let (to, kept, protocol, rest) = match u16::from_be_bytes([link[12], link[13]]) {
            ethernet::IPV4 => {
                let (h, rest) = network.split_first_chunk::<{ ipv4::LEN }>()?;
                if h[0] != 0x45 || u16::from_be_bytes([h[6], h[7]]) & FRAGMENT != 0 {
                    return None;
                }
                (IpAddr::from([h[16], h[17], h[18], h[19]]), (ipv4::LEN, 9), h[9], rest)
            }
            ethernet::IPV6 => {
                let (h, rest) = network.split_first_chunk::<{ ipv6::LEN }>()?;
                let to: [u8; 16] = *h.last_chunk()?;
                (IpAddr::from(to), (ipv6::LEN, 6), h[6], rest)
            }
            _ => return None,
        };
        match protocol {
            protocol::ESP => Some(Arriving {
                spi: esp::Header::new(rest)?.spi(),
                to,
                udp: None,
                at: kept.0,
                kept,
            }),
            protocol::UDP if takes_udp => {
                let datagram = udp::Header::new(rest)?;
                let payload = datagram.payload();
                // Over IPv6 it needs a checksum.
                if classify(payload) != Encapsulated::Esp
                    || to.is_ipv6() && datagram.checksum() == 0
                {
                    return None;
                }
                let (spi, at) = (esp::Header::new(payload)?.spi(), kept.0 + udp::LEN);
                Some(Arriving { spi, to, udp: Some(datagram.dport()), at, kept })
            }
            _ => None,
        }
    }
}
