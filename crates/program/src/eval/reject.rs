// SPDX-License-Identifier: Apache-2.0

//! Rejecting (`net/ipv4/netfilter/nft_reject_ipv4.c`, `net/netfilter/nft_reject_inet.c`,
//! `nft_reject_netdev.c`).

use penstock_packet::Packet;
use penstock_wire::ethernet;

use super::Step;
use crate::env::Rejection;
use crate::operand::{Reject, RejectType};
use crate::{Env, Family};

#[inline(never)]
pub(super) fn eval<E: Env>(reject: &Reject, packet: &Packet, env: &mut E) -> Step {
    let v6 = match (env.context().family, packet.meta.protocol) {
        (Family::Ip, _) => Some(false),
        (Family::Ip6, _) => Some(true),
        // netdev and bridge: by ethertype, and group addresses are not answered.
        _ if packet.link().first().is_some_and(|octet| octet & 1 != 0) => None,
        (_, ethernet::IPV4) => Some(false),
        (_, ethernet::IPV6) => Some(true),
        _ => None,
    };
    if let Some(v6) = v6 {
        let icmp = |code| if v6 { Rejection::Icmpv6(code) } else { Rejection::Icmp(code) };
        let rejection = match reject.kind {
            RejectType::IcmpUnreach => icmp(reject.code),
            RejectType::IcmpxUnreach => icmp(icmpx(reject.code, v6)),
            RejectType::TcpRst => Rejection::TcpReset,
        };
        env.reject(packet, rejection);
    }
    Step::Drop
}

/// `nft_reject_icmp_code()`, `nft_reject_icmpv6_code()`.
fn icmpx(code: u8, v6: bool) -> u8 {
    match (code, v6) {
        // No route.
        (0, _) => 0,
        // Port unreachable.
        (1, false) => 3,
        (1, true) => 4,
        // Host unreachable.
        (2, false) => 1,
        (2, true) => 3,
        // Administratively prohibited.
        (3, false) => 13,
        (3, true) => 1,
        // The kernel takes no other code.
        _ => 0,
    }
}
