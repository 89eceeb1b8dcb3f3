// SPDX-License-Identifier: Apache-2.0

//! Expressions: immediate values, lists, sets and maps, operators, verdicts.

use serde_json::Value;

use super::{Reader, expr, maybe_text, type_name};
use crate::ast::expr::{BinOp, SetElem, SetExprFlags, SymbolKind, VerdictExpr};
use crate::ast::key;
use crate::ast::{Expr, ExprKind, Stmt};
use crate::datatype::{ByteOrder, DataType, Type};
use crate::parse::{MAX_OPERATORS, TOO_DEEP};
use crate::source::Loc;

/// Kinds of place in which only some expressions may stand, as bits: one within another counts as
/// both.
pub(crate) struct Contexts;

impl Contexts {
    pub(crate) const RHS: u32 = 1;
    pub(crate) const STMT: u32 = 1 << 1;
    pub(crate) const SET_RHS: u32 = 1 << 4;
    pub(crate) const MANGLE: u32 = 1 << 5;
    /// Element of a `set` statement.
    pub(crate) const SES: u32 = 1 << 6;
    pub(crate) const MAP: u32 = 1 << 7;
    pub(crate) const CONCAT: u32 = 1 << 8;

    const NAMES: [(u32, &str); 7] = [
        (Contexts::RHS, "RHS"),
        (Contexts::STMT, "STMT"),
        (Contexts::SET_RHS, "SET_RHS"),
        (Contexts::MANGLE, "MANGLE"),
        (Contexts::SES, "SES"),
        (Contexts::MAP, "MAP"),
        (Contexts::CONCAT, "CONCAT"),
    ];

    /// Where an expression may stand; nothing if there is none of that name.
    fn of(name: &str) -> Option<u32> {
        use Contexts as P;
        let operand = P::STMT | P::SET_RHS | P::SES | P::MAP | P::CONCAT;
        Some(match name {
            "concat" => P::RHS | P::STMT | P::SET_RHS | P::SES | P::MAP | P::CONCAT,
            "set" => P::RHS | P::STMT,
            "map" => P::STMT | P::SET_RHS | P::MAP,
            "prefix" | "range" => P::RHS | P::STMT | P::SET_RHS | P::CONCAT,
            "payload" => operand | P::MANGLE,
            "exthdr" => P::SET_RHS | P::SES | P::MAP | P::CONCAT | P::STMT,
            "tcp option" | "ip option" | "sctp chunk" => {
                P::SET_RHS | P::MANGLE | P::SES | P::MAP | P::CONCAT | P::STMT
            }
            "dccp option" => P::STMT | P::MAP | P::CONCAT | P::SES,
            "|" | "^" | "&" | ">>" | "<<" => operand | P::RHS,
            "accept" | "drop" | "continue" | "jump" | "goto" | "return" => P::RHS | P::SET_RHS,
            "elem" => P::RHS | P::STMT | P::SES,
            _ => {
                let keyword = key::keyword(name)?;
                let data = if keyword.in_data { P::SET_RHS } else { 0 };
                let target = if keyword.settable { P::MANGLE } else { 0 };
                P::STMT | P::MAP | P::CONCAT | P::SES | data | target
            }
        })
    }
}

