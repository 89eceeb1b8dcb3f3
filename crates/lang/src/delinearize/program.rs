// SPDX-License-Identifier: Apache-2.0

//! First pass: VM expressions to raw statements.

use std::sync::Arc;

use penstock_program::expr::{
    self as vm, BitwiseOp, BoolOp, ByteorderOp, CmpOp, FibResult, Hash, ImmediateData, Objref,
    RejectType,
};
use penstock_program::{Register, Verdict};
use penstock_ruleset::Family;
use penstock_ruleset::model::MapData;
use penstock_syntax::ast::expr::{BinOp, Exthdr, RelOp, SetElem, UnaryOp, VerdictExpr};
use penstock_syntax::ast::stmt::{Limit, Log, Nat, NatKind, Reject};
use penstock_syntax::ast::{Expr, ExprKind, Key, Stmt, StmtKind};
use penstock_syntax::datatype::{ByteOrder, DataType, Type};
use penstock_syntax::keys;
use penstock_syntax::proto::tunnel;
use penstock_syntax::source::Loc;

use super::{Delinearizer, constant, fields, raw, set_type, stmt};
use penstock_syntax::keys::ValueType;

const SLOTS: usize = 16;

/// What each register holds, by its first 32-bit slot.
#[derive(Default)]
struct Registers {
    slots: [Option<Expr>; SLOTS],
}

impl Registers {
    fn set(&mut self, reg: Register, expr: Expr) {
        let Some(slot) = reg.slot() else { return };
        // What it covers is gone.
        let covered = padded(expr.len) as usize / 32;
        for place in self.slots.iter_mut().skip(slot).take(covered) {
            *place = None;
        }
        if let Some(place) = self.slots.get_mut(slot) {
            *place = Some(expr);
        }
    }

    fn get(&self, reg: Register) -> Option<Expr> {
        self.slots.get(reg.slot()?)?.clone()
    }

    /// What `bits` from a register on hold: one expression, or a concatenation of several.
    fn get_long(&self, reg: Register, bits: u32) -> Option<Expr> {
        let first = self.get(reg)?;
        if first.len == 0 || first.len >= bits || padded(first.len) >= bits {
            return Some(first);
        }
        let mut slot = reg.slot()?;
        let mut left = bits;
        let mut parts = Vec::new();
        while left > 0 {
            let part = self.slots.get(slot)?.clone()?;
            let space = padded(part.len);
            if space == 0 {
                return None;
            }
            slot += space as usize / 32;
            left = left.saturating_sub(space);
            parts.push(part);
        }
        Some(concat(parts))
    }
}

fn padded(bits: u32) -> u32 {
    bits.div_ceil(32) * 32
}

fn concat(parts: Vec<Expr>) -> Expr {
    let dtype = Type::Concat(parts.iter().map(|p| p.dtype.base()).collect());
    let len = parts.iter().map(|p| padded(p.len)).sum();
    Expr::typed(ExprKind::Concat(parts), Loc::default(), dtype, ByteOrder::Invalid, len)
}

fn keyed(key: Key, value: ValueType) -> Expr {
    Expr::typed(ExprKind::Key(key), Loc::default(), Type::Base(value.dtype), value.order, value.len)
}

/// A selector that tells what it gives.
fn selector(key: Key) -> Expr {
    keyed(key, key.value_type())
}

struct Reader<'a, 'd> {
    delinearizer: &'d Delinearizer<'a>,
    registers: Registers,
    stmts: Vec<Stmt>,
}

/// Raw statements of a program. What refers to a register that nothing was loaded into is left out:
/// the verifier lets no such program in.
pub(super) fn statements(delinearizer: &Delinearizer<'_>, program: &[vm::Expr]) -> Vec<Stmt> {
    let mut reader = Reader { delinearizer, registers: Registers::default(), stmts: Vec::new() };
    for expr in program {
        // An absent operand ends this expression only.
        let _ = reader.expr(expr);
    }
    reader.stmts
}

