// SPDX-License-Identifier: Apache-2.0

//! `objref`: run a named stateful object (`NFTA_OBJREF_*`, `net/netfilter/nft_objref.c`).

use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

use super::{Use, Width};
use crate::Register;

/// `NFT_OBJECT_*`, numbers as in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[repr(u32)]
#[allow(missing_docs)]
pub enum ObjectType {
    Counter = 1,
    Quota = 2,
    CtHelper = 3,
    Limit = 4,
    Connlimit = 5,
    Tunnel = 6,
    CtTimeout = 7,
    SecMark = 8,
    CtExpect = 9,
    Synproxy = 10,
}

/// Runs an object as the expression of its kind in this place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Objref {
    /// One object.
    Named {
        /// `NFTA_OBJREF_IMM_TYPE`.
        kind: ObjectType,
        /// `NFTA_OBJREF_IMM_NAME`.
        name: Arc<str>,
    },
    /// The object that a map has for the key; breaks if there is none.
    Map {
        /// `NFTA_OBJREF_SET_SREG`.
        sreg: Register,
        /// `NFTA_OBJREF_SET_NAME`.
        set: Arc<str>,
    },
}

impl Objref {
    pub(super) fn uses(&self, visit: &mut dyn FnMut(Use)) {
        match self {
            Objref::Named { .. } => {}
            Objref::Map { sreg, set } => visit(Use::Read(*sreg, Width::Key(set))),
        }
    }
}

impl fmt::Display for Objref {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Objref::Named { kind, name } => write!(f, "objref type {} name {name}", *kind as u32),
            Objref::Map { sreg, set } => write!(f, "objref sreg {} set {set}", sreg.0),
        }
    }
}
