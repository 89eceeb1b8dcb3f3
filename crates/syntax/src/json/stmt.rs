// SPDX-License-Identifier: Apache-2.0

//! Statements.

use penstock_program::expr::{CtKey, DynsetOp, LimitType, NatType, RejectType};
use serde_json::{Map, Value, json};

use super::expr::Writer;
use super::keys;
use super::{one_or_many, tagged};
use crate::ast::expr::BinOp;
use crate::ast::stmt::{Limit, Log, Nat, NatKind, Reject};
use crate::ast::{Expr, ExprKind, Stmt, StmtKind};
use crate::datatype::{ByteOrder, DataType, Format, Type, symbols};
use crate::exthdr;
use crate::objects;
use crate::print::stmts_text;
use crate::source::Loc;
use crate::units;

impl Writer<'_> {
    /// One statement. Matches of several kinds and most statements are one object each.
    pub fn stmt(&self, stmt: &Stmt) -> Value {
        match &stmt.kind {
            StmtKind::Match(e) => self.expr(e),
            StmtKind::Verdict(e) => self.expr(e),
            StmtKind::Counter { packets, bytes } => {
                if self.format.stateless {
                    tagged("counter", Value::Null)
                } else {
                    json!({"counter": {"packets": packets, "bytes": bytes}})
                }
            }
            StmtKind::Limit(l) => tagged("limit", limit(l)),
            StmtKind::Quota { bytes, used, over } => {
                tagged("quota", self.quota(*bytes, *used, *over))
            }
            StmtKind::Last { set, msecs } => {
                if !set || self.format.stateless {
                    tagged("last", Value::Null)
                } else {
                    json!({"last": {"used": msecs}})
                }
            }
            StmtKind::CtCount { count, over } => {
                let mut m = Map::new();
                m.insert("val".into(), json!(count));
                if *over {
                    m.insert("inv".into(), json!(true));
                }
                tagged("ct count", m)
            }
            StmtKind::ObjRef { kind, expr } => tagged(objects::name(*kind), self.expr(expr)),
            StmtKind::Log(l) => tagged("log", self.log(l)),
            StmtKind::Reject(r) => tagged("reject", self.reject(r)),
            StmtKind::Nat(n) => self.nat(n),
            StmtKind::Tproxy { family, addr, port } => {
                let mut m = Map::new();
                if let Some(f) = family.and_then(family_word) {
                    m.insert("family".into(), json!(f));
                }
                if let Some(a) = addr {
                    m.insert("addr".into(), self.expr(a));
                }
                if let Some(p) = port {
                    m.insert("port".into(), self.expr(p));
                }
                tagged("tproxy", m)
            }
            StmtKind::Synproxy { mss, wscale, flags } => {
                let mut m = Map::new();
                synproxy(&mut m, *mss, *wscale, *flags);
                tagged("synproxy", if m.is_empty() { Value::Null } else { Value::Object(m) })
            }
            StmtKind::Queue { expr, bypass, fanout } => {
                let mut m = Map::new();
                if let Some(e) = expr {
                    m.insert("num".into(), self.expr(e));
                }
                let mut flags = Vec::new();
                if *bypass {
                    flags.push(json!("bypass"));
                }
                if *fanout {
                    flags.push(json!("fanout"));
                }
                if !flags.is_empty() {
                    m.insert("flags".into(), one_or_many(flags));
                }
                tagged("queue", if m.is_empty() { Value::Null } else { Value::Object(m) })
            }
            StmtKind::Notrack => tagged("notrack", Value::Null),
            StmtKind::Dup { to, dev } => {
                let mut m = Map::new();
                if let Some(a) = to {
                    m.insert("addr".into(), self.expr(a));
                }
                if let Some(d) = dev {
                    m.insert("dev".into(), self.expr(d));
                }
                tagged("dup", m)
            }
            StmtKind::Fwd { dev, addr, nfproto } => {
                let mut m = Map::new();
                m.insert("dev".into(), self.expr(dev));
                if let Some(a) = addr {
                    if let Some(f) = family_word(*nfproto) {
                        m.insert("family".into(), json!(f));
                    }
                    m.insert("addr".into(), self.expr(a));
                }
                tagged("fwd", m)
            }
            StmtKind::MetaSet { key, expr } => self.mangle(keys::meta(*key), expr),
            StmtKind::CtSet { key: CtKey::EventMask, dir, expr } => {
                let mut events = Vec::new();
                self.alternatives(expr, &mut events);
                let key = keys::ct(CtKey::EventMask, *dir);
                json!({"mangle": {"key": key, "value": one_or_many(events)}})
            }
            StmtKind::CtSet { key, dir, expr } => self.mangle(keys::ct(*key, *dir), expr),
            StmtKind::PayloadSet { target, value } | StmtKind::ExthdrSet { target, value } => {
                self.mangle(self.expr(target), value)
            }
            StmtKind::ExthdrReset { target } => {
                if let ExprKind::Exthdr(x) = &target.kind {
                    let name = match x.desc.or_else(|| exthdr::find_kind(x.op, x.raw_type)) {
                        Some(desc) => json!(desc.name),
                        None => json!(x.raw_type),
                    };
                    json!({"reset": {"tcp option": {"name": name}}})
                } else {
                    tagged("reset", self.expr(target))
                }
            }
            StmtKind::SetUpdate { op, set, key, stmts } => {
                let mut m = Map::new();
                m.insert("op".into(), json!(update_word(*op)));
                m.insert("elem".into(), self.expr(key));
                m.insert("set".into(), self.expr(set));
                if !stmts.is_empty() {
                    m.insert("stmt".into(), self.templates(stmts));
                }
                tagged("set", m)
            }
            StmtKind::MapUpdate { op, map, key, data, stmts } => {
                let mut m = Map::new();
                m.insert("op".into(), json!(update_word(*op)));
                m.insert("elem".into(), self.expr(key));
                m.insert("data".into(), self.expr(data));
                m.insert("map".into(), self.expr(map));
                if !stmts.is_empty() {
                    m.insert("stmt".into(), self.templates(stmts));
                }
                tagged("map", m)
            }
            StmtKind::Meter { name, size, key, stmt } => {
                let format = self.stateless();
                let stmt = Writer { format: &format, ..*self }.stmt(stmt);
                json!({"meter": {"key": self.expr(key), "stmt": stmt, "size": size, "name": &**name}})
            }
            StmtKind::FlowOffload { table } => {
                json!({"flow": {"op": "add", "flowtable": format!("@{table}")}})
            }
            // The schema has no form for implicit chains; nft writes the text.
            StmtKind::Chain { .. } => {
                json!(stmts_text(std::slice::from_ref(stmt), *self.format, self.names))
            }
            StmtKind::Xt { target, name, .. } => {
                json!({"xt": {"type": if *target { "target" } else { "match" }, "name": &**name}})
            }
        }
    }

    fn stateless(&self) -> Format {
        Format { stateless: true, ..*self.format }
    }

    /// Statements of which each element gets its own: their counts say nothing.
    pub fn templates(&self, stmts: &[Stmt]) -> Value {
        let format = self.stateless();
        let writer = Writer { format: &format, ..*self };
        stmts.iter().map(|s| writer.stmt(s)).collect()
    }

    /// The parts of `a | b | c`.
    fn alternatives(&self, expr: &Expr, out: &mut Vec<Value>) {
        match &expr.kind {
            ExprKind::Binop { op: BinOp::Or, left, right } => {
                self.alternatives(left, out);
                self.alternatives(right, out);
            }
            ExprKind::List(parts) => parts.iter().for_each(|p| self.alternatives(p, out)),
            ExprKind::Symbol { .. }
            | ExprKind::Variable { .. }
            | ExprKind::Value(_)
            | ExprKind::String(_)
            | ExprKind::Verdict(_)
            | ExprKind::Prefix { .. }
            | ExprKind::Range { .. }
            | ExprKind::Concat(_)
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
            | ExprKind::FlagCmp { .. } => out.push(self.expr(expr)),
        }
    }

    fn mangle(&self, key: Value, value: &Expr) -> Value {
        json!({"mangle": {"key": key, "value": self.expr(value)}})
    }

    /// The quota statement: amounts in the largest unit that divides them.
    fn quota(&self, bytes: u64, used: u64, over: bool) -> Value {
        let (val, unit) = units::scaled(bytes);
        let mut m = Map::new();
        m.insert("val".into(), json!(val));
        m.insert("val_unit".into(), json!(unit));
        if over {
            m.insert("inv".into(), json!(true));
        }
        if used != 0 && !self.format.stateless {
            let (val, unit) = units::scaled(used);
            m.insert("used".into(), json!(val));
            m.insert("used_unit".into(), json!(unit));
        }
        Value::Object(m)
    }

    fn log(&self, log: &Log) -> Value {
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
        if let Some(level) = log.level.filter(|&l| l != 4) {
            m.insert(
                "level".into(),
                json!(symbols::LOG_LEVEL.name(level.into()).unwrap_or("unknown")),
            );
        }
        const ALL: u32 = 0x2f;
        if log.flags & ALL == ALL {
            m.insert("flags".into(), json!("all"));
        } else if log.flags != 0 {
            let words = [
                (1, "tcp sequence"),
                (2, "tcp options"),
                (4, "ip options"),
                (8, "skuid"),
                (0x20, "ether"),
            ];
            let list = words
                .iter()
                .filter(|(bit, _)| log.flags & bit != 0)
                .map(|(_, w)| json!(w))
                .collect();
            m.insert("flags".into(), one_or_many(list));
        }
        if m.is_empty() { Value::Null } else { Value::Object(m) }
    }

    fn reject(&self, reject: &Reject) -> Value {
        let word = match (reject.kind, reject.family) {
            (Some(RejectType::TcpRst), _) => Some("tcp reset"),
            (Some(RejectType::IcmpxUnreach), _) => Some("icmpx"),
            (Some(RejectType::IcmpUnreach), 10) => Some("icmpv6"),
            (Some(RejectType::IcmpUnreach), _) => Some("icmp"),
            (None, _) => None,
        };
        let Some(word) = word else { return Value::Null };
        let mut m = Map::new();
        m.insert("type".into(), json!(word));
        let dtype = match word {
            "icmpx" => DataType::IcmpxCode,
            "icmp" => DataType::IcmpCode,
            "icmpv6" => DataType::Icmpv6Code,
            _ => return Value::Object(m),
        };
        // Unlike in text, the code is there also where it is the default.
        let code = ExprKind::Value(reject.code.into());
        let code = Expr::typed(code, Loc::default(), Type::Base(dtype), ByteOrder::Big, 8);
        m.insert("expr".into(), self.expr(reject.expr.as_ref().unwrap_or(&code)));
        Value::Object(m)
    }

    fn nat(&self, nat: &Nat) -> Value {
        let word = match nat.kind {
            NatKind::Nat(NatType::Snat) => "snat",
            NatKind::Nat(NatType::Dnat) => "dnat",
            NatKind::Masquerade => "masquerade",
            NatKind::Redirect => "redirect",
        };
        let mut m = Map::new();
        if let Some(a) = &nat.addr {
            if let Some(f) = family_word(nat.family) {
                m.insert("family".into(), json!(f));
            }
            m.insert("addr".into(), self.expr(a));
        }
        if let Some(p) = &nat.port {
            m.insert("port".into(), self.expr(p));
        }
        let words = [(4, "random"), (0x10, "fully-random"), (8, "persistent")];
        let mut flags: Vec<Value> =
            words.iter().filter(|(bit, _)| nat.flags & bit != 0).map(|(_, w)| json!(w)).collect();
        if nat.prefix {
            flags.push(json!("netmap"));
        }
        if !flags.is_empty() {
            m.insert("flags".into(), one_or_many(flags));
        }
        // Of the types, the others follow from the map.
        if nat.prefix {
            m.insert("type_flags".into(), json!("prefix"));
        }
        tagged(word, if m.is_empty() { Value::Null } else { Value::Object(m) })
    }
}

