// SPDX-License-Identifier: Apache-2.0

//! The packet's route (`nft_rt_get_eval()` of `net/netfilter/nft_rt.c`).

use std::net::IpAddr;

use penstock_packet::Packet;

use super::Step;
use super::registers::Registers;
use crate::operand::RtKey;
use crate::{Env, Family};

/// `TCP_MSS_DEFAULT`: where the MTU leaves no room for headers.
const TCP_MSS_DEFAULT: u16 = 536;

#[inline(never)]
pub(super) fn get<E: Env>(
    key: RtKey,
    dst: u8,
    registers: &mut Registers,
    packet: &Packet,
    env: &mut E,
) -> Step {
    let family = env.context().family;
    let Some(route) = env.route(packet) else { return Step::Break };
    let network = packet.network();
    match key {
        RtKey::Classid => registers.set_word(dst, route.realm),
        RtKey::Nexthop4 => match (family, route.gateway) {
            (Family::Ip, Some(IpAddr::V4(gateway))) => registers.set(dst, &gateway.octets()),
            (Family::Ip, None) => match network.get(16..20) {
                Some(daddr) => registers.set(dst, daddr),
                None => return Step::Break,
            },
            // An IPv6 gateway of an IPv4 route has no place in the register: the kernel loads no
            // address.
            (Family::Ip, Some(IpAddr::V6(_))) => registers.set_word(dst, 0),
            _ => return Step::Break,
        },
        RtKey::Nexthop6 => match (family, route.gateway) {
            (Family::Ip6, Some(IpAddr::V6(gateway))) => registers.set(dst, &gateway.octets()),
            (Family::Ip6, _) => match network.get(24..40) {
                Some(daddr) => registers.set(dst, daddr),
                None => return Step::Break,
            },
            _ => return Step::Break,
        },
        RtKey::TcpMss => {
            let headers = if family == Family::Ip6 { 60 } else { 40 };
            let mtu = route.reverse_mtu.map_or(route.mtu, |reverse| route.mtu.min(reverse));
            let mss = mtu.checked_sub(headers).filter(|mss| *mss > 0 && mtu <= 0xffff);
            let mss = mss.map_or(TCP_MSS_DEFAULT, |mss| mss as u16);
            registers.set_half(dst, mss.to_ne_bytes());
        }
        RtKey::Xfrm => registers.set_u8(dst, route.xfrm.into()),
    }
    Step::Next
}
