// SPDX-License-Identifier: Apache-2.0

//! What the operations of an [`Image`](crate::Image) refer to: chains and rules by number,
//! verdicts, sets and objects. [`image`](crate::image) exports it to other crates.

use std::ops::Range;
use std::sync::Arc;

use penstock_sets::Set;

use crate::operand::{CtDir, Synproxy};
use crate::state::dynamic::DynamicSet;
use crate::state::{Bucket, State};

/// Number of a chain in [`Image::chains`](crate::Image::chains).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChainIndex(pub u32);

/// Number of a flowtable: among those of the generation, of which programs know nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlowtableIndex(pub u32);

/// Number of a rule in [`Image::rules`](crate::Image::rules).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RuleIndex(pub u32);

/// Number of a table in [`Image::tables`](crate::Image::tables).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableIndex(pub u32);

/// Where a rule's operations are.
#[derive(Clone, Copy, Debug)]
pub struct LinkedRule {
    /// First of its operations.
    pub first: u32,
    /// One past the last of its operations.
    pub end: u32,
}

impl LinkedRule {
    /// Its operations among all of the image.
    #[inline]
    pub fn range(&self) -> Range<usize> {
        self.first as usize..self.end as usize
    }
}

/// A verdict with its chain resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LinkedVerdict {
    /// Final.
    Drop,
    /// Ends the base chain.
    Accept,
    /// Next rule.
    Continue,
    /// End of the rule.
    Break,
    /// Call.
    Jump(ChainIndex),
    /// Go.
    Goto(ChainIndex),
    /// Back to the caller.
    Return,
    /// Final: to a listener (`NF_QUEUE`).
    Queue {
        /// Number of the queue.
        num: u16,
        /// Without a listener the next base chain continues; otherwise the packet is dropped.
        bypass: bool,
    },
}

impl LinkedVerdict {
    /// The chain that it calls (`true`) or goes to.
    pub fn target(&self) -> Option<(ChainIndex, bool)> {
        match self {
            LinkedVerdict::Jump(chain) => Some((*chain, true)),
            LinkedVerdict::Goto(chain) => Some((*chain, false)),
            LinkedVerdict::Drop
            | LinkedVerdict::Accept
            | LinkedVerdict::Continue
            | LinkedVerdict::Break
            | LinkedVerdict::Return
            | LinkedVerdict::Queue { .. } => None,
        }
    }
}

/// Value of a set's or map's element.
#[derive(Clone, Debug)]
pub struct LinkedValue {
    /// What lookups load.
    pub data: LinkedData,
    /// Statements that run when a lookup finds the element.
    pub statements: Box<[Stateful]>,
}

/// What a map's element holds.
#[derive(Clone, Debug)]
pub enum LinkedData {
    /// Nothing: a set's element.
    None,
    /// Up to 16 register bytes; the rest is zero.
    Value([u8; 16]),
    /// More than 16 register bytes, at most 64.
    Long(Box<[u8]>),
    /// A verdict.
    Verdict(LinkedVerdict),
    /// An object.
    Object(Stateful),
}

impl LinkedData {
    /// The verdict, if it is one.
    pub fn verdict(&self) -> Option<&LinkedVerdict> {
        match self {
            LinkedData::Verdict(verdict) => Some(verdict),
            LinkedData::None
            | LinkedData::Value(_)
            | LinkedData::Long(_)
            | LinkedData::Object(_) => None,
        }
    }

    /// From register bytes.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let mut short = [0; 16];
        match short.get_mut(..bytes.len()) {
            Some(start) => {
                start.copy_from_slice(bytes);
                LinkedData::Value(short)
            }
            None => LinkedData::Long(bytes.into()),
        }
    }
}

