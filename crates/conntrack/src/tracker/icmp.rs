// SPDX-License-Identifier: Apache-2.0

//! ICMP requests with their replies (`nf_conntrack_proto_icmp.c`).

use super::{Context, Outcome};
use crate::packet::PacketView;
use crate::tuple::IPV4;
use penstock_wire::icmp;

/// A request or reply (`nf_conntrack_icmp_packet()`): only requests begin a flow.
#[inline(never)]
pub(super) fn packet(p: &PacketView<'_>, c: &Context<'_>) -> Outcome {
    let [kind, _] = c.original.dst_id.to_be_bytes();
    let begins = matches!(
        kind,
        icmp::ECHO_REQUEST
            | icmp::TIMESTAMP_REQUEST
            | icmp::INFO_REQUEST
            | icmp::ADDRESS_MASK_REQUEST
    );
    if p.at.l3 != IPV4 || !begins {
        return Outcome::INVALID;
    }
    Outcome::accept(c.timeouts[0])
}
