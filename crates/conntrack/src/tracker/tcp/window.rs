// SPDX-License-Identifier: Apache-2.0

//! Window tracking (`tcp_in_window()`), after Guido van Rooij, "Real stateful TCP packet filtering
//! in IP Filter".
//!
//! We stand in the middle: a segment that we saw may be lost further on, but nothing reaches a host
//! that we did not see. So a sender's data lies below what its receiver offered ([`Side::maxend`])
//! and not before what the receiver can still take in its largest window; an acknowledgement lies
//! below what the other side sent, and not too far back.

use super::states::{Kind, State};
use super::{Side, Tcp, side_flag};
use crate::Direction;
use crate::complaint::Wrong;
use penstock_wire::tcp::{self, flag, option};

/// The least distance that an acknowledgement may lie back (`MAXACKWINCONST`).
const ACK_WINDOW: u32 = 66_000;
/// The largest scale (RFC 7323, 2.3).
const SCALE_MAX: u8 = 14;

/// What a segment is to the windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    /// In the windows; they were moved.
    Inside,
    /// A little too old or too new: let through without effect on the state.
    Ignored(Wrong),
    /// Outside.
    Outside(Wrong),
}

/// A segment as it is looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment<'a> {
    pub seq: u32,
    pub ack: u32,
    pub flags: u8,
    pub window: u16,
    /// One past its last sequence number, SYN and FIN counted.
    pub end: u32,
    /// The option bytes of the header.
    pub options: &'a [u8],
}

impl<'a> Segment<'a> {
    /// Reads a segment with a complete header; `bytes` reach to the end of the packet.
    #[inline]
    pub fn new(h: &tcp::Header<'a>, bytes: &'a [u8]) -> Self {
        let data = (bytes.len() - h.header_len()) as u32;
        let flags = h.flags();
        let extra = u32::from(flags & flag::SYN != 0) + u32::from(flags & flag::FIN != 0);
        Self {
            seq: h.seq(),
            ack: h.ack_seq(),
            flags,
            window: h.window(),
            end: h.seq().wrapping_add(data).wrapping_add(extra),
            options: h.options(),
        }
    }

    #[inline]
    fn has(&self, flags: u8) -> bool {
        self.flags & flags == flags
    }
}

#[inline]
pub(crate) fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

#[inline]
fn after(a: u32, b: u32) -> bool {
    before(b, a)
}

/// Walks options as the kernel does here: an option that is cut or too short ends the walk.
fn walk<'a>(mut rest: &'a [u8], mut with: impl FnMut(u8, &'a [u8])) {
    while let [kind, tail @ ..] = rest {
        match *kind {
            option::END => return,
            option::NOP => rest = tail,
            kind => {
                let Some(&len) = tail.first() else { return };
                let len = usize::from(len);
                let Some(body) = rest.get(2..len) else { return };
                with(kind, body);
                rest = &rest[len..];
            }
        }
    }
}

impl Side {
    /// Takes scale and SACK from the options of a SYN (`tcp_options()`); without options, what was
    /// known stays.
    pub(crate) fn learn_options(&mut self, options: &[u8]) {
        if options.is_empty() {
            return;
        }
        self.scale = 0;
        self.flags &= side_flag::BE_LIBERAL;
        walk(options, |kind, body| match (kind, body) {
            (option::SACK_PERMITTED, []) => self.flags |= side_flag::SACK_PERM,
            (option::WINDOW, [scale]) => {
                self.scale = (*scale).min(SCALE_MAX);
                self.flags |= side_flag::WINDOW_SCALE;
            }
            _ => {}
        });
    }
}

/// The right edge of the highest SACK block, or `ack` (`tcp_sack()`).
fn sack_of(options: &[u8], ack: u32) -> u32 {
    // Only timestamps, as in most segments.
    if options.len() == 12 && options[..4] == [option::NOP, option::NOP, option::TIMESTAMP, 10] {
        return ack;
    }
    let mut sack = ack;
    let mut done = false;
    walk(options, |kind, body| {
        if kind != option::SACK || done || body.is_empty() || !body.len().is_multiple_of(8) {
            return;
        }
        done = true;
        for block in body.as_chunks::<8>().0 {
            let right = u32::from_be_bytes([block[4], block[5], block[6], block[7]]);
            if after(right, sack) {
                sack = right;
            }
        }
    });
    sack
}

/// Begins a direction with its SYN (`tcp_init_sender()`).
fn begin(sender: &mut Side, receiver: &mut Side, s: &Segment<'_>, direction: Direction) {
    sender.end = s.end;
    sender.maxend = s.end;
    sender.maxwin = u32::from(s.window).max(1);
    sender.learn_options(s.options);
    // Both must offer scaling for either to scale.
    if direction == Direction::Reply && sender.flags & receiver.flags & side_flag::WINDOW_SCALE == 0
    {
        sender.scale = 0;
        receiver.scale = 0;
    }
}

