// SPDX-License-Identifier: Apache-2.0

//! What `--debug=netlink` shows of changes, in the words of libnftnl 1.2.4.

use std::fmt::Write;
use std::sync::Arc;

use penstock_ruleset::Change;
use penstock_ruleset::change::{NewSet, Position};
use penstock_ruleset::model::{ElementData, ElementValue, Family};
use penstock_sets::Element;
use penstock_syntax::bits::bitmask;
use penstock_syntax::datatype::{DataType, Type};

use crate::eval::Context;
use crate::lower::Lowered;
use crate::lower::set::key_after;
use crate::userdata;

/// `NFT_SET_*`.
const ANONYMOUS: u32 = 1;
const CONSTANT: u32 = 2;
const INTERVAL: u32 = 4;
const MAP: u32 = 8;
const TIMEOUT: u32 = 0x10;
const EVAL: u32 = 0x20;
const OBJECT: u32 = 0x40;
const CONCAT: u32 = 0x80;
const EXPR: u32 = 0x100;

/// `NFT_SET_ELEM_*`.
const INTERVAL_END: u32 = 1;
const CATCH_ALL: u32 = 2;

/// The text for what one command was lowered to: sets with their elements, rules. Call it before
/// the next command is evaluated, since it looks at the command's anonymous sets.
pub fn text(lowered: &[Lowered], ctx: &Context<'_>) -> String {
    let mut out = String::new();
    for l in lowered {
        match &l.change {
            Change::AddSet { table, set, .. } => set_text(table, set, &mut out),
            Change::AddElements { family, table, set, elements, .. } => {
                let sorted = elements.iter().collect();
                elements_text((*family, table, set), sorted, Asked::Add, ctx, &mut out);
            }
            Change::DeleteElements { family, table, set, elements: Some(elements), .. } => {
                elements_text(
                    (*family, table, set),
                    elements.clone(),
                    Asked::Delete,
                    ctx,
                    &mut out,
                );
            }
            Change::AddRule { family, table, chain, position, rule } => {
                let _ = write!(out, "{} {table}", family.name());
                let chain = shown(chain);
                if !chain.is_empty() {
                    let _ = write!(out, " {chain}");
                }
                match position {
                    Position::Replace(handle) => {
                        let _ = write!(out, " {handle}");
                    }
                    Position::After(Some(handle)) | Position::Before(Some(handle)) => {
                        let _ = write!(out, " {handle}");
                    }
                    Position::After(None) | Position::Before(None) => {}
                }
                out.push('\n');
                for expr in &rule.exprs {
                    let _ = writeln!(out, "  {}", shown(&expr.to_string()));
                }
                if let Some(comment) = userdata::comment(&rule.userdata) {
                    out.push_str("  userdata = { ");
                    comment_text(&comment, &mut out);
                    out.push_str(" }");
                }
                out.push('\n');
            }
            _ => {}
        }
    }
    out
}

/// A comment as libnftnl shows the bytes of its attribute: type, length, the text and its end.
fn comment_text(comment: &str, out: &mut String) {
    let _ = write!(out, "\\x00\\x{:02x}", comment.len() + 1);
    for byte in comment.bytes() {
        match byte {
            b' '..=b'~' => out.push(byte as char),
            _ => _ = write!(out, "\\x{byte:02x}"),
        }
    }
    out.push_str("\\x00");
}

/// Without the numbers that tell anonymous sets apart.
fn shown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    // Implicit chains have no name yet.
    let implicit =
        text.find(" -> __chain%d#").or_else(|| text.starts_with("__chain%d#").then_some(0));
    if let Some(at) = implicit {
        let end = text[at..].find(" ]").map_or("", |end| &text[at + end..]);
        return format!("{}{end}", &text[..at]);
    }
    let mut rest = text;
    while let Some(at) = rest.find("%d#") {
        out.push_str(&rest[..at + 2]);
        rest = rest[at + 3..].trim_start_matches(|c: char| c.is_ascii_digit());
    }
    out.push_str(rest);
    out
}

fn flags(set: &NewSet) -> u32 {
    let d = &set.description;
    let mut flags = 0;
    for (on, flag) in [
        (set.anonymous, ANONYMOUS),
        (d.constant, CONSTANT),
        (d.interval, INTERVAL),
        (d.timeout, TIMEOUT),
        (d.dynamic, EVAL),
        (d.interval && d.fields.len() > 1, CONCAT),
        (set.exprs.len() > 1, EXPR),
    ] {
        if on {
            flags |= flag;
        }
    }
    match &set.data {
        None => {}
        Some(penstock_ruleset::model::MapData::Object(_)) => flags |= OBJECT,
        Some(_) => flags |= MAP,
    }
    flags
}

