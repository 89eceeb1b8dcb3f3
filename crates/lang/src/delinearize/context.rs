// SPDX-License-Identifier: Apache-2.0

//! What the matches so far say of the packet (nft's `struct proto_ctx`).

use penstock_program::expr::{CtKey, MetaKey, PayloadBase};
use penstock_ruleset::Family;
use penstock_syntax::ast::expr::Payload;
use penstock_syntax::ast::{Expr, ExprKind, Key};
use penstock_syntax::proto::{self, IcmpField, Proto, Template, link, network};

use super::fields;

/// Headers known by base, and the ICMP message type.
pub(super) struct Context {
    pub family: Family,
    /// The tunnel that the packet is in.
    tunnel: Option<&'static Proto>,
    start: &'static Proto,
    link: Option<&'static Proto>,
    network: Option<&'static Proto>,
    transport: Option<&'static Proto>,
    /// Link headers in their order, where there are several.
    stacked: Vec<&'static Proto>,
    icmp_type: Option<u8>,
    /// The header that raw bits where Ethernet has its type say.
    raw_type: Option<&'static Proto>,
}

/// Most link headers that are followed.
const STACK: usize = 16;

/// A header that a match named but that is unknown: it has no fields.
static UNKNOWN: Proto = Proto {
    name: "unknown",
    base: PayloadBase::Tunnel,
    templates: &[],
    protocol_key: None,
    upper: &[],
    checksum: None,
    pseudo_header: &[],
    len: 0,
};

impl Context {
    /// At the start of a rule.
    pub fn new(family: Family) -> Self {
        Context::of(family, None)
    }

    /// Where nothing is known yet of the packet in a tunnel.
    pub fn inside(tunnel: &'static Proto) -> Self {
        Context::of(proto::tunnel::family_inside(tunnel), Some(tunnel))
    }

