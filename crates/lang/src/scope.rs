//! Definitions: `define`, `redefine`, `undefine`, and what `$name` stands for.

use std::collections::HashMap;
use std::sync::Arc;

use crate::ast::Expr;

/// Definitions of the blocks that are open, the outermost first. That one outlives a run (`nft -i`).
#[derive(Clone, Debug)]
pub struct Scope {
    blocks: Vec<HashMap<Arc<str>, Expr>>,
}

impl Default for Scope {
    fn default() -> Self {
        Scope { blocks: vec![HashMap::new()] }
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

    /// Whether the innermost block itself defines a name.
    pub fn defines(&self, name: &str) -> bool {
        self.blocks.last().is_some_and(|b| b.contains_key(name))
    }

    /// Defines a name in the innermost block, in place of what it was there.
    pub fn define(&mut self, name: Arc<str>, value: Expr) {
        if let Some(block) = self.blocks.last_mut() {
            block.insert(name, value);
        }
    }

    /// Forgets a name of the innermost block; `false` if it was not defined there.
    pub fn undefine(&mut self, name: &str) -> bool {
        self.blocks.last_mut().is_some_and(|b| b.remove(name).is_some())
    }

    /// What a name stands for.
    pub fn get(&self, name: &str) -> Option<&Expr> {
        self.blocks.iter().rev().find_map(|b| b.get(name))
    }

    /// All names in sight, innermost first.
    pub fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.blocks.iter().rev().flat_map(|b| b.keys())
    }
}
