// SPDX-License-Identifier: Apache-2.0

//! `tunnel`, of the tunnel that a packet came through

use penstock_program::expr::TunnelKey;
use serde_json::{Value, json};

use crate::ast::{Expr, ExprKind, Key};
use crate::json::read::{Reader, expr};
use crate::json::{Object, Writer};
use crate::keys;
use crate::parse::{Parsed, Parser};
use crate::source::Loc;

impl Parser<'_> {
    /// `tunnel id`, `tunnel path`
    pub(super) fn tunnel(&mut self, start: Loc) -> Parsed<Expr> {
        self.take();
        let key = if self.at("id") { TunnelKey::Id } else { TunnelKey::Path };
        self.take();
        Ok(Expr::new(ExprKind::Key(Key::Tunnel { key }), self.since(start)))
    }
}

impl Writer<'_> {
    pub(super) fn tunnel(&self, key: TunnelKey) -> Value {
        json!({"tunnel": {"key": keys::tunnel(key).name}})
    }
}

impl Reader<'_> {
    pub(super) fn tunnel_key(&mut self, object: &Object) -> Option<Expr> {
        let name = self.text(object, "key", 0)?;
        match keys::TUNNEL.iter().find(|k| k.name == name) {
            Some(info) => Some(expr(ExprKind::Key(Key::Tunnel { key: info.key }))),
            None => self.error("Invalid tunnel key value."),
        }
    }
}
