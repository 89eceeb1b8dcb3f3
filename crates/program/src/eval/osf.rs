// SPDX-License-Identifier: Apache-2.0

//! The sender's operating system (`net/netfilter/nft_osf.c`).

use penstock_packet::Packet;
use penstock_wire::protocol;

use super::Step;
use super::registers::Registers;
use crate::osf::Fingerprints;
use crate::{Env, Family};

/// `NFT_OSF_MAXGENRELEN`, the zero at the end included.
const NAME_LEN: usize = 16;
const SYN: u8 = 0x02;

#[inline(never)]
pub(super) fn eval<E: Env>(
    (ttl, added): (u8, &Fingerprints),
    version: bool,
    dst: u8,
    registers: &mut Registers,
    packet: &Packet,
    env: &mut E,
) -> Step {
    let tcp = packet.transport().is_some_and(|t| t.protocol == protocol::TCP);
    if env.context().family != Family::Ip || !tcp {
        return Step::Break;
    }
    match packet.transport_bytes().and_then(|tcp| tcp.first_chunk::<20>()) {
        Some(header) if header[13] & SYN != 0 => {}
        _ => return Step::Break,
    }
    let network = packet.network();
    let found = env.fingerprints().and_then(|known| known.find(network, ttl));
    let found = found.or_else(|| added.find(network, ttl));
    let mut name = [0; NAME_LEN];
    let parts: [&str; 3] = match found {
        Some(system) if version => [&system.genre, ":", &system.version],
        Some(system) => [&system.genre, "", ""],
        None => ["unknown", "", ""],
    };
    let mut parts = parts.into_iter().flat_map(str::bytes);
    // The last byte stays zero.
    for (to, byte) in name[..NAME_LEN - 1].iter_mut().zip(&mut parts) {
        *to = byte;
    }
    registers.set(dst, &name);
    Step::Next
}
