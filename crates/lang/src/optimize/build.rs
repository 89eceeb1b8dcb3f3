// SPDX-License-Identifier: Apache-2.0

//! The rule that takes the place of others, and its text.

use std::sync::Arc;

use penstock_syntax::ast::expr::{RelOp, SetElem, SetExprFlags, SymbolKind};
use penstock_syntax::ast::{Expr, ExprKind, RuleBlock, Stmt, StmtKind};
use penstock_syntax::datatype::{DataType, Format, Type};
use penstock_syntax::names::Names;
use penstock_syntax::print::{expr_text, stmts_text};

use super::group::{Group, Into};
use super::row::{Columns, End, Row};

/// The rule that a group becomes; `first` is the first of its rules.
pub(super) fn merged(first: &RuleBlock, group: &Group<'_>, columns: &Columns) -> RuleBlock {
    let row = group.rows[0];
    let is_key =
        |number: usize| row.cells.iter().any(|c| c.stmt == number && group.key.contains(&c.column));
    let mut stmts = Vec::new();
    let mut placed = false;
    for (number, stmt) in first.stmts.iter().enumerate() {
        match &stmt.kind {
            // The key stands where the first of its fields stood.
            StmtKind::Match(e) if is_key(number) => {
                if group.into == Into::Set && !placed {
                    placed = true;
                    stmts.push(set_match(e, group, columns));
                }
            }
            StmtKind::Counter { .. } => {
                if group.into != Into::Verdicts {
                    stmts.push(Stmt { kind: sum(group), loc: stmt.loc });
                }
            }
            StmtKind::Verdict(e) => {
                let e = match group.into {
                    Into::Set => e.clone(),
                    Into::Verdicts => mapped(selector(group, columns), verdicts(group), true, e),
                    Into::JoinedMap | Into::NatMap => joined(e, group),
                };
                stmts.push(Stmt { kind: StmtKind::Verdict(e), loc: stmt.loc });
            }
            StmtKind::Nat(nat) if group.into == Into::NatMap => {
                let mut nat = nat.clone();
                if let Some(addr) = nat.addr.take() {
                    nat.addr = Some(mapped(selector(group, columns), targets(group), false, &addr));
                }
                nat.port = None;
                stmts.push(Stmt { kind: StmtKind::Nat(nat), loc: stmt.loc });
            }
            // What else rules have, all of the group have.
            _ => stmts.push(stmt.clone()),
        }
    }
    RuleBlock { stmts, loc: first.loc, ..RuleBlock::default() }
}

/// What the key looks at.
fn selector(group: &Group<'_>, columns: &Columns) -> Expr {
    let mut parts: Vec<Expr> =
        group.key.iter().filter_map(|c| columns.selectors.get(*c).cloned()).collect();
    match parts.len() {
        1 => parts.swap_remove(0),
        _ => Expr::new(ExprKind::Concat(parts), Default::default()),
    }
}

/// The elements of a rule, every combination of its values.
fn elements(row: &Row, key: &[usize]) -> Vec<Expr> {
    let cells: Vec<&Vec<Expr>> =
        row.cells.iter().filter(|c| key.contains(&c.column)).map(|c| &c.elements).collect();
    if let [only] = cells[..] {
        return only.clone();
    }
    let mut out: Vec<Vec<Expr>> = vec![Vec::new()];
    for elements in cells {
        out = out
            .iter()
            .flat_map(|before| {
                elements.iter().map(move |e| before.iter().chain([e]).cloned().collect())
            })
            .collect();
    }
    out.into_iter()
        .map(|parts| {
            let loc = parts.first().map(|p| p.loc).unwrap_or_default();
            Expr::new(ExprKind::Concat(parts), loc)
        })
        .collect()
}

fn set(elements: Vec<Expr>, anonymous: bool, like: &Expr) -> Expr {
    let flags = SetExprFlags { anonymous, ..SetExprFlags::default() };
    Expr::new(ExprKind::Set { elements, flags }, like.loc)
}

/// `KEY { … }`
fn set_match(e: &Expr, group: &Group<'_>, columns: &Columns) -> Stmt {
    let elements = group.rows.iter().flat_map(|row| elements(row, &group.key)).collect();
    let written = e.relational().map(|(op, _, _)| op).filter(|_| group.key.len() == 1);
    let op = written.unwrap_or(RelOp::Implicit);
    let mut left = selector(group, columns);
    left.loc = e.loc;
    let right = Box::new(set(elements, true, e));
    let kind = ExprKind::Relational { op, left: Box::new(left), right };
    Stmt { kind: StmtKind::Match(Expr::new(kind, e.loc)), loc: e.loc }
}

/// `KEY vmap { … }`, `KEY map { … }`
fn mapped(mut key: Expr, mappings: Vec<Expr>, verdicts: bool, like: &Expr) -> Expr {
    key.loc = like.loc;
    let mappings = Box::new(set(mappings, true, like));
    let mut e = Expr::new(ExprKind::Map { key: Box::new(key), mappings }, like.loc);
    if verdicts {
        e.dtype = Type::Base(DataType::Verdict);
    }
    e
}

fn mapping(key: Expr, data: Expr) -> Expr {
    let loc = key.loc;
    Expr::new(ExprKind::Mapping { left: Box::new(key), right: Box::new(data) }, loc)
}

