// SPDX-License-Identifier: Apache-2.0

//! TCP (`nf_conntrack_proto_tcp.c`).

mod states;
mod window;

use states::{Kind, Next};
pub use states::{State, TcpTable};
use window::{Fit, Segment};

use super::{Context, Outcome, ProtocolState, Verdict};
use crate::complaint::Wrong;
use crate::packet::PacketView;
use crate::settings::{HZ, SECOND, Timeouts};
use crate::{Direction, status};
use penstock_wire::protocol;
use penstock_wire::tcp::{self, flag};

/// Nanoseconds of a tick, in which the kernel says a timeout.
const TICK: u64 = SECOND / HZ as u64;
const RETRANS: usize = 10;
const UNACK: usize = 11;

/// What a packet was, by number.
pub(crate) fn kind_of(n: u64) -> Option<Kind> {
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

    /// Whether it is closed.
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::TimeWait | State::Close)
    }

    /// Whether this connection, which is translated and closed or closing, may end so that `other`,
    /// which begins, gets its port: its peer will tell the two apart, since the new one's sequence
    /// numbers are beyond its own (`nf_seq_has_advanced()`).
    pub fn makes_way_for(&self, other: &Tcp) -> bool {
        matches!(self.state, State::TimeWait | State::Close | State::SynSent2)
            && other.state == State::SynSent
            && (other.seen[0].end.wrapping_sub(self.seen[0].end) as i32) > 0
    }

    /// Packets are tracked again: windows are relearned. `closing` if a FIN or reset was among
    /// those that were not tracked.
    pub(super) fn return_to_tracking(&mut self, closing: bool) {
        if closing {
            self.state = State::Close;
        }
        for side in &mut self.seen {
            side.maxwin = 0;
            side.flags &= !side_flag::MAXACK_SET;
        }
        if self.state == State::Close {
            // A SYN may open it again.
            self.seen[0].flags |= side_flag::CLOSE_INIT;
        }
    }

    /// Whether an assured connection may be dropped when the table is full.
    pub fn may_drop_early(&self) -> bool {
        matches!(
            self.state,
            State::FinWait | State::CloseWait | State::LastAck | State::TimeWait | State::Close
        )
    }

    /// A connection's first packet (`tcp_new()`); `None` if it cannot be one.
    fn new(kind: Kind, s: &Segment<'_>, c: &Context<'_>) -> Option<Tcp> {
        let Next::To(state) = states::next(Direction::Original, kind, State::None) else {
            c.complain(protocol::TCP, Wrong::Text("invalid new"));
            return None;
        };
        let mut t = Tcp::NEW;
        let [sender, receiver] = &mut t.seen;
        sender.end = s.end;
        sender.maxwin = u32::from(s.window).max(1);
        if state == State::SynSent {
            sender.maxend = s.end;
            sender.learn_options(s.options);
        } else if c.settings.tcp_loose {
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
    fn ignore(
        &mut self,
        direction: Direction,
        kind: Kind,
        s: &Segment<'_>,
        c: &Context<'_>,
    ) -> Outcome {
        self.complain(direction, kind, true, c);
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
        Outcome::IGNORE
    }

    /// The state table has no place for a segment.
    #[cold]
    fn complain(&self, direction: Direction, kind: Kind, ignored: bool, c: &Context<'_>) {
        let (kind, state) = (kind as u8, self.state.name());
        c.complain(protocol::TCP, Wrong::Segment { kind, direction, state, ignored });
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
        // The ports may be in use again already, and the state is that of the previous connection.
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

/// What the state table makes of a segment.
enum Transition {
    /// Continues from state `old` and leads to `new` if the windows allow it, or regardless of
    /// them.
    To { old: State, new: State, whatever_windows: bool },
    /// Nothing more is looked at.
    Done(Outcome),
}

/// A segment of a connection (`nf_conntrack_tcp_packet()`).
#[inline(never)]
pub(super) fn packet(state: &mut ProtocolState, p: &PacketView<'_>, c: &Context<'_>) -> Outcome {
    let bytes = p.transport();
    let Some(h) = tcp::Header::new(bytes) else { return Outcome::INVALID };
    if h.header_len() < tcp::LEN || h.header_len() > bytes.len() {
        return c.invalid(p, "truncated packet");
    }
    if c.verifies(p) && !p.checksum_ok(bytes.len()) {
        return c.invalid(p, "bad checksum");
    }
    if !states::flags_are_valid(h.flags()) {
        return c.invalid(p, "invalid tcp flag combination");
    }
    let segment = Segment::new(&h, bytes);
    let s = &segment;
    let kind = Kind::of(s.flags);
    let direction = p.direction();
    if !c.has(status::CONFIRMED) {
        let Some(new) = Tcp::new(kind, s, c) else { return Outcome::INVALID };
        *state = ProtocolState::Tcp(new);
    }
    let ProtocolState::Tcp(t) = state else { return Outcome::INVALID };
    let (old, new, whatever_windows) = match t.transition(direction, kind, s, c) {
        Transition::To { old, new, whatever_windows } => (old, new, whatever_windows),
        Transition::Done(outcome) => return outcome,
    };
    if !whatever_windows {
        let shift = c.seqadj.map_or(0, |pairs| {
            pairs[direction.opposite() as usize].at(s.ack.wrapping_sub(1)) as u32
        });
        match t.in_window(direction, kind, s, shift, c.settings.tcp_be_liberal) {
            Fit::Inside => {}
            Fit::Ignored(why) => {
                c.complain(protocol::TCP, why);
                return Outcome::IGNORE;
            }
            Fit::Outside(why) => {
                c.complain(protocol::TCP, why);
                return t.outside(direction, kind, c);
            }
        }
    }
    t.last_index = kind;
    t.last_dir = direction;
    t.state = new;
    if old != new && new == State::FinWait {
        t.seen[direction as usize].flags |= side_flag::CLOSE_INIT;
    }
    let mut outcome = t.outcome(old, kind, s, c).changed(old != new);
    outcome.closed = old != new && t.is_over();
    outcome
}

impl Tcp {
    /// Where the state table leads.
    #[inline(always)]
    fn transition(
        &mut self,
        direction: Direction,
        kind: Kind,
        s: &Segment<'_>,
        c: &Context<'_>,
    ) -> Transition {
        let old = self.state;
        let to = |new| Transition::To { old, new, whatever_windows: false };
        match states::next(direction, kind, old) {
            Next::Invalid => {
                // For a connection that SYN proxy holds open, keep-alives of the client repeat the
                // SYN to the server.
                let keep_alive = c.synproxy
                    && old == State::SynSent
                    && kind == Kind::Ack
                    && direction == Direction::Original
                    && self.last_dir == Direction::Original
                    && self.seen[0].end.wrapping_sub(1) == s.seq;
                if keep_alive {
                    return Transition::Done(Outcome::IGNORE);
                }
                self.complain(direction, kind, false, c);
                Transition::Done(Outcome::INVALID)
            }
            Next::To(State::SynSent) if old >= State::TimeWait && old != State::SynSent2 => {
                let closed = (self.seen[0].flags | self.seen[1].flags) & side_flag::CLOSE_INIT != 0;
                if closed || (self.last_dir == direction && self.last_index == Kind::Rst) {
                    // A closed or aborted connection is opened again.
                    return Transition::Done(Outcome::of(Verdict::Repeat));
                }
                match self.answered(direction, kind, s) {
                    Some(new) => to(new),
                    None => Transition::Done(self.ignore(direction, kind, s, c)),
                }
            }
            Next::Ignore => match self.answered(direction, kind, s) {
                Some(new) => Transition::To { old: State::SynSent, new, whatever_windows: false },
                None => Transition::Done(self.ignore(direction, kind, s, c)),
            },
            Next::To(State::TimeWait)
                if old == State::LastAck
                    && kind == Kind::Ack
                    && self.last_dir != direction
                    && self.last_index == Kind::Syn
                    && self.last_flags & side_flag::EXPECT_CHALLENGE_ACK != 0 =>
            {
                self.last_flags &= !side_flag::EXPECT_CHALLENGE_ACK;
                c.complain(protocol::TCP, Wrong::Text("challenge-ack ignored"));
                Transition::Done(Outcome::IGNORE)
            }
            Next::To(State::SynSent2) => {
                self.last_flags |= side_flag::SIMULTANEOUS_OPEN;
                to(State::SynSent2)
            }
            Next::To(State::SynRecv)
                if direction == Direction::Reply
                    && kind == Kind::Ack
                    && self.last_flags & side_flag::SIMULTANEOUS_OPEN != 0 =>
            {
                to(State::Established)
            }
            Next::To(State::Close) if kind == Kind::Rst => {
                let ignore_invalid = c.settings.tcp_ignore_invalid_rst;
                match self.reset(direction, s, c.status, ignore_invalid) {
                    Reset::Invalid => {
                        c.complain(protocol::TCP, Wrong::Text("invalid rst"));
                        Transition::Done(Outcome::INVALID)
                    }
                    Reset::Check(new) => to(new),
                    Reset::Inside(new) => Transition::To { old, new, whatever_windows: true },
                }
            }
            Next::To(new) => to(new),
        }
    }

    /// What a segment that leads from a state to the present one does to the connection.
    #[inline(always)]
    fn outcome(&self, old: State, kind: Kind, s: &Segment<'_>, c: &Context<'_>) -> Outcome {
        let timeout = self.timeout(c.timeouts, kind, c.settings.tcp_max_retrans);
        if !c.has(status::SEEN_REPLY) {
            if s.flags & flag::RST != 0 {
                // The only answer is a reset: there never was a connection.
                return Outcome::of(Verdict::End);
            }
            if kind == Kind::Syn && old == State::SynSent {
                // SYNs alone do not keep an entry alive.
                return Outcome::IGNORE;
            }
            if self.state == State::Established {
                return Outcome::accept(timeout.min(c.timeouts[UNACK]));
            }
        } else if !c.has(status::ASSURED)
            && matches!(old, State::SynRecv | State::Established)
            && self.state == State::Established
        {
            return Outcome::accept(timeout).assured();
        }
        Outcome::accept(timeout)
    }

    /// A segment was out of window: a FIN or reset of an assured connection that is answered so
    /// shows that we are out of step, and the entry is not to live long
    /// (`nf_tcp_handle_invalid()`).
    #[cold]
    fn outside(&mut self, direction: Direction, kind: Kind, c: &Context<'_>) -> Outcome {
        if !c.has(status::ASSURED)
            || c.has(status::FIXED_TIMEOUT)
            || !matches!(kind, Kind::Rst | Kind::Fin)
        {
            return Outcome::INVALID;
        }
        if self.last_dir == direction || !matches!(self.last_index, Kind::Fin | Kind::Rst) {
            self.last_index = kind;
            self.last_dir = direction;
            return Outcome::INVALID;
        }
        let (left, unack) = (c.expires.saturating_sub(c.now), c.timeouts[UNACK]);
        if left >= 120 * SECOND && left > unack {
            let (kind, last) = (kind as u8, self.last_index as u8);
            let what = Wrong::Lowered { kind, direction, last, ticks: unack / TICK };
            c.complain(protocol::TCP, what);
            return Outcome { timeout: unack, ..Outcome::of(Verdict::OutOfStep) };
        }
        Outcome::INVALID
    }

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
