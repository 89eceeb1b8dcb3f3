// SPDX-License-Identifier: Apache-2.0

//! How each statement is written, in text and in JSON: a file for each.
//!
//! A file has what is particular to its statement, in up to four `impl` blocks: text to the tree
//! (`Parser`) and back ([`Printer`]), JSON to the tree (`Reader`) and back ([`Writer`]). This
//! file has the matches that lead there; a statement of one word needs no more than its lines
//! here. The kinds are [`StmtKind`].

mod assign;
mod bpf;
mod counter;
mod ct_count;
mod dup;
mod flow;
mod fwd;
mod last;
mod limit;
mod log;
mod matching;
mod nat;
mod object;
mod queue;
mod quota;
mod reject;
pub mod synproxy;
mod tproxy;
mod update;

use penstock_program::expr::{NatType, ObjectType};
use serde_json::{Value, json};

use crate::ast::stmt::NatKind;
use crate::ast::{Stmt, StmtKind};
use crate::json::read::Reader;
use crate::json::{Writer, tagged};
use crate::lex::Tok;
use crate::objects;
use crate::parse::{Parsed, Parser};
use crate::print::{Printer, stmts_text};
use crate::source::Loc;

impl Parser<'_> {
    /// The statement ahead, which begins at `start`.
    pub(crate) fn stmt_kind(&mut self, start: Loc) -> Parsed<StmtKind> {
        if self.tok() != Tok::Word {
            return self.match_or_write(start);
        }
        if self.at("tunnel") && self.second_word() == "name" {
            return self.tunnel_stmt();
        }
        if let Some(kind) = self.stateful()? {
            return Ok(kind);
        }
        match self.word() {
            "jump" | "goto" => self.jump(),
            "accept" | "drop" | "continue" | "return" => match self.verdict()? {
                Some(verdict) => Ok(StmtKind::Verdict(verdict)),
                None => self.unexpected(&[]),
            },
            "ct" => match self.second_word() {
                "timeout" | "expectation" => self.ct_object(),
                _ => self.match_or_write(start),
            },
            "log" => self.log(),
            "reject" => self.reject(),
            "snat" => self.nat(NatType::Snat),
            "dnat" => self.nat(NatType::Dnat),
            "masquerade" => self.local_nat(NatKind::Masquerade),
            "redirect" => self.local_nat(NatKind::Redirect),
            "tproxy" => self.tproxy(),
            "synproxy" => self.synproxy(),
            "queue" => self.queue(),
            "dup" => self.dup(),
            "fwd" => self.fwd(),
            "notrack" => {
                self.take();
                Ok(StmtKind::Notrack)
            }
            "flow" => self.flow(),
            "set" => self.set_stmt(),
            "add" | "update" | "delete" => {
                let op = self.set_op()?;
                self.update(op)
            }
            "meter" => self.meter(),
            "reset" => self.reset_option(start),
            "bpf" => self.bpf(),
            "xt" => self.xt(start),
            _ => self.match_or_write(start),
        }
    }

    /// A stateful statement, one that elements of sets may carry too, if one is ahead.
    pub(crate) fn stateful(&mut self) -> Parsed<Option<StmtKind>> {
        let start = self.here();
        let counts = self.at("ct") && self.second_word() == "count";
        let last = self.at("last") && self.last_is_stmt();
        Ok(Some(match self.word() {
            "counter" => {
                self.take();
                self.counter()?
            }
            "limit" => {
                self.take();
                self.limit_stmt()?
            }
            "quota" => {
                self.take();
                self.quota_stmt(start)?
            }
            "ct" if counts => self.ct_count()?,
            "last" if last => {
                self.take();
                self.last_use()?
            }
            _ => return Ok(None),
        }))
    }

    /// `jump chain`, `goto chain`, or with the chain's rules in braces
    fn jump(&mut self) -> Parsed<StmtKind> {
        let target = self.peek_second();
        if target.tok == Tok::Dollar
            || matches!(target.tok, Tok::Word | Tok::Str) && self.is_string(target)
        {
            return match self.verdict()? {
                Some(verdict) => Ok(StmtKind::Verdict(verdict)),
                None => self.unexpected(&[]),
            };
        }
        let goto = self.at("goto");
        self.take();
        let block = self.implicit_chain()?;
        Ok(StmtKind::Chain { goto, block })
    }

    fn xt(&mut self, start: Loc) -> Parsed<StmtKind> {
        self.take();
        self.identifier()?;
        self.identifier()?;
        let loc = self.since(start);
        self.error(loc, "unsupported xtables compat expression, use iptables-nft with this ruleset")
    }
}

