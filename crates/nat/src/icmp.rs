// SPDX-License-Identifier: Apache-2.0

//! ICMP errors about translated connections (`nf_nat_icmp_reply_translation()`,
//! `nf_nat_icmpv6_reply_translation()`): the packet that an error quotes was seen on the other side
//! of the translation, so it is translated backwards; then the error's own addresses follow.

use penstock_conntrack::{Direction, Tuple, status, tuple};
use penstock_wire::{checksum, icmp, icmpv6, ipv4, ipv6, ipv6_ext, protocol};

use crate::header::{self, Target};
use crate::range::Manip;

/// An ICMP error at a hook, and the connection that it is about.
#[derive(Clone, Copy, Debug)]
pub struct Related<'a> {
    /// What the hook translates.
    pub manip: Manip,
    /// Direction of the error in that connection.
    pub direction: Direction,
    /// The connection's tuple of the other direction.
    pub opposite: &'a Tuple,
    /// `IPS_*` bits of the connection.
    pub status: u32,
    /// Whether the error's checksum is still to be checked. It need not be where the tracker has
    /// done so.
    pub check: bool,
}

/// Where the ICMP header of an error is, from the start of the packet. `None` for other protocols.
pub fn offset(packet: &[u8], l3: u8) -> Option<usize> {
    if l3 == tuple::IPV4 {
        let h = ipv4::Header::new(packet)?;
        (h.protocol() == protocol::ICMP).then(|| h.header_len())
    } else {
        let next = ipv6::Header::new(packet)?.next_header();
        let found = ipv6_ext::skip(packet, ipv6::LEN, next)?;
        (found.protocol == protocol::ICMPV6).then_some(found.offset)
    }
}

/// Translates an error with its ICMP header at `at`. `false` if it must be dropped: it is
/// truncated, its checksum is wrong, or it redirects a connection that is translated.
pub fn translate(packet: &mut [u8], at: usize, related: &Related<'_>) -> bool {
    let v4 = related.opposite.l3 == tuple::IPV4;
    let (inner, kind, redirect) = if v4 {
        (icmp::LEN + ipv4::LEN, protocol::ICMP, icmp::REDIRECT)
    } else {
        (icmpv6::LEN + ipv6::LEN, protocol::ICMPV6, icmpv6::REDIRECT)
    };
    if packet.len() < at + inner {
        return false;
    }
    if related.check && !checksum_ok(packet, at, v4) {
        return false;
    }
    if packet[at] == redirect
        && (related.status & status::NAT_DONE_MASK != status::NAT_DONE_MASK
            || related.status & status::NAT_MASK != 0)
    {
        return false;
    }
    if related.status & related.manip.due(related.direction) == 0 {
        return true;
    }
    let inside = Target::like(related.opposite, related.manip.opposite());
    if !header::translate(packet, at + icmp::LEN, &inside) {
        return false;
    }
    packet[at + 2..at + 4].fill(0);
    let sum = pseudo(packet, at, v4).bytes(&packet[at..]).finish();
    packet[at + 2..at + 4].copy_from_slice(&sum.to_be_bytes());
    let outside = Target { protocol: kind, ..Target::answered_by(related.opposite, related.manip) };
    header::translate(packet, 0, &outside)
}

fn pseudo(packet: &[u8], at: usize, v4: bool) -> checksum::Sum {
    match ipv6::Header::new(packet) {
        Some(h) if !v4 => h.pseudo(protocol::ICMPV6, packet.len() - at),
        _ => checksum::Sum::new(),
    }
}

fn checksum_ok(packet: &[u8], at: usize, v4: bool) -> bool {
    pseudo(packet, at, v4).bytes(&packet[at..]).is_valid()
}

#[cfg(test)]
mod tests;
