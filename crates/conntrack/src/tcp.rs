// SPDX-License-Identifier: Apache-2.0

//! TCP (`nf_conntrack_proto_tcp.c`).

mod states;
mod window;

pub use states::State;
use states::{Kind, Next};
use window::{Fit, Segment};

use crate::conntrack::{Conntrack, Outcome, Seen};
use crate::entry::Proto;
use crate::events::event;
use crate::settings::{SECOND, Timeouts, Tracker};
use crate::{Direction, status};
use penstock_packet::Ct;
use penstock_wire::tcp::{self, flag};

const RETRANS: usize = 10;
const UNACK: usize = 11;

/// What a packet was, by number.
pub(crate) fn kind(n: u64) -> Option<Kind> {
    [Kind::Syn, Kind::SynAck, Kind::Fin, Kind::Ack, Kind::Rst, Kind::None].get(n as usize).copied()
}

/// Bits of [`Side::flags`] and [`Tcp::last_flags`] (`IP_CT_TCP_FLAG_*`).
pub(crate) mod side_flag {
    pub const WINDOW_SCALE: u8 = 0x01;
    pub const SACK_PERM: u8 = 0x02;
    /// This side sent the first FIN.
    pub const CLOSE_INIT: u8 = 0x04;
    pub const BE_LIBERAL: u8 = 0x08;
    pub const DATA_UNACKNOWLEDGED: u8 = 0x10;
    pub const MAXACK_SET: u8 = 0x20;
    /// A SYN was let through in LAST_ACK that may be answered by a challenge ACK.
    pub const EXPECT_CHALLENGE_ACK: u8 = 0x40;
    pub const SIMULTANEOUS_OPEN: u8 = 0x80;
}

/// What is known of one side (`struct ip_ct_tcp_state`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Side {
    /// One past the last sequence number that it sent.
    pub end: u32,
    /// One past the last sequence number that it may send.
    pub maxend: u32,
    /// Largest window that it offered; 0 before its first packet.
    pub maxwin: u32,
    /// Highest acknowledgement that it sent.
    pub maxack: u32,
    pub scale: u8,
    pub flags: u8,
}

/// State of a connection (`struct ip_ct_tcp`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tcp {
    pub seen: [Side; 2],
    pub state: State,
    /// Direction, kind and numbers of the last packet, also of one that was let through without
    /// effect.
    pub last_dir: Direction,
    pub retrans: u8,
    pub last_index: Kind,
    pub last_seq: u32,
    pub last_ack: u32,
    pub last_end: u32,
    pub last_win: u16,
    pub last_wscale: u8,
    pub last_flags: u8,
}

impl Tcp {
    pub(crate) const NEW: Tcp = Tcp {
        seen: [Side { end: 0, maxend: 0, maxwin: 0, maxack: 0, scale: 0, flags: 0 }; 2],
        state: State::None,
        last_dir: Direction::Original,
        retrans: 0,
        last_index: Kind::None,
        last_seq: 0,
        last_ack: 0,
        last_end: 0,
        last_win: 0,
        last_wscale: 0,
        last_flags: 0,
    };

    /// Whether an assured connection may be dropped when the table is full.
    pub fn may_drop_early(&self) -> bool {
        matches!(
            self.state,
            State::FinWait | State::CloseWait | State::LastAck | State::TimeWait | State::Close
        )
    }

    /// A connection's first packet (`tcp_new()`); `None` if it cannot be one.
    fn new(kind: Kind, s: &Segment<'_>, loose: bool) -> Option<Tcp> {
        let Next::To(state) = states::next(Direction::Original, kind, State::None) else {
            return None;
        };
        let mut t = Tcp::NEW;
        let [sender, receiver] = &mut t.seen;
        sender.end = s.end;
        sender.maxwin = u32::from(s.window).max(1);
        if state == State::SynSent {
            sender.maxend = s.end;
            sender.learn_options(s.options);
        } else if loose {
            // What was agreed on is not known: any window may be right.
            sender.maxend = s.end.wrapping_add(sender.maxwin);
            sender.flags = side_flag::SACK_PERM | side_flag::BE_LIBERAL;
            receiver.flags = sender.flags;
        } else {
            return None;
        }
        Some(t)
    }

