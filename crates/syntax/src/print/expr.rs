// SPDX-License-Identifier: Apache-2.0

//! Expressions to text.

use penstock_program::expr::{CtDir, ExthdrOp, PayloadBase};

use super::Printer;
use crate::ast::expr::{BinOp, Exthdr, Payload, RelOp, SetElem, SymbolKind, UnaryOp, VerdictExpr};
use crate::ast::{Expr, ExprKind, Key};
use crate::datatype::{self, DataType, Format, Type};
use crate::exthdr;
use crate::release::Release;

impl Printer<'_> {
    /// Writes an expression.
    pub fn expr(&mut self, expr: &Expr) {
        match &expr.kind {
            ExprKind::Symbol { kind: SymbolKind::Value, text } => self.push(text),
            ExprKind::Symbol { kind: SymbolKind::Set, text } => self.write(format_args!("@{text}")),
            ExprKind::Variable { name } => self.write(format_args!("${name}")),
            ExprKind::Value(value) => {
                datatype::print(
                    expr.dtype.base(),
                    *value,
                    expr.len,
                    &self.format,
                    self.names,
                    &mut self.out,
                );
            }
            ExprKind::String(text) => self.write(format_args!("\"{text}\"")),
            ExprKind::Verdict(verdict) => self.verdict(verdict),
            ExprKind::Prefix { base, len } => {
                self.numeric(|p| p.expr(base));
                self.write(format_args!("/{len}"));
            }
            ExprKind::Range { left, right } => self.numeric(|p| {
                p.expr(left);
                p.push("-");
                p.expr(right);
            }),
            ExprKind::Concat(parts) => self.joined(parts, " . "),
            ExprKind::List(parts) => self.joined(parts, ","),
            ExprKind::Set { elements, .. } => {
                self.push("{ ");
                self.joined(elements, ", ");
                self.push(" }");
            }
            ExprKind::SetElem(elem) => self.element(elem),
            ExprKind::CatchAll => self.push("*"),
            ExprKind::Mapping { left, right } => {
                self.expr(left);
                self.push(" : ");
                self.expr(right);
            }
            ExprKind::Map { key, mappings } => {
                self.expr(key);
                self.push(if expr.dtype == Type::Base(DataType::Verdict) {
                    " vmap "
                } else {
                    " map "
                });
                self.expr(mappings);
            }
            ExprKind::SetRef { set } => self.write(format_args!("@{set}")),
            ExprKind::Payload(payload) => self.payload(payload, expr.len),
            ExprKind::Exthdr(exthdr) => self.exthdr(exthdr, expr.len),
            ExprKind::Key(key) => self.write(format_args!("{key}")),
            ExprKind::Hash { expr, modulus, seed, offset } => {
                self.push("jhash ");
                self.expr(expr);
                self.write(format_args!(" mod {modulus}"));
                if let Some(seed) = seed {
                    self.write(format_args!(" seed {seed:#x}"));
                }
                self.offset(*offset);
            }
            ExprKind::Unary { op, expr } => {
                self.push(match op {
                    UnaryOp::Hton => "hton(",
                    UnaryOp::Ntoh => "ntoh(",
                });
                self.expr(expr);
                self.push(")");
            }
            ExprKind::Binop { op, left, right } => {
                self.operand(precedence(*op), left);
                self.write(format_args!(" {} ", op.symbol()));
                if self.is_number_here(left) {
                    self.number(right);
                } else {
                    self.operand(precedence(*op), right);
                }
            }
            ExprKind::Relational { op, left, right } => self.relational(*op, left, right),
            ExprKind::FlagCmp { op, expr, value, mask } if self.format.release >= Release::V1_1 => {
                self.expr(expr);
                self.push(" & ");
                self.flags(mask, true);
                self.push(if *op == RelOp::Neq { " != " } else { " == " });
                self.flags(value, false);
            }
            ExprKind::FlagCmp { op, expr, value, mask } => {
                self.expr(expr);
                self.push(if *op == RelOp::Neq { " != " } else { " " });
                self.expr(value);
                self.push(" / ");
                self.expr(mask);
            }
        }
    }

    /// A comparison. `==` is written only where the text would be read otherwise without it.
    fn relational(&mut self, op: RelOp, left: &Expr, right: &Expr) {
        self.left_side(left, right);
        match op {
            RelOp::Implicit => self.push(" "),
            RelOp::Eq if !must_write_equals(left, right) => self.push(" "),
            _ => self.write(format_args!(" {} ", op.symbol())),
        }
        // nft looks for the name of the answer with its bytes the wrong way round.
        let numeric = matches!(left.kind, ExprKind::Key(Key::Fib { .. }))
            && !matches!(op, RelOp::Eq | RelOp::Neq | RelOp::Implicit)
            && right.value() != Some(0);
        if numeric {
            self.numeric(|p| p.expr(right));
        } else if self.is_number_here(left) {
            self.number(right);
        } else {
            self.expr(right);
        }
    }

    /// Whether there is a route is asked by `oif exists`, in sets and maps by `check`.
    fn left_side(&mut self, left: &Expr, right: &Expr) {
        match left.without_presence().filter(|_| right.value().is_some()) {
            Some(asked) => self.expr(&asked),
            None => self.expr(left),
        }
    }

    /// Ranges and prefixes are listed in numbers whatever the options.
    pub fn numeric(&mut self, body: impl FnOnce(&mut Self)) {
        let format = Format {
            service_names: false,
            user_names: false,
            host_names: false,
            numeric_symbols: true,
            numeric_protocol: true,
            numeric_priority: true,
            numeric_time: true,
            ..self.format
        };
        self.with_format(format, body);
    }

    fn joined(&mut self, parts: &[Expr], separator: &str) {
        for (i, part) in parts.iter().enumerate() {
            if i > 0 {
                self.push(separator);
            }
            self.expr(part);
        }
    }

    fn offset(&mut self, offset: u32) {
        if offset != 0 {
            self.write(format_args!(" offset {offset}"));
        }
    }

    /// `original ` or `reply `.
    pub fn direction(&mut self, dir: Option<CtDir>) {
        match dir {
            Some(CtDir::Original) => self.push("original "),
            Some(CtDir::Reply) => self.push("reply "),
            None => {}
        }
    }

    /// Whether what a side is compared or combined with is listed as a number: a mark that was
    /// shifted is none any more to nft 1.1.
    fn is_number_here(&self, left: &Expr) -> bool {
        fn shifts(e: &Expr) -> bool {
            match &e.kind {
                ExprKind::Binop { op: BinOp::Lshift | BinOp::Rshift, .. } => true,
                ExprKind::Binop { left, .. } => shifts(left),
                _ => false,
            }
        }
        self.format.release >= Release::V1_1 && shifts(left)
    }

    /// A number or a range of numbers, in hexadecimal if it stands for a mark.
    fn number(&mut self, e: &Expr) {
        match &e.kind {
            ExprKind::Value(value) if e.dtype.base() == DataType::Mark => {
                self.write(format_args!("{value:#x}"));
            }
            ExprKind::Range { left, right } => {
                self.number(left);
                self.push("-");
                self.number(right);
            }
            _ => self.expr(e),
        }
    }

    /// Flags joined by `|`, in parentheses if they are an operand.
    fn flags(&mut self, flags: &Expr, operand: bool) {
        let ExprKind::List(parts) = &flags.kind else { return self.expr(flags) };
        self.push(if operand { "(" } else { "" });
        self.joined(parts, " | ");
        self.push(if operand { ")" } else { "" });
    }

    /// An operand, in parentheses if it binds weaker than the operator around it.
    fn operand(&mut self, outer: u8, operand: &Expr) {
        if let ExprKind::Binop { op, .. } = &operand.kind
            && outer < precedence(*op)
        {
            self.push("(");
            self.expr(operand);
            self.push(")");
        } else {
            self.expr(operand)
        }
    }

    /// Writes a verdict.
    pub fn verdict(&mut self, verdict: &VerdictExpr) {
        match verdict {
            VerdictExpr::Accept => self.push("accept"),
            VerdictExpr::Drop => self.push("drop"),
            VerdictExpr::Queue => self.push("queue"),
            VerdictExpr::Continue => self.push("continue"),
            VerdictExpr::Break => self.push("break"),
            VerdictExpr::Return => self.push("return"),
            VerdictExpr::Jump(chain) => {
                self.push("jump ");
                self.chain_name(chain);
            }
            VerdictExpr::Goto(chain) => {
                self.push("goto ");
                self.chain_name(chain);
            }
        }
    }

    /// Chains are written without quotes.
    fn chain_name(&mut self, chain: &Expr) {
        if let ExprKind::String(name) = &chain.kind { self.push(name) } else { self.expr(chain) }
    }

    /// An element of a set: key, statements, times, comment.
    pub fn element(&mut self, elem: &SetElem) {
        self.expr(&elem.key);
        self.element_rest(elem);
    }

    /// What an element has besides its key.
    pub(super) fn element_rest(&mut self, elem: &SetElem) {
        for stmt in &elem.stmts {
            self.push(" ");
            self.stmt(stmt);
        }
        if let Some(timeout) = elem.timeout {
            self.push(" timeout ");
            match timeout {
                SetElem::NEVER => self.push("never"),
                ms => self.duration(ms),
            }
        }
        if let (Some(expires), false) = (elem.expires, self.format.stateless) {
            self.push(" expires ");
            self.duration(expires);
        }
        if let Some(comment) = &elem.comment {
            self.write(format_args!(" comment \"{comment}\""));
        }
    }

    /// Milliseconds.
    pub fn duration(&mut self, milliseconds: u64) {
        datatype::time::print_duration(milliseconds, self.format.numeric_time, &mut self.out);
    }

    fn payload(&mut self, payload: &Payload, len: u32) {
        if let Some(tunnel) = payload.inner {
            self.push(tunnel.name);
            self.push(" ");
        }
        match (payload.proto, payload.field) {
            (Some(proto), Some(field)) if !payload.raw => {
                // What tells the headers inside of a tunnel is no field of theirs.
                self.push(if field.meta.is_some() { "meta" } else { proto.name });
                self.push(" ");
                self.push(field.name);
            }
            _ => {
                let base = match payload.base {
                    PayloadBase::Link => "ll",
                    PayloadBase::Network => "nh",
                    PayloadBase::Transport => "th",
                    PayloadBase::Inner | PayloadBase::Tunnel => "ih",
                };
                self.write(format_args!("@{base},{},{len}", payload.offset));
            }
        }
    }

    fn exthdr(&mut self, exthdr: &Exthdr, len: u32) {
        let prefix = match exthdr.op {
            ExthdrOp::Ipv6 if exthdr.present => "exthdr ",
            ExthdrOp::Ipv6 => "",
            ExthdrOp::TcpOpt => "tcp option ",
            ExthdrOp::Ipv4Opt => "ip option ",
            ExthdrOp::Sctp => "sctp chunk ",
            ExthdrOp::Dccp => "dccp option ",
        };
        self.push(prefix);
        let desc = exthdr.desc.or_else(|| exthdr::find_kind(exthdr.op, exthdr.raw_type));
        match (desc, exthdr.field) {
            (Some(desc), _) if exthdr.present => self.push(desc.name),
            (None, _) if exthdr.present => self.write(format_args!("{}", exthdr.raw_type)),
            (Some(desc), Some(field)) if !exthdr.raw => {
                self.push(desc.name);
                self.push(" ");
                self.push(field.name);
            }
            _ => self.write(format_args!("@{},{},{len}", exthdr.raw_type, exthdr.offset)),
        }
    }

    /// An extension header, option or chunk by its name alone.
    pub fn exthdr_name(&mut self, exthdr: &Exthdr) {
        match exthdr.desc.or_else(|| exthdr::find_kind(exthdr.op, exthdr.raw_type)) {
            Some(desc) => self.push(desc.name),
            None => self.write(format_args!("{}", exthdr.raw_type)),
        }
    }
}

/// Binding strength; smaller binds tighter.
fn precedence(op: BinOp) -> u8 {
    match op {
        BinOp::Lshift | BinOp::Rshift => 1,
        BinOp::And => 2,
        BinOp::Xor => 3,
        BinOp::Or => 4,
    }
}

/// Whether equality would be read as something else (a flag test) without its operator.
fn must_write_equals(left: &Expr, right: &Expr) -> bool {
    let ExprKind::Binop { left: bits, .. } = &left.kind else {
        // A range of a field has none.
        return right.value().is_some() && right.dtype.base().is_bitmask();
    };
    // A range of raw bits has it.
    let is_range = matches!(right.kind, ExprKind::Range { .. });
    !is_range || matches!(&bits.kind, ExprKind::Payload(p) if p.field.is_none())
}
