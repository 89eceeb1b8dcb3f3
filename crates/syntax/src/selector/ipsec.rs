// SPDX-License-Identifier: Apache-2.0

//! `ipsec`

use penstock_program::Family;
use penstock_program::expr::XfrmKey;
use serde_json::{Map, Value, json};

use crate::ast::{Expr, ExprKind, Key};
use crate::json::read::{Reader, expr};
use crate::json::{Object, Writer, tagged};
use crate::keys;
use crate::parse::{Parsed, Parser};
use crate::source::Loc;

impl Parser<'_> {
    pub(super) fn ipsec(&mut self, start: Loc) -> Parsed<Expr> {
        self.take();
        let out = self.at("out");
        self.take();
        let mut spnum = 0;
        if self.eat("spnum") {
            let loc = self.here();
            let n = self.number()?;
            if n > 255 {
                return self.error(loc, "value too large");
            }
            spnum = n as u32;
        }
        let family = match self.word() {
            "ip" => Some(Family::Ip),
            "ip6" => Some(Family::Ip6),
            _ => None,
        };
        if family.is_some() {
            self.take();
        }
        let key = match (self.word(), family) {
            ("reqid", None) => XfrmKey::Reqid,
            ("spi", None) => XfrmKey::Spi,
            ("saddr", Some(Family::Ip)) => XfrmKey::SaddrIp4,
            ("daddr", Some(Family::Ip)) => XfrmKey::DaddrIp4,
            ("saddr", Some(Family::Ip6)) => XfrmKey::SaddrIp6,
            ("daddr", Some(Family::Ip6)) => XfrmKey::DaddrIp6,
            (_, Some(_)) => return self.unexpected(&["saddr", "daddr"]),
            _ => return self.unexpected(&["ip", "ip6", "spi", "reqid"]),
        };
        self.take();
        Ok(Expr::new(ExprKind::Key(Key::Xfrm { key, out, spnum }), self.since(start)))
    }
}

impl Writer<'_> {
    pub(super) fn ipsec(&self, key: XfrmKey, out: bool, spnum: u32) -> Value {
        let family = match key {
            XfrmKey::DaddrIp4 | XfrmKey::SaddrIp4 => Some("ip"),
            XfrmKey::DaddrIp6 | XfrmKey::SaddrIp6 => Some("ip6"),
            XfrmKey::Reqid | XfrmKey::Spi => None,
        };
        let mut m = Map::new();
        let name = keys::xfrm(key).name;
        m.insert("key".into(), json!(name.split_once(' ').map_or(name, |(_, bare)| bare)));
        if let Some(family) = family {
            m.insert("family".into(), json!(family));
        }
        m.insert("dir".into(), json!(if out { "out" } else { "in" }));
        m.insert("spnum".into(), json!(spnum));
        tagged("ipsec", m)
    }
}

impl Reader<'_> {
    pub(super) fn ipsec(&mut self, object: &Object) -> Option<Expr> {
        let name = self.text(object, "key", 0)?;
        let bare = name.rsplit(' ').next().unwrap_or(name);
        let family = match (self.protocol_family(object)?, name.split_once(' ')) {
            (None, Some(("ip", _))) => Some(Family::Ip),
            (None, Some(("ip6", _))) => Some(Family::Ip6),
            (family, _) => family,
        };
        let key = match (bare, family) {
            ("reqid", _) => XfrmKey::Reqid,
            ("spi", _) => XfrmKey::Spi,
            ("saddr", Some(Family::Ip)) => XfrmKey::SaddrIp4,
            ("daddr", Some(Family::Ip)) => XfrmKey::DaddrIp4,
            ("saddr", Some(Family::Ip6)) => XfrmKey::SaddrIp6,
            ("daddr", Some(Family::Ip6)) => XfrmKey::DaddrIp6,
            _ => return self.error(format!("Unknown xfrm key '{name}'.")),
        };
        let out = match self.text(object, "dir", 1)? {
            "in" => false,
            "out" => true,
            other => return self.error(format!("Invalid direction '{other}'.")),
        };
        let spnum: i64 = self.maybe_number(object, "spnum")?.unwrap_or(0);
        match u8::try_from(spnum) {
            Ok(spnum) => Some(expr(ExprKind::Key(Key::Xfrm { key, out, spnum: spnum.into() }))),
            Err(_) => self.error(format!("Invalid spnum'{spnum}'.")),
        }
    }
}
