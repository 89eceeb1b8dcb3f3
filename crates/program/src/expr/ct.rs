// SPDX-License-Identifier: Apache-2.0

//! `ct`: the packet's connection (`NFTA_CT_*`, `net/netfilter/nft_ct.c`).

use serde::{Deserialize, Serialize};
use std::fmt;

use super::{Expression, Use, Width, tracks_connections};
use crate::linking::{self, LinkReason, Linking};
use crate::needs::Needs;
use crate::op::Op;
use crate::operand::{CtDir, CtKey};
use crate::{Errno, Family, Register};

/// Loads a key; breaks without a connection, `state` excepted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ct {
    /// `NFTA_CT_KEY`.
    pub key: CtKey,
    /// `NFTA_CT_DIRECTION`.
    pub dir: Option<CtDir>,
    /// `NFTA_CT_DREG`.
    pub dreg: Register,
}

impl fmt::Display for Ct {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ct load {} => {}", self.key, self.dreg)?;
        if let Some(dir) = self.dir {
            write!(f, " , dir {dir}")?;
        }
        Ok(())
    }
}

impl Expression for Ct {
    fn name(&self) -> &'static str {
        "ct"
    }

    fn uses<'a>(&'a self, family: Family, visit: &mut dyn FnMut(Use<'a>)) {
        visit(Use::Write(self.dreg, Width::Bytes(self.key.width(family))));
    }

    fn available(&self, family: Family) -> Result<(), Errno> {
        // It can only be set.
        if self.key == CtKey::EventMask {
            return Err(Errno::Eopnotsupp);
        }
        if self.dir.is_none() && self.key.needs_direction() {
            return Err(Errno::Einval);
        }
        tracks_connections(family)
    }

    fn needs(&self, family: Family, needs: &mut Needs) {
        needs.track(family);
        needs.ct_key(self.key);
    }

    fn only_matches(&self) -> bool {
        true
    }

    fn link(&self, linking: &Linking<'_>) -> Result<Op, LinkReason> {
        let dst = linking::slot(self.dreg, self.key.width(linking.family))?;
        Ok(match self.key {
            CtKey::State => Op::CtState { dst },
            key => Op::Ct { key, dir: self.dir, dst },
        })
    }
}

/// Sets a key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CtSet {
    /// `NFTA_CT_KEY`: mark, labels, zone, event mask, secmark.
    pub key: CtKey,
    /// `NFTA_CT_DIRECTION`, for zones.
    pub dir: Option<CtDir>,
    /// `NFTA_CT_SREG`.
    pub sreg: Register,
}

impl fmt::Display for CtSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ct set {} with {}", self.key, self.sreg)?;
        if let Some(dir) = self.dir {
            write!(f, " , dir {dir}")?;
        }
        Ok(())
    }
}

impl Expression for CtSet {
    fn name(&self) -> &'static str {
        "ct"
    }

    fn uses<'a>(&'a self, family: Family, visit: &mut dyn FnMut(Use<'a>)) {
        visit(Use::Read(self.sreg, Width::Bytes(self.key.width(family))));
    }

    fn available(&self, family: Family) -> Result<(), Errno> {
        tracks_connections(family)?;
        if self.key.can_be_set() { Ok(()) } else { Err(Errno::Eopnotsupp) }
    }

    fn needs(&self, family: Family, needs: &mut Needs) {
        needs.track(family);
        needs.ct_key(self.key);
    }

    fn only_matches(&self) -> bool {
        false
    }

    fn link(&self, linking: &Linking<'_>) -> Result<Op, LinkReason> {
        let len = self.key.width(linking.family);
        let src = linking::slot(self.sreg, len)?;
        match self.key {
            CtKey::Zone => Ok(Op::CtSetZone { dir: self.dir, src }),
            CtKey::Mark | CtKey::SecMark | CtKey::Labels | CtKey::EventMask => {
                Ok(Op::CtSet { key: self.key, src, len: len as u8 })
            }
            _ => Err(LinkReason::Malformed("a ct key that cannot be set")),
        }
    }
}
