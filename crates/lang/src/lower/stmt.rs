// SPDX-License-Identifier: Apache-2.0

//! Statements to VM expressions.

use std::sync::Arc;

use penstock_program::expr::{
    Connlimit, Counter, CtSet, Dup, Dynset, DynsetOp, Expr as Op, ExthdrReset, ExthdrSet,
    FlowOffload, Fwd, Immediate, ImmediateData, Last, Limit, Log, MetaSet, Notrack, ObjectType,
    Objref, PayloadSet, Queue, Quota, Reject, RejectType, Synproxy, Tproxy, Xt,
};
use penstock_program::{Register, Verdict};
use penstock_ruleset::Change;
use penstock_ruleset::change::{NewChain, NewRule, Position};
use penstock_syntax::ast::{Expr, ExprKind, RuleBlock, Stmt, StmtKind};
use penstock_syntax::datatype::{DataType, Type};
use penstock_syntax::proto::{Proto, Template, transport};
use penstock_syntax::source::Loc;

use crate::eval::stmt::keyword;
use crate::lower::expr::{bytes_of, verdict};
use crate::lower::{Lowered, Places, Program, register};
use crate::userdata;

/// Slots of four bytes in a register.
const WHOLE_REGISTER: usize = 4;
/// `NFT_PAYLOAD_L4CSUM_PSEUDOHDR`.
const PSEUDO_HEADER: u32 = 1;

impl Program<'_, '_> {
    /// The program of a rule; and for every VM expression the statement it came from.
    pub(crate) fn rule(&mut self, rule: &RuleBlock) -> Vec<Loc> {
        for stmt in &rule.stmts {
            self.statement(stmt);
            self.places.resize(self.ops.len(), blamed(stmt));
        }
        std::mem::take(&mut self.places)
    }

    /// VM expressions of a stateful statement by themselves.
    pub(crate) fn stateful(&mut self, stmts: &[Stmt]) -> Vec<Op> {
        let before = std::mem::take(&mut self.ops);
        for stmt in stmts {
            self.statement(stmt);
        }
        std::mem::replace(&mut self.ops, before)
    }

    /// An object by its name, or by a map from what a packet has.
    fn object_reference(&mut self, kind: ObjectType, expr: &Expr) {
        if let ExprKind::String(name) = &expr.kind {
            self.ops.push(Op::Objref(Objref::Named { kind, name: name.clone() }));
        } else if let ExprKind::Map { key, mappings } = &expr.kind
            && let ExprKind::SetRef { set } = &mappings.kind
        {
            let slot = self.take(key);
            self.load(key, slot);
            self.release(slot);
            self.ops.push(Op::Objref(Objref::Map { sreg: register(slot), set: set.clone() }));
        }
    }

