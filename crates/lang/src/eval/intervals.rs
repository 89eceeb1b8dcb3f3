// SPDX-License-Identifier: Apache-2.0

//! Intervals of plain keys: overlaps are refused, or joined with `auto-merge`, also with what is in
//! the set already.

use std::sync::Arc;

use penstock_syntax::ast::expr::{constant, key_of};
use penstock_syntax::ast::{Expr, ExprKind};
use penstock_syntax::bits::bitmask;
use penstock_syntax::datatype::{Base, Type};
use penstock_syntax::source::Loc;

use crate::cache::SetInfo;
use crate::eval::{Result, conflict, error};
use crate::intervals::Intervals;

/// A change of what a set holds, found by evaluation: intervals to remove before the elements of
/// the command are added (auto-merge) or after they are removed.
pub(crate) type Spans = Vec<(u128, u128)>;

/// An element's interval and its index.
pub(crate) type Span = (u128, u128, usize);

/// Intervals of elements in their order; the catch-all has none.
pub(crate) fn unsorted_spans_of(elements: &[Expr]) -> impl Iterator<Item = Span> {
    let bounds = |(i, e)| bounds(key_of(e)).map(|(from, to)| (from, to, i));
    elements.iter().enumerate().filter_map(bounds)
}

/// By their starts, the larger one first.
pub(crate) fn sort(spans: &mut [Span]) {
    spans.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
}

pub(crate) fn spans_of(elements: &[Expr]) -> Vec<Span> {
    let mut spans: Vec<_> = unsorted_spans_of(elements).collect();
    sort(&mut spans);
    spans
}

/// Refuses intervals that overlap within a command or with what the set holds. The very same
/// interval may be given again.
pub(crate) fn check_overlap(elements: &[Expr], existing: &[(u128, u128)]) -> Result {
    check_spans(&spans_of(elements), |i| key_of(&elements[i]).loc, existing)
}

/// Checks the sorted intervals of elements; `place` says where the key of one was written.
pub(crate) fn check_spans(
    spans: &[Span],
    place: impl Fn(usize) -> Loc,
    existing: &[(u128, u128)],
) -> Result {
    let mut last: Option<Span> = None;
    for &(from, to, index) in spans {
        if let Some((last_from, last_to, other)) = last
            && from <= last_to
            && (from, to) != (last_from, last_to)
        {
            return conflict(place(index), place(other), "conflicting intervals specified");
        }
        last = Some((from, to, index));
        // The first one that does not end before.
        let at = existing.partition_point(|e| e.1 < from);
        if let Some(found) = existing.get(at)
            && found.0 <= to
            && *found != (from, to)
        {
            return error(place(index), "interval overlaps with an existing one");
        }
    }
    Ok(())
}

/// Whether an interval that starts there follows this end without a gap.
pub(crate) fn touches(end: u128, start: u128) -> bool {
    start <= end || start == end.wrapping_add(1) && end != u128::MAX
}

/// Joins overlapping and adjacent intervals, also with those that the set holds; returns the ones
/// that must leave it since a larger one takes their place.
pub(crate) fn auto_merge(elements: &mut Vec<Expr>, existing: &[(u128, u128)]) -> Spans {
    let spans = spans_of(elements);
    if spans.is_empty() {
        return Spans::new();
    }
    let mut joined: Vec<(u128, u128, usize)> = Vec::with_capacity(spans.len());
    for (from, to, index) in spans {
        match joined.last_mut() {
            Some(last) if touches(last.1, from) => last.1 = last.1.max(to),
            _ => joined.push((from, to, index)),
        }
    }
    let mut purge = Spans::new();
    if !existing.is_empty() {
        // A new interval inside an existing one is redundant; one with the same start replaces it.
        joined.retain(|(from, to, _)| {
            let at = existing.partition_point(|e| e.1 < *from);
            !existing.get(at).is_some_and(|e| e.0 < *from && *to <= e.1)
        });
        for span in &mut joined {
            let mut at = existing.partition_point(|e| e.1 < span.0 && !touches(e.1, span.0));
            while let Some(found) = existing.get(at)
                && touches(span.1, found.0)
            {
                purge.push(*found);
                span.0 = span.0.min(found.0);
                span.1 = span.1.max(found.1);
                at += 1;
            }
        }
        // Growing may have made neighbours meet.
        joined.dedup_by(|next, last| {
            let meet = touches(last.1, next.0);
            if meet {
                last.1 = last.1.max(next.1);
            }
            meet
        });
        purge.dedup();
    }
    let mut slots: Vec<Option<Expr>> = std::mem::take(elements).into_iter().map(Some).collect();
    let mut rest: Vec<Expr> = Vec::with_capacity(joined.len());
    for (from, to, index) in joined {
        if let Some(mut element) = slots.get_mut(index).and_then(Option::take) {
            if bounds(key_of(&element)) != Some((from, to)) {
                set_bounds(&mut element, from, to);
            }
            rest.push(element);
        }
    }
    rest.extend(
        slots.into_iter().flatten().filter(|e| matches!(key_of(e).kind, ExprKind::CatchAll)),
    );
    *elements = rest;
    purge
}

