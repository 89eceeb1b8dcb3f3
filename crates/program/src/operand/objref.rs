// SPDX-License-Identifier: Apache-2.0

//! Operands of `objref`: run a named stateful object (`NFTA_OBJREF_*`,
//! `net/netfilter/nft_objref.c`).

use serde::{Deserialize, Serialize};

/// `NFT_OBJECT_*`, numbers as in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[repr(u32)]
#[allow(missing_docs)]
pub enum ObjectType {
    Counter = 1,
    Quota = 2,
    CtHelper = 3,
    Limit = 4,
    Connlimit = 5,
    Tunnel = 6,
    CtTimeout = 7,
    SecMark = 8,
    CtExpect = 9,
    Synproxy = 10,
}
