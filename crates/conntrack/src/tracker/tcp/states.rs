// SPDX-License-Identifier: Apache-2.0

//! The state table (`tcp_conntracks` in `nf_conntrack_proto_tcp.c`).

use crate::Direction;
use penstock_wire::tcp::flag;

/// State of a connection (`enum tcp_conntrack`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum State {
    /// No packet seen.
    None = 0,
    /// SYN sent.
    SynSent = 1,
    /// SYN answered by SYN and ACK.
    SynRecv = 2,
    /// Three-way handshake done.
    Established = 3,
    /// FIN seen.
    FinWait = 4,
    /// FIN acknowledged.
    CloseWait = 5,
    /// FIN seen in both directions.
    LastAck = 6,
    /// Last ACK seen.
    TimeWait = 7,
    /// Reset.
    Close = 8,
    /// SYN in both directions.
    SynSent2 = 9,
}

impl State {
    /// All of them by number.
    pub(crate) const ALL: [State; 10] = [
        State::None,
        State::SynSent,
        State::SynRecv,
        State::Established,
        State::FinWait,
        State::CloseWait,
        State::LastAck,
        State::TimeWait,
        State::Close,
        State::SynSent2,
    ];

    /// As listings have it.
    pub const fn name(self) -> &'static str {
        match self {
            State::None => "NONE",
            State::SynSent => "SYN_SENT",
            State::SynRecv => "SYN_RECV",
            State::Established => "ESTABLISHED",
            State::FinWait => "FIN_WAIT",
            State::CloseWait => "CLOSE_WAIT",
            State::LastAck => "LAST_ACK",
            State::TimeWait => "TIME_WAIT",
            State::Close => "CLOSE",
            State::SynSent2 => "SYN_SENT2",
        }
    }
}

/// What a packet is to the state table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Syn = 0,
    SynAck = 1,
    Fin = 2,
    Ack = 3,
    Rst = 4,
    None = 5,
}

impl Kind {
    pub fn of(flags: u8) -> Self {
        if flags & flag::RST != 0 {
            Kind::Rst
        } else if flags & flag::SYN != 0 {
            if flags & flag::ACK != 0 { Kind::SynAck } else { Kind::Syn }
        } else if flags & flag::FIN != 0 {
            Kind::Fin
        } else if flags & flag::ACK != 0 {
            Kind::Ack
        } else {
            Kind::None
        }
    }
}

/// Where a packet leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    To(State),
    Ignore,
    Invalid,
}

/// Sets of flags that make sense, PSH, ECE and CWR left out.
pub(crate) fn flags_are_valid(flags: u8) -> bool {
    use flag::{ACK, CWR, ECE, FIN, PSH, RST, SYN, URG};
    const SYN_URG: u8 = SYN | URG;
    const SYN_ACK: u8 = SYN | ACK;
    const RST_ACK: u8 = RST | ACK;
    const FIN_ACK: u8 = FIN | ACK;
    const FIN_ACK_URG: u8 = FIN | ACK | URG;
    const ACK_URG: u8 = ACK | URG;
    matches!(
        flags & !(PSH | ECE | CWR),
        SYN | SYN_URG | SYN_ACK | RST | RST_ACK | FIN_ACK | FIN_ACK_URG | ACK | ACK_URG
    )
}

const TABLE: [[[Next; 10]; 6]; 2] = {
    const SS: Next = Next::To(State::SynSent);
    const SR: Next = Next::To(State::SynRecv);
    const ES: Next = Next::To(State::Established);
    const FW: Next = Next::To(State::FinWait);
    const CW: Next = Next::To(State::CloseWait);
    const LA: Next = Next::To(State::LastAck);
    const TW: Next = Next::To(State::TimeWait);
    const CL: Next = Next::To(State::Close);
    const S2: Next = Next::To(State::SynSent2);
    const IV: Next = Next::Invalid;
    const IG: Next = Next::Ignore;
    // Columns: NONE SYN_SENT SYN_RECV ESTABLISHED FIN_WAIT CLOSE_WAIT LAST_ACK TIME_WAIT CLOSE
    // SYN_SENT2.
    [
        [
            // Original direction: SYN, SYN+ACK, FIN, ACK, RST, none.
            [SS, SS, IG, IG, IG, IG, IG, SS, SS, S2],
            [IV, IV, SR, IV, IV, IV, IV, IV, IV, SR],
            [IV, IV, FW, FW, LA, LA, LA, TW, CL, IV],
            [ES, IV, ES, ES, CW, CW, TW, TW, CL, IV],
            [IV, CL, CL, CL, CL, CL, CL, CL, CL, CL],
            [IV, IV, IV, IV, IV, IV, IV, IV, IV, IV],
        ],
        [
            // Reply direction.
            [IV, S2, IV, IV, IV, IV, IV, SS, IV, S2],
            [IV, SR, IG, IG, IG, IG, IG, IG, IG, SR],
            [IV, IV, FW, FW, LA, LA, LA, TW, CL, IV],
            [IV, IG, SR, ES, CW, CW, TW, TW, CL, IG],
            [IV, CL, CL, CL, CL, CL, CL, CL, CL, CL],
            [IV, IV, IV, IV, IV, IV, IV, IV, IV, IV],
        ],
    ]
};

