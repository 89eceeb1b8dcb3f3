// SPDX-License-Identifier: Apache-2.0

//! `tunnel`: metadata of a tunnel (`NFTA_TUNNEL_*`, `net/netfilter/nft_tunnel.c`).

use serde::{Deserialize, Serialize};
use std::fmt;

use super::{Use, Width};
use crate::Register;

/// `enum nft_tunnel_keys`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TunnelKey {
    /// Whether there is any, 1 byte.
    Path,
    /// Tunnel id in host order, 4 bytes.
    Id,
}

/// Loads a key; `id` breaks without metadata.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tunnel {
    /// `NFTA_TUNNEL_KEY`.
    pub key: TunnelKey,
    /// `NFTA_TUNNEL_DREG`.
    pub dreg: Register,
}

impl Tunnel {
    pub(super) fn uses(&self, visit: &mut dyn FnMut(Use)) {
        let len = match self.key {
            TunnelKey::Path => 1,
            TunnelKey::Id => 4,
        };
        visit(Use::Write(self.dreg, Width::Bytes(len)));
    }
}

impl fmt::Display for Tunnel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = match self.key {
            TunnelKey::Path => "path",
            TunnelKey::Id => "id",
        };
        write!(f, "tunnel load {key} => {}", self.dreg)
    }
}