    /// Remembers a packet that is let through without effect on the state.
    fn ignore(&mut self, direction: Direction, kind: Kind, s: &Segment<'_>) {
        self.last_index = kind;
        self.last_dir = direction;
        self.last_seq = s.seq;
        self.last_end = s.end;
        self.last_win = s.window;
        if kind == Kind::Syn && direction == Direction::Original {
            // The two may be in step while we are not: note what the SYN offers. An answer puts us
            // in step; a challenge ACK (RFC 5961) must not be taken for the last ACK.
            let mut seen = Side::default();
            seen.learn_options(s.options);
            self.last_flags = seen.flags & (side_flag::WINDOW_SCALE | side_flag::SACK_PERM);
            self.last_wscale = seen.scale;
            if self.state == State::LastAck {
                self.last_flags |= side_flag::EXPECT_CHALLENGE_ACK;
            }
        }
        if self.state == State::SynSent && kind == Kind::Ack && direction == Direction::Reply {
            // Perhaps a challenge ACK, which a reset will answer.
            self.last_ack = s.ack;
        }
    }

    /// Gets in step with a SYN that was let through, when its answer comes.
    fn revive(&mut self, direction: Direction) {
        let sender = &mut self.seen[self.last_dir as usize];
        sender.end = self.last_end;
        sender.maxend = self.last_end;
        sender.maxwin = u32::from(self.last_win).max(1);
        sender.scale = self.last_wscale;
        self.last_flags &= !side_flag::EXPECT_CHALLENGE_ACK;
        sender.flags = self.last_flags;
        let answering = &mut self.seen[direction as usize];
        *answering = Side { flags: answering.flags & side_flag::BE_LIBERAL, ..Side::default() };
    }

    /// How long the connection lives after this packet.
    fn timeout(&self, timeouts: &Timeouts, kind: Kind, max_retrans: u8) -> u64 {
        let usual = timeouts[self.state as usize];
        let flags = self.seen[0].flags | self.seen[1].flags;
        if self.retrans >= max_retrans && usual > timeouts[RETRANS] {
            timeouts[RETRANS]
        } else if kind == Kind::Rst {
            timeouts[State::Close as usize]
        } else if flags & side_flag::DATA_UNACKNOWLEDGED != 0 && usual > timeouts[UNACK] {
            timeouts[UNACK]
        } else if self.last_win == 0 && usual > timeouts[RETRANS] {
            timeouts[RETRANS]
        } else {
            usual
        }
    }
}

/// What a reset is (`case TCP_CONNTRACK_CLOSE`).
enum Reset {
    Invalid,
    /// Looked at further; leads to this state.
    Check(State),
    /// Right whatever the windows say.
    Inside(State),
}

impl Tcp {
    fn reset(
        &self,
        direction: Direction,
        s: &Segment<'_>,
        status: u32,
        ignore_invalid: bool,
    ) -> Reset {
        let mut to = State::Close;
        // The ports may be in use again already, and what is known is of the connection before.
        if self.may_drop_early() {
            return Reset::Inside(to);
        }
        let established = self.state == State::Established && status & status::ASSURED != 0;
        let other = &self.seen[direction.opposite() as usize];
        if other.flags & side_flag::MAXACK_SET != 0 && self.last_index != Kind::Syn {
            if s.seq == 0 && !established {
                // Most likely answers a SYN that was let through.
                return Reset::Check(to);
            }
            if window::before(s.seq, other.maxack) && !ignore_invalid {
                return Reset::Invalid;
            }
            let in_train = self.last_index == Kind::Ack
                && self.last_dir == direction
                && s.seq == self.last_end;
            if !established || s.seq == other.maxack || in_train {
                return Reset::Check(to);
            }
            // Not exact: it may be answered by a challenge ACK.
            to = self.state;
        }
        let answers_ignored = (status & status::SEEN_REPLY != 0 && self.last_index == Kind::Syn)
            || (status & status::ASSURED == 0 && self.last_index == Kind::Ack);
        let answers_challenge = self.state == State::SynSent
            && self.last_index == Kind::Ack
            && self.last_dir == Direction::Reply
            && s.seq == self.last_ack;
        let answers_ignored =
            answers_ignored && self.last_dir != direction && s.ack == self.last_end;
        if answers_ignored || answers_challenge {
            return Reset::Inside(to);
        }
        Reset::Check(to)
    }
}

