// SPDX-License-Identifier: Apache-2.0

//! `immediate`: a constant or a verdict into a register (`NFTA_IMMEDIATE_*`,
//! `net/netfilter/nft_immediate.c`).

use serde::{Deserialize, Serialize};
use std::fmt;

use super::{Use, Width};
use crate::{Data, Register, Verdict};

/// `NFTA_IMMEDIATE_DATA`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ImmediateData {
    /// 1 to 16 bytes as they lie in registers.
    Value(Data),
    /// A verdict, for the verdict register only.
    Verdict(Verdict),
}

/// Loads a constant, or decides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Immediate {
    /// `NFTA_IMMEDIATE_DREG`.
    pub dreg: Register,
    /// `NFTA_IMMEDIATE_DATA`.
    pub data: ImmediateData,
}

impl Immediate {
    pub(super) fn uses(&self, visit: &mut dyn FnMut(Use)) {
        match &self.data {
            ImmediateData::Value(data) => {
                visit(Use::Write(self.dreg, Width::Bytes(data.bytes().len() as u32)))
            }
            ImmediateData::Verdict(_) => visit(Use::Verdict(self.dreg)),
        }
    }
}

impl fmt::Display for Immediate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.data {
            ImmediateData::Value(data) => write!(f, "immediate {} {data}", self.dreg),
            ImmediateData::Verdict(verdict) => write!(f, "immediate {} {verdict}", self.dreg),
        }
    }
}
