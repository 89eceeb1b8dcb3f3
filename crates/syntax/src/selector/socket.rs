// SPDX-License-Identifier: Apache-2.0

//! `socket`

use penstock_program::expr::SocketKey;
use serde_json::{Value, json};

use crate::ast::{Expr, ExprKind, Key};
use crate::json::read::{Reader, expr};
use crate::json::{Object, Writer};
use crate::keys;
use crate::parse::{Parsed, Parser};
use crate::source::Loc;

impl Parser<'_> {
    pub(super) fn socket(&mut self, start: Loc) -> Parsed<Expr> {
        self.take();
        self.scoped("socket", |p| p.socket_key(start))
    }

    fn socket_key(&mut self, start: Loc) -> Parsed<Expr> {
        let (key, leveled) = match self.word() {
            "transparent" => (SocketKey::Transparent, false),
            "mark" => (SocketKey::Mark, false),
            "wildcard" => (SocketKey::Wildcard, false),
            "cgroupv2" => (SocketKey::Cgroupv2, true),
            _ => return self.unexpected(&["transparent", "wildcard", "cgroupv2", "mark"]),
        };
        self.take();
        let mut level = 0;
        if leveled {
            self.need("level")?;
            level = self.number_as()?;
        }
        Ok(Expr::new(ExprKind::Key(Key::Socket { key, level }), self.since(start)))
    }
}

impl Writer<'_> {
    pub(super) fn socket(&self, key: SocketKey, level: u32) -> Value {
        match key {
            SocketKey::Cgroupv2 => json!({"socket": {"key": "cgroupv2", "level": level}}),
            SocketKey::Transparent | SocketKey::Mark | SocketKey::Wildcard => {
                json!({"socket": {"key": keys::socket(key).name}})
            }
        }
    }
}

impl Reader<'_> {
    pub(super) fn socket(&mut self, object: &Object) -> Option<Expr> {
        let key = match self.text(object, "key", 0)? {
            "transparent" => SocketKey::Transparent,
            "mark" => SocketKey::Mark,
            "wildcard" => SocketKey::Wildcard,
            "cgroupv2" => SocketKey::Cgroupv2,
            _ => return self.error("Invalid socket key value."),
        };
        let level = self.maybe_number(object, "level")?.unwrap_or(0);
        Some(expr(ExprKind::Key(Key::Socket { key, level })))
    }
}