impl Conntrack {
    /// Whether a translated connection that is closed or closing may end so that a beginning one
    /// gets its port: its peer will tell the two apart, since the new one's sequence numbers are
    /// beyond its own (`nf_nat_may_kill()`, `nf_seq_has_advanced()`).
    pub fn makes_way(&self, old: u32, new: u32) -> bool {
        const KEPT: u32 =
            status::FIXED_TIMEOUT | status::DYING | status::OFFLOAD | status::HW_OFFLOAD;
        let (Proto::Tcp(leaving), Proto::Tcp(coming)) = (self.proto(old), self.proto(new)) else {
            return false;
        };
        let over = matches!(leaving.state, State::TimeWait | State::Close | State::SynSent2);
        let bits = self.store[old].status;
        over && coming.state == State::SynSent
            && bits & KEPT == 0
            && bits & status::SRC_NAT != 0
            && (coming.seen[0].end.wrapping_sub(leaving.seen[0].end) as i32) > 0
    }

    /// Notes that this host answers a packet of a TCP connection with a reset
    /// (`nf_conntrack_tcp_set_closing()`).
    pub fn set_closing(&mut self, ct: &Ct) {
        let Some(n) = self.resolve(ct) else { return };
        if !self.store[n].has(status::CONFIRMED) {
            return;
        }
        let timeout = self.timeouts(n, Tracker::Tcp)[State::Close as usize];
        let Proto::Tcp(tcp) = &mut self.store[n].proto else { return };
        let before = std::mem::replace(&mut tcp.state, State::Close);
        if before != State::Close {
            self.set_timeout(n, timeout);
        }
    }

