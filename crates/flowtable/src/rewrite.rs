// SPDX-License-Identifier: Apache-2.0

//! What a flow does to the headers of a packet (`nf_flow_nat_ip()`, `nf_flow_nat_ipv6()`,
//! `ip_decrease_ttl()`): addresses, ports, checksums by the difference, TTL. Differences are
//! computed once, when the flow is added.

use penstock_wire::checksum::{MANGLED_ZERO, Sum};
use penstock_wire::protocol;

use crate::flow::{Half, state};
use crate::key::Key;

/// Length of the IPv4 header without options, and of the IPv6 header.
const LEN4: usize = 20;
const LEN6: usize = 40;
/// Checksums within the transport headers.
const TCP_CHECK: usize = 16;
const UDP_CHECK: usize = 6;

/// Sum of two words in the arithmetic of checksums.
#[inline(always)]
const fn plus(a: u16, b: u16) -> u16 {
    let (sum, carry) = a.overflowing_add(b);
    sum + carry as u16
}

/// A checksum with its complement increased by `delta` (RFC 1624, equation 3).
#[inline(always)]
const fn grown(check: u16, delta: u16) -> u16 {
    !plus(!check, delta)
}

fn words(sum: Sum, words: &[u64]) -> Sum {
    words.iter().fold(sum, |sum, w| sum.bytes(&w.to_ne_bytes()))
}

fn addresses(key: &Key) -> Sum {
    words(words(Sum::new(), &key.src), &key.dst)
}

/// What complemented checksums grow by if `from` becomes `to`: those of the IP header, its TTL
/// decremented, and of the transport header.
pub fn deltas(from: &Key, to: &Key) -> (u16, u16) {
    // What is taken away counts as its complement. A TTL is the upper byte of a word.
    const TTL: u16 = !0x0100;
    let difference = |old: Sum, new: Sum| plus(!old.folded(), new.folded());
    // All ones is zero, but for zero itself nothing is added.
    let nonzero = |d: u16| if d == u16::MAX { 0 } else { d };
    let header = difference(addresses(from), addresses(to));
    let with_ports = |key: &Key| addresses(key).bytes(&key.ports.to_ne_bytes());
    let transport = difference(with_ports(from), with_ports(to));
    (plus(nonzero(header), TTL), nonzero(transport))
}

/// Rewrites an IPv4 packet without options, of which `packet` holds the first bytes: its IP and
/// transport header. The flow is the packet's and it was checked that the headers are there; if
/// they are not, nothing or part of it happens.
#[inline(always)]
pub fn ipv4(half: &Half, packet: &mut [u8]) {
    let Some((ip, transport)) = packet.split_first_chunk_mut::<LEN4>() else { return };
    ip[8] = ip[8].wrapping_sub(1);
    let check = grown(u16::from_be_bytes([ip[10], ip[11]]), half.header_delta).to_be_bytes();
    (ip[10], ip[11]) = (check[0], check[1]);
    if half.state & state::TRANSLATED != 0 {
        ip[12..16].copy_from_slice(&half.new_src.to_ne_bytes());
        ip[16..20].copy_from_slice(&half.new_dst.to_ne_bytes());
        translate(half, transport);
    }
}

/// Rewrites an IPv6 packet without extension headers; `to` are the addresses with which it leaves
/// ([`crate::Flowtable::addresses`]).
#[inline(always)]
pub fn ipv6(half: &Half, to: [[u64; 2]; 2], packet: &mut [u8]) {
    let Some((ip, transport)) = packet.split_first_chunk_mut::<LEN6>() else { return };
    ip[7] = ip[7].wrapping_sub(1);
    if half.state & state::TRANSLATED != 0 {
        for (to, from) in ip[8..].chunks_exact_mut(8).zip(to.as_flattened()) {
            to.copy_from_slice(&from.to_ne_bytes());
        }
        translate(half, transport);
    }
}

/// Ports and checksum.
#[inline(always)]
fn translate(half: &Half, transport: &mut [u8]) {
    match half.l4 {
        protocol::TCP => {
            let Some(h) = transport.first_chunk_mut::<{ TCP_CHECK + 2 }>() else { return };
            h[..4].copy_from_slice(&half.new_ports.to_ne_bytes());
            let check = u16::from_be_bytes([h[TCP_CHECK], h[TCP_CHECK + 1]]);
            h[TCP_CHECK..].copy_from_slice(&grown(check, half.transport_delta).to_be_bytes());
        }
        protocol::UDP => {
            let Some(h) = transport.first_chunk_mut::<{ UDP_CHECK + 2 }>() else { return };
            h[..4].copy_from_slice(&half.new_ports.to_ne_bytes());
            let check = u16::from_be_bytes([h[UDP_CHECK], h[UDP_CHECK + 1]]);
            let new = match grown(check, half.transport_delta) {
                0 => MANGLED_ZERO,
                new => new,
            };
            // None stays none.
            let new = if check == 0 { 0 } else { new };
            h[UDP_CHECK..].copy_from_slice(&new.to_be_bytes());
        }
        // Version 0 of GRE has neither ports nor a checksum over addresses.
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_deltas_equal_recomputation() {
        for (check, delta) in [(0x1234, 0), (0, 0), (0xffff, 0)] {
            assert_eq!(grown(check, delta), check);
        }
        // A header with its TTL going from 64 to 63.
        let before = Sum::new().u16(0x4500).u16(0x4011);
        let after = Sum::new().u16(0x4500).u16(0x3f11);
        let key = Key::v4([1, 2, 3, 4], [5, 6, 7, 8], [1, 2], 17);
        assert_eq!(grown(before.finish(), deltas(&key, &key).0), after.finish());
    }
}