    fn statement(&mut self, stmt: &Stmt) {
        match &stmt.kind {
            StmtKind::Match(e) => {
                if let ExprKind::Relational { op, left, right } = &e.kind {
                    self.relational(*op, left, right);
                }
            }
            StmtKind::Verdict(e) => {
                if let ExprKind::Verdict(v) = &e.kind {
                    self.verdict(verdict(v));
                } else if let ExprKind::Map { key, mappings } = &e.kind {
                    self.load_map(key, mappings, None);
                }
            }
            StmtKind::Counter { packets, bytes } => {
                self.ops.push(Op::Counter(Counter { packets: *packets, bytes: *bytes }));
            }
            StmtKind::Limit(l) => self.ops.push(Op::Limit(Limit {
                rate: l.rate,
                unit: l.unit,
                burst: l.burst,
                kind: l.kind,
                over: l.over,
            })),
            StmtKind::Quota { bytes, used, over } => {
                self.ops.push(Op::Quota(Quota {
                    bytes: *bytes,
                    consumed: *used,
                    over: *over,
                    depleted: false,
                }));
            }
            StmtKind::Last { set, msecs } => {
                self.ops.push(Op::Last(Last { set: *set, msecs: *msecs }))
            }
            StmtKind::CtCount { count, over } => {
                self.ops.push(Op::Connlimit(Connlimit { count: *count, over: *over }));
            }
            StmtKind::ObjRef { kind, expr } => self.object_reference(*kind, expr),
            StmtKind::Log(l) => {
                // Evaluation made it a string.
                let prefix = l.prefix.as_ref().and_then(Expr::text).cloned();
                self.ops.push(Op::Log(Log {
                    prefix,
                    group: l.group,
                    snaplen: l.snaplen,
                    queue_threshold: l.queue_threshold,
                    level: l.level,
                    flags: Some(l.flags).filter(|f| *f != 0),
                }));
            }
            StmtKind::Reject(r) => {
                let kind = r.kind.unwrap_or(RejectType::IcmpUnreach);
                self.ops.push(Op::Reject(Reject { kind, code: r.code }));
            }
            StmtKind::Nat(nat) => self.nat(nat),
            StmtKind::Tproxy { family, addr, port } => {
                let base = self.next;
                let addr = addr.as_ref().map(|e| self.argument_wide(e));
                let port = port.as_ref().map(|e| self.argument_wide(e));
                self.release(base);
                self.ops.push(Op::Tproxy(Tproxy { family: family.unwrap_or(0), addr, port }));
            }
            StmtKind::Synproxy { mss, wscale, flags } => {
                self.ops.push(Op::Synproxy(Synproxy { mss: *mss, wscale: *wscale, flags: *flags }));
            }
            StmtKind::Queue { expr, bypass, fanout } => self.queue(expr.as_ref(), *bypass, *fanout),
            StmtKind::Notrack => self.ops.push(Op::Notrack(Notrack)),
            StmtKind::Dup { to, dev } => {
                let base = self.next;
                let mut dup = Dup { addr: None, dev: None };
                if let Some(to) = to {
                    let device = to.dtype == Type::Base(DataType::IfIndex);
                    let register = Some(self.argument(to));
                    if device {
                        dup.dev = register;
                    } else {
                        dup.addr = register;
                    }
                }
                if let Some(dev) = dev {
                    dup.dev = Some(self.argument(dev));
                }
                self.release(base);
                self.ops.push(Op::Dup(dup));
            }
            StmtKind::Fwd { dev, addr, nfproto } => {
                let base = self.next;
                let dev = self.argument(dev);
                let addr = addr.as_ref().map(|e| self.argument(e));
                self.release(base);
                let nfproto = if addr.is_some() { *nfproto } else { 0 };
                self.ops.push(Op::Fwd(Fwd { dev, addr, nfproto }));
            }
            StmtKind::MetaSet { key, expr } => {
                let base = self.next;
                let sreg = self.argument(expr);
                self.release(base);
                self.ops.push(Op::MetaSet(MetaSet { key: *key, sreg }));
            }
            StmtKind::CtSet { key, dir, expr } => {
                let base = self.next;
                let sreg = self.argument(expr);
                self.release(base);
                self.ops.push(Op::CtSet(CtSet { key: *key, dir: *dir, sreg }));
            }
            StmtKind::PayloadSet { target, value } => {
                let base = self.next;
                let sreg = self.argument(value);
                self.release(base);
                if let ExprKind::Payload(p) = &target.kind {
                    let (csum_type, csum_offset) = match p.proto.and_then(|p| p.checksum) {
                        Some((offset, kind)) => (kind, offset),
                        None => (penstock_program::expr::ChecksumType::None, 0),
                    };
                    let csum_flags = match (p.proto, p.field) {
                        // What is written there is data under the transport checksum.
                        _ if p.base == penstock_program::expr::PayloadBase::Inner => PSEUDO_HEADER,
                        (Some(proto), Some(field)) => pseudo_header(proto, field),
                        _ => 0,
                    };
                    self.ops.push(Op::PayloadSet(PayloadSet {
                        base: p.base,
                        offset: p.offset / 8,
                        len: bytes_of(target.len),
                        sreg,
                        csum_type,
                        csum_offset,
                        csum_flags,
                    }));
                }
            }
            StmtKind::ExthdrSet { target, value } => {
                let base = self.next;
                let sreg = self.argument(value);
                self.release(base);
                if let ExprKind::Exthdr(x) = &target.kind {
                    self.ops.push(Op::ExthdrSet(ExthdrSet {
                        op: x.op,
                        kind: x.raw_type,
                        offset: x.offset / 8,
                        len: bytes_of(target.len),
                        sreg,
                    }));
                }
            }
            StmtKind::ExthdrReset { target } => {
                if let ExprKind::Exthdr(x) = &target.kind {
                    self.ops.push(Op::ExthdrReset(ExthdrReset { op: x.op, kind: x.raw_type }));
                }
            }
            StmtKind::SetUpdate { op, set, key, stmts } => self.update(*op, set, key, None, stmts),
            StmtKind::MapUpdate { op, map, key, data, stmts } => {
                self.update(*op, map, key, Some(data), stmts)
            }
            StmtKind::Meter { name, key, stmt, .. } => {
                let expires = key.elem().and_then(|elem| elem.timeout).is_some_and(|t| t > 0);
                let op = if expires { DynsetOp::Update } else { DynsetOp::Add };
                self.dynset(op, name.clone(), key, None, std::slice::from_ref(stmt));
            }
            StmtKind::FlowOffload { table } => {
                self.ops.push(Op::FlowOffload(FlowOffload { flowtable: table.clone() }));
            }
            StmtKind::Chain { goto, block } => self.implicit_chain(*goto, block, stmt.loc),
            StmtKind::Xt { target, name, rev, info } => self.ops.push(Op::Xt(Xt {
                target: *target,
                name: name.clone(),
                rev: *rev,
                info: info.clone(),
            })),
        }
    }

    fn verdict(&mut self, verdict: Verdict) {
        let data = ImmediateData::Verdict(verdict);
        self.ops.push(Op::Immediate(Immediate { dreg: Register::VERDICT, data }));
    }

    /// An argument in registers of its own size.
    pub(crate) fn argument(&mut self, e: &Expr) -> Register {
        let slot = self.take(e);
        self.load(e, slot);
        register(slot)
    }

