// SPDX-License-Identifier: Apache-2.0

//! What a rule or an element refers to by name.

use std::sync::Arc;

use penstock_program::Verdict;
use penstock_program::expr::{Expr, Immediate, ImmediateData, ObjectType, Objref};

use crate::model::{ElementData, ElementValue, MapData};

/// A name in an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reference<'a> {
    /// Target of a jump or goto.
    Chain(&'a Arc<str>),
    /// Set or map looked up or updated.
    Set(&'a Arc<str>),
    /// Object of a type.
    Object(ObjectType, &'a Arc<str>),
    /// Flowtable.
    Flowtable(&'a Arc<str>),
}

/// Calls `f` for each name in the expression.
pub(crate) fn of_expr<'a>(expr: &'a Expr, f: &mut impl FnMut(Reference<'a>)) {
    match expr {
        Expr::Immediate(Immediate { data: ImmediateData::Verdict(verdict), .. }) => {
            if let Some(chain) = verdict.chain() {
                f(Reference::Chain(chain));
            }
        }
        Expr::Lookup(lookup) => f(Reference::Set(&lookup.set)),
        Expr::Dynset(dynset) => {
            f(Reference::Set(&dynset.set));
            dynset.exprs.iter().for_each(|e| of_expr(e, f));
        }
        Expr::Objref(Objref::Named { kind, name }) => f(Reference::Object(*kind, name)),
        Expr::Objref(Objref::Map { set, .. }) => f(Reference::Set(set)),
        Expr::FlowOffload(offload) => f(Reference::Flowtable(&offload.flowtable)),
        Expr::Inner(inner) => of_expr(&inner.expr, f),
        Expr::Immediate(_)
        | Expr::Payload(_)
        | Expr::PayloadSet(_)
        | Expr::Meta(_)
        | Expr::MetaSet(_)
        | Expr::Cmp(_)
        | Expr::Range(_)
        | Expr::Bitwise(_)
        | Expr::Byteorder(_)
        | Expr::Counter(_)
        | Expr::Limit(_)
        | Expr::Quota(_)
        | Expr::Last(_)
        | Expr::Connlimit(_)
        | Expr::Log(_)
        | Expr::Exthdr(_)
        | Expr::ExthdrSet(_)
        | Expr::ExthdrReset(_)
        | Expr::Numgen(_)
        | Expr::Hash(_)
        | Expr::Fib(_)
        | Expr::Rt(_)
        | Expr::Ct(_)
        | Expr::CtSet(_)
        | Expr::Notrack
        | Expr::Nat(_)
        | Expr::Masq(_)
        | Expr::Redir(_)
        | Expr::Reject(_)
        | Expr::Dup(_)
        | Expr::Fwd(_)
        | Expr::Queue(_)
        | Expr::Tproxy(_)
        | Expr::Synproxy(_)
        | Expr::Socket(_)
        | Expr::Osf(_)
        | Expr::Xfrm(_)
        | Expr::Tunnel(_)
        | Expr::Xt(_) => {}
    }
}

/// Gives every chain and set name of the expression that `rename` has a new name for that name.
pub(crate) fn rename(expr: &mut Expr, renamed: &impl Fn(Reference<'_>) -> Option<Arc<str>>) {
    match expr {
        Expr::Immediate(Immediate { data: ImmediateData::Verdict(verdict), .. }) => {
            rename_verdict(verdict, renamed)
        }
        Expr::Lookup(lookup) => replace(&mut lookup.set, |s| renamed(Reference::Set(s))),
        Expr::Dynset(dynset) => {
            replace(&mut dynset.set, |s| renamed(Reference::Set(s)));
            dynset.exprs.iter_mut().for_each(|e| rename(e, renamed));
        }
        Expr::Objref(Objref::Map { set, .. }) => replace(set, |s| renamed(Reference::Set(s))),
        Expr::Inner(inner) => rename(&mut inner.expr, renamed),
        // Nothing else names a chain or a set.
        _ => {}
    }
}

fn replace(name: &mut Arc<str>, new: impl FnOnce(&Arc<str>) -> Option<Arc<str>>) {
    if let Some(new) = new(name) {
        *name = new;
    }
}

/// As [`rename`], for a verdict.
pub(crate) fn rename_verdict(
    verdict: &mut Verdict,
    renamed: &impl Fn(Reference<'_>) -> Option<Arc<str>>,
) {
    if let Verdict::Jump(chain) | Verdict::Goto(chain) = verdict {
        replace(chain, |c| renamed(Reference::Chain(c)));
    }
}

/// Whether elements of such a map refer to something.
pub(crate) fn map_refers(data: Option<MapData>) -> bool {
    matches!(data, Some(MapData::Verdict | MapData::Object(_)))
}

/// What an element of a map of this kind refers to.
pub(crate) fn of_element(data: Option<MapData>, value: &ElementValue) -> Option<Reference<'_>> {
    match (data, value.data.as_ref()?) {
        (_, ElementData::Verdict(verdict)) => verdict.chain().map(Reference::Chain),
        (Some(MapData::Object(kind)), ElementData::Object(name)) => {
            Some(Reference::Object(kind, name))
        }
        (_, ElementData::Object(_) | ElementData::Value(_)) => None,
    }
}