/// A stateful statement with its state: of an element, or an object.
#[derive(Clone, Debug)]
pub enum Stateful {
    /// Counts.
    Counter(Arc<State>),
    /// Matches while (or once, if `over`) the quota is not used up.
    Quota {
        /// The amount.
        bytes: u64,
        /// `over`.
        over: bool,
        /// Consumption.
        state: Arc<State>,
    },
    /// Matches within (or beyond) the rate.
    Limit {
        /// Parameters.
        bucket: Bucket,
        /// Tokens.
        state: Arc<State>,
    },
    /// Notes the time.
    Last(Arc<State>),
    /// A quota that is an object: as [`Stateful::Quota`], and tells the outside once when it is
    /// used up.
    NamedQuota {
        /// The amount.
        bytes: u64,
        /// `over`.
        over: bool,
        /// Consumption.
        state: Arc<State>,
    },
    /// Matches while there are at most (or once there are more than, if `over`) so many
    /// connections.
    Connlimit {
        /// `ct count`.
        limit: u32,
        /// `over`.
        over: bool,
        /// Connections.
        state: Arc<State>,
    },
    /// Gives the connection a helper, timeouts or an expectation.
    Ct(Arc<CtObject>),
    /// Answers for a server.
    Synproxy(Synproxy),
    /// Sets the packet's security mark.
    SecMark(u32),
}

/// A set that lookups can name.
#[derive(Clone, Debug)]
pub struct LinkedSet {
    /// Elements.
    pub elements: LinkedElements,
    /// Bytes of a key.
    pub key_len: u32,
    /// Bytes of a map's values; `None` for sets, verdict and object maps.
    pub value_len: Option<u32>,
}

/// Elements of a set that lookups can name.
#[derive(Clone, Debug)]
pub enum LinkedElements {
    /// Those of a generation.
    Fixed(Arc<Set<LinkedValue>>),
    /// Packets change them.
    Dynamic {
        /// The set.
        set: Arc<DynamicSet>,
        /// Default life of elements in milliseconds, 0 for no end.
        timeout: u64,
        /// Milliseconds between sweeps.
        gc_interval: u64,
    },
}

/// What a connection that is yet to begin gets.
#[derive(Clone, Debug)]
pub struct NewConnection {
    /// Name of its helper; empty for none.
    pub helper: Arc<str>,
    /// Its timeout policy.
    pub timeout: Option<Arc<CtObject>>,
    /// Events that are reported, of the connection (`enum ip_conntrack_events`) and of its
    /// expectations (1 for new ones, 2 for those that end); `None` for all.
    pub events: Option<[u16; 2]>,
    /// Its zone.
    pub zone: u16,
    /// Only for this direction.
    pub dir: Option<CtDir>,
}

/// What a `ct helper`, `ct timeout` or `ct expectation` object asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CtObject {
    /// A helper for a new connection (`nft_ct_helper_obj_eval()`).
    Helper {
        /// Its name, `ftp` and the like.
        name: Arc<str>,
        /// Transport protocol that the connection has to be of.
        l4proto: u8,
        /// `NFPROTO_*` that the connection has to be of; 1 (inet) for both.
        l3proto: u8,
    },
    /// Timeouts for a new connection (`nft_ct_timeout_obj_eval()`).
    Timeout {
        /// Transport protocol that the packet has to be of.
        l4proto: u8,
        /// `NFPROTO_*` that the packet has to be of; 1 (inet) for both. The kernel does not ask.
        l3proto: u8,
        /// State of the protocol and seconds: for TCP `TCP_CONNTRACK_*`, 10 after retransmissions
        /// and 11 for data without answer; for UDP 0 without reply and 1 with.
        values: Arc<[(u8, u32)]>,
    },
    /// A connection to expect in the other direction (`nft_ct_expect_obj_eval()`).
    Expect {
        /// Transport protocol expected.
        l4proto: u8,
        /// `NFPROTO_*` expected; 1 (inet) for that of the packet's connection.
        l3proto: u8,
        /// Destination port expected, host order.
        dport: u16,
        /// Milliseconds until the expectation expires.
        timeout: u32,
        /// Most expectations at a time of one connection.
        size: u8,
    },
}
