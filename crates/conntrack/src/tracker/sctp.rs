// SPDX-License-Identifier: Apache-2.0

//! SCTP (`nf_conntrack_proto_sctp.c`, RFC 9260): states by chunks, verification tags.

use super::{Context, Outcome, ProtocolState};
use crate::complaint::Wrong;
use crate::packet::PacketView;
use crate::{Direction, status};
use penstock_wire::protocol;
use penstock_wire::sctp::{self, chunk};

/// State of an association (`enum sctp_conntrack`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// No packet seen.
    None = 0,
    /// Ended, or an INIT was seen.
    Closed = 1,
    /// INIT answered.
    CookieWait = 2,
    /// Cookie echoed.
    CookieEchoed = 3,
    /// Cookie acknowledged.
    Established = 4,
    /// SHUTDOWN in the original direction.
    ShutdownSent = 5,
    /// SHUTDOWN in the reply direction.
    ShutdownRecd = 6,
    /// SHUTDOWN acknowledged.
    ShutdownAckSent = 7,
    /// Heartbeat on a path that is not known yet.
    HeartbeatSent = 8,
}

impl State {
    /// All of them by number.
    pub(crate) const ALL: [State; 9] = [
        State::None,
        State::Closed,
        State::CookieWait,
        State::CookieEchoed,
        State::Established,
        State::ShutdownSent,
        State::ShutdownRecd,
        State::ShutdownAckSent,
        State::HeartbeatSent,
    ];

    /// As listings have it.
    pub const fn name(self) -> &'static str {
        match self {
            State::None => "NONE",
            State::Closed => "CLOSED",
            State::CookieWait => "COOKIE_WAIT",
            State::CookieEchoed => "COOKIE_ECHOED",
            State::Established => "ESTABLISHED",
            State::ShutdownSent => "SHUTDOWN_SENT",
            State::ShutdownRecd => "SHUTDOWN_RECD",
            State::ShutdownAckSent => "SHUTDOWN_ACK_SENT",
            State::HeartbeatSent => "HEARTBEAT_SENT",
        }
    }
}

/// An association (`struct ip_ct_sctp`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sctp {
    pub state: State,
    /// Verification tags that packets of each direction carry; 0 for not known.
    pub vtag: [u32; 2],
    /// Whether each direction sent an INIT that was not followed by a cookie yet.
    pub init: [bool; 2],
    /// A heartbeat had another tag than was known: its direction.
    pub heartbeat_failed: Option<Direction>,
}

impl Sctp {
    pub(crate) const NEW: Sctp =
        Sctp { state: State::None, vtag: [0; 2], init: [false; 2], heartbeat_failed: None };

    /// Whether an assured association may be dropped when the table is full.
    pub fn may_drop_early(&self) -> bool {
        matches!(self.state, State::ShutdownSent | State::ShutdownRecd | State::ShutdownAckSent)
    }
}