fn set_text(table: &Arc<str>, set: &NewSet, out: &mut String) {
    let _ = write!(out, "{} {table} {:x}", shown(&set.name), flags(set));
    if set.timeout > 0 {
        let _ = write!(out, " timeout {}ms", set.timeout);
    }
    if set.gc_interval > 0 {
        let _ = write!(out, " gc_interval {}ms", set.gc_interval);
    }
    if set.description.policy == penstock_sets::Policy::Memory {
        out.push_str(" policy 1");
    }
    if let Some(size) = set.description.size {
        let _ = write!(out, " size {size}");
    }
    out.push('\n');
    if set.anonymous && !set.name.contains('%') {
        let _ = writeln!(out, "{} {table} 0", set.name);
    }
}

fn words(bytes: &[u8], out: &mut String) {
    for word in bytes.chunks(4) {
        let mut w = [0; 4];
        w[..word.len()].copy_from_slice(word);
        let _ = write!(out, "{:08x} ", u32::from_le_bytes(w));
    }
}

fn data_text(data: Option<&ElementData>, out: &mut String) {
    match data {
        Some(ElementData::Value(data)) => words(data.bytes(), out),
        Some(ElementData::Verdict(verdict)) => {
            let _ = write!(out, "{verdict} ");
        }
        Some(ElementData::Object(_)) | None => {}
    }
}

/// What happens to elements.
#[derive(Clone, Copy, PartialEq)]
enum Asked {
    Add,
    Delete,
}

fn elements_text(
    (family, table, set): (Family, &Arc<str>, &Arc<str>),
    elements: Vec<Element<ElementValue>>,
    asked: Asked,
    ctx: &Context<'_>,
    out: &mut String,
) {
    let _ = writeln!(out, "{} {table} 0", shown(set));
    let Some(info) = ctx.set(family, table, set) else { return };
    let mut line =
        |key: &[u8], end: Option<&[u8]>, value: Option<&ElementValue>, flags: u32, open: bool| {
            out.push_str("\telement ");
            words(key, out);
            if let Some(end) = end {
                out.push_str(" - ");
                words(end, out);
            }
            out.push_str(" : ");
            data_text(value.and_then(|v| v.data.as_ref()).filter(|_| asked == Asked::Add), out);
            let _ = write!(out, "{flags} [end]");
            let comment =
                value.and_then(|v| v.userdata().map(|u| &**u)).and_then(userdata::comment);
            if comment.is_none() && !open {
                return;
            }
            out.push_str("  userdata = { ");
            if let Some(comment) = comment {
                comment_text(&comment, out);
            }
            if open {
                out.push_str("\\x01\\x04\\x01\\x00\\x00\\x00");
            }
            out.push_str(" }");
        };
    if info.interval && !info.key.is_concat() {
        let fresh = info.anonymous || info.intervals.len() <= elements.len();
        let fresh = fresh && asked == Asked::Add;
        let mut sorted = elements;
        sorted.sort_by(|a, b| {
            a.key.is_empty().cmp(&b.key.is_empty()).then_with(|| a.key.cmp(&b.key))
        });
        if let Some(first) = sorted.first().filter(|e| fresh && e.key.iter().any(|b| *b != 0)) {
            line(&vec![0; first.key.len()], None, None, INTERVAL_END, false);
        }
        let following = sorted.iter().skip(1).map(|e| Some(&*e.key)).chain([None]);
        for (element, following) in sorted.iter().zip(following) {
            if element.key.is_empty() {
                line(&[], None, Some(&element.value), CATCH_ALL, false);
                continue;
            }
            let end = element.key_end.as_deref().unwrap_or(&element.key);
            // Answers whether a header is there are bytes.
            let bits =
                if info.key.dtype == Type::Base(DataType::Boolean) { 8 } else { info.key.len() };
            let last = end.iter().fold(0, |v: u128, b| v << 8 | u128::from(*b)) == bitmask(bits);
            let next = if last { None } else { key_after(end) };
            line(&element.key, None, Some(&element.value), 0, next.is_none());
            if let Some(next) = next.filter(|n| !info.anonymous || following != Some(n.as_slice()))
            {
                line(&next, None, None, INTERVAL_END, false);
            }
        }
    } else {
        for element in elements {
            if element.key.is_empty() {
                line(&[], None, Some(&element.value), CATCH_ALL, false);
                continue;
            }
            let end = match &element.key_end {
                Some(end) => Some(&**end),
                None if info.interval => Some(&*element.key),
                None => None,
            };
            line(&element.key, end, Some(&element.value), 0, false);
        }
    }
    out.push('\n');
}
