// SPDX-License-Identifier: Apache-2.0

//! Expressions: values, symbols, prefixes, ranges, concatenations, lists.

use std::sync::Arc;

use penstock_program::expr::CtKey;
use penstock_syntax::ast::expr::{SymbolKind, UnaryOp, VerdictExpr, constant};
use penstock_syntax::ast::{Expr, ExprKind, Key};
use penstock_syntax::bits::{bitmask, prefixmask};
use penstock_syntax::datatype::{self, Base, ByteOrder, DataType, Type};
use penstock_syntax::source::Loc;

use crate::eval::context::{Expected, fields_of};
use crate::eval::{Eval, Result, conflict, error};

/// Protocols that the grammar knows, whatever `/etc/protocols` says.
const PROTOCOLS: &[(&str, u128)] = &[
    ("tcp", 6),
    ("udp", 17),
    ("udplite", 136),
    ("esp", 50),
    ("ah", 51),
    ("icmp", 1),
    ("icmpv6", 58),
    ("igmp", 2),
    ("comp", 108),
    ("dccp", 33),
    ("sctp", 132),
];

impl Eval<'_, '_> {
    /// Evaluates an expression in place.
    pub(crate) fn expr(&mut self, e: &mut Expr) -> Result {
        if self.ctx.budget.step() {
            return error(e.loc, penstock_syntax::budget::LATE);
        }
        // What is looked up, hashed or matched is as wide as it is.
        let apart = matches!(
            e.kind,
            ExprKind::Map { .. }
                | ExprKind::Hash { .. }
                | ExprKind::Concat(_)
                | ExprKind::Relational { .. }
        );
        let written = self.written;
        if apart {
            self.written = 0;
        }
        let result = self.any_expr(e);
        self.written = written;
        result
    }

    fn any_expr(&mut self, e: &mut Expr) -> Result {
        match &mut e.kind {
            ExprKind::Symbol { .. } => self.symbol(e),
            ExprKind::Variable { name } => error(e.loc, format!("unknown identifier '{name}'")),
            ExprKind::SetRef { .. } => Ok(()),
            ExprKind::Value(_) => self.value(e),
            ExprKind::String(_) => self.string(e),
            ExprKind::Verdict(_) => self.verdict(e),
            ExprKind::Key(_) | ExprKind::Hash { .. } => self.key(e),
            ExprKind::Payload(_) => self.payload(e),
            ExprKind::Exthdr(_) => self.exthdr(e),
            ExprKind::Prefix { .. } => self.prefix(e),
            ExprKind::Range { .. } => self.range(e),
            ExprKind::Unary { .. } => self.unary(e),
            ExprKind::Binop { .. } => self.binop(e),
            ExprKind::Concat(_) => self.concat(e),
            ExprKind::List(_) => self.list(e),
            ExprKind::Set { .. } => self.set_expr(e),
            ExprKind::SetElem(_) => self.set_elem(e),
            ExprKind::CatchAll => {
                self.adopt(e);
                e.constant = true;
                e.singleton = true;
                Ok(())
            }
            ExprKind::Mapping { .. } => self.mapping(e),
            ExprKind::Map { .. } => self.map(e),
            ExprKind::Relational { .. } => self.relational(e),
            ExprKind::FlagCmp { .. } => self.flagcmp(e),
        }
    }

    /// Gives an expression the type that is expected here.
    pub(crate) fn adopt(&mut self, e: &mut Expr) {
        if let Some(dtype) = &self.expected.dtype {
            e.dtype = dtype.clone();
        }
        e.order = self.expected.order;
        e.len = self.expected.len;
    }

    /// What stands next to an expression that was just evaluated is of its type.
    pub(crate) fn expect_like(&mut self, e: &Expr) {
        self.expected = Expected::like(e);
    }

    fn symbol(&mut self, e: &mut Expr) -> Result {
        let ExprKind::Symbol { kind, text } = &e.kind else { return Ok(()) };
        let (kind, text) = (*kind, text.clone());
        match kind {
            SymbolKind::Value => {
                let dtype = match &self.expected.dtype {
                    Some(Type::Base(dtype)) => *dtype,
                    Some(Type::Concat(_)) => {
                        let desc = self.expected.dtype.as_ref().map(Type::desc).unwrap_or_default();
                        return error(e.loc, format!("invalid data type, expected {desc}"));
                    }
                    None => return error(e.loc, "No symbol type information"),
                };
                if dtype == DataType::Invalid && self.expected.dtype.is_some() {
                    return error(e.loc, "Can't parse symbolic invalid expressions");
                }
                self.parse_symbol(e, dtype, &text)?;
                self.expr(e)
            }
            SymbolKind::Set => {
                let set = self.find_set(&text, e.loc)?;
                e.dtype = set.key.dtype.clone();
                e.order = set.key.order();
                e.len = set.key.len();
                e.constant = true;
                e.kind = ExprKind::SetRef { set: text };
                Ok(())
            }
        }
    }

