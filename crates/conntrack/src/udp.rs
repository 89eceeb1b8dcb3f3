// SPDX-License-Identifier: Apache-2.0

//! UDP and UDP-Lite (`nf_conntrack_proto_udp.c`).

use crate::conntrack::{Conntrack, Outcome, Seen};
use crate::dissect::Layers;
use crate::entry::Proto;
use crate::settings::{SECOND, Tracker};
use crate::status;
use penstock_wire::{protocol, udp, udplite};

const UNREPLIED: usize = 0;
const REPLIED: usize = 1;

impl Conntrack {
    /// Whether length and checksum are right (`udp_error()`, `udplite_error()`).
    #[inline]
    fn udp_is_right(&self, p: &Seen<'_>) -> bool {
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
            let as_udp = Seen { at: Layers { protocol: protocol::UDP, ..p.at }, ..*p };
            return h.checksum() != 0 && (!self.verifies(p) || as_udp.checksum_ok(coverage));
        }
        let Some(h) = udp::Header::new(data) else { return false };
        let len = usize::from(h.length());
        if len > data.len() || len < udp::LEN {
            return false;
        }
        h.checksum() == 0 || !self.verifies(p) || p.checksum_ok(data.len())
    }

    /// A UDP packet of entry `n` (`nf_conntrack_udp_packet()`).
    #[inline]
    pub(crate) fn udp_packet(&mut self, n: u32, p: &Seen<'_>) -> Outcome {
        if !self.udp_is_right(p) {
            return Outcome::Invalid;
        }
        let now = self.now;
        let timeouts = self.timeouts(n, Tracker::Udp);
        let (unreplied, replied) = (timeouts[UNREPLIED], timeouts[REPLIED]);
        let e = &mut self.store[n];
        if !e.has(status::CONFIRMED) {
            e.proto = Proto::Udp { stream_after: now + 2 * SECOND };
        }
        if !e.has(status::SEEN_REPLY) {
            self.refresh(n, p, unreplied);
            return Outcome::Accept;
        }
        // What is assured was a stream before, and stays one.
        let stream = e.has(status::ASSURED)
            || match e.proto {
                Proto::Udp { stream_after } => now > stream_after,
                _ => true,
            };
        self.refresh(n, p, if stream { replied } else { unreplied });
        if stream && !self.store[n].has(status::ASSURED | status::NAT_CLASH) {
            self.assure(n);
        }
        Outcome::Accept
    }
}
