// SPDX-License-Identifier: Apache-2.0

//! `nft -o`: neighbouring rules of a chain that ask for the same selectors become one rule with a
//! set or a map.
//!
//! As in nft, only rules that stand in the block of a table are merged, in the tree as it was
//! written:
//!
//! | rules | become |
//! | --- | --- |
//! | one selector, the same end | `ip saddr { A, B } accept` |
//! | several selectors, the same end | `ip saddr . tcp dport { A . 1, B . 2 } accept` |
//! | different verdicts | `ip saddr vmap { A : accept, B : drop }` |
//! | verdict maps | one verdict map |
//! | NAT | `dnat to tcp dport map { 1 : A . 80, 2 : B . 80 }` |
//!
//! Unlike nft, a merge is made only where no packet can tell the difference: `row` says what a
//! rule does and whether it can be part of a merge at all, `group` which neighbours can join it,
//! `quiet` which chains may be jumped to on the way, `build` makes the rule. What must not go
//! into a set, such as a test of flag bits, stays next to it when all rules share it.

mod build;
mod group;
mod quiet;
mod row;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use penstock_ruleset::model::{Family, Generation};
use penstock_syntax::ast::cmd::New;
use penstock_syntax::ast::{Cmd, CmdKind, RuleBlock};
use penstock_syntax::datatype::Format;
use penstock_syntax::diag::{Diagnostics, place_of};
use penstock_syntax::source::{Inputs, Loc};

use crate::eval::{Context, evaluate};
use group::Group;
use quiet::Quiet;
use row::{Columns, Row};

/// What was merged, as nft tells it. Standard error gets `rules`, `into:` and a tab, standard
/// output `into`, and standard error the end of that line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merge {
    /// `Merging:`, and the rules with their places, one per line.
    pub rules: String,
    /// The rule that takes their place.
    pub into: String,
}

/// Merges rules of the tables that commands add on top of a generation. `ctx` has seen all of these
/// commands, which are right.
pub fn optimize(
    cmds: &mut [Cmd],
    generation: &Generation,
    ctx: &mut Context<'_>,
    inputs: &Inputs,
) -> Vec<Merge> {
    let quiet = Quiet::new(cmds, generation);
    let mut merges = Vec::new();
    for cmd in cmds {
        let CmdKind::Add(New::Table(block)) = &mut cmd.kind else { continue };
        let family = cmd.target.family.unwrap_or(Family::Ip);
        let Some(table) = &cmd.target.table else { continue };
        for (chain, block) in &mut block.chains {
            // nft leaves it as it is.
            if block.offload {
                continue;
            }
            let place = ChainRef {
                family,
                table: table.text.clone(),
                cmd: cmd.target.clone(),
                loc: chain.loc,
            };
            merge_chain(&mut block.rules, &place, &quiet, ctx, inputs, &mut merges);
        }
    }
    merges
}

/// The chain of the rules to merge.
struct ChainRef {
    family: Family,
    table: Arc<str>,
    cmd: penstock_syntax::ast::cmd::Target,
    loc: Loc,
}

fn merge_chain(
    rules: &mut Vec<RuleBlock>,
    place: &ChainRef,
    quiet: &Quiet,
    ctx: &mut Context<'_>,
    inputs: &Inputs,
    merges: &mut Vec<Merge>,
) {
    let mut columns = Columns::default();
    let rows: Vec<Option<Row>> = rules
        .iter()
        .map(|rule| Row::read(rule, &mut columns, ctx, place.family, &place.table))
        .collect();
    let quiet = quiet.of(place.family, &place.table);
    let mut out = Vec::with_capacity(rules.len());
    let mut at = 0;
    let budget = ctx.budget.clone();
    while at < rules.len() {
        if budget.is_late() {
            return;
        }
        let mut end = at + 1;
        if let Some(mut group) = rows[at].as_ref().and_then(|row| Group::start(row, quiet, &budget))
        {
            while end < rules.len() && rows[end].as_ref().is_some_and(|row| group.join(row)) {
                end += 1;
            }
            if end > at + 1 {
                let first = &rules[at];
                let merged = build::merged(first, &group, &columns);
                if is_right(&merged, place, ctx) {
                    merges.push(Merge {
                        rules: told(&rules[at..end], inputs),
                        into: build::text(
                            &merged,
                            &group,
                            Format { stateless: true, ..Format::default() },
                            ctx.names,
                        ),
                    });
                    out.push(merged);
                    at = end;
                    continue;
                }
            }
        }
        out.push(rules[at].clone());
        at += 1;
    }
    *rules = out;
}

/// Whether a merged rule can be loaded, as its parts can.
fn is_right(rule: &RuleBlock, place: &ChainRef, ctx: &mut Context<'_>) -> bool {
    let name = penstock_syntax::ast::cmd::Name { text: Arc::from(""), loc: place.loc };
    let target = penstock_syntax::ast::cmd::Target { chain: Some(name), ..place.cmd.clone() };
    let mut cmd = Cmd { kind: CmdKind::Add(New::Rule(rule.clone())), target, loc: rule.loc };
    evaluate(&mut cmd, ctx, &mut Diagnostics::default())
}

/// The rules with their places and the lines they stand on.
fn told(rules: &[RuleBlock], inputs: &Inputs) -> String {
    let mut out = String::from("Merging:\n");
    for rule in rules {
        // The comment is not part of the place.
        let end = rule.stmts.last().map_or(rule.loc.end, |s| s.loc.end);
        let (place, line) = place_of(Loc { end, ..rule.loc }, inputs);
        out.push_str(&format!("{place}{line}\n"));
    }
    out
}
