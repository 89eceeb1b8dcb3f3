//! What compiled code answers, in one 64-bit number.
//!
//! The low byte says what it is; bits 8 to 23 hold the number of the entry of the list that decided, bits 32 to 63 a rule.

use penstock_program::Outcome;
use penstock_program::image::{LinkedVerdict, RuleIndex};
use penstock_program::interp::engine::Step;

/// A chain of rules came to its end. Also: nothing.
pub(crate) const ENDED: u64 = 0;
const ACCEPT: u64 = 1;
const DROP: u64 = 2;
const STOLEN: u64 = 3;
const POLICY: u64 = 4;
const NO_HEADER: u64 = 5;
const STAGE: u64 = 6;

/// A base chain, or the whole list, accepts.
pub(crate) const ACCEPTED: u64 = ACCEPT;

const ENTRY_SHIFT: u32 = 8;
const HIGH_SHIFT: u32 = 32;

/// What a hook list decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// All entries let the packet pass.
    Pass,
    /// A chain drops it or took it; never [`Outcome::Accept`]. [`Outcome::Policy`] stands for a policy of `drop`.
    Chain {
        /// Which entry of the list.
        entry: usize,
        /// What it decided.
        outcome: Outcome,
    },
    /// A chain of an inet table at ingress was to see an IP packet whose headers are not valid.
    BadHeader {
        /// Which entry of the list.
        entry: usize,
    },
    /// A stage that is no chain has ended the packet's way.
    Stage {
        /// Which entry of the list.
        entry: usize,
        /// What it answered; not 0.
        answer: u32,
    },
}

pub(crate) fn pack(outcome: Outcome) -> u64 {
    match outcome {
        Outcome::Accept => ACCEPT,
        Outcome::Drop(rule) => DROP | u64::from(rule.0) << HIGH_SHIFT,
        Outcome::Stolen => STOLEN,
        Outcome::Policy => POLICY,
    }
}

pub(crate) fn at_entry(packed: u64, entry: u16) -> u64 {
    packed | u64::from(entry) << ENTRY_SHIFT
}

pub(crate) fn bad_header(entry: u16) -> u64 {
    at_entry(NO_HEADER, entry)
}

/// Answer of a stage, to be completed by its answer in the high half.
pub(crate) fn stage(entry: u16) -> u64 {
    at_entry(STAGE, entry)
}

pub(crate) fn drop_by(rule: RuleIndex) -> u64 {
    pack(Outcome::Drop(rule))
}

fn outcome(packed: u64) -> Outcome {
    match packed & 0xff {
        DROP => Outcome::Drop(RuleIndex((packed >> HIGH_SHIFT) as u32)),
        STOLEN => Outcome::Stolen,
        POLICY => Outcome::Policy,
        _ => Outcome::Accept,
    }
}

/// What a list decides.
pub(crate) fn unpack_list(packed: u64) -> Decision {
    let entry = (packed >> ENTRY_SHIFT) as u16 as usize;
    match packed & 0xff {
        ENDED | ACCEPT => Decision::Pass,
        NO_HEADER => Decision::BadHeader { entry },
        STAGE => Decision::Stage { entry, answer: (packed >> HIGH_SHIFT) as u32 },
        _ => Decision::Chain { entry, outcome: outcome(packed) },
    }
}

/// What an operation answers, from the interpreter's functions to compiled code: a kind, and in the high half a chain.
pub(crate) mod step {
    use super::*;

    pub(crate) const NEXT: u64 = 0;
    pub(crate) const BREAK: u64 = 1;
    pub(crate) const DROP: u64 = 2;
    pub(crate) const STOLEN: u64 = 3;
    pub(crate) const ACCEPT: u64 = 4;
    pub(crate) const RETURN: u64 = 5;
    pub(crate) const JUMP: u64 = 6;
    pub(crate) const GOTO: u64 = 7;

    pub(crate) fn pack(step: Step) -> u64 {
        match step {
            Step::Next | Step::Verdict(LinkedVerdict::Continue) => NEXT,
            Step::Break | Step::Verdict(LinkedVerdict::Break) => BREAK,
            Step::Drop | Step::Verdict(LinkedVerdict::Drop) => DROP,
            Step::Stolen => STOLEN,
            Step::Verdict(LinkedVerdict::Accept) => ACCEPT,
            Step::Verdict(LinkedVerdict::Return) => RETURN,
            Step::Verdict(LinkedVerdict::Jump(chain)) => JUMP | u64::from(chain.0) << HIGH_SHIFT,
            Step::Verdict(LinkedVerdict::Goto(chain)) => GOTO | u64::from(chain.0) << HIGH_SHIFT,
        }
    }
}
