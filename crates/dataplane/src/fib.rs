// SPDX-License-Identifier: Apache-2.0

//! What the routing tables say of an address, as `fib` asks (`nft_fib_ipv4.c`, `nft_fib_ipv6.c`).

use std::net::IpAddr;

use penstock_net::{Flow4, Flow6, LOOPBACK, Network, NoRoute, RouteType};
use penstock_program::env::FibQuery;

use crate::addresses;

/// The interface by which an address is reached; `at` is the device that the packet is at, which
/// link-local addresses and groups are looked up on. There is none for addresses of the host, and
/// where a route refuses.
pub fn interface(net: &Network, query: &FibQuery, at: u32) -> Option<u32> {
    let route = match query.daddr {
        IpAddr::V4(daddr) => {
            let saddr = match query.saddr {
                IpAddr::V4(a) => a.into(),
                IpAddr::V6(_) => 0,
            };
            let (daddr, tos) = (daddr.into(), query.tos & 0x1c);
            let (mark, iif) = (query.mark, query.iif);
            let flow = Flow4 { daddr, saddr, tos, mark, iif, ..Flow4::default() };
            let hit = net.route4(&flow).ok()?;
            if query.device.is_none() && hit.route.kind != RouteType::Local {
                // Of several next hops it is the first (`FIB_RES_DEV()` before `fib_select_path()`).
                return Some(hit.route.nexthops.first().map_or(LOOPBACK, |n| n.oif));
            }
            hit
        }
        IpAddr::V6(daddr) => {
            let daddr = u128::from(daddr);
            let saddr = match query.saddr {
                IpAddr::V6(a) => Some(u128::from(a)).filter(|a| *a != 0),
                IpAddr::V4(_) => None,
            };
            // The device limits the lookup of link-local addresses only; others are compared with
            // the result.
            let link = is_link_local(daddr);
            let oif = if link { query.device.unwrap_or(at) } else { 0 };
            let (mark, iif) = (query.mark, query.iif);
            let flow = Flow6 { daddr, saddr, mark, iif, oif, strict: link, ..Flow6::default() };
            net.route6(&flow).ok()?
        }
    };
    if matches!(route.route.kind, RouteType::Local | RouteType::Anycast) {
        return None;
    }
    match query.device {
        None => Some(route.nexthop.oif),
        Some(d) => route.route.nexthops.iter().any(|n| n.oif == d).then_some(d),
    }
}

/// Whether a unicast address or a group is link-local (`IPV6_ADDR_LINKLOCAL`).
fn is_link_local(address: u128) -> bool {
    addresses::is_link_local(address) || address >> 112 & 0xff0f == 0xff02
}

/// What an address is to the host (`RTN_*`); `at` as in [`interface`].
pub fn kind(net: &Network, query: &FibQuery, at: u32) -> u8 {
    match query.daddr {
        IpAddr::V4(daddr) => net.kind4(daddr.into(), query.device) as u8,
        IpAddr::V6(daddr) => {
            let daddr = u128::from(daddr);
            let own = query.device.is_some_and(|d| net.own6(daddr, Some(d)));
            let link = is_link_local(daddr);
            let oif = if link { query.device.unwrap_or(at) } else { 0 };
            let (mark, strict) = (query.mark, addresses::needs_device(daddr));
            let flow = Flow6 { daddr, mark, iif: LOOPBACK, oif, strict, ..Flow6::default() };
            let kind = match net.route6(&flow) {
                Err(NoRoute::Blackhole) => RouteType::Blackhole,
                Err(NoRoute::Prohibit) => RouteType::Prohibit,
                Err(NoRoute::None | NoRoute::Unreachable) => RouteType::Unreachable,
                Ok(hit) if hit.route.kind == RouteType::Anycast => RouteType::Anycast,
                Ok(hit) if query.device.is_none() && hit.route.kind == RouteType::Local => {
                    RouteType::Local
                }
                Ok(_) if own => RouteType::Local,
                Ok(_) if daddr >> 120 == 0xff => RouteType::Multicast,
                // Neither unicast nor a group (`RTN_UNSPEC`).
                Ok(_) if daddr == 0 => return 0,
                Ok(_) => RouteType::Unicast,
            };
            kind as u8
        }
    }
}
