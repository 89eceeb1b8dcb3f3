// SPDX-License-Identifier: Apache-2.0

//! Statements other than NAT.

use penstock_program::expr::{MetaKey, PayloadBase};
use penstock_ruleset::model::Family;
use penstock_syntax::ast::expr::{RelOp, VerdictExpr};
use penstock_syntax::ast::stmt::{Effect, NatKind};
use penstock_syntax::ast::{Expr, ExprKind, Key, RuleBlock, Stmt, StmtKind};
use penstock_syntax::datatype::{Base, DataType, Type};
use penstock_syntax::source::Loc;

use crate::eval::context::{Expected, Protocols};
use crate::eval::{Eval, Result, conflict, error};

impl Eval<'_, '_> {
    /// Evaluates the statements of a rule; matches that they depend on are put before them.
    pub(crate) fn rule(&mut self, rule: &mut RuleBlock) -> Result {
        self.protocols = Protocols::new(self.family);
        self.icmp_type = None;
        let stmts = std::mem::take(&mut rule.stmts);
        let mut out = Vec::with_capacity(stmts.len() + 2);
        let last = stmts.len();
        let mut terminal: Option<Loc> = None;
        for (i, mut stmt) in stmts.into_iter().enumerate() {
            self.inserted.clear();
            self.expected = Expected::default();
            if let Some(first) = terminal {
                return conflict(
                    keyword(&stmt),
                    first,
                    "Statement after terminal statement has no effect",
                );
            }
            self.statement(&mut stmt)?;
            if is_terminal(&stmt) {
                terminal = Some(keyword(&stmt));
            }
            out.append(&mut self.inserted);
            if i + 1 == last || !self.is_redundant(&stmt) {
                out.push(stmt);
            }
        }
        if !self.at_head.is_empty() {
            out.splice(0..0, self.at_head.drain(..));
        }
        crate::eval::merge::merge_payloads(&mut out);
        rule.stmts = out;
        Ok(())
    }

    /// `meta protocol ip` is redundant in a table of that family; it stays as the last match of a
    /// rule.
    fn is_redundant(&self, stmt: &Stmt) -> bool {
        let own = match self.family {
            Family::Ip => 0x0800,
            Family::Ip6 => 0x86dd,
            _ => return false,
        };
        let StmtKind::Match(e) = &stmt.kind else { return false };
        let ExprKind::Relational { op: RelOp::Implicit | RelOp::Eq, left, right } = &e.kind else {
            return false;
        };
        matches!(left.kind, ExprKind::Key(Key::Meta { key: MetaKey::Protocol }))
            && right.value() == Some(own)
    }

    /// An argument of a statement: of the expected type, and a value.
    pub(crate) fn arg(&mut self, e: &mut Expr, stmt: Loc, expected: Expected) -> Result {
        self.expected = expected.clone();
        self.expr(e)?;
        self.check_arg(e, stmt, &expected)
    }

    /// Whether an evaluated expression may be the argument of a statement.
    pub(crate) fn check_arg(&mut self, e: &mut Expr, stmt: Loc, expected: &Expected) -> Result {
        let Some(dtype) = &expected.dtype else { return Ok(()) };
        let integer = e.dtype.id() == DataType::Integer.id();
        if let ExprKind::Payload(_) = e.kind
            && integer
            && (!matches!(dtype.kind(), Base::Integer | Base::Bitmask) || e.len != expected.len)
        {
            return conflict(
                e.loc,
                stmt,
                format!(
                    "datatype mismatch: expected {}, expression has type {} with length {}",
                    dtype.desc(),
                    e.dtype.desc(),
                    e.len
                ),
            );
        }
        // Any number can be a mark.
        if *dtype == Type::Base(DataType::Mark)
            && matches!(e.base(), Base::Integer | Base::Bitmask)
            && !e.constant
        {
            return self.convert(e, expected.order);
        }
        if !integer && e.dtype != *dtype {
            return conflict(
                e.loc,
                stmt,
                format!(
                    "datatype mismatch: expected {}, expression has type {}",
                    dtype.desc(),
                    e.dtype.desc()
                ),
            );
        }
        if let ExprKind::Set { .. } = e.kind {
            conflict(e.loc, stmt, "you cannot use a set here, unknown value to use")
        } else if let ExprKind::SetRef { .. } = e.kind {
            conflict(e.loc, stmt, "you cannot reference a set here, unknown value to use")
        } else if let ExprKind::Key(Key::Rt { .. }) = e.kind {
            self.convert(e, expected.order)
        } else {
            Ok(())
        }
    }

    /// An error that conflicts with the match which told the header at a base.
    pub(crate) fn against<T>(
        &self,
        loc: Loc,
        base: PayloadBase,
        message: impl Into<String>,
    ) -> Result<T> {
        match self.protocols.place(base) {
            Some(other) => conflict(loc, other, message),
            None => error(loc, message),
        }
    }

    /// What was inserted for the statement goes before everything that the rule says.
    pub(crate) fn insert_at_head(&mut self) {
        let later = std::mem::take(&mut self.at_head);
        self.at_head = std::mem::take(&mut self.inserted);
        self.at_head.extend(later);
    }
}

/// The word that messages about a whole statement point at; the whole statement where nft has no
/// separate place.
pub(crate) fn keyword(stmt: &Stmt) -> Loc {
    let word = if let StmtKind::Log(_) = stmt.kind {
        "log"
    } else if let StmtKind::Synproxy { .. } = stmt.kind {
        "synproxy"
    } else if let StmtKind::Reject(_) = stmt.kind {
        "reject"
    } else if let StmtKind::Nat(nat) = &stmt.kind {
        match nat.kind {
            NatKind::Nat(_) => "snat",
            NatKind::Masquerade => "masquerade",
            NatKind::Redirect => "redirect",
        }
    } else {
        return stmt.loc;
    };
    Loc { end: stmt.loc.end.min(stmt.loc.start + word.len() as u32), ..stmt.loc }
}

/// Whether nothing of a rule after it is ever reached.
fn is_terminal(stmt: &Stmt) -> bool {
    match &stmt.kind {
        StmtKind::Verdict(e) => matches!(
            &e.kind,
            ExprKind::Verdict(v) if !matches!(v, VerdictExpr::Continue)
        ),
        kind => kind.effect() == Effect::Ends,
    }
}
