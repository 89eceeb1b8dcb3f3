// SPDX-License-Identifier: Apache-2.0

//! `dynset`: change a set from the packet path (`NFTA_DYNSET_*`, `net/netfilter/nft_dynset.c`).

use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

use super::{Expr, Expression, SetAccess, Use, Width, set_statements};
use crate::check::{self, Reason};
use crate::linked::{LinkedElements, LinkedSet};
use crate::linking::{self, LinkReason, Linking, Unsupported};
use crate::needs::Needs;
use crate::op::{Op, SetUpdate};
use crate::operand::DynsetOp;
use crate::reference::{Reference, replace};
use crate::{Family, Register};

/// Adds, renews or removes the element with the register's key, then runs the element's statements.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "Saved", into = "Saved")]
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
    /// `NFT_DYNSET_F_INV`: breaks where there is an element now, or else continues.
    pub invert: bool,
    /// `NFTA_DYNSET_EXPRESSIONS`: statements that each element gets its own copy of.
    pub exprs: Vec<Expr>,
}

/// As it is kept in files: inverted updates are operations of their own, which older files do not
/// have.
#[derive(Serialize, Deserialize)]
struct Saved {
    set: Arc<str>,
    op: SavedOp,
    sreg_key: Register,
    sreg_data: Option<Register>,
    timeout: u64,
    #[serde(deserialize_with = "super::nested::deserialize")]
    exprs: Vec<Expr>,
}

#[derive(Serialize, Deserialize)]
enum SavedOp {
    Add,
    Update,
    Delete,
    InvertedAdd,
    InvertedUpdate,
    InvertedDelete,
}

impl SavedOp {
    fn of(op: DynsetOp, invert: bool) -> Self {
        match (op, invert) {
            (DynsetOp::Add, false) => SavedOp::Add,
            (DynsetOp::Update, false) => SavedOp::Update,
            (DynsetOp::Delete, false) => SavedOp::Delete,
            (DynsetOp::Add, true) => SavedOp::InvertedAdd,
            (DynsetOp::Update, true) => SavedOp::InvertedUpdate,
            (DynsetOp::Delete, true) => SavedOp::InvertedDelete,
        }
    }

    fn parts(&self) -> (DynsetOp, bool) {
        match self {
            SavedOp::Add => (DynsetOp::Add, false),
            SavedOp::Update => (DynsetOp::Update, false),
            SavedOp::Delete => (DynsetOp::Delete, false),
            SavedOp::InvertedAdd => (DynsetOp::Add, true),
            SavedOp::InvertedUpdate => (DynsetOp::Update, true),
            SavedOp::InvertedDelete => (DynsetOp::Delete, true),
        }
    }
}

impl From<Saved> for Dynset {
    fn from(saved: Saved) -> Self {
        let Saved { set, op, sreg_key, sreg_data, timeout, exprs } = saved;
        let (op, invert) = op.parts();
        Dynset { set, op, sreg_key, sreg_data, timeout, invert, exprs }
    }
}

impl From<Dynset> for Saved {
    fn from(dynset: Dynset) -> Self {
        let Dynset { set, op, sreg_key, sreg_data, timeout, invert, exprs } = dynset;
        Saved { set, op: SavedOp::of(op, invert), sreg_key, sreg_data, timeout, exprs }
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
        if self.invert {
            write!(f, " inverted")?;
        }
        for expr in &self.exprs {
            write!(f, " expr {expr}")?;
        }
        Ok(())
    }
}

impl Expression for Dynset {
    fn name(&self) -> &'static str {
        "dynset"
    }

    fn uses<'a>(&'a self, _: Family, visit: &mut dyn FnMut(Use<'a>)) {
        visit(Use::Read(self.sreg_key, Width::Key(&self.set)));
        if let Some(sreg) = self.sreg_data {
            visit(Use::Read(sreg, Width::Value(&self.set)));
        }
    }

    fn verify(&self) -> Result<(), Reason> {
        self.exprs.iter().try_for_each(|statement| {
            check::refuse(statement.as_statement().is_none(), Reason::Misplaced)?;
            statement.verify()
        })
    }

    fn needs(&self, family: Family, needs: &mut Needs) {
        self.exprs.iter().for_each(|statement| statement.needs(family, needs));
    }

    fn references<'a>(&'a self, visit: &mut dyn FnMut(Reference<'a>)) {
        visit(Reference::Set(&self.set));
        self.exprs.iter().for_each(|statement| statement.references(visit));
    }

    fn rename(&mut self, renamed: &dyn Fn(Reference<'_>) -> Option<Arc<str>>) {
        replace(&mut self.set, |set| renamed(Reference::Set(set)));
        self.exprs.iter_mut().for_each(|statement| statement.rename(renamed));
    }

    fn set_access(&self) -> Option<SetAccess<'_>> {
        Some(SetAccess::Update(self))
    }

    fn runnable(&self) -> Result<(), &'static str> {
        self.exprs.iter().try_for_each(Expr::runnable)
    }

    fn only_matches(&self) -> bool {
        false
    }

    fn link(&self, linking: &Linking<'_>) -> Result<Op, LinkReason> {
        let LinkedSet { elements, key_len, value_len } = linking.names.set(&self.set)?;
        let LinkedElements::Dynamic { set, timeout, gc_interval } = elements else {
            let reason = "maps of verdicts and objects cannot be changed from the packet path";
            return Err(LinkReason::Unsupported(Unsupported { expression: self.name(), reason }));
        };
        let data = match (self.sreg_data, value_len) {
            (Some(sreg), Some(len)) => Some((linking::slot(sreg, len)?, linking::narrow(len)?)),
            (Some(_), None) => return Err(LinkReason::Malformed("the set holds no values")),
            (None, Some(_)) if self.op != DynsetOp::Delete => {
                return Err(LinkReason::Malformed("an element of a map without a value"));
            }
            (None, _) => None,
        };
        let statements = if self.exprs.is_empty() {
            set.default_statements()
        } else {
            set.statements(&set_statements(&self.exprs))
        };
        Ok(Op::SetUpdate(Arc::new(SetUpdate {
            op: self.op,
            key: linking::slot(self.sreg_key, key_len)?,
            key_len: linking::narrow(key_len)?,
            data,
            timeout: if self.timeout != 0 { self.timeout } else { timeout },
            gc_interval,
            invert: self.invert,
            statements,
            set,
        })))
    }
}
