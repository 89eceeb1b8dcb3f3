// SPDX-License-Identifier: Apache-2.0

//! VM expressions as attributes, both ways.
//!
//! The attributes of an expression stand in one place: a line in [`attributes!`](form) for those
//! that are plain structures, and a [`Codec`] for the others. What is written is what the kernel
//! sends (`ops->dump`), in its order.
//!
//! | file | expressions |
//! | --- | --- |
//! | `load` | that fill registers from the packet and around it |
//! | `compute` | on registers: constants, comparisons, arithmetic |
//! | `sets` | on sets and objects |
//! | `stateful` | with state of their own |
//! | `action` | statements about the packet and its connection |

mod action;
mod compute;
mod data;
mod form;
mod load;
mod number;
mod sets;
mod stateful;

use std::collections::HashMap;
use std::sync::Arc;

use penstock_program::expr::{self, Expr};
use penstock_ruleset::Errno;

pub use data::{Data, read_data, write_value, write_verdict};
pub use number::Numbered;

use crate::message::{Attribute, Attributes, Check, Failure, Policy, Writer};
use crate::uapi::nf_tables::*;

/// Names of what a batch has made, by the numbers that the batch gave them: `NFTA_SET_ID` and
/// `NFTA_CHAIN_ID`.
#[derive(Clone, Debug, Default)]
pub struct Ids {
    /// Sets, by their final names.
    pub sets: HashMap<u32, Arc<str>>,
    /// Chains, by their final names.
    pub chains: HashMap<u32, Arc<str>>,
}

impl Ids {
    /// The set that an expression means: the one of a name, unless the batch has made one without a
    /// final name under a number (`nft_set_lookup_global()`).
    pub fn set(&self, name: Attribute<'_>, id: Option<Attribute<'_>>) -> Result<Arc<str>, Failure> {
        let name = name.text()?;
        // A name such as `__set%d` is none yet.
        let by_id = id.filter(|_| name.contains('%')).and_then(|id| self.sets.get(&id.be32()));
        Ok(by_id.cloned().unwrap_or_else(|| name.into()))
    }
}

/// An expression's attributes (`NFTA_EXPR_DATA`), both ways.
pub trait Codec: Sized {
    /// What they have to look like.
    const POLICY: Policy;

