// SPDX-License-Identifier: Apache-2.0

//! ESP packets of a burst at devices with a flowtable at early ingress: decrypted where what they
//! hold leaves from, and sent on at once if that belongs to a flow.
//!
//! What is the same for packets that follow each other is looked up once: the state of an SPI, and
//! the flow of what came out, with what policy says about it. That holds for packets of one time
//! only, since states and policies end at a time.

use std::net::IpAddr;

use penstock_flowtable::tunnel::Head;
use penstock_flowtable::{Arrival, Key};
use penstock_packet::{Frame, Packet};
use penstock_program::image::FlowtableIndex;
use penstock_wire::{esp, ethernet, ipv4, ipv6, protocol, udp};
use penstock_xfrm::{Encapsulated, SecPath, StateId, classify};

use crate::flow::FlowRef;
use crate::flow::fate::{Fate, fate};
use crate::flow::flow_packet::FlowPacket;
use crate::flow::resolved::{Kind, Resolved};
use crate::flow::scratch::{Scratch, make_room};
use crate::pending_frames::PendingFrames;
use crate::sink::Sink;
use crate::stages::flow::chain::ToWire;
use crate::stages::flow::ipsec::{InnerPacket, LINE, aligned, fetch_ahead};
use crate::worker::Worker;

/// SPIs of a burst that are kept in order after one of their packets took the normal way.
const HELD: usize = 8;

/// An ESP packet and its state.
struct EspFrame<'f> {
    frame: &'f Frame<'f>,
    /// The frame that is next.
    ahead: Option<&'f Frame<'f>>,
    arriving: &'f Arriving,
    id: StateId,
}

/// The flow of a packet that came out of a state.
struct InnerFlow<'a> {
    flow: FlowRef,
    key: Key,
    xmit: Resolved,
    /// How it leaves, if by a wire where nothing looks at it.
    wire: Option<ToWire<'a>>,
    /// The state, the device of arrival, and the time for which policy was asked.
    asked: (StateId, u32, u64),
}

