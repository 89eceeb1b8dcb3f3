// SPDX-License-Identifier: Apache-2.0

//! Expressions to VM expressions.

use penstock_program::expr::{
    Bitwise, BitwiseOp, BoolOp, Byteorder, ByteorderOp, Cmp, CmpOp, Expr as Op, Exthdr, Hash,
    Immediate, ImmediateData, Inner, Lookup, Meta, Payload, Range,
};
use penstock_program::{Data, Register, Verdict};
use penstock_syntax::ast::expr::{self as ast, BinOp, RelOp, UnaryOp, VerdictExpr};
use penstock_syntax::ast::{Expr, ExprKind};
use penstock_syntax::bits::{bitmask, prefixmask};
use penstock_syntax::datatype::{Base, ByteOrder};
use penstock_syntax::proto::tunnel;
use penstock_syntax::source::Loc;

use crate::cache::DataKind;
use crate::key_type::Field;
use crate::lower::{Program, register};

/// Bytes of so many bits.
pub(crate) fn bytes_of(bits: u32) -> u32 {
    bits.div_ceil(8)
}

/// A number as bytes of a register.
pub(crate) fn export(value: u128, order: ByteOrder, bytes: u32) -> Vec<u8> {
    let bytes = bytes.min(16) as usize;
    match order {
        ByteOrder::Big => value.to_be_bytes()[16 - bytes..].to_vec(),
        ByteOrder::Host | ByteOrder::Invalid => value.to_le_bytes()[..bytes].to_vec(),
    }
}

/// A constant, padded to whole words where it is a concatenation.
pub(crate) fn constant_bytes(e: &Expr) -> Vec<u8> {
    match &e.kind {
        ExprKind::Value(value) => export(*value, e.order, bytes_of(e.len)),
        ExprKind::String(text) => text.as_bytes().to_vec(),
        ExprKind::Concat(parts) => {
            let mut out = Vec::new();
            for part in parts {
                out.extend(constant_bytes(part));
                out.resize(out.len().next_multiple_of(4), 0);
            }
            out
        }
        ExprKind::Prefix { base, .. } => constant_bytes(base),
        ExprKind::Symbol { .. }
        | ExprKind::Variable { .. }
        | ExprKind::Verdict(_)
        | ExprKind::Range { .. }
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
        | ExprKind::FlagCmp { .. } => Vec::new(),
    }
}

/// A verdict as the VM has it.
pub(crate) fn verdict(v: &VerdictExpr) -> Verdict {
    let chain = |e: &Expr| e.text().cloned().unwrap_or_default();
    match v {
        VerdictExpr::Accept => Verdict::Accept,
        VerdictExpr::Drop => Verdict::Drop,
        VerdictExpr::Queue => Verdict::Queue,
        VerdictExpr::Continue => Verdict::Continue,
        VerdictExpr::Break => Verdict::Break,
        VerdictExpr::Return => Verdict::Return,
        VerdictExpr::Jump(e) => Verdict::Jump(chain(e)),
        VerdictExpr::Goto(e) => Verdict::Goto(chain(e)),
    }
}

fn cmp_op(op: RelOp) -> CmpOp {
    match op {
        RelOp::Implicit | RelOp::Eq | RelOp::Neg => CmpOp::Eq,
        RelOp::Neq => CmpOp::Neq,
        RelOp::Lt => CmpOp::Lt,
        RelOp::Lte => CmpOp::Lte,
        RelOp::Gt => CmpOp::Gt,
        RelOp::Gte => CmpOp::Gte,
    }
}

/// The load of `bits` of a packet, from inside of a tunnel if the field is there.
fn payload(p: &ast::Payload, bits: u32, dreg: Register) -> Op {
    let load = match p.field.and_then(|f| f.meta) {
        Some(key) => Op::Meta(Meta { key, dreg }),
        None => {
            let (offset, len) = (p.offset / 8, bytes_of(bits));
            Op::Payload(Payload { base: p.base, offset, len, dreg })
        }
    };
    match p.tunnel().and_then(tunnel::layout) {
        Some((kind, hdrsize, flags)) => {
            Op::Inner(Inner { kind, hdrsize, flags, expr: Box::new(load) })
        }
        None => load,
    }
}

impl Program<'_, '_> {
    fn push(&mut self, op: Op) {
        self.ops.push(op);
    }

    /// Loads an expression into the register at a slot. What is refused of it points at it, not at
    /// its statement.
    pub(crate) fn load(&mut self, e: &Expr, slot: usize) {
        self.load_value(e, slot);
        if e.loc != Loc::default() {
            self.places.resize(self.ops.len().max(self.places.len()), e.loc);
        }
    }

