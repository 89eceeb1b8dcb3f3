// SPDX-License-Identifier: Apache-2.0

//! `lookup`: find a register in a set or map (`NFTA_LOOKUP_*`, `net/netfilter/nft_lookup.c`).

use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

use super::{Expression, SetAccess, Use, Width};
use crate::check::{self, Reason};
use crate::linked::LinkedElements;
use crate::linking::{self, LinkReason, Linking};
use crate::op::{Load, Op};
use crate::reference::{Reference, replace};
use crate::{Family, Register};

/// Breaks unless the set holds the key (or holds it, if `inverse`); loads what a map has for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lookup {
    /// `NFTA_LOOKUP_SET`.
    pub set: Arc<str>,
    /// `NFTA_LOOKUP_SREG`: the key, as long as the set's keys.
    pub sreg: Register,
    /// `NFTA_LOOKUP_DREG`: a map's data goes here; the verdict register for verdict maps.
    pub dreg: Option<Register>,
    /// `NFT_LOOKUP_F_INV`.
    pub inverse: bool,
}

impl fmt::Display for Lookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lookup {} set {}", self.sreg, self.set)?;
        if let Some(dreg) = self.dreg {
            write!(f, " dreg {}", dreg.0)?;
        }
        if self.inverse {
            f.write_str(" 0x1")?;
        }
        Ok(())
    }
}

impl Expression for Lookup {
    fn name(&self) -> &'static str {
        "lookup"
    }

    fn uses<'a>(&'a self, _: Family, visit: &mut dyn FnMut(Use<'a>)) {
        visit(Use::Read(self.sreg, Width::Key(&self.set)));
        match self.dreg {
            Some(Register::VERDICT) => visit(Use::Verdict(Register::VERDICT, Some(&self.set))),
            Some(dreg) => visit(Use::Write(dreg, Width::Value(&self.set))),
            None => {}
        }
    }

    fn verify(&self) -> Result<(), Reason> {
        check::refuse(
            self.inverse && self.dreg.is_some(),
            Reason::Operand("a lookup that fails to find has nothing to load"),
        )
    }

    fn references<'a>(&'a self, visit: &mut dyn FnMut(Reference<'a>)) {
        visit(Reference::Set(&self.set));
    }

    fn rename(&mut self, renamed: &dyn Fn(Reference<'_>) -> Option<Arc<str>>) {
        replace(&mut self.set, |set| renamed(Reference::Set(set)));
    }

    fn set_access(&self) -> Option<SetAccess<'_>> {
        Some(SetAccess::Lookup(self))
    }

    fn only_matches(&self) -> bool {
        // What a verdict map holds would decide.
        self.dreg != Some(Register::VERDICT)
    }

    fn link(&self, linking: &Linking<'_>) -> Result<Op, LinkReason> {
        let set = linking.names.set(&self.set)?;
        let load = match self.dreg {
            None => Load::Nothing,
            Some(Register::VERDICT) => Load::Verdict,
            Some(dreg) => {
                let none = LinkReason::Malformed("the set holds no values");
                let len = set.value_len.ok_or(none)?;
                Load::Bytes { dst: linking::slot(dreg, len)?, len: linking::narrow(len)? }
            }
        };
        let (src, key_len) =
            (linking::slot(self.sreg, set.key_len)?, linking::narrow(set.key_len)?);
        let inverse = self.inverse;
        Ok(match set.elements {
            LinkedElements::Fixed(set) => Op::Lookup { src, key_len, inverse, load, set },
            LinkedElements::Dynamic { set, .. } => {
                Op::LookupDynamic { src, key_len, inverse, load, set }
            }
        })
    }
}