impl<'a, S: Sink> Worker<'a, S> {
    /// ESP packets of a burst: those of one SPI are looked up once; what comes out of them and
    /// belongs to a flow leaves at once. Everything else is left as it came, and what follows with
    /// its SPI, too.
    pub(crate) fn early_esp(
        &mut self,
        frames: &[Frame<'_>],
        left: PendingFrames,
        scratch: &mut Scratch,
        packet: &mut Packet,
    ) -> PendingFrames {
        let mut rest = left;
        let Some(ipsec) = self.state.ipsec.as_deref() else { return left };
        let takes_udp = ipsec.xfrm.takes_any_udp();
        let mut known: Option<(StateId, u32, u64, Arriving)> = None;
        let mut latest = None;
        let (mut held_back, mut held) = ([0; HELD], 0);
        for at in left {
            let Some(frame) = frames.get(at) else { continue };
            let Some(arriving) = Arriving::of(frame.bytes, takes_udp) else { continue };
            let spi = arriving.spi;
            if held_back.get(..held).is_none_or(|held| held.contains(&spi)) {
                continue;
            }
            let id = match &known {
                Some((id, device, time, like))
                    if *device == frame.device && *time == frame.time && *like == arriving =>
                {
                    *id
                }
                _ => match self.state_of_esp(frame, &arriving) {
                    Some(id) => {
                        known = Some((id, frame.device, frame.time, arriving));
                        id
                    }
                    None => continue,
                },
            };
            let esp = EspFrame { frame, ahead: frames.get(at + 1), arriving: &arriving, id };
            if self.forward_esp(&esp, &mut latest, scratch, packet) {
                rest = rest.without(PendingFrames::NONE.with(at));
            } else {
                // What was found may have ended.
                latest = None;
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
        self.net.link(frame.device).filter(|l| l.up && l.mac.0 == arriving.mac)?;
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
    /// came of it. `latest` is the flow of the packet before.
    fn forward_esp(
        &mut self,
        esp: &EspFrame<'_>,
        latest: &mut Option<InnerFlow<'a>>,
        scratch: &mut Scratch,
        packet: &mut Packet,
    ) -> bool {
        let &EspFrame { frame, ahead, arriving, id } = esp;
        let Some(link) = self.net.link(frame.device) else { return false };
        let Some((header, network)) = frame.bytes.split_first_chunk::<{ ethernet::LEN }>() else {
            return false;
        };
        let checked = match arriving.to {
            IpAddr::V4(_) => ipv4::check_input(network).ok(),
            IpAddr::V6(_) => ipv6::check_input(network, false).ok(),
        };
        let Some(whole) = checked.and_then(|total| network.get(..total)) else { return false };
        let Some(ipsec) = self.state.ipsec.as_deref_mut() else { return false };
        let Arriving { at, kept, .. } = *arriving;
        // What the packet holds is where it leaves from: before it there is room for what it gets.
        let (start, end) = (Head::MAX + ipsec.xfrm.text_at(id, at), Head::MAX + whole.len());
        let Scratch { out, meta, .. } = scratch;
        make_room(out, end + LINE);
        let Some(out) = aligned(out, start) else { return false };
        let Some(sealed) = out.get_mut(Head::MAX..end) else { return false };
        sealed.copy_from_slice(whole);
        fetch_ahead(ahead);
        let Some(opened) = ipsec.xfrm.try_open(id, sealed, at, kept, frame.time) else {
            return false;
        };
        let Some(network) = out.get(start..start + opened.len) else { return false };
        let mut path = SecPath::default();
        path.push(id);
        let v6 = opened.protocol == protocol::IPV6;
        let protocol = if v6 { ethernet::IPV6 } else { ethernet::IPV4 };
        let (device, time) = (frame.device, frame.time);
        let inner = InnerPacket { network, protocol, device, mark: 0, path, time };
        let asked = (id, device, time);
        let like = latest.as_mut().filter(|latest| latest.asked == asked).and_then(|latest| {
            let seen = inner.read(latest.key.arrival)?;
            seen.key.is_same(&latest.key).then_some((latest, seen))
        });
        let (found, seen) = match like {
            Some((latest, seen)) => (latest, seen),
            None => match self.find_inner(&inner, asked) {
                Some((found, seen)) => (latest.insert(found), seen),
                None => return false,
            },
        };
        let InnerFlow { flow, ref xmit, ref wire, .. } = *found;
        let Some(table) = self.state.flows.table_mut(flow.table) else { return false };
        match fate(table, flow.at, &seen, seen.len, xmit, time) {
            Fate::Goes => {}
            Fate::FallsBack => return false,
            Fate::Ends(cause) => {
                let (flows, conntrack) = (&mut self.state.flows, &mut self.state.conntrack);
                flows.end_flow(conntrack, flow.table, flow.at.flow, cause, time);
                return false;
            }
        }
        if let Some(ipsec) = self.state.ipsec.as_deref_mut() {
            ipsec.xfrm.take(id, &opened);
        }
        self.state.counters.received += 1;
        let (flows, conntrack) = (&mut self.state.flows, &mut self.state.conntrack);
        flows.count_flow(conntrack, flow, time, 1, u64::from(seen.len));
        if let Some(wire) = wire {
            self.state.counters.fast += 1;
            self.state.counters.transmitted += 1;
            let end = start + seen.len as usize;
            let Some(out) = out.get_mut(start - wire.before()..end) else { return false };
            if wire.head.is_none() {
                xmit.put_link(out, protocol);
            }
            (meta.protocol, meta.oif, meta.time) = (protocol, xmit.device, time);
            self.rewrite_to_wire(wire, out, meta);
            return true;
        }
        let Some(place) = out.get_mut(start - ethernet::LEN..start + opened.len) else {
            return false;
        };
        place[..ethernet::LEN].copy_from_slice(header);
        packet.receive_ethernet(place, link.mac);
        (packet.meta.protocol, packet.meta.time, packet.meta.iif) = (protocol, time, device);
        if let Some(ipsec) = self.state.ipsec.as_deref_mut() {
            packet.meta.secpath = ipsec.note(path);
        }
        self.send_flow(flow, &seen, xmit, packet);
        self.drain();
        // Anything may have happened on that way.
        *latest = None;
        true
    }

    /// The flow of what came out of a state, in the tables of its device.
    fn find_inner(
        &mut self,
        inner: &InnerPacket<'_>,
        asked: (StateId, u32, u64),
    ) -> Option<(InnerFlow<'a>, FlowPacket)> {
        let hooks = self.hooks;
        let tables = hooks.early(inner.device).iter();
        let (table, (at, xmit, seen)) =
            tables.copied().find_map(|index| Some((index, self.flow_of_inner(index, inner)?)))?;
        let flow = FlowRef { table, at };
        let wire = if xmit.kind == Kind::Wire { self.to_wire(flow, &xmit) } else { None };
        Some((InnerFlow { flow, key: seen.key, xmit, wire, asked }, seen))
    }
}

/// An ESP packet as it arrives: whole, directly after an IP header without options or extension
/// headers, or within UDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Arriving {
    /// Link address that the frame is for.
    mac: [u8; 6],
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
        let mac = *link.first_chunk()?;
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
                mac,
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
                Some(Arriving { mac, spi, to, udp: Some(datagram.dport()), at, kept })
            }
            _ => None,
        }
    }
}
