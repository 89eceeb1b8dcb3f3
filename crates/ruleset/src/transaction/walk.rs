// SPDX-License-Identifier: Apache-2.0

//! Which chains packets reach from which base chains, how deep, and whether the rules there are
//! allowed to be.
//!
//! The kernel walks from every base chain when a batch ends (`nft_table_validate`). Here the walk
//! continues from what is known: a new jump carries the contexts of its chain to where it leads.

use penstock_program::Hooks;
use penstock_program::reference::Reference;

use super::index::{TableIndex, by_handle};
use super::reach::{Reach, Reached, context, pairs};
use crate::Errno;
use crate::model::{MapData, Rule, Set, Table};
use crate::references;

/// How many chains can be on the way from a base chain, that one included (`NFT_JUMP_STACK_SIZE`).
const STACK: u8 = 16;

impl Reach {
    /// From scratch. What is there was valid, so nothing is checked.
    pub fn new(table: &Table, index: &TableIndex) -> Self {
        let mut reach = Reach::default();
        reach.walk(table, index);
        reach
    }

    fn walk(&mut self, table: &Table, index: &TableIndex) {
        for chain in &table.chains {
            if let Some(base) = &chain.base {
                let way = Reached { contexts: context(base), depth: 0 };
                // An error cannot be: each change that made the table was checked.
                let _ = self.enter_chain(table, index, chain.handle, way);
            }
        }
    }

    /// Checks all that base chains reach.
    pub fn checked(table: &Table, index: &TableIndex) -> Result<(), Errno> {
        let mut reach = Reach::default();
        table.chains.iter().try_for_each(|chain| match &chain.base {
            Some(base) => {
                let way = Reached { contexts: context(base), depth: 0 };
                reach.enter_chain(table, index, chain.handle, way)
            }
            None => Ok(()),
        })
    }

    /// From scratch, as if a verdict map were empty.
    pub fn without(table: &Table, index: &TableIndex, map: u64) -> Self {
        let mut reach = Reach { left_out: Some(map), ..Reach::default() };
        reach.walk(table, index);
        reach.left_out = None;
        reach
    }

    /// Checks a rule of a chain, and goes where it leads.
    pub fn follow_rule(
        &mut self,
        table: &Table,
        index: &TableIndex,
        chain: u64,
        rule: &Rule,
    ) -> Result<(), Errno> {
        match self.known.get(&chain) {
            Some(&way) => self.rule(table, index, rule, way),
            None => Ok(()),
        }
    }

    /// Goes where new elements of a verdict map lead.
    pub fn follow_element(
        &mut self,
        table: &Table,
        index: &TableIndex,
        set: u64,
        reference: Reference<'_>,
    ) -> Result<(), Errno> {
        match (self.known.get(&set), reference, index.handle_of(reference)) {
            (Some(&way), Reference::Chain(_), Some(target)) => {
                self.enter_chain(table, index, target, Reached { depth: way.depth + 1, ..way })
            }
            _ => Ok(()),
        }
    }

    fn enter_chain(
        &mut self,
        table: &Table,
        index: &TableIndex,
        handle: u64,
        way: Reached,
    ) -> Result<(), Errno> {
        if way.depth >= STACK {
            return Err(Errno::Emlink);
        }
        let Some(chain) = by_handle(&table.chains, handle) else { return Ok(()) };
        // A base chain's way is noted with depth 0 before it has rules; every other chain is
        // deeper.
        let Some(way) = self.note(handle, way) else { return Ok(()) };
        chain.rules.iter().try_for_each(|rule| self.rule(table, index, rule, way))
    }

    fn enter_map(
        &mut self,
        table: &Table,
        index: &TableIndex,
        set: &Set,
        way: Reached,
    ) -> Result<(), Errno> {
        let Some(way) = self.note(set.handle, way) else { return Ok(()) };
        if self.left_out == Some(set.handle) {
            return Ok(());
        }
        for element in set.elements().iter_unordered() {
            if let Some(reference @ Reference::Chain(_)) =
                references::of_element(set.data, element.value)
                && let Some(target) = index.handle_of(reference)
            {
                self.enter_chain(table, index, target, Reached { depth: way.depth + 1, ..way })?;
            }
        }
        Ok(())
    }

    fn rule(
        &mut self,
        table: &Table,
        index: &TableIndex,
        rule: &Rule,
        way: Reached,
    ) -> Result<(), Errno> {
        for expr in &rule.exprs {
            let hooks = expr.hooks(table.family);
            if hooks != Hooks::ANY
                && !pairs(way.contexts).all(|(kind, hook)| hooks.allow(kind, hook))
            {
                return Err(expr.wrong_hook());
            }
            let mut result = Ok(());
            expr.references(&mut |reference| {
                let Some(handle) = index.handle_of(reference).filter(|_| result.is_ok()) else {
                    return;
                };
                result = match reference {
                    Reference::Chain(_) => self.enter_chain(
                        table,
                        index,
                        handle,
                        Reached { depth: way.depth + 1, ..way },
                    ),
                    Reference::Set(_) => match by_handle(&table.sets, handle) {
                        Some(set) if set.data == Some(MapData::Verdict) => {
                            self.enter_map(table, index, set, way)
                        }
                        _ => Ok(()),
                    },
                    Reference::Object(..) | Reference::Flowtable(_) => Ok(()),
                };
            });
            result?;
        }
        Ok(())
    }
}
