// SPDX-License-Identifier: Apache-2.0

//! Register numbers (`enum nft_registers`).

use serde::{Deserialize, Serialize};
use std::fmt;

/// A register as netlink numbers it: 0 the verdict, 1 to 4 the 16-byte registers, 8 to 23 the
/// 4-byte ones that overlay them (8 to 11 are register 1, and so on).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Register(pub u8);

impl Register {
    /// The verdict register.
    pub const VERDICT: Register = Register(0);

    /// Index of its first 32-bit slot, 0 to 15; `None` for the verdict register and numbers that do
    /// not exist.
    pub fn slot(self) -> Option<usize> {
        match self.0 {
            n @ 1..=4 => Some((usize::from(n) - 1) * 4),
            n @ 8..=23 => Some(usize::from(n) - 8),
            _ => None,
        }
    }

    /// The register for a 32-bit slot, in the 16-byte numbering where the slot starts such a
    /// register.
    pub fn from_slot(slot: usize) -> Register {
        if slot.is_multiple_of(4) {
            Register((slot / 4 + 1) as u8)
        } else {
            Register((slot + 8) as u8)
        }
    }
}

impl fmt::Display for Register {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "reg {}", self.0)
    }
}
