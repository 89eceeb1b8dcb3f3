// SPDX-License-Identifier: Apache-2.0

//! `objref`: run a named stateful object (`NFTA_OBJREF_*`, `net/netfilter/nft_objref.c`).

use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

use super::{Expression, SetAccess, Use, Width};
use crate::hook::{Hook, Hooks};
use crate::linked::{LinkedElements, LinkedSet, Stateful};
use crate::linking::{self, LinkReason, Linking, NO_TUNNEL};
use crate::op::Op;
use crate::operand::ObjectType;
use crate::reference::{Reference, replace};
use crate::{Family, Register};

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

impl fmt::Display for Objref {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Objref::Named { kind, name } => write!(f, "objref type {} name {name}", *kind as u32),
            Objref::Map { sreg, set } => write!(f, "objref sreg {} set {set}", sreg.0),
        }
    }
}

impl Expression for Objref {
    fn name(&self) -> &'static str {
        "objref"
    }

    fn uses<'a>(&'a self, _: Family, visit: &mut dyn FnMut(Use<'a>)) {
        match self {
            Objref::Named { .. } => {}
            Objref::Map { sreg, set } => visit(Use::Read(*sreg, Width::Key(set))),
        }
    }

    fn hooks(&self, family: Family) -> Hooks {
        match self {
            Objref::Named { kind: ObjectType::Synproxy, .. } if family.is_ip() => {
                Hooks::of(&[Hook::Input, Hook::Forward])
            }
            Objref::Named { kind: ObjectType::Synproxy, .. } => Hooks::NONE,
            Objref::Named { .. } | Objref::Map { .. } => Hooks::ANY,
        }
    }

    fn references<'a>(&'a self, visit: &mut dyn FnMut(Reference<'a>)) {
        match self {
            Objref::Named { kind, name } => visit(Reference::Object(*kind, name)),
            Objref::Map { set, .. } => visit(Reference::Set(set)),
        }
    }

    fn rename(&mut self, renamed: &dyn Fn(Reference<'_>) -> Option<Arc<str>>) {
        if let Objref::Map { set, .. } = self {
            replace(set, |set| renamed(Reference::Set(set)));
        }
    }

    fn set_access(&self) -> Option<SetAccess<'_>> {
        match self {
            Objref::Named { .. } => None,
            Objref::Map { sreg, set } => Some(SetAccess::Objects { sreg: *sreg, set }),
        }
    }

    fn runnable(&self) -> Result<(), &'static str> {
        match self {
            Objref::Named { kind: ObjectType::Tunnel, .. } => Err(NO_TUNNEL),
            Objref::Named { .. } | Objref::Map { .. } => Ok(()),
        }
    }

    fn only_matches(&self) -> bool {
        false
    }

    fn link(&self, linking: &Linking<'_>) -> Result<Op, LinkReason> {
        match self {
            Objref::Map { sreg, set: name } => {
                let LinkedSet { elements, key_len, .. } = linking.names.set(name)?;
                let LinkedElements::Fixed(set) = elements else {
                    return Err(LinkReason::Malformed("the map holds no objects"));
                };
                let src = linking::slot(*sreg, key_len)?;
                Ok(Op::ObjectMap { src, key_len: linking::narrow(key_len)?, set })
            }
            Objref::Named { kind, name } => match linking.names.object(*kind, name) {
                Some(Stateful::Counter(state)) => Ok(Op::Counter(state.clone())),
                Some(object) => Ok(Op::Stateful(Arc::new(object.clone()))),
                None => Err(LinkReason::Unknown { what: "object", name: name.clone() }),
            },
        }
    }
}
