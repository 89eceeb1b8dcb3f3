// SPDX-License-Identifier: Apache-2.0

//! Translation (`net/netfilter/nft_nat.c`, `nft_masq.c`, `nft_redir.c`).

use penstock_packet::Packet;

use super::Step;
use super::registers::Registers;
use crate::env::NatRequest;
use crate::family::NFPROTO_IPV4;
use crate::op::LinkedNat;
use crate::operand::NatKind;
use crate::{Env, Family};

/// `NF_NAT_RANGE_NETMAP`.
const NETMAP: u32 = 1 << 6;
/// `NFPROTO_INET`.
const INET: u8 = 1;

#[inline(never)]
pub(super) fn eval<E: Env>(
    nat: &LinkedNat,
    registers: &Registers,
    packet: &Packet,
    env: &mut E,
) -> Step {
    let family = env.context().family;
    if nat.family != INET && nat.family != family as u8 {
        return Step::Next;
    }
    let mut request = NatRequest {
        kind: nat.kind,
        min_address: [0; 16],
        max_address: [0; 16],
        min_port: 0,
        max_port: 0,
        base_port: nat.base_port,
        flags: nat.flags,
    };
    if let Some((min, max)) = nat.addr {
        let len = if nat.family == NFPROTO_IPV4 { 4 } else { 16 };
        for (to, slot) in [(&mut request.min_address, min), (&mut request.max_address, max)] {
            for (to, from) in to.iter_mut().zip(registers.bytes(slot, len)) {
                *to = *from;
            }
        }
        if nat.flags & NETMAP != 0 && netmap(&mut request, family, packet).is_none() {
            return Step::Drop;
        }
    }
    if let Some((min, max)) = nat.port {
        request.min_port = port(min, registers);
        request.max_port = port(max, registers);
    }
    env.nat(packet, &request).into()
}

fn port(slot: u8, registers: &Registers) -> u16 {
    registers.bytes(slot, 2).first_chunk().map_or(0, |bytes| u16::from_be_bytes(*bytes))
}

/// The prefix, then the bits of the packet's own address (`nft_nat_setup_netmap()`).
fn netmap(request: &mut NatRequest, family: Family, packet: &Packet) -> Option<()> {
    let source = matches!(request.kind, NatKind::Source | NatKind::Masquerade);
    let at = match (family == Family::Ip, source) {
        (true, true) => 12..16,
        (true, false) => 16..20,
        (false, true) => 8..24,
        (false, false) => 24..40,
    };
    let own = packet.network().get(at)?;
    let ends = request.min_address.iter_mut().zip(&mut request.max_address);
    for ((min, max), own) in ends.zip(own) {
        let prefix = !(*min ^ *max);
        *min = *min & prefix | *own & !prefix;
        *max = *min;
    }
    Some(())
}
