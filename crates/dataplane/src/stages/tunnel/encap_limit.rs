// SPDX-License-Identifier: Apache-2.0

//! The tunnel encapsulation limit, a destination option (RFC 2473, 4.1.1).

use penstock_wire::{ipv6, ipv6_ext, protocol};

/// Bytes of the header that carries it.
pub(super) const LEN: usize = 8;
/// `IPV6_TLV_TNL_ENCAP_LIMIT`.
const KIND: u8 = 4;

/// The header with the option, before a packet of this protocol.
pub(super) const fn option(payload: u8, limit: u8) -> [u8; LEN] {
    [payload, 0, KIND, 1, limit, ipv6_ext::OPTION_PADN, 1, 0]
}

/// Where in an IPv6 packet the option is, and the limit (`ip6_tnl_parse_tlv_enc_lim()`).
pub(super) fn find(packet: &[u8]) -> Option<(usize, u8)> {
    let mut next = *packet.get(6)?;
    let mut at = ipv6::LEN;
    while ipv6_ext::is_extension(next) && next != protocol::NO_NEXT {
        let &[following, len, ..] = packet.get(at..)?.first_chunk::<2>()?;
        let size = match next {
            protocol::FRAGMENT => 8,
            protocol::AH => (usize::from(len) + 2) * 4,
            _ => (usize::from(len) + 1) * 8,
        };
        let header = packet.get(at..at + size)?;
        if next == protocol::FRAGMENT && ipv6_ext::Fragment::new(header).is_some_and(|f| later(&f))
        {
            return None;
        }
        if next == protocol::DEST_OPTIONS
            && let Some((inside, limit)) = find_option(header)
        {
            return Some((at + inside, limit));
        }
        next = following;
        at += size;
    }
    None
}

/// The kernel looks at all bits of the field, so the first of several fragments counts, too.
fn later(fragment: &ipv6_ext::Fragment<'_>) -> bool {
    fragment.fragment_offset() != 0 || fragment.more()
}

fn find_option(header: &[u8]) -> Option<(usize, u8)> {
    let mut at = 2;
    while let Some(&[kind, len, limit]) = header.get(at..).and_then(|h| h.first_chunk::<3>()) {
        if kind == KIND && len == 1 {
            return Some((at, limit));
        }
        at += if kind == ipv6_ext::OPTION_PAD1 { 1 } else { usize::from(len) + 2 };
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_testkit::build::*;

    #[test]
    fn the_limit_is_found_after_other_headers() {
        let ip = || Ipv6::new("2001:db8::1", "2001:db8::2");
        let limit = |n: u8| DestOptions::new().option(4, &[n]);
        for (packet, want) in [
            ((ip() / Udp::new(1, 2)).build(), None),
            ((ip() / limit(3) / Udp::new(1, 2)).build(), Some((42, 3))),
            ((ip() / HopByHop::new() / limit(0) / Udp::new(1, 2)).build(), Some((50, 0))),
            (
                (ip() / DestOptions::new().option(30, &[1, 2]).option(4, &[7])).build(),
                Some((46, 7)),
            ),
            ((ip() / DestOptions::new().option(4, &[1, 2]) / Udp::new(1, 2)).build(), None),
            ((ip() / Fragment::new(1, false, 1) / limit(3)).build(), None),
            ((ip() / limit(3) / Udp::new(1, 2)).truncate(45).build(), None),
        ] {
            assert_eq!(find(&packet), want, "{packet:02x?}");
        }
        let whole =
            (ip() / DestOptions::new().option(4, &[4]) / Ipv4::new("198.18.0.1", "198.18.0.2"))
                .build();
        assert_eq!(whole.get(40..48), Some(&option(protocol::IPIP, 4)[..]));
    }
}
