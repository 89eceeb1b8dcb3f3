// SPDX-License-Identifier: Apache-2.0

//! How a hook list, or a part of it, ends for a packet.

use penstock_program::image::RuleIndex;

/// What a chain, a stage of a hook list, or all of the list makes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HookResult {
    /// The packet continues.
    Accept,
    /// The packet was dropped and counted.
    Dropped,
    /// The packet waits, or was sent elsewhere: it ends here without being dropped.
    Stolen,
    /// To a queue, by a rule or for the helper of its connection; the caller that runs the list
    /// knows where the packet continues.
    Queue { num: u16, bypass: bool, rule: Option<RuleIndex> },
}
