// SPDX-License-Identifier: Apache-2.0

//! A connection by number.

use penstock_packet::Ct;
use serde::{Deserialize, Serialize};

/// A connection by number, good as long as the serial is the entry's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Ref {
    /// Number of the entry.
    pub entry: u32,
    /// Its serial.
    pub serial: u32,
}

impl From<Ct> for Ref {
    fn from(ct: Ct) -> Self {
        Ref { entry: ct.entry, serial: ct.serial }
    }
}
