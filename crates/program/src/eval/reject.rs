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
        let code = reject.icmp_code(v6);
        let rejection = match reject.kind {
            RejectType::TcpRst => Rejection::TcpReset,
            _ if v6 => Rejection::Icmpv6(code),
            _ => Rejection::Icmp(code),
        };
        env.reject(packet, rejection);
    }
    Step::Drop
}
