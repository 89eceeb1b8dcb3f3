// SPDX-License-Identifier: Apache-2.0

//! Named stateful objects: counters, quotas, limits, connection tracking helpers, timeouts and
//! expectations, SYN proxies, security marks, tunnels.

use std::sync::Arc;

use penstock_program::expr::ObjectType;
use penstock_ruleset::model::Family;

use super::names::time_value;
use super::{Bad, Parsed, Parser};
use crate::ast::StmtKind;
use crate::ast::cmd::{Name, ObjectBlock, ObjectSpec, TunnelSpec};
use crate::lex::Tok;
use crate::source::Loc;

/// IP protocol numbers of `protocol tcp` and `protocol udp`.
const TCP: u8 = 6;
const UDP: u8 = 17;
/// How an object may be written.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Form {
    /// In braces: in a table.
    Braces,
    /// Also bare, as in `add counter ip t c packets 1 bytes 2`.
    Any,
    /// Bare, after `create`; what has no such form is in braces.
    Bare,
}

impl Parser<'_> {
    /// Reads what follows the type of an object. nft's scanner stays in the object's keyword state
    /// until its end; after an early error it remains there.
    pub(super) fn within_object<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Parsed<T>,
    ) -> Parsed<T> {
        let keywords = self.keywords;
        let outer = self.leftover.take();
        let result = read(self);
        // The end of the object ends its keywords, wherever they were left.
        let own = self.leftover.is_none_or(|left| std::ptr::eq(left, keywords));
        if own && (result.is_ok() || self.leftover.is_none()) {
            self.leftover = outer;
        }
        self.keywords = if result.is_ok() { self.outer_keywords() } else { keywords };
        result
    }

    /// The word ahead, if nft's scanner takes it for a keyword here.
    fn scoped_word(&mut self) -> &str {
        if self.at_keyword() || super::words::is_reserved(self.word()) { self.word() } else { "" }
    }

    /// A name where some keywords are no names: after the type of an object, or after `list`.
    pub(super) fn scoped_name(&mut self) -> Parsed<Name> {
        if self.at_keyword() { self.unexpected(&["string"]) } else { self.identifier() }
    }

    /// A comment, of which there may be one; with another one so much is lost.
    pub(super) fn comment_once(&mut self, comment: &mut Option<Arc<str>>, lost: Bad) -> Parsed<()> {
        let start = self.here();
        let text = self.comment()?;
        if comment.is_some() {
            let loc = self.since(start);
            return self.error(loc, super::TWICE).map_err(|_| lost);
        }
        *comment = Some(text);
        Ok(())
    }

    /// Reads the comment of a set or chain with its separator. Another comment is found after that.
    pub(super) fn separated_comment(&mut self, comment: &mut Option<Arc<str>>) -> Parsed<()> {
        let start = self.here();
        let text = self.comment()?;
        let loc = self.since(start);
        if comment.is_some() {
            return self.late_error(loc, super::TWICE);
        }
        self.separator()?;
        *comment = Some(text);
        Ok(())
    }

    /// What follows the name of an object.
    pub(super) fn object(
        &mut self,
        kind: ObjectType,
        start: Loc,
        form: Form,
    ) -> Parsed<ObjectBlock> {
        let mut block = ObjectBlock {
            kind,
            value: ObjectSpec::Counter { packets: 0, bytes: 0 },
            comment: None,
            loc: start,
        };
        let mut written = None;
        let separated = matches!(
            kind,
            ObjectType::CtHelper
                | ObjectType::CtTimeout
                | ObjectType::CtExpect
                | ObjectType::Tunnel
        );
        let braces = form != Form::Bare || separated;
        if braces && self.tok() == Tok::LeftBrace {
            let mut comment = None;
            let keywords = self.keywords;
            self.block(|p| {
                p.keywords = p.leftover.unwrap_or(keywords);
                if p.at("comment") {
                    return p.comment_once(&mut comment, Bad::Block);
                }
                let before = written.clone();
                let result = p.object_item(kind, &mut written, true);
                match separated {
                    true => result.and_then(|()| p.separator()).inspect_err(|_| written = before),
                    false => result,
                }
            })?;
            block.comment = comment;
        } else if form == Form::Braces || separated {
            return self.unexpected(&["'{'"]);
        } else if kind == ObjectType::Counter {
            if self.at("packets") {
                self.object_item(kind, &mut written, false)?;
            }
        } else {
            let token = self.peek();
            let begins: &[&str] = match kind {
                ObjectType::Limit if !self.at("rate") => &["rate"],
                ObjectType::Synproxy if !self.at("mss") => &["mss"],
                ObjectType::SecMark if !self.is_string(token) => {
                    &["string", "quoted string", "string with a trailing asterisk"]
                }
                _ => &[],
            };
            if !begins.is_empty() {
                return self.unexpected(&[begins, if braces { &["'{'"] } else { &[] }].concat());
            }
            self.object_item(kind, &mut written, false)?;
        }
        block.loc = self.since(start);
        block.value = match written {
            Some(value) => value,
            None => empty_object(kind),
        };
        Ok(block)
    }

    fn object_item(
        &mut self,
        kind: ObjectType,
        spec: &mut Option<ObjectSpec>,
        in_braces: bool,
    ) -> Parsed<()> {
        match kind {
            ObjectType::Counter => {
                if self.scoped_word() != "packets" {
                    return self.unexpected(&[]);
                }
                self.take();
                let packets = self.number()?;
                self.need("bytes")?;
                let bytes = self.number()?;
                *spec = Some(ObjectSpec::Counter { packets, bytes });
            }
            ObjectType::Quota => {
                let start = self.here();
                if !matches!(self.scoped_word(), "over" | "until")
                    && !matches!(self.tok(), Tok::Num(_))
                {
                    return self.unexpected(if in_braces { &[] } else { &["number"] });
                }
                if let StmtKind::Quota { bytes, used, over } = self.quota(start)? {
                    *spec = Some(ObjectSpec::Quota { bytes, used, over });
                }
            }
            ObjectType::Limit => {
                if self.scoped_word() != "rate" {
                    return self.unexpected(&[]);
                }
                *spec = Some(ObjectSpec::Limit(self.limit_of_rate()?.0));
            }
            ObjectType::SecMark => {
                let token = self.peek();
                if !self.is_string(token) {
                    return self.unexpected(&[]);
                }
                *spec = Some(ObjectSpec::SecMark(self.string()?.text));
            }
            ObjectType::Synproxy => {
                self.synproxy_item(spec.get_or_insert_with(|| empty_object(kind)))?;
            }
            ObjectType::CtHelper => {
                self.helper_item(spec.get_or_insert_with(|| empty_object(kind)))?
            }
            ObjectType::CtTimeout => {
                self.timeout_item(spec.get_or_insert_with(|| empty_object(kind)))?
            }
            ObjectType::CtExpect => {
                self.expectation_item(spec.get_or_insert_with(|| empty_object(kind)))?
            }
            ObjectType::Tunnel => {
                self.tunnel_item(spec.get_or_insert_with(|| empty_object(kind)))?
            }
            ObjectType::Connlimit => return self.unexpected(&[]),
        }
        Ok(())
    }

    fn synproxy_item(&mut self, spec: &mut ObjectSpec) -> Parsed<()> {
        let ObjectSpec::Synproxy { mss, wscale, flags } = spec else { return Ok(()) };
        // Unlike the statement's options, in this order, on one line or on three.
        if self.scoped_word() != "mss" {
            return self.unexpected(&[]);
        }
        self.synproxy_option(mss, wscale, flags)?;
        let lines = self.eat_tok(Tok::Newline) || self.eat_tok(Tok::Semicolon);
        if !self.at("wscale") {
            let expecting = ["newline", "semicolon", "wscale"];
            return self.unexpected(if lines { &expecting[2..] } else { &expecting });
        }
        self.synproxy_option(mss, wscale, flags)?;
        if lines {
            self.separator()?;
        }
        if self.at("timestamp") {
            self.synproxy_option(mss, wscale, flags)?;
        }
        if matches!(self.word(), "sack-perm" | "sack-permitted") {
            self.synproxy_option(mss, wscale, flags)?;
        }
        Ok(())
    }

    fn l4proto(&mut self) -> Parsed<u8> {
        self.take();
        let number = match self.word() {
            "tcp" => TCP,
            "udp" => UDP,
            _ => return self.unexpected(&["udp", "tcp"]),
        };
        self.take();
        Ok(number)
    }

    fn l3proto(&mut self) -> Parsed<Option<Family>> {
        self.take();
        match self.family() {
            Some(family) => Ok(Some(family)),
            None => self.unexpected(&[]),
        }
    }

    fn helper_item(&mut self, spec: &mut ObjectSpec) -> Parsed<()> {
        let ObjectSpec::CtHelper { helper, l4proto, l3proto } = spec else { return Ok(()) };
        match self.scoped_word() {
            "type" => {
                self.take();
                // Two things are read after another word than the one that opened the block.
                self.keywords = &["protocol"];
                let token = self.peek();
                if token.tok != Tok::Quoted {
                    return self.unexpected(&["quoted string"]);
                }
                *helper = self.string()?.text;
                if !self.at("protocol") {
                    return self.unexpected(&["protocol"]);
                }
                *l4proto = self.l4proto()?;
            }
            "l3proto" => *l3proto = self.l3proto()?,
            _ => return self.unexpected(&[]),
        }
        Ok(())
    }

    fn timeout_item(&mut self, spec: &mut ObjectSpec) -> Parsed<()> {
        let ObjectSpec::CtTimeout { l4proto, l3proto, policy } = spec else { return Ok(()) };
        match self.scoped_word() {
            "protocol" => *l4proto = self.l4proto()?,
            "l3proto" => *l3proto = self.l3proto()?,
            "policy" => {
                self.take();
                self.need_tok(Tok::Assign)?;
                self.need_tok(Tok::LeftBrace)?;
                policy.push(self.timeout_state()?);
                while self.eat_tok(Tok::Comma) {
                    policy.push(self.timeout_state()?);
                }
                if !self.eat_tok(Tok::RightBrace) {
                    return self.unexpected(&["comma", "'}'"]);
                }
            }
            _ => return self.unexpected(&[]),
        }
        Ok(())
    }

    /// `established : 300`, or with units
    fn timeout_state(&mut self) -> Parsed<(Name, u32)> {
        let name = self.identifier()?;
        self.need_tok(Tok::Colon)?;
        let token = self.peek();
        let seconds = match token.tok {
            Tok::Num(n) => n,
            Tok::Str => match time_value(self.text(token)) {
                Ok(ms) => ms / 1000,
                Err(message) => return self.error(token.loc, message),
            },
            _ => return self.unexpected(&["number"]),
        };
        self.take();
        match u32::try_from(seconds) {
            Ok(seconds) => Ok((name, seconds)),
            Err(_) => {
                self.error(token.loc, format!("Value {seconds} exceeds valid range 0-{}", u32::MAX))
            }
        }
    }

    fn expectation_item(&mut self, spec: &mut ObjectSpec) -> Parsed<()> {
        let ObjectSpec::CtExpect { l4proto, l3proto, dport, timeout, size } = spec else {
            return Ok(());
        };
        match self.scoped_word() {
            "protocol" => *l4proto = self.l4proto()?,
            "l3proto" => *l3proto = self.l3proto()?,
            "dport" => {
                self.take();
                let (loc, number) = (self.here(), self.number()?);
                self.separator_ahead()?;
                *dport = self.within_range(loc, number)?;
            }
            "timeout" => {
                self.take();
                *timeout = u32::try_from(self.time()?).unwrap_or(u32::MAX);
            }
            "size" => {
                self.take();
                let (loc, number) = (self.here(), self.number()?);
                self.separator_ahead()?;
                *size = self.within_range(loc, number)?;
            }
            _ => return self.unexpected(&[]),
        }
        Ok(())
    }
}

