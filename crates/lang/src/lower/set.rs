// SPDX-License-Identifier: Apache-2.0

//! Sets, maps and elements.

use std::cmp::Reverse;
use std::sync::Arc;

use penstock_program::Data;
use penstock_program::expr::Expr as Op;
use penstock_ruleset::Change;
use penstock_ruleset::change::{Mode, NewSet};
use penstock_ruleset::model::{ElementData, ElementValue, Family, MapData};
use penstock_sets::{Description, Element, ElementList, Policy};
use penstock_syntax::ast::expr::{SetElem, key_of};
use penstock_syntax::ast::{Expr, ExprKind};
use penstock_syntax::bits::bitmask;
use penstock_syntax::datatype::Base;
use penstock_syntax::source::Loc;

use crate::cache::{DataKind, SetInfo};
use crate::eval::intervals::bounds;
use crate::eval::{AnonymousSet, Context};
use crate::key_type::{Field, KeyType};
use crate::lower::expr::{bytes_of, export, field_bytes, verdict};
use crate::lower::{Lowered, Places, Program};
use crate::userdata::{self, SetUserData};

/// Nanoseconds per millisecond.
const MILLISECOND: u64 = 1_000_000;

/// What the kernel and the choice of a backend need of a key.
pub(crate) fn description(info: &SetInfo) -> Description {
    let key = &info.key;
    let fields = if key.is_concat() {
        key.fields.iter().map(|f| bytes_of(f.len) as u8).collect()
    } else {
        Vec::new()
    };
    Description {
        key_len: bytes_of(key.len()) as usize,
        fields,
        interval: info.interval,
        map: info.is_map(),
        timeout: info.timeout,
        dynamic: info.dynamic,
        constant: false,
        size: None,
        policy: Policy::Performance,
    }
}

/// What the map gives, as the ruleset has it.
pub(crate) fn map_data(info: &SetInfo) -> Option<MapData> {
    Some(match info.data.as_ref()? {
        DataKind::Verdict => MapData::Verdict,
        DataKind::Object(kind) => MapData::Object(*kind),
        DataKind::Value { ty, interval } => {
            let len = bytes_of(ty.len());
            MapData::Value { len: if *interval { len.next_multiple_of(4) * 2 } else { len } }
        }
    })
}

/// `NFTA_SET_DATA_TYPE`.
pub(crate) fn data_type(info: &SetInfo) -> u32 {
    match &info.data {
        Some(DataKind::Value { ty, .. }) => ty.dtype.id(),
        Some(DataKind::Verdict) => u32::MAX - 0xff,
        Some(DataKind::Object(_)) | None => 0,
    }
}

/// Userdata with the types of key and data.
pub(crate) fn set_userdata(info: &SetInfo) -> SetUserData {
    let (data, data_interval) = match &info.data {
        Some(DataKind::Value { ty, interval }) => (ty.fields.to_vec(), *interval),
        _ => (Vec::new(), false),
    };
    SetUserData {
        key: info.key.fields.to_vec(),
        data,
        data_interval,
        auto_merge: info.auto_merge && !info.anonymous,
        ..SetUserData::default()
    }
}

/// Declaration and elements of an anonymous set.
pub(crate) fn anonymous(
    set: &AnonymousSet,
    ctx: &Context<'_>,
    family: Family,
    table: &Arc<str>,
    table_loc: Option<Loc>,
) -> Vec<Lowered> {
    let info = &set.info;
    let mut elements = ElementList::new();
    let mut locs = Vec::new();
    if let Some(Expr { kind: ExprKind::Set { elements: list, .. }, .. }) = &set.elements {
        let mut program = Program::new(ctx, family, table.clone());
        for element in in_nft_order(list, info) {
            elements.push(lower_element(element, info, ctx, &mut program));
            locs.push(element_loc(element));
        }
    }
    let mut description = description(info);
    description.constant = set.constant;
    let counted = set.elements.is_some().then(|| element_count(info, &elements));
    description.size = set.size.or(counted);
    let name: Arc<str> = match info.name.rsplit_once('#') {
        Some((pattern, _)) => pattern.into(),
        None => info.name.clone(),
    };
    let places = Places { whole: set.loc, set: Some(set.loc), ..Places::default() };
    let mut out = vec![Lowered {
        change: Change::AddSet {
            family,
            table: table.clone(),
            mode: Mode::Add,
            set: NewSet {
                name,
                id: set.id,
                anonymous: true,
                key_type: info.key.dtype.id(),
                data_type: data_type(info),
                data: map_data(info),
                description,
                timeout: 0,
                gc_interval: 0,
                exprs: Vec::new(),
                userdata: set_userdata(info).encode(),
            },
        },
        places: Places { table: table_loc, ..places.clone() },
    }];
    if !elements.is_empty() {
        out.push(Lowered {
            change: Change::AddElements {
                family,
                table: table.clone(),
                set: info.name.clone(),
                mode: Mode::Add,
                elements,
            },
            places: Places { elements: locs, ..places },
        });
    }
    out
}

