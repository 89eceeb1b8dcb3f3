// SPDX-License-Identifier: Apache-2.0

//! Whether what is claimed of all packets holds.

use crate::classes::{by_end, depends};
use crate::diagram::Limits;
use crate::fate::{Decider, End};
use crate::field::Field;
use crate::matched::{Matched, Seen, Unanswered, matched};
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
            (Outcome::Accept, End::Accept | End::Host | End::Leaves(_))
            | (Outcome::Reject, End::Reject(..))
            | (Outcome::Queue, End::Queue { .. }) => true,
            (Outcome::Drop, end) => end.is_lost(),
            // Without a listener they pass.
            (Outcome::Accept, End::Queue { bypass, .. }) => bypass,
            (_, _) => false,
        }
    }
}

/// What is claimed of the packets that a match is about.
#[derive(Clone, Copy)]
pub struct Claim<'a> {
    /// A ruleset of which the first rule of the first base chain is the match.
    pub matches: &'a Program<'a>,
    /// What becomes of them.
    pub what: Claimed,
}

/// What is claimed to become of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// This, always.
    Always(Outcome),
    /// This, never.
    Never(Outcome),
    /// On a way through a network: they always leave by the device that rules know by this index.
    AlwaysLeaves(u32),
    /// No packets that the match is about as they leave do so by this device.
    NeverLeaves(u32),
    /// Of those that routing leads to the host, or to a device, and that a network would carry on,
    /// none is lost; and there are some.
    Reaches(End),
}

impl Claimed {
    fn seen(self) -> Seen {
        match self {
            Claimed::NeverLeaves(device) => Seen::Leaving(device),
            Claimed::Always(_)
            | Claimed::Never(_)
            | Claimed::AlwaysLeaves(_)
            | Claimed::Reaches(_) => Seen::Coming,
        }
    }

    /// Whether packets may come to an end.
    fn allows(self, end: End) -> bool {
        match self {
            // They are packets that nobody would carry on.
            Claimed::Always(_) | Claimed::AlwaysLeaves(_) if matches!(end, End::Refused(why) if why.is_of_packet()) => {
                true
            }
            Claimed::Always(outcome) => outcome.is(end),
            Claimed::Never(outcome) => !outcome.is(end),
            Claimed::AlwaysLeaves(device) => end == End::Leaves(device),
            Claimed::NeverLeaves(device) => end != End::Leaves(device),
            Claimed::Reaches(to) => end == to,
        }
    }
}

/// Whether a claim holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Proof {
    /// It does.
    Holds,
    /// It does, since no packet can match.
    NothingMatches,
    /// It does not: routing leads no packet there.
    NothingReaches,
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
    let matches: Vec<_> = claims.iter().map(|claim| (claim.matches, claim.what.seen())).collect();
    let Matched { universe, regions, evaluated } = matched(place, program, &matches, limits)?;
    let limit = |limit| Unanswered::after_all(program, limit);
    let d = &universe.diagrams;
    let ends = by_end(d, &evaluated.decisions).map_err(limit)?;
    let mut proofs = Vec::new();
    for (claim, mut region) in claims.iter().zip(regions) {
        if region.is_none() {
            proofs.push(Proof::NothingMatches);
            continue;
        }
        if let Claimed::Reaches(to) = claim.what {
            region = evaluated.way.led_to(d, &region, to).map_err(limit)?;
            for decision in &evaluated.decisions {
                if matches!(decision.end, End::Refused(why) if why.is_of_packet()) {
                    region = d.minus(&region, &decision.region).map_err(limit)?;
                }
            }
            if region.is_none() {
                proofs.push(Proof::NothingReaches);
                continue;
            }
        }
        let mut proof = Proof::Holds;
        let mut wrong = d.none();
        for (_, ended) in ends.iter().filter(|(end, _)| !claim.what.allows(*end)) {
            wrong = d.and(&region, ended).and_then(|ended| d.or(&wrong, &ended)).map_err(limit)?;
        }
        if wrong.is_none() {
            proofs.push(proof);
            continue;
        }
        for decision in &evaluated.decisions {
            if claim.what.allows(decision.end) {
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
