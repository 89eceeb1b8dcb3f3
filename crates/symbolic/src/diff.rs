// SPDX-License-Identifier: Apache-2.0

//! For which packets a change of a ruleset matters, and how.
//!
//! Packets that none of the changed rules match are treated alike, so both rulesets are evaluated
//! over the others only.

use std::collections::HashSet;

use penstock_program::image::RuleIndex;
use penstock_program::op::Op;

use crate::asked::asked;
use crate::classes::{Class, Of, classes};
use crate::diagram::{Limits, Region, Undecided};
use crate::identity::{self, Changes, Identities};
use crate::place::Place;
use crate::program::{Program, before_tracking, is_look, reachable};
use crate::universe::Universe;
use crate::walk::{Failure, changed_variables, evaluate, look_at, matching};

/// What a change does.
pub struct Difference {
    /// The fields of the rules.
    pub universe: Universe,
    /// Classes of packets that are treated otherwise, the largest first.
    pub classes: Vec<Class>,
    /// Rules of the old and of the new ruleset that are not in the other.
    pub changed: (usize, usize),
}

/// Which of the rulesets could not be evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The old one.
    Old,
    /// The new one.
    New,
}

/// For which packets it matters at a place whether they meet the old or the new ruleset.
///
/// # Errors
/// Why there is no answer, and which ruleset the rule is of.
pub fn diff(
    place: Place,
    old: &mut Program<'_>,
    new: &mut Program<'_>,
    limits: Limits,
) -> Result<Difference, (Side, Failure)> {
    if let (Some(old), Some(new)) = (&mut old.way, &mut new.way) {
        // Connections that are there are the same for both.
        old.share_connections(new);
    }
    let changes = identity::compare(old, new);
    let changed =
        changes.gaps.iter().fold((0, 0), |(a, b), gap| (a + gap.old.len(), b + gap.new.len()));
    let fields = asked(place, old).into_iter().chain(asked(place, new));
    let mut universe = Universe::new(place, limits, fields);
    look_at(&mut universe, &[old, new]).map_err(|limit| undecided(limit, old))?;
    let enter = affected(&mut universe, old, new, &changes)?;
    let before = evaluate(&mut universe, old, &enter).map_err(|failure| (Side::Old, failure))?;
    let after = evaluate(&mut universe, new, &enter).map_err(|failure| (Side::New, failure))?;
    let done = (old.image.rules.len(), old.image.rules.len());
    let limit = |limit| (Side::New, Failure::Undecided { limit, done });
    let possible = universe.possible().map_err(limit)?;
    let classes = classes(&universe, &[&before, &after], &possible, Of::Differing);
    let classes = classes.map_err(limit)?;
    Ok(Difference { universe, classes, changed })
}

/// Packets for which a changed rule may do something.
fn affected(
    universe: &mut Universe,
    old: &Program<'_>,
    new: &Program<'_>,
    changes: &Changes,
) -> Result<Region, (Side, Failure)> {
    // On a way rules see what was translated and routed before.
    if changes.everything || [old, new].iter().any(|program| program.way.is_some()) {
        return Ok(universe.diagrams.all());
    }
    let reached = [old, new]
        .map(|program| -> HashSet<RuleIndex> { reachable(program).into_iter().collect() });
    let early = [old, new].map(|program| {
        let hook = universe.place.hook;
        let mut early = program.bases.iter().map(|base| before_tracking(hook, base.priority));
        let first = early.next().unwrap_or(false);
        // A chain that is called from both sides of connection tracking cannot be looked at alone.
        early.all(|other| other == first).then_some(first)
    });
    let [Some(old_early), Some(new_early)] = early else { return Ok(universe.diagrams.all()) };
    let mut regions = Vec::new();
    let mut identities = (Identities::new(old), Identities::new(new));
    for gap in &changes.gaps {
        let mut sides = [Vec::new(), Vec::new()];
        for (side, (program, rules)) in [(old, &gap.old), (new, &gap.new)].into_iter().enumerate() {
            let which = if side == 0 { Side::Old } else { Side::New };
            let early = if side == 0 { old_early } else { new_early };
            for rule in rules {
                if !reached[side].contains(rule) {
                    sides[side].push(universe.diagrams.none());
                    continue;
                }
                let region = matching(universe, program, *rule, early);
                sides[side].push(region.map_err(|failure| (which, failure))?);
            }
        }
        let [of_old, of_new] = sides;
        if gap.old.len() == gap.new.len() {
            for (((a, b), of_a), of_b) in gap.old.iter().zip(&gap.new).zip(&of_old).zip(&of_new) {
                let region = match same_effect(old, *a, new, *b, &mut identities) {
                    true => universe.diagrams.xor(of_a, of_b),
                    false => universe.diagrams.or(of_a, of_b),
                };
                regions.push(region.map_err(|limit| undecided(limit, old))?);
            }
        } else {
            regions.extend(of_old);
            regions.extend(of_new);
        }
    }
    let union = universe.diagrams.union(&regions).map_err(|limit| undecided(limit, old))?;
    let written: Vec<u32> =
        [old, new].iter().flat_map(|program| changed_variables(universe, program)).collect();
    match written.is_empty() {
        true => Ok(union),
        false => universe
            .diagrams
            .whatever(&union, written.into_iter())
            .map_err(|limit| undecided(limit, old)),
    }
}

fn undecided(limit: Undecided, program: &Program<'_>) -> (Side, Failure) {
    (Side::Old, Failure::Undecided { limit, done: (0, program.image.rules.len()) })
}

/// Whether two rules do the same with the packets that they match.
fn same_effect(
    old: &Program<'_>,
    a: RuleIndex,
    new: &Program<'_>,
    b: RuleIndex,
    identities: &mut (Identities<'_>, Identities<'_>),
) -> bool {
    let looks = |program: &Program<'_>, rule| {
        let ops = program.image.ops_at(rule);
        let looks = ops.iter().take_while(|op| is_look(op)).count();
        let mut own = 0;
        // What follows must not depend on what the first operations have loaded.
        let alone = ops[looks..].iter().all(|op| {
            let info = op.info();
            let alone = info.reads & !own == 0;
            own |= info.writes;
            alone
        });
        alone.then_some(looks)
    };
    let (Some(of_a), Some(of_b)) = (looks(old, a), looks(new, b)) else { return false };
    // Inputs are those of each rule.
    let is_plain = |program: &Program<'_>, rule, looks: usize| {
        let ops = &program.image.ops_at(rule)[looks..];
        ops.iter().all(|op| matches!(op, Op::Verdict(_)))
    };
    is_plain(old, a, of_a)
        && is_plain(new, b, of_b)
        && identities.0.tail(a, of_a) == identities.1.tail(b, of_b)
}
