// SPDX-License-Identifier: Apache-2.0

//! Expressions of the language: values and what they are made of (nft's `struct expr`).

use std::sync::Arc;

use penstock_program::expr::{ExthdrOp, PayloadBase};

use super::key::Key;
use crate::ast::Expr;
use crate::ast::Stmt;
use crate::datatype::ByteOrder;
use crate::datatype::Type;
use crate::exthdr::ExthdrDesc;
use crate::proto::{Proto, Template};
use crate::source::Loc;

/// What a bare word stands for until evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SymbolKind {
    /// A constant of the type that the context expects, or a define without `$`.
    Value,
    /// A set or map by name (`@name`).
    Set,
}

/// Binary operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum BinOp {
    And,
    Or,
    Xor,
    Lshift,
    Rshift,
}

/// Relational operators. `Implicit` is the unwritten one: equality, lookup or flag test, as the
/// types ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum RelOp {
    Implicit,
    Eq,
    Neq,
    Lt,
    Lte,
    Gt,
    Gte,
    /// `!` (none of the flags).
    Neg,
}

/// Unary operators that evaluation inserts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum UnaryOp {
    Hton,
    Ntoh,
}

/// Verdicts as written; `chain` is an expression since it may be a variable.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum VerdictExpr {
    Accept,
    Drop,
    Queue,
    Continue,
    Break,
    Return,
    Jump(Box<Expr>),
    Goto(Box<Expr>),
}

/// Flags of a set expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[allow(missing_docs)]
pub struct SetExprFlags {
    pub interval: bool,
    pub map: bool,
    pub constant: bool,
    pub anonymous: bool,
    pub concat: bool,
    pub timeout: bool,
    pub object: bool,
    pub eval: bool,
    /// Only the place is known: the elements are right, and are read again when they are evaluated.
    pub unread: bool,
}

/// The kinds of expression.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum ExprKind {
    /// A word not understood yet.
    Symbol {
        kind: SymbolKind,
        text: Arc<str>,
    },
    /// `$name`, until it is replaced by what it stands for.
    Variable {
        name: Arc<str>,
    },
    /// A number; strings (interface names and the like) are their bytes, first byte lowest, as
    /// registers hold them.
    Value(u128),
    /// A string longer than a [`ExprKind::Value`] holds, or not yet turned into one (log prefix,
    /// chain name).
    String(Arc<str>),
    Verdict(VerdictExpr),
    Prefix {
        base: Box<Expr>,
        len: u32,
    },
    Range {
        left: Box<Expr>,
        right: Box<Expr>,
    },
    Concat(Vec<Expr>),
    /// `a, b` outside of braces: flags, bits.
    List(Vec<Expr>),
    /// `{ … }`. Elements are [`ExprKind::SetElem`] or [`ExprKind::Mapping`] once evaluated.
    Set {
        elements: Vec<Expr>,
        flags: SetExprFlags,
    },
    SetElem(Box<SetElem>),
    /// `*`
    CatchAll,
    /// `key : data`
    Mapping {
        left: Box<Expr>,
        right: Box<Expr>,
    },
    /// `key map { … }`, `key vmap @m`.
    Map {
        key: Box<Expr>,
        mappings: Box<Expr>,
    },
    /// A set or map of the ruleset, found: its table-wide name.
    SetRef {
        set: Arc<str>,
    },
    Payload(Payload),
    Exthdr(Exthdr),
    /// `meta`, `ct` and the like; `numgen` and `symhash`.
    Key(Key),
    /// `jhash`
    Hash {
        expr: Box<Expr>,
        modulus: u32,
        seed: Option<u32>,
        offset: u32,
    },
    Unary {
        op: UnaryOp,
        expr: Box<Expr>,
    },
    Binop {
        op: BinOp,
        left: Box<Expr>,
        right: Box<Expr>,
    },
    Relational {
        op: RelOp,
        left: Box<Expr>,
        right: Box<Expr>,
    },
    /// `flags & (a | b) == c` written as `flags a,b / a,b,c`: value and mask. `op` is `Eq` or
    /// `Neq`.
    FlagCmp {
        op: RelOp,
        expr: Box<Expr>,
        value: Box<Expr>,
        mask: Box<Expr>,
    },
}

/// One element of a set, with what may stand next to its key.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct SetElem {
    pub key: Expr,
    /// Milliseconds; [`NEVER`](SetElem::NEVER) for an element that stays whatever the set says.
    pub timeout: Option<u64>,
    /// Milliseconds.
    pub expires: Option<u64>,
    pub comment: Option<Arc<str>>,
    /// Stateful statements of the element.
    pub stmts: Vec<Stmt>,
}

