// SPDX-License-Identifier: Apache-2.0

//! Places in the ruleset as drops, logs and traces name them.

use penstock_program::Image;
use penstock_program::image::{ChainIndex, RuleIndex};

use crate::reason::Place;

#[inline]
pub(crate) fn chain_place(image: &Image, chain: ChainIndex) -> Option<Place<'_>> {
    let linked = image.chain(chain)?;
    let table = image.table_of(chain)?;
    Some(Place { family: table.family, table: &table.name, chain: &linked.name, rule: None })
}

#[inline]
pub(crate) fn rule_place(image: &Image, rule: RuleIndex) -> Option<Place<'_>> {
    let name = image.rule_name(rule)?;
    Some(Place { rule: Some(name.handle), ..chain_place(image, name.chain)? })
}
