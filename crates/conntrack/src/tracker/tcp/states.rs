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

/// Where a packet leads from a state.
#[inline]
pub(crate) fn next(direction: Direction, kind: Kind, state: State) -> Next {
    TABLE[direction as usize][kind as usize][state as usize]
}