/// An object of which nothing was said.
fn empty_object(kind: ObjectType) -> ObjectSpec {
    match kind {
        ObjectType::Quota => ObjectSpec::Quota { bytes: 0, used: 0, over: false },
        ObjectType::Limit => ObjectSpec::Limit(crate::ast::stmt::Limit {
            rate: 0,
            unit: 0,
            kind: penstock_program::expr::LimitType::Packets,
            burst: 0,
            over: false,
        }),
        ObjectType::CtHelper => {
            ObjectSpec::CtHelper { helper: Arc::from(""), l4proto: 0, l3proto: None }
        }
        ObjectType::CtTimeout => {
            ObjectSpec::CtTimeout { l4proto: 0, l3proto: None, policy: Vec::new() }
        }
        ObjectType::CtExpect => {
            ObjectSpec::CtExpect { l4proto: 0, l3proto: None, dport: 0, timeout: 0, size: 0 }
        }
        ObjectType::Synproxy => ObjectSpec::Synproxy { mss: 0, wscale: 0, flags: 0 },
        ObjectType::SecMark => ObjectSpec::SecMark(Arc::from("")),
        ObjectType::Tunnel => ObjectSpec::Tunnel(Box::<TunnelSpec>::default()),
        ObjectType::Counter | ObjectType::Connlimit => ObjectSpec::Counter { packets: 0, bytes: 0 },
    }
}
