// SPDX-License-Identifier: Apache-2.0

//! Headers follow their connection (`net/netfilter/nf_nat_proto.c`): an address, a port or
//! identifier, and the checksums that cover them, brought up to date by the difference.
//!
//! Packets are bytes from an IP header on. They have been looked at by the tracker, so headers are
//! as long as they say; what nevertheless does not fit makes the manipulation fail, and nothing
//! panics.

use penstock_conntrack::{Tuple, tuple};
use penstock_wire::checksum::{self, Crc32c, Difference, Sum};
use penstock_wire::{ipv4, ipv6, ipv6_ext, protocol};

use crate::range::Manip;

/// What a manipulation writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// What is written.
    pub manip: Manip,
    /// Address in network order, an IPv4 address in the first four bytes.
    pub address: [u8; 16],
    /// Port, ICMP identifier or GRE key, in host order.
    pub id: u16,
    /// Transport protocol. Not read from the packet: the packet in an ICMP error is what the
    /// error's connection says.
    pub protocol: u8,
    /// `NFPROTO_IPV4` or `NFPROTO_IPV6`.
    pub l3: u8,
}

const fn is_icmp(protocol: u8) -> bool {
    matches!(protocol, protocol::ICMP | protocol::ICMPV6)
}

impl Target {
    /// To look like `tuple`.
    #[inline]
    pub fn like(tuple: &Tuple, manip: Manip) -> Target {
        let (address, id) = match manip {
            Manip::Source => (tuple.src, tuple.src_id),
            Manip::Destination => (tuple.dst, tuple.dst_id),
        };
        // An ICMP identifier is on the source's side in both directions.
        let id = if is_icmp(tuple.protocol) { tuple.src_id } else { id };
        Target { manip, address, id, protocol: tuple.protocol, l3: tuple.l3 }
    }

    /// To look like what `opposite`, the tuple of the other direction, answers: how packets of a
    /// connection leave.
    #[inline]
    pub fn answered_by(opposite: &Tuple, manip: Manip) -> Target {
        Target { manip, ..Target::like(opposite, manip.opposite()) }
    }
}

/// Rewrites the packet with its IP header at `at` (`nf_nat_ipv4_manip_pkt()`,
/// `nf_nat_ipv6_manip_pkt()`). Checksums that were wrong stay wrong by the same amount; a UDP
/// checksum of zero stays zero.
///
/// `false` if headers are missing, or for GRE of unknown version: the packet must be dropped, and
/// may be half changed.
#[inline]
pub fn translate(packet: &mut [u8], at: usize, target: &Target) -> bool {
    if target.l3 == tuple::IPV4 {
        translate4(packet, at, target)
    } else {
        translate6(packet, at, target)
    }
}

/// Rewrites a packet of TCP or UDP, without IP options, to look like what `back`, the tuple of the
/// other direction, answers: source, destination, or both, with the result of [`translate`] for one
/// after the other. Headers that are not there are left alone.
#[inline]
pub fn leave_as_answered(packet: &mut [u8], back: &Tuple, source: bool, destination: bool) {
    if back.l3 == tuple::IPV4 {
        return leave_as_answered4(packet, back, source, destination);
    }
    for (due, manip) in [(destination, Manip::Destination), (source, Manip::Source)] {
        if due {
            translate6(packet, 0, &Target::answered_by(back, manip));
        }
    }
}

#[inline(always)]
fn leave_as_answered4(packet: &mut [u8], back: &Tuple, source: bool, destination: bool) {
    const CHECKSUM: usize = 10;
    const ADDRESSES: usize = 12;
    let Some((header, data)) = packet.split_first_chunk_mut::<{ ipv4::LEN }>() else { return };
    let Some((ports, rest)) = data.split_first_chunk_mut::<4>() else { return };
    let mut changed = Difference::default();
    if source {
        put(&mut header[ADDRESSES..], &back.dst[..4], &mut changed);
    }
    if destination {
        put(&mut header[ADDRESSES + 4..], &back.src[..4], &mut changed);
    }
    [header[CHECKSUM], header[CHECKSUM + 1]] =
        changed.update([header[CHECKSUM], header[CHECKSUM + 1]]);
    if source {
        put(ports, &back.dst_id.to_be_bytes(), &mut changed);
    }
    if destination {
        put(&mut ports[2..], &back.src_id.to_be_bytes(), &mut changed);
    }
    // Offsets are those from the transport header on, less the ports.
    if back.protocol == protocol::TCP {
        if let Some([.., h, i, _, _]) = rest.first_chunk_mut::<16>() {
            [*h, *i] = changed.update([*h, *i]);
        }
    } else if let Some([_, _, h, i]) = rest.first_chunk_mut::<4>() {
        [*h, *i] = changed.update_udp([*h, *i]);
    }
}

