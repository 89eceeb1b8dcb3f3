// SPDX-License-Identifier: Apache-2.0

//! Expressions.

use penstock_program::expr::{ExthdrOp, PayloadBase};
use serde_json::{Map, Value, json};

use super::tagged;
use crate::ast::expr::{BinOp, Exthdr, Payload, RelOp, SetElem, VerdictExpr};
use crate::ast::{Expr, ExprKind};
use crate::bits::swap_bytes;
use crate::datatype::{ByteOrder, DataType, Format, Type, print, symbols};
use crate::names::Names;
use crate::release::Release;

/// What a listing in JSON depends on besides the tree.
pub struct Writer<'a> {
    /// Names of constants.
    pub names: &'a dyn Names,
    /// What the options change.
    pub format: &'a Format,
}

impl Writer<'_> {
    /// An expression.
    pub fn expr(&self, e: &Expr) -> Value {
        match &e.kind {
            ExprKind::Symbol { text, .. } => json!(&**text),
            ExprKind::Variable { name } => json!(format!("${name}")),
            ExprKind::Value(v) => self.constant(e, *v),
            ExprKind::String(s) => json!(&**s),
            ExprKind::Verdict(v) => self.verdict(v),
            ExprKind::Prefix { base, len } => {
                json!({"prefix": {"addr": self.expr(base), "len": len}})
            }
            ExprKind::Range { left, right } => {
                // Protocols are listed by numbers here.
                let format =
                    Format { numeric_protocol: true, service_names: false, ..*self.format };
                let ends = Writer { format: &format, ..*self };
                json!({"range": [ends.expr(left), ends.expr(right)]})
            }
            ExprKind::Concat(parts) => tagged("concat", self.list(parts)),
            ExprKind::List(items) => self.list(items),
            ExprKind::Set { elements, .. } => tagged("set", self.list(elements)),
            ExprKind::SetElem(elem) => self.set_elem(elem),
            ExprKind::CatchAll => json!("*"),
            ExprKind::Mapping { left, right } => json!([self.expr(left), self.expr(right)]),
            ExprKind::Map { key, mappings } => {
                let verdicts = match mappings.elements() {
                    Some(elements) => elements.iter().any(maps_to_verdict),
                    None => is_verdict(e),
                };
                let word = if verdicts { "vmap" } else { "map" };
                json!({word: {"key": self.expr(key), "data": self.expr(mappings)}})
            }
            ExprKind::SetRef { set } => json!(format!("@{set}")),
            ExprKind::Payload(p) => self.payload(p, e.len),
            ExprKind::Exthdr(x) => self.exthdr(x, e.len),
            ExprKind::Key(key) => self.selector(key),
            ExprKind::Hash { expr, modulus, seed, offset } => {
                let mut m = Map::new();
                m.insert("mod".into(), json!(modulus));
                if let Some(seed) = seed {
                    m.insert("seed".into(), json!(seed));
                }
                if *offset != 0 {
                    m.insert("offset".into(), json!(offset));
                }
                m.insert("expr".into(), self.expr(expr));
                tagged("jhash", m)
            }
            ExprKind::Unary { expr, .. } => self.expr(expr),
            ExprKind::Binop { op, left, right } => {
                let word = match op {
                    BinOp::And => "&",
                    BinOp::Or => "|",
                    BinOp::Xor => "^",
                    BinOp::Lshift => "<<",
                    BinOp::Rshift => ">>",
                };
                match self.format.release {
                    Release::V1_0_6 => json!({word: [self.expr(left), self.expr(right)]}),
                    Release::V1_1 => {
                        let mut operands = Vec::new();
                        self.operands(*op, e, &mut operands);
                        json!({word: operands})
                    }
                }
            }
            ExprKind::Relational { op, left, right } => {
                let word = match op {
                    RelOp::Implicit => implicit_word(right),
                    RelOp::Eq => "==",
                    RelOp::Neq => "!=",
                    RelOp::Lt => "<",
                    RelOp::Lte => "<=",
                    RelOp::Gt => ">",
                    RelOp::Gte => ">=",
                    RelOp::Neg => "!",
                };
                let left = self.left_side(left, right);
                let right = if let ExprKind::Range { left: low, right: high } = &right.kind
                    && *op == RelOp::Neq
                {
                    let format =
                        Format { numeric_protocol: true, service_names: false, ..*self.format };
                    let ends = Writer { format: &format, ..*self };
                    json!({"range": [ends.swapped(low), ends.swapped(high)]})
                } else {
                    self.expr(right)
                };
                json!({"match": {"op": word, "left": left, "right": right}})
            }
            ExprKind::FlagCmp { op, expr, value, mask } => {
                let op = if *op == RelOp::Neq { "!=" } else { "==" };
                json!({"match": {
                    "op": op,
                    "left": {"&": [self.expr(expr), self.flags(mask)]},
                    "right": self.flags(value),
                }})
            }
        }
    }

    /// Operands of one operator: those of a chain like `a | b | c` are one list in nft 1.1.
    fn operands(&self, op: BinOp, e: &Expr, to: &mut Vec<Value>) {
        match &e.kind {
            ExprKind::Binop { op: inner, left, right } if *inner == op => {
                self.operands(op, left, to);
                to.push(self.expr(right));
            }
            _ => to.push(self.expr(e)),
        }
    }

    /// Flags that are compared with, or a mask of them.
    fn flags(&self, flags: &Expr) -> Value {
        match (&flags.kind, self.format.release) {
            (ExprKind::List(parts), Release::V1_1) => {
                json!({"|": parts.iter().map(|part| self.expr(part)).collect::<Vec<_>>()})
            }
            _ => self.expr(flags),
        }
    }

    /// Whether there is a route is asked by `oif exists`, in sets and maps by `check`.
    fn left_side(&self, left: &Expr, right: &Expr) -> Value {
        match left.without_presence().filter(|_| right.value().is_some()) {
            Some(asked) => self.expr(&asked),
            None => self.expr(left),
        }
    }

    /// An end of a range that is compared with at once: nft looks for its name with the bytes of it
    /// the wrong way round.
    fn swapped(&self, e: &Expr) -> Value {
        let dtype = e.dtype.base();
        let named =
            symbols::of(dtype).is_some() || matches!(dtype, DataType::Mark | DataType::DevGroup);
        if let ExprKind::Value(value) = e.kind
            && named
            && dtype.order() == ByteOrder::Host
            && dtype != DataType::Boolean
        {
            match self.constant(e, swap_bytes(value, e.len)) {
                Value::Number(_) => number(value),
                name => name,
            }
        } else {
            self.expr(e)
        }
    }

    /// A value in the form of its type: a number, a truth value or the text that the language
    /// lists.
    fn constant(&self, e: &Expr, value: u128) -> Value {
        let dtype = e.dtype.base();
        match dtype {
            DataType::Boolean => return json!(value != 0),
            DataType::Time => return json!(value as u64 / 1000),
            DataType::InetService if !self.format.service_names => return number(value),
            _ => {}
        }
        // Names where there are some, otherwise numbers.
        let named = symbols::of(dtype).is_some()
            || matches!(
                dtype,
                DataType::InetProtocol
                    | DataType::InetService
                    | DataType::Mark
                    | DataType::DevGroup
                    | DataType::CtLabel
                    | DataType::Uid
                    | DataType::Gid
            );
        // Text, whatever it looks like.
        let text = matches!(
            dtype,
            DataType::String
                | DataType::IfName
                | DataType::LlAddr
                | DataType::EtherAddr
                | DataType::IpAddr
                | DataType::Ip6Addr
                | DataType::Classid
                | DataType::IfIndex
                | DataType::Realm
                | DataType::TimeDate
                | DataType::TimeHour
                | DataType::Cgroupv2
        );
        if !named && !text {
            return number(value);
        }
        let mut out = String::new();
        print::print(dtype, value, e.len, self.format, self.names, &mut out);
        let bare = out.trim_matches('"');
        if text {
            return json!(bare);
        }
        match bare.parse::<u64>() {
            // A bit is listed by its number.
            Ok(bit) if dtype == DataType::CtLabel => json!(bit),
            Ok(_) => number(value),
            Err(_) if bare.starts_with("0x") && bare == out => number(value),
            Err(_) => json!(bare),
        }
    }

    fn list(&self, items: &[Expr]) -> Value {
        Value::Array(items.iter().map(|e| self.expr(e)).collect())
    }

    fn verdict(&self, v: &VerdictExpr) -> Value {
        match v {
            VerdictExpr::Accept => tagged("accept", Value::Null),
            VerdictExpr::Drop => tagged("drop", Value::Null),
            VerdictExpr::Queue => tagged("queue", Value::Null),
            VerdictExpr::Continue => tagged("continue", Value::Null),
            VerdictExpr::Break => tagged("break", Value::Null),
            VerdictExpr::Return => tagged("return", Value::Null),
            VerdictExpr::Jump(c) => json!({"jump": {"target": self.expr(c)}}),
            VerdictExpr::Goto(c) => json!({"goto": {"target": self.expr(c)}}),
        }
    }

    /// The key alone, or with its options. Times are in seconds.
    fn set_elem(&self, elem: &SetElem) -> Value {
        let mut m = Map::new();
        m.insert("val".into(), self.expr(&elem.key));
        if let Some(t) = elem.timeout {
            let never = t == SetElem::NEVER;
            m.insert("timeout".into(), if never { json!("never") } else { json!(t / 1000) });
        }
        if let Some(t) = elem.expires {
            m.insert("expires".into(), json!(t / 1000));
        }
        if let Some(c) = &elem.comment {
            m.insert("comment".into(), json!(&**c));
        }
        for s in &elem.stmts {
            if let Value::Object(o) = self.stmt(s) {
                m.extend(o);
            }
        }
        if m.len() == 1 { self.expr(&elem.key) } else { tagged("elem", m) }
    }

    fn payload(&self, p: &Payload, len: u32) -> Value {
        let mut m = Map::new();
        match (p.raw, p.proto, p.field) {
            (false, Some(proto), Some(field)) => {
                if let Some(tunnel) = p.inner {
                    m.insert("tunnel".into(), json!(tunnel.name));
                }
                m.insert("protocol".into(), json!(proto.name));
                m.insert("field".into(), json!(field.name));
            }
            _ => {
                let base = match p.base {
                    PayloadBase::Link => "ll",
                    PayloadBase::Network => "nh",
                    PayloadBase::Transport => "th",
                    PayloadBase::Inner => "ih",
                    PayloadBase::Tunnel => "tunnel",
                };
                m.insert("base".into(), json!(base));
                m.insert("offset".into(), json!(p.offset));
                m.insert("len".into(), json!(len));
            }
        }
        tagged("payload", m)
    }

    fn exthdr(&self, x: &Exthdr, len: u32) -> Value {
        let (word, key) = match x.op {
            ExthdrOp::Ipv6 => ("exthdr", "name"),
            ExthdrOp::TcpOpt => ("tcp option", "name"),
            ExthdrOp::Ipv4Opt => ("ip option", "name"),
            ExthdrOp::Sctp => ("sctp chunk", "name"),
            ExthdrOp::Dccp => ("dccp option", "type"),
        };
        let mut m = Map::new();
        match x.desc {
            Some(desc) if !x.raw && x.op != ExthdrOp::Dccp => {
                m.insert(key.into(), json!(desc.name));
                if let (false, Some(field)) = (x.present, x.field) {
                    m.insert("field".into(), json!(field.name));
                }
            }
            _ if x.op == ExthdrOp::Dccp => {
                m.insert("type".into(), json!(x.raw_type));
            }
            _ => {
                m.insert("base".into(), json!(x.raw_type));
                m.insert("offset".into(), json!(x.offset));
                m.insert("len".into(), json!(len));
            }
        }
        tagged(word, m)
    }
}

/// The operator of a match where none was written: flags are tested with `in`.
fn implicit_word(right: &Expr) -> &'static str {
    let flag = matches!(right.kind, ExprKind::Value(_) | ExprKind::Symbol { .. });
    let flags = matches!(right.kind, ExprKind::List(_)) || flag && right.dtype.base().is_bitmask();
    if flags { "in" } else { "==" }
}

fn is_verdict(e: &Expr) -> bool {
    e.dtype == Type::Base(DataType::Verdict)
}

fn maps_to_verdict(e: &Expr) -> bool {
    if let Some(elem) = e.elem() {
        return maps_to_verdict(&elem.key);
    }
    e.mapping().is_some_and(|(_, data)| matches!(data.kind, ExprKind::Verdict(_)))
}

/// A number; what JSON numbers do not hold is text in hexadecimal.
fn number(value: u128) -> Value {
    match u64::try_from(value) {
        Ok(n) => json!(n),
        Err(_) => json!(format!("{value:#x}")),
    }
}
