// SPDX-License-Identifier: Apache-2.0

//! `hash`: hashes of a register or of the packet's flow (`NFTA_HASH_*`,
//! `net/netfilter/nft_hash.c`).

use serde::{Deserialize, Serialize};
use std::fmt;

use super::{Use, Width};
use crate::Register;

/// Loads a hash scaled to the modulus, plus offset, in host order, 4 bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Hash {
    /// Jenkins' hash of register bytes.
    Jenkins {
        /// `NFTA_HASH_SREG`.
        sreg: Register,
        /// `NFTA_HASH_LEN`: bytes.
        len: u32,
        /// `NFTA_HASH_SEED`; a random one per rule if absent.
        seed: Option<u32>,
        /// `NFTA_HASH_MODULUS`: not 0.
        modulus: u32,
        /// `NFTA_HASH_OFFSET`.
        offset: u32,
        /// `NFTA_HASH_DREG`.
        dreg: Register,
    },
    /// A hash of addresses, protocol and ports that is the same for both directions of a flow.
    Sym {
        /// `NFTA_HASH_MODULUS`: not 0.
        modulus: u32,
        /// `NFTA_HASH_OFFSET`.
        offset: u32,
        /// `NFTA_HASH_DREG`.
        dreg: Register,
    },
}

impl Hash {
    pub(super) fn uses(&self, visit: &mut dyn FnMut(Use)) {
        match self {
            Hash::Jenkins { sreg, len, dreg, .. } => {
                visit(Use::Read(*sreg, Width::Bytes(*len)));
                visit(Use::Write(*dreg, Width::Bytes(4)));
            }
            Hash::Sym { dreg, .. } => visit(Use::Write(*dreg, Width::Bytes(4))),
        }
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let offset = match self {
            Hash::Jenkins { sreg, len, seed, modulus, offset, dreg } => {
                write!(
                    f,
                    "hash {dreg} = jhash({sreg}, {len}, 0x{:x}) % mod {modulus}",
                    seed.unwrap_or(0)
                )?;
                offset
            }
            Hash::Sym { modulus, offset, dreg } => {
                write!(f, "hash {dreg} = symhash() % mod {modulus}")?;
                offset
            }
        };
        if *offset != 0 {
            write!(f, " offset {offset}")?;
        }
        Ok(())
    }
}
