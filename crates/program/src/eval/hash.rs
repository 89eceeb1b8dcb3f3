// SPDX-License-Identifier: Apache-2.0

//! Hashes of packets (`net/netfilter/nft_hash.c`).

use penstock_packet::Packet;
use penstock_wire::ethernet;
pub use penstock_wire::jhash::{jhash, reciprocal_scale};
use penstock_wire::protocol;

/// A hash that both directions of a flow share: [`jhash`] over transport protocol, addresses and
/// ports, of each pair the smaller one first. The kernel's hash (`__skb_get_hash_symmetric()`)
/// has a random key and differs from boot to boot; this one never changes. Packets that are not IP
/// have one hash for all; fragments are hashed without ports.
#[inline(never)]
pub(super) fn symmetric(packet: &Packet) -> u32 {
    let network = packet.network();
    let pair = match packet.meta.protocol {
        ethernet::IPV4 => network.get(12..16).zip(network.get(16..20)),
        ethernet::IPV6 => network.get(8..24).zip(network.get(24..40)),
        _ => None,
    };
    let mut bytes = [0; 40];
    if let Some((a, b)) = pair {
        let (low, high) = if a <= b { (a, b) } else { (b, a) };
        bytes[..low.len()].copy_from_slice(low);
        bytes[16..16 + high.len()].copy_from_slice(high);
    }
    if let Some(t) = packet.transport() {
        bytes[32] = t.protocol;
        let has_ports = matches!(
            t.protocol,
            protocol::TCP | protocol::UDP | protocol::UDPLITE | protocol::SCTP | protocol::DCCP
        );
        if let Some([a, b, c, d, ..]) = packet.transport_bytes().filter(|_| has_ports) {
            let (from, to) = ([*a, *b], [*c, *d]);
            bytes[34..36].copy_from_slice(&from.min(to));
            bytes[36..38].copy_from_slice(&from.max(to));
        }
    }
    jhash(&bytes, 0)
}
