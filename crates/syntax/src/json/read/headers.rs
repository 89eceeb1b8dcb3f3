// SPDX-License-Identifier: Apache-2.0

//! What expressions are made of: header fields and options; selectors are in [`crate::selector`].

use penstock_program::expr::{ExthdrOp, PayloadBase};
use serde_json::Value;

use super::{Reader, maybe_text};
use crate::ast::expr::{Exthdr, Payload};
use crate::ast::{Expr, ExprKind};
use crate::datatype::{ByteOrder, DataType, Type};
use crate::exthdr::{self, ExthdrDesc};
use crate::json::Object;
use crate::proto::{self, Template};
use crate::source::Loc;
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
            other => self.selector(other, object),
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
}
