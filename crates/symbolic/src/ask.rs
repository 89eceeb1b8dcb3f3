// SPDX-License-Identifier: Apache-2.0

//! What becomes of the packets that matches are about.

use penstock_program::expr::MetaKey;

use crate::classes::{Class, Of, classes};
use crate::diagram::Limits;
use crate::fate::End;
use crate::field::Field;
use crate::matched::{Matched, Seen, Unanswered, matched};
use crate::place::Place;
use crate::program::Program;
use crate::universe::Universe;

/// Classes of packets, by what becomes of them.
pub struct Answer {
    /// The classes, the largest first; each has one fate. None if no packet can match.
    pub classes: Vec<Class>,
    /// `NFPROTO_*` of all the packets, if that is one.
    pub nfproto: Option<u8>,
    /// The transport protocol of all the packets, if that is one.
    pub transport: Option<u8>,
}

/// What is asked.
#[derive(Clone, Copy)]
pub struct Query<'a> {
    /// A ruleset of which the first rule of the first base chain is the match; without a rule it is
    /// about all packets.
    pub matches: &'a Program<'a>,
    /// On a way through a network: only packets that routing leads to the host, or to a device.
    pub led: Option<End>,
}

/// Answers, and the universe of their packets.
pub struct Answers {
    /// The fields of rules and matches.
    pub universe: Universe,
    /// One for each query.
    pub all: Vec<Answer>,
}

/// What a ruleset does at a place with the packets that matches are about.
///
/// # Errors
/// What cannot be evaluated.
pub fn ask(
    place: Place,
    program: &Program<'_>,
    queries: &[Query<'_>],
    limits: Limits,
) -> Result<Answers, Unanswered> {
    let matches: Vec<_> = queries.iter().map(|one| (one.matches, Seen::Coming)).collect();
    let Matched { universe, regions, evaluated } = matched(place, program, &matches, limits)?;
    let limit = |limit| Unanswered::after_all(program, limit);
    let d = &universe.diagrams;
    let mut all = Vec::new();
    for (query, mut region) in queries.iter().zip(regions) {
        if let Some(to) = query.led {
            region = evaluated.way.led_to(d, &region, to).map_err(limit)?;
        }
        let classes = classes(&universe, &[&evaluated], &region, Of::All).map_err(limit)?;
        let only = |key| {
            let value = universe.only_value(&region, Field::Meta(key)).map_err(limit)?;
            Ok(value.map(|value| value[0]))
        };
        let (nfproto, transport) = (only(MetaKey::NfProto)?, only(MetaKey::L4Proto)?);
        all.push(Answer { classes, nfproto, transport });
    }
    Ok(Answers { universe, all })
}
