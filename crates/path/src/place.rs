// SPDX-License-Identifier: Apache-2.0

//! Places in the ruleset as drops, logs and traces name them.

use penstock_program::Image;
use penstock_program::image::{ChainIndex, RuleIndex};
use penstock_ruleset::Family;

use crate::reason::Place;

#[inline]
fn family(nfproto: u8) -> Family {
    match nfproto {
        1 => Family::Inet,
        2 => Family::Ip,
        3 => Family::Arp,
        7 => Family::Bridge,
        10 => Family::Ip6,
        _ => Family::Netdev,
    }
}

#[inline]
pub(crate) fn chain_place(image: &Image, chain: ChainIndex) -> Option<Place<'_>> {
    let linked = image.chain(chain)?;
    let table = image.table_of(chain)?;
    Some(Place {
        family: family(table.nfproto),
        table: &table.name,
        chain: &linked.name,
        rule: None,
    })
}

#[inline]
pub(crate) fn rule_place(image: &Image, rule: RuleIndex) -> Option<Place<'_>> {
    let name = image.rule_name(rule)?;
    Some(Place { rule: Some(name.handle), ..chain_place(image, name.chain)? })
}
