// SPDX-License-Identifier: Apache-2.0

//! `meta`

use penstock_program::expr::MetaKey;
use serde_json::{Value, json};

use crate::ast::{Expr, ExprKind, Key};
use crate::json::read::{Reader, expr};
use crate::json::{Object, Writer};
use crate::keys;
use crate::lex::Tok;
use crate::parse::{Parsed, Parser, words};
use crate::source::Loc;

/// Meta keys that can be written without `meta`.
pub(super) fn bare_meta_key(name: &str) -> Option<MetaKey> {
    match name {
        "mark" | "iif" | "iifname" | "iiftype" | "oif" | "oifname" | "oiftype" | "skuid"
        | "skgid" | "nftrace" | "rtclassid" | "ibriport" | "obriport" | "ibrname" | "obrname"
        | "pkttype" | "cpu" | "iifgroup" | "oifgroup" | "cgroup" | "ipsec" | "time" | "day"
        | "hour" => keys::meta_by_name(name).map(|k| k.key),
        _ => None,
    }
}

impl Parser<'_> {
    /// The key after `meta`.
    pub(super) fn meta(&mut self, start: Loc) -> Parsed<Expr> {
        let token = self.peek();
        if !matches!(token.tok, Tok::Word | Tok::Str) {
            return self.unexpected(&[]);
        }
        match keys::meta_by_name(self.word()).map(|k| k.key) {
            Some(key) => {
                self.take();
                Ok(Expr::new(ExprKind::Key(Key::Meta { key }), self.since(start)))
            }
            None if words::is_reserved(self.word()) => self.unexpected(&[]),
            None => {
                let word = self.text(token).to_string();
                self.take();
                // The name is looked at when the statement is complete.
                if self.eat("set") {
                    self.argument()?;
                }
                let loc = self.since(start);
                let known = keys::meta_names();
                self.error(loc, format!("syntax error, unexpected {word}, known keys are {known}"))
            }
        }
    }
}

impl Writer<'_> {
    pub(crate) fn meta(&self, key: MetaKey) -> Value {
        json!({"meta": {"key": keys::meta(key).name}})
    }
}

impl Reader<'_> {
    pub(super) fn meta(&mut self, object: &Object) -> Option<Expr> {
        let name = self.text(object, "key", 0)?;
        let key: Option<MetaKey> = keys::meta_by_name(name).map(|k| k.key);
        match key {
            Some(key) => Some(expr(ExprKind::Key(Key::Meta { key }))),
            None => {
                let known = keys::meta_names();
                self.error(format!("syntax error, unexpected {name}, known keys are {known}"))
            }
        }
    }
}
