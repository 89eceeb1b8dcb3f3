// SPDX-License-Identifier: Apache-2.0

//! Which module a path leads to.

use std::collections::BTreeMap;

use crate::source::{Module, Segments};

/// How many names may stand for others one after the other.
const DEPTH: usize = 16;

/// The modules of a crate by their paths.
pub struct Names<'a>(BTreeMap<&'a [String], &'a Module>);

impl<'a> Names<'a> {
    /// Of these modules.
    pub fn new(modules: &'a [Module]) -> Self {
        Names(modules.iter().map(|m| (&m.path[..], m)).collect())
    }

    /// The module that a path used in `from` leads to; `None` for paths out of the crate, and for
    /// names of `from` itself.
    pub fn target(&self, from: &'a Module, path: &[String]) -> Option<&'a Module> {
        self.follow(from, path, DEPTH)
    }

    fn follow(&self, from: &'a Module, path: &[String], depth: usize) -> Option<&'a Module> {
        let depth = depth.checked_sub(1)?;
        let (first, rest) = path.split_first()?;
        match &**first {
            "crate" => self.inside(self.0.get(&[][..])?, rest, depth),
            "self" => self.inside(from, rest, depth),
            "super" => {
                let mut at = from.path.split_last()?.1;
                let mut rest = rest;
                while let [first, after @ ..] = rest
                    && first == "super"
                {
                    (at, rest) = (at.split_last()?.1, after);
                }
                self.inside(self.0.get(at)?, rest, depth)
            }
            name if self.child(from, name).is_some() || import(from, name).is_some() => {
                self.inside(from, path, depth)
            }
            _ => None,
        }
    }

    /// The module of the longest part of a path that is seen from inside of a module.
    fn inside(&self, module: &'a Module, path: &[String], depth: usize) -> Option<&'a Module> {
        let depth = depth.checked_sub(1)?;
        let Some((first, rest)) = path.split_first() else { return Some(module) };
        if let Some(child) = self.child(module, first) {
            return self.inside(child, rest, depth);
        }
        if module.defines.contains(first) {
            return Some(module);
        }
        if let Some(meant) = import(module, first) {
            let whole: Segments = meant.iter().chain(rest).cloned().collect();
            return self.follow(module, &whole, depth);
        }
        let globs = module.globs.iter().filter_map(|glob| self.follow(module, glob, depth));
        for glob in globs {
            let there = self.child(glob, first).is_some()
                || glob.defines.contains(first)
                || import(glob, first).is_some();
            if there {
                return self.inside(glob, path, depth);
            }
        }
        Some(module)
    }

    fn child(&self, module: &Module, name: &str) -> Option<&'a Module> {
        let path: Segments = module.path.iter().cloned().chain([name.to_owned()]).collect();
        self.0.get(&path[..]).copied()
    }
}

fn import<'a>(module: &'a Module, name: &str) -> Option<&'a Segments> {
    module.imports.iter().find(|(bound, _)| bound == name).map(|(_, path)| path)
}
