// SPDX-License-Identifier: Apache-2.0

//! What BPF programs ask of the world: time, randomness, and for `bpf_fib_lookup()` and
//! `bpf_check_mtu()` the network (`bpf_ipv4_fib_lookup()`, `bpf_ipv6_fib_lookup()`).

use std::net::IpAddr;

use penstock_conntrack::tuple::{IPV4, IPV6};
use penstock_conntrack::{Conntrack, Direction, Tuple};
use penstock_ebpfvm::Host;
use penstock_ebpfvm::connection::{ConnectionFound, ConnectionQuery, ConnectionTuple};
use penstock_ebpfvm::routing::{NetDevice, NoRoute, RouteFound, RouteQuery};
use penstock_net::{Devconf, Flow4, Flow6, Hit, LOOPBACK, Network, RouteType, TABLE_MAIN};
use penstock_random::Random;
use penstock_wire::{ethernet, ipv6};

use crate::path_mtus::{Path, PathMtus};
use crate::settings::Settings;
use crate::sink::Sink;
use crate::stages::path_mtu::mapped;

/// The world of a program.
pub(super) struct World<'a, S> {
    pub(super) sink: &'a mut S,
    pub(super) random: &'a mut Random,
    /// Nanoseconds of the packet clock.
    pub(super) now: u64,
    pub(super) net: &'a Network,
    pub(super) settings: &'a Settings,
    /// What was learned of paths.
    pub(super) paths: &'a PathMtus,
    pub(super) conntrack: &'a Conntrack,
}

/// Least MTU of a device with IPv4 (`inetdev_valid_mtu()`).
const MIN_MTU4: u32 = 68;
/// The largest packet of IPv4 (`IP_MAX_MTU`); of IPv6 its header comes on top (`IP6_MAX_MTU`).
const MAX_MTU: u32 = 0xffff;
/// Bytes before a packet on a device of PPP (`PPP_HDRLEN`).
const PPP: u32 = 4;

impl<S: Sink> Host for World<'_, S> {
    fn now(&mut self) -> u64 {
        self.now
    }

    fn random(&mut self) -> u32 {
        self.random.u32()
    }

    fn trace(&mut self, line: &str) {
        self.sink.bpf_printk(line);
    }

    fn device(&mut self, index: u32) -> Option<NetDevice> {
        let link = self.net.link(index)?;
        let header = match () {
            () if link.pppoe().is_some() => PPP,
            () if link.has_link_header() => ethernet::LEN as u32,
            () => 0,
        };
        Some(NetDevice {
            mtu: link.mtu,
            header,
            address: link.mac.0,
            up: link.up,
            forwards4: link.mtu >= MIN_MTU4 && link.conf.is_on(Devconf::Forwarding4),
            forwards6: link.mtu >= ipv6::MIN_MTU as u32 && link.conf.own(Devconf::Forwarding6) != 0,
        })
    }

    fn route(&mut self, query: &RouteQuery) -> Result<RouteFound, NoRoute> {
        // fib_get_table(), fib6_get_table(): 0 is the main table.
        let main = |table| if table == 0 { TABLE_MAIN } else { table };
        let query = &RouteQuery { table: query.table.map(main), ..*query };
        match (query.source, query.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                self.route4(query, source.into(), destination.into())
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                self.route6(query, source.into(), destination.into())
            }
            _ => Err(NoRoute::NotForwarded),
        }
    }

    fn connection(&mut self, query: &ConnectionQuery) -> Option<ConnectionFound> {
        let ConnectionQuery { tuple, protocol, zones } = query;
        let address = penstock_conntrack::tuple::address;
        let sought = Tuple {
            src: address(tuple.source),
            dst: address(tuple.destination),
            src_id: tuple.ports.0,
            dst_id: tuple.ports.1,
            zone: zones[0],
            l3: if tuple.source.is_ipv4() { IPV4 } else { IPV6 },
            protocol: *protocol,
        };
        let reply = Tuple { zone: zones[1], ..sought };
        let found = self.conntrack.find_flow(&sought, &reply)?;
        let found = self.conntrack.connection_at(found)?;
        let tuples = [Direction::Original, Direction::Reply].map(|side| *found.tuple(side));
        // Of a flow of a host to itself the direction of replies is found (as in `Conntrack::find`).
        let is_original = tuples[0] == sought && !(sought.src == sought.dst && tuples[1] == reply);
        let of = |tuple: Tuple| ConnectionTuple {
            source: tuple.source(),
            destination: tuple.destination(),
            ports: (tuple.src_id, tuple.dst_id),
        };
        Some(ConnectionFound {
            reply: !is_original,
            status: found.status(),
            mark: found.mark(),
            zone: tuples[0].zone.max(tuples[1].zone),
            protocol: *protocol,
            tuples: tuples.map(of),
        })
    }

    fn neighbour(&mut self, device: u32, address: IpAddr) -> Option<[u8; 6]> {
        let found = match address {
            IpAddr::V4(address) => self.net.neighbour4(device, address.into()),
            IpAddr::V6(address) => self.net.neighbour6(device, address.into()),
        };
        found.map(|mac| mac.0)
    }
}

