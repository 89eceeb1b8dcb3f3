// SPDX-License-Identifier: Apache-2.0

//! `reject`

use penstock_program::Family;
use penstock_program::expr::RejectType;
use serde_json::{Map, Value, json};

use crate::ast::stmt::Reject;
use crate::ast::{Expr, ExprKind, StmtKind};
use crate::datatype::{ByteOrder, DataType, Type};
use crate::json::Writer;
use crate::json::read::{Reader, maybe_text};
use crate::lex::Tok;
use crate::parse::{Parsed, Parser, words};
use crate::print::Printer;
use crate::source::Loc;

impl Parser<'_> {
    pub(super) fn reject(&mut self) -> Parsed<StmtKind> {
        self.take();
        let mut reject = Reject { kind: None, family: None, expr: None, code: 0 };
        if !self.eat("with") {
            return Ok(StmtKind::Reject(reject));
        }
        match self.word() {
            "icmp" => {
                (reject.kind, reject.family) = (Some(RejectType::IcmpUnreach), Some(Family::Ip))
            }
            "icmpv6" => {
                (reject.kind, reject.family) = (Some(RejectType::IcmpUnreach), Some(Family::Ip6))
            }
            "icmpx" => reject.kind = Some(RejectType::IcmpxUnreach),
            "tcp" => {
                self.take();
                self.need("reset")?;
                reject.kind = Some(RejectType::TcpRst);
                return Ok(StmtKind::Reject(reject));
            }
            _ => return self.unexpected(&["icmp", "icmpv6", "tcp", "icmpx"]),
        }
        let scope = if self.at("icmpx") { "reject" } else { "icmp" };
        self.keywords = words::keywords_after(scope);
        self.take();
        let typed = self.eat("type");
        let token = self.peek();
        let number = matches!(token.tok, Tok::Num(_));
        let keyword = words::keywords_after(scope).contains(&self.word());
        let word = matches!(token.tok, Tok::Word | Tok::Str) && self.is_string(token) && !keyword;
        if !number && !word {
            return self.unexpected(if typed {
                &["number", "string"]
            } else {
                &["number", "string", "type"]
            });
        }
        reject.expr = Some(self.symbol_or_number()?);
        Ok(StmtKind::Reject(reject))
    }
}

impl Printer<'_> {
    pub(super) fn reject(&mut self, reject: &Reject) {
        self.push("reject");
        let with = match reject.kind {
            None => return,
            Some(RejectType::TcpRst) => {
                self.push(" with tcp reset");
                return;
            }
            Some(RejectType::IcmpxUnreach) => " with icmpx ",
            Some(RejectType::IcmpUnreach) if reject.family == Some(Family::Ip6) => " with icmpv6 ",
            Some(RejectType::IcmpUnreach) => " with icmp ",
        };
        if let Some(code) = &reject.expr {
            self.push(with);
            self.expr(code);
        }
    }
}

impl Writer<'_> {
    pub(super) fn reject(&self, reject: &Reject) -> Value {
        let word = match (reject.kind, reject.family) {
            (Some(RejectType::TcpRst), _) => Some("tcp reset"),
            (Some(RejectType::IcmpxUnreach), _) => Some("icmpx"),
            (Some(RejectType::IcmpUnreach), Some(Family::Ip6)) => Some("icmpv6"),
            (Some(RejectType::IcmpUnreach), _) => Some("icmp"),
            (None, _) => None,
        };
        let Some(word) = word else { return Value::Null };
        let mut m = Map::new();
        m.insert("type".into(), json!(word));
        let dtype = match word {
            "icmpx" => DataType::IcmpxCode,
            "icmp" => DataType::IcmpCode,
            "icmpv6" => DataType::Icmpv6Code,
            _ => return Value::Object(m),
        };
        // Unlike in text, the code is there also where it is the default.
        let code = ExprKind::Value(reject.code.into());
        let code = Expr::typed(code, Loc::default(), Type::Base(dtype), ByteOrder::Big, 8);
        m.insert("expr".into(), self.expr(reject.expr.as_ref().unwrap_or(&code)));
        Value::Object(m)
    }
}

impl Reader<'_> {
    pub(super) fn reject(&mut self, body: &Value) -> Option<StmtKind> {
        let mut reject = Reject { kind: None, family: None, expr: None, code: 0 };
        let empty = Map::new();
        let object = body.as_object().unwrap_or(&empty);
        match maybe_text(object, "type") {
            Some("tcp reset") => reject.kind = Some(RejectType::TcpRst),
            Some("icmpx") => reject.kind = Some(RejectType::IcmpxUnreach),
            Some("icmp") => {
                (reject.kind, reject.family) = (Some(RejectType::IcmpUnreach), Some(Family::Ip))
            }
            Some("icmpv6") => {
                (reject.kind, reject.family) = (Some(RejectType::IcmpUnreach), Some(Family::Ip6))
            }
            _ => {}
        }
        if let Some(value) = object.get("expr") {
            reject.expr = match self.immediate(value) {
                Some(expr) => Some(expr),
                None => return self.error("Illegal reject expr."),
            };
        }
        Some(StmtKind::Reject(reject))
    }
}
