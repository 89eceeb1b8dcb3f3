// SPDX-License-Identifier: Apache-2.0

//! `tunnel`: metadata of a tunnel (`NFTA_TUNNEL_*`, `net/netfilter/nft_tunnel.c`).

use serde::{Deserialize, Serialize};
use std::fmt;

use super::{Expression, Use, Width};
use crate::linking::{self, LinkReason, Linking};
use crate::op::Op;
use crate::operand::TunnelKey;
use crate::{Family, Register};

/// Loads a key; `id` breaks without metadata.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tunnel {
    /// `NFTA_TUNNEL_KEY`.
    pub key: TunnelKey,
    /// `NFTA_TUNNEL_DREG`.
    pub dreg: Register,
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

impl Expression for Tunnel {
    fn name(&self) -> &'static str {
        "tunnel"
    }

    fn uses<'a>(&'a self, _: Family, visit: &mut dyn FnMut(Use<'a>)) {
        visit(Use::Write(self.dreg, Width::Bytes(self.key.width())));
    }

    fn only_matches(&self) -> bool {
        true
    }

    fn link(&self, _: &Linking<'_>) -> Result<Op, LinkReason> {
        Ok(Op::Tunnel { key: self.key, dst: linking::slot(self.dreg, self.key.width())? })
    }
}