    /// The expression.
    ///
    /// # Errors
    /// The kernel's (`ops->init`).
    fn read(attributes: &Attributes<'_>, ids: &Ids) -> Result<Self, Failure>;

    /// Appends the attributes.
    fn write(&self, to: &mut Writer);
}

const EXPR_POLICY: Policy =
    &[(NFTA_EXPR_NAME, Check::String(128)), (NFTA_EXPR_DATA, Check::Nested)];

fn one<T: Codec>(
    data: Option<Attribute<'_>>,
    ids: &Ids,
    make: impl FnOnce(T) -> Expr,
) -> Result<Expr, Failure> {
    let attributes = match data {
        Some(data) => data.attributes(T::POLICY)?,
        None => crate::message::parse(&[], 0, T::POLICY)?,
    };
    Ok(make(T::read(&attributes, ids)?))
}

/// Whether an expression's data have an attribute: some expressions are two here and one in the
/// kernel.
fn has(data: Option<Attribute<'_>>, kind: u16) -> bool {
    data.is_some_and(|data| data.each().any(|a| a.kind == kind))
}

/// An expression out of its name and data.
///
/// # Errors
/// `ENOENT` for a name that no expression has; what is wrong with the attributes.
pub fn read(expr: Attribute<'_>, ids: &Ids) -> Result<Expr, Failure> {
    let attributes = expr.attributes(EXPR_POLICY)?;
    let name = attributes.need(NFTA_EXPR_NAME)?.text()?;
    let data = attributes.get(NFTA_EXPR_DATA);
    match name {
        "bitwise" => one(data, ids, Expr::Bitwise),
        "byteorder" => one(data, ids, Expr::Byteorder),
        "cmp" => one(data, ids, Expr::Cmp),
        "connlimit" => one(data, ids, Expr::Connlimit),
        "counter" => one(data, ids, Expr::Counter),
        "ct" if has(data, NFTA_CT_SREG) => one(data, ids, Expr::CtSet),
        "ct" => one(data, ids, Expr::Ct),
        "dup" => one(data, ids, Expr::Dup),
        "dynset" => one(data, ids, Expr::Dynset),
        "exthdr" if has(data, NFTA_EXTHDR_SREG) => one(data, ids, Expr::ExthdrSet),
        "exthdr" if has(data, NFTA_EXTHDR_DREG) => one(data, ids, Expr::Exthdr),
        "exthdr" => one(data, ids, Expr::ExthdrReset),
        "fib" => one(data, ids, Expr::Fib),
        "flow_offload" => one(data, ids, Expr::FlowOffload),
        "fwd" => one(data, ids, Expr::Fwd),
        "hash" => one(data, ids, Expr::Hash),
        "immediate" => one(data, ids, Expr::Immediate),
        "inner" => one(data, ids, Expr::Inner),
        "last" => one(data, ids, Expr::Last),
        "limit" => one(data, ids, Expr::Limit),
        "log" => one(data, ids, Expr::Log),
        "lookup" => one(data, ids, Expr::Lookup),
        "masq" => one(data, ids, Expr::Masq),
        "match" => one(data, ids, |action::Match(xt)| Expr::Xt(xt)),
        "meta" if has(data, NFTA_META_SREG) => one(data, ids, Expr::MetaSet),
        "meta" => one(data, ids, Expr::Meta),
        "nat" => one(data, ids, Expr::Nat),
        "notrack" => Ok(Expr::Notrack(expr::Notrack)),
        "numgen" => one(data, ids, Expr::Numgen),
        "objref" => one(data, ids, Expr::Objref),
        "osf" => one(data, ids, Expr::Osf),
        "payload" if has(data, NFTA_PAYLOAD_SREG) => one(data, ids, Expr::PayloadSet),
        "payload" => one(data, ids, Expr::Payload),
        "queue" => one(data, ids, Expr::Queue),
        "quota" => one(data, ids, Expr::Quota),
        "range" => one(data, ids, Expr::Range),
        "redir" => one(data, ids, Expr::Redir),
        "reject" => one(data, ids, Expr::Reject),
        "rt" => one(data, ids, Expr::Rt),
        "socket" => one(data, ids, Expr::Socket),
        "synproxy" => one(data, ids, Expr::Synproxy),
        "target" => one(data, ids, |action::Target(xt)| Expr::Xt(xt)),
        "tproxy" => one(data, ids, Expr::Tproxy),
        "tunnel" => one(data, ids, Expr::Tunnel),
        "xfrm" => one(data, ids, Expr::Xfrm),
        _ => Err(Errno::Enoent.into()),
    }
}

/// Appends name and data of an expression.
pub fn write(expr: &Expr, to: &mut Writer) {
    to.string(NFTA_EXPR_NAME, expr.name());
    if matches!(expr, Expr::Notrack(_)) {
        return;
    }
    to.nest(NFTA_EXPR_DATA, |to| match expr {
        Expr::Immediate(x) => x.write(to),
        Expr::Payload(x) => x.write(to),
        Expr::PayloadSet(x) => x.write(to),
        Expr::Meta(x) => x.write(to),
        Expr::MetaSet(x) => x.write(to),
        Expr::Cmp(x) => x.write(to),
        Expr::Range(x) => x.write(to),
        Expr::Bitwise(x) => x.write(to),
        Expr::Byteorder(x) => x.write(to),
        Expr::Lookup(x) => x.write(to),
        Expr::Dynset(x) => x.write(to),
        Expr::Counter(x) => x.write(to),
        Expr::Limit(x) => x.write(to),
        Expr::Quota(x) => x.write(to),
        Expr::Last(x) => x.write(to),
        Expr::Connlimit(x) => x.write(to),
        Expr::Objref(x) => x.write(to),
        Expr::Log(x) => x.write(to),
        Expr::Exthdr(x) => x.write(to),
        Expr::ExthdrSet(x) => x.write(to),
        Expr::ExthdrReset(x) => x.write(to),
        Expr::Numgen(x) => x.write(to),
        Expr::Hash(x) => x.write(to),
        Expr::Fib(x) => x.write(to),
        Expr::Rt(x) => x.write(to),
        Expr::Ct(x) => x.write(to),
        Expr::CtSet(x) => x.write(to),
        Expr::Notrack(_) => {}
        Expr::Nat(x) => x.write(to),
        Expr::Masq(x) => x.write(to),
        Expr::Redir(x) => x.write(to),
        Expr::Reject(x) => x.write(to),
        Expr::Dup(x) => x.write(to),
        Expr::Fwd(x) => x.write(to),
        Expr::Queue(x) => x.write(to),
        Expr::Tproxy(x) => x.write(to),
        Expr::Synproxy(x) => x.write(to),
        Expr::Socket(x) => x.write(to),
        Expr::Osf(x) => x.write(to),
        Expr::Xfrm(x) => x.write(to),
        Expr::Tunnel(x) => x.write(to),
        Expr::Inner(x) => x.write(to),
        Expr::FlowOffload(x) => x.write(to),
        Expr::Xt(x) => action::write_xt(x, to),
    });
}

/// A list of expressions (`NFTA_LIST_ELEM` each). Errors blame the element.
///
/// # Errors
/// As of [`read`]; `EINVAL` for anything else in the list.
pub fn read_list(list: Attribute<'_>, most: usize, ids: &Ids) -> Result<Vec<Expr>, Failure> {
    let mut all = Vec::new();
    for element in list.each() {
        if element.kind != NFTA_LIST_ELEM || all.len() == most {
            return Err(Failure::einval());
        }
        // The kernel names the expression, not the attribute in it.
        all.push(read(element, ids).map_err(|e| e.blaming_only(&element))?);
    }
    Ok(all)
}

/// Appends a list of expressions.
pub fn write_list(exprs: &[Expr], to: &mut Writer) {
    for expr in exprs {
        to.nest(NFTA_LIST_ELEM, |to| write(expr, to));
    }
}
