// SPDX-License-Identifier: Apache-2.0

//! `fib`

use penstock_program::expr::{FIB_PRESENT, FibResult};
use serde_json::{Value, json};

use crate::ast::{Expr, ExprKind, Key};
use crate::json::read::{Reader, expr, several, type_name};
use crate::json::{Object, Writer};
use crate::keys;
use crate::lex::Tok;
use crate::parse::{Parsed, Parser};
use crate::source::Loc;

/// `NFTA_FIB_F_*`.
const SADDR: u32 = 1;
const DADDR: u32 = 2;
const IIF: u32 = 8;
const OIF: u32 = 16;

/// What is wrong with flags together.
fn refusal(flags: u32) -> Option<&'static str> {
    let both = |mask: u32| flags & mask == mask;
    if flags & (SADDR | DADDR) == 0 {
        Some("fib: need either saddr or daddr")
    } else if both(SADDR | DADDR) {
        Some("fib: saddr and daddr are mutually exclusive")
    } else if both(IIF | OIF) {
        Some("fib: iif and oif are mutually exclusive")
    } else {
        None
    }
}

impl Parser<'_> {
    pub(super) fn fib(&mut self, start: Loc) -> Parsed<Expr> {
        self.take();
        let mut flags = 0;
        let tuple = self.here();
        loop {
            let word = self.word();
            match keys::FIB_FLAGS.iter().find(|(_, flag)| *flag == word) {
                Some((bit, _)) => flags |= bit,
                None => return self.unexpected(&[]),
            }
            self.take();
            if !self.eat_tok(Tok::Dot) {
                break;
            }
        }
        let tuple = self.since(tuple);
        let result = match self.word() {
            "oif" => FibResult::Oif,
            "oifname" => FibResult::OifName,
            "type" => FibResult::AddrType,
            "check" => {
                flags |= FIB_PRESENT;
                FibResult::Oif
            }
            _ => return self.unexpected(&["type", "oif", "oifname"]),
        };
        self.take();
        if let Some(message) = refusal(flags) {
            return self.error(tuple, message);
        }
        Ok(Expr::new(ExprKind::Key(Key::Fib { flags, result }), self.since(start)))
    }
}

impl Writer<'_> {
    pub(super) fn fib(&self, flags: u32, result: FibResult) -> Value {
        let list: Vec<Value> = keys::fib_flags(flags).map(|word| json!(word)).collect();
        let result = if flags & FIB_PRESENT != 0 { "check" } else { keys::fib(result).name };
        json!({"fib": {"result": result, "flags": list}})
    }
}

impl Reader<'_> {
    pub(super) fn fib(&mut self, object: &Object) -> Option<Expr> {
        let word = self.text(object, "result", 0)?;
        let result = match word {
            "oif" | "check" => FibResult::Oif,
            "oifname" => FibResult::OifName,
            "type" => FibResult::AddrType,
            other => return self.error(format!("Invalid fib result '{other}'.")),
        };
        let mut flags = if word == "check" { FIB_PRESENT } else { 0 };
        for (i, value) in several(self.member(object, "flags", 1)?).iter().enumerate() {
            let Some(word) = value.as_str() else {
                let kind = type_name(value);
                return self.error(format!(
                    "Unexpected object type in fib flags array at index {i}. ({kind})"
                ));
            };
            match keys::FIB_FLAGS.iter().find(|(_, w)| *w == word) {
                Some((bit, _)) => flags |= bit,
                None => return self.error(format!("Invalid fib flag '{word}'.")),
            }
        }
        if let Some(message) = refusal(flags) {
            return self.error(message);
        }
        Some(expr(ExprKind::Key(Key::Fib { flags, result })))
    }
}
