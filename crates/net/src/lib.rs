// SPDX-License-Identifier: Apache-2.0

//! The network of one namespace: links, addresses, neighbours, routes and rules, as the kernel
//! keeps them.
//!
//! A [`Network`] is immutable. It is made from the lines that configure a real router, the input of
//! `ip -batch` ([`Network::from_batch`]), with the kernel's consequences: an address makes local,
//! broadcast and connected routes, a link that goes down loses its routes, a gateway must be
//! reachable. Forwarding is on unless [settings of devices](Devconf) say otherwise.
//!
//! ```
//! let net = penstock_net::Network::from_batch("net.ip", "
//!     link add wan address 02:00:00:00:00:01 type veth
//!     link set wan up
//!     addr add 198.18.0.1/24 dev wan
//!     route add default via 198.18.0.254
//!     neigh add 198.18.0.254 lladdr 02:00:00:00:00:fe dev wan
//! ").unwrap();
//! let hit = net.route4(&penstock_net::Flow4 { daddr: 0xc6130001, ..Default::default() }).unwrap();
//! assert_eq!(net.link(hit.nexthop.oif).unwrap().name.as_ref(), "wan");
//! ```
//!
//! It knows no packets and no rulesets. IPv4 addresses are `u32` and IPv6 addresses `u128` in host
//! order on the lookup side, so that prefixes compare as numbers.

pub mod address6;
mod address_lines;
mod batch;
mod bridge;
mod bridge_config;
mod bridge_lines;
mod config;
mod devconf;
mod fib;
mod kernel;
mod key;
mod kind;
mod lines;
mod link;
mod link_lines;
mod link_types;
mod link_words;
mod mdb_lines;
mod multicast;
mod neighbour;
mod neighbour_lines;
mod network;
mod route;
mod route_lines;
mod rule;
mod rule_lines;
mod source;
mod tables;
mod tunnel_lines;
mod tunnels;
mod xfrm_lines;

pub use bridge::{Bridge, BridgePort, FdbEntry, Vlans};
pub use devconf::{
    Devconf, DevconfFamily, DevconfSysctls, DevconfValues, LinkDevconf, fixed_devconf,
};
pub use kernel::{KernelDevconf, KernelState};
pub use kind::{
    Bare, ForwardPath, Kind, LinkKind, Loopback, Output, PPPOE_OVERHEAD, Pppoe, SixRd, Tunnel,
    TunnelKind, Vlan, Wire,
};
pub use link::{Address4, Address6, LARGEST_INDEX, Link, Scope};
pub use multicast::{GroupAddress, MdbEntry, MulticastRouter, Snooping};
pub use network::{Flow4, Flow6, Hit, Network, NoRoute};
pub use penstock_iproute2::Error;
pub use penstock_wire::ethernet::Mac;
pub use route::{Nexthop, Route, RouteInfo, RouteInfos, RouteNumber, RouteType, SharedRouteInfo};
pub use rule::{Action, Rule};

/// Index of the loopback link, as in every namespace.
pub const LOOPBACK: u32 = 1;
/// `RT_TABLE_LOCAL`.
pub const TABLE_LOCAL: u32 = 255;
/// `RT_TABLE_MAIN`.
pub const TABLE_MAIN: u32 = 254;
/// `RT_TABLE_DEFAULT`.
pub const TABLE_DEFAULT: u32 = 253;
