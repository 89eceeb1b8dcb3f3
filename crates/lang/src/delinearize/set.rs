// SPDX-License-Identifier: Apache-2.0

//! Elements of sets back to expressions.

use std::sync::Arc;

use penstock_ruleset::Set;
use penstock_ruleset::model::{ElementData, ElementValue, MapData};
use penstock_sets::ElementRef;
use penstock_syntax::ast::expr::{SetElem, SetExprFlags};
use penstock_syntax::ast::{Expr, ExprKind};
use penstock_syntax::datatype::{ByteOrder, Type};
use penstock_syntax::source::Loc;

use super::program::verdict_expr;
use super::{Delinearizer, binop, constant, fields};
use super::{raw, set_type, with_state};
use crate::key_type::{Field, KeyType};
use crate::userdata::{self, SetUserData};

impl<'a> Delinearizer<'a> {
    /// Type of a set's keys.
    pub fn key_type(&self, set: &Set) -> Option<KeyType> {
        SetUserData::decode(&set.userdata).key_type(set.key_type, &set.description)
    }

    /// Type of a map's data, and whether they are intervals.
    pub fn data_type(&self, set: &Set) -> Option<(KeyType, bool)> {
        match set.data? {
            MapData::Value { len } => {
                SetUserData::decode(&set.userdata).data_type(set.data_type, len)
            }
            MapData::Verdict | MapData::Object(_) => None,
        }
    }

    /// A set where it is used: its elements if it is anonymous, its name otherwise.
    pub(crate) fn set_operand(&self, set: &Set) -> Expr {
        if !set.anonymous {
            return raw(ExprKind::SetRef { set: set.name.clone() }, 0);
        }
        let flags = SetExprFlags {
            anonymous: true,
            constant: true,
            map: set.data.is_some(),
            interval: set.description.interval,
            ..SetExprFlags::default()
        };
        raw(ExprKind::Set { elements: self.elements(set), flags }, 0)
    }

    /// All elements of a set that have not expired, in the order they are listed.
    pub fn elements(&self, set: &Set) -> Vec<Expr> {
        let mut elements = Vec::new();
        self.each_element(set, &mut |element| elements.push(element));
        elements
    }

    /// Visits the elements one by one: large sets need no second copy.
    pub fn each_element(&self, set: &Set, take: &mut dyn FnMut(Expr)) {
        let Some(key) = self.key_type(set) else { return };
        let data = self.data_type(set);
        self.each_in_order(set, &key, &mut |element| {
            self.listed_as(set, &key, data.as_ref(), element).into_iter().for_each(&mut *take);
        });
    }

