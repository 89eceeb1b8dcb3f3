// SPDX-License-Identifier: Apache-2.0

//! What the kernel's dumps say of things whose state packets change.

use penstock_program::expr::{Counter, Expr, Quota};
use penstock_ruleset::model::ElementData;

use super::MARK;
use crate::expression::{self, Data, Ids};
use crate::message::{Attribute, Attributes, HEADERS, Policy, parse};
use crate::uapi::nf_tables::*;

/// Bytes of a `struct nfgenmsg`.
const HEAD: usize = 4;

/// Attributes after a `struct nfgenmsg`.
fn attributes(body: &[u8]) -> Option<Attributes<'_>> {
    const NONE: Policy = &[];
    parse(body.get(HEAD..)?, HEADERS, NONE).ok()
}

fn nested(attribute: Attribute<'_>) -> Option<Attributes<'_>> {
    const NONE: Policy = &[];
    attribute.attributes(NONE).ok()
}

fn text(given: &Attributes<'_>, kind: u16) -> Option<String> {
    given.get(kind)?.text().ok().map(str::to_owned)
}

/// A statement with its values; `None` for other expressions.
fn statement(expr: Attribute<'_>) -> Option<Expr> {
    let given = nested(expr)?;
    match given.get(NFTA_EXPR_NAME)?.text().ok()? {
        // What programs may not send, but the kernel shows: that it is depleted.
        "quota" => {
            let data = nested(given.get(NFTA_EXPR_DATA)?)?;
            Some(Expr::Quota(quota(&data)?))
        }
        "counter" | "last" | "limit" | "connlimit" => expression::read(expr, &Ids::default()).ok(),
        _ => None,
    }
}

fn quota(data: &Attributes<'_>) -> Option<Quota> {
    const OVER: u32 = 1;
    const DEPLETED: u32 = 2;
    let flags = data.be32(NFTA_QUOTA_FLAGS).unwrap_or(0);
    Some(Quota {
        bytes: data.be64(NFTA_QUOTA_BYTES)?,
        consumed: data.be64(NFTA_QUOTA_CONSUMED).unwrap_or(0),
        over: flags & OVER != 0,
        depleted: flags & DEPLETED != 0,
    })
}

fn statements(list: Option<Attribute<'_>>) -> Vec<Option<Expr>> {
    list.iter().flat_map(|list| list.each()).map(statement).collect()
}

/// A rule of a dump.
#[derive(Clone, Debug, PartialEq)]
pub struct DumpedRule {
    /// Its chain.
    pub chain: String,
    /// The kernel's handle.
    pub handle: u64,
    /// Its expressions in their order: those that are statements.
    pub statements: Vec<Option<Expr>>,
}

/// The rule of a message of a dump, without its `struct nlmsghdr`.
pub fn rule(body: &[u8]) -> Option<DumpedRule> {
    let given = attributes(body)?;
    Some(DumpedRule {
        chain: text(&given, NFTA_RULE_CHAIN)?,
        handle: given.be64(NFTA_RULE_HANDLE)?,
        statements: statements(given.get(NFTA_RULE_EXPRESSIONS)),
    })
}

/// Table, name and counter of the chain of a message of a dump.
pub fn chain(body: &[u8]) -> Option<(String, String, Option<Counter>)> {
    let given = attributes(body)?;
    let counter = given.get(NFTA_CHAIN_COUNTERS).and_then(nested).and_then(|counter| {
        Some(Counter {
            packets: counter.be64(NFTA_COUNTER_PACKETS)?,
            bytes: counter.be64(NFTA_COUNTER_BYTES)?,
        })
    });
    Some((text(&given, NFTA_CHAIN_TABLE)?, text(&given, NFTA_CHAIN_NAME)?, counter))
}

/// Name and values of the counter or quota of a message of a dump.
pub fn object(body: &[u8]) -> Option<(String, Expr)> {
    /// `NFT_OBJECT_COUNTER`, `NFT_OBJECT_QUOTA`
    const COUNTER: u32 = 1;
    const QUOTA: u32 = 2;
    let given = attributes(body)?;
    let data = nested(given.get(NFTA_OBJ_DATA)?)?;
    let value = match given.be32(NFTA_OBJ_TYPE)? {
        COUNTER => Expr::Counter(Counter {
            packets: data.be64(NFTA_COUNTER_PACKETS)?,
            bytes: data.be64(NFTA_COUNTER_BYTES)?,
        }),
        QUOTA => Expr::Quota(quota(&data)?),
        _ => return None,
    };
    Some((text(&given, NFTA_OBJ_NAME)?, value))
}

/// An element of a dump.
#[derive(Clone, Debug, PartialEq)]
pub struct DumpedElement {
    /// Key; empty for the catch-all element.
    pub key: Box<[u8]>,
    /// Last key of a range of a concatenation.
    pub key_end: Option<Box<[u8]>>,
    /// It ends the interval before it (`NFT_SET_ELEM_INTERVAL_END`).
    pub end: bool,
    /// Data of a map's element, unless that is an object.
    pub data: Option<ElementData>,
    /// Its own timeout in milliseconds.
    pub timeout: Option<u64>,
    /// Milliseconds until it expires.
    pub expires: Option<u64>,
    /// Its statements.
    pub statements: Vec<Expr>,
}

fn value(attribute: Option<Attribute<'_>>) -> Option<Box<[u8]>> {
    match expression::read_data(attribute?, &Ids::default()).ok()? {
        Data::Value(bytes) => Some(bytes.into()),
        Data::Verdict(_) => None,
    }
}

fn element(given: Attribute<'_>) -> Option<DumpedElement> {
    const INTERVAL_END: u32 = 1;
    let given = nested(given)?;
    let one = given.get(NFTA_SET_ELEM_EXPR).and_then(statement);
    let several = statements(given.get(NFTA_SET_ELEM_EXPRESSIONS)).into_iter().flatten();
    let data = given.get(NFTA_SET_ELEM_DATA).and_then(|data| {
        Some(match expression::read_data(data, &Ids::default()).ok()? {
            Data::Value(bytes) => ElementData::Value(penstock_program::Data::new(bytes)),
            Data::Verdict(verdict) => ElementData::Verdict(verdict),
        })
    });
    Some(DumpedElement {
        key: value(given.get(NFTA_SET_ELEM_KEY)).unwrap_or_default(),
        key_end: value(given.get(NFTA_SET_ELEM_KEY_END)),
        end: given.be32(NFTA_SET_ELEM_FLAGS).unwrap_or(0) & INTERVAL_END != 0,
        data,
        timeout: given.be64(NFTA_SET_ELEM_TIMEOUT),
        expires: given.be64(NFTA_SET_ELEM_EXPIRATION),
        statements: one.into_iter().chain(several).collect(),
    })
}

/// The elements of a message of a dump.
pub fn elements(body: &[u8]) -> Vec<DumpedElement> {
    let list = attributes(body).and_then(|given| given.get(NFTA_SET_ELEM_LIST_ELEMENTS));
    list.iter().flat_map(|list| list.each()).filter_map(element).collect()
}

/// Family and name of the table of a message of a dump, if Penstock has made it.
pub fn is_marked(body: &[u8]) -> Option<(u8, String)> {
    let given = attributes(body)?;
    let userdata = given.get(NFTA_TABLE_USERDATA)?;
    let marked = userdata.payload.ends_with(MARK);
    Some((*body.first()?, text(&given, NFTA_TABLE_NAME)?)).filter(|_| marked)
}
