// SPDX-License-Identifier: Apache-2.0

//! Statements of rules.

use penstock_program::expr::{DynsetOp, NatType, ObjectType, RejectType};
use serde_json::{Map, Value};

use super::exprs::Place;
use super::{Reader, expr};
use super::{maybe_text, several, type_name};
use crate::ast::expr::{RelOp, SymbolKind};
use crate::ast::stmt::{Log, Nat, NatKind, Reject};
use crate::ast::{Expr, ExprKind, Stmt, StmtKind};
use crate::datatype::symbols;
use crate::source::Loc;

type Object = Map<String, Value>;

/// `NF_LOG_*`.
const LOG_FLAGS: [(&str, u32); 6] = [
    ("tcp sequence", 0x01),
    ("tcp options", 0x02),
    ("ip options", 0x04),
    ("skuid", 0x08),
    ("ether", 0x20),
    ("all", 0x2f),
];

/// `NF_NAT_RANGE_*`; a prefix says itself that it maps whole nets.
const NAT_FLAGS: [(&str, u32); 4] =
    [("random", 4), ("persistent", 8), ("fully-random", 0x10), ("netmap", 0)];

impl Reader<'_> {
    pub(super) fn stmt(&mut self, value: &Value) -> Option<Stmt> {
        let (name, body) = self.only(value)?;
        let kind = self.stmt_kind(name, value, body)?;
        Some(Stmt { kind, loc: Loc::NOWHERE })
    }

    fn stmt_kind(&mut self, name: &str, value: &Value, body: &Value) -> Option<StmtKind> {
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
            "reset" => match self.expr(body) {
                Some(target) if matches!(target.kind, ExprKind::Exthdr(_)) => {
                    Some(StmtKind::ExthdrReset { target })
                }
                Some(_) => self.error("Illegal TCP optstrip argument"),
                None => self.error("Illegal TCP optstrip argument"),
            },
            "xt" => self
                .error("unsupported xtables compat expression, use iptables-nft with this ruleset"),
            other => match self.stateful(other, body) {
                Some(kind) => kind,
                None => self.error(format!("Unknown statement object '{other}'.")),
            },
        }
    }

    fn matching(&mut self, body: &Value) -> Option<StmtKind> {
        let object = self.object(body)?;
        let left = self.member(object, "left", 0)?;
        let right = self.member(object, "right", 1)?;
        let word = self.text(object, "op", 2)?;
        let op = match word {
            "==" => RelOp::Eq,
            "!=" => RelOp::Neq,
            "<" => RelOp::Lt,
            "<=" => RelOp::Lte,
            ">" => RelOp::Gt,
            ">=" => RelOp::Gte,
            "!" => RelOp::Neg,
            "in" => RelOp::Implicit,
            other => return self.error(format!("Unknown relational op '{other}'.")),
        };
        let Some(left) = self.expr(left) else { return self.error("Invalid LHS of relational.") };
        let Some(right) = self.expr_in(Place::RHS, right) else {
            return self.error("Invalid RHS of relational.");
        };
        let kind = ExprKind::Relational { op, left: Box::new(left), right: Box::new(right) };
        Some(StmtKind::Match(expr(kind)))
    }

    /// An argument of a statement.
    pub(super) fn stmt_expr(&mut self, value: &Value) -> Option<Expr> {
        self.expr_in(Place::STMT, value)
    }

    /// An argument that may be absent; `message` if it is wrong.
    fn maybe_expr(&mut self, object: &Object, key: &str, message: &str) -> Option<Option<Expr>> {
        let Some(value) = object.get(key) else { return Some(None) };
        match self.stmt_expr(value) {
            Some(expr) => Some(Some(expr)),
            None => self.error(message),
        }
    }

    fn mangle(&mut self, body: &Value) -> Option<StmtKind> {
        let object = self.object(body)?;
        let key = self.member(object, "key", 0)?;
        let value = self.member(object, "value", 1)?;
        let Some(target) = self.expr_in(Place::MANGLE, key) else {
            return self.error("Invalid mangle statement key");
        };
        let Some(value) = self.stmt_expr(value) else {
            return self.error("Invalid mangle statement value");
        };
        match StmtKind::assign(target, value) {
            Some(assignment) => Some(assignment),
            None => self.error("Invalid mangle statement key expression type."),
        }
    }

    fn flow(&mut self, body: &Value) -> Option<StmtKind> {
        let object = self.object(body)?;
        let op = self.text(object, "op", 0)?;
        let table = self.text(object, "flowtable", 1)?;
        if op != "add" {
            return self.error(format!("Unknown flow offload statement op '{op}'."));
        }
        match table.strip_prefix('@') {
            Some(name) if !name.is_empty() => Some(StmtKind::FlowOffload { table: name.into() }),
            _ => self.error("Illegal flowtable reference in flow offload statement."),
        }
    }

    fn address_family(&mut self, object: &Object) -> Option<u8> {
        match maybe_text(object, "family") {
            None => Some(0),
            Some("ip") => Some(2),
            Some("ip6") => Some(10),
            Some(other) => match other {
                "inet" | "arp" | "bridge" | "netdev" => {
                    self.error(format!("Invalid family '{other}'."))
                }
                _ => self.error(format!("Unknown family '{other}'.")),
            },
        }
    }

    fn fwd(&mut self, body: &Value) -> Option<StmtKind> {
        let object = self.object(body)?;
        let dev = self.member(object, "dev", 0)?;
        let Some(dev) = self.stmt_expr(dev) else { return self.error("Invalid fwd dev value.") };
        let nfproto = self.address_family(object)?;
        if nfproto == 0 {
            return Some(StmtKind::Fwd { dev, addr: None, nfproto });
        }
        let addr = self.member(object, "addr", 0)?;
        match self.stmt_expr(addr) {
            Some(addr) => Some(StmtKind::Fwd { dev, addr: Some(addr), nfproto }),
            None => self.error("Invalid fwd addr value."),
        }
    }

    fn dup(&mut self, body: &Value) -> Option<StmtKind> {
        let object = self.object(body)?;
        let to = self.member(object, "addr", 0)?;
        let Some(to) = self.stmt_expr(to) else { return self.error("Illegal dup addr arg.") };
        let dev = self.maybe_expr(object, "dev", "Illegal dup dev.")?;
        Some(StmtKind::Dup { to: Some(to), dev })
    }

    fn nat(&mut self, body: &Value, kind: NatKind) -> Option<StmtKind> {
        let empty = Map::new();
        let object = if body.is_null() { &empty } else { self.object(body)? };
        let family = self.address_family(object)?;
        let addr = self.maybe_expr(object, "addr", "Invalid nat addr.")?;
        let port = self.maybe_expr(object, "port", "Invalid nat port.")?;
        let mut nat = Nat {
            kind,
            family,
            addr,
            port,
            flags: 0,
            interval: false,
            concat: false,
            prefix: false,
        };
        for word in object.get("flags").map_or(&[][..], several) {
            let Some(word) = word.as_str() else {
                let kind = type_name(word);
                return self.error(format!("Invalid nat flag type {kind}, expected string."));
            };
            match NAT_FLAGS.iter().find(|(w, _)| *w == word) {
                Some((_, bit)) => nat.flags |= bit,
                None => return self.error(format!("Unknown nat flag '{word}'.")),
            }
        }
        for word in object.get("type_flags").map_or(&[][..], several) {
            match word.as_str() {
                Some("interval") => nat.interval = true,
                Some("prefix") => nat.prefix = true,
                Some("concat") => nat.concat = true,
                Some(other) => return self.error(format!("Unknown nat type flag '{other}'.")),
                None => {
                    let kind = type_name(word);
                    return self
                        .error(format!("Invalid nat type flag type {kind}, expected string."));
                }
            }
        }
        Some(StmtKind::Nat(nat))
    }

    fn reject(&mut self, body: &Value) -> Option<StmtKind> {
        let mut reject = Reject { kind: None, family: 0, expr: None, code: 0 };
        let empty = Map::new();
        let object = body.as_object().unwrap_or(&empty);
        match maybe_text(object, "type") {
            Some("tcp reset") => reject.kind = Some(RejectType::TcpRst),
            Some("icmpx") => reject.kind = Some(RejectType::IcmpxUnreach),
            Some("icmp") => (reject.kind, reject.family) = (Some(RejectType::IcmpUnreach), 2),
            Some("icmpv6") => (reject.kind, reject.family) = (Some(RejectType::IcmpUnreach), 10),
            _ => {}
        }
        if let Some(value) = object.get("expr") {
            reject.expr = match self.immediate(value) {
                Some(expr) => Some(expr),
                None => return self.error("Illegal reject expr."),
            };
        }
        Some(StmtKind::Reject(reject))
    }

    fn set_op(&mut self, object: &Object) -> Option<DynsetOp> {
        match self.text(object, "op", 0)? {
            "add" => Some(DynsetOp::Add),
            "update" => Some(DynsetOp::Update),
            "delete" => Some(DynsetOp::Delete),
            other => self.error(format!("Unknown set statement op '{other}'.")),
        }
    }

    /// `@name` of the member `key`.
    fn set_name(&mut self, object: &Object, key: &str, nth: u32) -> Option<Expr> {
        match self.text(object, key, nth)?.strip_prefix('@') {
            Some(name) => Some(expr(ExprKind::Symbol { kind: SymbolKind::Set, text: name.into() })),
            None => self.error("Illegal set reference in set statement."),
        }
    }

    fn update_stmts(&mut self, object: &Object) -> Option<Vec<Stmt>> {
        match object.get("stmt") {
            Some(stmts) => self.stateful_stmts(stmts),
            None => Some(Vec::new()),
        }
    }

    fn set_update(&mut self, body: &Value) -> Option<StmtKind> {
        let object = self.object(body)?;
        let op = self.set_op(object)?;
        let elem = self.member(object, "elem", 1)?;
        let Some(key) = self.expr_in(Place::SES, elem) else {
            return self.error("Illegal set statement element.");
        };
        let set = self.set_name(object, "set", 2)?;
        Some(StmtKind::SetUpdate { op, set, key, stmts: self.update_stmts(object)? })
    }

    fn map_update(&mut self, body: &Value) -> Option<StmtKind> {
        let object = self.object(body)?;
        let op = self.set_op(object)?;
        let elem = self.member(object, "elem", 1)?;
        let Some(key) = self.expr_in(Place::SES, elem) else {
            return self.error("Illegal set statement element.");
        };
        let data = self.member(object, "data", 2)?;
        let data = self.expr_in(Place::SET_RHS, data)?;
        let map = self.set_name(object, "map", 3)?;
        Some(StmtKind::MapUpdate { op, map, key, data, stmts: self.update_stmts(object)? })
    }

    fn log(&mut self, body: &Value) -> Option<StmtKind> {
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
            match symbols::LOG_LEVEL.value(word) {
                Some(level) => log.level = Some(level),
                None => return self.error(format!("Invalid log level '{word}'.")),
            }
        }
        for word in object.get("flags").map_or(&[][..], several) {
            let Some(word) = word.as_str() else {
                let kind = type_name(word);
                return self.error(format!("Invalid log flag type {kind}, expected string."));
            };
            match LOG_FLAGS.iter().find(|(w, _)| *w == word) {
                Some((_, bits)) => log.flags |= bits,
                None => return self.error(format!("Unknown log flag '{word}'.")),
            }
        }
        Some(StmtKind::Log(log))
    }

    fn meter(&mut self, body: &Value) -> Option<StmtKind> {
        let object = self.object(body)?;
        let key = self.member(object, "key", 0)?;
        let stmt = self.member(object, "stmt", 1)?;
        let name = maybe_text(object, "name").unwrap_or("").into();
        let size = self.maybe_number(object, "size")?.unwrap_or(0);
        let Some(key) = self.expr(key) else { return self.error("Invalid meter key.") };
        let stmt = self.only(stmt).and_then(|(name, body)| self.stateful(name, body).flatten());
        match stmt {
            Some(kind) => {
                let stmt = Box::new(Stmt { kind, loc: Loc::NOWHERE });
                Some(StmtKind::Meter { name, size, key, stmt })
            }
            None => self.error("Invalid meter statement."),
        }
    }

    fn queue(&mut self, body: &Value) -> Option<StmtKind> {
        let empty = Map::new();
        let object = body.as_object().unwrap_or(&empty);
        let expr = self.maybe_expr(object, "num", "Invalid queue num.")?;
        let (mut bypass, mut fanout) = (false, false);
        for (i, word) in object.get("flags").map_or(&[][..], several).iter().enumerate() {
            match word.as_str() {
                Some("bypass") => bypass = true,
                Some("fanout") => fanout = true,
                Some(other) => return self.error(format!("Invalid queue flag '{other}'.")),
                None => {
                    return self.error(format!("Invalid object in queue flag array at index {i}."));
                }
            }
        }
        Some(StmtKind::Queue { expr, bypass, fanout })
    }

    fn vmap(&mut self, body: &Value) -> Option<StmtKind> {
        let object = self.object(body)?;
        let key = self.member(object, "key", 0)?;
        let data = self.member(object, "data", 1)?;
        let key = self.expr_in(Place::MAP, key);
        let data = if key.is_some() { self.expr_in(Place::RHS, data) } else { None };
        match (key, data) {
            (Some(key), Some(mappings)) => {
                let kind = ExprKind::Map { key: Box::new(key), mappings: Box::new(mappings) };
                Some(StmtKind::Verdict(expr(kind)))
            }
            _ => self.error("Illegal vmap statement."),
        }
    }

    fn tproxy(&mut self, body: &Value) -> Option<StmtKind> {
        let object = self.object(body)?;
        let family = Some(self.address_family(object)?).filter(|&f| f != 0);
        let addr = self.maybe_expr(object, "addr", "Invalid addr.")?;
        let port = self.maybe_expr(object, "port", "Invalid port.")?;
        Some(StmtKind::Tproxy { family, addr, port })
    }

    fn synproxy(&mut self, body: &Value) -> Option<StmtKind> {
        match body {
            Value::Null => Some(StmtKind::Synproxy { mss: 0, wscale: 0, flags: 0 }),
            Value::Object(object) if !object.contains_key("map") => {
                let (mss, wscale, flags) = self.synproxy_options(object)?;
                Some(StmtKind::Synproxy { mss, wscale, flags })
            }
            other => self.reference(other, ObjectType::Synproxy, "Invalid synproxy reference"),
        }
    }
}
