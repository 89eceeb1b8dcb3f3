// SPDX-License-Identifier: Apache-2.0

//! Connections of a state file as a table.
//!
//! No packets meet it, so its clock stands still: what is left of a connection's life is what
//! `penstock up` will continue with.

use penstock_conntrack::{Conntrack, Helpers, Settings};

/// A time that is not the beginning of time: something may be over before it.
const NOW: u64 = 1;

/// The table of what a state file says, with the helpers of its ruleset; empty for text that is none, which no state file has.
pub(crate) fn load(text: &str, helpers: Helpers) -> Conntrack {
    let usual = Settings::default();
    let room = text.lines().count().saturating_mul(4).saturating_add(1024);
    let max = usual.max.max(u32::try_from(room).unwrap_or(u32::MAX));
    let mut table = Conntrack::new(Settings { max, ..usual });
    table.set_helpers(helpers);
    table.advance(NOW);
    if !text.is_empty() {
        // A state is checked when it is read.
        let _ = table.load(text, NOW);
    }
    table
}

/// What a state file says of a table.
pub(crate) fn saved(table: &Conntrack) -> String {
    if table.count() == 0 { String::new() } else { table.dump() }
}
