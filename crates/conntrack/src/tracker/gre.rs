// SPDX-License-Identifier: Apache-2.0

//! GRE (`nf_conntrack_proto_gre.c`): without a key, but for the call ids of PPTP, which its helper
//! tells.

use super::{Context, Outcome, ProtocolState};
use crate::status;

const UNREPLIED: usize = 0;
const REPLIED: usize = 1;

/// A packet of a connection (`nf_conntrack_gre_packet()`).
#[inline(never)]
pub(super) fn packet(state: &mut ProtocolState, c: &Context<'_>) -> Outcome {
    let usual = (c.timeouts[UNREPLIED], c.timeouts[REPLIED]);
    if !c.has(status::CONFIRMED) {
        *state = ProtocolState::Gre { timeout: usual.0, stream_timeout: usual.1 };
    }
    let (timeout, stream_timeout) = match *state {
        ProtocolState::Gre { timeout, stream_timeout } => (timeout, stream_timeout),
        _ => usual,
    };
    if !c.has(status::SEEN_REPLY) {
        return Outcome::accept(timeout);
    }
    let outcome = Outcome::accept(stream_timeout);
    if c.has(status::ASSURED | status::NAT_CLASH) { outcome } else { outcome.assured() }
}