/// The state table as bits, for programs that see the packets of connections which another table
/// tracks: bit `10 * kind + state` is for a segment of a kind (0 SYN, 1 SYN and ACK, 2 FIN, 3 ACK, 4
/// RST, 5 none of these) in a state (`enum tcp_conntrack`). Windows are looked at separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpTable {
    /// Segments without meaning, of each direction.
    pub invalid: [u64; 2],
    /// SYNs that may open a closed connection again, of each direction.
    pub reopens: [u64; 2],
    /// Kinds with which a connection begins: bit `kind`. What is no SYN needs
    /// [`Settings::tcp_loose`](crate::Settings::tcp_loose).
    pub begins: u64,
    /// Sets of flags that make sense, without PSH, ECE and CWR: bit `flags`.
    pub flags: u64,
}

impl TcpTable {
    /// The table of the kernel's tracker.
    pub fn new() -> Self {
        let kinds = [Kind::Syn, Kind::SynAck, Kind::Fin, Kind::Ack, Kind::Rst, Kind::None];
        let bits = |direction: Direction, holds: &dyn Fn(Next, State) -> bool| {
            let all = kinds.iter().flat_map(|kind| State::ALL.map(|state| (*kind, state)));
            all.filter(|(kind, state)| holds(next(direction, *kind, *state), *state))
                .fold(0, |bits, (kind, state)| bits | 1 << (kind as u64 * 10 + state as u64))
        };
        let both = |holds: &dyn Fn(Next, State) -> bool| {
            [Direction::Original, Direction::Reply].map(|direction| bits(direction, holds))
        };
        let begins = |kind: &&Kind| next(Direction::Original, **kind, State::None) != Next::Invalid;
        TcpTable {
            invalid: both(&|next, _| next == Next::Invalid),
            reopens: both(&|next, state| {
                next == Next::To(State::SynSent) && matches!(state, State::TimeWait | State::Close)
            }),
            begins: kinds.iter().filter(begins).fold(0, |bits, kind| bits | 1 << *kind as u64),
            flags: (0..64).filter(|flags| flags_are_valid(*flags)).fold(0, |all, f| all | 1 << f),
        }
    }
}

impl Default for TcpTable {
    fn default() -> Self {
        TcpTable::new()
    }
}

/// Where a packet leads from a state.
#[inline]
pub(crate) fn next(direction: Direction, kind: Kind, state: State) -> Next {
    TABLE[direction as usize][kind as usize][state as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_say_what_the_table_says() {
        let table = TcpTable::new();
        let of = |kind: Kind, state: State| 1 << (kind as u64 * 10 + state as u64);
        let [original, reply] = table.invalid;
        for (kind, state, invalid) in [
            (Kind::Syn, State::Established, [false, true]),
            (Kind::SynAck, State::SynSent, [true, false]),
            (Kind::Ack, State::Established, [false, false]),
            (Kind::None, State::Close, [true, true]),
        ] {
            let said = [original, reply].map(|bits| bits & of(kind, state) != 0);
            assert_eq!(said, invalid, "{kind:?} {state:?}");
        }
        let closed = of(Kind::Syn, State::TimeWait) | of(Kind::Syn, State::Close);
        assert_eq!(table.reopens, [closed, of(Kind::Syn, State::TimeWait)]);
        assert_eq!(table.begins, 1 << Kind::Syn as u64 | 1 << Kind::Ack as u64);
        assert!((0..64).all(|flags| (table.flags >> flags & 1 == 1) == flags_are_valid(flags)));
    }
}