/// A set declared `constant` is made as large as the elements that stand in its declaration.
/// `elements` is what was lowered after `set`; returns whether they belong together.
pub fn fit_to_elements(set: &mut [Lowered], elements: &[Lowered], ctx: &Context<'_>) -> bool {
    let [Lowered { change: Change::AddSet { table, set, .. }, .. }] = set else { return false };
    let [
        Lowered {
            change: Change::AddElements { family, table: same_table, set: name, elements, .. },
            ..
        },
    ] = elements
    else {
        return false;
    };
    let fits = set.description.constant && *table == *same_table && set.name == *name;
    match ctx.set(*family, table, name) {
        Some(info) if fits => {
            set.description.size = Some(element_count(&info, elements));
            true
        }
        _ => false,
    }
}

/// Elements in the order in which nft hands them over: intervals are sorted, and of equal ones the
/// last comes first.
fn in_nft_order<'e>(elements: &'e [Expr], info: &SetInfo) -> Vec<&'e Expr> {
    if !info.interval || info.key.is_concat() {
        return elements.iter().collect();
    }
    let mut sorted: Vec<_> = elements.iter().rev().collect();
    sorted.sort_by_cached_key(|element| {
        // The catch-all is after the others.
        match bounds(key_of(element)) {
            Some((from, to)) => (false, from, Reverse(to)),
            None => (true, 0, Reverse(0)),
        }
    });
    sorted
}

/// How many elements the kernel would hold: both ends of an interval count where it keeps them
/// apart.
fn element_count(info: &SetInfo, elements: &ElementList<ElementValue>) -> u32 {
    if !info.interval || info.key.is_concat() {
        return elements.len() as u32;
    }
    // nft counts the end even of an interval that has none, or where another one begins.
    let (mut intervals, mut gap_before) = (0, true);
    for element in elements.iter().filter(|e| !e.key.is_empty()) {
        intervals += 1;
        gap_before &= element.key.iter().any(|b| *b != 0);
    }
    elements.len() as u32 + intervals + u32::from(gap_before && intervals > 0)
}

/// The key after the last one of an interval; `None` if there is none.
pub(crate) fn key_after(key: &[u8]) -> Option<Vec<u8>> {
    let mut next = key.to_vec();
    for byte in next.iter_mut().rev() {
        let (sum, carry) = byte.overflowing_add(1);
        *byte = sum;
        if !carry {
            return Some(next);
        }
    }
    None
}

/// Where an element's key was written.
pub(crate) fn element_loc(element: &Expr) -> Loc {
    key_of(element).loc
}

/// An element: its key or interval of keys, data, and what stands next to them.
pub(crate) fn lower_element(
    element: &Expr,
    info: &SetInfo,
    ctx: &Context<'_>,
    program: &mut Program<'_, '_>,
) -> Element<ElementValue> {
    let (left, right) = match element.mapping() {
        Some((left, right)) => (left, Some(right)),
        None => (element, None),
    };
    let elem = left.elem();
    let key = elem.map_or(left, |elem| &elem.key);
    let (key, key_end) = key_bytes(key, &info.key);
    let mut value =
        right.and_then(|r| lower_data(r, info)).map(ElementValue::from).unwrap_or_default();
    let mut expires_at = None;
    if let Some(elem) = elem {
        if elem.has_options() {
            value.change_extras(|extras| {
                extras.exprs = program.stateful(&elem.stmts);
                let timeout = elem.timeout.filter(|ms| *ms != 0);
                extras.timeout = timeout.map(|t| if t == SetElem::NEVER { 0 } else { t });
                extras.userdata = elem.comment.as_ref().map(|c| userdata::with_comment(Some(c)));
            });
        }
        // nft sends no times of 0.
        let expires = elem.expires.filter(|ms| *ms != 0);
        expires_at = expires.map(|ms| ctx.now.saturating_add(ms.saturating_mul(MILLISECOND)));
    }
    Element { key, key_end, value, expires_at }
}