    /// The tunnel that the packet is in.
    pub fn tunnel(&self) -> Option<&'static Proto> {
        self.tunnel
    }

    fn of(family: Family, tunnel: Option<&'static Proto>) -> Self {
        let (base, start) = proto::of_family(family);
        let mut context = Context {
            family,
            tunnel,
            start,
            link: None,
            network: None,
            transport: None,
            stacked: Vec::new(),
            icmp_type: None,
            raw_type: None,
        };
        context.set(base, start);
        context
    }

    /// The header at a base.
    pub fn at(&self, base: PayloadBase) -> Option<&'static Proto> {
        match base {
            PayloadBase::Link => self.link,
            PayloadBase::Network => self.network,
            PayloadBase::Transport => self.transport,
            PayloadBase::Inner | PayloadBase::Tunnel => None,
        }
    }

    fn set(&mut self, base: PayloadBase, proto: &'static Proto) {
        match base {
            PayloadBase::Link => self.link = Some(proto),
            PayloadBase::Network => self.network = Some(proto),
            PayloadBase::Transport => self.transport = Some(proto),
            PayloadBase::Inner | PayloadBase::Tunnel => {}
        }
    }

    /// The header that bits at an offset from a base lie in, and where it starts. Of link headers
    /// there may be several.
    fn header_at(&self, base: PayloadBase, offset: u32) -> Option<(&'static Proto, u32)> {
        let top = self.at(base)?;
        if base != PayloadBase::Link {
            return Some((top, 0));
        }
        let mut start = 0;
        for proto in &self.stacked {
            if offset - start < proto.len {
                return Some((proto, start));
            }
            start += proto.len;
        }
        Some((top, start))
    }

    /// Whether the message type seen allows a field.
    fn allows(&self, field: &Template) -> bool {
        match (field.icmp, self.icmp_type) {
            (IcmpField::Any, _) | (_, None) => true,
            (messages, Some(seen)) => messages.types().contains(&seen),
        }
    }

    /// The field on exactly these bits.
    pub fn field_at(&self, base: PayloadBase, offset: u32, len: u32) -> Option<Expr> {
        let (proto, start) = self.header_at(base, offset)?;
        let template = proto.templates.iter().find(|t| {
            t.meta.is_none() && t.offset == offset - start && t.len == len && self.allows(t)
        })?;
        Some(fields::inside(self.tunnel, fields::field(proto, template, offset)))
    }

    /// Fields that together make up these bits; the last one may be cut. Bits that belong to no
    /// field are raw.
    pub fn fields_in(&self, payload: &Payload, len: u32) -> Vec<Expr> {
        let mut offset = payload.offset;
        let mut left = len;
        let mut found = Vec::new();
        if let Some((proto, start)) = self.header_at(payload.base, offset) {
            for template in proto.templates {
                if template.meta.is_some()
                    || template.offset + start != offset
                    || !self.allows(template)
                {
                    continue;
                }
                let mut expr = fields::inside(self.tunnel, fields::field(proto, template, offset));
                if template.len > left {
                    expr.len = left;
                    found.push(expr);
                    return found;
                }
                found.push(expr);
                offset += template.len;
                left -= template.len;
                if left == 0 {
                    return found;
                }
            }
        }
        found.push(fields::inside(self.tunnel, fields::raw_payload(payload.base, offset, left)));
        found
    }

    /// The field that a mask picks out of these bits, and how far it must be shifted down.
    pub fn field_under(&self, payload: &Payload, len: u32, mask: u128) -> Option<(Expr, u32)> {
        if mask == 0 {
            return None;
        }
        let shift = mask.trailing_zeros();
        let width = 128 - mask.leading_zeros() - shift;
        if width < 128 && mask >> shift != (1 << width) - 1 {
            return None;
        }
        let offset = payload.offset + len.checked_sub(shift + width)?;
        let (proto, start) = self.header_at(payload.base, offset)?;
        let template = proto
            .templates
            .iter()
            .find(|t| t.meta.is_none() && t.offset + start == offset && t.len == width)?;
        Some((fields::inside(self.tunnel, fields::field(proto, template, offset)), shift))
    }

    /// The field that all bits of a mask lie in, and how far it is from the end of these bits.
    pub fn field_around(&self, payload: &Payload, len: u32, mask: u128) -> Option<(Expr, u32)> {
        if mask == 0 || len > 128 {
            return None;
        }
        let first = payload.offset + len.checked_sub(128 - mask.leading_zeros())?;
        let last = payload.offset + len - mask.trailing_zeros();
        let (proto, start) = self.header_at(payload.base, first)?;
        let template = proto.templates.iter().find(|t| {
            t.meta.is_none()
                && t.offset + start <= first
                && t.offset + start + t.len >= last
                && self.allows(t)
        })?;
        let field =
            fields::inside(self.tunnel, fields::field(proto, template, template.offset + start));
        Some((field, (payload.offset + len).checked_sub(template.offset + start + template.len)?))
    }

    /// Whether a match of this field tells what header follows.
    pub fn is_protocol_field(proto: &Proto, field: &Template) -> bool {
        (*proto == network::IP && field.name == "protocol")
            || (*proto == network::IP6 && field.name == "nexthdr")
            || (proto.is_icmp() && field.name == "type")
            || proto.protocol_template().is_some_and(|t| std::ptr::eq(t, field))
    }

    /// Whether a link header follows another one.
    pub fn is_stacked(&self, payload: &Payload, value: u128) -> bool {
        payload.base == PayloadBase::Link
            && payload
                .proto
                .and_then(|p| p.upper_by_number(value as u32))
                .is_some_and(|p| p.base == PayloadBase::Link)
    }

    /// Takes note of `left { … }`: of ICMP types, that one of them it is.
    pub fn learn_set(&mut self, left: &Expr, set: &Expr) {
        let ExprKind::Payload(payload) = &left.kind else { return };
        let (Some(proto), Some(field)) = (payload.proto, payload.field) else { return };
        let ExprKind::Set { elements, .. } = &set.kind else { return };
        if proto.is_icmp()
            && Self::is_protocol_field(proto, field)
            && let Some(ExprKind::SetElem(elem)) = elements.first().map(|e| &e.kind)
            && let ExprKind::Value(value) = elem.key.kind
        {
            self.icmp_type = Some(value as u8);
        }
    }

    /// The network header: from a match that has no name for what it says, if from no other.
    pub fn network_or_raw(&self) -> Option<&'static Proto> {
        let known = [&network::IP, &network::IP6];
        self.network.filter(|p| known.contains(p)).or(self.raw_type)
    }

    /// Takes note of `left == value`.
    pub fn learn(&mut self, left: &Expr, value: u128) {
        if let ExprKind::Payload(payload) = &left.kind {
            self.learn_payload(payload, value);
        } else if let ExprKind::Key(Key::Meta { key }) = &left.kind {
            self.learn_meta(*key, value);
        } else if let ExprKind::Key(Key::Ct { key, .. }) = &left.kind {
            self.learn_ct(*key, value);
        }
    }

    /// The number of a connection's protocol is read as the field of the header below would be, if
    /// that is known.
    fn learn_ct(&mut self, key: CtKey, value: u128) {
        let below = match key {
            CtKey::L3Protocol => PayloadBase::Link,
            CtKey::Protocol => PayloadBase::Network,
            _ => return,
        };
        if let Some(upper) = self.at(below).and_then(|lower| lower.upper_by_number(value as u32)) {
            self.set(upper.base, upper);
        }
    }

    fn learn_payload(&mut self, payload: &Payload, value: u128) {
        if payload.base == PayloadBase::Link && payload.proto.is_none() {
            self.raw_type = link::ETHER.upper_by_number(value as u32);
        }
        let (Some(proto), Some(field)) = (payload.proto, payload.field) else { return };
        if !Self::is_protocol_field(proto, field) {
            return;
        }
        if proto.is_icmp() {
            self.icmp_type = Some(value as u8);
            return;
        }
        if let Some(key) = field.meta {
            return self.learn_meta(key, value);
        }
        let Some(upper) = proto.upper_by_number(value as u32) else { return };
        if upper.base == PayloadBase::Link && proto.base == PayloadBase::Link {
            if self.stacked.is_empty() {
                self.stacked.push(proto);
            }
            if self.stacked.len() < STACK {
                self.stacked.push(upper);
            }
        }
        self.set(upper.base, upper);
    }

    fn learn_meta(&mut self, key: MetaKey, value: u128) {
        match key {
            MetaKey::IifType => {
                let proto = if value == ARPHRD_ETHER { &link::ETHER } else { &UNKNOWN };
                if self.family != Family::Bridge {
                    self.link = Some(proto);
                }
            }
            MetaKey::NfProto if self.start.base == PayloadBase::Link => {
                let proto = link::INET.upper_by_number(value as u32);
                self.network = Some(proto.unwrap_or(&UNKNOWN));
            }
            MetaKey::L4Proto => {
                let proto = network::INET_SERVICE.upper_by_number(value as u32);
                self.transport = Some(proto.unwrap_or(&UNKNOWN));
            }
            MetaKey::Protocol => {
                if matches!(self.family, Family::Netdev | Family::Bridge) {
                    match self.start.upper_by_number(value as u32) {
                        Some(proto) if proto.base == PayloadBase::Link => {}
                        proto => self.network = Some(proto.unwrap_or(&UNKNOWN)),
                    }
                }
            }
            _ => {}
        }
    }

    /// Type of the message that a match of `icmp type` named.
    pub fn icmp_type(&self) -> Option<u8> {
        self.icmp_type
    }
}

/// `ARPHRD_ETHER`.
const ARPHRD_ETHER: u128 = 1;
