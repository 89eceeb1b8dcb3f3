//! `inner`: match inside a tunnel (`NFTA_INNER_*`, `net/netfilter/nft_inner.c`).

use std::fmt;

use super::{Expr, Use};

/// Runs a payload or meta load on the packet that a tunnel carries.
#[derive(Clone, Debug, PartialEq)]
pub struct Inner {
    /// `NFTA_INNER_TYPE`: `NFT_INNER_*`: 1 VXLAN, 2 Geneve, 0 others.
    pub kind: u32,
    /// `NFTA_INNER_HDRSIZE`: bytes of the tunnel's header.
    pub hdrsize: u32,
    /// `NFTA_INNER_FLAGS`: headers that there are: 1 tunnel, 2 link, 4 network, 8 transport.
    pub flags: u32,
    /// `NFTA_INNER_EXPR`.
    pub expr: Box<Expr>,
}

impl Inner {
    pub(super) fn uses(&self, nfproto: u8, visit: &mut dyn FnMut(Use)) {
        self.expr.uses(nfproto, visit);
    }
}

impl fmt::Display for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "inner type {} hdrsize {} flags {:x} {}", self.kind, self.hdrsize, self.flags, self.expr)
    }
}
