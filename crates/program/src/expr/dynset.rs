// SPDX-License-Identifier: Apache-2.0

//! `dynset`: change a set from the packet path (`NFTA_DYNSET_*`, `net/netfilter/nft_dynset.c`).

use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

use super::{Expr, Use, Width};
use crate::Register;

/// `enum nft_dynset_ops`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum DynsetOp {
    /// Add unless it is there.
    Add,
    /// Add, or renew the timeout.
    Update,
    /// Remove.
    Delete,
}

/// Adds, renews or removes the element with the register's key, then runs the element's statements.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Dynset {
    /// `NFTA_DYNSET_SET_NAME`.
    pub set: Arc<str>,
    /// `NFTA_DYNSET_OP`.
    pub op: DynsetOp,
    /// `NFTA_DYNSET_SREG_KEY`.
    pub sreg_key: Register,
    /// `NFTA_DYNSET_SREG_DATA`, for maps.
    pub sreg_data: Option<Register>,
    /// `NFTA_DYNSET_TIMEOUT`: milliseconds; 0 for the set's default.
    pub timeout: u64,
    /// `NFTA_DYNSET_EXPRESSIONS`: statements that each element gets its own copy of.
    #[serde(deserialize_with = "super::nested::deserialize")]
    pub exprs: Vec<Expr>,
}

impl Dynset {
    pub(super) fn uses(&self, visit: &mut dyn FnMut(Use)) {
        visit(Use::Read(self.sreg_key, Width::Key(&self.set)));
        if let Some(sreg) = self.sreg_data {
            visit(Use::Read(sreg, Width::Value(&self.set)));
        }
    }
}

impl fmt::Display for Dynset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let op = match self.op {
            DynsetOp::Add => "add",
            DynsetOp::Update => "update",
            DynsetOp::Delete => "delete",
        };
        write!(f, "dynset {op} reg_key {} set {}", self.sreg_key.0, self.set)?;
        if let Some(sreg) = self.sreg_data {
            write!(f, " sreg_data {}", sreg.0)?;
        }
        if self.timeout != 0 {
            write!(f, " timeout {}ms", self.timeout)?;
        }
        for expr in &self.exprs {
            write!(f, " expr {expr}")?;
        }
        Ok(())
    }
}