/// Deleting a part of a joined interval leaves the rest: returns the removed intervals and their
/// replacements.
pub(crate) fn split(elements: &[Expr], existing: &[(u128, u128)]) -> Result<(Spans, Spans)> {
    let (mut gone, mut left) = (Spans::new(), Spans::new());
    for (from, to, index) in spans_of(elements) {
        let loc = key_of(&elements[index]).loc;
        if let Some(piece) = left.iter().position(|p| p.0 <= from && to <= p.1) {
            let whole = left.swap_remove(piece);
            push_rest(&mut left, whole, from, to);
            continue;
        }
        let at = existing.partition_point(|e| e.1 < from);
        match existing.get(at) {
            Some(found) if found.0 <= from && to <= found.1 && !gone.contains(found) => {
                gone.push(*found);
                push_rest(&mut left, *found, from, to);
            }
            _ => return error(loc, "element does not exist"),
        }
    }
    Ok((gone, left))
}

fn push_rest(left: &mut Spans, whole: (u128, u128), from: u128, to: u128) {
    if whole.0 < from {
        left.push((whole.0, from - 1));
    }
    if to < whole.1 {
        left.push((to + 1, whole.1));
    }
}

/// What a set holds once elements were added.
pub(crate) fn with_added(info: &SetInfo, added: Spans, purge: &Spans) -> SetInfo {
    let mut info = info.clone();
    if info.intervals.is_empty() {
        info.intervals = Arc::new(Intervals::unsorted(added));
        return info;
    }
    let intervals = Arc::make_mut(&mut info.intervals).to_mut();
    if !purge.is_empty() {
        intervals.retain(|e| purge.binary_search(e).is_err());
    }
    intervals.extend(added);
    intervals.sort_unstable();
    intervals.dedup();
    info
}

/// Makes an element's key a range.
fn set_bounds(element: &mut Expr, from: u128, to: u128) {
    if let ExprKind::SetElem(elem) = &mut element.kind {
        elem.key = range_of(&elem.key, from, to);
    } else if let ExprKind::Mapping { left, .. } = &mut element.kind {
        set_bounds(left, from, to);
    } else {
        *element = range_of(element, from, to);
    }
}

/// A range (or value) of the type of `like`.
pub(crate) fn range_of(like: &Expr, from: u128, to: u128) -> Expr {
    let string = like.base() == Base::String;
    let flip = |v: u128| if string { u128::from_le_bytes(v.to_be_bytes()) } else { v };
    let dtype: Type = like.dtype.clone();
    let end = |v: u128| constant(flip(v), like.loc, dtype.clone(), like.order, like.len);
    if from == to {
        return end(from);
    }
    Expr {
        constant: true,
        ..Expr::typed(
            ExprKind::Range { left: Box::new(end(from)), right: Box::new(end(to)) },
            like.loc,
            dtype.clone(),
            like.order,
            like.len,
        )
    }
}

/// Lowest and highest key of an element of a plain key, in the byte order in which intervals are
/// compared: numbers as they are, strings by their bytes.
pub(crate) fn bounds(key: &Expr) -> Option<(u128, u128)> {
    let string = key.base() == Base::String;
    let flip = |v: u128| if string { u128::from_be_bytes(v.to_le_bytes()) } else { v };
    match &key.kind {
        ExprKind::Value(value) => Some((flip(*value), flip(*value))),
        ExprKind::Range { left, right } => Some((flip(left.value()?), flip(right.value()?))),
        ExprKind::Prefix { base, len } => {
            let from = flip(base.value()?);
            let bits = if string { 128 } else { base.len };
            Some((from, from | bitmask(bits.saturating_sub(*len))))
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
        | ExprKind::FlagCmp { .. } => None,
    }
}