    /// A segment of entry `n` (`nf_conntrack_tcp_packet()`).
    pub(crate) fn tcp_packet(&mut self, n: u32, p: &Seen<'_>) -> Outcome {
        let bytes = p.transport();
        let Some(h) = tcp::Header::new(bytes) else { return Outcome::Invalid };
        if h.header_len() < tcp::LEN
            || h.header_len() > bytes.len()
            || (self.verifies(p) && !p.checksum_ok(bytes.len()))
            || !states::flags_are_valid(h.flags())
        {
            return Outcome::Invalid;
        }
        let segment = Segment::new(&h, bytes);
        let s = &segment;
        let kind = Kind::of(s.flags);
        let direction = p.direction();
        let offset = self.sequence_offset(n, direction.opposite(), s.ack.wrapping_sub(1));
        let (liberal, ignore_invalid) =
            (self.settings.tcp_be_liberal, self.settings.tcp_ignore_invalid_rst);

        let e = &mut self.store[n];
        if !e.has(status::CONFIRMED) {
            let Some(new) = Tcp::new(kind, s, self.settings.tcp_loose) else {
                return Outcome::Invalid;
            };
            e.proto = Proto::Tcp(new);
        }
        let status = e.status;
        let Proto::Tcp(t) = &mut e.proto else { return Outcome::Invalid };
        let mut old = t.state;
        let mut check = true;
        let new = match states::next(direction, kind, old) {
            Next::Invalid => {
                // Of a connection that SYN proxy holds open, keep-alives of the client make the SYN
                // to the server again.
                let keep_alive = self.is_synproxied(n);
                let Proto::Tcp(t) = &self.store[n].proto else { return Outcome::Invalid };
                let keep_alive = keep_alive
                    && old == State::SynSent
                    && kind == Kind::Ack
                    && direction == Direction::Original
                    && t.last_dir == Direction::Original
                    && t.seen[0].end.wrapping_sub(1) == s.seq;
                return if keep_alive { Outcome::Accept } else { Outcome::Invalid };
            }
            Next::To(State::SynSent) if old >= State::TimeWait && old != State::SynSent2 => {
                let closed = (t.seen[0].flags | t.seen[1].flags) & side_flag::CLOSE_INIT != 0;
                if closed || (t.last_dir == direction && t.last_index == Kind::Rst) {
                    // A closed or aborted connection is opened again.
                    self.kill(n);
                    return Outcome::Repeat;
                }
                match t.answered(direction, kind, s) {
                    Some(to) => to,
                    None => {
                        t.ignore(direction, kind, s);
                        return Outcome::Accept;
                    }
                }
            }
            Next::Ignore => match t.answered(direction, kind, s) {
                Some(to) => {
                    old = State::SynSent;
                    to
                }
                None => {
                    t.ignore(direction, kind, s);
                    return Outcome::Accept;
                }
            },
            Next::To(State::TimeWait)
                if old == State::LastAck
                    && kind == Kind::Ack
                    && t.last_dir != direction
                    && t.last_index == Kind::Syn
                    && t.last_flags & side_flag::EXPECT_CHALLENGE_ACK != 0 =>
            {
                t.last_flags &= !side_flag::EXPECT_CHALLENGE_ACK;
                return Outcome::Accept;
            }
            Next::To(State::SynSent2) => {
                t.last_flags |= side_flag::SIMULTANEOUS_OPEN;
                State::SynSent2
            }
            Next::To(State::SynRecv)
                if direction == Direction::Reply
                    && kind == Kind::Ack
                    && t.last_flags & side_flag::SIMULTANEOUS_OPEN != 0 =>
            {
                State::Established
            }
            Next::To(State::Close) if kind == Kind::Rst => {
                match t.reset(direction, s, status, ignore_invalid) {
                    Reset::Invalid => return Outcome::Invalid,
                    Reset::Check(to) => to,
                    Reset::Inside(to) => {
                        check = false;
                        to
                    }
                }
            }
            Next::To(to) => to,
        };
        if check {
            match t.in_window(direction, kind, s, offset, liberal) {
                Fit::Inside => {}
                Fit::Ignored => return Outcome::Accept,
                Fit::Outside => {
                    self.tcp_outside(n, direction, kind);
                    return Outcome::Invalid;
                }
            }
        }
        t.last_index = kind;
        t.last_dir = direction;
        t.state = new;
        if old != new && new == State::FinWait {
            t.seen[direction as usize].flags |= side_flag::CLOSE_INIT;
        }
        let t = *t;
        if old != new {
            self.note(n, event::PROTOINFO);
        }
        if old != new && matches!(new, State::TimeWait | State::Close) {
            self.detach_all(n);
        }
        let timeouts = self.timeouts(n, Tracker::Tcp);
        let mut timeout = t.timeout(timeouts, kind, self.settings.tcp_max_retrans);
        let unack = timeouts[UNACK];
        if status & status::SEEN_REPLY == 0 {
            if s.flags & flag::RST != 0 {
                // The only answer is a reset: there never was a connection.
                self.account(n, direction, p.len);
                self.kill(n);
                return Outcome::Accept;
            }
            if kind == Kind::Syn && old == State::SynSent {
                // SYNs alone do not keep an entry alive.
                return Outcome::Accept;
            }
            if new == State::Established {
                timeout = timeout.min(unack);
            }
        } else if status & status::ASSURED == 0
            && matches!(old, State::SynRecv | State::Established)
            && new == State::Established
        {
            self.assure(n);
        }
        self.refresh(n, p, timeout);
        Outcome::Accept
    }

    /// A segment was out of window: a FIN or reset of an assured connection that is answered so
    /// shows that we are out of step, and the entry is not to live long
    /// (`nf_tcp_handle_invalid()`).
    #[cold]
    fn tcp_outside(&mut self, n: u32, direction: Direction, kind: Kind) {
        let unack = self.timeouts(n, Tracker::Tcp)[UNACK];
        let now = self.now;
        let e = &mut self.store[n];
        if !e.has(status::ASSURED)
            || e.has(status::FIXED_TIMEOUT)
            || !matches!(kind, Kind::Rst | Kind::Fin)
        {
            return;
        }
        let Proto::Tcp(t) = &mut e.proto else { return };
        if t.last_dir == direction || !matches!(t.last_index, Kind::Fin | Kind::Rst) {
            t.last_index = kind;
            t.last_dir = direction;
            return;
        }
        let left = e.expires.saturating_sub(now);
        if left >= 120 * SECOND && left > unack {
            self.set_timeout(n, unack);
        }
    }
}

impl Tcp {
    /// Whether this is the SYN and ACK to a SYN that was let through: then both sides are in step,
    /// and we get so.
    fn answered(&mut self, direction: Direction, kind: Kind, s: &Segment<'_>) -> Option<State> {
        let answers = kind == Kind::SynAck
            && self.last_index == Kind::Syn
            && self.last_dir != direction
            && s.ack == self.last_end;
        answers.then(|| {
            self.revive(direction);
            State::SynRecv
        })
    }
}
