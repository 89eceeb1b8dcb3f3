// SPDX-License-Identifier: Apache-2.0

//! What each statement and each selector means, in the three steps of the compiler.
//!
//! Evaluation ([`Eval`]) checks a statement and gives its operands their types. Lowering
//! ([`Program`]) makes VM expressions of it. Delinearisation ([`Reader`]) makes statements and
//! selectors of VM expressions again, for listings. This file has the match of each step. What is
//! particular to one statement is in its file, next to each other for the three steps.

mod assign;
mod chain;
mod dup;
mod fwd;
mod log;
mod nat;
mod object;
mod queue;
mod reject;
mod tproxy;
mod update;

use penstock_program::Register;
use penstock_program::expr::{self as vm, Expr as Op, Hash, MetaKey, RejectType};
use penstock_ruleset::model::Family;
use penstock_syntax::ast::{ExprKind, Key, Stmt, StmtKind};
use penstock_syntax::keys::{self, ValueType};
use penstock_syntax::source::Loc;

use crate::delinearize::fields;
use crate::delinearize::program::{Reader, limit};
use crate::eval::context::Expected;
use crate::eval::stmt::keyword;
use crate::eval::{Eval, Result, error};
use crate::lower::Program;
use crate::lower::expr::verdict;

impl Eval<'_, '_> {
    /// Evaluates one statement.
    pub(crate) fn statement(&mut self, stmt: &mut Stmt) -> Result {
        let loc = keyword(stmt);
        match &mut stmt.kind {
            StmtKind::Match(e) => {
                if !matches!(e.kind, ExprKind::Relational { .. } | ExprKind::FlagCmp { .. }) {
                    return error(e.loc, "expression has no effect");
                }
                self.expr(e)
            }
            StmtKind::Verdict(e) => self.verdict_stmt(e, loc),
            StmtKind::ObjRef { kind, expr } => self.object_ref(*kind, expr, loc),
            StmtKind::Log(log) => log::evaluate(log, loc),
            StmtKind::Reject(reject) => self.reject(reject, loc),
            StmtKind::Nat(nat) => self.nat(nat, loc),
            StmtKind::Tproxy { .. } => self.tproxy(stmt),
            StmtKind::Queue { expr: Some(expr), fanout, .. } => self.queue(expr, *fanout, loc),
            StmtKind::Dup { to, dev } => self.dup(to, dev, loc),
            StmtKind::Fwd { dev, addr, family } => self.fwd(dev, addr, *family, loc),
            StmtKind::MetaSet { key, expr } => {
                self.set_arg(expr, loc, Expected::of(keys::meta(*key).value))
            }
            StmtKind::CtSet { key, expr, .. } => self.ct_set(*key, expr, loc),
            StmtKind::PayloadSet { target, value } => self.payload_set(target, value, loc),
            StmtKind::ExthdrSet { target, value } => self.exthdr_set(target, value, loc),
            StmtKind::ExthdrReset { target } => self.exthdr(target),
            StmtKind::SetUpdate { set, key, stmts, .. } => self.set_update(set, key, stmts, loc),
            StmtKind::MapUpdate { map, key, data, stmts, .. } => {
                self.map_update(map, (key, data), stmts, loc)
            }
            StmtKind::Meter { name, size, key, stmt } => self.meter(name, *size, key, stmt, loc),
            StmtKind::Chain { block, .. } => self.implicit_chain(block),
            // Nothing to check. Which families have `synproxy` is left to the kernel.
            StmtKind::Counter { .. }
            | StmtKind::Limit(_)
            | StmtKind::Quota { .. }
            | StmtKind::Last { .. }
            | StmtKind::CtCount { .. }
            | StmtKind::Queue { expr: None, .. }
            | StmtKind::Synproxy { .. }
            | StmtKind::Notrack
            | StmtKind::FlowOffload { .. }
            | StmtKind::Xt { .. } => Ok(()),
        }
    }

    /// What a selector gives, if it can be asked here. It becomes that of the family that the rule
    /// or the table tells of, unless its type was `written`.
    pub(crate) fn selector_value(
        &mut self,
        key: &mut Key,
        written: bool,
        loc: Loc,
    ) -> Result<ValueType> {
        match key {
            Key::Meta { key: MetaKey::NfProto } if self.family != Family::Inet => {
                return error(loc, "meta nfproto is only useful in the inet family");
            }
            Key::Ct { key, family, .. } => {
                self.ct_dependency(key, *family, loc)?;
                return Ok(self.ct_value(*key, loc));
            }
            Key::Rt { key } => self.rt_dependency(key, written, loc)?,
            Key::Xfrm { .. } if !matches!(self.family, Family::Ip | Family::Ip6 | Family::Inet) => {
                return error(loc, "ipsec expression is only valid in ip/ip6/inet tables");
            }
            Key::Meta { .. }
            | Key::Fib { .. }
            | Key::Socket { .. }
            | Key::Osf { .. }
            | Key::Xfrm { .. }
            | Key::Tunnel { .. }
            | Key::Numgen { .. }
            | Key::Symhash { .. } => {}
        }
        Ok(key.value_type())
    }
}

