// SPDX-License-Identifier: Apache-2.0

//! `socket`: a local socket for the packet (`NFTA_SOCKET_*`, `net/netfilter/nft_socket.c`).

use serde::{Deserialize, Serialize};
use std::fmt;

use super::{Expression, Use, Width};
use crate::hook::{Hook, Hooks};
use crate::linking::{self, LinkReason, Linking};
use crate::op::Op;
use crate::operand::SocketKey;
use crate::{Errno, Family, Register};

/// Loads a property of the socket; breaks without one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Socket {
    /// `NFTA_SOCKET_KEY`.
    pub key: SocketKey,
    /// `NFTA_SOCKET_LEVEL`, for `cgroupv2`.
    pub level: u32,
    /// `NFTA_SOCKET_DREG`.
    pub dreg: Register,
}

impl fmt::Display for Socket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = match self.key {
            SocketKey::Transparent => "transparent",
            SocketKey::Mark => "mark",
            SocketKey::Wildcard => "wildcard",
            SocketKey::Cgroupv2 => "cgroupv2",
        };
        write!(f, "socket load {key} => {}", self.dreg)
    }
}

impl Expression for Socket {
    fn name(&self) -> &'static str {
        "socket"
    }

    fn uses<'a>(&'a self, _: Family, visit: &mut dyn FnMut(Use<'a>)) {
        visit(Use::Write(self.dreg, Width::Bytes(self.key.width())));
    }

    fn available(&self, family: Family) -> Result<(), Errno> {
        if family.is_ip() { Ok(()) } else { Err(Errno::Eopnotsupp) }
    }

    fn hooks(&self, _: Family) -> Hooks {
        Hooks::of(&[Hook::Prerouting, Hook::Input, Hook::Output])
    }

    fn only_matches(&self) -> bool {
        true
    }

    fn link(&self, _: &Linking<'_>) -> Result<Op, LinkReason> {
        let dst = linking::slot(self.dreg, self.key.width())?;
        Ok(Op::Socket { key: self.key, level: self.level, dst })
    }
}