/// First and last value of a constant, range or prefix, as numbers of its own byte order.
fn ends(e: &Expr) -> (u128, Option<u128>) {
    match &e.kind {
        ExprKind::Value(value) => (*value, None),
        ExprKind::Range { left, right } => {
            (left.value().unwrap_or(0), Some(right.value().unwrap_or(0)))
        }
        ExprKind::Prefix { base, len } => {
            let from = base.value().unwrap_or(0);
            let rest = if e.base() == Base::String {
                // Text has its first byte lowest.
                from | !bitmask(*len) & bitmask(128)
            } else {
                from | bitmask(e.len.saturating_sub(*len))
            };
            (from, Some(rest))
        }
        ExprKind::Symbol { .. }
        | ExprKind::Variable { .. }
        | ExprKind::String(_)
        | ExprKind::Verdict(_)
        | ExprKind::Concat(_)
        | ExprKind::List(_)
        | ExprKind::Set { .. }
        | ExprKind::SetElem(_)
        | ExprKind::CatchAll
        | ExprKind::Mapping { .. }
        | ExprKind::Map { .. }
        | ExprKind::SetRef { .. }
        | ExprKind::Payload(_)
        | ExprKind::Exthdr(_)
        | ExprKind::Key(_)
        | ExprKind::Hash { .. }
        | ExprKind::Unary { .. }
        | ExprKind::Binop { .. }
        | ExprKind::Relational { .. }
        | ExprKind::FlagCmp { .. } => (0, None),
    }
}

type Key = Box<[u8]>;

fn key_bytes(key: &Expr, ty: &KeyType) -> (Key, Option<Key>) {
    match &key.kind {
        ExprKind::CatchAll => (Box::default(), None),
        ExprKind::Concat(parts) => {
            let (from, to, interval) = concat_bytes(parts, &ty.fields);
            (from.into(), interval.then(|| to.into()))
        }
        ExprKind::String(text) => (text.as_bytes().into(), None),
        ExprKind::Symbol { .. }
        | ExprKind::Variable { .. }
        | ExprKind::Value(_)
        | ExprKind::Verdict(_)
        | ExprKind::Prefix { .. }
        | ExprKind::Range { .. }
        | ExprKind::List(_)
        | ExprKind::Set { .. }
        | ExprKind::SetElem(_)
        | ExprKind::Mapping { .. }
        | ExprKind::Map { .. }
        | ExprKind::SetRef { .. }
        | ExprKind::Payload(_)
        | ExprKind::Exthdr(_)
        | ExprKind::Key(_)
        | ExprKind::Hash { .. }
        | ExprKind::Unary { .. }
        | ExprKind::Binop { .. }
        | ExprKind::Relational { .. }
        | ExprKind::FlagCmp { .. } => {
            let fallback = Field::of(key);
            let field = ty.fields.first().unwrap_or(&fallback);
            let (from, to) = ends(key);
            let end = to.filter(|to| *to != from).map(|to| field_bytes(to, field).into());
            (field_bytes(from, field).into(), end)
        }
    }
}

/// Both ends of a concatenation, field by field, padded to words.
fn concat_bytes(parts: &[Expr], fields: &[Field]) -> (Vec<u8>, Vec<u8>, bool) {
    let (mut from, mut to, mut interval) = (Vec::new(), Vec::new(), false);
    for (i, part) in parts.iter().enumerate() {
        let fallback = Field::of(part);
        let field = fields.get(i).unwrap_or(&fallback);
        let (first, last) = ends(part);
        interval |= last.is_some();
        from.extend(export(first, field.order, bytes_of(field.len)));
        to.extend(export(last.unwrap_or(first), field.order, bytes_of(field.len)));
        from.resize(from.len().next_multiple_of(4), 0);
        to.resize(to.len().next_multiple_of(4), 0);
    }
    (from, to, interval)
}

fn lower_data(e: &Expr, info: &SetInfo) -> Option<ElementData> {
    if let ExprKind::Verdict(v) = &e.kind {
        return Some(ElementData::Verdict(verdict(v)));
    }
    match info.data.as_ref()? {
        DataKind::Object(_) => e.text().cloned().map(ElementData::Object),
        DataKind::Verdict => None,
        DataKind::Value { ty, interval } => {
            let (mut from, mut to) = if let ExprKind::Concat(parts) = &e.kind {
                let (from, to, _) = concat_bytes(parts, &ty.fields);
                (from, to)
            } else {
                let fallback = Field::of(e);
                let field = ty.fields.first().unwrap_or(&fallback);
                let (from, to) = ends(e);
                (field_bytes(from, field), field_bytes(to.unwrap_or(from), field))
            };
            if *interval {
                from.resize(from.len().next_multiple_of(4), 0);
                to.resize(to.len().next_multiple_of(4), 0);
                from.append(&mut to);
            }
            Some(ElementData::Value(Data::from(from)))
        }
    }
}

/// Stateful statements that each element gets a copy of.
pub(crate) fn templates(
    stmts: &[penstock_syntax::ast::Stmt],
    program: &mut Program<'_, '_>,
) -> Vec<Op> {
    program.stateful(stmts)
}
