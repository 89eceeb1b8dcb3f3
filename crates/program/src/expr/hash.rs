// SPDX-License-Identifier: Apache-2.0

//! `hash`: hashes of a register or of the packet's flow (`NFTA_HASH_*`,
//! `net/netfilter/nft_hash.c`).

use serde::{Deserialize, Serialize};
use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::{BuildHasher, Hasher};

use super::{Expression, Use, Width};
use crate::check::{self, BYTE, Reason};
use crate::linking::{self, LinkReason, Linking};
use crate::op::Op;
use crate::{Family, Register, State};

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

impl Expression for Hash {
    fn name(&self) -> &'static str {
        "hash"
    }

    fn uses<'a>(&'a self, _: Family, visit: &mut dyn FnMut(Use<'a>)) {
        match self {
            Hash::Jenkins { sreg, len, dreg, .. } => {
                visit(Use::Read(*sreg, Width::Bytes(*len)));
                visit(Use::Write(*dreg, Width::Bytes(4)));
            }
            Hash::Sym { dreg, .. } => visit(Use::Write(*dreg, Width::Bytes(4))),
        }
    }

    fn verify(&self) -> Result<(), Reason> {
        let (modulus, offset) = match self {
            Hash::Jenkins { modulus, offset, len, .. } => {
                check::refuse(*len == 0 || *len > BYTE, Reason::TooLarge)?;
                (*modulus, *offset)
            }
            Hash::Sym { modulus, offset, .. } => (*modulus, *offset),
        };
        check::refuse(modulus < 1, Reason::TooLarge)?;
        check::refuse(offset.checked_add(modulus - 1).is_none(), Reason::Overflow)
    }

    fn only_matches(&self) -> bool {
        true
    }

    fn is_stateful(&self) -> bool {
        // The seed, if it names none.
        matches!(self, Hash::Jenkins { seed: None, .. })
    }

    fn new_state(&self, _: u64) -> Option<State> {
        let random = || RandomState::new().build_hasher().finish() as u32;
        self.is_stateful().then(|| State::HashSeed(random()))
    }

    fn link(&self, linking: &Linking<'_>) -> Result<Op, LinkReason> {
        Ok(match self {
            Hash::Jenkins { sreg, len, seed, modulus, offset, dreg } => {
                let seed = match (seed, linking.state.map(|state| &**state)) {
                    (Some(seed), _) | (None, Some(State::HashSeed(seed))) => *seed,
                    (None, _) => return Err(linking::NO_STATE),
                };
                let (src, dst) = (linking::slot(*sreg, *len)?, linking::slot(*dreg, 4)?);
                let (len, modulus, offset) = (linking::narrow(*len)?, *modulus, *offset);
                Op::Jhash { src, len, dst, seed, modulus, offset }
            }
            Hash::Sym { modulus, offset, dreg } => {
                Op::Symhash { dst: linking::slot(*dreg, 4)?, modulus: *modulus, offset: *offset }
            }
        })
    }
}