/// Puts up to eight bytes in place of those at the beginning, and adds that to what has changed.
#[inline(always)]
fn put(place: &mut [u8], bytes: &[u8], changed: &mut Difference) {
    let Some(place) = place.get_mut(..bytes.len()) else { return };
    let word = |bytes: &[u8]| {
        let mut word = [0; size_of::<u64>()];
        word[..bytes.len()].copy_from_slice(bytes);
        u64::from_ne_bytes(word)
    };
    *changed = changed.and(word(place), word(bytes));
    place.copy_from_slice(bytes);
}

#[inline]
fn translate4(packet: &mut [u8], at: usize, target: &Target) -> bool {
    const CHECKSUM: usize = 10;
    let place = match target.manip {
        Manip::Source => 12,
        Manip::Destination => 16,
    };
    let Some(bytes) = packet.get_mut(at..) else { return false };
    let Some(header) = bytes.first_chunk_mut::<{ ipv4::LEN }>() else { return false };
    let old = words::<4>(&header[place..place + 4]);
    let new = words::<4>(&target.address[..4]);
    let check = u16::from_be_bytes([header[CHECKSUM], header[CHECKSUM + 1]]);
    let check = checksum::replace(check, old, new);
    header[CHECKSUM..CHECKSUM + 2].copy_from_slice(&check.to_be_bytes());
    header[place..place + 4].copy_from_slice(&target.address[..4]);
    let len = usize::from(header[0] & 0xf) * 4;
    transport(bytes.get_mut(len..).unwrap_or_default(), old, new, target)
}

fn translate6(packet: &mut [u8], at: usize, target: &Target) -> bool {
    const NEXT: usize = 6;
    let place = match target.manip {
        Manip::Source => 8,
        Manip::Destination => 24,
    };
    let Some(bytes) = packet.get_mut(at..) else { return false };
    let Some(header) = bytes.first_chunk_mut::<{ ipv6::LEN }>() else { return false };
    let old = words::<16>(&header[place..place + 16]);
    let new = words::<16>(&target.address);
    header[place..place + 16].copy_from_slice(&target.address);
    let next = header[NEXT];
    // After headers that are cut, and in later fragments, only the address changes.
    let Some(found) = ipv6_ext::skip(bytes, ipv6::LEN, next).filter(|f| f.frag & !7 == 0) else {
        return true;
    };
    transport(bytes.get_mut(found.offset..).unwrap_or_default(), old, new, target)
}

/// Sum of an address.
#[inline(always)]
fn words<const N: usize>(bytes: &[u8]) -> Sum {
    let (words, _) = bytes[..N].as_chunks::<4>();
    words.iter().fold(Sum::new(), |sum, word| sum.u32(u32::from_be_bytes(*word)))
}