impl Printer<'_> {
    /// Writes a statement.
    pub fn stmt(&mut self, stmt: &Stmt) {
        match &stmt.kind {
            StmtKind::Match(expr) | StmtKind::Verdict(expr) => self.expr(expr),
            StmtKind::Counter { packets, bytes } => self.counter(*packets, *bytes),
            StmtKind::Limit(limit) => {
                self.push("limit ");
                self.limit(limit, true);
            }
            StmtKind::Quota { bytes, used, over } => {
                self.push("quota ");
                self.quota(*bytes, *used, *over);
            }
            StmtKind::Last { set, msecs } => self.last_use(*set, *msecs),
            StmtKind::CtCount { count, over } => self.ct_count(*count, *over),
            StmtKind::ObjRef { kind, expr } => self.object_ref(*kind, expr),
            StmtKind::Log(log) => self.log(log),
            StmtKind::Reject(reject) => self.reject(reject),
            StmtKind::Nat(nat) => self.nat(nat),
            StmtKind::Tproxy { family, addr, port } => {
                self.tproxy(*family, addr.as_ref(), port.as_ref());
            }
            StmtKind::Synproxy { mss, wscale, flags } => self.synproxy(*mss, *wscale, *flags),
            StmtKind::Queue { expr, bypass, fanout } => {
                self.queue(expr.as_ref(), *bypass, *fanout);
            }
            StmtKind::Notrack => self.push("notrack"),
            StmtKind::Dup { to, dev } => self.dup(to.as_ref(), dev.as_ref()),
            StmtKind::Fwd { dev, addr, family } => self.fwd(dev, addr.as_ref(), *family),
            StmtKind::MetaSet { key, expr } => self.meta_set(*key, expr),
            StmtKind::CtSet { key, dir, expr } => self.ct_set(*key, *dir, expr),
            StmtKind::PayloadSet { target, value } | StmtKind::ExthdrSet { target, value } => {
                self.set_field(target, value);
            }
            StmtKind::ExthdrReset { target } => self.reset_option(target),
            StmtKind::SetUpdate { op, set, key, stmts } => self.set_update(*op, set, key, stmts),
            StmtKind::MapUpdate { op, map, key, data, stmts } => {
                self.map_update(*op, map, (key, data), stmts);
            }
            StmtKind::Meter { name, size, key, stmt } => self.meter(name, *size, key, stmt),
            StmtKind::FlowOffload { table } => self.write(format_args!("flow add @{table}")),
            StmtKind::Chain { goto, block } => {
                self.push(if *goto { "goto {\n" } else { "jump {\n" });
                for rule in &block.rules {
                    self.push("\t\t\t");
                    self.rule(rule);
                    self.push("\n");
                }
                self.push("\t\t}");
            }
            StmtKind::Xt { target, name, rev, info } => {
                if let Some(program) = bpf::program(*target, name, *rev, info) {
                    return self.write(format_args!("{program}"));
                }
                let kind = if *target { "target" } else { "match" };
                self.write(format_args!("xt {kind} \"{name}\""));
            }
        }
    }
}

