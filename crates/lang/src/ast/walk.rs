//! Visiting all expressions of a tree.

use crate::ast::cmd::RuleBlock;
use crate::ast::expr::{Expr, ExprKind, VerdictExpr};
use crate::ast::stmt::{Stmt, StmtKind};

/// All expressions of a rule, outer ones first.
pub(crate) fn rule(rule: &RuleBlock, visit: &mut dyn FnMut(&Expr)) {
    rule.stmts.iter().for_each(|s| stmt(s, visit));
    rule.rules.iter().for_each(|r| self::rule(r, visit));
}

/// All expressions of a statement.
pub(crate) fn stmt(stmt: &Stmt, visit: &mut dyn FnMut(&Expr)) {
    let mut some = |e: &Option<Expr>| {
        if let Some(e) = e {
            expr(e, visit);
        }
    };
    match &stmt.kind {
        StmtKind::Match(e) | StmtKind::Verdict(e) => expr(e, visit),
        StmtKind::ObjRef { expr: e, .. }
        | StmtKind::MetaSet { expr: e, .. }
        | StmtKind::CtSet { expr: e, .. }
        | StmtKind::ExthdrReset { target: e } => expr(e, visit),
        StmtKind::PayloadSet { target, value } | StmtKind::ExthdrSet { target, value } => {
            expr(target, visit);
            expr(value, visit);
        }
        StmtKind::Log(log) => some(&log.prefix),
        StmtKind::Reject(reject) => some(&reject.expr),
        StmtKind::Nat(nat) => {
            some(&nat.addr);
            some(&nat.port);
        }
        StmtKind::Tproxy { addr, port, .. } => {
            some(addr);
            some(port);
        }
        StmtKind::Queue { expr, .. } => some(expr),
        StmtKind::Dup { to, dev } => {
            some(to);
            some(dev);
        }
        StmtKind::Fwd { dev, addr, .. } => {
            some(addr);
            expr(dev, visit);
        }
        StmtKind::SetUpdate { set, key, stmts, .. } => {
            expr(set, visit);
            expr(key, visit);
            stmts.iter().for_each(|s| self::stmt(s, visit));
        }
        StmtKind::MapUpdate { map, key, data, stmts, .. } => {
            expr(map, visit);
            expr(key, visit);
            expr(data, visit);
            stmts.iter().for_each(|s| self::stmt(s, visit));
        }
        StmtKind::Meter { key, stmt: inner, .. } => {
            expr(key, visit);
            self::stmt(inner, visit);
        }
        StmtKind::Chain { block, .. } => rule(block, visit),
        StmtKind::Counter { .. }
        | StmtKind::Limit(_)
        | StmtKind::Quota { .. }
        | StmtKind::Last { .. }
        | StmtKind::CtCount { .. }
        | StmtKind::Synproxy { .. }
        | StmtKind::Notrack
        | StmtKind::FlowOffload { .. }
        | StmtKind::Xt { .. } => {}
    }
}

/// An expression and all in it.
pub(crate) fn expr(e: &Expr, visit: &mut dyn FnMut(&Expr)) {
    visit(e);
    match &e.kind {
        ExprKind::Prefix { base: inner, .. } | ExprKind::Unary { expr: inner, .. } => expr(inner, visit),
        ExprKind::Range { left, right }
        | ExprKind::Mapping { left, right }
        | ExprKind::Binop { left, right, .. }
        | ExprKind::Relational { left, right, .. }
        | ExprKind::Map { key: left, mappings: right } => {
            expr(left, visit);
            expr(right, visit);
        }
        ExprKind::Concat(parts) | ExprKind::List(parts) | ExprKind::Set { elements: parts, .. } => {
            parts.iter().for_each(|p| expr(p, visit));
        }
        ExprKind::SetElem(elem) => {
            expr(&elem.key, visit);
            elem.stmts.iter().for_each(|s| stmt(s, visit));
        }
        ExprKind::Hash { expr: inner, .. } => inner.iter().for_each(|e| expr(e, visit)),
        ExprKind::FlagCmp { expr: inner, value, mask, .. } => {
            expr(inner, visit);
            expr(value, visit);
            expr(mask, visit);
        }
        ExprKind::Verdict(VerdictExpr::Jump(to) | VerdictExpr::Goto(to)) => expr(to, visit),
        ExprKind::Verdict(_)
        | ExprKind::Symbol { .. }
        | ExprKind::Variable { .. }
        | ExprKind::Value(_)
        | ExprKind::String(_)
        | ExprKind::CatchAll
        | ExprKind::SetRef { .. }
        | ExprKind::Payload(_)
        | ExprKind::Exthdr(_)
        | ExprKind::Meta { .. }
        | ExprKind::Ct { .. }
        | ExprKind::Rt { .. }
        | ExprKind::Fib { .. }
        | ExprKind::Socket { .. }
        | ExprKind::Osf { .. }
        | ExprKind::Xfrm { .. }
        | ExprKind::Tunnel { .. }
        | ExprKind::Numgen { .. } => {}
    }
}
