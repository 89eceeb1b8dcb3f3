// SPDX-License-Identifier: Apache-2.0

//! A rule as a row of a table; its columns are the selectors of the chain.

use penstock_ruleset::model::Family;
use penstock_syntax::ast::expr::{RelOp, SymbolKind, VerdictExpr, key_of};
use penstock_syntax::ast::stmt::{Nat, NatKind};
use penstock_syntax::ast::{Expr, ExprKind, Key, RuleBlock, Stmt, StmtKind};
use penstock_syntax::datatype::Format;
use penstock_syntax::names::Names;
use penstock_syntax::print::stmts_text;
use penstock_syntax::source::Loc;

use crate::eval::{Context, Eval};
use crate::selector::{Match, Says, without_places};

/// The selectors of a chain, in the order in which its rules first name them: that of fields in
/// concatenations.
#[derive(Default)]
pub(super) struct Columns {
    /// Without places.
    pub selectors: Vec<Expr>,
}

impl Columns {
    fn number(&mut self, selector: &Expr) -> usize {
        self.selectors.iter().position(|s| s == selector).unwrap_or_else(|| {
            self.selectors.push(selector.clone());
            self.selectors.len() - 1
        })
    }
}

/// One match of a rule.
pub(super) struct Cell {
    /// Number of the selector.
    pub column: usize,
    /// Number of the statement in the rule.
    pub stmt: usize,
    pub means: Match,
    /// The values as written; empty where they cannot be elements of a set.
    pub elements: Vec<Expr>,
}

/// How a rule ends.
pub(super) enum End {
    /// Continues with the next rule.
    None,
    /// One verdict for all of its packets. The text tells verdicts apart.
    Verdict { verdict: Expr, text: String },
    /// A verdict by this selector.
    Map { key: Expr, mappings: Vec<Expr>, values: Vec<crate::selector::Ranges> },
    /// `reject …`, `queue …`
    Stmt(String),
    /// `snat to ADDRESS`, `dnat to ADDRESS:PORT`
    Nat(Box<Nat>),
}

/// A rule that may be part of a merge.
pub(super) struct Row {
    /// By column.
    pub cells: Vec<Cell>,
    /// Between the matches and the end, in order.
    pub others: Vec<Stmt>,
    /// `others` as text, without state.
    pub others_text: String,
    pub end: End,
}

impl Row {
    /// Reads a rule: matches, then counters and the like, then the end. `None` for rules that do
    /// more.
    pub fn read(
        rule: &RuleBlock,
        columns: &mut Columns,
        ctx: &mut Context<'_>,
        family: Family,
        table: &std::sync::Arc<str>,
    ) -> Option<Row> {
        let names = ctx.names;
        let mut cells: Vec<Cell> = Vec::new();
        let mut others = Vec::new();
        let mut end = End::None;
        // All selectors of the chain count for the order, whatever else their rules do.
        let mut usable = rule.rules.is_empty();
        for (number, stmt) in rule.stmts.iter().enumerate() {
            let mut eval = Eval::new(ctx, family, Some(table.clone()));
            match &stmt.kind {
                StmtKind::Match(_) => {
                    let Some(means) = Match::read(stmt, &mut eval) else {
                        usable = false;
                        continue;
                    };
                    let column = columns.number(&means.selector);
                    let elements = elements(stmt, rule.loc, &means);
                    let twice = cells.iter().any(|c| c.column == column);
                    // A counter before a match counts packets that other rules of the merge match.
                    if twice
                        || !others.is_empty()
                        || !matches!(means.says, Says::Values(_) | Says::AnyBit(_))
                    {
                        usable = false;
                    }
                    cells.push(Cell { column, stmt: number, means, elements });
                }
                StmtKind::Counter { .. } | StmtKind::Log(_) | StmtKind::Notrack => {
                    others.push(stmt.clone())
                }
                // Whatever can end a rule.
                _ => {
                    let is_last = number + 1 == rule.stmts.len();
                    let found =
                        if is_last { End::read(stmt, rule.loc, &mut eval, names) } else { None };
                    usable &= found.is_some();
                    end = found.unwrap_or(end);
                }
            }
        }
        cells.sort_by_key(|c| c.column);
        let others_text = text(&others, names);
        let untracked = others.iter().any(|s| matches!(s.kind, StmtKind::Notrack));
        let asks_connection = cells
            .iter()
            .any(|c| matches!(columns.selectors[c.column].kind, ExprKind::Key(Key::Ct { .. })));
        (usable && !(untracked && asks_connection)).then_some(Row {
            cells,
            others,
            others_text,
            end,
        })
    }

    /// Whether what stands before the end is counters only, which elements of a map can have
    /// instead.
    pub fn only_counts(&self) -> bool {
        self.others.iter().all(|s| matches!(s.kind, StmtKind::Counter { .. }))
            && self.others.len() <= 1
    }
}

/// Statements as text, without state.
pub(super) fn text(stmts: &[Stmt], names: &dyn Names) -> String {
    stmts_text(stmts, Format { stateless: true, ..Format::default() }, names)
}

/// Whether an expression was written in the rule, and not defined elsewhere.
fn written_in(e: &Expr, rule: Loc) -> bool {
    e.loc.input == rule.input && rule.start <= e.loc.start && e.loc.end <= rule.end
}