    /// A word becomes the value that it names in a type.
    fn parse_symbol(&mut self, e: &mut Expr, dtype: DataType, text: &str) -> Result {
        if let (DataType::InetProtocol, Some((_, number))) =
            (dtype, PROTOCOLS.iter().find(|(name, _)| *name == text))
        {
            *e = constant(*number, e.loc, Type::Base(dtype), dtype.order(), dtype.size());
            return Ok(());
        }
        match datatype::parse(dtype, text, self.ctx.names) {
            Ok(found) => {
                e.kind = ExprKind::Value(found.value);
                e.dtype = Type::Base(dtype);
                e.order = found.order;
                e.len = found.len;
                Ok(())
            }
            Err(message) => error(e.loc, message),
        }
    }

    fn value(&mut self, e: &mut Expr) -> Result {
        if e.dtype == Type::default() {
            e.dtype = self.expected.dtype.clone().unwrap_or_default();
        }
        e.constant = true;
        e.singleton = true;
        match e.base() {
            Base::String => self.string_value(e),
            Base::Verdict | Base::Concat => {
                let desc = e.dtype.desc();
                error(e.loc, format!("invalid data type, expected {desc}"))
            }
            Base::Invalid | Base::Integer | Base::Bitmask => self.integer(e),
        }
    }

    /// Checks the range of a number and gives it the order and length that are expected.
    fn integer(&mut self, e: &mut Expr) -> Result {
        let Some(value) = e.value() else { return Ok(()) };
        if self.expected.max > 0 && value > u128::from(self.expected.max) {
            return error(
                e.loc,
                format!("Value {value} exceeds valid range 0-{}", self.expected.max),
            );
        }
        // Whether a header is there is a byte, and anything that fits into it is taken for an
        // answer.
        let presence =
            self.expected.dtype == Some(Type::Base(DataType::Boolean)) && self.expected.len == 1;
        let len = self.expected.len.max(self.written);
        let max = bitmask(if presence { 8 } else { len });
        if value > max {
            return error(e.loc, format!("Value {value} exceeds valid range 0-{max}"));
        }
        e.order = self.expected.order;
        e.len = len;
        Ok(())
    }

    /// A string becomes its bytes in a register; one that ends in `*` a prefix.
    fn string(&mut self, e: &mut Expr) -> Result {
        let ExprKind::String(text) = &e.kind else { return Ok(()) };
        let text = text.clone();
        if e.dtype == Type::default() {
            e.dtype = self.expected.dtype.clone().unwrap_or_default();
        }
        e.constant = true;
        e.singleton = true;
        let bits = text.len() as u32 * 8;
        if self.expected.len > 0 && bits > self.expected.len {
            return error(
                e.loc,
                format!("String exceeds maximum length of {}", self.expected.len / 8),
            );
        }
        if text.len() > 16 {
            e.order = ByteOrder::Host;
            e.len = bits;
            return Ok(());
        }
        let mut bytes = [0; 16];
        bytes[..text.len()].copy_from_slice(text.as_bytes());
        e.kind = ExprKind::Value(u128::from_le_bytes(bytes));
        e.len = bits;
        self.string_value(e)
    }

    fn string_value(&mut self, e: &mut Expr) -> Result {
        let Some(value) = e.value() else { return Ok(()) };
        let mut bytes = value.to_le_bytes();
        let used = bytes.iter().position(|b| *b == 0).unwrap_or(16);
        let len =
            if self.expected.len > 0 { self.expected.len } else { e.len.max(used as u32 * 8) };
        if used as u32 * 8 > len {
            return error(e.loc, format!("String exceeds maximum length of {}", len / 8));
        }
        if used == 0 {
            return error(e.loc, "Empty string is not allowed");
        }
        e.order = ByteOrder::Host;
        e.len = len;
        if bytes[used - 1] != b'*' {
            return Ok(());
        }
        if used == 1 {
            return error(e.loc, "All-wildcard strings are not supported");
        }
        bytes[used - 1] = 0;
        if bytes[used - 2] == b'\\' {
            bytes[used - 2] = b'*';
            e.kind = ExprKind::Value(u128::from_le_bytes(bytes));
            return Ok(());
        }
        e.kind = ExprKind::Value(u128::from_le_bytes(bytes));
        let base = e.clone();
        e.kind = ExprKind::Prefix { base: Box::new(base), len: (used as u32 - 1) * 8 };
        e.singleton = false;
        Ok(())
    }

