// SPDX-License-Identifier: Apache-2.0

//! What becomes of the packets that a match is about.

use penstock_program::expr::MetaKey;

use crate::classes::{Class, Of, classes};
use crate::diagram::Limits;
use crate::field::Field;
use crate::matched::{Matched, Seen, Unanswered, matched};
use crate::place::Place;
use crate::program::Program;
use crate::universe::Universe;

/// What becomes of packets.
pub struct Answer {
    /// The fields of rules and match.
    pub universe: Universe,
    /// Classes of the packets, by what becomes of them, the largest first; each has one fate. None
    /// if no packet can match.
    pub classes: Vec<Class>,
    /// `NFPROTO_*` of all the packets, if that is one.
    pub nfproto: Option<u8>,
    /// The transport protocol of all the packets, if that is one.
    pub transport: Option<u8>,
}

/// What a ruleset does at a place with the packets that a match is about. `matches` is a ruleset of
/// which the first rule of the first base chain is the match; without a rule it is about all.
///
/// # Errors
/// What cannot be evaluated.
pub fn ask(
    place: Place,
    program: &Program<'_>,
    matches: &Program<'_>,
    limits: Limits,
) -> Result<Answer, Unanswered> {
    let Matched { universe, regions, evaluated } =
        matched(place, program, &[(matches, Seen::Coming)], limits)?;
    let region = regions.first().cloned().unwrap_or_else(|| universe.diagrams.none());
    let limit = |limit| Unanswered::after_all(program, limit);
    let classes = classes(&universe, &[&evaluated], &region, Of::All).map_err(limit)?;
    let only = |key| {
        let value = universe.only_value(&region, Field::Meta(key)).map_err(limit)?;
        Ok(value.map(|value| value[0]))
    };
    let (nfproto, transport) = (only(MetaKey::NfProto)?, only(MetaKey::L4Proto)?);
    Ok(Answer { universe, classes, nfproto, transport })
}