    /// Elements that have not expired in the order they are listed.
    pub(crate) fn each_in_order(
        &self,
        set: &Set,
        key: &KeyType,
        take: &mut dyn FnMut(ElementRef<'_, ElementValue>),
    ) {
        let elements = set.elements();
        let alive = elements.iter().filter(|e| e.is_alive(self.now));
        if is_text_intervals(set, key) || listed_in_key_order(set, key) {
            alive.for_each(take);
        } else {
            let mut keyed: Vec<_> = alive.map(|e| (listing_key(key, e.key), e)).collect();
            keyed.sort_by(|a, b| a.0.cmp(&b.0));
            keyed.into_iter().for_each(|(_, e)| take(e));
        }
    }

    /// An element as expressions.
    pub(crate) fn listed_as(
        &self,
        set: &Set,
        key: &KeyType,
        data: Option<&(KeyType, bool)>,
        element: ElementRef<'_, ElementValue>,
    ) -> Vec<Expr> {
        match is_text_intervals(set, key) {
            true => self.text_elements(set, key, data, element),
            false => vec![self.element_expr(set, key, data, element)],
        }
    }

    /// One element of a set.
    pub fn element(&self, set: &Set, element: ElementRef<'_, ElementValue>) -> Option<Expr> {
        let key = self.key_type(set)?;
        let data = self.data_type(set);
        Some(self.element_expr(set, &key, data.as_ref(), element))
    }

    /// Intervals of text are names and wildcards. Where neighbours were joined they come apart
    /// again.
    fn text_elements(
        &self,
        set: &Set,
        key: &KeyType,
        data: Option<&(KeyType, bool)>,
        element: ElementRef<'_, ElementValue>,
    ) -> Vec<Expr> {
        let pieces = match element.key_end {
            Some(to) => split_text(element.key, to),
            None => Vec::new(),
        };
        if pieces.len() < 2 {
            return vec![self.element_expr(set, key, data, element)];
        }
        let piece = |(from, to): (Vec<u8>, Vec<u8>)| {
            let part = ElementRef { key: &from, key_end: Some(&to), ..element };
            self.element_expr(set, key, data, part)
        };
        pieces.into_iter().map(piece).collect()
    }

    fn element_expr(
        &self,
        set: &Set,
        key_type: &KeyType,
        data_type: Option<&(KeyType, bool)>,
        element: ElementRef<'_, ElementValue>,
    ) -> Expr {
        let value = element.value;
        let key = match (element.key, element.key_end) {
            ([], _) => raw(ExprKind::CatchAll, 0),
            (from, Some(to)) if to != from => interval(key_type, from, to),
            (from, _) => value_of(key_type, from),
        };
        let stmts = if value.exprs().is_empty() {
            Vec::new()
        } else {
            self.stateful(&with_state(value.exprs(), value.states(), self.now))
        };
        let expires = element.expires_at.map(|at| at.saturating_sub(self.now) / 1_000_000);
        let elem = SetElem {
            timeout: value.timeout().filter(|t| *t != set.timeout).map(|t| match t {
                0 => SetElem::NEVER,
                ms => ms,
            }),
            expires,
            comment: value.userdata().and_then(|u| userdata::comment(u)).map(Arc::from),
            stmts,
            key,
        };
        let left = raw(ExprKind::SetElem(Box::new(elem)), key_type.len());
        let right = match &value.data {
            None => return left,
            Some(ElementData::Value(bytes)) => match data_type {
                Some((ty, true)) => {
                    let (from, to) = bytes.bytes().split_at(bytes.bytes().len() / 2);
                    data_interval(ty, from, to)
                }
                Some((ty, false)) => value_of(ty, bytes.bytes()),
                None => constant(bytes.bytes()),
            },
            Some(ElementData::Verdict(verdict)) => verdict_expr(verdict),
            Some(ElementData::Object(name)) => raw(ExprKind::String(name.clone()), 0),
        };
        raw(ExprKind::Mapping { left: Box::new(left), right: Box::new(right) }, 0)
    }
}

/// Whether it holds wildcards.
fn is_text_intervals(set: &Set, key: &KeyType) -> bool {
    set.description.interval && matches!(key.fields.as_ref(), [field] if field.dtype.is_string())
}

/// Whether the order of the set's own iteration is the one that is listed.
fn listed_in_key_order(set: &Set, key: &KeyType) -> bool {
    if set.description.interval {
        return true;
    }
    match key.fields.as_ref() {
        [field] => !field.dtype.is_bitmask() && (field.order != ByteOrder::Host || field.len <= 8),
        _ => false,
    }
}

/// What elements are sorted by: the number; for a concatenation the fields without padding, read as
/// one little-endian number.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum ListingKey {
    Number(u128),
    /// The lowest flag, and all of them.
    Flags(u128, std::cmp::Reverse<u128>),
    /// What is longer, highest byte first.
    Bytes(Vec<u8>),
    /// The catch-all element comes last.
    CatchAll,
}

fn listing_key(key: &KeyType, bytes: &[u8]) -> ListingKey {
    if bytes.is_empty() {
        return ListingKey::CatchAll;
    }
    if let [field] = key.fields.as_ref() {
        let value = number(field, bytes);
        if field.dtype.is_bitmask() {
            let lowest = if value == 0 { 0 } else { 1 << value.trailing_zeros() };
            return ListingKey::Flags(lowest, std::cmp::Reverse(value));
        }
        return ListingKey::Number(value);
    }
    let packed = || fields_of(key, bytes).flat_map(|(_, bytes)| bytes.iter());
    if packed().count() <= 16 {
        let lowest_first = packed().zip(0..).map(|(byte, at)| u128::from(*byte) << (8 * at));
        return ListingKey::Number(lowest_first.sum());
    }
    let mut packed: Vec<u8> = packed().copied().collect();
    packed.reverse();
    ListingKey::Bytes(packed)
}

fn number(field: &Field, bytes: &[u8]) -> u128 {
    let mut expr = constant(bytes);
    set_type(&mut expr, &Type::Base(field.dtype), field.order);
    expr.value().unwrap_or(0)
}

/// A value of one field.
fn field_value(field: &Field, bytes: &[u8]) -> Expr {
    let mut expr = constant(bytes);
    set_type(&mut expr, &Type::Base(field.dtype), field.order);
    if let ExprKind::Value(value) = expr.kind {
        if field.dtype.is_string() {
            binop::text(&mut expr, value);
        } else if field.dtype.is_bitmask() {
            binop::flags_to_or(&mut expr, value);
        }
    }
    expr
}

