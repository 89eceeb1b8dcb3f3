// SPDX-License-Identifier: Apache-2.0

//! Verdicts of rules and chains.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// What a rule decides (`enum nft_verdicts` and `NF_*`), with chains by name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Verdict {
    /// `NF_DROP`: final.
    Drop,
    /// `NF_ACCEPT`: ends this base chain.
    Accept,
    /// `NF_QUEUE`, plain form as a verdict.
    Queue,
    /// Next rule (`NFT_CONTINUE`).
    Continue,
    /// End of this rule (`NFT_BREAK`).
    Break,
    /// Call a chain.
    Jump(Arc<str>),
    /// Go to a chain.
    Goto(Arc<str>),
    /// Back to the caller.
    Return,
}

impl Verdict {
    /// The chain it names.
    pub fn chain(&self) -> Option<&Arc<str>> {
        match self {
            Verdict::Jump(c) | Verdict::Goto(c) => Some(c),
            _ => None,
        }
    }
}

/// As in nft's debug output. A chain that has no name yet (a bound one before its commit) leaves
/// the arrow away.
impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Drop => f.write_str("drop"),
            Verdict::Accept => f.write_str("accept"),
            Verdict::Queue => f.write_str("queue"),
            Verdict::Continue => f.write_str("continue"),
            Verdict::Break => f.write_str("break"),
            Verdict::Jump(c) if c.is_empty() => f.write_str("jump"),
            Verdict::Goto(c) if c.is_empty() => f.write_str("goto"),
            Verdict::Jump(c) => write!(f, "jump -> {c}"),
            Verdict::Goto(c) => write!(f, "goto -> {c}"),
            Verdict::Return => f.write_str("return"),
        }
    }
}
