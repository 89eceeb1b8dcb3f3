// SPDX-License-Identifier: Apache-2.0

//! Hooks by name.

use penstock_ruleset::model::Hook;

/// All hooks, in the order in which a packet can pass them.
pub const ALL: [Hook; 7] = [
    Hook::Ingress,
    Hook::Prerouting,
    Hook::Input,
    Hook::Forward,
    Hook::Output,
    Hook::Postrouting,
    Hook::Egress,
];

/// A hook as it is written.
pub fn name(hook: Hook) -> &'static str {
    match hook {
        Hook::Ingress => "ingress",
        Hook::Prerouting => "prerouting",
        Hook::Input => "input",
        Hook::Forward => "forward",
        Hook::Output => "output",
        Hook::Postrouting => "postrouting",
        Hook::Egress => "egress",
    }
}

/// The hook that is written so.
pub fn by_name(word: &str) -> Option<Hook> {
    ALL.into_iter().find(|hook| name(*hook) == word)
}
