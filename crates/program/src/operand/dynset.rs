// SPDX-License-Identifier: Apache-2.0

//! Operands of `dynset`: change a set from the packet path (`NFTA_DYNSET_*`,
//! `net/netfilter/nft_dynset.c`).

use serde::{Deserialize, Serialize};

/// `enum nft_dynset_ops`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum DynsetOp {
    /// Add unless it is there.
    Add,
    /// Add, or renew the timeout.
    Update,
    /// Remove.
    Delete,
}