impl Program<'_, '_> {
    /// Makes VM expressions of a statement.
    pub(crate) fn statement(&mut self, stmt: &Stmt) {
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
            &StmtKind::Counter { packets, bytes } => {
                self.ops.push(Op::Counter(vm::Counter { packets, bytes }));
            }
            StmtKind::Limit(l) => self.ops.push(Op::Limit(vm::Limit {
                rate: l.rate,
                unit: l.unit,
                burst: l.burst,
                kind: l.kind,
                over: l.over,
            })),
            &StmtKind::Quota { bytes, used, over } => {
                let quota = vm::Quota { bytes, consumed: used, over, depleted: false };
                self.ops.push(Op::Quota(quota));
            }
            &StmtKind::Last { set, msecs } => self.ops.push(Op::Last(vm::Last { set, msecs })),
            &StmtKind::CtCount { count, over } => {
                self.ops.push(Op::Connlimit(vm::Connlimit { count, over }));
            }
            StmtKind::ObjRef { kind, expr } => self.object_reference(*kind, expr),
            StmtKind::Log(l) => self.log(l),
            StmtKind::Reject(r) => {
                let kind = r.kind.unwrap_or(RejectType::IcmpUnreach);
                self.ops.push(Op::Reject(vm::Reject { kind, code: r.code }));
            }
            StmtKind::Nat(nat) => self.nat(nat),
            StmtKind::Tproxy { family, addr, port } => {
                self.tproxy(*family, addr.as_ref(), port.as_ref());
            }
            &StmtKind::Synproxy { mss, wscale, flags } => {
                self.ops.push(Op::Synproxy(vm::Synproxy { mss, wscale, flags }));
            }
            StmtKind::Queue { expr, bypass, fanout } => self.queue(expr.as_ref(), *bypass, *fanout),
            StmtKind::Notrack => self.ops.push(Op::Notrack(vm::Notrack)),
            StmtKind::Dup { to, dev } => self.dup(to.as_ref(), dev.as_ref()),
            StmtKind::Fwd { dev, addr, family } => self.fwd(dev, addr.as_ref(), *family),
            StmtKind::MetaSet { key, expr } => self.meta_set(*key, expr),
            StmtKind::CtSet { key, dir, expr } => self.ct_set(*key, *dir, expr),
            StmtKind::PayloadSet { target, value } => self.payload_set(target, value),
            StmtKind::ExthdrSet { target, value } => self.exthdr_set(target, value),
            StmtKind::ExthdrReset { target } => self.exthdr_reset(target),
            StmtKind::SetUpdate { op, set, key, stmts } => self.update(*op, set, key, None, stmts),
            StmtKind::MapUpdate { op, map, key, data, stmts } => {
                self.update(*op, map, key, Some(data), stmts);
            }
            StmtKind::Meter { name, key, stmt, .. } => self.meter(name, key, stmt),
            StmtKind::FlowOffload { table } => {
                self.ops.push(Op::FlowOffload(vm::FlowOffload { flowtable: table.clone() }));
            }
            StmtKind::Chain { goto, block } => self.implicit_chain(*goto, block, stmt.loc),
            StmtKind::Xt { target, name, rev, info } => self.ops.push(Op::Xt(vm::Xt {
                target: *target,
                name: name.clone(),
                rev: *rev,
                info: info.clone(),
            })),
        }
    }

    /// Loads a selector into a register.
    pub(crate) fn load_selector(&mut self, key: &Key, dreg: Register) {
        self.ops.push(match *key {
            Key::Meta { key } => Op::Meta(vm::Meta { key, dreg }),
            Key::Ct { key, dir, family: _ } => Op::Ct(vm::Ct { key, dir, dreg }),
            Key::Rt { key } => Op::Rt(vm::Rt { key, dreg }),
            Key::Fib { flags, result } => Op::Fib(vm::Fib { result, flags, dreg }),
            Key::Socket { key, level } => Op::Socket(vm::Socket { key, level, dreg }),
            Key::Osf { ttl, version } => Op::Osf(vm::Osf { ttl, version, dreg }),
            Key::Xfrm { key, out, spnum } => Op::Xfrm(vm::Xfrm { key, out, spnum, dreg }),
            Key::Tunnel { key } => Op::Tunnel(vm::Tunnel { key, dreg }),
            Key::Numgen { mode, modulus, offset } => {
                Op::Numgen(vm::Numgen { mode, modulus, offset, dreg })
            }
            Key::Symhash { modulus, offset } => Op::Hash(Hash::Sym { modulus, offset, dreg }),
        });
    }
}

