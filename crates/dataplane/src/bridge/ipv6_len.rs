// SPDX-License-Identifier: Apache-2.0

//! How long an IPv6 packet on a bridge is (`br_validate_ipv6()`, `nf_ip6_check_hbh_len()`): less is
//! checked than where a host receives it.

use penstock_wire::ipv6_ext::{OPTION_JUMBO, OPTION_PAD1, OptionsHeader};
use penstock_wire::{ipv6, protocol};

/// Bytes of the packet, which padding may follow. `None` if it is malformed.
pub(crate) fn ipv6_len(packet: &[u8]) -> Option<usize> {
    let h = ipv6::Header::new(packet).filter(|h| h.version() == 6)?;
    let payload = match h.next_header() {
        protocol::HOP_BY_HOP => hop_by_hop(packet, usize::from(h.payload_len()))?,
        _ => usize::from(h.payload_len()),
    };
    let len = payload.checked_add(ipv6::LEN)?;
    (len <= packet.len()).then_some(len)
}

/// The payload's length, which an option of a jumbogram may say.
fn hop_by_hop(packet: &[u8], payload: usize) -> Option<usize> {
    let rest = packet.get(ipv6::LEN..).filter(|rest| rest.len() >= 8)?;
    let end = ipv6::LEN + OptionsHeader::new(rest)?.header_len();
    let options = packet.get(..end)?;
    let (mut at, mut len) = (ipv6::LEN + 2, payload);
    while at < end {
        if options[at] == OPTION_PAD1 {
            at += 1;
            continue;
        }
        let size = usize::from(*options.get(at + 1)?);
        let data = options.get(at + 2..at + 2 + size)?;
        if options[at] == OPTION_JUMBO {
            let jumbo = u32::from_be_bytes(data.try_into().ok().filter(|_| at & 3 == 2)?);
            let whole = packet.len() - ipv6::LEN;
            len = usize::try_from(jumbo).ok()?;
            if jumbo <= 0xffff || payload != 0 || len > whole {
                return None;
            }
        }
        at += 2 + size;
    }
    Some(len)
}
