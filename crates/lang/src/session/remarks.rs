// SPDX-License-Identifier: Apache-2.0

//! Warnings of somebody who looked at the whole ruleset, at the places of the text.

use penstock_ruleset::Change;
use penstock_syntax::diag::{Diagnostic, Diagnostics};
use penstock_syntax::source::Loc;

use super::step::Done;
use super::{Remark, RemarkOn};

/// Adds a warning, if the text has made what it is on, and nothing was said of that already.
pub(super) fn add(remark: &Remark, done: &[Done], diags: &mut Diagnostics) {
    let place = match remark.part {
        RemarkOn::Nothing => Some(Loc::default()),
        _ => done.iter().rev().find_map(|done| place(remark, done)),
    };
    let Some(loc) = place else { return };
    let says = |known: &Diagnostic| {
        known.loc.input == loc.input && loc.start <= known.loc.start && known.loc.end <= loc.end
    };
    match remark.part {
        RemarkOn::Rule(_) if diags.list.iter().any(says) => {}
        _ => diags.push(Diagnostic::warning(loc, remark.text.clone())),
    }
}

/// Where the text makes what a remark is on; of a chain, where it says its policy.
fn place(remark: &Remark, done: &Done) -> Option<Loc> {
    let of_it = |family, table: &str| family == remark.family && table == remark.table;
    match (&done.change, &remark.part) {
        (Change::AddRule { family, table, .. }, RemarkOn::Rule(handle))
            if of_it(*family, table) && done.handle == Some(*handle) =>
        {
            Some(done.places.whole)
        }
        (Change::AddChain { family, table, chain, .. }, RemarkOn::Policy(name))
            if of_it(*family, table) && *chain.name == **name && chain.policy_accept.is_some() =>
        {
            Some(done.places.chain.unwrap_or(done.places.whole))
        }
        _ => None,
    }
}
