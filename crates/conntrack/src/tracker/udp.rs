// SPDX-License-Identifier: Apache-2.0

//! UDP and UDP-Lite (`nf_conntrack_proto_udp.c`).

use super::{Context, Outcome, ProtocolState};
use crate::dissect::Layers;
use crate::packet::PacketView;
use crate::settings::SECOND;
use crate::status;
use penstock_wire::{protocol, udp, udplite};

const UNREPLIED: usize = 0;
const REPLIED: usize = 1;

/// Whether length and checksum are right (`udp_error()`, `udplite_error()`).
#[inline]
fn is_right(p: &PacketView<'_>, c: &Context<'_>) -> bool {
    let data = p.transport();
    if p.at.protocol == protocol::UDPLITE {
        let Some(h) = udplite::Header::new(data) else { return false };
        let coverage = match usize::from(h.coverage()) {
            0 => data.len(),
            n if n < udplite::LEN || n > data.len() => return false,
            n => n,
        };
        // The kernel sums UDP-Lite with the pseudo header of UDP, so to it right checksums are
        // wrong (observed on 6.18).
        let as_udp = PacketView { at: Layers { protocol: protocol::UDP, ..p.at }, ..*p };
        return h.checksum() != 0 && (!c.verifies(p) || as_udp.checksum_ok(coverage));
    }
    let Some(h) = udp::Header::new(data) else { return false };
    let len = usize::from(h.length());
    if len > data.len() || len < udp::LEN {
        return false;
    }
    h.checksum() == 0 || !c.verifies(p) || p.checksum_ok(data.len())
}

/// A packet of a connection (`nf_conntrack_udp_packet()`).
#[inline]
pub(super) fn packet(state: &mut ProtocolState, p: &PacketView<'_>, c: &Context<'_>) -> Outcome {
    if !is_right(p, c) {
        return Outcome::INVALID;
    }
    if !c.has(status::CONFIRMED) {
        *state = ProtocolState::Udp { stream_after: c.now + 2 * SECOND };
    }
    if !c.has(status::SEEN_REPLY) {
        return Outcome::accept(c.timeouts[UNREPLIED]);
    }
    // What is assured was a stream before, and stays one.
    let stream = c.has(status::ASSURED)
        || match *state {
            ProtocolState::Udp { stream_after } => c.now > stream_after,
            _ => true,
        };
    let outcome = Outcome::accept(c.timeouts[if stream { REPLIED } else { UNREPLIED }]);
    let assure = stream && !c.has(status::ASSURED | status::NAT_CLASH);
    if assure { outcome.assured() } else { outcome }
}
