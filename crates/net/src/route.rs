// SPDX-License-Identifier: Apache-2.0

//! Routes.

use std::net::IpAddr;
use std::sync::Arc;

use penstock_wire::quick::QuickSet;

use crate::Scope;

/// `RTN_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum RouteType {
    /// To a gateway or the link.
    Unicast = 1,
    /// To this host.
    Local = 2,
    /// To everybody on the link.
    Broadcast = 3,
    /// To this host as one of several.
    Anycast = 4,
    /// To a group.
    Multicast = 5,
    /// Silently dropped.
    Blackhole = 6,
    /// Dropped, answered with "unreachable".
    Unreachable = 7,
    /// Dropped, answered with "prohibited".
    Prohibit = 8,
    /// Not in this table; the next rule decides.
    Throw = 9,
}

/// One way out of a route.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Nexthop {
    /// Link to leave by; 0 for none (routes that only refuse).
    pub oif: u32,
    /// Router to send to; `None` where the destination is on the link.
    pub gateway: Option<IpAddr>,
    /// The gateway was declared reachable on the link.
    pub onlink: bool,
    /// Share among the nexthops of the route, 1 to 256; 1 to 65536 in a group of nexthop objects.
    pub weight: u32,
    /// Scope of the gateway or destination as seen from here (`fib_nh_scope`).
    pub scope: Scope,
}

/// A route. Prefixes of both families are numbers; an IPv4 prefix is in the low 32 bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Table it is in.
    pub table: u32,
    /// Prefix, bits beyond `len` zero.
    pub prefix: u128,
    /// Prefix length.
    pub len: u8,
    /// TOS it is limited to (IPv4), 0 for any.
    pub tos: u8,
    /// What it does. Many routes share it.
    pub info: Arc<RouteInfo>,
}

/// What routes of many prefixes have in common (`struct fib_info`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RouteInfo {
    /// Lower is preferred.
    pub metric: u32,
    /// What it does.
    pub kind: RouteType,
    /// How far its destinations are.
    pub scope: Scope,
    /// Made by the kernel for an address.
    pub from_kernel: bool,
    /// Preferred source address.
    pub source: Option<IpAddr>,
    /// Path MTU in bytes, 0 for the link's.
    pub mtu: u32,
    /// The MTU is fixed: packets are not marked "don't fragment".
    pub mtu_locked: bool,
    /// `advmss` metric, 0 for none.
    pub advmss: u32,
    /// Hop limit for the host's own packets, 0 for the default.
    pub hop_limit: u32,
    /// Routing realms, source in the high 16 bits.
    pub realm: u32,
    /// Ways out; more than one share the flows.
    pub nexthops: Vec<Nexthop>,
}

impl RouteInfo {
    /// A route without ways out and other properties.
    pub fn new(kind: RouteType) -> Self {
        RouteInfo {
            metric: 0,
            kind,
            scope: Scope::UNIVERSE,
            from_kernel: false,
            source: None,
            mtu: 0,
            mtu_locked: false,
            advmss: 0,
            hop_limit: 0,
            realm: 0,
            nexthops: Vec::new(),
        }
    }

    /// Whether a way out is by a link.
    pub(crate) fn is_by(&self, link: u32) -> bool {
        self.nexthops.iter().any(|n| n.oif == link)
    }
}

/// Keeps one copy of what many routes have in common.
#[derive(Clone, Debug, Default)]
pub struct RouteInfos(QuickSet<Arc<RouteInfo>>);

impl RouteInfos {
    /// The copy of this one.
    pub fn share(&mut self, info: RouteInfo) -> Arc<RouteInfo> {
        if let Some(there) = self.0.get(&info) {
            return there.clone();
        }
        let info = Arc::new(info);
        self.0.insert(info.clone());
        info
    }

    /// Forgets those that no route has any more.
    pub fn tidy(&mut self) {
        self.0.retain(|info| Arc::strong_count(info) > 1);
    }
}