/// The transport header (`l4proto_manip_pkt()`). `bytes` reach from it to the end of the packet;
/// `old` and `new` sum the address for pseudo headers.
#[inline]
fn transport(bytes: &mut [u8], old: Sum, new: Sum, target: &Target) -> bool {
    match target.protocol {
        protocol::TCP => {
            const CHECKSUM: usize = 16;
            let Some(from) = set_port(bytes, target) else { return false };
            // The packet in an ICMP error may end before the checksum.
            if let Some(h) = bytes.first_chunk_mut::<20>() {
                update(h, CHECKSUM, old.u16(from), new.u16(target.id));
            }
            true
        }
        protocol::UDP => {
            const CHECKSUM: usize = 6;
            let Some(from) = set_port(bytes, target) else { return false };
            if let Some(h) = bytes.first_chunk_mut::<8>()
                && (h[CHECKSUM] | h[CHECKSUM + 1]) != 0
            {
                update_udp(h, old.u16(from), new.u16(target.id));
            }
            true
        }
        protocol::UDPLITE => {
            // It has no "no checksum"; the ports are always covered.
            let Some(from) = set_port(bytes, target) else { return false };
            if let Some(h) = bytes.first_chunk_mut::<8>() {
                update_udp(h, old.u16(from), new.u16(target.id));
            }
            true
        }
        protocol::DCCP => {
            const CHECKSUM: usize = 6;
            let Some(from) = set_port(bytes, target) else { return false };
            if let Some(h) = bytes.first_chunk_mut::<12>() {
                update(h, CHECKSUM, old.u16(from), new.u16(target.id));
            }
            true
        }
        protocol::SCTP => {
            const CHECKSUM: usize = 8;
            if set_port(bytes, target).is_none() {
                return false;
            }
            if let Some((h, rest)) = bytes.split_first_chunk_mut::<12>() {
                let crc = Crc32c::new().bytes(&h[..CHECKSUM]).bytes(&[0; 4]).bytes(rest).finish();
                h[CHECKSUM..].copy_from_slice(&crc.to_le_bytes());
            }
            true
        }
        protocol::ICMP => {
            const IDENTIFIED: [u8; 8] = [0, 8, 13, 14, 15, 16, 17, 18];
            let Some(h) = bytes.first_chunk_mut::<8>() else { return false };
            if IDENTIFIED.contains(&h[0]) {
                let from = set_identifier(h, target.id);
                update(h, 2, Sum::new().u16(from), Sum::new().u16(target.id));
            }
            true
        }
        protocol::ICMPV6 => {
            const ECHO: [u8; 2] = [128, 129];
            let Some(h) = bytes.first_chunk_mut::<8>() else { return false };
            let (mut old, mut new) = (old, new);
            if ECHO.contains(&h[0]) {
                old = old.u16(set_identifier(h, target.id));
                new = new.u16(target.id);
            }
            update(h, 2, old, new);
            true
        }
        protocol::GRE => {
            const VERSION: u8 = 7;
            let Some(h) = bytes.first_chunk_mut::<8>() else { return false };
            match (target.manip, h[1] & VERSION) {
                // A packet has the destination's key only. Version 0 is left alone.
                (Manip::Source, _) | (Manip::Destination, 0) => true,
                (Manip::Destination, 1) => {
                    h[6..].copy_from_slice(&target.id.to_be_bytes());
                    true
                }
                (Manip::Destination, _) => false,
            }
        }
        _ => true,
    }
}

/// Puts the port of the target's side, and gives the one that was there. `None` if eight bytes are
/// not there.
#[inline]
fn set_port(bytes: &mut [u8], target: &Target) -> Option<u16> {
    let h = bytes.first_chunk_mut::<8>()?;
    let new = target.id.to_be_bytes();
    let old = match target.manip {
        Manip::Source => {
            [std::mem::replace(&mut h[0], new[0]), std::mem::replace(&mut h[1], new[1])]
        }
        Manip::Destination => {
            [std::mem::replace(&mut h[2], new[0]), std::mem::replace(&mut h[3], new[1])]
        }
    };
    Some(u16::from_be_bytes(old))
}

fn set_identifier(h: &mut [u8; 8], id: u16) -> u16 {
    let old = u16::from_be_bytes([h[4], h[5]]);
    h[4..6].copy_from_slice(&id.to_be_bytes());
    old
}

#[inline]
fn update<const N: usize>(h: &mut [u8; N], at: usize, old: Sum, new: Sum) {
    let check = u16::from_be_bytes([h[at], h[at + 1]]);
    h[at..at + 2].copy_from_slice(&checksum::replace(check, old, new).to_be_bytes());
}

/// Adjusts a checksum as of UDP: a result of zero is written as 0xffff.
#[inline]
fn update_udp(h: &mut [u8; 8], old: Sum, new: Sum) {
    const AT: usize = 6;
    let check = u16::from_be_bytes([h[AT], h[AT + 1]]);
    let check = match checksum::replace(check, old, new) {
        0 => checksum::MANGLED_ZERO,
        c => c,
    };
    h[AT..].copy_from_slice(&check.to_be_bytes());
}

#[cfg(test)]
mod tests;
