// SPDX-License-Identifier: Apache-2.0

//! `inner`: match inside a tunnel (`NFTA_INNER_*`, `net/netfilter/nft_inner.c`).

use serde::{Deserialize, Serialize};
use std::fmt;

use super::{Expr, Use};

/// `NFT_INNER_GENEVE` of [`Inner::kind`]: options follow the header.
pub const INNER_GENEVE: u32 = 2;
/// `NFT_INNER_HDRSIZE` of [`Inner::flags`]: the tunnel has a header of its own, of that size.
pub const INNER_HDRSIZE: u32 = 1;
/// `NFT_INNER_LL` of [`Inner::flags`]: it carries frames.
pub const INNER_LINK: u32 = 2;
/// `NFT_INNER_NH` of [`Inner::flags`]: there is a network header.
pub const INNER_NETWORK: u32 = 4;
/// `NFT_INNER_TH` of [`Inner::flags`]: there is a transport header.
pub const INNER_TRANSPORT: u32 = 8;
/// Largest header of a tunnel in bytes that the kernel takes.
pub const INNER_HDRSIZE_MAX: u32 = 64;

/// Runs a payload or meta load on the packet that a tunnel carries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Inner {
    /// `NFTA_INNER_TYPE`: `NFT_INNER_*`: 1 VXLAN, 2 Geneve; the kernel only keeps others, up to
    /// 255.
    pub kind: u32,
    /// `NFTA_INNER_HDRSIZE`: bytes of the tunnel's header.
    pub hdrsize: u32,
    /// `NFTA_INNER_FLAGS`: headers that there are: 1 tunnel, 2 link, 4 network, 8 transport.
    pub flags: u32,
    /// `NFTA_INNER_EXPR`.
    #[serde(deserialize_with = "super::nested::deserialize")]
    pub expr: Box<Expr>,
}

impl Inner {
    pub(super) fn uses(&self, nfproto: u8, visit: &mut dyn FnMut(Use)) {
        self.expr.uses(nfproto, visit);
    }
}

impl fmt::Display for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "inner type {} hdrsize {} flags {:x} {}",
            self.kind, self.hdrsize, self.flags, self.expr
        )
    }
}
