// SPDX-License-Identifier: Apache-2.0

//! What expressions are made of: header fields and options, `meta`, `ct`, `rt`, `fib`, hashes and
//! the like.

use penstock_program::expr::{
    CtDir, CtKey, ExthdrOp, FIB_PRESENT, FibResult, MetaKey, NumgenMode, PayloadBase, RtKey,
    SocketKey, XfrmKey,
};
use serde_json::Value;

use super::{Reader, expr, maybe_text, several, type_name};
use crate::ast::expr::{Exthdr, Payload};
use crate::ast::{Expr, ExprKind, Key};
use crate::datatype::{ByteOrder, DataType, Type};
use crate::exthdr::{self, ExthdrDesc};
use crate::json::Object;
use crate::keys;
use crate::proto::{self, Template};
use crate::source::Loc;

/// `NFTA_FIB_F_*`.
const FIB_SADDR: u32 = 1;
const FIB_DADDR: u32 = 2;
const FIB_IIF: u32 = 8;
const FIB_OIF: u32 = 16;

fn of_template(kind: ExprKind, field: &Template) -> Expr {
    Expr::typed(kind, Loc::NOWHERE, Type::Base(field.dtype), field.order, field.len)
}

fn raw_bits(kind: ExprKind, len: u32) -> Expr {
    Expr::typed(kind, Loc::NOWHERE, Type::Base(DataType::Integer), ByteOrder::Big, len)
}

/// Whether a header or option is there.
fn presence(op: ExthdrOp, desc: Option<&'static ExthdrDesc>, kind: u8) -> Expr {
    let exthdr = ExprKind::Exthdr(Exthdr::presence(op, desc, kind));
    Expr::typed(exthdr, Loc::NOWHERE, Type::Base(DataType::Boolean), ByteOrder::Big, 8)
}

fn exthdr_field(desc: &'static ExthdrDesc, field: &'static Template) -> Expr {
    of_template(ExprKind::Exthdr(Exthdr::field(desc, field)), field)
}