impl Writer<'_> {
    /// One statement. Matches of several kinds and most statements are one object each.
    pub fn stmt(&self, stmt: &Stmt) -> Value {
        match &stmt.kind {
            StmtKind::Match(e) | StmtKind::Verdict(e) => self.expr(e),
            StmtKind::Counter { packets, bytes } => self.counter(*packets, *bytes),
            StmtKind::Limit(l) => tagged("limit", limit::limit(l)),
            StmtKind::Quota { bytes, used, over } => {
                tagged("quota", self.quota(*bytes, *used, *over))
            }
            StmtKind::Last { set, msecs } => self.last_use(*set, *msecs),
            StmtKind::CtCount { count, over } => self.ct_count(*count, *over),
            StmtKind::ObjRef { kind, expr } => tagged(objects::name(*kind), self.expr(expr)),
            StmtKind::Log(l) => tagged("log", self.log(l)),
            StmtKind::Reject(r) => tagged("reject", self.reject(r)),
            StmtKind::Nat(n) => self.nat(n),
            StmtKind::Tproxy { family, addr, port } => {
                self.tproxy(*family, addr.as_ref(), port.as_ref())
            }
            StmtKind::Synproxy { mss, wscale, flags } => self.synproxy(*mss, *wscale, *flags),
            StmtKind::Queue { expr, bypass, fanout } => self.queue(expr.as_ref(), *bypass, *fanout),
            StmtKind::Notrack => tagged("notrack", Value::Null),
            StmtKind::Dup { to, dev } => self.dup(to.as_ref(), dev.as_ref()),
            StmtKind::Fwd { dev, addr, family } => self.fwd(dev, addr.as_ref(), *family),
            StmtKind::MetaSet { key, expr } => self.mangle(self.meta(*key), expr),
            StmtKind::CtSet { key, dir, expr } => self.ct_set(*key, *dir, expr),
            StmtKind::PayloadSet { target, value } | StmtKind::ExthdrSet { target, value } => {
                self.mangle(self.expr(target), value)
            }
            StmtKind::ExthdrReset { target } => self.reset_option(target),
            StmtKind::SetUpdate { op, set, key, stmts } => self.set_update(*op, set, key, stmts),
            StmtKind::MapUpdate { op, map, key, data, stmts } => {
                self.map_update(*op, map, (key, data), stmts)
            }
            StmtKind::Meter { name, size, key, stmt } => self.meter(name, *size, key, stmt),
            StmtKind::FlowOffload { table } => {
                json!({"flow": {"op": "add", "flowtable": format!("@{table}")}})
            }
            // The schema has no form for implicit chains; nft writes the text.
            StmtKind::Chain { .. } => {
                json!(stmts_text(std::slice::from_ref(stmt), *self.format, self.names))
            }
            StmtKind::Xt { target, name, rev, info } => {
                if let Some(program) = bpf::program(*target, name, *rev, info) {
                    return bpf::written(&program);
                }
                json!({"xt": {"type": if *target { "target" } else { "match" }, "name": &**name}})
            }
        }
    }
}

impl Reader<'_> {
    /// A statement by its name: `value` is the object of which `body` is the member of that name.
    pub(crate) fn stmt_kind(
        &mut self,
        name: &str,
        value: &Value,
        body: &Value,
    ) -> Option<StmtKind> {
        match name {
            "accept" | "drop" | "continue" | "jump" | "goto" | "return" => {
                Some(StmtKind::Verdict(self.expr(value)?))
            }
            "match" => self.matching(body),
            "mangle" => self.mangle(body),
            "flow" => self.flow(body),
            "fwd" => self.fwd(body),
            "notrack" => Some(StmtKind::Notrack),
            "dup" => self.dup(body),
            "snat" => self.nat(body, NatKind::Nat(NatType::Snat)),
            "dnat" => self.nat(body, NatKind::Nat(NatType::Dnat)),
            "masquerade" => self.nat(body, NatKind::Masquerade),
            "redirect" => self.nat(body, NatKind::Redirect),
            "reject" => self.reject(body),
            "set" => self.set_update(body),
            "map" => self.map_update(body),
            "log" => self.log(body),
            "ct helper" => {
                self.reference(body, ObjectType::CtHelper, "Invalid ct helper reference.")
            }
            "ct timeout" => {
                self.reference(body, ObjectType::CtTimeout, "Invalid ct timeout reference.")
            }
            "ct expectation" => {
                self.reference(body, ObjectType::CtExpect, "Invalid ct expectation reference.")
            }
            "secmark" => self.reference(body, ObjectType::SecMark, "Invalid secmark reference."),
            "meter" => self.meter(body),
            "queue" => self.queue(body),
            "vmap" => self.vmap(body),
            "tproxy" => self.tproxy(body),
            "synproxy" => self.synproxy(body),
            "tunnel" => self.reference(body, ObjectType::Tunnel, "Invalid tunnel reference."),
            "reset" => self.reset_option(body),
            "bpf" => self.bpf(body),
            "xt" => self
                .error("unsupported xtables compat expression, use iptables-nft with this ruleset"),
            other => match self.stateful(other, body) {
                Some(kind) => kind,
                None => self.error(format!("Unknown statement object '{other}'.")),
            },
        }
    }

    /// A stateful statement by its name; the outer `None` if it is none.
    pub(crate) fn stateful(&mut self, name: &str, body: &Value) -> Option<Option<StmtKind>> {
        Some(match name {
            "counter" => self.counter(body),
            "limit" => self.limit_stmt(body),
            "quota" => self.quota_stmt(body),
            "ct count" => self.ct_count(body),
            "last" => self.last_use(body),
            _ => return None,
        })
    }
}
