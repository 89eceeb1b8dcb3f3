// SPDX-License-Identifier: Apache-2.0

//! What helpers ask a host about its network: devices, routes, neighbours.

use std::net::IpAddr;

/// A device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NetDevice {
    /// The largest packet that it takes, bytes without the link header.
    pub mtu: u32,
    /// Bytes of its link header.
    pub header: u32,
    /// Its link address.
    pub address: [u8; 6],
    /// Whether it is up.
    pub up: bool,
    /// Whether IPv4 packets that arrive by it are forwarded (`net.ipv4.conf.DEV.forwarding`).
    pub forwards4: bool,
    /// Whether it is a router's in IPv6 (`net.ipv6.conf.DEV.forwarding`).
    pub forwards6: bool,
}

/// What a route is asked for with. Addresses are both of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteQuery {
    /// The device that the packet arrives by, or leaves by.
    pub device: u32,
    /// Whether it leaves by the device.
    pub output: bool,
    /// Only this table, without rules.
    pub table: Option<u32>,
    /// The mark of the packet.
    pub mark: u32,
    /// Where it comes from.
    pub source: IpAddr,
    /// Where it goes to.
    pub destination: IpAddr,
    /// Its type of service, or traffic class.
    pub tos: u8,
    /// Its protocol.
    pub protocol: u8,
    /// Its ports: source and destination.
    pub ports: (u16, u16),
    /// Whether [`RouteFound::source`] is asked for.
    pub wants_source: bool,
}

/// A route to forward by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteFound {
    /// The device to leave by.
    pub device: u32,
    /// The next hop, unless the destination is on the link.
    pub gateway: Option<IpAddr>,
    /// The metric of the route.
    pub metric: u32,
    /// The largest packet that the path takes, bytes without link header.
    pub mtu: u32,
    /// The address of this host for packets by the route, if one is asked for and there is one.
    pub source: Option<IpAddr>,
}

/// Why there is no route to forward by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoRoute {
    /// A blackhole (`RTN_BLACKHOLE`).
    Blackhole,
    /// Its type is unreachable (`RTN_UNREACHABLE`).
    Unreachable,
    /// Its type is prohibit (`RTN_PROHIBIT`).
    Prohibit,
    /// There is no route or table, or it is not unicast: to this host, for example.
    NotForwarded,
}