fn refused(why: penstock_net::NoRoute) -> NoRoute {
    match why {
        penstock_net::NoRoute::None => NoRoute::NotForwarded,
        penstock_net::NoRoute::Blackhole => NoRoute::Blackhole,
        penstock_net::NoRoute::Unreachable => NoRoute::Unreachable,
        penstock_net::NoRoute::Prohibit => NoRoute::Prohibit,
    }
}

impl<S> World<'_, S> {
    fn route4(&self, query: &RouteQuery, saddr: u32, daddr: u32) -> Result<RouteFound, NoRoute> {
        let (iif, oif) = if query.output { (LOOPBACK, query.device) } else { (query.device, 0) };
        let flow = Flow4 {
            daddr,
            saddr,
            tos: query.tos & 0x1c,
            mark: query.mark,
            iif,
            oif,
            protocol: query.protocol,
            ports: query.ports,
            scope: 0,
        };
        let hit = match query.table {
            Some(table) => {
                self.net.lookup4(table, &flow).unwrap_or(Err(penstock_net::NoRoute::None))
            }
            None => self.net.route4(&flow),
        };
        let hit = hit.map_err(refused)?;
        if hit.route.kind != RouteType::Unicast {
            return Err(NoRoute::NotForwarded);
        }
        // ip_mtu_from_fib_result(): unlike for packets, what was learned of the path always counts.
        let own = match hit.route.mtu {
            mtu if hit.route.mtu_locked || self.settings.ip_forward_use_pmtu => mtu,
            _ => 0,
        };
        let mtu = match own {
            0 => self
                .learned(&hit, mapped(daddr))
                .unwrap_or_else(|| self.device_mtu(&hit).min(MAX_MTU)),
            mtu => mtu,
        };
        let source = || IpAddr::V4(self.net.source_of4(&hit).into());
        Ok(self.found(&hit, mtu, query.wants_source.then(source)))
    }

    fn route6(&self, query: &RouteQuery, saddr: u128, daddr: u128) -> Result<RouteFound, NoRoute> {
        let iif = if query.output { LOOPBACK } else { query.device };
        // Rules look at the source of packets that arrive (RT6_LOOKUP_F_HAS_SADDR).
        let flow = Flow6 {
            daddr,
            saddr: (!query.output).then_some(saddr),
            tos: query.tos & 0xfc,
            mark: query.mark,
            iif,
            oif: query.device,
            protocol: query.protocol,
            ports: query.ports,
            strict: false,
        };
        let hit = match query.table {
            Some(table) => self.net.fib6_table(table, &flow),
            None => self.net.fib6(&flow),
        };
        let mut hit = hit.ok_or(NoRoute::NotForwarded)?;
        match hit.route.kind {
            RouteType::Unicast => {}
            RouteType::Blackhole => return Err(NoRoute::Blackhole),
            RouteType::Unreachable => return Err(NoRoute::Unreachable),
            RouteType::Prohibit => return Err(NoRoute::Prohibit),
            RouteType::Local
            | RouteType::Broadcast
            | RouteType::Anycast
            | RouteType::Multicast
            | RouteType::Throw => return Err(NoRoute::NotForwarded),
        }
        // fib6_select_path(): a way by the device that is asked for stays.
        if query.output
            && let Some(way) = hit.route.nexthops.iter().find(|way| way.oif == query.device)
        {
            hit.nexthop = way;
        }
        // ip6_mtu_from_fib6()
        let own = if hit.route.mtu_locked { hit.route.mtu } else { 0 };
        let mtu = match own {
            0 => self
                .learned(&hit, daddr)
                .unwrap_or_else(|| self.device_mtu(&hit).max(ipv6::MIN_MTU as u32))
                .min(MAX_MTU + ipv6::LEN as u32),
            mtu => mtu,
        };
        let source = || match hit.route.source {
            Some(source) => Some(source),
            None => self.net.source6(hit.nexthop.oif, daddr).map(|a| IpAddr::V6(a.into())),
        };
        Ok(self.found(&hit, mtu, query.wants_source.then(source).flatten()))
    }

    fn device_mtu(&self, hit: &Hit<'_>) -> u32 {
        self.net.link(hit.nexthop.oif).map_or(0, |link| link.mtu)
    }

    /// The MTU that was learned of the path to a destination.
    fn learned(&self, hit: &Hit<'_>, destination: u128) -> Option<u32> {
        if self.paths.is_empty() {
            return None;
        }
        let path = Path { destination, oif: hit.nexthop.oif, gateway: hit.nexthop.gateway };
        self.paths.get(&path, self.conntrack.now()).map(|found| found.mtu)
    }

    fn found(&self, hit: &Hit<'_>, mtu: u32, source: Option<IpAddr>) -> RouteFound {
        let &Hit { nexthop, route, .. } = hit;
        let (device, gateway, metric) = (nexthop.oif, nexthop.gateway, route.metric);
        RouteFound { device, gateway, metric, mtu, source }
    }
}
