// SPDX-License-Identifier: Apache-2.0

//! What all packets of a region have in common: variables with one value. Two regions that have
//! nothing in common are told apart by that in most cases, without a look at their diagrams.

// Handles of diagrams count their references, which are no part of what they are compared by.
#![allow(clippy::mutable_key_type)]

use std::collections::HashMap;

use crate::diagram::{Diagrams, Region};

/// Variables that are 0, and that are 1, in all packets of a region: bits of words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hull {
    zeros: Vec<u64>,
    ones: Vec<u64>,
}

impl Hull {
    /// That of a region. The region without packets has nothing that it shares with others, either.
    pub fn of(diagrams: &Diagrams, region: &Region) -> Hull {
        let words = (diagrams.variables() as usize).div_ceil(64);
        let free = Hull { zeros: vec![0; words], ones: vec![0; words] };
        let found = below(diagrams, region, &free, &mut HashMap::new());
        found.unwrap_or_else(|| Hull { zeros: vec![u64::MAX; words], ones: vec![u64::MAX; words] })
    }

    /// Whether the regions can have no packet in common. `false` says nothing.
    pub fn excludes(&self, other: &Hull) -> bool {
        let clash = |a: &[u64], b: &[u64]| a.iter().zip(b).any(|(a, b)| a & b != 0);
        clash(&self.zeros, &other.ones) || clash(&self.ones, &other.zeros)
    }

    fn both(&self, other: &Hull) -> Hull {
        let and = |a: &[u64], b: &[u64]| a.iter().zip(b).map(|(a, b)| a & b).collect();
        Hull { zeros: and(&self.zeros, &other.zeros), ones: and(&self.ones, &other.ones) }
    }

    fn with(mut self, variable: u32, value: bool) -> Hull {
        let words = if value { &mut self.ones } else { &mut self.zeros };
        if let Some(word) = words.get_mut(variable as usize / 64) {
            *word |= 1 << (variable % 64);
        }
        self
    }
}

/// That of a region; `None` if it has no packets.
fn below(
    diagrams: &Diagrams,
    region: &Region,
    free: &Hull,
    known: &mut HashMap<Region, Option<Hull>>,
) -> Option<Hull> {
    if region.is_none() {
        return None;
    }
    let Some((variable, low, high)) = diagrams.split(region) else { return Some(free.clone()) };
    if let Some(hull) = known.get(region) {
        return hull.clone();
    }
    let low = below(diagrams, &low, free, known);
    let high = below(diagrams, &high, free, known);
    let hull = match (low, high) {
        (Some(low), Some(high)) => Some(low.both(&high)),
        (Some(low), None) => Some(low.with(variable, false)),
        (None, Some(high)) => Some(high.with(variable, true)),
        (None, None) => None,
    };
    known.insert(region.clone(), hull.clone());
    hull
}
