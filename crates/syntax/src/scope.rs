// SPDX-License-Identifier: Apache-2.0

//! Definitions: `define`, `redefine`, `undefine`, and what `$name` stands for.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;

use crate::ast::cmd::Name;
use crate::ast::{Expr, walk};

/// What a name stands for.
#[derive(Debug)]
pub struct Value {
    /// The value as it was written, with the definitions in it replaced by what they stand for.
    pub expr: Expr,
    /// How many expressions that is.
    pub size: u64,
}

/// What a name stands for, and the number of its definition.
type Definition = (Arc<Value>, usize);

/// Definitions of the blocks that are open, the outermost first. That one outlives a run
/// (`nft -i`).
#[derive(Clone, Debug)]
pub struct Scope {
    /// Per name what it stood for, the last value in force: `undefine` brings back the one before.
    blocks: Vec<HashMap<Arc<str>, Vec<Definition>>>,
    /// All there ever were, by number, and whether anything referred to them.
    definitions: Vec<(Name, Cell<bool>)>,
}

impl Default for Scope {
    fn default() -> Self {
        Scope { blocks: vec![HashMap::new()], definitions: Vec::new() }
    }
}

impl Scope {
    /// Enters a block.
    pub fn open(&mut self) {
        self.blocks.push(HashMap::new());
    }

    /// Leaves a block and forgets its definitions.
    pub fn close(&mut self) {
        if self.blocks.len() > 1 {
            self.blocks.pop();
        }
    }

    /// How many blocks are open.
    pub fn depth(&self) -> usize {
        self.blocks.len()
    }

    /// Leaves blocks until `depth` are open.
    pub fn close_to(&mut self, depth: usize) {
        self.blocks.truncate(depth.max(1));
    }

    /// Defines a name in the innermost block, on top of what it was there.
    pub fn define(&mut self, name: Name, value: Expr) {
        let number = self.definitions.len();
        if let Some(block) = self.blocks.last_mut() {
            let (size, _) = walk::measure(&value);
            let value = Arc::new(Value { expr: value, size });
            block.entry(name.text.clone()).or_default().push((value, number));
            self.definitions.push((name, Cell::new(false)));
        }
    }

    /// How many definitions there were so far.
    pub fn definitions(&self) -> usize {
        self.definitions.len()
    }

    /// Definitions, from number `first` on, that nothing referred to.
    pub fn unused(&self, first: usize) -> impl Iterator<Item = &Name> {
        self.definitions.iter().skip(first).filter(|(_, used)| !used.get()).map(|(name, _)| name)
    }

    /// Whether a name stands for something.
    pub fn has(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    fn find(&self, name: &str) -> Option<&Definition> {
        self.blocks.iter().rev().find_map(|b| b.get(name)?.last())
    }

    /// Removes the last definition of a name in the innermost block; `false` if there is none.
    pub fn undefine(&mut self, name: &str) -> bool {
        self.blocks
            .last_mut()
            .and_then(|b| b.get_mut(name))
            .is_some_and(|values| values.pop().is_some())
    }

    /// What a name stands for, for something that refers to it.
    pub fn get(&self, name: &str) -> Option<&Arc<Value>> {
        let (value, number) = self.find(name)?;
        if let Some((_, used)) = self.definitions.get(*number) {
            used.set(true);
        }
        Some(value)
    }

    /// All names in sight, those of the innermost block first, and those defined last.
    pub fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.blocks.iter().rev().flat_map(|block| {
            let defined = |(name, values): (_, &Vec<Definition>)| Some((values.last()?.1, name));
            let mut names: Vec<_> = block.iter().filter_map(defined).collect();
            names.sort_unstable();
            names.into_iter().rev().map(|(_, name)| name)
        })
    }
}
