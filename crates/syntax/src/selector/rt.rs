// SPDX-License-Identifier: Apache-2.0

//! `rt`, of the route

use penstock_program::Family;
use penstock_program::expr::RtKey;
use serde_json::{Map, Value, json};

use crate::ast::{Expr, ExprKind, Key};
use crate::datatype::{DataType, Type};
use crate::json::read::{Reader, expr};
use crate::json::{Object, Writer, tagged};
use crate::keys;
use crate::parse::{Parsed, Parser};
use crate::source::Loc;

impl Parser<'_> {
    /// What stands after `rt`.
    pub(super) fn rt(&mut self, start: Loc) -> Parsed<Expr> {
        let family = match self.word() {
            "ip" => Some(Family::Ip),
            "ip6" => Some(Family::Ip6),
            _ => None,
        };
        if family.is_some() {
            self.take();
        }
        let key = match self.word() {
            "classid" => RtKey::Classid,
            "nexthop" if family == Some(Family::Ip6) => RtKey::Nexthop6,
            "nexthop" => RtKey::Nexthop4,
            "mtu" => RtKey::TcpMss,
            "ipsec" => RtKey::Xfrm,
            _ => return self.unexpected(&["mtu", "classid", "nexthop", "ipsec"]),
        };
        self.take();
        let mut expr = Expr::new(ExprKind::Key(Key::Rt { key }), self.since(start));
        expr.dtype = Type::Base(match family {
            Some(Family::Ip) => DataType::IpAddr,
            Some(Family::Ip6) => DataType::Ip6Addr,
            _ => DataType::Invalid,
        });
        Ok(expr)
    }
}

impl Writer<'_> {
    pub(super) fn rt(&self, key: RtKey) -> Value {
        let family = match key {
            RtKey::Nexthop4 => Some("ip"),
            RtKey::Nexthop6 => Some("ip6"),
            RtKey::Classid | RtKey::TcpMss | RtKey::Xfrm => None,
        };
        let mut m = Map::new();
        let name = keys::rt(key).name;
        m.insert("key".into(), json!(name.split_once(' ').map_or(name, |(_, bare)| bare)));
        if let Some(family) = family {
            m.insert("family".into(), json!(family));
        }
        tagged("rt", m)
    }
}

impl Reader<'_> {
    pub(super) fn rt(&mut self, object: &Object) -> Option<Expr> {
        let name = self.text(object, "key", 0)?;
        let family = self.protocol_family(object)?;
        let key = match (name, family) {
            ("classid", _) => RtKey::Classid,
            ("nexthop", Some(Family::Ip6)) => RtKey::Nexthop6,
            ("nexthop", _) => RtKey::Nexthop4,
            ("mtu", _) => RtKey::TcpMss,
            ("ipsec", _) => RtKey::Xfrm,
            (other, _) => return self.error(format!("Unknown rt key '{other}'.")),
        };
        let mut rt = expr(ExprKind::Key(Key::Rt { key }));
        // As in text: with a family its type is that of an address.
        rt.dtype = Type::Base(match family {
            Some(Family::Ip) => DataType::IpAddr,
            Some(Family::Ip6) => DataType::Ip6Addr,
            _ => DataType::Invalid,
        });
        Some(rt)
    }
}