/// Bytes field by field.
fn fields_of<'b>(ty: &'b KeyType, bytes: &'b [u8]) -> impl Iterator<Item = (&'b Field, &'b [u8])> {
    let mut rest = bytes;
    ty.fields.iter().map(move |field| {
        let len = (field.len.div_ceil(8) as usize).min(rest.len());
        let value = &rest[..len];
        rest = &rest[(field.padded() as usize / 8).min(rest.len())..];
        (field, value)
    })
}

/// A key or data without extent.
fn value_of(ty: &KeyType, bytes: &[u8]) -> Expr {
    match ty.fields.as_ref() {
        [field] => {
            // Single fields are not padded.
            field_value(field, &bytes[..(field.len.div_ceil(8) as usize).min(bytes.len())])
        }
        _ => {
            let parts =
                fields_of(ty, bytes).map(|(field, bytes)| field_value(field, bytes)).collect();
            Expr::typed(
                ExprKind::Concat(parts),
                Loc::default(),
                ty.dtype.clone(),
                ByteOrder::Invalid,
                ty.len(),
            )
        }
    }
}

/// An interval, field by field.
fn interval(ty: &KeyType, from: &[u8], to: &[u8]) -> Expr {
    match ty.fields.as_ref() {
        [field] => field_interval(field, from, to),
        _ => {
            let parts = fields_of(ty, from)
                .zip(fields_of(ty, to))
                .map(|((field, from), (_, to))| field_interval(field, from, to))
                .collect();
            Expr::typed(
                ExprKind::Concat(parts),
                Loc::default(),
                ty.dtype.clone(),
                ByteOrder::Invalid,
                ty.len(),
            )
        }
    }
}

/// The data of an interval map: a single address is a prefix too, as long as it can be.
fn data_interval(ty: &KeyType, from: &[u8], to: &[u8]) -> Expr {
    let mut expr = if from == to { value_of(ty, from) } else { interval(ty, from, to) };
    if from == to
        && fields::has_prefixes(expr.dtype.base())
        && matches!(expr.kind, ExprKind::Value(_))
    {
        let len = expr.len;
        expr.kind = ExprKind::Prefix { base: Box::new(expr.clone()), len };
    }
    expr
}

fn field_interval(field: &Field, from: &[u8], to: &[u8]) -> Expr {
    if from == to {
        return field_value(field, from);
    }
    if field.dtype.is_string() {
        return text_interval(field, from, to);
    }
    let typed = |bytes: &[u8]| {
        let mut expr = constant(bytes);
        set_type(&mut expr, &Type::Base(field.dtype), field.order);
        expr
    };
    let (left, right) = (typed(from), typed(to));
    let len = left.len;
    let kind = ExprKind::Range { left: Box::new(left), right: Box::new(right) };
    let mut range = Expr::typed(kind, Loc::default(), Type::Base(field.dtype), field.order, len);
    fields::range_to_prefix(&mut range);
    range
}

/// An interval of text as wildcards and names: `ab*` and `ac*` side by side are one interval. Empty
/// if it is none.
fn split_text(from: &[u8], to: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let Some(at) = from.iter().zip(to).position(|(a, b)| a != b) else { return Vec::new() };
    let (head, first, last) = (&from[..at], from[at], to[at]);
    let ones = to[at + 1..].iter().all(|b| *b == 0xff);
    let zeros = to[at + 1..].iter().all(|b| *b == 0);
    // All that begins with the common part is one wildcard.
    if from[at + 1..].iter().any(|b| *b != 0) || !(ones || zeros) || first == 0 {
        return Vec::new();
    }
    let filled = |byte: u8, rest: u8| {
        let mut piece = head.to_vec();
        piece.push(byte);
        piece.resize(from.len(), rest);
        piece
    };
    let mut pieces: Vec<_> =
        (first..last).map(|byte| (filled(byte, 0), filled(byte, 0xff))).collect();
    pieces.push((filled(last, 0), if ones { filled(last, 0xff) } else { filled(last, 0) }));
    pieces
}

/// All names that begin alike: up to where the ends differ.
fn text_interval(field: &Field, from: &[u8], to: &[u8]) -> Expr {
    let common = from.iter().zip(to).take_while(|(a, b)| a == b && **a != 0).count();
    let mut text = String::from_utf8_lossy(&from[..common]).into_owned();
    text.push('*');
    Expr::typed(
        ExprKind::String(text.into()),
        Loc::default(),
        Type::Base(field.dtype),
        field.order,
        field.len,
    )
}
