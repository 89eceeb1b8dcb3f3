//! `flow add`: when a packet's flow leaves the rules (`net/netfilter/nft_flow_offload.c`).

use std::net::IpAddr;

use penstock_conntrack::{Connection, Direction as CtDirection, status};
use penstock_flowtable::{AddError, Arrival, Direction, Key, NewFlow, NewHalf, Way};
use penstock_net::{Flow4, Flow6, LOOPBACK, RouteType};
use penstock_packet::Packet;
use penstock_program::env::Decision;
use penstock_program::image::FlowtableIndex;
use penstock_wire::{ipv4, ipv6, protocol};

use super::{NotOffloaded, token};
use crate::sink::Sink;
use crate::worker::{Destination, Worker};

/// How a direction leaves, and where its answers arrive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path {
    pub(super) way: Way,
    pub(super) answers: Arrival,
}

/// The direction as connections call it.
pub(super) const fn of_connection(direction: Direction) -> CtDirection {
    match direction {
        Direction::Original => CtDirection::Original,
        Direction::Reply => CtDirection::Reply,
    }
}

/// What of a connection and its packet speaks against it, in the kernel's order.
fn refusal(connection: Option<Connection<'_>>, packet: &Packet) -> Result<(), NotOffloaded> {
    const FIN_RST: u8 = 5;
    const TCP_LEN: usize = 20;
    const NO_OPTIONS: u8 = 0x45;
    let is4 = packet.meta.protocol == penstock_wire::ethernet::IPV4;
    if is4 && packet.network().first() != Some(&NO_OPTIONS) {
        return Err(NotOffloaded::Options);
    }
    let connection = connection.ok_or(NotOffloaded::Untracked)?;
    let original = connection.tuple(CtDirection::Original);
    let bits = connection.status();
    match original.protocol {
        protocol::TCP => {
            let header = packet.transport_bytes().and_then(|t| t.first_chunk::<TCP_LEN>());
            if header.is_none_or(|h| h[13] & FIN_RST != 0) {
                return Err(NotOffloaded::Closing);
            }
            if !connection.is_established() {
                return Err(NotOffloaded::NotEstablished);
            }
        }
        protocol::UDP => {}
        protocol::GRE => {
            if bits & status::NAT_MASK != 0 || original.src_id != 0 || original.dst_id != 0 {
                return Err(NotOffloaded::Gre);
            }
        }
        _ => return Err(NotOffloaded::Protocol),
    }
    if connection.helper().is_some() {
        return Err(NotOffloaded::Helper);
    }
    for (bit, reason) in
        [(status::SEQ_ADJUST, NotOffloaded::SequenceAdjusted), (status::NAT_CLASH, NotOffloaded::Clash)]
    {
        if bits & bit != 0 {
            return Err(reason);
        }
    }
    if bits & status::CONFIRMED == 0 {
        return Err(NotOffloaded::Unconfirmed);
    }
    if bits & status::DYING != 0 {
        return Err(NotOffloaded::Dying);
    }
    if bits & status::OFFLOAD != 0 {
        return Err(NotOffloaded::Already);
    }
    Ok(())
}

