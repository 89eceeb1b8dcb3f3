// SPDX-License-Identifier: Apache-2.0

//! `nft --lint`: valid rules that are probably mistakes.
//!
//! Warnings change nothing about what is done, nor the exit code. They are given only if the text
//! alone proves them: a rule never matches if earlier rules of its chain leave it no possible
//! packet.
//!
//! | file | warns of |
//! | --- | --- |
//! | `shadow` | rules that never match, or are never reached |
//! | `contradiction` | rules with matches that exclude each other |
//! | `devices` | devices that packets do not have at the hook of a chain |
//! | `unused` | chains never jumped to; sets, maps and objects that no rule uses |
//! | `suggest` | (errors) a misspelt word, with the nearest known one |
//!
//! What is true of all packets only with the whole ruleset, somebody else says
//! ([`Review`](crate::session::Review)). Unused definitions come from the
//! [`Scope`](penstock_syntax::scope::Scope).

mod contradiction;
mod devices;
mod shadow;
pub(crate) mod suggest;
#[cfg(test)]
mod tests;
mod unused;

use penstock_ruleset::model::Generation;
use penstock_syntax::ast::Cmd;
use penstock_syntax::ast::cmd::Name;
use penstock_syntax::diag::Diagnostic;
use penstock_syntax::source::Inputs;

use crate::eval::Context;

/// Warnings about commands that are right, in the order of the text. `ctx` has seen all of them;
/// `definitions` are those that nothing refers to.
pub fn lint(
    cmds: &[Cmd],
    generation: &Generation,
    definitions: &[Name],
    ctx: &mut Context<'_>,
    inputs: &Inputs,
) -> Vec<Diagnostic> {
    let mut out: Vec<Diagnostic> = definitions
        .iter()
        .map(|name| {
            Diagnostic::warning(name.loc, format!("definition ‘{}’ is not used", name.text))
        })
        .collect();
    shadow::find(cmds, ctx, inputs, &mut out);
    devices::find(cmds, generation, &mut out);
    unused::find(cmds, generation, &mut out);
    out.sort_by_key(|d| (d.loc.input, d.loc.start));
    out
}