impl Reader<'_> {
    /// An expression in a kind of place, within those that it stands in already.
    pub(crate) fn expr_in(&mut self, place: u32, value: &Value) -> Option<Expr> {
        let before = self.context;
        self.context |= place;
        let expr = self.expr(value);
        self.context = before;
        expr
    }

    pub(crate) fn expr(&mut self, value: &Value) -> Option<Expr> {
        match value {
            Value::String(_) | Value::Number(_) | Value::Bool(_) => return self.immediate(value),
            Value::Array(list) => return self.items(list),
            Value::Object(_) | Value::Null => {}
        }
        let (name, body) = self.only(value)?;
        let Some(places) = Contexts::of(name) else {
            return self.error(format!("Unknown expression type '{name}'."));
        };
        if places & self.context != self.context {
            let names = Contexts::NAMES.iter().filter(|(bit, _)| self.context & bit != 0);
            let names: Vec<&str> = names.map(|(_, name)| *name).collect();
            let names = names.join(", ");
            return self.error(format!("Expression type {name} not allowed in context ({names})."));
        }
        match name {
            "concat" => self.concat(body),
            "set" => self.set_elements(body),
            "map" => self.map(body),
            "prefix" => self.prefix(body),
            "range" => self.range(body),
            "|" => self.binop(BinOp::Or, body),
            "^" => self.binop(BinOp::Xor, body),
            "&" => self.binop(BinOp::And, body),
            "<<" => self.binop(BinOp::Lshift, body),
            ">>" => self.binop(BinOp::Rshift, body),
            "elem" => self.element(body),
            "accept" => verdict(VerdictExpr::Accept),
            "drop" => verdict(VerdictExpr::Drop),
            "continue" => verdict(VerdictExpr::Continue),
            "return" => verdict(VerdictExpr::Return),
            "jump" => verdict(VerdictExpr::Jump(self.jump_target(body)?)),
            "goto" => verdict(VerdictExpr::Goto(self.jump_target(body)?)),
            key => self.key(key, body),
        }
    }

    fn jump_target(&mut self, body: &Value) -> Option<Box<Expr>> {
        let object = self.object(body)?;
        let target = self.text(object, "target", 0)?;
        Some(Box::new(expr(ExprKind::Symbol { kind: SymbolKind::Value, text: target.into() })))
    }

    /// Text, number or truth value. `@name` is a set, `*` the element that catches all.
    pub(crate) fn immediate(&mut self, value: &Value) -> Option<Expr> {
        let symbol =
            |text: &str| expr(ExprKind::Symbol { kind: SymbolKind::Value, text: text.into() });
        match value {
            Value::String(text) if text == "*" => Some(expr(ExprKind::CatchAll)),
            Value::String(text) => match text.strip_prefix('@') {
                Some(name) => {
                    Some(expr(ExprKind::Symbol { kind: SymbolKind::Set, text: name.into() }))
                }
                None => Some(symbol(text)),
            },
            Value::Number(n) if n.is_i64() || n.is_u64() => Some(symbol(&n.to_string())),
            Value::Bool(truth) => {
                let dtype = Type::Base(DataType::Boolean);
                let value = ExprKind::Value(u128::from(*truth));
                let mut expr = Expr::typed(value, Loc::NOWHERE, dtype, ByteOrder::Host, 1);
                expr.constant = true;
                expr.singleton = true;
                Some(expr)
            }
            other => {
                let kind = type_name(other);
                self.error(format!("Unexpected JSON type {kind} for immediate value."))
            }
        }
    }

    fn items(&mut self, list: &[Value]) -> Option<Expr> {
        if self.context & (Contexts::RHS | Contexts::STMT) == 0 {
            return self.error("List expression only allowed on RHS or in statement expression.");
        }
        let mut items = Vec::new();
        for (i, item) in list.iter().enumerate() {
            match self.expr(item) {
                Some(item) => items.push(item),
                None => {
                    return self
                        .error(format!("Parsing list expression item at index {i} failed."));
                }
            }
        }
        Some(expr(ExprKind::List(items)))
    }

    fn concat(&mut self, body: &Value) -> Option<Expr> {
        let Value::Array(list) = body else {
            let kind = type_name(body);
            return self.error(format!("Unexpected concat object type {kind}."));
        };
        let mut parts = Vec::new();
        for (i, part) in list.iter().enumerate() {
            match self.expr_in(Contexts::CONCAT, part) {
                Some(part) => parts.push(part),
                None => return self.error(format!("Parsing expr at index {i} failed.")),
            }
        }
        match parts.pop() {
            None => self.error("Empty concatenation"),
            Some(only) if parts.is_empty() => Some(only),
            Some(last) => {
                parts.push(last);
                Some(expr(ExprKind::Concat(parts)))
            }
        }
    }

    /// The elements of a set or, as pairs, of a map. A name stands for itself, other single values
    /// for a set of one.
    pub(crate) fn set_elements(&mut self, body: &Value) -> Option<Expr> {
        let single;
        let list = match body {
            Value::Array(list) => list,
            other => {
                let one = self.immediate(other)?;
                if matches!(one.kind, ExprKind::Symbol { kind: SymbolKind::Set, .. }) {
                    return Some(one);
                }
                single = [other.clone()].to_vec();
                &single
            }
        };
        let mut elements = Vec::new();
        for (i, value) in list.iter().enumerate() {
            match self.set_element(value) {
                Some(element) => elements.push(element),
                None => return self.error(format!("Invalid set elem at index {i}.")),
            }
        }
        Some(expr(ExprKind::Set { elements, flags: SetExprFlags::default() }))
    }

    fn set_element(&mut self, value: &Value) -> Option<Expr> {
        let Some([left, right]) = value.as_array().map(Vec::as_slice) else {
            return self.expr_in(Contexts::RHS, value);
        };
        let left = self.expr_in(Contexts::RHS, left)?;
        // What stands on the right is a separate place.
        let before = std::mem::take(&mut self.context);
        let right = self.expr_in(Contexts::SET_RHS, right);
        self.context = before;
        Some(expr(ExprKind::Mapping { left: Box::new(left), right: Box::new(right?) }))
    }

    /// A key with its options. Times are in seconds.
    fn element(&mut self, body: &Value) -> Option<Expr> {
        let object = self.object(body)?;
        let key = self.member(object, "val", 0)?;
        let key = self.expr(key)?;
        let mut elem =
            SetElem { key, timeout: None, expires: None, comment: None, stmts: Vec::new() };
        elem.timeout = match maybe_text(object, "timeout") {
            Some("never") => Some(SetElem::NEVER),
            _ => self.maybe_number::<u32>(object, "timeout")?.map(|s| u64::from(s) * 1000),
        };
        elem.expires = self.maybe_number::<u32>(object, "expires")?.map(|s| u64::from(s) * 1000);
        elem.comment = self.short_comment(object)?;
        for (name, body) in object {
            if let Some(kind) = self.stateful(name, body) {
                elem.stmts.push(Stmt { kind: kind?, loc: Loc::NOWHERE });
            }
        }
        Some(expr(ExprKind::SetElem(Box::new(elem))))
    }

    fn map(&mut self, body: &Value) -> Option<Expr> {
        let object = self.object(body)?;
        let key = self.member(object, "key", 0)?;
        let data = self.member(object, "data", 1)?;
        let Some(key) = self.expr_in(Contexts::MAP, key) else {
            return self.error("Illegal map expression key.");
        };
        let before = std::mem::take(&mut self.context);
        let mappings = self.expr_in(Contexts::RHS, data);
        self.context = before;
        let Some(mappings) = mappings else { return self.error("Illegal map expression data.") };
        Some(expr(ExprKind::Map { key: Box::new(key), mappings: Box::new(mappings) }))
    }

    fn prefix(&mut self, body: &Value) -> Option<Expr> {
        let object = self.object(body)?;
        let base = self.member(object, "addr", 0)?;
        let len = self.number(object, "len", 1)?;
        match self.expr(base) {
            Some(base) => Some(expr(ExprKind::Prefix { base: Box::new(base), len })),
            None => self.error("Invalid address in prefix expr."),
        }
    }

    /// Exactly two of an array.
    fn pair<'v>(&mut self, value: &'v Value) -> Option<(&'v Value, &'v Value)> {
        match value {
            Value::Array(list) => match list.as_slice() {
                [left, right] => Some((left, right)),
                [] | [_] => {
                    let missing = list.len() as u32;
                    self.malformed(2 + 3 * missing, format!("Array index {missing} out of range"))
                }
                more => {
                    self.malformed(6, format!("{} array item(s) left unpacked", more.len() - 2))
                }
            },
            other => self.malformed(1, format!("Expected array, got {}", type_name(other))),
        }
    }

    fn range(&mut self, body: &Value) -> Option<Expr> {
        let (low, high) = self.pair(body)?;
        let Some(left) = self.expr(low) else {
            return self.error("Invalid low value in range expression.");
        };
        let Some(right) = self.expr(high) else {
            return self.error("Invalid high value in range expression.");
        };
        Some(expr(ExprKind::Range { left: Box::new(left), right: Box::new(right) }))
    }

    /// Two operands, or more that are taken from the left.
    fn binop(&mut self, op: BinOp, body: &Value) -> Option<Expr> {
        let count = body.as_array().map_or(1, Vec::len);
        if self.operators + count > MAX_OPERATORS as usize {
            return self.error(TOO_DEEP);
        }
        self.operators += count;
        let result = match body.as_array().map(Vec::as_slice) {
            Some([first, second, more @ ..]) if !more.is_empty() => {
                let first = self.binop_of(op, first, second);
                more.iter().fold(first, |result, right| self.operator(op, result?, right))
            }
            _ => self.pair(body).and_then(|(left, right)| self.binop_of(op, left, right)),
        };
        self.operators -= count;
        result
    }

    fn binop_of(&mut self, op: BinOp, left: &Value, right: &Value) -> Option<Expr> {
        let Some(left) = self.expr(left) else {
            return self.error("Failed to parse LHS of binop expression.");
        };
        self.operator(op, left, right)
    }

    fn operator(&mut self, op: BinOp, left: Expr, right: &Value) -> Option<Expr> {
        // Flags may be a list.
        let place = if right.is_array() { Contexts::RHS } else { 0 };
        let Some(right) = self.expr_in(place, right) else {
            return self.error("Failed to parse RHS of binop expression.");
        };
        Some(expr(ExprKind::Binop { op, left: Box::new(left), right: Box::new(right) }))
    }
}

fn verdict(verdict: VerdictExpr) -> Option<Expr> {
    Some(expr(ExprKind::Verdict(verdict)))
}
