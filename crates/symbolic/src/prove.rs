// SPDX-License-Identifier: Apache-2.0

//! Whether what is claimed of all packets holds.

use crate::classes::depends;
use crate::diagram::Limits;
use crate::fate::{Decider, End};
use crate::field::Field;
use crate::matched::{Matched, Unanswered, matched};
use crate::place::Place;
use crate::preferred::preferred;
use crate::program::Program;
use crate::universe::Universe;

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
        /// What it depends on besides the packet.
        depends: Vec<Field>,
    },
}

/// The proofs, and the universe of their packets.
pub struct Proofs {
    /// The fields of rules and claims.
    pub universe: Universe,
    /// One for each claim.
    pub proofs: Vec<Proof>,
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
) -> Result<Proofs, Unanswered> {
    let matches: Vec<&Program<'_>> = claims.iter().map(|claim| claim.matches).collect();
    let Matched { universe, regions, evaluated } = matched(place, program, &matches, limits)?;
    let limit = |limit| Unanswered::after_all(program, limit);
    let d = &universe.diagrams;
    let mut proofs = Vec::new();
    for (claim, region) in claims.iter().zip(regions) {
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
            let depends = depends(&universe, &wrong);
            proof = Proof::Refuted { example, end: decision.end, decider, depends };
            break;
        }
        proofs.push(proof);
    }
    Ok(Proofs { universe, proofs })
}
