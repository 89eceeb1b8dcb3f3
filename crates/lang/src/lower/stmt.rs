// SPDX-License-Identifier: Apache-2.0

//! Statements to VM expressions.

use penstock_program::Register;
use penstock_program::expr::Expr as Op;
use penstock_syntax::ast::{Expr, ExprKind, RuleBlock, Stmt, StmtKind};
use penstock_syntax::source::Loc;

use crate::eval::stmt::keyword;
use crate::lower::{Program, register};
impl Program<'_, '_> {
    /// The program of a rule; and for every VM expression the statement it came from.
    pub(crate) fn rule(&mut self, rule: &RuleBlock) -> Vec<Loc> {
        for stmt in &rule.stmts {
            self.statement(stmt);
            self.places.resize(self.ops.len(), blamed(stmt));
        }
        std::mem::take(&mut self.places)
    }

    /// VM expressions of a stateful statement by themselves.
    pub(crate) fn stateful(&mut self, stmts: &[Stmt]) -> Vec<Op> {
        let before = std::mem::take(&mut self.ops);
        for stmt in stmts {
            self.statement(stmt);
        }
        std::mem::replace(&mut self.ops, before)
    }

    /// An argument in registers of its size.
    pub(crate) fn argument(&mut self, e: &Expr) -> Register {
        let slot = self.take(e);
        self.load(e, slot);
        register(slot)
    }

    /// An argument in a whole register.
    pub(crate) fn argument_wide(&mut self, e: &Expr) -> Register {
        let slot = self.take_wide();
        self.load(e, slot);
        register(slot)
    }
}

/// What a refusal of a statement's VM expressions points at: the set or object it names, or all of
/// it.
fn blamed(stmt: &Stmt) -> Loc {
    match &stmt.kind {
        StmtKind::PayloadSet { target, .. } | StmtKind::ExthdrSet { target, .. } => target.loc,
        StmtKind::ObjRef { expr, .. } if matches!(expr.kind, ExprKind::String(_)) => expr.loc,
        StmtKind::Verdict(e) => e.chain().map_or_else(|| keyword(stmt), |chain| chain.loc),
        // Others are blamed as messages about them are.
        _ => keyword(stmt),
    }
}