/// A plain value, range or prefix.
fn is_plain(e: &Expr) -> bool {
    match &e.kind {
        ExprKind::Symbol { kind, .. } => *kind == SymbolKind::Value,
        ExprKind::Value(_) | ExprKind::String(_) => true,
        ExprKind::Prefix { base, .. } => is_plain(base),
        ExprKind::Range { left, right } => is_plain(left) && is_plain(right),
        ExprKind::Concat(parts) => parts.iter().all(is_plain),
        ExprKind::Variable { .. }
        | ExprKind::Verdict(_)
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
        | ExprKind::FlagCmp { .. } => false,
    }
}

/// The values of a match as elements of a set; none where a set would mean something else.
fn elements(stmt: &Stmt, rule: Loc, means: &Match) -> Vec<Expr> {
    let StmtKind::Match(e) = &stmt.kind else { return Vec::new() };
    let ExprKind::Relational { op, right, .. } = &e.kind else { return Vec::new() };
    let equal = matches!(op, RelOp::Implicit | RelOp::Eq);
    if !equal || means.boolean || !matches!(means.says, Says::Values(_)) {
        return Vec::new();
    }
    let found = if let Some(elements) = right.elements() {
        elements.to_vec()
    } else if let ExprKind::List(parts) = &right.kind
        && means.flags
        && *op == RelOp::Implicit
    {
        // Flags that a set has one by one.
        parts.clone()
    } else if means.flags && means.values().is_some_and(|v| v.len() != 1) {
        // A number can be several flags at once.
        return Vec::new();
    } else {
        vec![(**right).clone()]
    };
    if found.iter().all(|e| is_plain(e) && written_in(e, rule)) { found } else { Vec::new() }
}

impl End {
    fn read(stmt: &Stmt, rule: Loc, eval: &mut Eval<'_, '_>, names: &dyn Names) -> Option<End> {
        match &stmt.kind {
            StmtKind::Verdict(e) => match &e.kind {
                ExprKind::Verdict(verdict) => {
                    if let VerdictExpr::Jump(to) | VerdictExpr::Goto(to) = verdict
                        && !matches!(to.kind, ExprKind::Symbol { .. } | ExprKind::String(_))
                    {
                        return None;
                    }
                    let text = text(std::slice::from_ref(stmt), names);
                    Some(End::Verdict { verdict: e.clone(), text })
                }
                ExprKind::Map { key, mappings } => {
                    let ExprKind::Set { elements, .. } = &mappings.kind else { return None };
                    let plain = |e: &Expr| {
                        e.mapping().is_some_and(|(left, _)| {
                            let key = left.elem().map_or(left, |elem| &elem.key);
                            is_plain(key) && written_in(key, rule)
                        })
                    };
                    if !elements.iter().all(plain) {
                        return None;
                    }
                    let keys = elements.iter().map(|e| key_of(e).clone()).collect();
                    let set = Expr::new(
                        ExprKind::Set { elements: keys, flags: Default::default() },
                        mappings.loc,
                    );
                    let means = Match::of(RelOp::Eq, key, &set, eval)?;
                    Some(End::Map {
                        key: without_places(key)?,
                        mappings: elements.clone(),
                        values: means.values()?.to_vec(),
                    })
                }
                ExprKind::Symbol { .. }
                | ExprKind::Variable { .. }
                | ExprKind::Value(_)
                | ExprKind::String(_)
                | ExprKind::Prefix { .. }
                | ExprKind::Range { .. }
                | ExprKind::Concat(_)
                | ExprKind::List(_)
                | ExprKind::Set { .. }
                | ExprKind::SetElem(_)
                | ExprKind::CatchAll
                | ExprKind::Mapping { .. }
                | ExprKind::SetRef { .. }
                | ExprKind::Payload(_)
                | ExprKind::Exthdr(_)
                | ExprKind::Key(_)
                | ExprKind::Hash { .. }
                | ExprKind::Unary { .. }
                | ExprKind::Binop { .. }
                | ExprKind::Relational { .. }
                | ExprKind::FlagCmp { .. } => None,
            },
            StmtKind::Reject(_) | StmtKind::Queue { .. } => {
                Some(End::Stmt(text(std::slice::from_ref(stmt), names)))
            }
            StmtKind::Nat(nat) => {
                let one = |e: &Expr| {
                    matches!(e.kind, ExprKind::Symbol { .. } | ExprKind::Value(_))
                        && written_in(e, rule)
                };
                let plain = matches!(nat.kind, NatKind::Nat(_))
                    && !nat.interval
                    && !nat.concat
                    && !nat.prefix
                    && nat.addr.as_ref().is_some_and(one)
                    && nat.port.as_ref().is_none_or(one);
                plain.then(|| End::Nat(Box::new(nat.clone())))
            }
            _ => None,
        }
    }

    /// Whether no later rule of the chain sees a packet that this ended.
    pub fn is_terminal(&self) -> bool {
        match self {
            End::None | End::Map { .. } => false,
            End::Verdict { verdict, .. } => !matches!(
                verdict.kind,
                ExprKind::Verdict(
                    VerdictExpr::Continue | VerdictExpr::Break | VerdictExpr::Jump(_)
                )
            ),
            End::Stmt(_) | End::Nat(_) => true,
        }
    }

    /// Chains that packets come back from.
    pub fn jumps(&self) -> Vec<&str> {
        match self {
            End::Verdict { verdict, .. } => jump_target(verdict).into_iter().collect(),
            End::Map { mappings, .. } => {
                mappings.iter().filter_map(|m| jump_target(m.mapping()?.1)).collect()
            }
            End::None | End::Stmt(_) | End::Nat(_) => Vec::new(),
        }
    }
}

fn jump_target(verdict: &Expr) -> Option<&str> {
    let ExprKind::Verdict(VerdictExpr::Jump(to)) = &verdict.kind else { return None };
    to.text().map(|text| &**text)
}
