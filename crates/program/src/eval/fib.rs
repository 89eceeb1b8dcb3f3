// SPDX-License-Identifier: Apache-2.0

//! The routing table (`net/ipv4/netfilter/nft_fib_ipv4.c`, `net/ipv6/netfilter/nft_fib_ipv6.c`,
//! `net/netfilter/nft_fib.c`, `nft_fib_inet.c`, `nft_fib_netdev.c`).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use penstock_packet::{Packet, PacketType};
use penstock_wire::ethernet;
use penstock_wire::{ipv4, ipv6, protocol};

use super::Step;
use super::registers::Registers;
use crate::env::FibQuery;
use crate::operand::{FIB_DADDR, FIB_IIF, FIB_MARK, FIB_OIF, FIB_PRESENT, FibResult};
use crate::{Env, Family, Hook};

/// `LOOPBACK_IFINDEX`.
const LOOPBACK: u32 = 1;
const IFF_LOOPBACK_ARPHRD: u16 = 772;

#[inline(never)]
pub(super) fn eval<E: Env>(
    result: FibResult,
    flags: u8,
    dst: u8,
    registers: &mut Registers,
    packet: &Packet,
    env: &mut E,
) -> Step {
    let has = |flag: u32| u32::from(flags) & flag != 0;
    let v6 = match (env.context().family, packet.meta.protocol) {
        (Family::Ip, _) => false,
        (Family::Ip6, _) => true,
        (Family::Netdev, ethernet::IPV4) => false,
        (Family::Netdev, ethernet::IPV6) => true,
        _ => return Step::Break,
    };
    let hook = env.context().hook;
    let (iif, oif) = (packet.meta.iif, packet.meta.oif);
    let device = if has(FIB_IIF) {
        Some(iif)
    } else if has(FIB_OIF) {
        Some(oif)
    } else {
        None
    }
    .filter(|index| *index != 0);
    let network = packet.network();
    let addresses = if v6 {
        ipv6::Header::new(network)
            .map(|h| (IpAddr::V6(h.src()), IpAddr::V6(h.dst()), h.traffic_class()))
    } else {
        ipv4::Header::new(network).map(|h| (IpAddr::V4(h.src()), IpAddr::V4(h.dst()), h.tos()))
    };
    let Some((source, destination, tos)) = addresses else { return Step::Break };
    let (daddr, other) = if has(FIB_DADDR) { (destination, source) } else { (source, destination) };
    let lookup_iif =
        if !has(FIB_DADDR) && has(FIB_IIF) && hook == Hook::Forward { oif } else { LOOPBACK };
    let query = FibQuery {
        daddr,
        saddr: sender(other),
        tos,
        mark: if has(FIB_MARK) { packet.meta.mark } else { 0 },
        iif: lookup_iif,
        protocol: packet.transport().map_or(0, |t| t.protocol),
        device,
    };
    if result == FibResult::AddrType {
        let kind = env.fib_type(&query);
        registers.set_word(dst, kind.into());
        return Step::Next;
    }
    let found = if received_from_loopback(packet, hook, env)
        || asks_for_itself(source, destination, packet)
    {
        Some(iif)
    } else {
        env.fib_interface(&query)
    }
    .filter(|index| *index != 0);
    match result {
        _ if has(FIB_PRESENT) => registers.set_u8(dst, found.is_some().into()),
        FibResult::Oif => registers.set_word(dst, found.unwrap_or(0)),
        FibResult::OifName => {
            let name = found.and_then(|index| env.interface(index)).map_or([0; 16], |i| i.name);
            registers.set(dst, &name);
        }
        FibResult::AddrType => {}
    }
    Step::Next
}

/// Zero for addresses that no packet comes from (`get_saddr()`).
fn sender(addr: IpAddr) -> IpAddr {
    match addr {
        IpAddr::V4(v4) if v4.is_multicast() || v4.is_broadcast() || v4.is_unspecified() => {
            Ipv4Addr::UNSPECIFIED.into()
        }
        addr => addr,
    }
}

/// What this host sent to itself is not looked up where it arrives (`nft_fib_can_skip()`; at input
/// since Linux 6.16).
fn received_from_loopback<E: Env>(packet: &Packet, hook: Hook, env: &E) -> bool {
    matches!(hook, Hook::Prerouting | Hook::Ingress | Hook::Input)
        && (packet.meta.packet_type == PacketType::Loopback
            || env.interface(packet.meta.iif).is_some_and(|i| i.arphrd == IFF_LOOPBACK_ARPHRD))
}

/// Hosts that have no address yet and ask for one are where they came from: DHCP, duplicate address
/// detection.
fn asks_for_itself(source: IpAddr, destination: IpAddr, packet: &Packet) -> bool {
    match (source, destination) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            // 0.0.0.0 to 255.255.255.255 or 224.0.0.0/24
            from.is_unspecified() && (to.is_broadcast() || matches!(to.octets(), [224, 0, 0, _]))
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let icmp = packet.transport().is_some_and(|t| t.protocol == protocol::ICMPV6);
            icmp && from == Ipv6Addr::UNSPECIFIED && link_local(to)
        }
        _ => false,
    }
}

/// Unicast or multicast of the link (`IPV6_ADDR_LINKLOCAL`).
fn link_local(addr: Ipv6Addr) -> bool {
    let [a, b, ..] = addr.octets();
    (a == 0xfe && b & 0xc0 == 0x80) || (a == 0xff && b & 0x0f == 2)
}