impl Reader<'_, '_> {
    fn push(&mut self, kind: StmtKind) {
        self.stmts.push(stmt(kind));
    }

    fn family(&self) -> Family {
        self.delinearizer.table.family
    }

    fn matching(&mut self, op: RelOp, left: Expr, right: Expr) {
        let relational = ExprKind::Relational { op, left: Box::new(left), right: Box::new(right) };
        self.push(StmtKind::Match(raw(relational, 1)));
    }

    fn expr(&mut self, expr: &vm::Expr) -> Option<()> {
        match expr {
            vm::Expr::Immediate(e) => match &e.data {
                ImmediateData::Verdict(verdict) => self.verdict(verdict),
                ImmediateData::Value(data) => self.registers.set(e.dreg, constant(data.bytes())),
            },
            vm::Expr::Payload(e) => {
                let payload = fields::raw_payload(e.base, e.offset * 8, e.len * 8);
                self.registers.set(e.dreg, payload);
            }
            vm::Expr::PayloadSet(e) => {
                let value = self.registers.get_long(e.sreg, e.len * 8)?;
                let target = fields::raw_payload(e.base, e.offset * 8, e.len * 8);
                self.push(StmtKind::PayloadSet { target, value });
            }
            vm::Expr::Meta(e) => self.registers.set(e.dreg, selector(Key::Meta { key: e.key })),
            vm::Expr::MetaSet(e) => {
                let mut expr = self.registers.get(e.sreg)?;
                let value = keys::meta(e.key).value;
                set_type(&mut expr, &Type::Base(value.dtype), value.order);
                self.push(StmtKind::MetaSet { key: e.key, expr });
            }
            vm::Expr::Cmp(e) => {
                let bytes = e.data.bytes();
                let bits = bytes.len() as u32 * 8;
                let left = self.registers.get_long(e.sreg, bits)?;
                let right = if let ExprKind::Concat(parts) = &left.kind {
                    fields::split_concat(parts, bytes)
                } else {
                    constant(bytes)
                };
                self.matching(relation(e.op), left, right);
            }
            vm::Expr::Range(e) => {
                let from = e.from.bytes();
                let left = self.registers.get_long(e.sreg, from.len() as u32 * 8)?;
                let range = ExprKind::Range {
                    left: Box::new(constant(from)),
                    right: Box::new(constant(e.to.bytes())),
                };
                self.matching(relation(e.op), left, raw(range, from.len() as u32 * 8));
            }
            vm::Expr::Bitwise(e) => {
                let left = self.registers.get_long(e.sreg, e.len * 8)?;
                let result = match &e.op {
                    BitwiseOp::MaskXor { mask, xor } => mask_xor(left, mask.bytes(), xor.bytes()),
                    BitwiseOp::Lshift(bits) => shift(BinOp::Lshift, left, *bits),
                    BitwiseOp::Rshift(bits) => shift(BinOp::Rshift, left, *bits),
                    BitwiseOp::Combine(op, sreg2) => {
                        let op = match op {
                            BoolOp::And => BinOp::And,
                            BoolOp::Or => BinOp::Or,
                            BoolOp::Xor => BinOp::Xor,
                        };
                        binop(op, left, self.registers.get_long(*sreg2, e.len * 8)?)
                    }
                };
                self.registers.set(e.dreg, result);
            }
            vm::Expr::Byteorder(e) => {
                let arg = self.registers.get_long(e.sreg, e.len * 8)?;
                let op = match e.op {
                    ByteorderOp::Ntoh => UnaryOp::Ntoh,
                    ByteorderOp::Hton => UnaryOp::Hton,
                };
                let len = arg.len;
                self.registers.set(e.dreg, raw(ExprKind::Unary { op, expr: Box::new(arg) }, len));
            }
            vm::Expr::Lookup(e) => self.lookup(e)?,
            vm::Expr::Dynset(e) => self.dynset(e)?,
            vm::Expr::Counter(e) => {
                self.push(StmtKind::Counter { packets: e.packets, bytes: e.bytes })
            }
            vm::Expr::Limit(e) => self.push(StmtKind::Limit(limit(e))),
            vm::Expr::Quota(e) => {
                self.push(StmtKind::Quota { bytes: e.bytes, used: e.consumed, over: e.over });
            }
            vm::Expr::Last(e) => self.push(StmtKind::Last { set: e.set, msecs: e.msecs }),
            vm::Expr::Connlimit(e) => self.push(StmtKind::CtCount { count: e.count, over: e.over }),
            vm::Expr::Objref(e) => self.objref(e)?,
            vm::Expr::Log(e) => self.log(e),
            vm::Expr::Exthdr(e) => {
                let exthdr = fields::raw_exthdr(e.op, e.kind, e.offset * 8, e.len * 8, e.present);
                self.registers.set(e.dreg, exthdr);
            }
            vm::Expr::ExthdrSet(e) => {
                let mut value = self.registers.get_long(e.sreg, e.len * 8)?;
                let target = fields::raw_exthdr(e.op, e.kind, e.offset * 8, e.len * 8, false);
                set_type(&mut value, &target.dtype, target.order);
                self.push(StmtKind::ExthdrSet { target, value });
            }
            vm::Expr::ExthdrReset(e) => {
                let exthdr = Exthdr {
                    op: e.op,
                    desc: None,
                    field: None,
                    raw_type: e.kind,
                    offset: 0,
                    present: true,
                    raw: false,
                };
                self.push(StmtKind::ExthdrReset { target: raw(ExprKind::Exthdr(exthdr), 8) });
            }
            vm::Expr::Numgen(e) => {
                let key = Key::Numgen { mode: e.mode, modulus: e.modulus, offset: e.offset };
                self.registers.set(e.dreg, selector(key));
            }
            vm::Expr::Hash(Hash::Jenkins { sreg, len, seed, modulus, offset, dreg }) => {
                let arg = self.registers.get_long(*sreg, len * 8)?;
                let kind = ExprKind::Hash {
                    expr: Box::new(arg),
                    modulus: *modulus,
                    seed: *seed,
                    offset: *offset,
                };
                self.registers.set(*dreg, integer(kind, ByteOrder::Host));
            }
            vm::Expr::Hash(Hash::Sym { modulus, offset, dreg }) => {
                let key = Key::Symhash { modulus: *modulus, offset: *offset };
                self.registers.set(*dreg, selector(key));
            }
            vm::Expr::Fib(e) => {
                let mut value = keys::fib(e.result).value;
                if e.flags & FIB_PRESENT != 0 && e.result == FibResult::Oif {
                    value.dtype = DataType::Boolean;
                }
                let key = Key::Fib { flags: e.flags, result: e.result };
                self.registers.set(e.dreg, keyed(key, value));
            }
            vm::Expr::Rt(e) => {
                self.registers.set(e.dreg, selector(Key::Rt { key: e.key }));
            }
            vm::Expr::Ct(e) => {
                let key = Key::Ct { key: e.key, dir: e.dir, nfproto: 0 };
                self.registers.set(e.dreg, selector(key));
            }
            vm::Expr::CtSet(e) => {
                let value = keys::ct(e.key).value;
                let mut expr = self.registers.get(e.sreg)?;
                set_type(&mut expr, &Type::Base(value.dtype), value.order);
                self.push(StmtKind::CtSet { key: e.key, dir: e.dir, expr });
            }
            vm::Expr::Notrack(_) => self.push(StmtKind::Notrack),
            vm::Expr::Nat(e) => self.nat(e)?,
            vm::Expr::Masq(e) => {
                let port = self.ports(e.proto_min, e.proto_max)?;
                self.push(StmtKind::Nat(translation(NatKind::Masquerade, port, e.flags)));
            }
            vm::Expr::Redir(e) => {
                let port = self.ports(e.proto_min, e.proto_max)?;
                self.push(StmtKind::Nat(translation(NatKind::Redirect, port, e.flags)));
            }
            vm::Expr::Reject(e) => self.reject(e),
            vm::Expr::Dup(e) => {
                let dev = self.device(e.dev);
                let to = match e.addr {
                    Some(reg) => Some(self.address(reg, 0)?),
                    None => None,
                };
                let (to, dev) = if to.is_none() { (dev, None) } else { (to, dev) };
                self.push(StmtKind::Dup { to, dev });
            }
            vm::Expr::Fwd(e) => {
                let dev = self.device(Some(e.dev))?;
                let addr = match e.addr {
                    Some(reg) => Some(self.address(reg, e.nfproto)?),
                    None => None,
                };
                self.push(StmtKind::Fwd { dev, addr, nfproto: e.nfproto });
            }
            vm::Expr::Queue(e) => self.queue(e)?,
            vm::Expr::Tproxy(e) => {
                let addr = match e.addr {
                    Some(reg) => Some(self.address(reg, e.family)?),
                    None => None,
                };
                let port = self.ports(e.port, None)?;
                // Where the table has one family, it goes without saying.
                let family = (self.family() == Family::Inet && e.family != 0).then_some(e.family);
                self.push(StmtKind::Tproxy { family, addr, port });
            }
            vm::Expr::Synproxy(e) => {
                self.push(StmtKind::Synproxy { mss: e.mss, wscale: e.wscale, flags: e.flags });
            }
            vm::Expr::Socket(e) => {
                let key = Key::Socket { key: e.key, level: e.level };
                self.registers.set(e.dreg, selector(key));
            }
            vm::Expr::Osf(e) => {
                let key = Key::Osf { ttl: e.ttl, version: e.version };
                self.registers.set(e.dreg, selector(key));
            }
            vm::Expr::Xfrm(e) => {
                let key = Key::Xfrm { key: e.key, out: e.out, spnum: e.spnum };
                self.registers.set(e.dreg, selector(key));
            }
            vm::Expr::Tunnel(e) => {
                self.registers.set(e.dreg, selector(Key::Tunnel { key: e.key }));
            }
            vm::Expr::Inner(e) => {
                let tunnel = tunnel::of_kind(e.kind)?;
                match &*e.expr {
                    vm::Expr::Payload(load) => {
                        let bits =
                            fields::inner_payload(tunnel, load.base, load.offset * 8, load.len * 8);
                        self.registers.set(load.dreg, bits);
                    }
                    vm::Expr::Meta(load) => {
                        self.registers.set(load.dreg, fields::inner_meta(tunnel, load.key)?);
                    }
                    _ => return None,
                }
            }
            vm::Expr::FlowOffload(e) => {
                self.push(StmtKind::FlowOffload { table: e.flowtable.clone() })
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

    fn verdict(&mut self, verdict: &Verdict) {
        if let Verdict::Jump(name) | Verdict::Goto(name) = verdict
            && let Some(chain) = self.delinearizer.find_chain(name).filter(|c| c.anonymous)
        {
            let goto = matches!(verdict, Verdict::Goto(_));
            let rules = chain.rules.iter().map(|rule| self.delinearizer.rule(rule)).collect();
            let block = penstock_syntax::ast::RuleBlock { rules, ..Default::default() };
            self.push(StmtKind::Chain { goto, block });
            return;
        }
        self.push(StmtKind::Verdict(verdict_expr(verdict)));
    }

    fn lookup(&mut self, e: &vm::Lookup) -> Option<()> {
        let set = self.delinearizer.find_set(&e.set)?;
        let key = self.delinearizer.key_type(set)?;
        let left = self.registers.get_long(e.sreg, key.len())?;
        let mappings = self.delinearizer.set_operand(set);
        match e.dreg {
            None => {
                let op = if e.inverse { RelOp::Neq } else { RelOp::Eq };
                self.matching(op, left, mappings);
            }
            Some(dreg) => {
                let map = self.map(left, set, mappings);
                if dreg == Register::VERDICT {
                    self.push(StmtKind::Verdict(map));
                } else {
                    self.registers.set(dreg, map);
                }
            }
        }
        Some(())
    }

    /// A map expression with the type of the map's data.
    fn map(&self, key: Expr, set: &penstock_ruleset::Set, mappings: Expr) -> Expr {
        let kind = ExprKind::Map { key: Box::new(key), mappings: Box::new(mappings) };
        match (set.data, self.delinearizer.data_type(set)) {
            (Some(MapData::Value { .. }), Some((data, _))) => {
                let order = data.order();
                let len = data.len();
                Expr::typed(kind, Loc::default(), data.dtype, order, len)
            }
            (Some(MapData::Verdict), _) => {
                Expr::typed(kind, Loc::default(), Type::Base(DataType::Verdict), ByteOrder::Host, 0)
            }
            _ => raw(kind, 0),
        }
    }

    fn dynset(&mut self, e: &vm::Dynset) -> Option<()> {
        let set = self.delinearizer.find_set(&e.set)?;
        let key_type = self.delinearizer.key_type(set)?;
        let mut key = self.registers.get_long(e.sreg_key, key_type.len())?;
        fields::set_types(&mut key, &key_type);
        let key = raw(
            ExprKind::SetElem(Box::new(SetElem {
                key,
                timeout: (e.timeout != 0).then_some(e.timeout),
                expires: None,
                comment: None,
                stmts: Vec::new(),
            })),
            key_type.len(),
        );
        // Of a set whose elements carry statements anyway the kernel does not tell them.
        let exprs = if set.exprs.is_empty() { &*e.exprs } else { &[] };
        let mut stmts = statements(self.delinearizer, exprs);
        let target = raw(ExprKind::SetRef { set: e.set.clone() }, 0);
        if let Some(sreg) = e.sreg_data {
            let (data_type, _) = self.delinearizer.data_type(set)?;
            let mut data = self.registers.get_long(sreg, data_type.len())?;
            fields::set_types(&mut data, &data_type);
            self.push(StmtKind::MapUpdate { op: e.op, map: target, key, data, stmts });
        } else if set.anonymous && !stmts.is_empty() {
            let size = set.description.size.unwrap_or(0);
            let stmt = Box::new(stmts.swap_remove(0));
            self.push(StmtKind::Meter { name: e.set.clone(), size, key, stmt });
        } else {
            self.push(StmtKind::SetUpdate { op: e.op, set: target, key, stmts });
        }
        Some(())
    }

    fn objref(&mut self, e: &Objref) -> Option<()> {
        match e {
            Objref::Named { kind, name } => {
                let expr = raw(ExprKind::String(name.clone()), 0);
                self.push(StmtKind::ObjRef { kind: *kind, expr });
            }
            Objref::Map { sreg, set } => {
                let set = self.delinearizer.find_set(set)?;
                let Some(MapData::Object(kind)) = set.data else { return None };
                let key = self.delinearizer.key_type(set)?;
                let left = self.registers.get_long(*sreg, key.len())?;
                let mappings = self.delinearizer.set_operand(set);
                let expr = self.map(left, set, mappings);
                self.push(StmtKind::ObjRef { kind, expr });
            }
        }
        Some(())
    }

    fn log(&mut self, e: &vm::Log) {
        self.push(StmtKind::Log(Log {
            prefix: e.prefix.as_ref().map(|p| raw(ExprKind::String(p.clone()), 0)),
            group: e.group,
            snaplen: e.snaplen.filter(|n| *n != 0),
            queue_threshold: e.queue_threshold.filter(|n| *n != 0),
            level: e.level,
            flags: e.flags.unwrap_or(0),
        }));
    }

    /// One port or a range of them.
    fn ports(&mut self, min: Option<Register>, max: Option<Register>) -> Option<Option<Expr>> {
        let Some(min) = min else { return Some(None) };
        let service = Type::Base(DataType::InetService);
        let mut port = self.registers.get(min)?;
        set_type(&mut port, &service, ByteOrder::Big);
        let Some(max) = max.filter(|max| *max != min) else { return Some(Some(port)) };
        let Some(mut last) = self.registers.get(max) else { return Some(Some(port)) };
        set_type(&mut last, &service, ByteOrder::Big);
        let len = port.len;
        let range = ExprKind::Range { left: Box::new(port), right: Box::new(last) };
        Some(Some(Expr::typed(range, Loc::default(), service, ByteOrder::Big, len)))
    }

    /// An address of a family (2, 10, or the table's for 0).
    fn address(&mut self, reg: Register, family: u8) -> Option<Expr> {
        let family = if family != 0 { family } else { self.family() as u8 };
        let (dtype, bits) =
            if family == 10 { (DataType::Ip6Addr, 128) } else { (DataType::IpAddr, 32) };
        let mut addr = self.registers.get_long(reg, bits)?;
        set_type(&mut addr, &Type::Base(dtype), ByteOrder::Big);
        Some(addr)
    }

    fn device(&mut self, reg: Option<Register>) -> Option<Expr> {
        let mut dev = self.registers.get(reg?)?;
        set_type(&mut dev, &Type::Base(DataType::IfIndex), ByteOrder::Host);
        Some(dev)
    }

    fn nat(&mut self, e: &vm::Nat) -> Option<()> {
        let kind = NatKind::Nat(e.kind);
        let mut nat = translation(kind, None, e.flags & !(NETMAP));
        nat.prefix = e.flags & NETMAP != 0;
        // Where the table has one family, it goes without saying.
        nat.family = if self.family() == Family::Inet { e.family } else { 0 };
        if let Some(min) = e.addr_min {
            let mut addr = self.address(min, e.family)?;
            if matches!(addr.kind, ExprKind::Map { .. }) {
                // The map gives all that is needed, ports and ends of ranges included.
                nat.family = e.family;
                nat.concat = e.proto_min.is_some();
                nat.interval = e.addr_max.is_some_and(|max| max != min);
                nat.addr = Some(addr);
                if nat.concat && self.port_is_apart(e) {
                    nat.concat = false;
                    nat.port = self.ports(e.proto_min, e.proto_max)?;
                }
                if self.family() != Family::Inet && !nat.prefix && !nat.interval && !nat.concat {
                    nat.family = 0;
                }
                self.push(StmtKind::Nat(nat));
                return Some(());
            }
            if let Some(max) = e.addr_max.filter(|max| *max != min) {
                let last = self.address(max, e.family)?;
                let (dtype, len) = (addr.dtype.clone(), addr.len);
                let range = ExprKind::Range { left: Box::new(addr), right: Box::new(last) };
                addr = Expr::typed(range, Loc::default(), dtype, ByteOrder::Big, len);
                fields::range_to_prefix(&mut addr);
            }
            nat.addr = Some(addr);
        }
        nat.port = self.ports(e.proto_min, e.proto_max)?;
        self.push(StmtKind::Nat(nat));
        Some(())
    }

    /// Whether the port comes from a register of its own rather than from the map that gives the
    /// address.
    fn port_is_apart(&self, e: &vm::Nat) -> bool {
        e.proto_min.is_some_and(|reg| self.registers.get(reg).is_some())
    }

    fn reject(&mut self, e: &vm::Reject) {
        let code = raw(ExprKind::Value(e.code.into()), 8);
        let expr = (e.kind != RejectType::TcpRst).then_some(code);
        self.push(StmtKind::Reject(Reject { kind: Some(e.kind), family: 0, expr, code: e.code }));
    }

    fn queue(&mut self, e: &vm::Queue) -> Option<()> {
        let expr = match e.sreg {
            Some(reg) => {
                let mut expr = self.registers.get(reg)?;
                set_type(&mut expr, &Type::Base(DataType::Integer), ByteOrder::Host);
                expr
            }
            None => {
                let number = |n: u16| {
                    let kind = ExprKind::Value(n.into());
                    let dtype = Type::Base(DataType::Integer);
                    Expr::typed(kind, Loc::default(), dtype, ByteOrder::Big, 16)
                };
                let first = number(e.num);
                match e.total {
                    0 | 1 => first,
                    total => {
                        let last = number(e.num.saturating_add(total - 1));
                        raw(ExprKind::Range { left: Box::new(first), right: Box::new(last) }, 16)
                    }
                }
            }
        };
        self.push(StmtKind::Queue { expr: Some(expr), bypass: e.bypass, fanout: e.fanout });
        Some(())
    }
}

/// `NFTA_FIB_F_PRESENT`.
const FIB_PRESENT: u32 = 32;
/// `NF_NAT_RANGE_NETMAP`.
const NETMAP: u32 = 1 << 6;

fn translation(kind: NatKind, port: Option<Expr>, flags: u32) -> Nat {
    Nat { kind, family: 0, addr: None, port, flags, interval: false, concat: false, prefix: false }
}

fn integer(kind: ExprKind, order: ByteOrder) -> Expr {
    Expr::typed(kind, Loc::default(), Type::Base(DataType::Integer), order, 32)
}

pub(super) fn limit(e: &vm::Limit) -> Limit {
    Limit { rate: e.rate, unit: e.unit, kind: e.kind, burst: e.burst, over: e.over }
}

/// A verdict as an expression.
pub(super) fn verdict_expr(verdict: &Verdict) -> Expr {
    let chain = |name: &Arc<str>| Box::new(raw(ExprKind::String(name.clone()), 0));
    let verdict = match verdict {
        Verdict::Drop => VerdictExpr::Drop,
        Verdict::Accept => VerdictExpr::Accept,
        Verdict::Queue => VerdictExpr::Queue,
        Verdict::Continue => VerdictExpr::Continue,
        Verdict::Break => VerdictExpr::Break,
        Verdict::Jump(name) => VerdictExpr::Jump(chain(name)),
        Verdict::Goto(name) => VerdictExpr::Goto(chain(name)),
        Verdict::Return => VerdictExpr::Return,
    };
    let dtype = Type::Base(DataType::Verdict);
    Expr::typed(ExprKind::Verdict(verdict), Loc::default(), dtype, ByteOrder::Invalid, 0)
}

fn relation(op: CmpOp) -> RelOp {
    match op {
        CmpOp::Eq => RelOp::Eq,
        CmpOp::Neq => RelOp::Neq,
        CmpOp::Lt => RelOp::Lt,
        CmpOp::Lte => RelOp::Lte,
        CmpOp::Gt => RelOp::Gt,
        CmpOp::Gte => RelOp::Gte,
    }
}

fn binop(op: BinOp, left: Expr, right: Expr) -> Expr {
    let len = left.len;
    raw(ExprKind::Binop { op, left: Box::new(left), right: Box::new(right) }, len)
}

fn shift(op: BinOp, left: Expr, bits: u32) -> Expr {
    let amount = Expr::typed(
        ExprKind::Value(bits.into()),
        Loc::default(),
        Type::Base(DataType::Integer),
        ByteOrder::Big,
        32,
    );
    binop(op, left, amount)
}

/// `(left & mask) ^ xor` as the operators that it came from: bits that the mask clears and xor sets
/// were an `or`.
fn mask_xor(left: Expr, mask: &[u8], xor: &[u8]) -> Expr {
    let width = mask.len().min(xor.len());
    let (mask, xor) = (&mask[..width], &xor[..width]);
    let or: Vec<u8> = mask.iter().zip(xor).map(|(m, x)| !m & x).collect();
    let xor: Vec<u8> = mask.iter().zip(xor).map(|(m, x)| m & x).collect();
    let mask: Vec<u8> = mask.iter().zip(&or).map(|(m, o)| m | o).collect();
    let any = |bytes: &[u8]| bytes.iter().any(|b| *b != 0);
    let mut expr = left;
    if mask.iter().any(|b| *b != 0xff) {
        expr = binop(BinOp::And, expr, constant(&mask));
    }
    if any(&xor) {
        expr = binop(BinOp::Xor, expr, constant(&xor));
    }
    if any(&or) {
        expr = binop(BinOp::Or, expr, constant(&or));
    }
    expr
}