/// Where a chunk leads from a state; `None` for invalid.
fn next(direction: Direction, kind: u8, state: State) -> Option<State> {
    const CL: State = State::Closed;
    const CW: State = State::CookieWait;
    const CE: State = State::CookieEchoed;
    const ES: State = State::Established;
    const SS: State = State::ShutdownSent;
    const SR: State = State::ShutdownRecd;
    const SA: State = State::ShutdownAckSent;
    const HS: State = State::HeartbeatSent;
    // Columns: NONE CLOSED COOKIE_WAIT COOKIE_ECHOED ESTABLISHED SHUTDOWN_SENT SHUTDOWN_RECD
    // SHUTDOWN_ACK_SENT HEARTBEAT_SENT. In the reply direction the first and the last are invalid
    // but for heartbeats.
    const ORIGINAL: [[State; 9]; 11] = [
        [CL, CL, CW, CE, ES, CL, CL, SA, CW],
        [CL, CL, CW, CE, ES, SS, SR, SA, CL],
        [CL, CL, CL, CL, CL, CL, CL, CL, CL],
        [CL, CL, CW, CE, SS, SS, SR, SA, CL],
        [SA, CL, CW, CE, ES, SA, SA, SA, SA],
        [CL, CL, CW, CE, ES, SS, SR, SA, CL],
        [CL, CL, CE, CE, ES, SS, SR, SA, CL],
        [CL, CL, CW, ES, ES, SS, SR, SA, CL],
        [CL, CL, CW, CE, ES, SS, SR, CL, CL],
        [HS, CL, CW, CE, ES, SS, SR, SA, HS],
        [CL, CL, CW, CE, ES, SS, SR, SA, HS],
    ];
    const REPLY: [[State; 7]; 11] = [
        [CL, CW, CE, ES, SS, SR, SA],
        [CW, CW, CE, ES, SS, SR, SA],
        [CL, CL, CL, CL, CL, CL, CL],
        [CL, CW, CE, SR, SS, SR, SA],
        [CL, CW, CE, ES, SA, SA, SA],
        [CL, CW, CL, ES, SS, SR, SA],
        [CL, CE, CE, ES, SS, SR, SA],
        [CL, CW, ES, ES, SS, SR, SA],
        [CL, CW, CE, ES, SS, SR, CL],
        [CL, CW, CE, ES, SS, SR, SA],
        [CL, CW, CE, ES, SS, SR, SA],
    ];
    let row = match kind {
        chunk::INIT => 0,
        chunk::INIT_ACK => 1,
        chunk::ABORT => 2,
        chunk::SHUTDOWN => 3,
        chunk::SHUTDOWN_ACK => 4,
        chunk::ERROR => 5,
        chunk::COOKIE_ECHO => 6,
        chunk::COOKIE_ACK => 7,
        chunk::SHUTDOWN_COMPLETE => 8,
        chunk::HEARTBEAT => 9,
        chunk::HEARTBEAT_ACK => 10,
        // Data and the like change nothing.
        _ => return Some(state),
    };
    match (direction, state) {
        (Direction::Original, state) => Some(ORIGINAL[row][state as usize]),
        (Direction::Reply, State::HeartbeatSent) => match kind {
            chunk::HEARTBEAT => Some(HS),
            chunk::HEARTBEAT_ACK => Some(ES),
            _ => None,
        },
        (Direction::Reply, State::None) => None,
        (Direction::Reply, state) => Some(REPLY[row][state as usize - 1]),
    }
}

/// Which chunk types a packet has, as far as they matter, after the basic checks: an error if an
/// INIT, INIT ACK or SHUTDOWN COMPLETE is not alone, a cookie chunk not the first, a length zero,
/// or there is no chunk (`do_basic_checks()`).
fn chunks_of(bytes: &[u8]) -> Result<[bool; 16], Option<Wrong>> {
    let mut types = [false; 16];
    let mut alone = false;
    let mut count = 0;
    for c in walk(bytes) {
        alone |= matches!(c.kind, chunk::INIT | chunk::INIT_ACK | chunk::SHUTDOWN_COMPLETE);
        let first = alone || matches!(c.kind, chunk::COOKIE_ACK | chunk::COOKIE_ECHO);
        if (first && count != 0) || c.length == 0 {
            let what = Wrong::Place { number: count, kind: c.kind, length: c.length, alone };
            return Err(Some(what));
        }
        if let Some(t) = types.get_mut(usize::from(c.kind)) {
            *t = true;
        }
        count += 1;
    }
    (count > 0).then_some(types).ok_or(None)
}

struct Chunk {
    kind: u8,
    flags: u8,
    length: u16,
    at: usize,
}

/// All chunks with a complete header; one of length zero is the last.
fn walk(bytes: &[u8]) -> impl Iterator<Item = Chunk> {
    let mut at = sctp::LEN;
    std::iter::from_fn(move || {
        let &[kind, flags, high, low] = bytes.get(at..)?.first_chunk()?;
        let length = u16::from_be_bytes([high, low]);
        let c = Chunk { kind, flags, length, at };
        at = if length == 0 { bytes.len() } else { at + usize::from(length).next_multiple_of(4) };
        Some(c)
    })
}

