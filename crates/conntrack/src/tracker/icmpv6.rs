// SPDX-License-Identifier: Apache-2.0

//! ICMPv6 requests with their replies (`nf_conntrack_proto_icmpv6.c`).

use super::{Context, Outcome};
use crate::packet::PacketView;
use crate::tuple::{IPV6, NODE_QUERY};
use penstock_wire::icmpv6;

/// A request or reply (`nf_conntrack_icmpv6_packet()`): only requests begin a flow.
#[inline(never)]
pub(super) fn packet(p: &PacketView<'_>, c: &Context<'_>) -> Outcome {
    let [kind, _] = c.original.dst_id.to_be_bytes();
    if p.at.l3 != IPV6 || !matches!(kind, icmpv6::ECHO_REQUEST | NODE_QUERY) {
        return Outcome::INVALID;
    }
    Outcome::accept(c.timeouts[0])
}
