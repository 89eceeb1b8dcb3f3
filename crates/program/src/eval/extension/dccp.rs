// SPDX-License-Identifier: Apache-2.0

//! Options of DCCP (`net/netfilter/xt_dccp.c`).

use penstock_packet::Packet;

use super::{HOTDROP, Step};

/// Bytes of the generic header, without the rest of a long sequence number.
const GENERIC: usize = 12;

/// `dccp_find_option()`: a packet whose header is shorter than its type says, or is not all there,
/// is dropped.
pub(super) fn option(kind: u8, inverted: bool, packet: &Packet) -> Step {
    match find(kind, packet.transport_bytes().unwrap_or_default()) {
        Some(found) => Step::unless(found == inverted),
        None => HOTDROP,
    }
}

fn find(kind: u8, header: &[u8]) -> Option<bool> {
    let (&offset, &flags) = (header.get(4)?, header.get(8)?);
    let (long, number) = (flags & 1 != 0, flags >> 1 & 15);
    let begin = GENERIC + if long { 4 } else { 0 } + of_type(number);
    let len = (usize::from(offset) * 4).checked_sub(begin)?;
    if len == 0 {
        return Some(false);
    }
    let options = header.get(begin..begin + len)?;
    let mut at = 0;
    while let Some(&own) = options.get(at) {
        if own == kind {
            return Some(true);
        }
        // Options below 2 are a byte; a length of 0 counts as one.
        at += match own {
            0 | 1 => 1,
            _ => options.get(at + 1).map_or(1, |len| usize::from(*len).max(1)),
        };
    }
    Some(false)
}

/// Bytes between the generic header and the options (`dccp_packet_hdr_len()`).
fn of_type(number: u8) -> usize {
    const REQUEST: u8 = 0;
    const RESPONSE: u8 = 1;
    const DATA: u8 = 2;
    match number {
        REQUEST => 4,
        DATA => 0,
        RESPONSE => 12,
        // Acknowledgement, with data, requests for the end, the end, synchronisation.
        3 | 4 | 5 | 6 | 8 | 9 => 8,
        _ => 12,
    }
}
