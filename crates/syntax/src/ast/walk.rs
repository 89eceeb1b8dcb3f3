// SPDX-License-Identifier: Apache-2.0

//! Visiting all expressions of a tree.

use crate::ast::expr::VerdictExpr;
use crate::ast::{Expr, ExprKind, RuleBlock, Stmt, StmtKind};

/// All expressions of a rule, outer ones first.
pub fn rule(rule: &RuleBlock, visit: &mut dyn FnMut(&Expr)) {
    rule.stmts.iter().for_each(|s| stmt(s, visit));
    rule.rules.iter().for_each(|r| self::rule(r, visit));
}

/// All expressions of a statement.
pub fn stmt(stmt: &Stmt, visit: &mut dyn FnMut(&Expr)) {
    stmt.kind.operands().into_iter().for_each(|e| expr(e, visit));
    stmt.kind.inner().iter().for_each(|s| self::stmt(s, visit));
    if let StmtKind::Chain { block, .. } = &stmt.kind {
        rule(block, visit);
    }
}

/// An expression and all in it.
pub fn expr(e: &Expr, visit: &mut dyn FnMut(&Expr)) {
    visit(e);
    children(e, &mut |inner| expr(inner, visit));
    if let ExprKind::SetElem(elem) = &e.kind {
        elem.stmts.iter().for_each(|s| stmt(s, visit));
    }
}

/// How many expressions and statements an expression is made of, and how deep they are nested (1
/// for one alone).
pub fn measure(e: &Expr) -> (u64, u32) {
    let (mut size, mut depth) = (1, 0);
    children(e, &mut |inner| {
        let (inner, below) = measure(inner);
        size += inner;
        depth = depth.max(below);
    });
    if let ExprKind::SetElem(elem) = &e.kind {
        size += elem.stmts.len() as u64;
        elem.stmts.iter().for_each(|s| stmt(s, &mut |_| size += 1));
    }
    (size, depth + 1)
}

/// The expressions that an expression is directly made of, but for those of statements.
fn children(e: &Expr, visit: &mut dyn FnMut(&Expr)) {
    match &e.kind {
        ExprKind::Prefix { base: inner, .. }
        | ExprKind::Unary { expr: inner, .. }
        | ExprKind::Hash { expr: inner, .. } => visit(inner),
        ExprKind::Range { left, right }
        | ExprKind::Mapping { left, right }
        | ExprKind::Binop { left, right, .. }
        | ExprKind::Relational { left, right, .. }
        | ExprKind::Map { key: left, mappings: right } => {
            visit(left);
            visit(right);
        }
        ExprKind::Concat(parts) | ExprKind::List(parts) | ExprKind::Set { elements: parts, .. } => {
            parts.iter().for_each(visit);
        }
        ExprKind::SetElem(elem) => visit(&elem.key),
        ExprKind::FlagCmp { expr: inner, value, mask, .. } => {
            visit(inner);
            visit(value);
            visit(mask);
        }
        ExprKind::Verdict(VerdictExpr::Jump(to) | VerdictExpr::Goto(to)) => visit(to),
        ExprKind::Verdict(_)
        | ExprKind::Symbol { .. }
        | ExprKind::Variable { .. }
        | ExprKind::Value(_)
        | ExprKind::String(_)
        | ExprKind::CatchAll
        | ExprKind::SetRef { .. }
        | ExprKind::Payload(_)
        | ExprKind::Exthdr(_)
        | ExprKind::Key(_) => {}
    }
}
