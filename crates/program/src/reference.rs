// SPDX-License-Identifier: Apache-2.0

//! What expressions refer to by name.

use std::sync::Arc;

use crate::Verdict;
use crate::operand::ObjectType;

/// A name in an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reference<'a> {
    /// Target of a jump or goto.
    Chain(&'a Arc<str>),
    /// Set or map looked up or updated.
    Set(&'a Arc<str>),
    /// Object of a type.
    Object(ObjectType, &'a Arc<str>),
    /// Flowtable.
    Flowtable(&'a Arc<str>),
}

/// Gives the chain of a verdict the new name that `renamed` has for it.
pub fn rename_verdict(verdict: &mut Verdict, renamed: &dyn Fn(Reference<'_>) -> Option<Arc<str>>) {
    if let Verdict::Jump(chain) | Verdict::Goto(chain) = verdict {
        replace(chain, |chain| renamed(Reference::Chain(chain)));
    }
}

/// Replaces a name where there is a new one.
pub(crate) fn replace(name: &mut Arc<str>, new: impl FnOnce(&Arc<str>) -> Option<Arc<str>>) {
    if let Some(new) = new(name) {
        *name = new;
    }
}