fn limit(l: &Limit) -> Map<String, Value> {
    let mut m = Map::new();
    let (rate, rate_unit) = match l.kind {
        LimitType::Packets => (l.rate, "packets"),
        LimitType::Bytes => units::scaled(l.rate),
    };
    let (burst, burst_unit) = match l.kind {
        LimitType::Packets => (u64::from(l.burst), "packets"),
        LimitType::Bytes => units::scaled(u64::from(l.burst)),
    };
    m.insert("rate".into(), json!(rate));
    m.insert("burst".into(), json!(burst));
    m.insert("per".into(), json!(units::time_word(l.unit)));
    if l.over {
        m.insert("inv".into(), json!(true));
    }
    if l.kind == LimitType::Bytes {
        m.insert("rate_unit".into(), json!(rate_unit));
        m.insert("burst_unit".into(), json!(burst_unit));
    }
    m
}

fn family_word(nfproto: u8) -> Option<&'static str> {
    match nfproto {
        2 => Some("ip"),
        10 => Some("ip6"),
        _ => None,
    }
}

fn update_word(op: DynsetOp) -> &'static str {
    match op {
        DynsetOp::Add => "add",
        DynsetOp::Update => "update",
        DynsetOp::Delete => "delete",
    }
}

/// Members of a proxy's configuration.
pub fn synproxy(m: &mut Map<String, Value>, mss: u16, wscale: u8, flags: u32) {
    if flags & 1 != 0 {
        m.insert("mss".into(), json!(mss));
    }
    if flags & 2 != 0 {
        m.insert("wscale".into(), json!(wscale));
    }
    let mut words = Vec::new();
    if flags & 8 != 0 {
        words.push(json!("timestamp"));
    }
    if flags & 4 != 0 {
        words.push(json!("sack-perm"));
    }
    if !words.is_empty() {
        m.insert("flags".into(), one_or_many(words));
    }
}
