// SPDX-License-Identifier: Apache-2.0

//! Tables with those parts only that some base chains need.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use penstock_ruleset::Table;
use penstock_ruleset::model::Chain;

use super::reach::Reach;

/// Handles of a table and of a chain in it.
pub(in crate::attach) type ChainKey = (u64, u64);

/// The tables with these base chains and all that they need; tables without one are left out. So
/// many leading rules of base chains are elsewhere.
pub(in crate::attach) fn with_only(
    tables: &[Arc<Table>],
    bases: &BTreeSet<ChainKey>,
    leading: &BTreeMap<ChainKey, u32>,
) -> Vec<Arc<Table>> {
    let part = |whole: &Arc<Table>| {
        let mut table = Table::clone(whole);
        for chain in &mut table.chains {
            if let Some(rules) = leading.get(&(table.handle, chain.handle)) {
                let mut rest = Chain::clone(chain);
                rest.rules.drain(..rest.rules.len().min(*rules as usize));
                *chain = Arc::new(rest);
            }
        }
        let table = &table;
        let mut needed = Reach::default();
        let mut any = false;
        let is_wanted = |handle| bases.contains(&(table.handle, handle));
        for chain in table.chains.iter().filter(|chain| is_wanted(chain.handle)) {
            needed.add(Reach::of(table, chain));
            any = true;
        }
        any.then(|| {
            let mut part = Table::clone(table);
            part.chains.retain(|chain| needed.chains.contains(&chain.handle));
            part.sets.retain(|set| needed.sets.contains(&set.handle));
            part.objects.retain(|object| needed.objects.contains(&object.handle));
            part.flowtables.retain(|flowtable| needed.flowtables.contains(&flowtable.handle));
            Arc::new(part)
        })
    };
    tables.iter().filter_map(part).collect()
}
