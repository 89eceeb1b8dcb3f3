// SPDX-License-Identifier: Apache-2.0

//! Which chains packets reach from which base chains, how deep, and whether the rules there are
//! allowed to be.
//!
//! The kernel walks from every base chain when a batch ends (`nft_table_validate`). Here the walk
//! goes on from what is known: a new jump carries the contexts of its chain to where it leads.

use std::collections::HashMap;

use super::index::{TableIndex, by_handle};
use penstock_program::Hooks;
use penstock_program::reference::Reference;

use crate::Errno;
use crate::model::{BaseChain, ChainType, Hook, MapData, Rule, Set, Table};
use crate::references;

/// How many chains can be on the way from a base chain, that one included (`NFT_JUMP_STACK_SIZE`).
const STACK: u8 = 16;

/// A set of pairs of chain type and hook.
type Contexts = u32;

/// How base chains reach a chain or a verdict map.
#[derive(Clone, Copy, Debug, Default)]
struct Way {
    contexts: Contexts,
    /// Most jumps on the way from a base chain.
    depth: u8,
}

/// All chains and verdict maps that base chains reach, by handle.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reach {
    ways: HashMap<u64, Way>,
    /// A verdict map whose elements are not looked at.
    left_out: Option<u64>,
}

fn context(base: &BaseChain) -> Contexts {
    1 << (base.kind as u32 * 8 + base.hook as u32)
}

fn pairs(contexts: Contexts) -> impl Iterator<Item = (ChainType, Hook)> {
    let kinds = [ChainType::Filter, ChainType::Nat, ChainType::Route];
    let hooks = [
        Hook::Ingress,
        Hook::Prerouting,
        Hook::Input,
        Hook::Forward,
        Hook::Output,
        Hook::Postrouting,
        Hook::Egress,
    ];
    let all =
        kinds.into_iter().flat_map(move |kind| hooks.into_iter().map(move |hook| (kind, hook)));
    all.filter(move |&(kind, hook)| contexts & (1 << (kind as u32 * 8 + hook as u32)) != 0)
}

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
                let way = Way { contexts: context(base), depth: 0 };
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
                let way = Way { contexts: context(base), depth: 0 };
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

    /// A base chain without rules.
    pub fn add_base(&mut self, handle: u64, base: &BaseChain) {
        self.ways.insert(handle, Way { contexts: context(base), depth: 0 });
    }

    pub fn forget(&mut self, handle: u64) {
        self.ways.remove(&handle);
    }

    /// Checks a rule of a chain, and goes where it leads.
    pub fn follow_rule(
        &mut self,
        table: &Table,
        index: &TableIndex,
        chain: u64,
        rule: &Rule,
    ) -> Result<(), Errno> {
        match self.ways.get(&chain) {
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
        match (self.ways.get(&set), reference, index.handle_of(reference)) {
            (Some(&way), Reference::Chain(_), Some(target)) => {
                self.enter_chain(table, index, target, Way { depth: way.depth + 1, ..way })
            }
            _ => Ok(()),
        }
    }

    /// Notes a way to something; whether it is news.
    fn note(&mut self, handle: u64, way: Way) -> Option<Way> {
        let known = self.ways.entry(handle).or_default();
        if known.contexts & way.contexts == way.contexts && known.depth >= way.depth {
            return None;
        }
        known.contexts |= way.contexts;
        known.depth = known.depth.max(way.depth);
        Some(*known)
    }

    fn enter_chain(
        &mut self,
        table: &Table,
        index: &TableIndex,
        handle: u64,
        way: Way,
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
        way: Way,
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
                self.enter_chain(table, index, target, Way { depth: way.depth + 1, ..way })?;
            }
        }
        Ok(())
    }

    fn rule(
        &mut self,
        table: &Table,
        index: &TableIndex,
        rule: &Rule,
        way: Way,
    ) -> Result<(), Errno> {
        for expr in &rule.exprs {
            let hooks = expr.hooks(table.family);
            if hooks != Hooks::ANY
                && !pairs(way.contexts).all(|(kind, hook)| hooks.allow(kind, hook))
            {
                return Err(Errno::Eopnotsupp);
            }
            let mut result = Ok(());
            expr.references(&mut |reference| {
                let Some(handle) = index.handle_of(reference).filter(|_| result.is_ok()) else {
                    return;
                };
                result = match reference {
                    Reference::Chain(_) => {
                        self.enter_chain(table, index, handle, Way { depth: way.depth + 1, ..way })
                    }
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