    fn verdict(&mut self, e: &mut Expr) -> Result {
        e.dtype = Type::Base(DataType::Verdict);
        e.constant = true;
        e.singleton = true;
        let ExprKind::Verdict(VerdictExpr::Jump(chain) | VerdictExpr::Goto(chain)) = &mut e.kind
        else {
            return Ok(());
        };
        if let ExprKind::Variable { name } = &chain.kind {
            return error(chain.loc, format!("unknown identifier '{name}'"));
        }
        if let ExprKind::Symbol { text, .. } = &chain.kind {
            chain.kind = ExprKind::String(text.clone());
        }
        let ExprKind::String(name) = &chain.kind else {
            return error(chain.loc, "invalid chain value expression, only string is allowed");
        };
        if name.len() > 255 {
            return error(chain.loc, "chain name is too long (255 characters at most)");
        }
        Ok(())
    }

    fn prefix(&mut self, e: &mut Expr) -> Result {
        let ExprKind::Prefix { base, len } = &mut e.kind else { return Ok(()) };
        let prefix = *len;
        self.expr(base)?;
        if base.base() == Base::String {
            // A wildcard of `string`, evaluated before.
            e.constant = true;
            return Ok(());
        }
        if !matches!(base.base(), Base::Integer | Base::Bitmask) || base.value().is_none() {
            return error(
                e.loc,
                format!("Prefix expression is undefined for {} types", base.dtype.desc()),
            );
        }
        if prefix > base.len {
            return error(
                e.loc,
                format!("Prefix length {prefix} is invalid for type of {} bits width", base.len),
            );
        }
        if let ExprKind::Value(value) = &mut base.kind {
            *value &= prefixmask(base.len, prefix);
        }
        let (dtype, order, bits) = (base.dtype.clone(), base.order, base.len);
        e.dtype = dtype;
        e.order = order;
        e.len = bits;
        e.constant = true;
        e.singleton = false;
        Ok(())
    }

    fn range(&mut self, e: &mut Expr) -> Result {
        let loc = e.loc;
        let ExprKind::Range { left, right } = &mut e.kind else { return Ok(()) };
        let alone = std::mem::take(&mut self.alone);
        self.range_end(left, loc)?;
        self.range_end(right, loc)?;
        if let (Some(from), Some(to)) = (left.value(), right.value())
            && from > to
            && !(alone
                && [DataType::TimeHour, DataType::TimeDay].map(Type::Base).contains(&left.dtype))
        {
            return error(loc, "Range has zero or negative size");
        }
        let (dtype, order, len) = (left.dtype.clone(), left.order, left.len);
        e.dtype = dtype;
        e.order = order;
        e.len = len;
        e.constant = true;
        e.singleton = false;
        Ok(())
    }

    fn range_end(&mut self, end: &mut Expr, range: Loc) -> Result {
        self.expr(end)?;
        if !matches!(end.base(), Base::Integer | Base::Bitmask) {
            return conflict(
                end.loc,
                range,
                format!("Range expression is undefined for {} types", end.dtype.desc()),
            );
        }
        if end.value().is_none() {
            return conflict(end.loc, range, "Range is not constant");
        }
        Ok(())
    }

    fn unary(&mut self, e: &mut Expr) -> Result {
        let ExprKind::Unary { op, expr } = &mut e.kind else { return Ok(()) };
        self.expr(expr)?;
        let (op, dtype, len) = (*op, expr.dtype.clone(), expr.len);
        e.dtype = dtype;
        e.len = len;
        e.order = match op {
            UnaryOp::Hton => ByteOrder::Big,
            UnaryOp::Ntoh => ByteOrder::Host,
        };
        Ok(())
    }

