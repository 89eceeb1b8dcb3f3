// SPDX-License-Identifier: Apache-2.0

//! Base chains as this engine looks at them.

use penstock_program::image::ChainIndex;
use penstock_program::{ChainType, Family};

/// A base chain to evaluate.
#[derive(Clone, Copy, Debug)]
pub struct Base {
    /// Which.
    pub chain: ChainIndex,
    /// Its type.
    pub kind: ChainType,
    /// Its priority.
    pub priority: i32,
    /// Family of its table: in `inet` places chains of `ip` and `ip6` see packets of their own.
    pub family: Family,
}
