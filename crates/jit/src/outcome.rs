// SPDX-License-Identifier: Apache-2.0

//! What compiled code answers, in one 64-bit number.
//!
//! | bits | |
//! | --- | --- |
//! | 0 to 3 | what it is |
//! | 4 | `bypass` of a queue |
//! | 5 to 16 | number of the entry of the list that decided |
//! | 17 to 32 | number of a queue |
//! | 33 to 63 | a rule, or the answer of a stage |

use penstock_program::Outcome;
use penstock_program::image::{LinkedVerdict, RuleIndex};
use penstock_program::interp::engine::Step;

/// A chain of rules came to its end. Also: nothing.
pub(crate) const ENDED: u64 = 0;
const ACCEPT: u64 = 1;
pub(crate) const DROP: u64 = 2;
const STOLEN: u64 = 3;
pub(crate) const POLICY: u64 = 4;
const NO_HEADER: u64 = 5;
const STAGE: u64 = 6;
const QUEUE: u64 = 7;
/// For a frame that code for frames does not handle: it must be run as a packet.
pub(crate) const UNUSUAL: u64 = 8;

pub(crate) const KIND: u64 = 0xf;
const BYPASS: u64 = 1 << 4;
const ENTRY_SHIFT: u32 = 5;
const QUEUE_SHIFT: u32 = 17;
/// Where rules and answers of stages are.
pub(crate) const RULE_SHIFT: u8 = 33;

/// Entries that a list may have.
pub(crate) const ENTRIES: usize = 1 << 12;
/// Rules that an image may have.
pub(crate) const RULES: usize = 1 << 31;

/// A base chain, or the whole list, accepts.
pub(crate) const ACCEPTED: u64 = ACCEPT;

/// What a hook list decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// All entries let the packet pass.
    Pass,
    /// A chain drops it or took it; never [`Outcome::Accept`]. [`Outcome::Policy`] stands for a
    /// policy of `drop`.
    Chain {
        /// Which entry of the list.
        entry: usize,
        /// What it decided.
        outcome: Outcome,
    },
    /// A chain of an inet table at ingress would see an IP packet with invalid headers.
    BadHeader {
        /// Which entry of the list.
        entry: usize,
    },
    /// A stage that is no chain has ended the packet's way.
    Stage {
        /// Which entry of the list.
        entry: usize,
        /// The lower 31 bits of what it answered; not 0.
        answer: u32,
    },
}

pub(crate) fn pack(outcome: Outcome) -> u64 {
    match outcome {
        Outcome::Accept => ACCEPT,
        Outcome::Drop(rule) => DROP | by(rule),
        Outcome::Stolen => STOLEN,
        Outcome::Policy => POLICY,
        Outcome::Queue { rule, num, bypass } => {
            QUEUE | by(rule) | u64::from(num) << QUEUE_SHIFT | if bypass { BYPASS } else { 0 }
        }
    }
}

fn by(rule: RuleIndex) -> u64 {
    u64::from(rule.0) << RULE_SHIFT
}

pub(crate) fn at_entry(packed: u64, entry: u16) -> u64 {
    packed | u64::from(entry & 0xfff) << ENTRY_SHIFT
}

pub(crate) fn bad_header(entry: u16) -> u64 {
    at_entry(NO_HEADER, entry)
}

/// Answer of a stage, to be completed by what it answered at [`RULE_SHIFT`].
pub(crate) fn stage(entry: u16) -> u64 {
    at_entry(STAGE, entry)
}

pub(crate) fn drop_by(rule: RuleIndex) -> u64 {
    pack(Outcome::Drop(rule))
}

/// The rule that drops the packet.
#[inline]
pub(crate) fn dropped_by(packed: u64) -> Option<RuleIndex> {
    (packed & KIND == DROP).then_some(RuleIndex((packed >> RULE_SHIFT) as u32))
}

fn outcome(packed: u64) -> Outcome {
    let rule = RuleIndex((packed >> RULE_SHIFT) as u32);
    match packed & KIND {
        DROP => Outcome::Drop(rule),
        STOLEN => Outcome::Stolen,
        POLICY => Outcome::Policy,
        QUEUE => Outcome::Queue {
            rule,
            num: (packed >> QUEUE_SHIFT) as u16,
            bypass: packed & BYPASS != 0,
        },
        _ => Outcome::Accept,
    }
}

/// What a list decides.
pub(crate) fn unpack_list(packed: u64) -> Decision {
    let entry = (packed >> ENTRY_SHIFT) as usize % ENTRIES;
    match packed & KIND {
        ENDED | ACCEPT => Decision::Pass,
        NO_HEADER => Decision::BadHeader { entry },
        STAGE => Decision::Stage { entry, answer: (packed >> RULE_SHIFT) as u32 },
        _ => Decision::Chain { entry, outcome: outcome(packed) },
    }
}

/// What an operation answers, from the interpreter's functions to compiled code: a kind, and in the
/// high half a chain. A queue is a decision to which only the rule is added.
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
    pub(crate) const QUEUE: u64 = 15;
    const HIGH_SHIFT: u32 = 32;

    pub(crate) fn pack(step: Step) -> u64 {
        match step {
            Step::Next | Step::Verdict(LinkedVerdict::Continue) => NEXT,
            Step::Break | Step::Verdict(LinkedVerdict::Break) => BREAK,
            Step::Drop | Step::Verdict(LinkedVerdict::Drop) => DROP,
            Step::Stolen => STOLEN,
            Step::Verdict(LinkedVerdict::Accept) => ACCEPT,
            Step::Verdict(LinkedVerdict::Return) => RETURN,
            Step::Verdict(LinkedVerdict::Queue { num, bypass }) => {
                super::pack(Outcome::Queue { rule: RuleIndex(0), num, bypass }) | QUEUE
            }
            Step::Verdict(LinkedVerdict::Jump(chain)) => JUMP | u64::from(chain.0) << HIGH_SHIFT,
            Step::Verdict(LinkedVerdict::Goto(chain)) => GOTO | u64::from(chain.0) << HIGH_SHIFT,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_outcomes_unpack_unchanged() {
        let rule = RuleIndex(0x7abc_def0);
        for outcome in [
            Outcome::Drop(rule),
            Outcome::Stolen,
            Outcome::Policy,
            Outcome::Queue { rule, num: 0xffff, bypass: false },
            Outcome::Queue { rule, num: 5, bypass: true },
        ] {
            let decision = unpack_list(at_entry(pack(outcome), 0xabc));
            assert_eq!(decision, Decision::Chain { entry: 0xabc, outcome });
        }
        assert_eq!(unpack_list(pack(Outcome::Accept)), Decision::Pass);
        assert_eq!(unpack_list(bad_header(7)), Decision::BadHeader { entry: 7 });
        let answered = stage(9) | 3 << RULE_SHIFT;
        assert_eq!(unpack_list(answered), Decision::Stage { entry: 9, answer: 3 });
    }
}
