// SPDX-License-Identifier: Apache-2.0

//! `log`

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::ast::stmt::{LOG_PREFIX_LENGTH, Log};
use crate::ast::{Expr, ExprKind, StmtKind};
use crate::datatype::symbols::LOG_LEVEL;
use crate::json::read::{Reader, expr, maybe_text, several, type_name};
use crate::json::{Writer, one_or_many};
use crate::lex::Tok;
use crate::parse::{Parsed, Parser};
use crate::print::Printer;

/// The default among the syslog levels, which is not listed.
const WARNING: u32 = 4;

/// `NF_LOG_*`.
const TCP_SEQUENCE: u32 = 0x01;
const TCP_OPTIONS: u32 = 0x02;
const IP_OPTIONS: u32 = 0x04;
const SKUID: u32 = 0x08;
const ETHER: u32 = 0x20;
const ALL: u32 = TCP_SEQUENCE | TCP_OPTIONS | IP_OPTIONS | SKUID | ETHER;

/// The flags in JSON.
const FLAGS: [(&str, u32); 5] = [
    ("tcp sequence", TCP_SEQUENCE),
    ("tcp options", TCP_OPTIONS),
    ("ip options", IP_OPTIONS),
    ("skuid", SKUID),
    ("ether", ETHER),
];

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
                    match LOG_LEVEL.value(&name.text) {
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

    fn log_flags(&mut self) -> Parsed<u32> {
        let flags = match self.word() {
            "tcp" => {
                self.take();
                return self.scoped("tcp", Self::log_tcp_flags);
            }
            "ip" => {
                self.take();
                self.scoped("ip", |p| p.need("options"))?;
                return Ok(IP_OPTIONS);
            }
            "skuid" => SKUID,
            "ether" => ETHER,
            "all" => ALL,
            _ => return self.unexpected(&[]),
        };
        self.take();
        Ok(flags)
    }

    fn log_tcp_flags(&mut self) -> Parsed<u32> {
        let mut flags = 0;
        loop {
            flags |= match self.word() {
                "sequence" => TCP_SEQUENCE,
                "options" => TCP_OPTIONS,
                _ => return self.unexpected(&["seq", "options"]),
            };
            self.take();
            if !self.eat_tok(Tok::Comma) {
                break;
            }
        }
        self.no_keyword_after()?;
        Ok(flags)
    }

    /// The prefix with what its `$variables` stand for.
    fn log_prefix(&mut self) -> Parsed<Expr> {
        let name = self.string_but_no_keyword()?;
        if !name.text.contains('$') {
            return Ok(Expr::new(ExprKind::String(name.text), name.loc));
        }
        self.variables += 1;
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

impl Printer<'_> {
    pub(super) fn log(&mut self, log: &Log) {
        self.push("log");
        if let Some(prefix) = &log.prefix {
            self.push(" prefix ");
            if let ExprKind::String(text) = &prefix.kind {
                self.write(format_args!("\"{text}\""))
            } else {
                self.expr(prefix)
            }
        }
        if let Some(group) = log.group {
            self.write(format_args!(" group {group}"));
        }
        if let Some(snaplen) = log.snaplen {
            self.write(format_args!(" snaplen {snaplen}"));
        }
        if let Some(threshold) = log.queue_threshold {
            self.write(format_args!(" queue-threshold {threshold}"));
        }
        match log.level {
            None | Some(WARNING) => {}
            Some(level) => match LOG_LEVEL.name(level.into()) {
                Some(name) => self.write(format_args!(" level {name}")),
                None => self.write(format_args!(" level {level}")),
            },
        }
        if log.flags & ALL == ALL {
            self.push(" flags all");
            return;
        }
        match log.flags & (TCP_SEQUENCE | TCP_OPTIONS) {
            0 => {}
            TCP_SEQUENCE => self.push(" flags tcp sequence"),
            TCP_OPTIONS => self.push(" flags tcp options"),
            _ => self.push(" flags tcp sequence,options"),
        }
        for (bit, text) in
            [(IP_OPTIONS, " flags ip options"), (SKUID, " flags skuid"), (ETHER, " flags ether")]
        {
            if log.flags & bit != 0 {
                self.push(text);
            }
        }
    }
}

impl Writer<'_> {
    pub(super) fn log(&self, log: &Log) -> Value {
        let mut m = Map::new();
        if let Some(p) = &log.prefix {
            m.insert("prefix".into(), self.expr(p));
        }
        if let Some(g) = log.group {
            m.insert("group".into(), json!(g));
            if let Some(s) = log.snaplen {
                m.insert("snaplen".into(), json!(s));
            }
            if let Some(q) = log.queue_threshold {
                m.insert("queue-threshold".into(), json!(q));
            }
        }
        // Warning is the default and not listed, as in the text form.
        if let Some(level) = log.level.filter(|&l| l != WARNING) {
            m.insert("level".into(), json!(LOG_LEVEL.name(level.into()).unwrap_or("unknown")));
        }
        if log.flags & ALL == ALL {
            m.insert("flags".into(), json!("all"));
        } else if log.flags != 0 {
            let list = FLAGS
                .iter()
                .filter(|(_, bit)| log.flags & bit != 0)
                .map(|(word, _)| json!(word))
                .collect();
            m.insert("flags".into(), one_or_many(list));
        }
        if m.is_empty() { Value::Null } else { Value::Object(m) }
    }
}

impl Reader<'_> {
    pub(super) fn log(&mut self, body: &Value) -> Option<StmtKind> {
        let empty = Map::new();
        let object = body.as_object().unwrap_or(&empty);
        let mut log = Log::default();
        if let Some(prefix) = maybe_text(object, "prefix") {
            log.prefix = Some(expr(ExprKind::String(prefix.into())));
        }
        log.group = self.maybe_number(object, "group")?;
        log.snaplen = self.maybe_number(object, "snaplen")?;
        log.queue_threshold = self.maybe_number(object, "queue-threshold")?;
        if let Some(word) = maybe_text(object, "level") {
            match LOG_LEVEL.value(word) {
                Some(level) => log.level = Some(level),
                None => return self.error(format!("Invalid log level '{word}'.")),
            }
        }
        for word in object.get("flags").map_or(&[][..], several) {
            let Some(word) = word.as_str() else {
                let kind = type_name(word);
                return self.error(format!("Invalid log flag type {kind}, expected string."));
            };
            match FLAGS.iter().find(|(w, _)| *w == word) {
                Some((_, bit)) => log.flags |= bit,
                None if word == "all" => log.flags |= ALL,
                None => return self.error(format!("Unknown log flag '{word}'.")),
            }
        }
        Some(StmtKind::Log(log))
    }
}
