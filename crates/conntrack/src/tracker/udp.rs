// SPDX-License-Identifier: Apache-2.0

//! UDP and UDP-Lite (`nf_conntrack_proto_udp.c`).

use super::{Context, Outcome, ProtocolState};
use crate::dissect::Layers;
use crate::packet::PacketView;
use crate::settings::{SECOND, Timeouts};
use crate::status;
use penstock_wire::{protocol, udp, udplite};

const UNREPLIED: usize = 0;
const REPLIED: usize = 1;

/// What is wrong with length or checksum (`udp_error()`, `udplite_error()`).
#[inline]
fn wrong(p: &PacketView<'_>, verifies: bool) -> Option<&'static str> {
    const SHORT: &str = "short packet";
    const CHECKSUM: &str = "bad checksum";
    let data = p.transport();
    if p.at.protocol == protocol::UDPLITE {
        let Some(h) = udplite::Header::new(data) else { return Some(SHORT) };
        let coverage = match usize::from(h.coverage()) {
            0 => data.len(),
            n if n < udplite::LEN || n > data.len() => return Some("invalid checksum coverage"),
            n => n,
        };
        if h.checksum() == 0 {
            return Some("checksum missing");
        }
        // The kernel sums UDP-Lite with the pseudo header of UDP, so to it right checksums are
        // wrong (observed on 6.18).
        let as_udp = PacketView { at: Layers { protocol: protocol::UDP, ..p.at }, ..*p };
        return (verifies && !as_udp.checksum_ok(coverage)).then_some(CHECKSUM);
    }
    let Some(h) = udp::Header::new(data) else { return Some(SHORT) };
    let len = usize::from(h.length());
    if len > data.len() || len < udp::LEN {
        return Some("truncated/malformed packet");
    }
    (!is_right(p, verifies)).then_some(CHECKSUM)
}

/// Whether length and checksum of a packet of UDP are right.
#[inline(always)]
pub(crate) fn is_right(p: &PacketView<'_>, verifies: bool) -> bool {
    let data = p.transport();
    let Some(h) = udp::Header::new(data) else { return false };
    (udp::LEN..=data.len()).contains(&usize::from(h.length()))
        && (h.checksum() == 0 || !verifies || p.checksum_ok(data.len()))
}

/// How long a packet renews the life of a connection of UDP that was answered, if it does nothing
/// else: it does not make it assured. In nanoseconds.
#[inline(always)]
pub(crate) fn renewed(
    state: &ProtocolState,
    status: u32,
    now: u64,
    timeouts: &Timeouts,
) -> Option<u64> {
    match (is_stream(state, status, now), status & status::ASSURED != 0) {
        (true, false) => None,
        (stream, _) => Some(timeouts[if stream { REPLIED } else { UNREPLIED }]),
    }
}

/// Whether a connection that was answered is a stream. What is assured was one before, and stays
/// one.
#[inline(always)]
fn is_stream(state: &ProtocolState, status: u32, now: u64) -> bool {
    let since = match *state {
        ProtocolState::Udp { stream_after } => now > stream_after,
        _ => true,
    };
    since || status & status::ASSURED != 0
}

/// A packet of a connection (`nf_conntrack_udp_packet()`, `nf_conntrack_udplite_packet()`). UDP-Lite
/// is a stream as soon as there was an answer.
#[inline]
pub(super) fn packet(state: &mut ProtocolState, p: &PacketView<'_>, c: &Context<'_>) -> Outcome {
    if let Some(why) = wrong(p, c.verifies(p)) {
        return c.invalid(p, why);
    }
    if !c.has(status::CONFIRMED) {
        *state = ProtocolState::Udp { stream_after: c.now + 2 * SECOND };
    }
    if !c.has(status::SEEN_REPLY) {
        return Outcome::accept(c.timeouts[UNREPLIED]);
    }
    let stream = p.at.protocol == protocol::UDPLITE || is_stream(state, c.status, c.now);
    let outcome = Outcome::accept(c.timeouts[if stream { REPLIED } else { UNREPLIED }]);
    let assure = stream && !c.has(status::ASSURED | status::NAT_CLASH);
    if assure { outcome.assured() } else { outcome }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Hook;
    use crate::settings::{Settings, Tracker};
    use crate::tracker::Verdict;
    use crate::{Tuple, dissect, event};
    use penstock_packet::{CtInfo, Packet};
    use penstock_testkit::build::*;

    #[test]
    fn a_udp_flow_becomes_a_stream_after_two_seconds() {
        let mut packet = Packet::new();
        packet.load(&(Ipv4::new("198.18.0.1", "198.18.0.2") / Udp::new(1000, 53)).build(), 0);
        let network = packet.network();
        let view = PacketView {
            network,
            at: dissect::layers(network).unwrap(),
            info: CtInfo::New,
            hook: Hook::Prerouting,
            len: network.len(),
            unfinished: false,
        };
        let settings = Settings::default();
        let mut state = ProtocolState::None;
        let mut at = |now: u64, status: u32| {
            let context = Context {
                now,
                status,
                expires: 0,
                original: &Tuple::ZERO,
                settings: &settings,
                timeouts: settings.timeouts(Tracker::Udp),
                seqadj: None,
                synproxy: false,
                complaints: &crate::complaint::Complaints::default(),
            };
            super::packet(&mut state, &view, &context)
        };
        let replied = status::CONFIRMED | status::SEEN_REPLY;
        for (now, status, timeout, assured) in [
            (0, 0, 30, false),
            (3, status::CONFIRMED, 30, false),
            (2, replied, 30, false),
            (3, replied, 120, true),
            (3, replied | status::NAT_CLASH, 120, false),
        ] {
            let outcome = at(now * SECOND, status);
            assert_eq!((outcome.verdict, outcome.timeout), (Verdict::Accept, timeout * SECOND));
            let bits = if assured { (status::ASSURED, event::ASSURED) } else { (0, 0) };
            assert_eq!((outcome.status, outcome.events), bits, "at {now}");
        }
    }
}
