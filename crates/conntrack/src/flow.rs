// SPDX-License-Identifier: Apache-2.0

//! A connection as a value: what programs see of it, and what they may change
//! (`nf_conntrack_netlink.c`).

use crate::seqadj::SeqAdjust;
use crate::table::Counter;
use crate::tuple::Tuple;
use serde::{Deserialize, Serialize};

/// What programs see of a protocol's state (`CTA_PROTOINFO`). Arrays are by direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProtocolInfo {
    /// Nothing.
    None,
    /// TCP.
    Tcp {
        /// Number of the state (`enum tcp_conntrack`).
        state: u8,
        /// Window scales.
        scales: [u8; 2],
        /// `IP_CT_TCP_FLAG_*`.
        flags: [u8; 2],
    },
    /// SCTP.
    Sctp {
        /// Number of the state (`enum sctp_conntrack`).
        state: u8,
        /// Verification tags.
        tags: [u32; 2],
    },
    /// DCCP.
    Dccp {
        /// Number of the state (`enum ct_dccp_states`).
        state: u8,
        /// Whether the original direction is the server's.
        role: u8,
        /// Sequence number of the Response.
        handshake: u64,
    },
}

/// A connection as a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flow {
    /// A number that names it (`ct id`).
    pub id: u32,
    /// Its original tuple.
    pub original: Tuple,
    /// Its reply tuple.
    pub reply: Tuple,
    /// Bits of [`crate::status`].
    pub status: u32,
    /// What is left of its life, in nanoseconds.
    pub left: u64,
    /// `ct mark`.
    pub mark: u32,
    /// `ct label`, bit n in word n / 32; `None` without room for labels.
    pub labels: Option<[u32; 4]>,
    /// Name of its helper.
    pub helper: Option<Box<str>>,
    /// What the program that is its helper keeps with it.
    pub helper_data: Option<Box<[u8]>>,
    /// The original tuple of the connection that expected it.
    pub master: Option<Tuple>,
    /// Packets and bytes by direction.
    pub counters: Option<[Counter; 2]>,
    /// Start and end in nanoseconds since the epoch, 0 for not yet.
    pub times: Option<(u64, u64)>,
    /// Shifts of sequence numbers by direction.
    pub shifts: Option<[SeqAdjust; 2]>,
    /// Whether there is room for what a SYN proxy keeps.
    pub synproxy: bool,
    /// The protocol's state.
    pub protocol: ProtocolInfo,
    /// How many connections that it expected are there.
    pub children: u32,
    /// Which of its events are reported (`ct event`): bits of [`event`](crate::event).
    pub events: u16,
}

/// A change of a protocol's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProtocolChange {
    /// TCP; arrays are by direction.
    Tcp {
        /// Number of the state.
        state: Option<u8>,
        /// Flags, and which of them count.
        flags: [Option<(u8, u8)>; 2],
        /// Window scales. They count where both sides have scaled windows.
        scales: Option<[u8; 2]>,
    },
    /// SCTP.
    Sctp {
        /// Number of the state.
        state: u8,
        /// Verification tags.
        tags: [u32; 2],
    },
}

/// A change of a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowChange {
    /// How long it lives from now on, in nanoseconds.
    pub timeout: Option<u64>,
    /// Status bits to set.
    pub status: u32,
    /// The bits of `ct mark` that stay, and those that are flipped afterwards.
    pub mark: Option<(u32, u32)>,
    /// The labels that stay, and those that are flipped afterwards.
    pub labels: Option<[(u32, u32); 4]>,
    /// Number of another helper, 0 for none.
    pub helper: Option<u16>,
    /// What the program that is its helper keeps with it from now on.
    pub helper_data: Option<Box<[u8]>>,
    /// Shifts of sequence numbers, by direction.
    pub shifts: [Option<SeqAdjust>; 2],
    /// The protocol's state.
    pub protocol: Option<ProtocolChange>,
}

/// Why a connection was not entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotInserted {
    /// Another one has one of its tuples.
    Exists,
    /// There is no place for it.
    Full,
    /// Too many with near hashes are there.
    ChainTooLong,
    /// It was refused while it was made.
    Refused,
}
