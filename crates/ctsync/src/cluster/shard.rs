// SPDX-License-Identifier: Apache-2.0

//! Which part of the log a record goes to: all that is said of one connection goes to the same one,
//! and stays in order there. Only the sender needs to know.

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::secure::Record;

/// The shard of a record, of so many. Records that are about no connection and no element have
/// shard 0.
pub fn shard_of(record: &Record, shards: usize) -> usize {
    let mut hasher = DefaultHasher::new();
    match record {
        Record::Connection(_, state) => state.original.hash(&mut hasher),
        Record::Expectation(_, state) => state.master.hash(&mut hasher),
        Record::Element(key, _) | Record::NoElement(key) => key.hash(&mut hasher),
        _ => return 0,
    }
    let shards = shards.max(1) as u64;
    (hasher.finish() % shards) as usize
}
