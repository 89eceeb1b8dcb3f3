// SPDX-License-Identifier: Apache-2.0

//! Images made by hand.

use std::collections::HashMap;
use std::sync::Arc;

use penstock_program::expr::ObjectType;
use penstock_program::image::*;
use penstock_program::link::{LinkError, LinkReason, Names, link_rule};
use penstock_program::{Expr, Family, State};

/// A table made by hand: chains of programs, with the sets and objects that they name.
#[derive(Debug, Default)]
pub struct Table {
    /// Chains in order; the first one is the base chain.
    pub chains: Vec<(Arc<str>, Vec<Vec<Expr>>)>,
    /// Sets by name.
    pub sets: HashMap<Arc<str>, LinkedSet>,
    /// Objects by type and name.
    pub objects: Vec<(ObjectType, Arc<str>, Stateful)>,
}

impl Table {
    /// A table with one chain.
    pub fn of(rules: Vec<Vec<Expr>>) -> Self {
        Table { chains: vec![("base".into(), rules)], ..Table::default() }
    }

    /// Links it, in a table of a family; handles count from 1. The states are those of the rules'
    /// stateful expressions, in order.
    pub fn link(&self, family: Family) -> Result<(Image, Vec<Arc<State>>), LinkError> {
        let mut image = Image::default();
        let mut all = Vec::new();
        image.tables.push(LinkedTable { family, name: "t".into(), handle: 1 });
        for (i, (name, rules)) in self.chains.iter().enumerate() {
            let first = image.rules.len() as u32;
            for exprs in rules {
                let states: Vec<_> =
                    exprs.iter().filter_map(|expr| expr.new_state(0)).map(Arc::new).collect();
                let first = image.ops.len() as u32;
                link_rule(exprs, &states, family, self, &mut image.ops)?;
                image.rules.push(LinkedRule { first, end: image.ops.len() as u32 });
                let handle = image.rules.len() as u64;
                image.rule_names.push(RuleName { chain: ChainIndex(i as u32), handle });
                all.extend(states);
            }
            image.chains.push(LinkedChain {
                table: TableIndex(0),
                name: name.clone(),
                handle: i as u64,
                first,
                end: image.rules.len() as u32,
                lookup: None,
                policy_accept: (i == 0).then_some(true),
                policy_counter: None,
            });
        }
        Ok((image, all))
    }
}

impl Names for Table {
    fn chain(&self, name: &str) -> Option<ChainIndex> {
        self.chains.iter().position(|(n, _)| **n == *name).map(|i| ChainIndex(i as u32))
    }

    fn set(&self, name: &Arc<str>) -> Result<LinkedSet, LinkReason> {
        let set = self.sets.get(name).cloned();
        set.ok_or_else(|| LinkReason::Unknown { what: "set", name: name.clone() })
    }

    fn object(&self, kind: ObjectType, name: &str) -> Option<&Stateful> {
        self.objects
            .iter()
            .find(|(k, n, _)| *k == kind && **n == *name)
            .map(|(_, _, object)| object)
    }

    /// There is one.
    fn flowtable(&self, name: &str) -> Option<FlowtableIndex> {
        (name == "f").then_some(FlowtableIndex(0))
    }
}
