// SPDX-License-Identifier: Apache-2.0

//! `ct`

use penstock_program::Family;
use penstock_program::expr::{CtDir, CtKey};
use serde_json::{Map, Value, json};

use crate::ast::{Expr, ExprKind, Key};
use crate::json::read::{Reader, expr, maybe_text};
use crate::json::{Object, Writer, tagged};
use crate::keys;
use crate::parse::{Parsed, Parser, words};
use crate::source::Loc;

impl Parser<'_> {
    /// What stands after `ct`.
    pub(crate) fn ct(&mut self, start: Loc) -> Parsed<Expr> {
        let dir = match self.word() {
            "original" => Some(CtDir::Original),
            "reply" => Some(CtDir::Reply),
            _ => None,
        };
        if dir.is_some() {
            self.take();
        }
        let family = match self.word() {
            "ip" if dir.is_some() => Some(Family::Ip),
            "ip6" if dir.is_some() => Some(Family::Ip6),
            _ => None,
        };
        if let Some(family) = family {
            self.keywords = words::keywords_after(family.name());
            self.take();
        }
        let key = match (self.word(), dir.is_some(), family) {
            ("saddr", true, Some(Family::Ip)) => CtKey::SrcIp,
            ("daddr", true, Some(Family::Ip)) => CtKey::DstIp,
            ("saddr", true, Some(Family::Ip6)) => CtKey::SrcIp6,
            ("daddr", true, Some(Family::Ip6)) => CtKey::DstIp6,
            (_, true, Some(_)) => return self.unexpected(&["saddr", "daddr"]),
            ("saddr", _, _) => CtKey::Src,
            ("daddr", _, _) => CtKey::Dst,
            ("l3proto", _, _) => CtKey::L3Protocol,
            ("protocol", _, _) => CtKey::Protocol,
            ("proto-src", _, _) => CtKey::ProtoSrc,
            ("proto-dst", _, _) => CtKey::ProtoDst,
            ("bytes", _, _) => CtKey::Bytes,
            ("packets", _, _) => CtKey::Pkts,
            ("avgpkt", _, _) => CtKey::AvgPkt,
            ("zone", _, _) => CtKey::Zone,
            ("state", false, _) => CtKey::State,
            ("direction", false, _) => CtKey::Direction,
            ("status", false, _) => CtKey::Status,
            ("mark", false, _) => CtKey::Mark,
            ("expiration", false, _) => CtKey::Expiration,
            ("helper", false, _) => CtKey::Helper,
            ("label", false, _) => CtKey::Labels,
            ("event", false, _) => CtKey::EventMask,
            ("secmark", false, _) => CtKey::SecMark,
            ("id", false, _) => CtKey::Id,
            _ => return self.unexpected(&[]),
        };
        self.take();
        let expr = Expr::new(ExprKind::Key(Key::Ct { key, dir, family }), self.since(start));
        // After a direction nft knows these to be complete; after all others a keyword of `ct` is
        // still one where the statement begins with it, since `set` could follow.
        let complete = dir.is_some()
            && !matches!(key, CtKey::Bytes | CtKey::Pkts | CtKey::AvgPkt | CtKey::Zone);
        let begins = self.stmt.start == start.start;
        if begins && !complete && !words::is_symbol_after_ct(self.word()) {
            self.close("ct")?;
        }
        Ok(expr)
    }
}

impl Writer<'_> {
    pub(crate) fn ct(&self, key: CtKey, dir: Option<CtDir>) -> Value {
        let mut m = Map::new();
        m.insert("key".into(), json!(keys::ct(key).name));
        if let Some(d) = dir {
            m.insert("dir".into(), json!(if d == CtDir::Original { "original" } else { "reply" }));
        }
        tagged("ct", m)
    }
}

impl Reader<'_> {
    pub(super) fn ct(&mut self, object: &Object) -> Option<Expr> {
        let name = self.text(object, "key", 0)?;
        let Some(info) = keys::ct_by_name(name) else {
            return self.error(format!("Unknown ct key '{name}'."));
        };
        let key = match (info.key, self.protocol_family(object)?) {
            (CtKey::Src, Some(Family::Ip)) => CtKey::SrcIp,
            (CtKey::Dst, Some(Family::Ip)) => CtKey::DstIp,
            (CtKey::Src, Some(Family::Ip6)) => CtKey::SrcIp6,
            (CtKey::Dst, Some(Family::Ip6)) => CtKey::DstIp6,
            (key, _) => key,
        };
        let family = match key {
            CtKey::SrcIp | CtKey::DstIp => Some(Family::Ip),
            CtKey::SrcIp6 | CtKey::DstIp6 => Some(Family::Ip6),
            _ => None,
        };
        let dir = match maybe_text(object, "dir") {
            None => None,
            Some("original") => Some(CtDir::Original),
            Some("reply") => Some(CtDir::Reply),
            Some(other) => return self.error(format!("Invalid direction '{other}'.")),
        };
        if dir.is_some() && !keys::ct_has_direction(key) {
            return self.error(format!("Direction not supported by CT key '{name}'."));
        }
        Some(expr(ExprKind::Key(Key::Ct { key, dir, family })))
    }
}
