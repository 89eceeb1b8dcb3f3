// SPDX-License-Identifier: Apache-2.0

//! Whether what is claimed of all packets holds.

use penstock_program::image::{ChainIndex, RuleIndex};
use penstock_program::op::Op;

use crate::asked::asked;
use crate::diagram::{Limits, Undecided};
use crate::fate::{Decider, End};
use crate::place::Place;
use crate::preferred::preferred;
use crate::program::{Program, before_tracking, is_look, ops_of};
use crate::universe::Universe;
use crate::walk::{Failure, evaluate, matching};

/// What may become of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// They pass.
    Accept,
    /// They are dropped, or rejected.
    Drop,
    /// They are rejected.
    Reject,
    /// A listener gets them.
    Queue,
}

impl Outcome {
    fn is(self, end: End) -> bool {
        match (self, end) {
            (Outcome::Accept, End::Accept)
            | (Outcome::Drop, End::Drop | End::Reject(..))
            | (Outcome::Reject, End::Reject(..))
            | (Outcome::Queue, End::Queue { .. }) => true,
            // Without a listener they pass.
            (Outcome::Accept, End::Queue { bypass, .. }) => bypass,
            (_, _) => false,
        }
    }
}

/// What is claimed: that packets that a rule matches always, or never, come to an end.
#[derive(Clone, Copy)]
pub struct Claim<'a> {
    /// A ruleset of which the first rule of the first base chain is the match.
    pub matches: &'a Program<'a>,
    /// Always, or never.
    pub always: bool,
    /// What becomes of them.
    pub outcome: Outcome,
}

/// Whether a claim holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Proof {
    /// It does.
    Holds,
    /// It does, since no packet can match.
    NothingMatches,
    /// It does not: for this packet.
    Refuted {
        /// The value of each variable.
        example: Vec<bool>,
        /// What becomes of it.
        end: End,
        /// What decides.
        decider: Decider,
    },
}

/// The proofs, and the universe of their packets.
pub struct Proofs {
    /// The fields of rules and claims.
    pub universe: Universe,
    /// One for each claim.
    pub proofs: Vec<Proof>,
}

/// Why claims could not be decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unproved {
    /// The ruleset.
    Rules(Failure),
    /// A claim, by its number.
    Claim(usize, Failure),
}

/// Decides claims about what a ruleset does at a place.
///
/// # Errors
/// Why they could not be decided.
pub fn prove(
    place: Place,
    program: &Program<'_>,
    claims: &[Claim<'_>],
    limits: Limits,
) -> Result<Proofs, Unproved> {
    let mut fields = asked(place, program);
    for claim in claims {
        fields.extend(asked(place, claim.matches));
    }
    let mut universe = Universe::new(place, limits, fields);
    let mut regions = Vec::new();
    for (number, claim) in claims.iter().enumerate() {
        let rule = first_rule(claim.matches);
        let early =
            program.bases.first().is_some_and(|base| before_tracking(place.hook, base.priority));
        if let Some(rule) = rule
            && let Some(reason) = not_a_match(claim.matches, rule)
        {
            return Err(Unproved::Claim(number, Failure::NoMeaning { rule, reason }));
        }
        let region = match rule {
            Some(rule) => matching(&mut universe, claim.matches, rule, early),
            None => Ok(universe.diagrams.all()),
        };
        regions.push(region.map_err(|failure| Unproved::Claim(number, failure))?);
    }
    let limit = |limit: Undecided| {
        Unproved::Rules(Failure::Undecided { limit, done: (0, program.image.rules.len()) })
    };
    let enter = universe.diagrams.union(&regions).map_err(limit)?;
    let evaluated = evaluate(&mut universe, program, &enter).map_err(Unproved::Rules)?;
    let done = program.image.rules.len();
    let limit =
        |limit: Undecided| Unproved::Rules(Failure::Undecided { limit, done: (done, done) });
    let possible = universe.possible().map_err(limit)?;
    let d = &universe.diagrams;
    let mut proofs = Vec::new();
    for (claim, region) in claims.iter().zip(regions) {
        let region = d.and(&region, &possible).map_err(limit)?;
        if region.is_none() {
            proofs.push(Proof::NothingMatches);
            continue;
        }
        let mut proof = Proof::Holds;
        for decision in &evaluated.decisions {
            if claim.outcome.is(decision.end) == claim.always {
                continue;
            }
            let wrong = d.and(&region, &decision.region).map_err(limit)?;
            if wrong.is_none() {
                continue;
            }
            let preferred = preferred(&universe, &wrong).map_err(limit)?;
            let Some(example) = d.packet_of(&preferred) else { continue };
            let decider = Decider { rule: decision.rule, base: decision.base };
            proof = Proof::Refuted { example, end: decision.end, decider };
            break;
        }
        proofs.push(proof);
    }
    Ok(Proofs { universe, proofs })
}

fn first_rule(program: &Program<'_>) -> Option<RuleIndex> {
    let chain: ChainIndex = program.bases.first()?.chain;
    let chain = program.image.chain(chain)?;
    (chain.first < chain.end).then_some(RuleIndex(chain.first))
}

/// Why a rule is more than a match with a verdict.
fn not_a_match(program: &Program<'_>, rule: RuleIndex) -> Option<&'static str> {
    let ops = ops_of(program.image, rule);
    let is_match = ops.iter().all(|op| is_look(op) || matches!(op, Op::Verdict(_)));
    (!is_match).then_some("a claim is made of matches, and they look at nothing but the packet")
}
