// SPDX-License-Identifier: Apache-2.0

//! What a ruleset does with the packets that matches are about: for claims and questions.

use std::collections::HashMap;

use penstock_program::image::{ChainIndex, RuleIndex};
use penstock_program::op::Op;

use crate::asked::{asked, of_way_out};
use crate::diagram::{Limits, Region, Undecided};
use crate::field::Field;
use crate::place::Place;
use crate::program::{Program, before_tracking, is_look};
use crate::universe::Universe;
use crate::walk::{Evaluated, Failure, Left, Passed, evaluate, look_at, matching_with, way_out};

/// Packets that matches are about, and what becomes of them.
pub(crate) struct Matched {
    /// The fields of rules and matches.
    pub universe: Universe,
    /// The packets that each match is about: those that can be.
    pub regions: Vec<Region>,
    /// What becomes of all of them.
    pub evaluated: Evaluated,
}

/// Why there is no answer about matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unanswered {
    /// The ruleset.
    Rules(Failure),
    /// A match, by its number.
    Match(usize, Failure),
}

impl Unanswered {
    /// A limit that was reached when all rules were evaluated.
    pub(crate) fn after_all(program: &Program<'_>, limit: Undecided) -> Unanswered {
        let done = program.image.rules.len();
        Unanswered::Rules(Failure::Undecided { limit, done: (done, done) })
    }
}

/// Which packets a match is about, on a way through a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// As they come, with the device by which routing has them leave.
    Coming,
    /// As they leave, with all that was translated and written, by a device. Where none leaves by
    /// it, some that leave by another one: only whether there are any counts of these.
    Leaving(u32),
}

/// Evaluates a ruleset over the packets that matches are about. A match is a ruleset of which the
/// first rule of the first base chain is meant; without a rule it is about all packets.
///
/// # Errors
/// What cannot be evaluated.
pub(crate) fn matched(
    place: Place,
    program: &Program<'_>,
    matches: &[(&Program<'_>, Seen)],
    limits: Limits,
) -> Result<Matched, Unanswered> {
    let mut fields = asked(place, program);
    let asked: Vec<Field> = matches.iter().flat_map(|(one, _)| asked(place, one)).collect();
    // Where packets have a way, routing says these.
    let (of_way, of_packet): (Vec<Field>, Vec<Field>) =
        asked.into_iter().partition(|field| program.way.is_some() && of_way_out(*field));
    fields.extend(of_packet);
    let limit = |limit: Undecided| {
        Unanswered::Rules(Failure::Undecided { limit, done: (0, program.image.rules.len()) })
    };
    let mut universe = Universe::new(place, limits, fields);
    look_at(&mut universe, &[program]).map_err(limit)?;
    let early = program.way.is_none()
        && program.bases.first().is_some_and(|base| before_tracking(place.hook, base.priority));
    let regions = |universe: &mut Universe, passed: &Passed| {
        let mut regions = Vec::new();
        let mut out = HashMap::new();
        if let Some(way) = &program.way
            && !of_way.is_empty()
        {
            out = way_out(universe, way, &passed.routed).map_err(limit)?;
        }
        let possible = universe.possible().map_err(limit)?;
        for (number, (one, seen)) in matches.iter().enumerate() {
            let failed = |failure| Unanswered::Match(number, failure);
            let Some(rule) = first_rule(one) else {
                regions.push(universe.diagrams.all());
                continue;
            };
            if let Some(reason) = not_a_match(one, rule) {
                return Err(failed(Failure::NoMeaning { rule, reason }));
            }
            let Seen::Leaving(device) = seen else {
                let values = out.clone();
                regions.push(matching_with(universe, one, rule, early, values).map_err(failed)?);
                continue;
            };
            let mut region = universe.diagrams.none();
            let (by_it, others): (Vec<&Left>, Vec<&Left>) =
                passed.left.iter().partition(|left| left.device == *device);
            for left in by_it.iter().chain(&others) {
                if left.device != *device
                    && universe.diagrams.meet(&region, &possible).map_err(limit)?
                {
                    break;
                }
                let values = left.values.clone();
                let of_it = matching_with(universe, one, rule, early, values).map_err(failed)?;
                let of_it = universe.diagrams.and(&left.region, &of_it).map_err(limit)?;
                region = universe.diagrams.or(&region, &of_it).map_err(limit)?;
            }
            regions.push(region);
        }
        Ok(regions)
    };
    let (mut regions, evaluated) = match program.way {
        None => {
            let regions = regions(&mut universe, &Passed::default())?;
            let enter = universe.diagrams.union(&regions).map_err(limit)?;
            let evaluated = evaluate(&mut universe, program, &enter).map_err(Unanswered::Rules)?;
            (regions, evaluated)
        }
        // What they are about is known at the end of the way.
        Some(_) => {
            let enter = universe.diagrams.all();
            let evaluated = evaluate(&mut universe, program, &enter).map_err(Unanswered::Rules)?;
            (regions(&mut universe, &evaluated.way)?, evaluated)
        }
    };
    let limit = |limit| Unanswered::after_all(program, limit);
    // Rules may have asked for more fields.
    let possible = universe.possible().map_err(limit)?;
    for region in &mut regions {
        *region = universe.diagrams.and(region, &possible).map_err(limit)?;
    }
    Ok(Matched { universe, regions, evaluated })
}

fn first_rule(program: &Program<'_>) -> Option<RuleIndex> {
    let chain: ChainIndex = program.bases.first()?.chain;
    let chain = program.image.chain(chain)?;
    (chain.first < chain.end).then_some(RuleIndex(chain.first))
}

/// Why a rule is more than a match with a verdict.
fn not_a_match(program: &Program<'_>, rule: RuleIndex) -> Option<&'static str> {
    let ops = program.image.ops_at(rule);
    let is_match = ops.iter().all(|op| is_look(op) || matches!(op, Op::Verdict(_)));
    (!is_match).then_some("matches are expected here, which look at nothing but the packet")
}