impl SetElem {
    /// A key alone.
    pub fn of(key: Expr) -> Self {
        SetElem { key, timeout: None, expires: None, comment: None, stmts: Vec::new() }
    }

    /// `timeout never`
    pub const NEVER: u64 = u64::MAX;

    /// Whether anything stands next to the key that stays with the element.
    pub fn has_options(&self) -> bool {
        self.timeout.is_some() || self.comment.is_some() || !self.stmts.is_empty()
    }
}

/// A payload expression: a header field, or raw bits.
#[derive(Clone, Debug, PartialEq)]
pub struct Payload {
    /// Where offsets count from.
    pub base: PayloadBase,
    /// The header, `None` for raw payload.
    pub proto: Option<&'static Proto>,
    /// The field of it; for headers, offset and length are those of the template.
    pub field: Option<&'static Template>,
    /// Bits from the base.
    pub offset: u32,
    /// `@nh,…`: written and listed raw.
    pub raw: bool,
    /// Inside this tunnel (`vxlan ip saddr`).
    pub inner: Option<&'static Proto>,
}

impl Payload {
    /// The tunnel that must be found to read it: the one that contains it, or has it in its own
    /// header.
    pub fn tunnel(&self) -> Option<&'static Proto> {
        self.inner.or_else(|| self.proto.filter(|_| self.base == PayloadBase::Tunnel))
    }
}

/// IPv6 extension header, TCP or IPv4 option, SCTP chunk, DCCP option.
#[derive(Clone, Debug, PartialEq)]
pub struct Exthdr {
    /// Which kind of walk.
    pub op: ExthdrOp,
    /// The header or option; `None` for raw forms.
    pub desc: Option<&'static ExthdrDesc>,
    /// Its field.
    pub field: Option<&'static Template>,
    /// Number on the wire.
    pub raw_type: u8,
    /// Bits from the start of the header or option.
    pub offset: u32,
    /// Test for presence only (`NFT_EXTHDR_F_PRESENT`).
    pub present: bool,
    /// `@kind,offset,len`: written and listed raw.
    pub raw: bool,
}

impl Exthdr {
    /// A field of a header, option or chunk.
    pub fn field(desc: &'static ExthdrDesc, field: &'static Template) -> Self {
        Exthdr {
            op: desc.op,
            desc: Some(desc),
            field: Some(field),
            raw_type: desc.kind,
            offset: field.offset,
            present: false,
            raw: false,
        }
    }

    /// Whether a header, option or chunk is there.
    pub fn presence(op: ExthdrOp, desc: Option<&'static ExthdrDesc>, kind: u8) -> Self {
        Exthdr {
            op,
            desc,
            field: desc.and_then(|d| d.templates.first()),
            raw_type: kind,
            offset: 0,
            present: true,
            raw: false,
        }
    }
}

impl RelOp {
    /// As nft writes it; the unwritten operator says so.
    pub fn symbol(self) -> &'static str {
        match self {
            RelOp::Implicit => "implicit",
            RelOp::Eq => "==",
            RelOp::Neq => "!=",
            RelOp::Lt => "<",
            RelOp::Lte => "<=",
            RelOp::Gt => ">",
            RelOp::Gte => ">=",
            RelOp::Neg => "!",
        }
    }
}

impl BinOp {
    /// As nft writes it.
    pub fn symbol(self) -> &'static str {
        match self {
            BinOp::And => "&",
            BinOp::Or => "|",
            BinOp::Xor => "^",
            BinOp::Lshift => "<<",
            BinOp::Rshift => ">>",
        }
    }

    /// Whether the right side is a number of bits.
    pub fn is_shift(self) -> bool {
        matches!(self, BinOp::Lshift | BinOp::Rshift)
    }
}

/// Key of an element or mapping.
pub fn key_of(element: &Expr) -> &Expr {
    if let ExprKind::SetElem(elem) = &element.kind {
        &elem.key
    } else if let ExprKind::Mapping { left, .. } = &element.kind {
        key_of(left)
    } else {
        element
    }
}

/// A constant.
pub fn constant(value: u128, loc: Loc, dtype: Type, order: ByteOrder, len: u32) -> Expr {
    Expr { kind: ExprKind::Value(value), loc, dtype, order, len, constant: true, singleton: true }
}