/// Learns from a segment where a direction begins or restarts. `true` if the segment is right
/// whatever the windows are: a SYN of either side at once.
#[inline(always)]
fn learn(
    sender: &mut Side,
    receiver: &mut Side,
    state: State,
    s: &Segment<'_>,
    direction: Direction,
    sack: u32,
) -> bool {
    if sender.maxwin == 0 {
        if s.has(flag::SYN) {
            begin(sender, receiver, s, direction);
            if !s.has(flag::ACK) {
                // Simultaneous open.
                return true;
            }
        } else {
            // The middle of a connection with unknown history.
            sender.end = s.end;
            sender.maxwin = (u32::from(s.window) << sender.scale).max(1);
            sender.maxend = s.end.wrapping_add(sender.maxwin);
            if receiver.maxwin == 0 {
                receiver.end = sack;
                receiver.maxend = sack;
            } else if sack == receiver.end.wrapping_add(1) {
                // Likely the answer to a keep-alive.
                receiver.end = sack;
            }
        }
    } else if s.has(flag::SYN)
        && after(s.end, sender.end)
        && matches!(state, State::SynSent | State::SynRecv)
    {
        // Restarted with larger numbers than before (RFC 9293, 3.10.7.1).
        begin(sender, receiver, s, direction);
        if direction == Direction::Reply && !s.has(flag::ACK) {
            return true;
        }
    }
    false
}

impl Tcp {
    /// Checks a segment against the windows and moves them. `offset` is by how much
    /// acknowledgements of this direction are shifted by rewritten text; `liberal` lets everything
    /// through that is not inside.
    pub(crate) fn in_window(
        &mut self,
        direction: Direction,
        kind: Kind,
        s: &Segment<'_>,
        offset: u32,
        liberal: bool,
    ) -> Fit {
        let state = self.state;
        let [first, second] = &mut self.seen;
        let (sender, receiver) = match direction {
            Direction::Original => (first, second),
            Direction::Reply => (second, first),
        };
        let (mut seq, mut end) = (s.seq, s.end);
        let window = u32::from(s.window);
        let mut sack = s.ack;
        if receiver.flags & side_flag::SACK_PERM != 0 && !s.options.is_empty() {
            sack = sack_of(s.options, s.ack);
        }
        let mut ack = s.ack.wrapping_sub(offset);
        sack = sack.wrapping_sub(offset);

        if learn(sender, receiver, state, s, direction, sack) {
            return Fit::Inside;
        }

        // Without an acknowledgement, or with the zero of some resets, any is right.
        if !s.has(flag::ACK) || (s.has(flag::ACK | flag::RST) && ack == 0) {
            ack = receiver.end;
            sack = receiver.end;
        }
        if s.has(flag::RST) && seq == 0 && state == State::SynSent {
            // Answers a SYN.
            seq = sender.end;
            end = sender.end;
        }

        let liberal = liberal || sender.flags & side_flag::BE_LIBERAL != 0;
        let outside = |fit| if liberal { Fit::Inside } else { fit };
        let ack_floor = receiver.end.wrapping_sub(sender.maxwin.max(ACK_WINDOW)).wrapping_sub(1);
        let end_floor = sender.end.wrapping_sub(receiver.maxwin).wrapping_sub(1);
        if !before(seq, sender.maxend.wrapping_add(1)) {
            let overshot = end.wrapping_sub(sender.maxend).wrapping_add(1);
            if receiver.maxwin != 0
                && after(end, end_floor)
                && after(sack, ack_floor)
                && overshot <= receiver.maxwin
                && before(sack, receiver.end.wrapping_add(1))
            {
                // Some send a little more than they may: what acknowledges it must be right later.
                sender.end = end;
                sender.flags |= side_flag::DATA_UNACKNOWLEDGED;
                return outside(Fit::Ignored(Wrong::Overshot(overshot)));
            }
            return outside(Fit::Outside(Wrong::SeqAbove(sender.maxend.wrapping_add(1))));
        }
        if !before(sack, receiver.end.wrapping_add(1)) {
            return outside(Fit::Outside(Wrong::AckAbove(receiver.end.wrapping_add(1))));
        }
        if receiver.maxwin != 0 && !after(end, end_floor) {
            return outside(Fit::Ignored(Wrong::SeqBelow(end_floor)));
        }
        if !after(sack, ack_floor) {
            return outside(Fit::Ignored(Wrong::AckBelow(ack_floor)));
        }

        let scaled = if s.has(flag::SYN) { window } else { window << sender.scale };
        sender.maxwin = sender.maxwin.max(scaled.wrapping_add(sack.wrapping_sub(ack)));
        if after(end, sender.end) {
            sender.end = end;
            sender.flags |= side_flag::DATA_UNACKNOWLEDGED;
        }
        if s.has(flag::ACK) {
            if sender.flags & side_flag::MAXACK_SET == 0 {
                sender.maxack = ack;
                sender.flags |= side_flag::MAXACK_SET;
            } else if after(ack, sender.maxack) {
                sender.maxack = ack;
            }
        }
        if receiver.maxwin != 0 && after(end, sender.maxend) {
            receiver.maxwin = receiver.maxwin.wrapping_add(end.wrapping_sub(sender.maxend));
        }
        let offered = sack.wrapping_add(scaled);
        if after(offered, receiver.maxend.wrapping_sub(1)) {
            receiver.maxend = offered.wrapping_add(u32::from(scaled == 0));
        }
        if ack == receiver.end {
            receiver.flags &= !side_flag::DATA_UNACKNOWLEDGED;
        }

        if kind == Kind::Ack {
            self.count_repeats(direction, seq, ack, end, s.window);
        }
        Fit::Inside
    }

    /// Counts segments that say what the last one said.
    #[inline(always)]
    fn count_repeats(&mut self, direction: Direction, seq: u32, ack: u32, end: u32, window: u16) {
        let same = self.last_dir == direction
            && (self.last_seq, self.last_ack, self.last_end, self.last_win)
                == (seq, ack, end, window);
        if same {
            self.retrans = self.retrans.wrapping_add(1);
        } else {
            self.last_dir = direction;
            self.last_seq = seq;
            self.last_ack = ack;
            self.last_end = end;
            self.last_win = window;
            self.retrans = 0;
        }
    }
}
