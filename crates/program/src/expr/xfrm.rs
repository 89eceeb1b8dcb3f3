// SPDX-License-Identifier: Apache-2.0

//! `xfrm`: the packet's IPsec transformation (`NFTA_XFRM_*`, `net/netfilter/nft_xfrm.c`).

use serde::{Deserialize, Serialize};
use std::fmt;

use super::{Use, Width};
use crate::Register;

/// `enum nft_xfrm_keys`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum XfrmKey {
    /// Destination, 4 bytes in network order.
    DaddrIp4,
    /// Destination, 16 bytes in network order.
    DaddrIp6,
    /// Source, 4 bytes in network order.
    SaddrIp4,
    /// Source, 16 bytes in network order.
    SaddrIp6,
    /// Request id, 4 bytes in host order.
    Reqid,
    /// Security parameter index, 4 bytes in network order.
    Spi,
}

/// Loads a property of a transformation; breaks without one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Xfrm {
    /// `NFTA_XFRM_KEY`.
    pub key: XfrmKey,
    /// `NFTA_XFRM_DIR`: `false` in, `true` out.
    pub out: bool,
    /// `NFTA_XFRM_SPNUM`: which one, from 0.
    pub spnum: u32,
    /// `NFTA_XFRM_DREG`.
    pub dreg: Register,
}

impl Xfrm {
    pub(super) fn uses(&self, visit: &mut dyn FnMut(Use)) {
        let len = match self.key {
            XfrmKey::DaddrIp6 | XfrmKey::SaddrIp6 => 16,
            XfrmKey::DaddrIp4 | XfrmKey::SaddrIp4 | XfrmKey::Reqid | XfrmKey::Spi => 4,
        };
        visit(Use::Write(self.dreg, Width::Bytes(len)));
    }
}

impl fmt::Display for Xfrm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = match self.key {
            XfrmKey::DaddrIp4 => "daddr4",
            XfrmKey::DaddrIp6 => "daddr6",
            XfrmKey::SaddrIp4 => "saddr4",
            XfrmKey::SaddrIp6 => "saddr6",
            XfrmKey::Reqid => "reqid",
            XfrmKey::Spi => "spi",
        };
        let dir = if self.out { "out" } else { "in" };
        write!(f, "xfrm load {dir} {} {key} => {}", self.spnum, self.dreg)
    }
}
