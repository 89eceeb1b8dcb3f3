// SPDX-License-Identifier: Apache-2.0

//! Lookups in sets that packets change, for code that is generated at run time.

use super::dynamic::DynamicSet;

/// How generated code looks a key up in a [`DynamicSet`]: a function that takes the set's address,
/// the key and a time (ns), and gives 1 where there is an element for the key then, else 0.
///
/// It runs no statements of elements: what it says of a key is all there is to a lookup while
/// [`DynamicSet::is_presence_only`].
#[derive(Clone, Copy, Debug)]
pub enum DynamicSearch {
    /// For keys of up to 8 bytes, as numbers of 64 bits, their bytes from the lowest on, zeros
    /// above.
    ///
    /// # Safety
    /// The set is live.
    Number(unsafe extern "C" fn(set: *const DynamicSet, key: u64, now: u64) -> u64),
    /// For longer keys, by their address.
    ///
    /// # Safety
    /// The set is live, and the address is that of as many bytes as the set's keys have.
    Address(unsafe extern "C" fn(set: *const DynamicSet, key: *const u8, now: u64) -> u64),
}

unsafe extern "C" fn by_number(set: *const DynamicSet, key: u64, now: u64) -> u64 {
    // SAFETY: the caller keeps the set alive; all of it may be shared.
    let set = unsafe { &*set };
    set.contains_short(key, now).into()
}

unsafe extern "C" fn by_address(set: *const DynamicSet, key: *const u8, now: u64) -> u64 {
    // SAFETY: as above, and `key` is the address of as many bytes as the set's keys have.
    let (set, key) = unsafe {
        let set = &*set;
        (set, std::slice::from_raw_parts(key, set.key_len()))
    };
    set.contains(key, now).into()
}

impl DynamicSet {
    /// How generated code looks keys up.
    pub fn search(&self) -> DynamicSearch {
        if self.key_len() <= 8 {
            DynamicSearch::Number(by_number)
        } else {
            DynamicSearch::Address(by_address)
        }
    }
}
