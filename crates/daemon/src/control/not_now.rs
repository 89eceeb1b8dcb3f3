// SPDX-License-Identifier: Apache-2.0

//! Refusals that say nothing of what is refused: the same may be right a moment later.

/// Another change is in force for a time, and nothing else is accepted until that is over.
pub(crate) const WAITS: &str =
    "a change waits for its confirmation; confirm it, or wait until it is taken back";
/// The generation that a change was made from is not in force any more.
pub(crate) const OVERTAKEN: &str = "the ruleset was changed meanwhile";
/// How it begins that a worker does not take up a generation.
pub(crate) const NO_WORKER: &str = "the dataplane does not answer";
/// How it begins that no process evaluates a text.
pub(crate) const NO_EVALUATOR: &str = "the evaluator of rule texts does not answer";
/// The process that evaluates a text is gone.
pub(crate) const EVALUATOR_ENDED: &str = "the evaluation of the text has ended; nothing is changed";
/// It is gone after its change was put in force, and before it has said so.
pub(crate) const ENDED_IN_FORCE: &str =
    "the change is in force, but the process that evaluated it has ended";
/// The system has no process or memory for another one.
pub(crate) const NO_PROCESS: &str =
    "no process can be started that evaluates the text; nothing is changed";

/// Whether a message of the dataplane, without `Error: `, is such a refusal.
pub fn is_not_now(message: &str) -> bool {
    /// How such messages begin.
    const ALL: [&str; 7] =
        [WAITS, OVERTAKEN, NO_WORKER, NO_EVALUATOR, EVALUATOR_ENDED, ENDED_IN_FORCE, NO_PROCESS];
    ALL.iter().any(|begin| message.starts_with(begin))
}
