// SPDX-License-Identifier: Apache-2.0

//! Source identifiers that packets do not carry: a packet of a PPTP call names only the call id of
//! its receiver; the sender's was told when the call was made (`nf_ct_gre_keymap_add()`).

use super::Conntrack;
use super::entry::NONE;
use crate::{Direction, Tuple};
use std::collections::HashMap;

/// Source identifiers by tuples without them.
#[derive(Debug, Default)]
pub(crate) struct SourceKeys {
    keys: HashMap<Tuple, u16>,
}

/// Tuples at most: two for each connection that enters some.
const MOST: usize = 131_072;

impl SourceKeys {
    /// The source identifier entered for a tuple without one; 0 if there is none.
    #[inline]
    pub fn find(&self, tuple: &Tuple) -> u16 {
        if self.keys.is_empty() {
            return 0;
        }
        self.keys.get(&Tuple { src_id: 0, zone: 0, ..*tuple }).copied().unwrap_or(0)
    }

    /// Enters a tuple with its source identifier, if there is room.
    fn add(&mut self, tuple: &Tuple) {
        let key = Tuple { src_id: 0, zone: 0, ..*tuple };
        if self.keys.len() >= MOST && !self.keys.contains_key(&key) {
            return;
        }
        self.keys.insert(key, tuple.src_id);
    }

    /// Removes a tuple.
    fn remove(&mut self, tuple: &Tuple) {
        self.keys.remove(&Tuple { src_id: 0, zone: 0, ..*tuple });
    }
}

impl Conntrack {
    /// The source identifier entered for a tuple without one; 0 if there is none.
    #[inline(always)]
    pub(crate) fn source_key(&self, tuple: &Tuple) -> u16 {
        self.keys.find(tuple)
    }

    /// Lets packets of a tuple find their source identifier as long as connection `n` lives.
    pub(crate) fn enter_keys(&mut self, n: u32, direction: Direction, tuple: Tuple) {
        self.keys.add(&tuple);
        self.extra_mut(n).keyed.get_or_insert_default()[direction as usize] = Some(tuple);
    }

    /// Removes the tuples that connection `n` entered, and returns them.
    pub(crate) fn forget_keys(&mut self, n: u32) -> [Option<Tuple>; 2] {
        self.remove_keys(n);
        match self.extra(n) {
            Some(x) if x.keyed.is_some() => {
                self.extra_mut(n).keyed.take().map_or([None; 2], |keyed| *keyed)
            }
            _ => [None; 2],
        }
    }

    /// Removes the tuples of a connection that ends: packets no longer find them.
    pub(super) fn remove_keys(&mut self, n: u32) {
        let extra = self.store[n].extra;
        if extra != NONE
            && let Some(keyed) = &self.extras[extra as usize].keyed
        {
            keyed.iter().flatten().for_each(|tuple| self.keys.remove(tuple));
        }
    }
}
