// SPDX-License-Identifier: Apache-2.0

//! What becomes of packets, and which rule or policy decides it.

use penstock_net::NoRoute;
use penstock_program::expr::RejectType;
use penstock_program::image::{ChainIndex, RuleIndex};

use crate::field::Field;

/// What becomes of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// They pass.
    Accept,
    /// They are dropped.
    Drop,
    /// They are dropped and answered.
    Reject(RejectType, u8),
    /// They are sent elsewhere.
    Stolen,
    /// A listener gets them.
    Queue {
        /// One of so many, from the first on.
        total: u16,
        /// Without a listener they pass.
        bypass: bool,
    },
    /// The host gets them.
    Host,
    /// They leave by a device, which rules know by this index.
    Leaves(u32),
    /// The network does not carry them on.
    Refused(Refusal),
}

impl End {
    /// Whether the network does not carry the packets on.
    pub fn is_refused(self) -> bool {
        matches!(self, End::Refused(_))
    }

    /// Whether nobody gets the packets: rules drop them, or the network does not carry them on.
    pub fn is_lost(self) -> bool {
        matches!(self, End::Drop | End::Reject(..) | End::Refused(_))
    }
}

/// Why a network does not carry packets on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// There is no route.
    NoRoute,
    /// A blackhole route or rule.
    Blackhole,
    /// An unreachable route.
    Unreachable,
    /// A prohibit route or rule.
    Prohibit,
    /// The device of arrival does not forward, and the host is not the destination.
    NotForwarding,
    /// Their source cannot be one.
    Source,
    /// Their source is not routed back the way that the device asks for (`rp_filter`).
    ReversePath,
    /// Their destination cannot be one.
    Destination,
    /// They are for others on the link, or for all, and would have to be forwarded.
    NotForHost,
    /// They are for a group that the host is no member of.
    NotMember,
    /// They may make no further hop.
    Hops,
    /// Their addresses mean something on their link only.
    Scope,
    /// They are to be translated to an address that the device does not have.
    NoAddress,
    /// No port of the bridge that they would leave by takes them.
    NoPort,
    /// There is no such packet in this network: it does not have the device, or the address.
    Absent,
}

impl Refusal {
    /// Whether there is something wrong with the packets, and not with the way: no ruleset and no
    /// route would carry them on.
    pub fn is_of_packet(self) -> bool {
        match self {
            Refusal::Source
            | Refusal::ReversePath
            | Refusal::Destination
            | Refusal::NotForHost
            | Refusal::NotMember
            | Refusal::Hops
            | Refusal::Scope
            | Refusal::Absent => true,
            Refusal::NoRoute
            | Refusal::Blackhole
            | Refusal::Unreachable
            | Refusal::Prohibit
            | Refusal::NotForwarding
            | Refusal::NoAddress
            | Refusal::NoPort => false,
        }
    }
}

impl From<NoRoute> for Refusal {
    fn from(why: NoRoute) -> Refusal {
        match why {
            NoRoute::None => Refusal::NoRoute,
            NoRoute::Blackhole => Refusal::Blackhole,
            NoRoute::Unreachable => Refusal::Unreachable,
            NoRoute::Prohibit => Refusal::Prohibit,
        }
    }
}

/// A rule, or the policy of a base chain, that decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Decider {
    /// The rule; `None` for the policy.
    pub rule: Option<RuleIndex>,
    /// The base chain; `None` where packets pass none.
    pub base: Option<ChainIndex>,
}

/// What becomes of the packets of a class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fate {
    /// Their end.
    pub end: End,
    /// What is written, of what differs.
    pub written: Vec<(Field, Written)>,
}

/// A value that a rule may have written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// What the packet came with.
    Unchanged,
    /// This one, as the bytes of the number.
    Value(Vec<u8>),
    /// Not the same for all packets of the class.
    Various,
}