    fn concat(&mut self, e: &mut Expr) -> Result {
        let loc = e.loc;
        let ExprKind::Concat(parts) = &mut e.kind else { return Ok(()) };
        let outer = self.expected.clone();
        let expected: Option<Arc<[DataType]>> = match &outer.dtype {
            Some(Type::Concat(parts)) => Some(parts.clone()),
            _ => None,
        };
        let count = parts.len();
        let mut types = Vec::with_capacity(count);
        let mut len = 0;
        let mut constant = true;
        let mut singleton = true;
        for (i, part) in parts.iter_mut().enumerate() {
            if let ExprKind::Key(Key::Ct { key: CtKey::Src | CtKey::Dst, .. }) = part.kind {
                return error(part.loc, "specify either ip or ip6 for address matching");
            }
            self.expected = match (&outer.key, &expected) {
                (Some(key), _) => match key.get(i) {
                    Some(field) => Expected::new(Type::Base(field.dtype), field.order, field.len),
                    None => {
                        let other = outer.key_loc.unwrap_or(part.loc);
                        return conflict(loc, other, "too many concatenation components");
                    }
                },
                (None, Some(types)) => match types.get(i) {
                    Some(dtype) => Expected::base(*dtype),
                    None => {
                        let desc = outer.dtype.as_ref().map(Type::desc).unwrap_or_default();
                        let message = format!("unexpected concat component, expecting {desc}");
                        return conflict(part.loc, loc, message);
                    }
                },
                (None, None) => Expected::new(Type::default(), ByteOrder::Invalid, 0),
            };
            self.expr(part)?;
            if part.elements().is_some() {
                return error(part.loc, "cannot use an anonymous set in a concatenation");
            }
            if let ExprKind::SetRef { .. } = part.kind {
                return error(part.loc, "cannot use a set reference in a concatenation");
            }
            let dtype = match &part.dtype {
                Type::Base(dtype) => *dtype,
                Type::Concat(_) => return error(part.loc, "concatenation inside a concatenation"),
            };
            if part.len == 0 || matches!(dtype, DataType::String | DataType::Invalid) {
                return conflict(
                    part.loc,
                    loc,
                    format!(
                        "can not use variable sized data types ({}) in concat expressions",
                        dtype.name()
                    ),
                );
            }
            constant &= part.constant;
            singleton &= part.singleton;
            types.push(dtype);
            len += part.len.div_ceil(32) * 32;
        }
        e.dtype = Type::Concat(types.into());
        e.len = len;
        e.order = ByteOrder::Invalid;
        e.constant = constant;
        e.singleton = singleton;
        let wanted = outer.key.as_ref().map(|k| k.len()).or(expected.as_ref().map(|x| x.len()));
        if let (Some(wanted), Some(dtype)) = (wanted, &outer.dtype)
            && count < wanted
        {
            return error(
                loc,
                format!(
                    "datatype mismatch, expected {}, expression has type {}",
                    dtype.desc(),
                    e.dtype.desc()
                ),
            );
        }
        self.expected = Expected {
            key: outer.key.or_else(|| fields_of(e)),
            key_loc: Some(loc),
            ..Expected::new(e.dtype.clone(), e.order, e.len)
        };
        Ok(())
    }

    fn list(&mut self, e: &mut Expr) -> Result {
        let ExprKind::List(items) = &mut e.kind else { return Ok(()) };
        let mut bits = 0;
        for item in items.iter_mut() {
            self.expr(item)?;
            let Some(value) = item.value() else {
                return error(item.loc, "List member must be a constant value");
            };
            if item.base() != Base::Bitmask {
                return error(
                    item.loc,
                    format!("Basetype of type {} is not bitmask", item.dtype.desc()),
                );
            }
            bits |= value;
        }
        let dtype = self.expected.dtype.clone().unwrap_or_default();
        *e = constant(bits, e.loc, dtype, ByteOrder::Host, self.expected.len);
        Ok(())
    }

    /// Brings an expression into a byte order: constants and single bytes by saying so, others by
    /// an operation.
    pub(crate) fn convert(&mut self, e: &mut Expr, order: ByteOrder) -> Result {
        if let ExprKind::Concat(_) = e.kind {
            return Ok(());
        }
        if e.order == order {
            return Ok(());
        }
        if e.base() == Base::String {
            return Ok(());
        }
        if !matches!(e.base(), Base::Integer | Base::Bitmask) {
            let name = |o| if o == ByteOrder::Host { "host endian" } else { "big endian" };
            return error(
                e.loc,
                format!("Byteorder mismatch: expected {}, got {}", name(order), name(e.order)),
            );
        }
        // Whether there is a route is a word in a register.
        if matches!(e.kind, ExprKind::Key(Key::Fib { .. })) && e.len == 1 {
            e.len = 32;
        }
        let bytes = if self.written > 0 { e.len.div_ceil(8) } else { e.len / 8 };
        if e.constant || bytes < 2 {
            set_order(e, order);
            return Ok(());
        }
        let op = match order {
            ByteOrder::Big => UnaryOp::Hton,
            _ => UnaryOp::Ntoh,
        };
        let (loc, dtype, len) = (e.loc, e.dtype.clone(), e.len);
        let inner = e.take();
        *e = Expr::typed(ExprKind::Unary { op, expr: Box::new(inner) }, loc, dtype, order, len);
        Ok(())
    }
}

/// Says of a constant and its parts in which order they are meant.
pub(crate) fn set_order(e: &mut Expr, order: ByteOrder) {
    e.order = order;
    if let ExprKind::Range { left, right } = &mut e.kind {
        left.order = order;
        right.order = order;
    } else if let ExprKind::Prefix { base, .. } = &mut e.kind {
        base.order = order;
    }
}
