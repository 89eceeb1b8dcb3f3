// SPDX-License-Identifier: Apache-2.0

//! Matches of adjacent header fields become one: `tcp sport 1 tcp dport 2` loads four bytes.

use penstock_program::expr::PayloadBase;
use penstock_syntax::ast::expr::{Payload, RelOp};
use penstock_syntax::ast::{Expr, ExprKind, Stmt, StmtKind};

use crate::eval::dependency::is_protocol_field;
use crate::eval::tunnel::is_meta;

/// The field and constant of a match that can be merged.
fn parts(stmt: &Stmt) -> Option<(RelOp, &Payload, &Expr, &Expr)> {
    let StmtKind::Match(e) = &stmt.kind else { return None };
    let ExprKind::Relational { op, left, right } = &e.kind else { return None };
    if !matches!(op, RelOp::Implicit | RelOp::Eq | RelOp::Neq) || right.value().is_none() {
        return None;
    }
    let ExprKind::Payload(payload) = &left.kind else { return None };
    if is_meta(payload) {
        return None;
    }
    let op = if *op == RelOp::Neq { RelOp::Neq } else { RelOp::Eq };
    Some((op, payload, left, right))
}

fn order(base: PayloadBase) -> u8 {
    match base {
        PayloadBase::Link => 0,
        PayloadBase::Network => 1,
        PayloadBase::Transport => 2,
        PayloadBase::Inner => 3,
        PayloadBase::Tunnel => 4,
    }
}

/// Merges the matches of each run of matches in a rule.
pub(crate) fn merge_payloads(stmts: &mut Vec<Stmt>) {
    let mut candidates: Vec<usize> = Vec::new();
    let mut dead = vec![false; stmts.len()];
    for i in 0..stmts.len() {
        if !matches!(stmts[i].kind, StmtKind::Match(_)) {
            merge_run(stmts, &mut candidates, &mut dead);
        } else if parts(&stmts[i]).is_some() {
            candidates.push(i);
        }
    }
    merge_run(stmts, &mut candidates, &mut dead);
    if dead.contains(&true) {
        let mut dead = dead.into_iter();
        stmts.retain(|_| !dead.next().unwrap_or(false));
    }
}

fn merge_run(stmts: &mut [Stmt], candidates: &mut Vec<usize>, dead: &mut [bool]) {
    let mut run = std::mem::take(candidates);
    if run.len() < 2 {
        return;
    }
    run.sort_by_key(|&i| {
        parts(&stmts[i]).map(|(_, p, _, _)| (p.tunnel().map(|t| t.name), order(p.base), p.offset))
    });
    let mut last = run[0];
    for &this in &run[1..] {
        match merged(&stmts[last], &stmts[this]) {
            Some((e, keep_this)) => {
                let (kept, gone) = if keep_this { (this, last) } else { (last, this) };
                stmts[kept].kind = StmtKind::Match(e);
                dead[gone] = true;
                last = kept;
            }
            None => last = this,
        }
    }
}

/// Both matches as one, and whether it takes the place of the second: a match that tells which
/// header follows must not move after those that rely on it.
fn merged(first: &Stmt, second: &Stmt) -> Option<(Expr, bool)> {
    let (op, a, a_left, a_right) = parts(first)?;
    let (other, b, b_left, b_right) = parts(second)?;
    let adjacent =
        a.tunnel() == b.tunnel() && a.base == b.base && a.offset + a_left.len == b.offset;
    let aligned = [a.offset, a_left.len, b.offset, b_left.len].iter().all(|n| n % 8 == 0);
    let total = a_left.len + b_left.len;
    // Comparing one word is fast in the kernel, so words stay what they are.
    let words = a_left.len <= 32 && b_left.len <= 32 && total > 32;
    if op != other || !adjacent || !aligned || words || total > 128 {
        return None;
    }
    let value = number(a_right)? << b_left.len | number(b_right)?;
    let keep_second =
        matches!((b.proto, b.field), (Some(proto), Some(field)) if is_protocol_field(proto, field));
    let mut left = a_left.clone();
    left.len = total;
    if let ExprKind::Payload(payload) = &mut left.kind {
        payload.field = b.field.filter(|_| keep_second);
        payload.raw = true;
    }
    left.order = penstock_syntax::datatype::ByteOrder::Big;
    let mut right = a_right.clone();
    right.kind = ExprKind::Value(value);
    right.len = total;
    right.order = penstock_syntax::datatype::ByteOrder::Big;
    let StmtKind::Match(whole) = &first.kind else { return None };
    let mut e = whole.clone();
    e.kind = ExprKind::Relational { op, left: Box::new(left), right: Box::new(right) };
    Some((e, keep_second))
}

/// A constant as the number that its bytes in the packet are.
fn number(e: &Expr) -> Option<u128> {
    let value = e.value()?;
    let bytes = e.len.div_ceil(8) as usize;
    if e.order == penstock_syntax::datatype::ByteOrder::Host && bytes > 1 {
        let le = value.to_le_bytes();
        return Some(le.get(..bytes)?.iter().fold(0, |n, b| n << 8 | u128::from(*b)));
    }
    Some(value)
}
