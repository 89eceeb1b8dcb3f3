// SPDX-License-Identifier: Apache-2.0

//! What a match says: a selector, and for which of its values it is true.
//!
//! Optimisation and lint reason about rules before they are compiled, on matches as they were
//! written. A [`Match`] has the selector without its places, so that selectors compare, and the
//! values as numbers.

use std::sync::Arc;

use penstock_program::expr::CtKey;
use penstock_syntax::ast::expr::{RelOp, SymbolKind};
use penstock_syntax::ast::{Expr, ExprKind, Key, Stmt, StmtKind};
use penstock_syntax::bits::bitmask;
use penstock_syntax::datatype::{Base, DataType, Type};
use penstock_syntax::source::Loc;

use crate::eval::Eval;

/// First and last value of one field.
pub(crate) type Range = (u128, u128);

/// One range per field: a single one for plain selectors.
pub(crate) type Ranges = Vec<Range>;

/// When a match is true.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Says {
    /// The value is in one of these.
    Values(Vec<Ranges>),
    /// Any of these bits is set.
    AnyBit(u128),
    /// A set of the ruleset has it.
    InSet(Arc<str>),
}

/// A match of a rule, understood.
#[derive(Clone, Debug)]
pub(crate) struct Match {
    /// What is looked at, without places.
    pub selector: Expr,
    /// How it was compared.
    pub op: RelOp,
    /// When it is true.
    pub says: Says,
    /// The right side asks for presence.
    pub boolean: bool,
    /// Its values are flags.
    pub flags: bool,
    /// A name that ends in `*` is among the values.
    pub wildcard: bool,
    /// The field fills whole bytes, and needs no mask or shift.
    pub whole: bool,
}

/// A selector without places; `None` for what is not one, or gives something else each time it is
/// asked.
pub(crate) fn without_places(e: &Expr) -> Option<Expr> {
    let kind = match &e.kind {
        ExprKind::Payload(_)
        | ExprKind::Exthdr(_)
        | ExprKind::Value(_)
        | ExprKind::Symbol { kind: SymbolKind::Value, .. } => e.kind.clone(),
        ExprKind::Key(key) if !key.is_generator() => e.kind.clone(),
        ExprKind::Binop { op, left, right } => ExprKind::Binop {
            op: *op,
            left: Box::new(without_places(left)?),
            right: Box::new(without_places(right)?),
        },
        ExprKind::Concat(parts) => {
            ExprKind::Concat(parts.iter().map(without_places).collect::<Option<_>>()?)
        }
        ExprKind::Hash { expr, modulus, seed: Some(seed), offset } => ExprKind::Hash {
            expr: Box::new(without_places(expr)?),
            modulus: *modulus,
            seed: Some(*seed),
            offset: *offset,
        },
        ExprKind::Symbol { .. }
        | ExprKind::Variable { .. }
        | ExprKind::String(_)
        | ExprKind::Verdict(_)
        | ExprKind::Prefix { .. }
        | ExprKind::Range { .. }
        | ExprKind::List(_)
        | ExprKind::Set { .. }
        | ExprKind::SetElem(_)
        | ExprKind::CatchAll
        | ExprKind::Mapping { .. }
        | ExprKind::Map { .. }
        | ExprKind::SetRef { .. }
        | ExprKind::Key(_)
        | ExprKind::Hash { .. }
        | ExprKind::Unary { .. }
        | ExprKind::Relational { .. }
        | ExprKind::FlagCmp { .. } => return None,
    };
    Some(Expr { kind, loc: Loc::default(), ..e.clone() })
}

/// The connection's state has one bit set in every packet, so that a test of flags is one of
/// values.
fn one_bit(selector: &Expr) -> bool {
    matches!(selector.kind, ExprKind::Key(Key::Ct { key: CtKey::State, .. }))
}

impl Match {
    /// Understands a statement; `None` if it is not a match, or says more than this can hold.
    pub fn read(stmt: &Stmt, eval: &mut Eval<'_, '_>) -> Option<Match> {
        let StmtKind::Match(e) = &stmt.kind else { return None };
        let ExprKind::Relational { op, left, right } = &e.kind else { return None };
        Self::of(*op, left, right, eval)
    }