/// The tag that an INIT or INIT ACK offers; its fixed part must be complete.
fn init_tag(bytes: &[u8], c: &Chunk) -> Option<u32> {
    let body: &[u8; 16] = bytes.get(c.at + sctp::CHUNK_LEN..)?.first_chunk()?;
    Some(u32::from_be_bytes([body[0], body[1], body[2], body[3]]))
}

/// What the chunks of a packet did to an association.
struct Effect {
    new: State,
    /// A chunk established it.
    established: bool,
    /// The packet does not renew the entry.
    ignore: bool,
}

impl Sctp {
    /// Notes the tags of a first packet (`sctp_new()`); `false` if it cannot be one.
    fn begin(&mut self, bytes: &[u8], vtag: u32) -> bool {
        for c in walk(bytes) {
            if matches!(next(Direction::Original, c.kind, State::None), None | Some(State::None)) {
                return false;
            }
            match c.kind {
                chunk::INIT => {
                    if vtag != 0 {
                        return false;
                    }
                    let Some(tag) = init_tag(bytes, &c) else { return false };
                    self.vtag[Direction::Reply as usize] = tag;
                }
                chunk::HEARTBEAT => self.vtag[Direction::Original as usize] = vtag,
                // SHUTDOWN COMPLETE comes back with the same tag (RFC 9260, 8.4).
                chunk::SHUTDOWN_ACK => self.vtag[Direction::Reply as usize] = vtag,
                _ => {}
            }
        }
        true
    }

    /// Takes the chunks of a packet; `None` if one is wrong.
    fn take(
        &mut self,
        direction: Direction,
        bytes: &[u8],
        vtag: u32,
        data: bool,
        context: &Context<'_>,
    ) -> Option<Effect> {
        const T: u8 = 1;
        let (this, other) = (direction as usize, direction.opposite() as usize);
        let mut effect = Effect { new: State::None, established: false, ignore: false };
        for c in walk(bytes) {
            match c.kind {
                chunk::INIT if vtag != 0 => return None,
                chunk::ABORT | chunk::SHUTDOWN_COMPLETE => {
                    let of = if c.flags & T == 0 { this } else { other };
                    if vtag != self.vtag[of] {
                        return None;
                    }
                }
                chunk::COOKIE_ECHO if vtag != self.vtag[this] => return None,
                chunk::COOKIE_ACK => self.init = [false; 2],
                chunk::HEARTBEAT => {
                    if self.vtag[this] == 0 {
                        self.vtag[this] = vtag;
                    } else if vtag == self.vtag[this] {
                        self.heartbeat_failed = None;
                    } else {
                        if data || effect.ignore {
                            return None;
                        }
                        self.heartbeat_failed = Some(direction);
                        effect.ignore = true;
                        continue;
                    }
                }
                chunk::HEARTBEAT_ACK => {
                    if self.vtag[this] == 0 {
                        self.vtag[this] = vtag;
                    } else if vtag == self.vtag[this] {
                        self.heartbeat_failed = None;
                    } else {
                        if data
                            || effect.ignore
                            || self.heartbeat_failed.is_none_or(|d| d == direction)
                        {
                            return None;
                        }
                        // The other side answers to the new tag: the association was restarted on
                        // another path.
                        self.heartbeat_failed = None;
                        self.vtag[this] = vtag;
                        self.vtag[other] = 0;
                    }
                }
                _ => {}
            }
            let old = self.state;
            let Some(new) = next(direction, c.kind, self.state) else {
                let (state, kind) = (self.state as u8, c.kind);
                context.complain(protocol::SCTP, Wrong::Chunk { state, direction, kind });
                return None;
            };
            effect.new = new;
            match c.kind {
                chunk::INIT => {
                    let tag = init_tag(bytes, &c)?;
                    // A third INIT after both sides began at once is that of a new try.
                    if self.init[this] && self.init[other] {
                        self.init[other] = false;
                    }
                    self.init[this] = true;
                    self.vtag[other] = tag;
                    // INITs alone do not keep an entry alive.
                    effect.ignore |= old == State::Closed
                        && effect.new == State::Closed
                        && context.has(status::CONFIRMED);
                }
                chunk::INIT_ACK => {
                    let tag = init_tag(bytes, &c)?;
                    let known = self.vtag[other];
                    if !self.init[other] && known != 0 && known != tag {
                        return None;
                    }
                    if self.init[this] && self.init[other] && known != tag {
                        return None;
                    }
                    self.vtag[other] = tag;
                }
                _ => {}
            }
            effect.established |= old != new && new == State::Established;
            self.state = effect.new;
        }
        Some(effect)
    }
}

