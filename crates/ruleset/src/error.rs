// SPDX-License-Identifier: Apache-2.0

//! Refusals: the kernel's errno, and which part of the change is to blame (extended ack).

pub use penstock_program::Errno;
use serde::{Deserialize, Serialize};

/// The attribute that the kernel names in its extended ack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Blame {
    /// The change as a whole.
    Whole,
    /// `NFTA_*_TABLE`, or the table's own name.
    Table,
    /// The chain's name.
    Chain,
    /// `NFTA_*_HANDLE`.
    Handle,
    /// `NFTA_RULE_POSITION` (from `position`, `handle` or `index`).
    Position,
    /// The set's name.
    Set,
    /// The object's name.
    Object,
    /// The flowtable's name.
    Flowtable,
    /// Hook, priority or devices of a base chain.
    Hook,
    /// `NFTA_CHAIN_TYPE`.
    Type,
    /// `NFTA_CHAIN_POLICY`.
    Policy,
    /// The BPF program of a chain.
    Program,
    /// Element number `n` of the change.
    Element(usize),
    /// VM expression number `n` of the rule.
    Expression(usize),
}

/// Why a change was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Error {
    /// What the kernel would return.
    pub errno: Errno,
    /// Where.
    pub blame: Blame,
    /// What the kernel does not say: our reason in words, where we have one.
    pub detail: Option<String>,
}

impl Error {
    /// An error as the kernel gives it.
    pub fn new(errno: Errno, blame: Blame) -> Self {
        Error { errno, blame, detail: None }
    }
}
