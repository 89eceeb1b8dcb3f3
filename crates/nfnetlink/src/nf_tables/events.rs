// SPDX-License-Identifier: Apache-2.0

//! What is told when something goes: its parts first, as the kernel takes it apart. It is told
//! before it goes; a change that is then refused ends the batch, and nothing is told.

use penstock_ruleset::model::Chain;
use penstock_ruleset::{Generation, Table};

use super::answer::Stamp;
use super::batch::Batch;
use super::{chain, flowtable, object, rule, set, table};
use crate::message::{Message, Writer};
use crate::uapi::nf_tables::*;

fn rules_go(to: &mut Writer, stamp: Stamp, table: &Table, chain: &Chain) {
    for at in 0..chain.rules.len() {
        rule::fill(to, stamp, (NFT_MSG_DELRULE, 0), table, chain, at);
    }
}

/// A table with all that is in it.
pub fn table_goes(batch: &mut Batch<'_>, message: &Message<'_>, gone: &Table) {
    batch.tell(message, |to, stamp, _| {
        for chain in &gone.chains {
            rules_go(to, stamp, gone, chain);
        }
        for flowtable in &gone.flowtables {
            flowtable::fill(to, stamp, (NFT_MSG_DELFLOWTABLE, 0), gone, flowtable);
        }
        for set in gone.sets.iter().filter(|set| !set.anonymous) {
            set::fill(to, stamp, (NFT_MSG_DELSET, 0), gone, set);
        }
        for object in &gone.objects {
            object::fill(to, stamp, (NFT_MSG_DELOBJ, 0), gone, (object, 0));
        }
        for chain in &gone.chains {
            chain::fill(to, stamp, (NFT_MSG_DELCHAIN, 0), gone, (chain, 0));
        }
        table::fill(to, stamp, NFT_MSG_DELTABLE, 0, gone);
    });
}

fn find(generation: &Generation, table: u64, chain: u64) -> Option<(&Table, &Chain)> {
    let table = generation.tables.iter().find(|t| t.handle == table)?;
    let chain = table.chains.iter().find(|c| c.handle == chain)?;
    Some((table, chain))
}

/// A chain with its rules. All are named by handles.
pub fn chain_goes(batch: &mut Batch<'_>, message: &Message<'_>, table: u64, chain: u64) {
    batch.tell(message, |to, stamp, working| {
        if let Some((table, gone)) = find(working, table, chain) {
            rules_go(to, stamp, table, gone);
            chain::fill(to, stamp, (NFT_MSG_DELCHAIN, 0), table, (gone, 0));
        }
    });
}

/// Rules of a chain, or the one with a handle.
pub fn rules_gone(
    batch: &mut Batch<'_>,
    message: &Message<'_>,
    table: u64,
    chain: u64,
    handle: Option<u64>,
) {
    batch.tell(message, |to, stamp, working| {
        let Some((table, chain)) = find(working, table, chain) else { return };
        let Some(handle) = handle else { return rules_go(to, stamp, table, chain) };
        if let Some(at) = chain.rules.iter().position(|rule| rule.handle == handle) {
            rule::fill(to, stamp, (NFT_MSG_DELRULE, 0), table, chain, at);
        }
    });
}