/// A packet of an association (`nf_conntrack_sctp_packet()`).
#[inline(never)]
pub(super) fn packet(state: &mut ProtocolState, p: &PacketView<'_>, c: &Context<'_>) -> Outcome {
    let bytes = p.transport();
    let Some(h) = sctp::Header::new(bytes) else {
        return c.invalid(p, "nf_ct_sctp: short packet");
    };
    if c.verifies(p) && !h.checksum_ok() {
        return c.invalid(p, "nf_ct_sctp: bad CRC");
    }
    let types = match chunks_of(bytes) {
        Ok(types) => types,
        Err(wrong) => {
            wrong.into_iter().for_each(|what| c.complain(protocol::SCTP, what));
            return Outcome::INVALID;
        }
    };
    let has = |kinds: &[u8]| kinds.iter().any(|&k| types[usize::from(k)]);
    let direction = p.direction();
    let confirmed = c.has(status::CONFIRMED);
    let mut s = match *state {
        ProtocolState::Sctp(s) if confirmed => s,
        _ => Sctp::NEW,
    };
    const NEVER_FIRST: [u8; 3] = [chunk::ABORT, chunk::SHUTDOWN_COMPLETE, chunk::COOKIE_ACK];
    if !confirmed && (has(&NEVER_FIRST) || !s.begin(bytes, h.vtag())) {
        return Outcome::INVALID;
    }
    const CHECKED_APART: [u8; 7] = [
        chunk::INIT,
        chunk::SHUTDOWN_COMPLETE,
        chunk::COOKIE_ECHO,
        chunk::ABORT,
        chunk::SHUTDOWN_ACK,
        chunk::HEARTBEAT,
        chunk::HEARTBEAT_ACK,
    ];
    let (tag, known) = (h.vtag(), s.vtag[direction as usize]);
    if !has(&CHECKED_APART) && tag != known {
        c.complain(protocol::SCTP, Wrong::Tag { tag, known, direction });
        return Outcome::INVALID;
    }
    let effect = s.take(direction, bytes, tag, has(&[chunk::DATA]), c);
    // As in the kernel, what chunks before a wrong one did is done.
    let before = std::mem::replace(state, ProtocolState::Sctp(s));
    let changed = !matches!(before, ProtocolState::Sctp(b) if b.state == s.state);
    let Some(effect) = effect else { return Outcome::INVALID.changed(changed) };
    if effect.ignore {
        return Outcome::IGNORE.changed(changed);
    }
    let outcome = Outcome::accept(c.timeouts[effect.new as usize]).changed(changed);
    if effect.established { outcome.assured() } else { outcome }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sctp_chunks_that_must_be_alone_or_first_are_checked() {
        let packet = |kinds: &[u8]| {
            let mut b = vec![0; sctp::LEN];
            for &k in kinds {
                b.extend([k, 0, 0, 6, 1, 2, 0, 0]);
            }
            b
        };
        for (kinds, right) in [
            (&[][..], false),
            (&[0], true),
            (&[0, 3], true),
            (&[1], true),
            (&[1, 0], false),
            (&[0, 1], false),
            (&[10, 0], true),
            (&[0, 10], false),
            (&[14, 0], false),
            (&[200, 0], true),
        ] {
            assert_eq!(chunks_of(&packet(kinds)).is_ok(), right, "{kinds:?}");
        }
        let mut zero = packet(&[0]);
        zero[sctp::LEN + 3] = 0;
        assert!(chunks_of(&zero).is_err());
    }
}
