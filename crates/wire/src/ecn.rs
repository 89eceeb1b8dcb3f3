// SPDX-License-Identifier: Apache-2.0

//! Explicit congestion notification of tunnels (RFC 6040, as `include/net/inet_ecn.h` has it): the
//! low two bits of TOS and traffic class.

/// The bits that ECN has of a TOS or traffic class.
pub const MASK: u8 = 3;
/// Not ECN-capable transport.
pub const NOT_ECT: u8 = 0;
/// ECN-capable transport (1).
pub const ECT_1: u8 = 1;
/// ECN-capable transport (0).
pub const ECT_0: u8 = 2;
/// Congestion experienced.
pub const CE: u8 = 3;

/// TOS of the outer header: its own DSCP, and what the inner header says about ECN, but never
/// congestion (`INET_ECN_encapsulate()`).
#[inline]
pub const fn encapsulate(outer: u8, inner: u8) -> u8 {
    let ecn = if inner & MASK == CE { ECT_0 } else { inner & MASK };
    outer & !MASK | ecn
}

/// TOS of the inner header when it leaves the tunnel; `None` if the packet must be dropped: it met
/// congestion and its transport cannot signal that (`INET_ECN_decapsulate()`).
#[inline]
pub const fn decapsulate(outer: u8, inner: u8) -> Option<u8> {
    match (outer & MASK, inner & MASK) {
        (CE, NOT_ECT) => None,
        (CE, _) => Some(inner | CE),
        (ECT_1, ECT_0) => Some(inner & !MASK | ECT_1),
        _ => Some(inner),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Figure 4 of RFC 6040, in the kernel's reading.
    #[test]
    fn congestion_marks_are_copied_to_ecn_capable_inner_packets() {
        for (inner, outer, want) in [
            (NOT_ECT, NOT_ECT, Some(NOT_ECT)),
            (NOT_ECT, ECT_0, Some(NOT_ECT)),
            (NOT_ECT, ECT_1, Some(NOT_ECT)),
            (NOT_ECT, CE, None),
            (ECT_0, NOT_ECT, Some(ECT_0)),
            (ECT_0, ECT_0, Some(ECT_0)),
            (ECT_0, ECT_1, Some(ECT_1)),
            (ECT_0, CE, Some(CE)),
            (ECT_1, NOT_ECT, Some(ECT_1)),
            (ECT_1, ECT_0, Some(ECT_1)),
            (ECT_1, ECT_1, Some(ECT_1)),
            (ECT_1, CE, Some(CE)),
            (CE, NOT_ECT, Some(CE)),
            (CE, ECT_0, Some(CE)),
            (CE, ECT_1, Some(CE)),
            (CE, CE, Some(CE)),
        ] {
            assert_eq!(decapsulate(0xa0 | outer, 0x54 | inner), want.map(|ecn| 0x54 | ecn));
        }
    }

    #[test]
    fn an_outer_header_begins_without_congestion() {
        for (inner, want) in [(NOT_ECT, NOT_ECT), (ECT_0, ECT_0), (ECT_1, ECT_1), (CE, ECT_0)] {
            assert_eq!(encapsulate(0xa3, 0x54 | inner), 0xa0 | want);
        }
    }
}
