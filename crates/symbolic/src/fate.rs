// SPDX-License-Identifier: Apache-2.0

//! What becomes of packets, and which rule or policy decides it.

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
