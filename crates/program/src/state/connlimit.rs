// SPDX-License-Identifier: Apache-2.0

//! Numbers of connections.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::sync::AtomicU64;

/// A number of connections (`struct nf_conncount_list`, of which this is only the length): which
/// count it is in the upper half, so that who leaves does not leave another that took its place.
#[derive(Debug, Default)]
pub struct ConnCountState {
    word: AtomicU64,
}

impl ConnCountState {
    pub(crate) fn word(&self) -> &AtomicU64 {
        &self.word
    }
}

/// The last number that a count got.
static LAST_ID: AtomicU32 = AtomicU32::new(0);

/// One connection more: the number then, and which count it is, which is never 0.
pub(crate) fn join(word: &AtomicU64) -> (u32, u32) {
    let mut new_id = 0;
    let mut seen = word.load(Relaxed);
    loop {
        let mut id = (seen >> 32) as u32;
        if id == 0 {
            while new_id == 0 {
                new_id = LAST_ID.fetch_add(1, Relaxed).wrapping_add(1);
            }
            id = new_id;
        }
        let connections = (seen as u32).saturating_add(1);
        let new = u64::from(id) << 32 | u64::from(connections);
        match word.compare_exchange_weak(seen, new, Relaxed, Relaxed) {
            Ok(_) => return (connections, id),
            Err(now) => seen = now,
        }
    }
}

/// One connection less, if it is still the count that it was.
pub(crate) fn leave(word: &AtomicU64, id: u32) {
    let less = |word: u64| ((word >> 32) as u32 == id && word as u32 != 0).then(|| word - 1);
    // A new count in its place has nothing to release.
    let _ = word.fetch_update(Relaxed, Relaxed, less);
}