impl<S: Sink> Worker<'_, S> {
    /// A rule wants the packet's flow in a flowtable.
    pub(crate) fn flow_offload(
        &mut self,
        packet: &Packet,
        flowtable: FlowtableIndex,
        to: Option<&Destination>,
    ) -> Decision {
        match self.flow_add(packet, flowtable, to) {
            Ok(()) => Decision::Continue,
            Err(reason) => {
                self.state.flows.count_refusal(reason);
                let conntrack = &mut self.state.conntrack;
                if let Some(n) = conntrack.resolve(&packet.meta.ct) {
                    conntrack.note_refusal(n, token::of_refusal(flowtable, reason));
                }
                Decision::Break
            }
        }
    }

    fn flow_add(
        &mut self,
        packet: &Packet,
        flowtable: FlowtableIndex,
        to: Option<&Destination>,
    ) -> Result<(), NotOffloaded> {
        let connection = self.state.conntrack.connection(&packet.meta.ct);
        refusal(connection, packet)?;
        let connection = connection.ok_or(NotOffloaded::Untracked)?;
        let (number, reference) = (connection.number(), connection.reference());
        let reply = packet.meta.ct.info.is_reply();
        let translated = connection.status() & status::NAT_MASK != 0;
        let tuples = [CtDirection::Original, CtDirection::Reply].map(|d| *connection.tuple(d));
        let direction = if reply { Direction::Reply } else { Direction::Original };
        // What it is sent to is where the other direction comes from.
        let [there, back] = [direction.opposite(), direction].map(|d| tuples[d as usize].source());
        let to = *to.ok_or(NotOffloaded::NoRoute)?;
        let other = self.route_back(packet, back, there, &to).ok_or(NotOffloaded::NoRoute)?;
        if !other.kind.eq(&RouteType::Unicast) || to.kind != RouteType::Unicast {
            return Err(NotOffloaded::NoRoute);
        }
        let way_there = self.discover(&to, there)?;
        let way_back = self.discover(&other, back)?;
        let half = |d: Direction| {
            let tuple = &tuples[d as usize];
            let [path, arrives] = if d == direction { [way_there, way_back] } else { [way_back, way_there] };
            let ports = if tuple.protocol == protocol::GRE { [0; 2] } else { [tuple.src_id, tuple.dst_id] };
            let key = Key::new(tuple.source(), tuple.destination(), ports, tuple.protocol);
            NewHalf { key, arrival: arrives.answers, way: path.way }
        };
        let new = NewFlow {
            halves: Direction::BOTH.map(half),
            connection: token::of_connection(reference),
            translated,
            now: self.state.conntrack.now(),
        };
        let state = &mut *self.state;
        let table = state.flows.table_mut(flowtable).ok_or(NotOffloaded::Device)?;
        let flow = table.flows.add(&new).map_err(|why| match why {
            AddError::Full => NotOffloaded::Full,
            AddError::Taken => NotOffloaded::Taken,
        })?;
        let token = token::of_flow(table.uid, flow);
        table.added(flow);
        state.conntrack.set_offloaded(number, token);
        Ok(())
    }

    /// The route that answers take: looked up with their addresses, and the TOS and mark of the packet, out of the device
    /// where it came in (`nft_flow_route()`).
    fn route_back(
        &self,
        packet: &Packet,
        daddr: IpAddr,
        saddr: IpAddr,
        to: &Destination,
    ) -> Option<Destination> {
        let (oif, mark) = (packet.meta.iif, packet.meta.mark);
        let _ = to;
        match (daddr, saddr) {
            (IpAddr::V4(daddr), IpAddr::V4(saddr)) => {
                const DSCP: u8 = 0xfc;
                let tos = ipv4::Header::new(packet.network())?.tos() & DSCP & 0x1c;
                let (daddr, saddr) = (daddr.into(), saddr.into());
                let flow = Flow4 { daddr, saddr, tos, mark, iif: LOOPBACK, oif, ..Flow4::default() };
                Some(Destination::of(&self.net.route4(&flow).ok()?, 0))
            }
            (IpAddr::V6(daddr), IpAddr::V6(saddr)) => {
                let tos = ipv6::Header::new(packet.network())?.traffic_class() & 0xfc;
                let (daddr, saddr) = (daddr.into(), Some(saddr.into()));
                let flow =
                    Flow6 { daddr, saddr, tos, mark, iif: LOOPBACK, oif, strict: true, ..Flow6::default() };
                Some(Destination::of(&self.net.route6(&flow).ok()?, 0))
            }
            _ => None,
        }
    }

    /// How a packet to a destination leaves, which without a gateway is `address`, and where answers arrive
    /// (`nft_dev_forward_path()`).
    fn discover(&self, to: &Destination, address: IpAddr) -> Result<Path, NotOffloaded> {
        let link = self.net.link(to.oif).filter(|l| !l.is_loopback()).ok_or(NotOffloaded::Device)?;
        let next = to.gateway.unwrap_or(address);
        let (mac, mtu) = match (next, address) {
            (IpAddr::V4(next), _) => (self.link_address4(link, next.into()), None),
            (IpAddr::V6(next), _) => (self.link_address6(link, next.into()), Some(())),
        };
        let mac = mac.ok_or(NotOffloaded::NoNeighbour)?;
        let mtu = match (mtu, address) {
            (_, IpAddr::V4(_)) => self.mtu(to),
            (_, IpAddr::V6(_)) => self.mtu6(to),
        };
        let way = Way { next_hop: Some(next), ..Way::neighbour(link.index, mac.0, link.mac.0, mtu as u32) };
        Ok(Path { way, answers: Arrival::on(link.index) })
    }
}
