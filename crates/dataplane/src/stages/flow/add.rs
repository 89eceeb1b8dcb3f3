// SPDX-License-Identifier: Apache-2.0

//! `flow add`: when a packet's flow leaves the rules (`net/netfilter/nft_flow_offload.c`).

use std::net::IpAddr;

use penstock_conntrack::{Connection, Direction as CtDirection, status};
use penstock_flowtable::{AddError, Arrival, At, Direction, Key, NewFlow, NewHalf, Xmit};
use penstock_net::{Flow4, Flow6, LOOPBACK, RouteType};
use penstock_packet::Packet;
use penstock_program::env::Decision;
use penstock_program::image::FlowtableIndex;
use penstock_wire::{ethernet, ipv4, ipv6, protocol};

use crate::flow::{NotOffloaded, token};
use crate::route::Route;
use crate::sink::Sink;
use crate::worker::Worker;

/// How a direction leaves, and where its answers arrive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path {
    pub(crate) xmit: Xmit,
    pub(crate) answers: Arrival,
}

/// What of a connection and its packet speaks against it, in the kernel's order.
fn refusal(connection: Option<Connection<'_>>, packet: &Packet) -> Result<(), NotOffloaded> {
    const FIN_RST: u8 = 5;
    const TCP_LEN: usize = 20;
    const NO_OPTIONS: u8 = 0x45;
    let is4 = packet.meta.protocol == ethernet::IPV4;
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
    for (bit, reason) in [
        (status::SEQ_ADJUST, NotOffloaded::SequenceAdjusted),
        (status::NAT_CLASH, NotOffloaded::Clash),
    ] {
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

/// Type of service or traffic class of a packet, as far as routes depend on it.
fn tos(packet: &Packet) -> u8 {
    const DSCP: u8 = 0xfc;
    let tos = match packet.meta.protocol {
        ethernet::IPV4 => ipv4::Header::new(packet.network()).map(|h| h.tos()),
        _ => ipv6::Header::new(packet.network()).map(|h| h.traffic_class()),
    };
    tos.unwrap_or(0) & DSCP
}

impl<S: Sink> Worker<'_, S> {
    /// A rule wants the packet's flow in a flowtable.
    pub(crate) fn flow_offload(
        &mut self,
        packet: &Packet,
        flowtable: FlowtableIndex,
        to: Option<&Route>,
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
        to: Option<&Route>,
    ) -> Result<(), NotOffloaded> {
        if packet.meta.secpath != 0 {
            return Err(NotOffloaded::Ipsec);
        }
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
        let other = self.route_back(packet, back, there).ok_or(NotOffloaded::NoRoute)?;
        if !other.kind.eq(&RouteType::Unicast) || to.kind != RouteType::Unicast {
            return Err(NotOffloaded::NoRoute);
        }
        let mut through = [false; 2];
        let [mut to, mut other] = [to, other];
        if self.state.ipsec.is_some() {
            let asked = (packet.meta.mark, tos(packet), packet.meta.time);
            ([to, other], through) = self.ipsec_xmits(asked, &tuples, direction, [to, other])?;
        }
        let way_there =
            self.path_of(flowtable, &to, there, through[direction.opposite() as usize])?;
        let way_back = self.path_of(flowtable, &other, back, through[direction as usize])?;
        let half = |d: Direction| {
            let tuple = &tuples[d as usize];
            let [path, arrives] =
                if d == direction { [way_there, way_back] } else { [way_back, way_there] };
            let ports =
                if tuple.protocol == protocol::GRE { [0; 2] } else { [tuple.src_id, tuple.dst_id] };
            let key = Key::new(tuple.source(), tuple.destination(), ports, tuple.protocol);
            NewHalf { key, arrival: arrives.answers, xmit: path.xmit }
        };
        let new = NewFlow {
            halves: Direction::BOTH.map(half),
            connection: token::of_connection(reference),
            lookup: u64::from(packet.meta.mark) << 8 | u64::from(tos(packet)),
            network: self.state.flows.network,
            translated,
            now: self.state.conntrack.now(),
        };
        let state = &mut *self.state;
        // The flow of a connection that ended in this burst must not be in the way of the next
        // one's.
        state.flows.drop_ended(&mut state.conntrack);
        let table = state.flows.table_mut(flowtable).ok_or(NotOffloaded::Device)?;
        let flow = table.flows.add(&new).map_err(|why| match why {
            AddError::Full => NotOffloaded::Full,
            AddError::Taken => NotOffloaded::Taken,
        })?;
        let token = token::of_flow(table.uid, flow);
        table.added(flow);
        state.flows.offer(flowtable, flow);
        state.conntrack.set_offloaded(number, token);
        state.flows.tell_added(&state.conntrack, flowtable, flow);
        Ok(())
    }

    /// How packets to a destination leave, and where answers arrive, which may have to come out of
    /// IPsec.
    fn path_of(
        &self,
        flowtable: FlowtableIndex,
        to: &Route,
        next: IpAddr,
        protected: bool,
    ) -> Result<Path, NotOffloaded> {
        let mut path = match self.ipsec_path(to) {
            Some(path) => path,
            None => self.discover(flowtable, to, next)?,
        };
        if protected {
            path.answers = Arrival::out_of_ipsec(path.answers.device);
        }
        Ok(path)
    }

    /// Whether a flow's ways are still what routes, neighbours and IPsec say, which have changed
    /// (`dst_check()`).
    #[cold]
    pub(crate) fn flow_holds(&mut self, index: FlowtableIndex, flow: u32) -> bool {
        let network = self.state.flows.network;
        let holds = self.flow_leads_as_before(index, flow).unwrap_or(false);
        if holds && let Some(table) = self.state.flows.table_mut(index) {
            table.flows.set_network(flow, network);
        }
        holds
    }

    fn flow_leads_as_before(&mut self, index: FlowtableIndex, flow: u32) -> Option<bool> {
        let table = self.state.flows.table(index)?;
        let life = table.flows.life(flow);
        let (mark, tos) = ((life.lookup >> 8) as u32, life.lookup as u8);
        let connection = token::connection(life.connection);
        let mut xmits = [
            self.route_of_flow(index, flow, Direction::Original)?,
            self.route_of_flow(index, flow, Direction::Reply)?,
        ];
        let mut through = [false; 2];
        if self.state.ipsec.is_some() {
            let connection = self.state.conntrack.connection_ref(connection)?;
            let tuples = [CtDirection::Original, CtDirection::Reply].map(|d| *connection.tuple(d));
            let asked = (mark, tos, self.state.conntrack.now());
            (xmits, through) = self.ipsec_xmits(asked, &tuples, Direction::Original, xmits).ok()?;
        }
        for direction in Direction::BOTH {
            let to = xmits[direction as usize];
            let [at, back] =
                [direction, direction.opposite()].map(|direction| At { flow, direction });
            let table = self.state.flows.table(index)?;
            let other = table.flows.key(back);
            let path =
                self.path_of(index, &to, other.source(), through[back.direction as usize]).ok()?;
            let same = to.kind == RouteType::Unicast
                && path.xmit == *table.flows.xmit(at)
                && path.answers == *table.flows.arrival_at(other.arrival);
            if !same {
                return Some(false);
            }
        }
        Some(true)
    }

    /// The route of a direction of a flow, looked up again.
    fn route_of_flow(
        &self,
        index: FlowtableIndex,
        flow: u32,
        direction: Direction,
    ) -> Option<Route> {
        let table = self.state.flows.table(index)?;
        let lookup = table.flows.life(flow).lookup;
        let (mark, tos) = ((lookup >> 8) as u32, lookup as u8);
        let [at, back] = [direction, direction.opposite()].map(|direction| At { flow, direction });
        let (own, other) = (table.flows.key(at), table.flows.key(back));
        let iif = table.flows.arrival_at(own.arrival).device;
        let (protocol, ports) = (own.l4, own.port_numbers().into());
        Some(match (other.source(), own.source()) {
            (IpAddr::V4(daddr), IpAddr::V4(saddr)) => {
                let (daddr, saddr, tos) = (daddr.into(), saddr.into(), tos & 0x1c);
                let flow =
                    Flow4 { daddr, saddr, tos, mark, iif, protocol, ports, ..Flow4::default() };
                Route::of(&self.net.route4(&flow).ok()?, iif)
            }
            (IpAddr::V6(daddr), IpAddr::V6(saddr)) => {
                let (daddr, saddr) = (daddr.into(), Some(saddr.into()));
                let flow = Flow6 {
                    daddr,
                    saddr,
                    tos,
                    mark,
                    iif,
                    oif: iif,
                    protocol,
                    ports,
                    ..Flow6::default()
                };
                Route::of(&self.net.route6(&flow).ok()?, iif)
            }
            _ => return None,
        })
    }

    /// The route that answers take: looked up with their addresses, and the TOS and mark of the
    /// packet, out of the device where it came in (`nft_flow_route()`).
    fn route_back(&self, packet: &Packet, daddr: IpAddr, saddr: IpAddr) -> Option<Route> {
        let (oif, mark, tos) = (packet.meta.iif, packet.meta.mark, tos(packet));
        match (daddr, saddr) {
            (IpAddr::V4(daddr), IpAddr::V4(saddr)) => {
                let (daddr, saddr) = (daddr.into(), saddr.into());
                let flow = Flow4 {
                    daddr,
                    saddr,
                    tos: tos & 0x1c,
                    mark,
                    iif: LOOPBACK,
                    oif,
                    ..Flow4::default()
                };
                Some(Route::of(&self.net.route4(&flow).ok()?, 0))
            }
            (IpAddr::V6(daddr), IpAddr::V6(saddr)) => {
                let (daddr, saddr) = (daddr.into(), Some(saddr.into()));
                let flow = Flow6 {
                    daddr,
                    saddr,
                    tos,
                    mark,
                    iif: LOOPBACK,
                    oif,
                    strict: true,
                    ..Flow6::default()
                };
                Some(Route::of(&self.net.route6(&flow).ok()?, 0))
            }
            _ => None,
        }
    }
}