impl Reader<'_, '_> {
    /// Makes a statement of a VM expression, or notes what it leaves in its register; `None` if an
    /// operand is missing.
    pub(crate) fn expr(&mut self, expr: &vm::Expr) -> Option<()> {
        match expr {
            vm::Expr::Immediate(e) => self.immediate(e),
            vm::Expr::Payload(e) => {
                let payload = fields::raw_payload(e.base, e.offset * 8, e.len * 8);
                self.registers.set(e.dreg, payload);
            }
            vm::Expr::Exthdr(e) => {
                let exthdr = fields::raw_exthdr(e.op, e.kind, e.offset * 8, e.len * 8, e.present);
                self.registers.set(e.dreg, exthdr);
            }
            vm::Expr::Inner(e) => self.inner(e)?,
            vm::Expr::Cmp(e) => self.cmp(e)?,
            vm::Expr::Range(e) => self.range(e)?,
            vm::Expr::Bitwise(e) => self.bitwise(e)?,
            vm::Expr::Byteorder(e) => self.byteorder(e)?,
            vm::Expr::Lookup(e) => self.lookup(e)?,
            vm::Expr::Hash(e) => self.hash(e)?,

            vm::Expr::Meta(e) => self.selector(e.dreg, Key::Meta { key: e.key }),
            vm::Expr::Fib(e) => self.fib(e),
            vm::Expr::Rt(e) => self.selector(e.dreg, Key::Rt { key: e.key }),
            vm::Expr::Ct(e) => {
                self.selector(e.dreg, Key::Ct { key: e.key, dir: e.dir, family: None });
            }
            vm::Expr::Socket(e) => {
                self.selector(e.dreg, Key::Socket { key: e.key, level: e.level });
            }
            vm::Expr::Osf(e) => {
                self.selector(e.dreg, Key::Osf { ttl: e.ttl, version: e.version });
            }
            vm::Expr::Xfrm(e) => {
                self.selector(e.dreg, Key::Xfrm { key: e.key, out: e.out, spnum: e.spnum });
            }
            vm::Expr::Tunnel(e) => self.selector(e.dreg, Key::Tunnel { key: e.key }),
            vm::Expr::Numgen(e) => {
                let (mode, modulus, offset) = (e.mode, e.modulus, e.offset);
                self.selector(e.dreg, Key::Numgen { mode, modulus, offset });
            }

            vm::Expr::Counter(e) => {
                self.push(StmtKind::Counter { packets: e.packets, bytes: e.bytes });
            }
            vm::Expr::Limit(e) => self.push(StmtKind::Limit(limit(e))),
            vm::Expr::Quota(e) => {
                self.push(StmtKind::Quota { bytes: e.bytes, used: e.consumed, over: e.over });
            }
            vm::Expr::Last(e) => self.push(StmtKind::Last { set: e.set, msecs: e.msecs }),
            vm::Expr::Connlimit(e) => self.push(StmtKind::CtCount { count: e.count, over: e.over }),
            vm::Expr::Objref(e) => self.objref(e)?,
            vm::Expr::Log(e) => self.log(e),
            vm::Expr::Reject(e) => self.reject(e),
            vm::Expr::Nat(e) => self.nat(e)?,
            vm::Expr::Masq(e) => self.masquerade(e)?,
            vm::Expr::Redir(e) => self.redirect(e)?,
            vm::Expr::Tproxy(e) => self.tproxy(e)?,
            vm::Expr::Synproxy(e) => {
                self.push(StmtKind::Synproxy { mss: e.mss, wscale: e.wscale, flags: e.flags });
            }
            vm::Expr::Queue(e) => self.queue(e)?,
            vm::Expr::Notrack(_) => self.push(StmtKind::Notrack),
            vm::Expr::Dup(e) => self.dup(e)?,
            vm::Expr::Fwd(e) => self.fwd(e)?,
            vm::Expr::MetaSet(e) => self.meta_set(e)?,
            vm::Expr::CtSet(e) => self.ct_set(e)?,
            vm::Expr::PayloadSet(e) => self.payload_set(e)?,
            vm::Expr::ExthdrSet(e) => self.exthdr_set(e)?,
            vm::Expr::ExthdrReset(e) => self.exthdr_reset(e),
            vm::Expr::Dynset(e) => self.dynset(e)?,
            vm::Expr::FlowOffload(e) => {
                self.push(StmtKind::FlowOffload { table: e.flowtable.clone() });
            }
            vm::Expr::Xt(e) => self.push(StmtKind::Xt {
                target: e.target,
                name: e.name.clone(),
                rev: e.rev,
                info: e.info.clone(),
            }),
        }
        Some(())
    }
}
