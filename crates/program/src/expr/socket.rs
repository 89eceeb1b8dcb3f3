// SPDX-License-Identifier: Apache-2.0

//! `socket`: a local socket for the packet (`NFTA_SOCKET_*`, `net/netfilter/nft_socket.c`).

use serde::{Deserialize, Serialize};
use std::fmt;

use super::{Use, Width};
use crate::Register;

/// `enum nft_socket_keys`. Integers are in host order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SocketKey {
    /// `IP_TRANSPARENT`, 1 byte.
    Transparent,
    /// `SO_MARK`, 4 bytes.
    Mark,
    /// Bound to all addresses, 1 byte.
    Wildcard,
    /// cgroup v2 identifier at a level, 8 bytes.
    Cgroupv2,
}

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

impl Socket {
    pub(super) fn uses(&self, visit: &mut dyn FnMut(Use)) {
        let len = match self.key {
            SocketKey::Transparent | SocketKey::Wildcard => 1,
            SocketKey::Mark => 4,
            SocketKey::Cgroupv2 => 8,
        };
        visit(Use::Write(self.dreg, Width::Bytes(len)));
    }
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
