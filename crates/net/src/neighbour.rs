// SPDX-License-Identifier: Apache-2.0

//! The neighbour table: addresses on a link to link-layer addresses.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};

use penstock_wire::ethernet::Mac;

/// Hash for keys that come from the configuration, not from packets: one multiplication per word.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Quick;

#[derive(Default)]
pub(crate) struct QuickHasher(u64);

impl BuildHasher for Quick {
    type Hasher = QuickHasher;
    fn build_hasher(&self) -> QuickHasher {
        QuickHasher(0)
    }
}

impl Hasher for QuickHasher {
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }
    fn write(&mut self, bytes: &[u8]) {
        for &b in bytes {
            self.write_u64(u64::from(b));
        }
    }
    fn write_u8(&mut self, n: u8) {
        self.write_u64(u64::from(n));
    }
    fn write_u16(&mut self, n: u16) {
        self.write_u64(u64::from(n));
    }
    fn write_u32(&mut self, n: u32) {
        self.write_u64(u64::from(n));
    }
    fn write_u64(&mut self, n: u64) {
        self.0 = (self.0.rotate_left(23) ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    fn write_u128(&mut self, n: u128) {
        self.write_u64(n as u64);
        self.write_u64((n >> 64) as u64);
    }
}

/// Neighbours of one family, by link and address.
#[derive(Clone, Debug, Default)]
pub(crate) struct Neighbours<K> {
    entries: HashMap<(u32, K), Mac, Quick>,
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
