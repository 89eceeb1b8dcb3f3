// SPDX-License-Identifier: Apache-2.0

//! `byteorder`: between host and network order (`NFTA_BYTEORDER_*`,
//! `net/netfilter/nft_byteorder.c`).

use serde::{Deserialize, Serialize};
use std::fmt;

use super::{Use, Width};
use crate::Register;

/// `enum nft_byteorder_ops`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ByteorderOp {
    /// Network to host.
    Ntoh,
    /// Host to network.
    Hton,
}

/// Converts each of the numbers in a register.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Byteorder {
    /// `NFTA_BYTEORDER_OP`.
    pub op: ByteorderOp,
    /// `NFTA_BYTEORDER_SREG`.
    pub sreg: Register,
    /// `NFTA_BYTEORDER_DREG`.
    pub dreg: Register,
    /// `NFTA_BYTEORDER_LEN`: bytes in all.
    pub len: u32,
    /// `NFTA_BYTEORDER_SIZE`: bytes of one number: 2, 4 or 8.
    pub size: u32,
}

impl Byteorder {
    pub(super) fn uses(&self, visit: &mut dyn FnMut(Use)) {
        visit(Use::Read(self.sreg, Width::Bytes(self.len)));
        visit(Use::Write(self.dreg, Width::Bytes(self.len)));
    }
}

impl fmt::Display for Byteorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let op = match self.op {
            ByteorderOp::Ntoh => "ntoh",
            ByteorderOp::Hton => "hton",
        };
        write!(f, "byteorder {} = {op}({}, {}, {})", self.dreg, self.sreg, self.size, self.len)
    }
}
