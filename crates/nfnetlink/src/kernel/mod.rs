// SPDX-License-Identifier: Apache-2.0

//! A ruleset in the kernel's nf_tables: the messages that bring it there and change it, and what
//! the kernel's dumps say of counters, quotas and elements.
//!
//! | file | is |
//! | --- | --- |
//! | `batch` | messages of one transaction, and what each is about |
//! | `transition` | from some tables to others, in the smallest steps |
//! | `elements` | elements of sets in messages |
//! | `dumped` | what dumps say |

mod batch;
mod dumped;
mod elements;
mod transition;

use crate::expression::{self, Numbered};
use crate::message::{Writer, each};
use crate::uapi::nf_tables::*;
pub use batch::{KernelBatch, Part, Subject};
pub use dumped::{
    DumpedElement, DumpedRule, chain as dumped_chain, elements as dumped_elements,
    is_marked as is_marked_table, object as dumped_object, rule as dumped_rule,
};
pub use elements::ElementChange;
use penstock_ruleset::{Family, Object, Set, Table};
pub use transition::{KernelHandles, KernelTables, transition};

use penstock_program::expr::Expr;
use penstock_program::state::Words;

/// A table of the kernel has this in its user data if Penstock has made it. nft passes over types
/// that it does not know (`nftnl_udata_parse()`).
const MARK: &[u8] = b"\xd8\x0fpenstock attach";

/// Packets and bytes of a counter, or bytes of a quota as far as the kernel shows them; `None` for
/// other statements.
pub fn counted(expr: &Expr) -> Option<Words> {
    match expr {
        Expr::Counter(counter) => Some([counter.packets, counter.bytes]),
        Expr::Quota(quota) => Some([quota.consumed.min(quota.bytes), 0]),
        _ => None,
    }
}

/// Appends a list of expressions as the kernel takes them: it shows attributes that it refuses in
/// requests (`nft_exthdr_tcp_set_init()`, `nft_exthdr_tcp_strip_init()`, `nft_dynset_init()`).
fn write_list(exprs: &[Expr], to: &mut Writer) {
    for expr in exprs {
        let dropped: &[u16] = match expr {
            Expr::ExthdrSet(_) => &[NFTA_EXTHDR_FLAGS],
            Expr::ExthdrReset(_) => &[NFTA_EXTHDR_FLAGS, NFTA_EXTHDR_OFFSET, NFTA_EXTHDR_LEN],
            Expr::Dynset(dynset) if dynset.timeout == 0 => &[NFTA_DYNSET_TIMEOUT],
            _ => {
                to.nest(NFTA_LIST_ELEM, |to| expression::write(expr, to));
                continue;
            }
        };
        let mut shown = Writer::default();
        expression::write(expr, &mut shown);
        to.nest(NFTA_LIST_ELEM, |to| {
            to.string(NFTA_EXPR_NAME, expr.name());
            let data =
                each(&shown.finish(), 0).find(|part| part.kind == NFTA_EXPR_DATA).map(|data| {
                    let kept = data.each().filter(|part| !dropped.contains(&part.kind));
                    kept.map(|part| (part.kind, part.payload.to_vec())).collect::<Vec<_>>()
                });
            to.nest(NFTA_EXPR_DATA, |to| {
                for (kind, value) in data.into_iter().flatten() {
                    to.attribute(kind, &value);
                }
            });
        });
    }
}

/// Statements as a program may send them: the kernel finds out itself whether a quota is depleted.
fn to_send(mut exprs: Vec<Expr>) -> Vec<Expr> {
    for expr in &mut exprs {
        if let Expr::Quota(quota) = expr {
            quota.depleted = false;
        }
    }
    exprs
}

/// A request about tables of the kernel: number of the message and its body.
pub type KernelRequest = (u8, Vec<u8>);

fn request(number: u8, family: Option<Family>, write: impl FnOnce(&mut Writer)) -> KernelRequest {
    let mut to = Writer::default();
    to.raw(&[family.map_or(0, |family| family as u8), 0, 0, 0]);
    write(&mut to);
    (number, to.finish())
}

/// Asks for all tables.
pub fn ask_tables() -> KernelRequest {
    request(NFT_MSG_GETTABLE, None, |_| {})
}

/// Asks for all rules of a table.
pub fn ask_rules(table: &Table) -> KernelRequest {
    request(NFT_MSG_GETRULE, Some(table.family), |to| to.string(NFTA_RULE_TABLE, &table.name))
}

/// Asks for all chains of a family.
pub fn ask_chains(family: Family) -> KernelRequest {
    request(NFT_MSG_GETCHAIN, Some(family), |_| {})
}

/// Asks for all objects of a table.
pub fn ask_objects(table: &Table) -> KernelRequest {
    request(NFT_MSG_GETOBJ, Some(table.family), |to| to.string(NFTA_OBJ_TABLE, &table.name))
}

/// Asks for all elements of a set.
pub fn ask_elements(table: &Table, set: &Set) -> KernelRequest {
    request(NFT_MSG_GETSETELEM, Some(table.family), |to| {
        to.string(NFTA_SET_ELEM_LIST_TABLE, &table.name);
        to.string(NFTA_SET_ELEM_LIST_SET, &set.name);
    })
}

/// Asks for a rule by the kernel's handle, which is reset then.
pub fn reset_rule(table: &Table, chain: &str, handle: u64) -> KernelRequest {
    request(NFT_MSG_GETRULE_RESET, Some(table.family), |to| {
        to.string(NFTA_RULE_TABLE, &table.name);
        to.string(NFTA_RULE_CHAIN, chain);
        to.be64(NFTA_RULE_HANDLE, handle);
    })
}

/// Asks for an object, which is reset then.
pub fn reset_object(table: &Table, object: &Object) -> KernelRequest {
    request(NFT_MSG_GETOBJ_RESET, Some(table.family), |to| {
        to.string(NFTA_OBJ_TABLE, &table.name);
        to.string(NFTA_OBJ_NAME, &object.name);
        to.be32(NFTA_OBJ_TYPE, object.value.kind().number());
    })
}

/// Asks for an element by its key, which is reset then. The catch-all element has no bytes.
pub fn reset_element(table: &Table, set: &Set, key: &[u8]) -> KernelRequest {
    const CATCH_ALL: u32 = 2;
    request(NFT_MSG_GETSETELEM_RESET, Some(table.family), |to| {
        to.string(NFTA_SET_ELEM_LIST_TABLE, &table.name);
        to.string(NFTA_SET_ELEM_LIST_SET, &set.name);
        to.nest(NFTA_SET_ELEM_LIST_ELEMENTS, |to| {
            to.nest(NFTA_LIST_ELEM, |to| match key {
                [] => to.be32(NFTA_SET_ELEM_FLAGS, CATCH_ALL),
                key => expression::write_value(NFTA_SET_ELEM_KEY, key, to),
            });
        });
    })
}
