// SPDX-License-Identifier: Apache-2.0

//! `immediate`: a constant or a verdict into a register (`NFTA_IMMEDIATE_*`,
//! `net/netfilter/nft_immediate.c`).

use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

use super::{Expression, Use, Width};
use crate::check::{self, Reason};
use crate::linking::{self, LinkReason, Linking};
use crate::op::Op;
use crate::reference::{Reference, rename_verdict};
use crate::{Data, Family, Register, Verdict};

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

impl fmt::Display for Immediate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.data {
            ImmediateData::Value(data) => write!(f, "immediate {} {data}", self.dreg),
            ImmediateData::Verdict(verdict) => write!(f, "immediate {} {verdict}", self.dreg),
        }
    }
}

impl Expression for Immediate {
    fn name(&self) -> &'static str {
        "immediate"
    }

    fn uses<'a>(&'a self, _: Family, visit: &mut dyn FnMut(Use<'a>)) {
        match &self.data {
            ImmediateData::Value(data) => {
                visit(Use::Write(self.dreg, Width::Bytes(data.bytes().len() as u32)))
            }
            ImmediateData::Verdict(_) => visit(Use::Verdict(self.dreg, None)),
        }
    }

    fn verify(&self) -> Result<(), Reason> {
        match &self.data {
            ImmediateData::Value(data) => check::constant(data),
            ImmediateData::Verdict(_) => Ok(()),
        }
    }

    fn references<'a>(&'a self, visit: &mut dyn FnMut(Reference<'a>)) {
        if let ImmediateData::Verdict(verdict) = &self.data
            && let Some(chain) = verdict.chain()
        {
            visit(Reference::Chain(chain));
        }
    }

    fn rename(&mut self, renamed: &dyn Fn(Reference<'_>) -> Option<Arc<str>>) {
        if let ImmediateData::Verdict(verdict) = &mut self.data {
            rename_verdict(verdict, renamed);
        }
    }

    fn only_matches(&self) -> bool {
        matches!(self.data, ImmediateData::Value(_))
    }

    fn link(&self, linking: &Linking<'_>) -> Result<Op, LinkReason> {
        Ok(match &self.data {
            ImmediateData::Value(value) => {
                let (data, len) = linking::constant(value)?;
                Op::Immediate { dst: linking::slot(self.dreg, len.into())?, len, data }
            }
            ImmediateData::Verdict(verdict) => {
                Op::Verdict(linking::link_verdict(verdict, linking.names)?)
            }
        })
    }
}