    /// An argument in a whole register.
    pub(crate) fn argument_wide(&mut self, e: &Expr) -> Register {
        let slot = self.take_wide();
        self.load(e, slot);
        register(slot)
    }

    fn queue(&mut self, expr: Option<&Expr>, bypass: bool, fanout: bool) {
        let mut queue = Queue { num: 0, total: 1, sreg: None, bypass, fanout };
        match expr.map(|e| &e.kind) {
            None => {}
            Some(ExprKind::Value(num)) => queue.num = *num as u16,
            Some(ExprKind::Range { left, right }) => {
                let from = left.value().unwrap_or(0) as u16;
                let to = right.value().unwrap_or(0) as u16;
                queue.num = from;
                queue.total = to.saturating_sub(from).saturating_add(1);
            }
            Some(_) => {
                if let Some(e) = expr {
                    let base = self.next;
                    queue.sreg = Some(self.argument(e));
                    self.release(base);
                }
            }
        }
        self.ops.push(Op::Queue(queue));
    }

    fn update(
        &mut self,
        op: DynsetOp,
        set: &Expr,
        key: &Expr,
        data: Option<&Expr>,
        stmts: &[Stmt],
    ) {
        if let ExprKind::SetRef { set } = &set.kind {
            self.dynset(op, set.clone(), key, data, stmts);
        }
    }

    fn dynset(
        &mut self,
        op: DynsetOp,
        set: Arc<str>,
        key: &Expr,
        data: Option<&Expr>,
        stmts: &[Stmt],
    ) {
        let base = self.next;
        let elem = key.elem();
        let inner = elem.map_or(key, |elem| &elem.key);
        let timeout = elem.and_then(|elem| elem.timeout).unwrap_or(0);
        let sreg_key = self.argument(inner);
        // nft keeps no less than a whole register for the key.
        self.next = self.next.max(base + WHOLE_REGISTER);
        let sreg_data = data.map(|d| self.argument(d));
        self.release(base);
        let mut exprs = elem.map_or_else(Vec::new, |elem| self.stateful(&elem.stmts));
        exprs.extend(self.stateful(stmts));
        self.ops.push(Op::Dynset(Dynset { set, op, sreg_key, sreg_data, timeout, exprs }));
    }

    /// `jump { … }`: a chain of its own, its rules, and the verdict that leads there.
    fn implicit_chain(&mut self, goto: bool, block: &RuleBlock, loc: Loc) {
        self.chain_id += 1;
        let name: Arc<str> =
            format!("__chain%d#{}", u64::from(loc.start) << 8 | u64::from(self.chain_id)).into();
        let places = Places { table: self.table_loc, ..Places::default() };
        self.chains.push(Lowered {
            change: Change::AddChain {
                family: self.family,
                table: self.table.clone(),
                mode: penstock_ruleset::change::Mode::Add,
                chain: NewChain {
                    name: name.clone(),
                    base: None,
                    policy_accept: None,
                    anonymous: true,
                    offload: false,
                    userdata: userdata::with_comment(None),
                },
            },
            // A chain without a name stands nowhere.
            places: Places { whole: Loc::NOWHERE, ..Places::default() },
        });
        for rule in &block.rules {
            let mut inner = Program::new(self.ctx, self.family, self.table.clone());
            inner.table_loc = self.table_loc;
            inner.chain_id = self.chain_id;
            let expressions = inner.rule(rule);
            self.chain_id = inner.chain_id;
            self.chains.append(&mut inner.chains);
            self.chains.push(Lowered {
                change: Change::AddRule {
                    family: self.family,
                    table: self.table.clone(),
                    chain: name.clone(),
                    position: Position::After(None),
                    rule: NewRule {
                        exprs: inner.ops,
                        userdata: userdata::with_comment(rule.comment.as_deref()),
                    },
                },
                places: Places { whole: rule.loc, expressions, ..places.clone() },
            });
        }
        self.verdict(if goto { Verdict::Goto(name) } else { Verdict::Jump(name) });
    }
}

/// Whether the transport checksum covers the field through the pseudo header.
fn pseudo_header(proto: &Proto, field: &Template) -> u32 {
    if proto.base == penstock_program::expr::PayloadBase::Network
        && proto.in_pseudo_header(field)
        && !std::ptr::eq(proto, &transport::TH)
    {
        PSEUDO_HEADER
    } else {
        0
    }
}

/// What a refusal of a statement's VM expressions points at: the set or object it names, or all of
/// it.
fn blamed(stmt: &Stmt) -> Loc {
    match &stmt.kind {
        StmtKind::PayloadSet { target, .. } | StmtKind::ExthdrSet { target, .. } => target.loc,
        StmtKind::ObjRef { expr, .. } if matches!(expr.kind, ExprKind::String(_)) => expr.loc,
        StmtKind::Verdict(e) => e.chain().map_or_else(|| keyword(stmt), |chain| chain.loc),
        // Others are blamed as messages about them are.
        _ => keyword(stmt),
    }
}