/// The verdicts of rules, and their counters, by element. What a rule had counted goes with its
/// first element.
fn verdicts(group: &Group<'_>) -> Vec<Expr> {
    let mut out = Vec::new();
    for row in &group.rows {
        let End::Verdict { verdict, .. } = &row.end else { continue };
        let mut counter = row.others.first().cloned();
        for key in elements(row, &group.key) {
            let loc = key.loc;
            let key = match &mut counter {
                Some(stmt) => {
                    let stmts = vec![stmt.clone()];
                    stmt.kind = StmtKind::Counter { packets: 0, bytes: 0 };
                    let elem = SetElem { key, timeout: None, expires: None, comment: None, stmts };
                    Expr::new(ExprKind::SetElem(Box::new(elem)), loc)
                }
                None => key,
            };
            out.push(mapping(key, verdict.clone()));
        }
    }
    out
}

/// The targets of NAT statements, by element.
fn targets(group: &Group<'_>) -> Vec<Expr> {
    let mut out = Vec::new();
    for row in &group.rows {
        let End::Nat(nat) = &row.end else { continue };
        let Some(addr) = &nat.addr else { continue };
        let data = match &nat.port {
            Some(port) => Expr::new(ExprKind::Concat(vec![addr.clone(), port.clone()]), addr.loc),
            None => addr.clone(),
        };
        out.extend(elements(row, &group.key).into_iter().map(|key| mapping(key, data.clone())));
    }
    out
}

/// The first map with the elements of all.
fn joined(first: &Expr, group: &Group<'_>) -> Expr {
    let ExprKind::Map { key, mappings } = &first.kind else { return first.clone() };
    let all = group.rows.iter().flat_map(|row| match &row.end {
        End::Map { mappings, .. } => mappings.clone(),
        _ => Vec::new(),
    });
    let mappings = Box::new(set(all.collect(), false, mappings));
    Expr { kind: ExprKind::Map { key: key.clone(), mappings }, ..first.clone() }
}

/// One counter that continues from the sum of all.
fn sum(group: &Group<'_>) -> StmtKind {
    let (mut packets, mut bytes) = (0u64, 0u64);
    for row in &group.rows {
        for stmt in &row.others {
            if let StmtKind::Counter { packets: p, bytes: b } = &stmt.kind {
                packets = packets.wrapping_add(*p);
                bytes = bytes.wrapping_add(*b);
            }
        }
    }
    StmtKind::Counter { packets, bytes }
}

/// nft prints the set of a rule as it was written with each element on its line.
const BETWEEN_ELEMENTS: &str = ",\n\t\t\t     ";

/// A merged rule as nft prints it: names without quotes.
pub(super) fn text(
    rule: &RuleBlock,
    group: &Group<'_>,
    format: Format,
    names: &dyn Names,
) -> String {
    let mut stmts = rule.stmts.clone();
    stmts.iter_mut().for_each(unquote);
    if group.into != Into::JoinedMap {
        return stmts_text(&stmts, format, names);
    }
    let Some(Stmt { kind: StmtKind::Verdict(e), .. }) = stmts.pop() else { return String::new() };
    let ExprKind::Map { key, mappings } = &e.kind else { return String::new() };
    let ExprKind::Set { elements, .. } = &mappings.kind else { return String::new() };
    let mut out = stmts_text(&stmts, format, names);
    if !out.is_empty() {
        out.push(' ');
    }
    let elements: Vec<String> = elements.iter().map(|e| expr_text(e, format, names)).collect();
    out.push_str(&format!(
        "{} vmap {{ {} }}",
        expr_text(key, format, names),
        elements.join(BETWEEN_ELEMENTS)
    ));
    out
}

fn unquote(stmt: &mut Stmt) {
    if let StmtKind::Match(e) = &mut stmt.kind {
        if let ExprKind::Relational { right, .. } = &mut e.kind {
            unquote_expr(right);
        }
    } else if let StmtKind::Verdict(e) = &mut stmt.kind {
        unquote_expr(e);
    } else if let StmtKind::Nat(nat) = &mut stmt.kind {
        nat.addr.iter_mut().for_each(unquote_expr);
    }
}

fn unquote_expr(e: &mut Expr) {
    match &mut e.kind {
        ExprKind::String(text) => {
            let text: Arc<str> = text.clone();
            e.kind = ExprKind::Symbol { kind: SymbolKind::Value, text };
        }
        ExprKind::Set { elements, .. } | ExprKind::Concat(elements) => {
            elements.iter_mut().for_each(unquote_expr);
        }
        ExprKind::SetElem(elem) => unquote_expr(&mut elem.key),
        ExprKind::Mapping { left, .. } => unquote_expr(left),
        ExprKind::Map { mappings, .. } => unquote_expr(mappings),
        ExprKind::Symbol { .. }
        | ExprKind::Variable { .. }
        | ExprKind::Value(_)
        | ExprKind::Verdict(_)
        | ExprKind::Prefix { .. }
        | ExprKind::Range { .. }
        | ExprKind::List(_)
        | ExprKind::CatchAll
        | ExprKind::SetRef { .. }
        | ExprKind::Payload(_)
        | ExprKind::Exthdr(_)
        | ExprKind::Key(_)
        | ExprKind::Hash { .. }
        | ExprKind::Unary { .. }
        | ExprKind::Binop { .. }
        | ExprKind::Relational { .. }
        | ExprKind::FlagCmp { .. } => {}
    }
}