    fn load_value(&mut self, e: &Expr, slot: usize) {
        let dreg = register(slot);
        match &e.kind {
            ExprKind::Value(_) | ExprKind::String(_) => {
                let data = ImmediateData::Value(constant_bytes(e).into());
                self.push(Op::Immediate(Immediate { dreg, data }));
            }
            ExprKind::Concat(parts) => {
                let mut slot = slot;
                for part in parts {
                    self.load(part, slot);
                    slot += part.len.div_ceil(32) as usize;
                }
            }
            ExprKind::Payload(p) => self.push(payload(p, e.len, dreg)),
            ExprKind::Exthdr(x) => {
                let len = if x.present { 1 } else { bytes_of(e.len) };
                self.push(Op::Exthdr(Exthdr {
                    op: x.op,
                    kind: x.raw_type,
                    offset: x.offset / 8,
                    len,
                    present: x.present,
                    dreg,
                }));
            }
            ExprKind::Key(key) => self.load_selector(key, dreg),
            ExprKind::Hash { expr, modulus, seed, offset } => {
                let source = self.take(expr);
                self.load(expr, source);
                self.release(source);
                let sreg = register(source);
                self.push(Op::Hash(Hash::Jenkins {
                    sreg,
                    len: bytes_of(expr.len),
                    seed: *seed,
                    modulus: *modulus,
                    offset: *offset,
                    dreg,
                }));
            }
            ExprKind::Unary { op, expr } => {
                self.load(expr, slot);
                let len = bytes_of(expr.len);
                let size = match expr.len {
                    bits if bits.is_multiple_of(64) => 8,
                    bits if bits.is_multiple_of(32) => 4,
                    _ => 2,
                };
                let op = match op {
                    UnaryOp::Hton => ByteorderOp::Hton,
                    UnaryOp::Ntoh => ByteorderOp::Ntoh,
                };
                self.push(Op::Byteorder(Byteorder { op, sreg: dreg, dreg, len, size }));
            }
            ExprKind::Binop { op, left, right } => self.load_binop(e, *op, left, right, slot),
            ExprKind::Map { key, mappings } => self.load_map(key, mappings, Some(slot)),
            ExprKind::Symbol { .. }
            | ExprKind::Variable { .. }
            | ExprKind::Verdict(_)
            | ExprKind::Prefix { .. }
            | ExprKind::Range { .. }
            | ExprKind::List(_)
            | ExprKind::Set { .. }
            | ExprKind::SetElem(_)
            | ExprKind::CatchAll
            | ExprKind::Mapping { .. }
            | ExprKind::SetRef { .. }
            | ExprKind::Relational { .. }
            | ExprKind::FlagCmp { .. } => {}
        }
    }

    /// A shift, a combination of two registers, or operators with constants.
    fn load_binop(&mut self, e: &Expr, op: BinOp, left: &Expr, right: &Expr, slot: usize) {
        let bits = right.value().unwrap_or(0) as u32;
        let combine = match op {
            BinOp::Lshift => return self.load_shifted(left, BitwiseOp::Lshift(bits), e.len, slot),
            BinOp::Rshift => return self.load_shifted(left, BitwiseOp::Rshift(bits), e.len, slot),
            _ if right.constant => return self.load_masked(e, slot),
            BinOp::And => BoolOp::And,
            BinOp::Or => BoolOp::Or,
            BinOp::Xor => BoolOp::Xor,
        };
        self.load(left, slot);
        let second = self.take(right);
        self.load(right, second);
        self.release(second);
        let op = BitwiseOp::Combine(combine, register(second));
        let (sreg, dreg) = (register(slot), register(slot));
        self.push(Op::Bitwise(Bitwise { sreg, dreg, len: bytes_of(e.len), op }));
    }

    /// `bits` is the length of the result.
    fn load_shifted(&mut self, left: &Expr, op: BitwiseOp, bits: u32, slot: usize) {
        self.load(left, slot);
        let (sreg, dreg) = (register(slot), register(slot));
        self.push(Op::Bitwise(Bitwise { sreg, dreg, len: bytes_of(bits), op }));
    }

    /// A chain of `&`, `|` and `^` is one mask and one exclusive or.
    fn load_masked(&mut self, e: &Expr, slot: usize) {
        let mut chain = Vec::new();
        let mut source = e;
        while let ExprKind::Binop { op: op @ (BinOp::And | BinOp::Or | BinOp::Xor), left, right } =
            &source.kind
            && right.constant
        {
            chain.push((*op, right.value().unwrap_or(0)));
            source = left;
        }
        self.load(source, slot);
        let all = bitmask(e.len);
        let (mut mask, mut xor) = (all, 0);
        for (op, value) in chain.into_iter().rev() {
            let (m, x) = match op {
                BinOp::And => (value, 0),
                BinOp::Or => (!value & all, value),
                _ => (all, value),
            };
            xor = (xor & m) ^ x;
            mask &= m;
        }
        self.mask(slot, mask, xor, e.order, bytes_of(e.len));
    }

