// SPDX-License-Identifier: Apache-2.0

//! Routes (`RTM_NEWROUTE`, `<linux/rtnetlink.h>`).

use penstock_net::{Nexthop, Route, RouteInfo, RouteInfos, RouteType, Scope};

use crate::message::{Attributes, Message, address, number};
use crate::nexthop::Objects;

/// Bytes of `struct rtmsg`.
pub(crate) const HEAD: usize = 12;

pub(crate) const RTA_OIF: u16 = 4;
pub(crate) const RTA_MULTIPATH: u16 = 9;
const RTA_DST: u16 = 1;
pub(crate) const RTA_NH_ID: u16 = 30;
pub(crate) const RTA_GATEWAY: u16 = 5;
const RTA_PRIORITY: u16 = 6;
const RTA_PREFSRC: u16 = 7;
const RTA_METRICS: u16 = 8;
const RTA_FLOW: u16 = 11;
pub(crate) const RTA_VIA: u16 = 18;
const RTA_TABLE: u16 = 15;

/// `RTM_F_CLONED`: an entry of a cache.
const CLONED: u32 = 0x200;
/// `RTPROT_KERNEL`
pub(crate) const KERNEL: u8 = 2;
const DEAD: u32 = 1;
const ONLINK: u32 = 4;

fn kind(number: u8) -> Option<RouteType> {
    Some(match number {
        1 => RouteType::Unicast,
        2 => RouteType::Local,
        3 => RouteType::Broadcast,
        4 => RouteType::Anycast,
        5 => RouteType::Multicast,
        6 => RouteType::Blackhole,
        7 => RouteType::Unreachable,
        8 => RouteType::Prohibit,
        9 => RouteType::Throw,
        _ => return None,
    })
}

/// A route as the kernel tells of it.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    /// With the ways that are written out.
    pub(crate) route: Route,
    /// The nexthop object of the route, which replaces a list of next hops.
    pub(crate) object: Option<u32>,
}

impl Told {
    /// With the ways of its object, if it has one; `None` if there is no way.
    pub(crate) fn with(&self, objects: &Objects, infos: &mut RouteInfos) -> Option<Route> {
        let Told { route, object: Some(object) } = self else { return Some(self.route.clone()) };
        let ways = objects.ways(*object).unwrap_or_else(|| {
            // It is gone by now, which will be told.
            route.info.nexthops.iter().filter(|way| way.oif != 0).cloned().collect()
        });
        (!ways.is_empty()).then(|| {
            let info = RouteInfo { nexthops: ways, ..RouteInfo::clone(&route.info) };
            Route { info: infos.share(info), ..route.clone() }
        })
    }
}

/// Reads a route, with one copy of what it shares with others; `None` for what is none that packets
/// meet. Routes that another program carries out (encapsulation) are left out, too.
pub(crate) fn read(message: &Message, infos: &mut RouteInfos) -> Option<(bool, Told)> {
    let &[family, len, source_len, tos, table, protocol, scope, number_of_kind, f0, f1, f2, f3] =
        message.head::<HEAD>()?;
    let v6 = match i32::from(family) {
        libc::AF_INET => false,
        libc::AF_INET6 => true,
        _ => return None,
    };
    let flags = u32::from_ne_bytes([f0, f1, f2, f3]);
    // Source-specific routes are not there.
    if flags & CLONED != 0 || source_len != 0 {
        return None;
    }
    let all = message.attributes(HEAD);
    let kind = kind(number_of_kind)?;
    let metrics = all.inside(RTA_METRICS);
    /// `RTAX_*`
    const LOCK: u16 = 1;
    const MTU: u16 = 2;
    const ADVMSS: u16 = 8;
    const HOP_LIMIT: u16 = 10;
    let metric = |name: u16| metrics.and_then(|m| m.u32(name)).unwrap_or(0);
    let nexthops = match all.get(RTA_MULTIPATH) {
        Some(bytes) => several(bytes, kind),
        None => vec![nexthop(all, all.u32(RTA_OIF).unwrap_or(0), flags, 1, kind)],
    };
    let object = all.u32(RTA_NH_ID);
    if object.is_none() && nexthops.is_empty() {
        return None;
    }
    let info = RouteInfo {
        metric: all.u32(RTA_PRIORITY).unwrap_or(0),
        kind,
        scope: Scope(scope),
        from_kernel: protocol == KERNEL,
        source: all.get(RTA_PREFSRC).and_then(address),
        mtu: metric(MTU),
        mtu_locked: metric(LOCK) & 1 << MTU != 0,
        advmss: metric(ADVMSS),
        hop_limit: metric(HOP_LIMIT),
        realm: all.u32(RTA_FLOW).unwrap_or(0),
        nexthops,
    };
    let route = Route {
        table: all.u32(RTA_TABLE).unwrap_or(table.into()),
        prefix: all.get(RTA_DST).map_or(0, number),
        len,
        tos,
        info: infos.share(info),
    };
    Some((v6, Told { route, object }))
}

fn nexthop(all: Attributes<'_>, oif: u32, flags: u32, weight: u32, kind: RouteType) -> Nexthop {
    // After its family, an IPv4 route's gateway may be one of IPv6 (`struct rtvia`).
    let gateway = all.get(RTA_GATEWAY).or_else(|| all.get(RTA_VIA)?.get(2..));
    let gateway = gateway.and_then(address).filter(|g| !g.is_unspecified());
    let scope = match (kind, gateway) {
        (RouteType::Local, _) => Scope::NOWHERE,
        (_, Some(_)) => Scope::LINK,
        (_, None) => Scope::HOST,
    };
    Nexthop { oif, gateway, onlink: flags & ONLINK != 0, weight, scope }
}

/// The ways of a multipath route (`struct rtnexthop`), but those that are dead.
fn several(mut bytes: &[u8], kind: RouteType) -> Vec<Nexthop> {
    let mut all = Vec::new();
    while let Some(&[l0, l1, flags, hops, i0, i1, i2, i3]) = bytes.first_chunk::<8>() {
        let len = usize::from(u16::from_ne_bytes([l0, l1]));
        let Some(inside) = bytes.get(8..len) else { break };
        if u32::from(flags) & DEAD == 0 {
            let oif = u32::from_ne_bytes([i0, i1, i2, i3]);
            all.push(nexthop(
                Attributes::nested(inside),
                oif,
                flags.into(),
                u32::from(hops) + 1,
                kind,
            ));
        }
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
    }
    all
}
