// SPDX-License-Identifier: Apache-2.0

//! Counters of a ruleset: those of rules, and named ones.

use penstock_lang::listing::Listing;
use penstock_program::State;

use crate::Family;

/// What a counter counts for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Counted {
    /// A `counter` statement of a rule.
    Rule {
        /// The chain.
        chain: String,
        /// The rule's handle.
        handle: u64,
        /// The rule as nft lists it, without the numbers.
        text: String,
    },
    /// A named counter.
    Object {
        /// Its name.
        name: String,
    },
}

/// A counter and what it has counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counter {
    /// Family of the table.
    pub family: Family,
    /// The table.
    pub table: String,
    /// What it counts for.
    pub what: Counted,
    /// Packets.
    pub packets: u64,
    /// Bytes, as nft counts them: from the network header on, at egress from the link header on.
    pub bytes: u64,
}

/// All counters of a generation, table by table: named ones first, then those of rules.
pub(crate) fn all(listing: &Listing<'_>) -> Vec<Counter> {
    let mut all = Vec::new();
    for table in &listing.generation.tables {
        let mut push = |what, state: &State| {
            if let State::Counter(counter) = state {
                let (packets, bytes) = counter.read();
                let (family, table) = (table.family, table.name.to_string());
                all.push(Counter { family, table, what, packets, bytes });
            }
        };
        for object in &table.objects {
            if let Some(state) = &object.state {
                push(Counted::Object { name: object.name.to_string() }, state);
            }
        }
        for chain in &table.chains {
            for rule in &chain.rules {
                for state in &rule.states {
                    let text = match **state {
                        State::Counter(_) => listing.rule(table, rule).trim().to_owned(),
                        _ => continue,
                    };
                    let (chain, handle) = (chain.name.to_string(), rule.handle);
                    push(Counted::Rule { chain, handle, text }, state);
                }
            }
        }
    }
    all
}
