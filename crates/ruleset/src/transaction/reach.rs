// SPDX-License-Identifier: Apache-2.0

//! What is known of how base chains reach chains and verdict maps.

use std::collections::HashMap;

use crate::model::{BaseChain, ChainType, Hook};

/// A set of pairs of chain type and hook.
pub(super) type Contexts = u32;

/// How base chains reach a chain or a verdict map.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reached {
    pub contexts: Contexts,
    /// Most jumps on the way from a base chain.
    pub depth: u8,
}

/// All chains and verdict maps that base chains reach, by handle.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reach {
    pub(super) known: HashMap<u64, Reached>,
    /// A verdict map to leave out.
    pub(super) left_out: Option<u64>,
}

pub(super) fn context(base: &BaseChain) -> Contexts {
    1 << (base.kind as u32 * 8 + base.hook as u32)
}

pub(super) fn pairs(contexts: Contexts) -> impl Iterator<Item = (ChainType, Hook)> {
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
    /// A base chain without rules.
    pub fn add_base(&mut self, handle: u64, base: &BaseChain) {
        self.known.insert(handle, Reached { contexts: context(base), depth: 0 });
    }

    /// Nothing reaches it now.
    pub fn forget(&mut self, handle: u64) {
        self.known.remove(&handle);
    }

    /// Notes a way to something; whether it is news.
    pub(super) fn note(&mut self, handle: u64, way: Reached) -> Option<Reached> {
        let known = self.known.entry(handle).or_default();
        if known.contexts & way.contexts == way.contexts && known.depth >= way.depth {
            return None;
        }
        known.contexts |= way.contexts;
        known.depth = known.depth.max(way.depth);
        Some(*known)
    }
}
