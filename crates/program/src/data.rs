// SPDX-License-Identifier: Apache-2.0

//! Constants in programs and set elements.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Up to 64 bytes as they lie in registers: packet fields in network order, host integers in host
/// order, concatenations padded to 4 bytes per field.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct Data(Box<[u8]>);

impl Data {
    /// From bytes as they lie in registers.
    pub fn new(bytes: &[u8]) -> Self {
        Data(bytes.into())
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl From<Vec<u8>> for Data {
    fn from(bytes: Vec<u8>) -> Self {
        Data(bytes.into())
    }
}

impl fmt::Debug for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// 32-bit words as nft's debug output shows them: `0x0000bb01` for the bytes `01 bb`, words
/// separated by a blank.
impl fmt::Display for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, word) in self.0.chunks(4).enumerate() {
            let mut w = [0; 4];
            w[..word.len()].copy_from_slice(word);
            let gap = if i > 0 { " " } else { "" };
            write!(f, "{gap}{:#010x}", u32::from_le_bytes(w))?;
        }
        Ok(())
    }
}
