// SPDX-License-Identifier: Apache-2.0

//! Header fields, options, extension headers, chunks, and raw bits.

use penstock_program::expr::{ExthdrOp, PayloadBase};

use super::{Parsed, Parser, words};
use crate::ast::expr::{Exthdr, Payload};
use crate::ast::{Expr, ExprKind};
use crate::datatype::{ByteOrder, DataType, Type};
use crate::exthdr::{self, ExthdrDesc};
use crate::lex::Tok;
use crate::proto::tunnel::is_tunnel;
use crate::proto::{self, Proto, Template};
use crate::source::Loc;

/// Headers that nft 1.0.6 does not reserve the name of, so that it can still be a symbol.
fn is_soft(proto: &Proto) -> bool {
    is_tunnel(proto)
}

impl Parser<'_> {
    /// A header field or option, if the word ahead is a header.
    pub(super) fn header(&mut self) -> Parsed<Option<Expr>> {
        let start = self.here();
        if let Some(proto) = proto::find(self.word()) {
            if is_soft(proto) && self.peek_second().tok != Tok::Word {
                return Ok(None);
            }
            self.take();
            return self.scoped(proto.name, |p| p.field_of(proto, None, start)).map(Some);
        }
        match self.word() {
            "exthdr" => {
                self.take();
                let token = self.peek();
                let desc = match self.word() {
                    "hbh" | "rt" | "frag" | "dst" | "mh" => exthdr::ipv6(self.word()),
                    _ => None,
                };
                let Some(desc) = desc else { return self.unexpected(&[]) };
                self.take();
                Ok(Some(self.presence(desc, start.to(token.loc))))
            }
            "hbh" | "rt" | "rt0" | "rt2" | "srh" | "frag" | "dst" | "mh" => {
                let Some(desc) = exthdr::ipv6(self.word()) else { return Ok(None) };
                self.take();
                self.ipv6_field(desc, start).map(Some)
            }
            _ => Ok(None),
        }
    }

    fn field_of(
        &mut self,
        proto: &'static Proto,
        inner: Option<&'static Proto>,
        start: Loc,
    ) -> Parsed<Expr> {
        if inner.is_none() && (self.at("option") || self.at("chunk")) {
            match (proto.name, self.word()) {
                ("tcp", "option") => return self.tcp_option(start),
                ("ip", "option") => return self.ipv4_option(start),
                ("dccp", "option") => return self.dccp_option(start),
                ("sctp", "chunk") => return self.sctp_chunk(),
                _ => {}
            }
        }
        if inner.is_none()
            && is_tunnel(proto)
            && proto.template(self.word()).is_none()
            && let Some(upper) = proto::find(self.word()).filter(|upper| !is_tunnel(upper))
        {
            self.take();
            return self.field_of(upper, Some(proto), start);
        }
        // ARP's addresses have names of two words.
        let second = self.second_word().to_string();
        let two = |p: &mut Self| proto.template(&format!("{} {second}", p.word()));
        let field = match (proto.name, &*second) {
            ("arp", "ip" | "ether") if matches!(self.word(), "saddr" | "daddr") => {
                two(self).inspect(|_| _ = self.take())
            }
            ("arp", _) if matches!(self.word(), "saddr" | "daddr") => {
                self.take();
                return self.unexpected(&["ether", "ip"]);
            }
            _ => proto.template(self.word()).filter(|t| !t.name.is_empty()),
        };
        let Some(field) = field else { return self.unexpected(words::fields_of(proto.name)) };
        self.take();
        let payload = Payload {
            base: proto.base,
            proto: Some(proto),
            field: Some(field),
            offset: field.offset,
            raw: false,
            inner,
        };
        Ok(self.of_template(ExprKind::Payload(payload), field, start))
    }

    fn of_template(&self, kind: ExprKind, field: &Template, start: Loc) -> Expr {
        Expr::typed(kind, self.since(start), Type::Base(field.dtype), field.order, field.len)
    }

    /// `@nh,128,32`
    pub(super) fn raw_payload(&mut self) -> Parsed<Expr> {
        let start = self.here();
        self.need_tok(Tok::At)?;
        let base = match self.word() {
            "ll" => PayloadBase::Link,
            "nh" => PayloadBase::Network,
            "th" => PayloadBase::Transport,
            "ih" => PayloadBase::Inner,
            _ => {
                let token = self.peek();
                if !matches!(token.tok, Tok::Word | Tok::Str) || !self.is_string(token) {
                    return self.unexpected(&["string", "ll", "nh", "th"]);
                }
                let name = self.identifier()?;
                return self.error(name.loc, "unknown raw payload base");
            }
        };
        self.take();
        let (offset, len) = self.offset_and_len()?;
        let payload = Payload { base, proto: None, field: None, offset, raw: true, inner: None };
        let mut bits = self.raw_bits(ExprKind::Payload(payload), len, start);
        bits.dtype = Type::Base(DataType::RawInteger);
        Ok(bits)
    }

    fn raw_bits(&self, kind: ExprKind, len: u32, start: Loc) -> Expr {
        Expr::typed(kind, self.since(start), Type::Base(DataType::Integer), ByteOrder::Big, len)
    }

    /// `,offset,len` in bits
    fn offset_and_len(&mut self) -> Parsed<(u32, u32)> {
        self.need_tok(Tok::Comma)?;
        let offset = self.number_as()?;
        self.need_tok(Tok::Comma)?;
        let len = self.number_as()?;
        Ok((offset, len))
    }

    fn exthdr_field(
        &self,
        desc: &'static ExthdrDesc,
        field: &'static Template,
        start: Loc,
    ) -> Expr {
        self.of_template(ExprKind::Exthdr(Exthdr::field(desc, field)), field, start)
    }

    /// Whether a header or option is there.
    fn presence(&self, desc: &'static ExthdrDesc, loc: Loc) -> Expr {
        Self::present(desc.op, Some(desc), desc.kind, loc)
    }

    fn present(op: ExthdrOp, desc: Option<&'static ExthdrDesc>, kind: u8, loc: Loc) -> Expr {
        let exthdr = ExprKind::Exthdr(Exthdr::presence(op, desc, kind));
        Expr::typed(exthdr, loc, Type::Base(DataType::Boolean), ByteOrder::Big, 8)
    }

    fn ipv6_field(&mut self, desc: &'static ExthdrDesc, start: Loc) -> Parsed<Expr> {
        if (desc.name == "rt0" && self.at("addr")) || (desc.name == "srh" && self.at("sid")) {
            let name = if self.at("sid") { "sid" } else { "addr" };
            self.take();
            self.need_tok(Tok::LeftBracket)?;
            let index = self.number()?;
            self.need_tok(Tok::RightBracket)?;
            let indexed = format!("{name}[{index}]");
            return match desc.template(&indexed) {
                Some(field) => Ok(self.exthdr_field(desc, field, start)),
                None => {
                    let loc = self.since(start);
                    self.refuse(loc, &format!("{} has no field {indexed}", desc.name))
                }
            };
        }
        let Some(field) = desc.template(self.word()) else {
            return self.unexpected(words::fields_of(desc.name));
        };
        self.take();
        Ok(self.exthdr_field(desc, field, start))
    }

    /// `tcp option NAME [field]`, `tcp option N`, `tcp option @N,offset,len`
    pub(super) fn tcp_option(&mut self, start: Loc) -> Parsed<Expr> {
        self.take();
        if self.eat_tok(Tok::At) {
            let raw_type = self.option_number()?;
            let (offset, len) = self.offset_and_len()?;
            let exthdr = Exthdr {
                op: ExthdrOp::TcpOpt,
                desc: None,
                field: None,
                raw_type,
                offset,
                present: false,
                raw: true,
            };
            return Ok(self.raw_bits(ExprKind::Exthdr(exthdr), len, start));
        }
        if matches!(self.tok(), Tok::Num(_)) {
            let kind = self.option_number()?;
            let desc = exthdr::tcp_option_by_kind(kind);
            if let Some(field) = desc.and_then(|d| d.template(self.word()))
                && let Some(desc) = desc
            {
                self.take();
                return Ok(self.exthdr_field(desc, field, start));
            }
            if matches!(self.word(), "length" | "kind") {
                let offset = if self.at("length") { 8 } else { 0 };
                self.take();
                let exthdr = Exthdr {
                    op: ExthdrOp::TcpOpt,
                    desc: None,
                    field: None,
                    raw_type: kind,
                    offset,
                    present: false,
                    raw: true,
                };
                return Ok(self.raw_bits(ExprKind::Exthdr(exthdr), 8, start));
            }
            return Ok(Self::present(ExthdrOp::TcpOpt, desc, kind, self.since(start)));
        }
        // nft knows one kind by two names.
        let name = if self.at("echo") { "timestamp" } else { self.word() };
        let Some(desc) = exthdr::tcp_option(name) else { return self.unexpected(&[]) };
        self.take();
        self.option_field(desc, "tcp", start)
    }

    /// `option KIND`, without a field.
    pub(crate) fn whole_tcp_option(&mut self, start: Loc) -> Parsed<Expr> {
        self.take();
        if matches!(self.tok(), Tok::Num(_)) {
            let kind = self.option_number()?;
            return Ok(Self::present(
                ExthdrOp::TcpOpt,
                exthdr::tcp_option_by_kind(kind),
                kind,
                self.since(start),
            ));
        }
        let name = if self.at("echo") { "timestamp" } else { self.word() };
        let Some(desc) = exthdr::tcp_option(name) else { return self.unexpected(&[]) };
        self.take();
        Ok(self.presence(desc, self.since(start)))
    }

    fn option_number(&mut self) -> Parsed<u8> {
        let loc = self.here();
        match u8::try_from(self.number()?) {
            Ok(n) => Ok(n),
            Err(_) => self.error(loc, "value too large"),
        }
    }

    /// The field of an option that may be named after it; none tests for the option's presence.
    fn option_field(&mut self, desc: &'static ExthdrDesc, scope: &str, start: Loc) -> Parsed<Expr> {
        // `missing` and `exists` are the right side.
        match desc.template(self.word()) {
            Some(field) => {
                self.take();
                Ok(self.exthdr_field(desc, field, start))
            }
            None => {
                self.close(scope)?;
                Ok(self.presence(desc, self.since(start)))
            }
        }
    }

    fn ipv4_option(&mut self, start: Loc) -> Parsed<Expr> {
        self.take();
        let Some(desc) = exthdr::ipv4_option(self.word()) else {
            return self.unexpected(&["lsrr", "rr", "ssrr", "ra"]);
        };
        self.take();
        self.option_field(desc, "ip", start)
    }

    fn sctp_chunk(&mut self) -> Parsed<Expr> {
        self.take();
        // To nft the expression begins with the chunk's name.
        let start = self.here();
        self.keywords = words::keywords_after("chunk");
        let Some(desc) = exthdr::sctp_chunk(self.word()) else { return self.unexpected(&[]) };
        self.take();
        self.option_field(desc, "chunk", start)
    }

    fn dccp_option(&mut self, start: Loc) -> Parsed<Expr> {
        self.take();
        let loc = self.here();
        let number = self.number()?;
        match u8::try_from(number) {
            Ok(kind) => Ok(Self::present(ExthdrOp::Dccp, None, kind, self.since(start))),
            Err(_) => self.error(loc, "value too large"),
        }
    }
}
