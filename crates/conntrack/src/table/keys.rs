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
    keys: HashMap<Tuple, Vec<u16>>,
    count: usize,
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
        let of_tuple = self.keys.get(&without(tuple));
        of_tuple.and_then(|keys| keys.first().copied()).unwrap_or(0)
    }

    /// Enters a tuple with its source identifier, if there is room. The one that was entered first
    /// is found.
    fn add(&mut self, tuple: &Tuple) {
        if self.count < MOST {
            self.count += 1;
            self.keys.entry(without(tuple)).or_default().push(tuple.src_id);
        }
    }

    /// Removes a tuple.
    fn remove(&mut self, tuple: &Tuple) {
        let key = without(tuple);
        if let Some(keys) = self.keys.get_mut(&key)
            && let Some(at) = keys.iter().position(|id| *id == tuple.src_id)
        {
            keys.remove(at);
            self.count -= 1;
            if keys.is_empty() {
                self.keys.remove(&key);
            }
        }
    }
}

/// A tuple without its source identifier.
fn without(tuple: &Tuple) -> Tuple {
    Tuple { src_id: 0, zone: 0, ..*tuple }
}

impl Conntrack {
    /// The source identifier entered for a tuple without one; 0 if there is none.
    #[inline(always)]
    pub(crate) fn source_key(&self, tuple: &Tuple) -> u16 {
        self.keys.find(tuple)
    }

    /// Lets packets of a tuple find their source identifier as long as connection `n` lives. `false`
    /// if it has entered another tuple for this direction.
    pub(crate) fn enter_keys(&mut self, n: u32, direction: Direction, tuple: Tuple) -> bool {
        let keyed = self.extra_mut(n).keyed.get_or_insert_default();
        match &mut keyed[direction as usize] {
            Some(before) => without(before) == without(&tuple),
            none => {
                *none = Some(tuple);
                self.keys.add(&tuple);
                true
            }
        }
    }

    /// Removes the tuples that connection `n` entered.
    pub(crate) fn forget_keys(&mut self, n: u32) {
        self.remove_keys(n);
        if self.extra(n).is_some_and(|x| x.keyed.is_some()) {
            self.extra_mut(n).keyed = None;
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
