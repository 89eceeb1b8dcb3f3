// SPDX-License-Identifier: Apache-2.0

//! Operands of `fib`: ask the routing table (`NFTA_FIB_*`, `net/netfilter/nft_fib.c`).

use serde::{Deserialize, Serialize};

/// `enum nft_fib_result`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum FibResult {
    /// Interface index in host order, 4 bytes; 0 without a route.
    Oif,
    /// Interface name, 16 bytes; zeros without a route.
    OifName,
    /// `RTN_*` in host order, 4 bytes.
    AddrType,
}

/// `NFTA_FIB_F_SADDR`.
pub const FIB_SADDR: u32 = 1;

/// `NFTA_FIB_F_DADDR`.
pub const FIB_DADDR: u32 = 2;

/// `NFTA_FIB_F_MARK`.
pub const FIB_MARK: u32 = 4;

/// `NFTA_FIB_F_IIF`.
pub const FIB_IIF: u32 = 8;

/// `NFTA_FIB_F_OIF`.
pub const FIB_OIF: u32 = 16;

/// `NFTA_FIB_F_PRESENT`: load 1 or 0 for a route or none, 1 byte.
pub const FIB_PRESENT: u32 = 32;
