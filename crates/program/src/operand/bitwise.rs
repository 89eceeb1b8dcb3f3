// SPDX-License-Identifier: Apache-2.0

//! Operands of `bitwise`: mask, exclusive-or and shifts (`NFTA_BITWISE_*`,
//! `net/netfilter/nft_bitwise.c`).

use serde::{Deserialize, Serialize};

/// `enum nft_bitwise_ops`: what two registers are combined by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum BoolOp {
    /// `&`
    And,
    /// `|`
    Or,
    /// `^`
    Xor,
}