    /// Understands a comparison by its sides.
    pub fn of(op: RelOp, left: &Expr, right: &Expr, eval: &mut Eval<'_, '_>) -> Option<Match> {
        let mut selector = without_places(left)?;
        let (mut left, mut right) = (left.clone(), right.clone());
        let boolean = right.dtype == Type::Base(DataType::Boolean);
        if boolean && let ExprKind::Key(Key::Fib { flags, .. }) = &mut left.kind {
            // NFTA_FIB_F_PRESENT: `fib … oif exists` asks for something else than `fib … oif`.
            *flags |= 32;
            selector = without_places(&left)?;
        }
        eval.expected = crate::eval::context::Expected::default();
        eval.expr(&mut left).ok()?;
        eval.expected = crate::eval::context::Expected::like(&left);
        eval.expr(&mut right).ok()?;
        eval.inserted.clear();
        let whole =
            !matches!(left.kind, ExprKind::Binop { .. }) && left.len % 8 == 0 && left.len > 0;
        let flags = left.dtype.is_bitmask();
        let mut found = Match {
            selector,
            op,
            says: Says::Values(Vec::new()),
            boolean: boolean || left.dtype == Type::Base(DataType::Boolean),
            flags,
            wildcard: false,
            whole,
        };
        let equal = matches!(op, RelOp::Implicit | RelOp::Eq);
        if let ExprKind::SetRef { set } = &right.kind {
            found.says = Says::InSet(set.clone());
            return equal.then_some(found);
        }
        if flags && !matches!(right.kind, ExprKind::Set { .. }) {
            let value = right.value().filter(|_| equal)?;
            found.says = match op {
                RelOp::Eq => Says::Values(vec![vec![(value, value)]]),
                _ if one_bit(&found.selector) => {
                    let bits = (0..128).map(|i| 1 << i).filter(|bit| value & bit != 0);
                    Says::Values(bits.map(|bit| vec![(bit, bit)]).collect())
                }
                _ => Says::AnyBit(value),
            };
            return (value != 0).then_some(found);
        }
        let mut values = Vec::new();
        found.wildcard = collect(&right, &mut values)?;
        let max = bitmask(left.len);
        found.says = Says::Values(match op {
            _ if equal => values,
            _ if flags || left.base() != Base::Integer => return None,
            RelOp::Neq => complement(values, max)?,
            RelOp::Lt | RelOp::Lte | RelOp::Gt | RelOp::Gte => {
                let value = right.value()?;
                let range = match op {
                    RelOp::Lt => (0, value.checked_sub(1)?),
                    RelOp::Lte => (0, value),
                    RelOp::Gt => (value.checked_add(1).filter(|v| *v <= max)?, max),
                    _ => (value, max),
                };
                vec![vec![range]]
            }
            _ => return None,
        });
        Some(found)
    }

    /// The values, where there are any.
    pub fn values(&self) -> Option<&[Ranges]> {
        match &self.says {
            Says::Values(values) => Some(values),
            _ => None,
        }
    }

    /// Whether this is true wherever `other`, of the same selector, is.
    pub fn covers(&self, other: &Match) -> bool {
        match (&self.says, &other.says) {
            (Says::Values(mine), Says::Values(others)) => {
                let mine = joined(mine);
                others.iter().all(|o| mine.iter().any(|m| contains(m, o)))
            }
            (Says::AnyBit(mine), Says::AnyBit(other)) => other & !mine == 0,
            (Says::AnyBit(mine), Says::Values(others)) => others
                .iter()
                .all(|o| matches!(o[..], [(first, last)] if first == last && first & mine != 0)),
            (Says::InSet(mine), Says::InSet(other)) => mine == other,
            _ => false,
        }
    }
}

