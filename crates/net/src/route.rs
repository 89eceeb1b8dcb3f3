// SPDX-License-Identifier: Apache-2.0

//! Routes.

use std::borrow::Borrow;
use std::hash::{Hash, Hasher};
use std::net::IpAddr;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

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
    pub info: Arc<SharedRouteInfo>,
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

/// A number that routes have in common which differ in their prefixes only, in place of the route
/// for packets that need to know no more: it is a unicast route, the only one of its prefix, with
/// one next hop, and the same for all packets to a destination.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RouteNumber(u32);

impl RouteNumber {
    /// There is no route.
    pub(crate) const NO_ROUTE: RouteNumber = RouteNumber(0);
    /// There is no number: no route, or another than described here.
    pub const NONE: RouteNumber = RouteNumber(u32::MAX);
    /// Not the number of any route: longer prefixes have to be asked.
    pub(crate) const DEEPER: RouteNumber = RouteNumber(u32::MAX - 1);

    /// The number of a route.
    #[inline]
    pub fn get(self) -> Option<u32> {
        (!matches!(self, Self::NO_ROUTE | Self::NONE)).then_some(self.0)
    }

    /// Whether it is the number of a route.
    #[inline(always)]
    pub(crate) fn is_of_route(self) -> bool {
        self.0.wrapping_sub(1) < Self::DEEPER.0 - 1
    }
}

/// A [`RouteInfo`] that routes share, with a number of its own.
#[derive(Debug)]
pub struct SharedRouteInfo {
    number: RouteNumber,
    info: RouteInfo,
}

impl SharedRouteInfo {
    /// Gives it a number that nothing else in this process has, as long as there are any.
    pub fn new(info: RouteInfo) -> Self {
        static LAST: AtomicU32 = AtomicU32::new(0);
        let next = |last: u32| last.checked_add(1).filter(|next| *next < RouteNumber::DEEPER.0);
        let last = LAST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        let number = last.map_or(RouteNumber::NONE, |last| RouteNumber(last + 1));
        SharedRouteInfo { number, info }
    }

    /// The number.
    pub fn number(&self) -> RouteNumber {
        self.number
    }
}

impl Deref for SharedRouteInfo {
    type Target = RouteInfo;

    fn deref(&self) -> &RouteInfo {
        &self.info
    }
}

impl PartialEq for SharedRouteInfo {
    fn eq(&self, other: &Self) -> bool {
        self.info == other.info
    }
}

impl Eq for SharedRouteInfo {}

impl Hash for SharedRouteInfo {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.info.hash(state);
    }
}

impl Borrow<RouteInfo> for Arc<SharedRouteInfo> {
    fn borrow(&self) -> &RouteInfo {
        self
    }
}

/// Keeps one copy of what many routes have in common.
#[derive(Clone, Debug, Default)]
pub struct RouteInfos(QuickSet<Arc<SharedRouteInfo>>);

impl RouteInfos {
    /// The copy of this one.
    pub fn share(&mut self, info: RouteInfo) -> Arc<SharedRouteInfo> {
        if let Some(there) = self.0.get(&info) {
            return there.clone();
        }
        let info = Arc::new(SharedRouteInfo::new(info));
        self.0.insert(info.clone());
        info
    }

    /// Forgets those that no route has any more.
    pub fn tidy(&mut self) {
        self.0.retain(|info| Arc::strong_count(info) > 1);
    }
}
