// SPDX-License-Identifier: Apache-2.0

//! ICMP and ICMPv6 requests with their replies (`nf_conntrack_proto_icmp.c`,
//! `nf_conntrack_proto_icmpv6.c`).

use crate::conntrack::{Conntrack, Outcome, Seen};
use crate::settings::Tracker;
use crate::tuple::{IPV4, IPV6};
use penstock_wire::{icmp, icmpv6};

/// Node information query and reply (RFC 4620).
const NI_QUERY: u8 = 139;
const NI_REPLY: u8 = 140;

/// Type and code of the answer, type in the upper byte.
pub(crate) fn inverse_v4(type_code: u16) -> Option<u16> {
    let [kind, code] = type_code.to_be_bytes();
    let kind = match kind {
        icmp::ECHO_REQUEST => icmp::ECHO_REPLY,
        icmp::ECHO_REPLY => icmp::ECHO_REQUEST,
        icmp::TIMESTAMP_REQUEST => icmp::TIMESTAMP_REPLY,
        icmp::TIMESTAMP_REPLY => icmp::TIMESTAMP_REQUEST,
        icmp::INFO_REQUEST => icmp::INFO_REPLY,
        icmp::INFO_REPLY => icmp::INFO_REQUEST,
        icmp::ADDRESS_MASK_REQUEST => icmp::ADDRESS_MASK_REPLY,
        icmp::ADDRESS_MASK_REPLY => icmp::ADDRESS_MASK_REQUEST,
        _ => return None,
    };
    Some(u16::from_be_bytes([kind, code]))
}

/// The same for ICMPv6.
pub(crate) fn inverse_v6(type_code: u16) -> Option<u16> {
    let [kind, code] = type_code.to_be_bytes();
    let kind = match kind {
        icmpv6::ECHO_REQUEST => icmpv6::ECHO_REPLY,
        icmpv6::ECHO_REPLY => icmpv6::ECHO_REQUEST,
        NI_QUERY => NI_REPLY,
        NI_REPLY => NI_QUERY,
        _ => return None,
    };
    Some(u16::from_be_bytes([kind, code]))
}

impl Conntrack {
    /// A request or reply (`nf_conntrack_icmp_packet()`): only requests begin a flow.
    pub(crate) fn icmp_packet(&mut self, n: u32, p: &Seen<'_>) -> Outcome {
        let [kind, _] = self.store[n].original.dst_id.to_be_bytes();
        let begins = matches!(
            kind,
            icmp::ECHO_REQUEST
                | icmp::TIMESTAMP_REQUEST
                | icmp::INFO_REQUEST
                | icmp::ADDRESS_MASK_REQUEST
        );
        if p.at.l3 != IPV4 || !begins {
            return Outcome::Invalid;
        }
        let timeout = self.timeouts(n, Tracker::Icmp)[0];
        self.refresh(n, p, timeout);
        Outcome::Accept
    }

    /// The same for ICMPv6 (`nf_conntrack_icmpv6_packet()`).
    pub(crate) fn icmpv6_packet(&mut self, n: u32, p: &Seen<'_>) -> Outcome {
        let [kind, _] = self.store[n].original.dst_id.to_be_bytes();
        if p.at.l3 != IPV6 || !matches!(kind, icmpv6::ECHO_REQUEST | NI_QUERY) {
            return Outcome::Invalid;
        }
        let timeout = self.timeouts(n, Tracker::Icmpv6)[0];
        self.refresh(n, p, timeout);
        Outcome::Accept
    }
}