/// Whether every tuple of values of `inner` is one of `outer`.
fn contains(outer: &Ranges, inner: &Ranges) -> bool {
    outer.len() == inner.len() && outer.iter().zip(inner).all(|(o, i)| o.0 <= i.0 && i.1 <= o.1)
}

/// Whether some tuple of values is in both.
pub(crate) fn overlap(a: &Ranges, b: &Ranges) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.0 <= b.1 && b.0 <= a.1)
}

/// Neighbouring ranges of plain selectors made one.
fn joined(values: &[Ranges]) -> Vec<Ranges> {
    let mut values = values.to_vec();
    if values.iter().any(|v| v.len() != 1) {
        return values;
    }
    values.sort_unstable();
    let mut out: Vec<Ranges> = Vec::with_capacity(values.len());
    for value in values {
        match out.last_mut().and_then(|v| v.first_mut()) {
            Some(before) if value[0].0 <= before.1.saturating_add(1) => {
                before.1 = before.1.max(value[0].1)
            }
            _ => out.push(value),
        }
    }
    out
}

/// All other values; `None` for concatenations, and if no values remain.
fn complement(values: Vec<Ranges>, max: u128) -> Option<Vec<Ranges>> {
    let mut out = Vec::new();
    let mut next = Some(0u128);
    for value in joined(&values) {
        let [(first, last)] = value[..] else { return None };
        let from = next?;
        if first > from {
            out.push(vec![(from, first - 1)]);
        }
        next = last.checked_add(1);
    }
    if let Some(from) = next.filter(|from| *from <= max) {
        out.push(vec![(from, max)]);
    }
    (!out.is_empty()).then_some(out)
}

/// Adds the values of an evaluated right side; says whether there is a wildcard among them.
fn collect(e: &Expr, out: &mut Vec<Ranges>) -> Option<bool> {
    match &e.kind {
        ExprKind::Set { elements, .. } => {
            let mut wildcard = false;
            for element in elements {
                wildcard |= collect(element, out)?;
            }
            Some(wildcard)
        }
        ExprKind::SetElem(elem) => collect(&elem.key, out),
        ExprKind::Mapping { left, .. } => collect(left, out),
        ExprKind::Concat(parts) => {
            let mut ranges = Vec::with_capacity(parts.len());
            let mut wildcard = false;
            for part in parts {
                let (found, wild) = range(part)?;
                ranges.push(found);
                wildcard |= wild;
            }
            out.push(ranges);
            Some(wildcard)
        }
        ExprKind::Symbol { .. }
        | ExprKind::Variable { .. }
        | ExprKind::Value(_)
        | ExprKind::String(_)
        | ExprKind::Verdict(_)
        | ExprKind::Prefix { .. }
        | ExprKind::Range { .. }
        | ExprKind::List(_)
        | ExprKind::CatchAll
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
            let (found, wildcard) = range(e)?;
            out.push(vec![found]);
            Some(wildcard)
        }
    }
}

/// First and last value of one field, and whether it is a name that ends in `*`. Names are ordered
/// by their letters.
fn range(e: &Expr) -> Option<(Range, bool)> {
    let string = e.base() == Base::String;
    match &e.kind {
        ExprKind::Value(v) if string => Some(((v.swap_bytes(), v.swap_bytes()), false)),
        ExprKind::Value(v) => Some(((*v, *v), false)),
        ExprKind::Prefix { base, len } if base.base() == Base::String => {
            let first = base.value()?.swap_bytes();
            Some(((first, first | bitmask(128u32.checked_sub(*len)?)), true))
        }
        ExprKind::Prefix { base, len } => {
            let first = base.value()?;
            Some(((first, first | bitmask(base.len.checked_sub(*len)?)), false))
        }
        ExprKind::Range { left, right } if e.dtype != Type::Base(DataType::TimeHour) => {
            let (first, last) = (left.value()?, right.value()?);
            (first <= last).then_some(((first, last), false))
        }
        ExprKind::Symbol { .. }
        | ExprKind::Variable { .. }
        | ExprKind::String(_)
        | ExprKind::Verdict(_)
        | ExprKind::Range { .. }
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