impl Reader<'_> {
    /// An expression by its name, one that [`super::exprs::Place`] knows.
    pub(crate) fn key(&mut self, name: &str, body: &Value) -> Option<Expr> {
        let object = self.object(body)?;
        match name {
            "payload" => self.payload(object),
            "exthdr" => self.ipv6_header(object),
            "tcp option" => self.tcp_option(object),
            "ip option" => self.named_option(object, "ip option", exthdr::ipv4_option),
            "sctp chunk" => self.named_option(object, "sctp chunk", exthdr::sctp_chunk),
            "dccp option" => {
                let kind: u8 = self.number(object, "type", 0)?;
                Some(presence(ExthdrOp::Dccp, None, kind))
            }
            "meta" => self.meta(object),
            "ct" => self.ct(object),
            "rt" => self.rt(object),
            "osf" => self.osf(object),
            "ipsec" => self.xfrm(object),
            "socket" => self.socket(object),
            "tunnel" => self.tunnel_key(object),
            "numgen" => self.numgen(object),
            "jhash" => self.hash(object, true),
            "symhash" => self.hash(object, false),
            "fib" => self.fib(object),
            other => self.error(format!("Unknown expression type '{other}'.")),
        }
    }

    fn payload(&mut self, object: &Object) -> Option<Expr> {
        if let Some(base) = maybe_text(object, "base") {
            let base = match base {
                "ll" => PayloadBase::Link,
                "nh" => PayloadBase::Network,
                "th" => PayloadBase::Transport,
                "ih" => PayloadBase::Inner,
                other => return self.error(format!("Invalid payload base '{other}'.")),
            };
            let offset = self.number(object, "offset", 1)?;
            let len: u32 = self.number(object, "len", 2)?;
            let payload =
                Payload { base, proto: None, field: None, offset, raw: true, inner: None };
            return Some(raw_bits(ExprKind::Payload(payload), len));
        }
        let (Some(protocol), Some(field)) =
            (maybe_text(object, "protocol"), maybe_text(object, "field"))
        else {
            return self.error("Invalid payload expression properties.");
        };
        let Some(proto) = proto::find(protocol) else {
            return self.error(format!("Unknown payload protocol '{protocol}'."));
        };
        let Some(field) = proto.template(field) else {
            return self.error(format!("Unknown {protocol} field '{field}'."));
        };
        let inner = match maybe_text(object, "tunnel") {
            None => None,
            Some(tunnel) => match proto::find(tunnel) {
                Some(tunnel) => Some(tunnel),
                None => return self.error(format!("Unknown payload tunnel '{tunnel}'.")),
            },
        };
        let payload = Payload {
            base: proto.base,
            proto: Some(proto),
            field: Some(field),
            offset: field.offset,
            raw: false,
            inner,
        };
        Some(of_template(ExprKind::Payload(payload), field))
    }

    fn ipv6_header(&mut self, object: &Object) -> Option<Expr> {
        let name = self.text(object, "name", 0)?;
        let Some(desc) = exthdr::ipv6(name) else {
            return self.error(format!("Invalid exthdr protocol '{name}'."));
        };
        let Some(field) = maybe_text(object, "field") else {
            return Some(presence(desc.op, Some(desc), desc.kind));
        };
        // Addresses of a routing header are counted by `offset`, or the number is part of the name.
        let offset: Option<u32> = self.maybe_number(object, "offset")?;
        let indexed = offset.map(|n| format!("{field}[{n}]"));
        let template =
            indexed.and_then(|name| desc.template(&name)).or_else(|| desc.template(field));
        match template {
            Some(template) => Some(exthdr_field(desc, template)),
            None => self.error(format!("Unknown {name} field {field}.")),
        }
    }

    fn tcp_option(&mut self, object: &Object) -> Option<Expr> {
        if object.contains_key("base") {
            let raw_type: u8 = self.number(object, "base", 0)?;
            let offset: u32 = self.number(object, "offset", 1)?;
            let len: u32 = self.number(object, "len", 2)?;
            if (offset, len) == (0, 8) {
                let desc = exthdr::tcp_option_by_kind(raw_type);
                return Some(presence(ExthdrOp::TcpOpt, desc, raw_type));
            }
            let exthdr = Exthdr {
                op: ExthdrOp::TcpOpt,
                desc: None,
                field: None,
                raw_type,
                offset,
                present: false,
                raw: true,
            };
            return Some(raw_bits(ExprKind::Exthdr(exthdr), len));
        }
        match object.get("name") {
            Some(Value::String(_)) => self.named_option(object, "tcp option", exthdr::tcp_option),
            Some(Value::Number(_)) => {
                let kind: u8 = self.number(object, "name", 0)?;
                Some(presence(ExthdrOp::TcpOpt, exthdr::tcp_option_by_kind(kind), kind))
            }
            _ => self.error("Invalid tcp option expression properties."),
        }
    }

    /// Field of an option or chunk; without one, whether it is there.
    fn named_option(
        &mut self,
        object: &Object,
        what: &str,
        find: fn(&str) -> Option<&'static ExthdrDesc>,
    ) -> Option<Expr> {
        let name = self.text(object, "name", 0)?;
        let Some(desc) = find(name) else {
            return self.error(format!("Unknown {what} name '{name}'."));
        };
        let Some(field) = maybe_text(object, "field") else {
            return Some(presence(desc.op, Some(desc), desc.kind));
        };
        match desc.template(field) {
            Some(template) => Some(exthdr_field(desc, template)),
            None => self.error(format!("Unknown {what} field '{field}'.")),
        }
    }

    fn meta(&mut self, object: &Object) -> Option<Expr> {
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

    /// `NFPROTO_*` of `ip` and `ip6`, 0 for none.
    fn protocol_family(&mut self, object: &Object) -> Option<u8> {
        match maybe_text(object, "family") {
            None => Some(0),
            Some("ip") => Some(2),
            Some("ip6") => Some(10),
            Some(other) => self.error(format!("Unknown family '{other}'.")),
        }
    }

    fn ct(&mut self, object: &Object) -> Option<Expr> {
        let name = self.text(object, "key", 0)?;
        let Some(info) = keys::ct_by_name(name) else {
            return self.error(format!("Unknown ct key '{name}'."));
        };
        let key = match (info.key, self.protocol_family(object)?) {
            (CtKey::Src, 2) => CtKey::SrcIp,
            (CtKey::Dst, 2) => CtKey::DstIp,
            (CtKey::Src, 10) => CtKey::SrcIp6,
            (CtKey::Dst, 10) => CtKey::DstIp6,
            (key, _) => key,
        };
        let nfproto = match key {
            CtKey::SrcIp | CtKey::DstIp => 2,
            CtKey::SrcIp6 | CtKey::DstIp6 => 10,
            _ => 0,
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
        Some(expr(ExprKind::Key(Key::Ct { key, dir, nfproto })))
    }

    fn rt(&mut self, object: &Object) -> Option<Expr> {
        let name = self.text(object, "key", 0)?;
        let family = self.protocol_family(object)?;
        let key = match (name, family) {
            ("classid", _) => RtKey::Classid,
            ("nexthop", 10) => RtKey::Nexthop6,
            ("nexthop", _) => RtKey::Nexthop4,
            ("mtu", _) => RtKey::TcpMss,
            ("ipsec", _) => RtKey::Xfrm,
            (other, _) => return self.error(format!("Unknown rt key '{other}'.")),
        };
        let mut rt = expr(ExprKind::Key(Key::Rt { key }));
        // As in text: with a family its type is that of an address.
        rt.dtype = Type::Base(match family {
            2 => DataType::IpAddr,
            10 => DataType::Ip6Addr,
            _ => DataType::Invalid,
        });
        Some(rt)
    }

    fn osf(&mut self, object: &Object) -> Option<Expr> {
        let ttl = match maybe_text(object, "ttl") {
            None => 0,
            Some("loose") => 1,
            Some("skip") => 2,
            Some(other) => return self.error(format!("Invalid osf ttl option '{other}'.")),
        };
        let version = match self.text(object, "key", 0)? {
            "name" => false,
            "version" => true,
            _ => return self.error("Invalid osf key value."),
        };
        Some(expr(ExprKind::Key(Key::Osf { ttl, version })))
    }

    fn xfrm(&mut self, object: &Object) -> Option<Expr> {
        let name = self.text(object, "key", 0)?;
        let bare = name.rsplit(' ').next().unwrap_or(name);
        let family = match (self.protocol_family(object)?, name.split_once(' ')) {
            (0, Some(("ip", _))) => 2,
            (0, Some(("ip6", _))) => 10,
            (family, _) => family,
        };
        let key = match (bare, family) {
            ("reqid", _) => XfrmKey::Reqid,
            ("spi", _) => XfrmKey::Spi,
            ("saddr", 2) => XfrmKey::SaddrIp4,
            ("daddr", 2) => XfrmKey::DaddrIp4,
            ("saddr", 10) => XfrmKey::SaddrIp6,
            ("daddr", 10) => XfrmKey::DaddrIp6,
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

    fn socket(&mut self, object: &Object) -> Option<Expr> {
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

    fn tunnel_key(&mut self, object: &Object) -> Option<Expr> {
        let name = self.text(object, "key", 0)?;
        match keys::TUNNEL.iter().find(|k| k.name == name) {
            Some(info) => Some(expr(ExprKind::Key(Key::Tunnel { key: info.key }))),
            None => self.error("Invalid tunnel key value."),
        }
    }

    fn numgen(&mut self, object: &Object) -> Option<Expr> {
        let mode = self.text(object, "mode", 0)?;
        let modulus = self.number(object, "mod", 1)?;
        let offset = self.maybe_number(object, "offset")?.unwrap_or(0);
        let mode = match mode {
            "inc" => NumgenMode::Inc,
            "random" => NumgenMode::Random,
            other => return self.error(format!("Unknown numgen mode '{other}'.")),
        };
        Some(expr(ExprKind::Key(Key::Numgen { mode, modulus, offset })))
    }

    fn hash(&mut self, object: &Object, of_expr: bool) -> Option<Expr> {
        let modulus = self.number(object, "mod", 0)?;
        let offset = self.maybe_number(object, "offset")?.unwrap_or(0);
        if !of_expr {
            return Some(expr(ExprKind::Key(Key::Symhash { modulus, offset })));
        }
        let hashed = self.member(object, "expr", 1)?;
        let Some(hashed) = self.expr(hashed) else {
            return self.error("Invalid jhash expression.");
        };
        let seed = self.maybe_number(object, "seed")?;
        Some(expr(ExprKind::Hash { expr: Box::new(hashed), modulus, seed, offset }))
    }

    fn fib(&mut self, object: &Object) -> Option<Expr> {
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
        let both = |mask: u32| flags & mask == mask;
        if flags & (FIB_SADDR | FIB_DADDR) == 0 {
            return self.error("fib: need either saddr or daddr");
        }
        if both(FIB_SADDR | FIB_DADDR) {
            return self.error("fib: saddr and daddr are mutually exclusive");
        }
        if both(FIB_IIF | FIB_OIF) {
            return self.error("fib: iif and oif are mutually exclusive");
        }
        Some(expr(ExprKind::Key(Key::Fib { flags, result })))
    }
}
