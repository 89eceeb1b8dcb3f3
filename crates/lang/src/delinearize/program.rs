// SPDX-License-Identifier: Apache-2.0

//! First pass: VM expressions to raw statements.

use std::sync::Arc;

use penstock_program::expr::{
    self as vm, BitwiseOp, BoolOp, ByteorderOp, CmpOp, FibResult, Hash, ImmediateData,
};
use penstock_program::{Register, Verdict};
use penstock_ruleset::Family;
use penstock_ruleset::model::MapData;
use penstock_syntax::ast::expr::{BinOp, RelOp, UnaryOp, VerdictExpr};
use penstock_syntax::ast::stmt::Limit;
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
pub(crate) struct Registers {
    slots: [Option<Expr>; SLOTS],
}

impl Registers {
    pub(crate) fn set(&mut self, reg: Register, expr: Expr) {
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

    pub(crate) fn get(&self, reg: Register) -> Option<Expr> {
        self.slots.get(reg.slot()?)?.clone()
    }

    /// What `bits` from a register on hold: one expression, or a concatenation of several.
    pub(crate) fn get_long(&self, reg: Register, bits: u32) -> Option<Expr> {
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

pub(crate) struct Reader<'a, 'd> {
    pub(crate) delinearizer: &'d Delinearizer<'a>,
    pub(crate) registers: Registers,
    stmts: Vec<Stmt>,
}

/// Raw statements of a program. What refers to a register that nothing was loaded into is left out:
/// the verifier lets no such program in.
pub(crate) fn statements(delinearizer: &Delinearizer<'_>, program: &[vm::Expr]) -> Vec<Stmt> {
    let mut reader = Reader { delinearizer, registers: Registers::default(), stmts: Vec::new() };
    for expr in program {
        // An absent operand ends this expression only.
        let _ = reader.expr(expr);
    }
    reader.stmts
}

impl Reader<'_, '_> {
    pub(crate) fn push(&mut self, kind: StmtKind) {
        self.stmts.push(stmt(kind));
    }

    pub(crate) fn family(&self) -> Family {
        self.delinearizer.table.family
    }

    fn matching(&mut self, op: RelOp, left: Expr, right: Expr) {
        let relational = ExprKind::Relational { op, left: Box::new(left), right: Box::new(right) };
        self.push(StmtKind::Match(raw(relational, 1)));
    }

    /// Notes what a register holds.
    pub(crate) fn selector(&mut self, dreg: Register, key: Key) {
        self.registers.set(dreg, keyed(key, key.value_type()));
    }

    /// Presence of an interface's index is a truth value here, of other results it is not.
    pub(crate) fn fib(&mut self, e: &vm::Fib) {
        let mut value = keys::fib(e.result).value;
        if e.flags & FIB_PRESENT != 0 && e.result == FibResult::Oif {
            value.dtype = DataType::Boolean;
        }
        self.registers.set(e.dreg, keyed(Key::Fib { flags: e.flags, result: e.result }, value));
    }

    pub(crate) fn immediate(&mut self, e: &vm::Immediate) {
        match &e.data {
            ImmediateData::Verdict(verdict) => self.verdict(verdict),
            ImmediateData::Value(data) => self.registers.set(e.dreg, constant(data.bytes())),
        }
    }

    pub(crate) fn cmp(&mut self, e: &vm::Cmp) -> Option<()> {
        let bytes = e.data.bytes();
        let bits = bytes.len() as u32 * 8;
        let left = self.registers.get_long(e.sreg, bits)?;
        let right = if let ExprKind::Concat(parts) = &left.kind {
            fields::split_concat(parts, bytes)
        } else {
            constant(bytes)
        };
        self.matching(relation(e.op), left, right);
        Some(())
    }

    pub(crate) fn range(&mut self, e: &vm::Range) -> Option<()> {
        let from = e.from.bytes();
        let left = self.registers.get_long(e.sreg, from.len() as u32 * 8)?;
        let range = ExprKind::Range {
            left: Box::new(constant(from)),
            right: Box::new(constant(e.to.bytes())),
        };
        self.matching(relation(e.op), left, raw(range, from.len() as u32 * 8));
        Some(())
    }

    pub(crate) fn bitwise(&mut self, e: &vm::Bitwise) -> Option<()> {
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
        Some(())
    }

    pub(crate) fn byteorder(&mut self, e: &vm::Byteorder) -> Option<()> {
        let arg = self.registers.get_long(e.sreg, e.len * 8)?;
        let op = match e.op {
            ByteorderOp::Ntoh => UnaryOp::Ntoh,
            ByteorderOp::Hton => UnaryOp::Hton,
        };
        let len = arg.len;
        self.registers.set(e.dreg, raw(ExprKind::Unary { op, expr: Box::new(arg) }, len));
        Some(())
    }

    pub(crate) fn hash(&mut self, e: &Hash) -> Option<()> {
        match e {
            Hash::Jenkins { sreg, len, seed, modulus, offset, dreg } => {
                let arg = self.registers.get_long(*sreg, len * 8)?;
                let kind = ExprKind::Hash {
                    expr: Box::new(arg),
                    modulus: *modulus,
                    seed: *seed,
                    offset: *offset,
                };
                self.registers.set(*dreg, integer(kind, ByteOrder::Host));
            }
            Hash::Sym { modulus, offset, dreg } => {
                self.selector(*dreg, Key::Symhash { modulus: *modulus, offset: *offset });
            }
        }
        Some(())
    }

    pub(crate) fn inner(&mut self, e: &vm::Inner) -> Option<()> {
        let tunnel = tunnel::of_kind(e.kind)?;
        // The kernel takes no others.
        if let vm::Expr::Payload(load) = &*e.expr {
            let bits = fields::inner_payload(tunnel, load.base, load.offset * 8, load.len * 8);
            self.registers.set(load.dreg, bits);
            return Some(());
        }
        let vm::Expr::Meta(load) = &*e.expr else { return None };
        self.registers.set(load.dreg, fields::inner_meta(tunnel, load.key)?);
        Some(())
    }

    /// An address of a family; that of the table if none is given.
    pub(crate) fn address(&mut self, reg: Register, family: Option<Family>) -> Option<Expr> {
        let family = family.unwrap_or(self.family());
        let (dtype, bits) =
            if family == Family::Ip6 { (DataType::Ip6Addr, 128) } else { (DataType::IpAddr, 32) };
        let mut addr = self.registers.get_long(reg, bits)?;
        set_type(&mut addr, &Type::Base(dtype), ByteOrder::Big);
        Some(addr)
    }

    pub(crate) fn device(&mut self, reg: Option<Register>) -> Option<Expr> {
        let mut dev = self.registers.get(reg?)?;
        set_type(&mut dev, &Type::Base(DataType::IfIndex), ByteOrder::Host);
        Some(dev)
    }

    pub(crate) fn lookup(&mut self, e: &vm::Lookup) -> Option<()> {
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
    pub(crate) fn map(&self, key: Expr, set: &penstock_ruleset::Set, mappings: Expr) -> Expr {
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

    /// One port or a range of them.
    pub(crate) fn ports(
        &mut self,
        min: Option<Register>,
        max: Option<Register>,
    ) -> Option<Option<Expr>> {
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
}

/// `NFTA_FIB_F_PRESENT`.
const FIB_PRESENT: u32 = 32;
fn integer(kind: ExprKind, order: ByteOrder) -> Expr {
    Expr::typed(kind, Loc::default(), Type::Base(DataType::Integer), order, 32)
}

pub(crate) fn limit(e: &vm::Limit) -> Limit {
    Limit { rate: e.rate, unit: e.unit, kind: e.kind, burst: e.burst, over: e.over }
}

/// A verdict as an expression.
pub(crate) fn verdict_expr(verdict: &Verdict) -> Expr {
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
