// SPDX-License-Identifier: Apache-2.0

//! The tree that all stages share: [`Expr`] and [`Stmt`] refer to each other; their kinds are in
//! [`expr`] and [`stmt`].

pub mod cmd;
pub mod expr;
pub mod key;
pub mod rule;
pub mod stmt;
pub mod walk;

use std::sync::Arc;

use penstock_program::expr::FIB_PRESENT;

use crate::datatype::{Base, ByteOrder, Type};
use crate::source::Loc;

use expr::{RelOp, SetElem, VerdictExpr};

pub use cmd::{Cmd, CmdKind};
pub use expr::ExprKind;
pub use key::Key;
pub use rule::RuleBlock;
pub use stmt::StmtKind;

/// An expression. The parser fills `kind` and `loc`; evaluation the rest.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    /// What it is.
    pub kind: ExprKind,
    /// Where it was written.
    pub loc: Loc,
    /// Its data type.
    pub dtype: Type,
    /// Its byte order.
    pub order: ByteOrder,
    /// Its length in bits.
    pub len: u32,
    /// Known at compile time (`EXPR_F_CONSTANT`).
    pub constant: bool,
    /// A single value, not a range or set (`EXPR_F_SINGLETON`).
    pub singleton: bool,
}

/// A statement.
#[derive(Clone, Debug, PartialEq)]
pub struct Stmt {
    /// What it does.
    pub kind: StmtKind,
    /// Where it was written.
    pub loc: Loc,
}

impl Expr {
    /// With nothing known but what was written.
    pub fn new(kind: ExprKind, loc: Loc) -> Self {
        Expr {
            kind,
            loc,
            dtype: Type::default(),
            order: ByteOrder::Invalid,
            len: 0,
            constant: false,
            singleton: false,
        }
    }

    /// With type, order and length in bits.
    pub fn typed(kind: ExprKind, loc: Loc, dtype: Type, order: ByteOrder, len: u32) -> Self {
        Expr { kind, loc, dtype, order, len, constant: false, singleton: false }
    }

    /// Takes the expression out, leaving an empty value in its place.
    pub fn take(&mut self) -> Expr {
        let loc = self.loc;
        std::mem::replace(self, Expr::new(ExprKind::Value(0), loc))
    }

    /// The number of a constant.
    pub fn value(&self) -> Option<u128> {
        let ExprKind::Value(value) = self.kind else { return None };
        Some(value)
    }

    /// nft's word for the kind of expression.
    pub fn word(&self) -> &'static str {
        match &self.kind {
            ExprKind::Symbol { .. } => "symbol",
            ExprKind::Variable { .. } => "variable",
            ExprKind::Value(_) | ExprKind::String(_) => "value",
            ExprKind::Verdict(_) => "verdict",
            ExprKind::Prefix { .. } => "prefix",
            ExprKind::Range { .. } => "range",
            ExprKind::Concat(_) => "concat",
            ExprKind::List(_) => "list",
            ExprKind::Set { .. } => "set",
            ExprKind::SetElem(_) => "element",
            ExprKind::CatchAll => "catchall set element",
            ExprKind::Mapping { .. } => "mapping",
            ExprKind::Map { .. } => "map",
            ExprKind::SetRef { .. } => "set reference",
            ExprKind::Payload(_) => "payload",
            ExprKind::Exthdr(_) => "exthdr",
            ExprKind::Key(key) => key.word(),
            ExprKind::Hash { .. } => "hash",
            ExprKind::Unary { .. } => "unary",
            ExprKind::Binop { .. } => "binop",
            ExprKind::Relational { .. } => "relational",
            ExprKind::FlagCmp { .. } => "flagcmp",
        }
    }

    /// Basic type of its data type.
    pub fn base(&self) -> Base {
        self.dtype.kind()
    }

    /// Whether it is `numgen` or `symhash`.
    pub fn is_generator(&self) -> bool {
        if let ExprKind::Key(key) = &self.kind { key.is_generator() } else { false }
    }

    /// The text of a word or a string.
    pub fn text(&self) -> Option<&Arc<str>> {
        let (ExprKind::Symbol { text, .. } | ExprKind::String(text)) = &self.kind else {
            return None;
        };
        Some(text)
    }

    /// The parts of a concatenation, or the one expression.
    pub fn parts(&self) -> &[Expr] {
        let ExprKind::Concat(parts) = &self.kind else { return std::slice::from_ref(self) };
        parts
    }

    /// Operator and sides of a comparison.
    pub fn relational(&self) -> Option<(RelOp, &Expr, &Expr)> {
        let ExprKind::Relational { op, left, right } = &self.kind else { return None };
        Some((*op, left, right))
    }

    /// Key and data of a mapping.
    pub fn mapping(&self) -> Option<(&Expr, &Expr)> {
        let ExprKind::Mapping { left, right } = &self.kind else { return None };
        Some((left, right))
    }

    /// The chain that a verdict jumps or goes to.
    pub fn chain(&self) -> Option<&Expr> {
        let ExprKind::Verdict(VerdictExpr::Jump(to) | VerdictExpr::Goto(to)) = &self.kind else {
            return None;
        };
        Some(to)
    }

    /// The element of a set, with what stands next to its key.
    pub fn elem(&self) -> Option<&SetElem> {
        let ExprKind::SetElem(elem) = &self.kind else { return None };
        Some(elem)
    }

    /// The elements in braces.
    pub fn elements(&self) -> Option<&[Expr]> {
        let ExprKind::Set { elements, .. } = &self.kind else { return None };
        Some(elements)
    }

    /// For a `fib` expression that tests the presence of a result, the one that returns it.
    pub fn without_presence(&self) -> Option<Expr> {
        let ExprKind::Key(Key::Fib { flags, result }) = self.kind else { return None };
        let kind = ExprKind::Key(Key::Fib { flags: flags & !FIB_PRESENT, result });
        (flags & FIB_PRESENT != 0).then(|| Expr { kind, ..self.clone() })
    }
}
