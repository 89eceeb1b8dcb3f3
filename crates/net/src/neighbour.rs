// SPDX-License-Identifier: Apache-2.0

//! The neighbour table: addresses on a link to link-layer addresses.

use penstock_wire::ethernet::Mac;
use penstock_wire::quick::QuickMap;

/// Neighbours of one family, by link and address.
#[derive(Clone, Debug, Default)]
pub(crate) struct Neighbours<K> {
    entries: QuickMap<(u32, K), Mac>,
}

impl<K: std::hash::Hash + Eq> Neighbours<K> {
    pub(crate) fn set(&mut self, link: u32, address: K, mac: Mac) -> Option<Mac> {
        self.entries.insert((link, address), mac)
    }

    pub(crate) fn contains(&self, link: u32, address: K) -> bool {
        self.entries.contains_key(&(link, address))
    }

    pub(crate) fn forget_link(&mut self, link: u32) {
        self.entries.retain(|(l, _), _| *l != link);
    }

    #[inline]
    pub(crate) fn find(&self, link: u32, address: K) -> Option<Mac> {
        self.entries.get(&(link, address)).copied()
    }
}
