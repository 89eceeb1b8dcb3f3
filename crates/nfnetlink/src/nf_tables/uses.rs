// SPDX-License-Identifier: Apache-2.0

//! How often parts of a table are referred to (`NFTA_*_USE`).

use std::collections::HashMap;

use penstock_program::reference::Reference;
use penstock_ruleset::Table;
use penstock_ruleset::model::{Chain, ElementData, Flowtable, MapData, Object};

/// References in a table.
#[derive(Debug)]
pub struct Uses<'t> {
    counts: HashMap<Reference<'t>, u32>,
}

impl<'t> Uses<'t> {
    /// Counts those of rules and of elements.
    pub fn of(table: &'t Table) -> Self {
        let mut counts: HashMap<Reference<'t>, u32> = HashMap::new();
        let mut count = |reference| *counts.entry(reference).or_default() += 1;
        for rule in table.chains.iter().flat_map(|chain| &chain.rules) {
            rule.exprs.iter().for_each(|expr| expr.references(&mut count));
        }
        for set in &table.sets {
            let Some(MapData::Verdict | MapData::Object(_)) = set.data else { continue };
            // Packets change no such map: its elements are lent.
            let std::borrow::Cow::Borrowed(elements) = set.elements() else { continue };
            for element in elements.iter_unordered() {
                match (&element.value.data, set.data) {
                    (Some(ElementData::Verdict(verdict)), _) => {
                        verdict.chain().into_iter().for_each(|c| count(Reference::Chain(c)));
                    }
                    (Some(ElementData::Object(name)), Some(MapData::Object(kind))) => {
                        count(Reference::Object(kind, name));
                    }
                    _ => {}
                }
            }
        }
        Uses { counts }
    }

    fn get(&self, reference: Reference<'_>) -> u32 {
        self.counts.get(&reference).copied().unwrap_or(0)
    }

    /// Uses of a chain: its rules, and jumps to it. The rule of a bound chain counts twice.
    pub fn chain(&self, chain: &Chain) -> u32 {
        let uses = self.get(Reference::Chain(&chain.name));
        chain.rules.len() as u32 + uses + if chain.anonymous { uses } else { 0 }
    }

    /// Uses of an object.
    pub fn object(&self, object: &Object) -> u32 {
        self.get(Reference::Object(object.value.kind(), &object.name))
    }

    /// Uses of a flowtable.
    pub fn flowtable(&self, flowtable: &Flowtable) -> u32 {
        self.get(Reference::Flowtable(&flowtable.name))
    }

    /// Uses of a table: its contents, apart from rules and sets bound to them.
    pub fn table(table: &Table) -> u32 {
        let sets = table.sets.iter().filter(|set| !set.anonymous).count();
        (table.chains.len() + sets + table.objects.len() + table.flowtables.len()) as u32
    }
}