    fn mask(&mut self, slot: usize, mask: u128, xor: u128, order: ByteOrder, len: u32) {
        let data = |v| Data::from(export(v, order, len));
        self.push(Op::Bitwise(Bitwise {
            sreg: register(slot),
            dreg: register(slot),
            len,
            op: BitwiseOp::MaskXor { mask: data(mask), xor: data(xor) },
        }));
    }

    /// Looks a key up; what the map holds goes to the slot, or decides (`None`).
    pub(crate) fn load_map(&mut self, key: &Expr, mappings: &Expr, slot: Option<usize>) {
        let ExprKind::SetRef { set } = &mappings.kind else { return };
        let source = match slot {
            Some(slot) => slot,
            None => self.take(key),
        };
        self.load(key, source);
        if slot.is_none() {
            self.release(source);
        }
        let verdict = self.set(set).is_some_and(|s| s.data == Some(DataKind::Verdict));
        let dreg = match slot {
            Some(slot) if !verdict => register(slot),
            _ => Register::VERDICT,
        };
        self.push(Op::Lookup(Lookup {
            set: set.clone(),
            sreg: register(source),
            dreg: Some(dreg),
            inverse: false,
        }));
    }

    /// A match.
    pub(crate) fn relational(&mut self, op: RelOp, left: &Expr, right: &Expr) {
        let slot = self.take(left);
        match &right.kind {
            ExprKind::SetRef { set } => {
                self.load(left, slot);
                let inverse = op == RelOp::Neq;
                self.push(Op::Lookup(Lookup {
                    set: set.clone(),
                    sreg: register(slot),
                    dreg: None,
                    inverse,
                }));
            }
            ExprKind::Range { left: from, right: to } => {
                self.load(left, slot);
                let (from, to) = (Data::from(constant_bytes(from)), Data::from(constant_bytes(to)));
                let sreg = register(slot);
                if op == RelOp::Neq {
                    self.push(Op::Range(Range { op: CmpOp::Neq, sreg, from, to }));
                } else {
                    self.push(Op::Cmp(Cmp { op: CmpOp::Gte, sreg, data: from }));
                    self.push(Op::Cmp(Cmp { op: CmpOp::Lte, sreg, data: to }));
                }
            }
            // A prefix that ends on a byte is a shorter comparison, others are masked.
            ExprKind::Prefix { base, len } => {
                let masked = right.base() != Base::String
                    && (right.order == ByteOrder::Host || *len == 0 || !len.is_multiple_of(8));
                let mut data = constant_bytes(base);
                if masked {
                    self.load(left, slot);
                    let mask = prefixmask(right.len, *len);
                    self.mask(slot, mask, 0, right.order, bytes_of(right.len));
                } else {
                    data.truncate(bytes_of(*len) as usize);
                    self.load_prefix(left, *len, slot);
                }
                let data = data.into();
                self.push(Op::Cmp(Cmp { op: cmp_op(op), sreg: register(slot), data }));
            }
            _ if op == RelOp::Neg
                || op == RelOp::Implicit
                    && right.base() == Base::Bitmask
                    && !matches!(left.kind, ExprKind::Binop { .. }) =>
            {
                self.load(left, slot);
                let len = bytes_of(left.len);
                self.mask(slot, right.value().unwrap_or(0), 0, left.order, len);
                let op = if op == RelOp::Neg { CmpOp::Eq } else { CmpOp::Neq };
                let data = vec![0; len as usize].into();
                self.push(Op::Cmp(Cmp { op, sreg: register(slot), data }));
            }
            _ => {
                self.load(left, slot);
                let data = constant_bytes(right).into();
                self.push(Op::Cmp(Cmp { op: cmp_op(op), sreg: register(slot), data }));
            }
        }
        self.release(slot);
    }

    /// Loads what a prefix of `bits` is compared with. Only as much of a packet is loaded.
    fn load_prefix(&mut self, left: &Expr, bits: u32, slot: usize) {
        if let ExprKind::Payload(_) = left.kind {
            let mut shorter = left.clone();
            shorter.len = bits;
            self.load(&shorter, slot);
        } else {
            self.load(left, slot);
        }
    }
}

/// A constant as one field of a key, in the key's byte order.
pub(crate) fn field_bytes(value: u128, field: &Field) -> Vec<u8> {
    export(value, field.order, bytes_of(field.len))
}
