// SPDX-License-Identifier: Apache-2.0

//! Statements to text.

use penstock_program::expr::{DynsetOp, LimitType, NatType, ObjectType, RejectType};

use super::Printer;
use crate::ast::RuleBlock;
use crate::ast::stmt::{Limit, Log, Nat, NatKind, Reject};
use crate::ast::{Expr, ExprKind, Stmt, StmtKind};
use crate::datatype::symbols::LOG_LEVEL;
use crate::datatype::{DataType, Format};
use crate::keys;
use crate::units;

impl Printer<'_> {
    /// Statements and comment of a rule.
    pub fn rule(&mut self, rule: &RuleBlock) {
        self.stmts(&rule.stmts);
        if let Some(comment) = &rule.comment {
            self.write(format_args!(" comment \"{comment}\""));
        }
    }

    /// Writes statements, a blank between them.
    pub fn stmts(&mut self, stmts: &[Stmt]) {
        for (i, stmt) in stmts.iter().enumerate() {
            if i > 0 {
                self.push(" ");
            }
            self.stmt(stmt);
        }
    }

    /// Writes a statement.
    pub fn stmt(&mut self, stmt: &Stmt) {
        match &stmt.kind {
            StmtKind::Match(expr) | StmtKind::Verdict(expr) => self.expr(expr),
            StmtKind::Counter { packets, bytes } => {
                self.push("counter");
                if !self.format.stateless {
                    self.write(format_args!(" packets {packets} bytes {bytes}"));
                }
            }
            StmtKind::Limit(limit) => {
                self.push("limit ");
                self.limit(limit, true);
            }
            StmtKind::Quota { bytes, used, over } => {
                self.push("quota ");
                self.quota(*bytes, *used, *over);
            }
            StmtKind::Last { set, msecs } => {
                self.push("last");
                if !self.format.stateless {
                    self.push(" used ");
                    if *set { self.duration(*msecs) } else { self.push("never") }
                }
            }
            StmtKind::CtCount { count, over } => {
                let over = if *over { "over " } else { "" };
                self.write(format_args!("ct count {over}{count}"));
            }
            StmtKind::ObjRef { kind, expr } => {
                self.push(match kind {
                    ObjectType::Counter => "counter name ",
                    ObjectType::Quota => "quota name ",
                    ObjectType::CtHelper => "ct helper set ",
                    ObjectType::Limit => "limit name ",
                    ObjectType::Connlimit => "ct count name ",
                    ObjectType::Tunnel => "tunnel name ",
                    ObjectType::CtTimeout => "ct timeout set ",
                    ObjectType::SecMark => "meta secmark set ",
                    ObjectType::CtExpect => "ct expectation set ",
                    ObjectType::Synproxy => "synproxy name ",
                });
                self.expr(expr);
            }
            StmtKind::Log(log) => self.log(log),
            StmtKind::Reject(reject) => self.reject(reject),
            StmtKind::Nat(nat) => self.nat(nat),
            StmtKind::Tproxy { family, addr, port } => {
                self.push("tproxy");
                self.family(family.unwrap_or(0));
                self.push(" to ");
                if let Some(addr) = addr {
                    self.address(addr, true);
                }
                if let Some(port) = port {
                    self.push(":");
                    self.expr(port);
                }
            }
            StmtKind::Synproxy { mss, wscale, flags } => {
                self.push("synproxy");
                if flags & (SYNPROXY_MSS | SYNPROXY_WSCALE) != 0 {
                    self.write(format_args!(" mss {mss} wscale {wscale}"));
                }
                self.push(synproxy_flags(*flags));
            }
            StmtKind::Queue { expr, bypass, fanout } => {
                self.push("queue");
                match (bypass, fanout) {
                    (true, true) => self.push(" flags bypass,fanout"),
                    (true, false) => self.push(" flags bypass"),
                    (false, true) => self.push(" flags fanout"),
                    (false, false) => {}
                }
                if let Some(expr) = expr {
                    self.push(" to ");
                    self.expr(expr);
                }
            }
            StmtKind::Notrack => self.push("notrack"),
            StmtKind::Dup { to, dev } => {
                self.push("dup");
                if let Some(to) = to {
                    self.push(" to ");
                    self.expr(to);
                    if let Some(dev) = dev {
                        self.push(" device ");
                        self.expr(dev);
                    }
                }
            }
            StmtKind::Fwd { dev, addr, nfproto } => {
                self.push("fwd");
                match addr {
                    Some(addr) => {
                        self.family(*nfproto);
                        self.push(" to ");
                        self.expr(addr);
                        self.push(" device ");
                    }
                    None => self.push(" to "),
                }
                self.expr(dev);
            }
            StmtKind::MetaSet { key, expr } => {
                if !keys::meta_is_listed_unqualified(*key) {
                    self.push("meta ");
                }
                self.push(keys::meta(*key).name);
                self.push(" set ");
                self.expr(expr);
            }
            StmtKind::CtSet { key, dir, expr } => {
                self.push("ct ");
                self.direction(*dir);
                self.push(keys::ct(*key).name);
                self.push(" set ");
                self.expr(expr);
            }
            StmtKind::PayloadSet { target, value } | StmtKind::ExthdrSet { target, value } => {
                self.expr(target);
                self.push(" set ");
                self.expr(value);
            }
            StmtKind::ExthdrReset { target } => {
                self.push("reset tcp option ");
                if let ExprKind::Exthdr(exthdr) = &target.kind {
                    self.exthdr_name(exthdr)
                } else {
                    self.expr(target)
                }
            }
            StmtKind::SetUpdate { op, set, key, stmts } => {
                self.update(*op, set, key, stmts);
                self.push(" }");
            }
            StmtKind::MapUpdate { op, map, key, data, stmts } => {
                self.update(*op, map, key, stmts);
                self.push(" : ");
                self.expr(data);
                self.push(" }");
            }
            StmtKind::Meter { name, size, key, stmt } => {
                self.write(format_args!("meter {name} "));
                if *size != 0 {
                    self.write(format_args!("size {size} "));
                }
                self.push("{ ");
                self.expr(key);
                self.push(" ");
                self.stateless(|p| p.stmt(stmt));
                self.push(" }");
            }
            StmtKind::FlowOffload { table } => self.write(format_args!("flow add @{table}")),
            StmtKind::Chain { goto, block } => {
                self.push(if *goto { "goto {\n" } else { "jump {\n" });
                for rule in &block.rules {
                    self.push("\t\t\t");
                    self.stmts(&rule.stmts);
                    if let Some(comment) = &rule.comment {
                        self.write(format_args!(" comment \"{comment}\""));
                    }
                    self.push("\n");
                }
                self.push("\t\t}");
            }
            StmtKind::Xt { target, name, .. } => {
                let kind = if *target { "target" } else { "match" };
                self.write(format_args!("xt {kind} \"{name}\""));
            }
        }
    }

    /// Inside update statements the state is that of elements to come: it is not listed.
    fn stateless(&mut self, body: impl FnOnce(&mut Self)) {
        let format = Format { stateless: true, ..self.format };
        self.with_format(format, body);
    }

    fn update(&mut self, op: DynsetOp, set: &Expr, key: &Expr, stmts: &[Stmt]) {
        self.push(match op {
            DynsetOp::Add => "add ",
            DynsetOp::Update => "update ",
            DynsetOp::Delete => "delete ",
        });
        self.expr(set);
        self.push(" { ");
        self.expr(key);
        self.stateless(|p| {
            for stmt in stmts {
                p.push(" ");
                p.stmt(stmt);
            }
        });
    }

    /// `rate …`. A statement lists a burst of 5 packets, an object does not.
    pub fn limit(&mut self, limit: &Limit, in_rule: bool) {
        self.push(if limit.over { "rate over " } else { "rate " });
        let unit = units::time_word(limit.unit);
        match limit.kind {
            LimitType::Packets => {
                self.write(format_args!("{}/{unit}", limit.rate));
                if limit.burst > 0 && (in_rule || limit.burst != 5) {
                    self.write(format_args!(" burst {} packets", limit.burst));
                }
            }
            LimitType::Bytes => {
                let (rate, scale) = units::scaled(limit.rate);
                self.write(format_args!("{rate} {scale}/{unit}"));
                if limit.burst > 0 {
                    let (burst, scale) = units::scaled(limit.burst.into());
                    self.write(format_args!(" burst {burst} {scale}"));
                }
            }
        }
    }

    /// `over 5 mbytes used 3 bytes`
    pub fn quota(&mut self, bytes: u64, used: u64, over: bool) {
        let (value, scale) = units::scaled(bytes);
        let over = if over { "over " } else { "" };
        self.write(format_args!("{over}{value} {scale}"));
        if !self.format.stateless && used != 0 {
            let (value, scale) = units::scaled(used);
            self.write(format_args!(" used {value} {scale}"));
        }
    }

    fn log(&mut self, log: &Log) {
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
            None | Some(LOG_WARNING) => {}
            Some(level) => match LOG_LEVEL.name(level.into()) {
                Some(name) => self.write(format_args!(" level {name}")),
                None => self.write(format_args!(" level {level}")),
            },
        }
        if log.flags & LOG_ALL == LOG_ALL {
            self.push(" flags all");
            return;
        }
        match log.flags & (LOG_TCP_SEQUENCE | LOG_TCP_OPTIONS) {
            0 => {}
            LOG_TCP_SEQUENCE => self.push(" flags tcp sequence"),
            LOG_TCP_OPTIONS => self.push(" flags tcp options"),
            _ => self.push(" flags tcp sequence,options"),
        }
        for (bit, text) in [
            (LOG_IP_OPTIONS, " flags ip options"),
            (LOG_SKUID, " flags skuid"),
            (LOG_ETHER, " flags ether"),
        ] {
            if log.flags & bit != 0 {
                self.push(text);
            }
        }
    }

    fn reject(&mut self, reject: &Reject) {
        self.push("reject");
        let with = match reject.kind {
            None => return,
            Some(RejectType::TcpRst) => {
                self.push(" with tcp reset");
                return;
            }
            Some(RejectType::IcmpxUnreach) => " with icmpx ",
            Some(RejectType::IcmpUnreach) if reject.family == 10 => " with icmpv6 ",
            Some(RejectType::IcmpUnreach) => " with icmp ",
        };
        if let Some(code) = &reject.expr {
            self.push(with);
            self.expr(code);
        }
    }

    /// ` ip` or ` ip6`.
    fn family(&mut self, family: u8) {
        match family {
            2 => self.push(" ip"),
            10 => self.push(" ip6"),
            _ => {}
        }
    }

    /// An address before a port: IPv6 addresses stand in brackets.
    fn address(&mut self, addr: &Expr, brackets: bool) {
        let bracketed = |e: &Expr| {
            brackets && matches!(e.kind, ExprKind::Value(_)) && e.dtype.base() == DataType::Ip6Addr
        };
        match &addr.kind {
            ExprKind::Value(_) if bracketed(addr) => {
                self.push("[");
                self.expr(addr);
                self.push("]");
            }
            ExprKind::Range { left, right } if bracketed(left) => {
                self.push("[");
                self.expr(left);
                self.push("]-[");
                self.expr(right);
                self.push("]");
            }
            ExprKind::Symbol { .. }
            | ExprKind::Variable { .. }
            | ExprKind::Value(_)
            | ExprKind::String(_)
            | ExprKind::Verdict(_)
            | ExprKind::Prefix { .. }
            | ExprKind::Range { .. }
            | ExprKind::Concat(_)
            | ExprKind::List(_)
            | ExprKind::Set { .. }
            | ExprKind::SetElem(_)
            | ExprKind::CatchAll
            | ExprKind::Mapping { .. }
            | ExprKind::Map { .. }
            | ExprKind::SetRef { .. }
            | ExprKind::Payload(_)
            | ExprKind::Exthdr(_)
            | ExprKind::Key(_)
            | ExprKind::Hash { .. }
            | ExprKind::Unary { .. }
            | ExprKind::Binop { .. }
            | ExprKind::Relational { .. }
            | ExprKind::FlagCmp { .. } => self.expr(addr),
        }
    }

    fn nat(&mut self, nat: &Nat) {
        self.push(match nat.kind {
            NatKind::Nat(NatType::Snat) => "snat",
            NatKind::Nat(NatType::Dnat) => "dnat",
            NatKind::Masquerade => "masquerade",
            NatKind::Redirect => "redirect",
        });
        if nat.addr.is_some() || nat.port.is_some() {
            self.family(nat.family);
            if nat.prefix {
                self.push(" prefix");
            }
            self.push(" to ");
        }
        if let Some(addr) = &nat.addr {
            self.address(addr, nat.port.is_some());
        }
        if let Some(port) = &nat.port {
            self.push(":");
            self.expr(port);
        }
        let mut separator = " ";
        for (bit, name) in [(4, "random"), (16, "fully-random"), (8, "persistent")] {
            if nat.flags & bit != 0 {
                self.push(separator);
                self.push(name);
                separator = ",";
            }
        }
    }
}

const LOG_WARNING: u32 = 4;
/// `NF_LOG_*`.
const LOG_TCP_SEQUENCE: u32 = 0x01;
const LOG_TCP_OPTIONS: u32 = 0x02;
const LOG_IP_OPTIONS: u32 = 0x04;
const LOG_SKUID: u32 = 0x08;
const LOG_ETHER: u32 = 0x20;
const LOG_ALL: u32 = 0x2f;

/// `NF_SYNPROXY_OPT_*`.
const SYNPROXY_MSS: u32 = 0x01;
const SYNPROXY_WSCALE: u32 = 0x02;
const SYNPROXY_SACK_PERM: u32 = 0x04;
const SYNPROXY_TIMESTAMP: u32 = 0x08;

/// The options of a synproxy that have no value.
pub fn synproxy_flags(flags: u32) -> &'static str {
    match (flags & SYNPROXY_TIMESTAMP != 0, flags & SYNPROXY_SACK_PERM != 0) {
        (true, true) => " timestamp sack-perm",
        (true, false) => " timestamp",
        (false, true) => " sack-perm",
        (false, false) => "",
    }
}
