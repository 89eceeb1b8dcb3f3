// SPDX-License-Identifier: Apache-2.0

//! `log`.

use std::sync::Arc;

use super::{Parsed, Parser};
use crate::ast::stmt::{LOG_PREFIX_LENGTH, Log};
use crate::ast::{Expr, ExprKind, StmtKind};
use crate::datatype::symbols;
use crate::lex::Tok;

/// `NF_LOG_*`.
const LOG_TCP_SEQUENCE: u32 = 0x01;
const LOG_TCP_OPTIONS: u32 = 0x02;
const LOG_IP_OPTIONS: u32 = 0x04;
const LOG_SKUID: u32 = 0x08;
const LOG_ETHER: u32 = 0x20;
const LOG_ALL: u32 = 0x2f;

impl Parser<'_> {
    pub(super) fn log(&mut self) -> Parsed<StmtKind> {
        self.take();
        let mut log = Log::default();
        loop {
            match self.word() {
                "prefix" => {
                    self.take();
                    log.prefix = Some(self.log_prefix()?);
                }
                "group" => {
                    self.take();
                    log.group = Some(self.number_as()?);
                }
                "snaplen" => {
                    self.take();
                    log.snaplen = Some(self.number_as()?);
                }
                "queue-threshold" => {
                    self.take();
                    log.queue_threshold = Some(self.number_as()?);
                }
                "level" => {
                    self.take();
                    let name = self.string_but_no_keyword()?;
                    match log_level(&name.text) {
                        Some(level) => log.level = Some(level),
                        None => return self.error(name.loc, "invalid log level"),
                    }
                }
                "flags" => {
                    self.take();
                    log.flags |= self.log_flags()?;
                }
                _ => return Ok(StmtKind::Log(log)),
            }
        }
    }

    pub(super) fn log_flags(&mut self) -> Parsed<u32> {
        let flags = match self.word() {
            "tcp" => {
                self.take();
                return self.scoped("tcp", Self::log_tcp_flags);
            }
            "ip" => {
                self.take();
                self.scoped("ip", |p| p.need("options"))?;
                return Ok(LOG_IP_OPTIONS);
            }
            "skuid" => LOG_SKUID,
            "ether" => LOG_ETHER,
            "all" => LOG_ALL,
            _ => return self.unexpected(&[]),
        };
        self.take();
        Ok(flags)
    }

    pub(super) fn log_tcp_flags(&mut self) -> Parsed<u32> {
        let mut flags = 0;
        loop {
            flags |= match self.word() {
                "sequence" => LOG_TCP_SEQUENCE,
                "options" => LOG_TCP_OPTIONS,
                _ => return self.unexpected(&["seq", "options"]),
            };
            self.take();
            if !self.eat_tok(Tok::Comma) {
                break;
            }
        }
        self.no_keyword_behind()?;
        Ok(flags)
    }

    /// The prefix with what its `$variables` stand for.
    pub(super) fn log_prefix(&mut self) -> Parsed<Expr> {
        let name = self.string_but_no_keyword()?;
        if !name.text.contains('$') {
            return Ok(Expr::new(ExprKind::String(name.text), name.loc));
        }
        let mut out = String::new();
        let mut rest = &*name.text;
        while let Some(at) = rest.find('$') {
            out.push_str(&rest[..at]);
            rest = &rest[at + 1..];
            let len =
                rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
            let (variable, tail) = rest.split_at(len);
            match self.scope.get(variable).map(|value| &value.expr.kind) {
                Some(ExprKind::Symbol { text, .. } | ExprKind::String(text)) => {
                    // It is too long already: that is said of it later.
                    if out.len() < LOG_PREFIX_LENGTH {
                        out.push_str(text);
                    }
                }
                Some(_) => return self.error(name.loc, "Value type cannot be used in log prefix"),
                None => {
                    let message = format!("unknown identifier '{variable}'");
                    return self.error(name.loc, message);
                }
            }
            rest = tail;
        }
        out.push_str(rest);
        Ok(Expr::new(ExprKind::String(Arc::from(out)), name.loc))
    }
}

/// Syslog levels; 8 is the audit subsystem.
fn log_level(word: &str) -> Option<u32> {
    symbols::LOG_LEVEL.value(word)
}
