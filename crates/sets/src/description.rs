// SPDX-License-Identifier: Apache-2.0

//! What is known of a set when it is made: all that the choice of a backend depends on.

use serde::{Deserialize, Serialize};

/// `NFT_SET_POL_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Policy {
    /// Fastest lookup.
    #[default]
    Performance,
    /// Least memory.
    Memory,
}

/// The description of a set (`struct nft_set_desc` and `NFT_SET_*` flags).
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Description {
    /// Key length in bytes, 1 to 64, padding of concatenated fields included.
    pub key_len: usize,
    /// Length of each field of a concatenation in bytes, without padding; empty for plain keys. In
    /// the key, each field starts at a multiple of four.
    pub fields: Vec<u8>,
    /// Elements may be intervals.
    pub interval: bool,
    /// Elements carry a value that lookups ask for.
    pub map: bool,
    /// Elements may expire.
    pub timeout: bool,
    /// Rules may add and remove elements.
    pub dynamic: bool,
    /// Does not change while bound to a rule.
    pub constant: bool,
    /// At most so many elements.
    pub size: Option<u32>,
    /// Speed or memory.
    pub policy: Policy,
}
