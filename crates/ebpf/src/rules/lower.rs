// SPDX-License-Identifier: Apache-2.0

//! Operations of rules.

use std::cmp::Ordering;

use penstock_program::expr::{BoolOp, CmpOp, PayloadBase};
use penstock_program::op::Op;

use super::chain::Rule;
use super::counters::CELL;
use super::exthdr_field::{Extension, TcpOption};
use super::frame::*;
use super::hash::{Jhash, Scale};
use super::words::{Word, first_bytes};
use super::{Compiler, StateRef};
use penstock_bpf::asm::{Alu, Cond, Helper, Label, Operand, Reg, Reg::*, Width};

/// Where a register word lives when it is computed.
pub(super) fn home(slot: u8) -> i16 {
    REGISTERS + i16::from(slot & 15) * 4
}

impl Compiler<'_> {
    /// The error is the reason.
    pub(super) fn op(&mut self, op: &Op, rule: &mut Rule) -> Result<(), String> {
        match op {
            Op::Immediate { dst, len, data } => {
                rule.words.set_constant(*dst, data.get(..usize::from(*len)).unwrap_or(data));
            }
            Op::Verdict(verdict) => self.verdict(verdict, rule)?,
            Op::LoadLink { dst, len, offset } => {
                self.load(PayloadBase::Link, *dst, *len, *offset, rule)?
            }
            Op::LoadNetwork { dst, len, offset } => {
                self.load(PayloadBase::Network, *dst, *len, *offset, rule)?;
            }
            Op::LoadTransport { dst, len, offset } => {
                self.load(PayloadBase::Transport, *dst, *len, *offset, rule)?;
            }
            Op::LoadInner { dst, len, offset } => {
                self.load(PayloadBase::Inner, *dst, *len, *offset, rule)?
            }
            Op::Meta { key, dst } => self.meta(*key, *dst, rule)?,
            Op::Rt { dst, .. } => self.rt(op, *dst, rule)?,
            Op::CtState { dst } | Op::Ct { dst, .. } => self.ct(op, *dst, rule)?,
            Op::Exthdr { dst, .. } => {
                let field = match (TcpOption::of(op), Extension::of(op)) {
                    (Some(option), _) => Field::TcpOption(option),
                    (None, Some(extension)) => Field::Extension(extension),
                    (None, None) => return Err(refused()),
                };
                self.field(field, *dst, rule)?;
            }
            Op::MetaSet { key, src } => self.meta_set(*key, *src, rule)?,
            Op::CmpWord { src, equal, mask, data } => {
                self.cmp_word(*src, *equal, *mask, *data, rule)
            }
            Op::Cmp { op, src, len, data } => {
                self.cmp(*op, *src, data.get(..usize::from(*len)).unwrap_or(data), rule);
            }
            Op::Range { inside, src, len, ends } => {
                let [from, to] =
                    ends.each_ref().map(|end| end.get(..usize::from(*len)).unwrap_or(end));
                let (held, out) = (self.asm.label(), self.asm.label());
                let (outside, within) = if *inside { (rule.next, held) } else { (held, rule.next) };
                self.interval(*src, from, to, out, rule);
                self.asm.jump(within);
                self.asm.bind(out);
                self.asm.jump(outside);
                self.asm.bind(held);
            }
            Op::MaskXorWord { src, dst, mask, xor } => self.mask_xor(*src, *dst, *mask, *xor, rule),
            Op::MaskXor { src, dst, words, mask_xor } => {
                let [masks, xors] = &**mask_xor;
                for (i, (mask, xor)) in (0..*words).zip(masks.iter().zip(xors)) {
                    self.mask_xor(src + i, dst + i, *mask, *xor, rule);
                }
            }
            Op::Combine { op, src, other, dst, words } => {
                for i in 0..*words {
                    self.combine(*op, [src + i, other + i, dst + i], rule);
                }
            }
            Op::Lshift { src, dst, words, bits } => self.lshift(*src, *dst, *words, *bits, rule),
            Op::Rshift { src, dst, words, bits } => self.rshift(*src, *dst, *words, *bits, rule),
            Op::Byteorder { src, dst, len, size } => self.byteorder(*src, *dst, *len, *size, rule),
            Op::NumgenRandom { modulus, offset, dst } => {
                self.random(Scale { modulus: *modulus, offset: *offset }, *dst, rule);
            }
            Op::Jhash { src, len, dst, seed, modulus, offset } => {
                let hash = Jhash { src: *src, len: *len, seed: *seed };
                self.jhash(hash, Scale { modulus: *modulus, offset: *offset }, *dst, rule);
            }
            Op::Symhash { dst, modulus, offset } => {
                self.symhash(Scale { modulus: *modulus, offset: *offset }, *dst, rule);
            }
            Op::Lookup { .. } => self.lookup(op, rule)?,
            Op::ObjectMap { src, key_len, set } => self.object(set, *src, *key_len, rule)?,
            Op::Counter(_) | Op::Stateful(_) if op.counter().is_some() => {
                self.count(op.counter().ok_or_else(refused)?)?;
            }
            Op::Stateful(_) | Op::NumgenInc { .. } => self.stateful(op, rule)?,
            Op::Log(log) => self.log(log, rule.block)?,
            Op::Reject(reject) => self.reject(reject, rule)?,
            Op::SetUpdate(update) => self.set_update(update, rule)?,
            Op::LookupDynamic { .. } => self.dynamic_lookup(op, rule)?,
            Op::Fib { dst, .. } => self.fib(op, *dst, rule)?,
            // Info::not_offloaded says why.
            _ => return Err(refused()),
        }
        Ok(())
    }

    fn load(
        &mut self,
        base: PayloadBase,
        dst: u8,
        len: u8,
        offset: u16,
        rule: &mut Rule,
    ) -> Result<(), String> {
        let base = Base::of(base, len, offset).ok_or_else(refused)?;
        self.field(Field::Bytes { base, offset, len }, dst, rule)
    }

    /// Loads a field, which the rule breaks without.
    pub(super) fn field(&mut self, field: Field, dst: u8, rule: &mut Rule) -> Result<(), String> {
        let slot = self.plan.slots.find(field).ok_or_else(refused)?;
        if let Field::Ct(_) = field {
            self.look_up_connection(rule);
        }
        let bit = slot.bit.map_or(0, |bit| 1 << bit);
        if rule.granted & bit != bit {
            self.require(slot, rule.next);
            rule.granted |= bit;
        }
        rule.words.set_at(dst, slot.at, field.len());
        Ok(())
    }

    /// A register word becomes what `reg` holds.
    pub(super) fn keep(&mut self, slot: u8, reg: Reg, bytes: u8, rule: &mut Rule) {
        self.asm.store(Width::W, R10, home(slot), reg);
        rule.words.set(slot, Word::At { at: home(slot), bytes });
    }

    /// `reg` = up to `bytes` bytes of a register word, in memory order, the rest zero.
    pub(super) fn asm_word(&mut self, reg: Reg, slot: u8, bytes: u8, rule: &Rule) {
        self.word(reg, slot, rule);
        if bytes < 4 {
            self.asm.alu32(Alu::And, reg, first_bytes(bytes) as i32);
        }
    }

    /// `reg` = a register word, in memory order.
    pub(super) fn word(&mut self, reg: Reg, slot: u8, rule: &Rule) {
        match rule.words.get(slot) {
            Word::Constant(value) => self.asm.mov32(reg, value),
            Word::At { at, .. } => self.asm.load(Width::W, reg, R10, at),
        }
    }

    /// `reg` = bytes `4 * word` to `4 * word + 4` of a key of `len` bytes as a number in their
    /// order; if the key ends in between, of its remaining bytes.
    pub(super) fn ordered(&mut self, reg: Reg, src: u8, word: u8, len: u8, rule: &Rule) {
        self.word(reg, src + word, rule);
        self.asm.swap(reg, 32);
        let missing = 4 - (len - word * 4).min(4);
        if missing > 0 {
            self.asm.alu32(Alu::Rsh, reg, i32::from(missing) * 8);
        }
    }

    /// Goes to `less` or `greater` where register bytes are before or after `constant`, on where
    /// they are equal.
    pub(super) fn compare(
        &mut self,
        src: u8,
        constant: &[u8],
        less: Label,
        greater: Label,
        rule: &Rule,
    ) {
        for (word, part) in (0..).zip(constant.chunks(4)) {
            let number = number(part) as i32;
            self.ordered(R1, src, word, constant.len() as u8, rule);
            if less == greater {
                self.asm.jump_if32(Cond::Ne, R1, number, less);
            } else {
                self.asm.jump_if32(Cond::Lt, R1, number, less);
                self.asm.jump_if32(Cond::Gt, R1, number, greater);
            }
        }
    }

    /// Goes to `out` unless register bytes are in the interval, both ends included.
    pub(super) fn interval(&mut self, src: u8, from: &[u8], to: &[u8], out: Label, rule: &Rule) {
        if let ([_, ..], true) = (from, from.len() <= 4) {
            self.ordered(R1, src, 0, from.len() as u8, rule);
            let (from, to) = (number(from), number(to));
            match from.cmp(&to) {
                Ordering::Equal => self.asm.jump_if32(Cond::Ne, R1, from as i32, out),
                Ordering::Less | Ordering::Greater => {
                    if from > 0 {
                        self.asm.jump_if32(Cond::Lt, R1, from as i32, out);
                    }
                    self.asm.jump_if32(Cond::Gt, R1, to as i32, out);
                }
            }
            return;
        }
        let (above, below) = (self.asm.label(), self.asm.label());
        self.compare(src, from, out, above, rule);
        self.asm.bind(above);
        self.compare(src, to, below, out, rule);
        self.asm.bind(below);
    }

    fn cmp_word(&mut self, src: u8, equal: bool, mask: u32, data: u32, rule: &Rule) {
        match rule.words.get(src) {
            Word::Constant(value) => {
                if (value & mask == data) != equal {
                    self.asm.jump(rule.next);
                }
            }
            Word::At { at, bytes } => {
                self.asm.load(Width::W, R1, R10, at);
                let there = first_bytes(bytes);
                if mask & there != there {
                    self.asm.alu32(Alu::And, R1, mask as i32);
                }
                let breaks = if equal { Cond::Ne } else { Cond::Eq };
                self.asm.jump_if32(breaks, R1, data as i32, rule.next);
            }
        }
    }

    fn cmp(&mut self, op: CmpOp, src: u8, constant: &[u8], rule: &Rule) {
        let holds = self.asm.label();
        let side = |holding: bool| if holding { holds } else { rule.next };
        let (less, equal, greater) = match op {
            CmpOp::Eq => (false, true, false),
            CmpOp::Neq => (true, false, true),
            CmpOp::Lt => (true, false, false),
            CmpOp::Lte => (true, true, false),
            CmpOp::Gt => (false, false, true),
            CmpOp::Gte => (false, true, true),
        };
        self.compare(src, constant, side(less), side(greater), rule);
        if !equal {
            self.asm.jump(rule.next);
        }
        self.asm.bind(holds);
    }

    fn mask_xor(&mut self, src: u8, dst: u8, mask: u32, xor: u32, rule: &mut Rule) {
        let bytes = match rule.words.get(src) {
            Word::Constant(value) => {
                return rule.words.set(dst, Word::Constant(value & mask ^ xor));
            }
            Word::At { bytes, .. } if xor & !first_bytes(bytes) == 0 => bytes,
            Word::At { .. } => 4,
        };
        self.word(R1, src, rule);
        self.asm.alu32(Alu::And, R1, mask as i32);
        if xor != 0 {
            self.asm.alu32(Alu::Xor, R1, xor as i32);
        }
        self.keep(dst, R1, bytes, rule);
    }

    /// Bits leave a word for the one before it.
    fn lshift(&mut self, src: u8, dst: u8, words: u8, bits: u8, rule: &mut Rule) {
        self.asm.mov(R3, 0);
        for i in (0..words).rev() {
            self.word(R1, src + i, rule);
            self.asm.alu(Alu::Lsh, R1, i32::from(bits));
            self.asm.mov(R2, R1);
            self.asm.alu(Alu::Rsh, R2, 32);
            self.asm.alu32(Alu::Or, R1, R3);
            self.keep(dst + i, R1, 4, rule);
            self.asm.mov(R3, R2);
        }
    }

    /// Words of two registers, bit by bit.
    fn combine(&mut self, op: BoolOp, [src, other, dst]: [u8; 3], rule: &mut Rule) {
        self.word(R1, src, rule);
        self.word(R2, other, rule);
        let op = match op {
            BoolOp::And => Alu::And,
            BoolOp::Or => Alu::Or,
            BoolOp::Xor => Alu::Xor,
        };
        self.asm.alu32(op, R1, R2);
        self.keep(dst, R1, 4, rule);
    }

    /// Bits leave a word for the one after it.
    fn rshift(&mut self, src: u8, dst: u8, words: u8, bits: u8, rule: &mut Rule) {
        self.asm.mov(R3, 0);
        for i in 0..words {
            self.word(R1, src + i, rule);
            self.asm.alu(Alu::Lsh, R1, 32);
            self.asm.alu(Alu::Rsh, R1, i32::from(bits));
            self.asm.mov(R2, R1);
            self.asm.alu(Alu::Rsh, R2, 32);
            self.asm.alu32(Alu::Or, R2, R3);
            self.keep(dst + i, R2, 4, rule);
            self.asm.mov(R3, R1);
        }
    }

    fn byteorder(&mut self, src: u8, dst: u8, len: u8, size: u8, rule: &mut Rule) {
        // All of the source is read first: the registers may overlap.
        let words: Vec<Word> = (0..len.div_ceil(4)).map(|i| rule.words.get(src + i)).collect();
        let from = |n: u8| words.get(usize::from(n)).copied().unwrap_or(Word::Constant(0));
        let mut results = Vec::new();
        match size {
            8 => {
                for pair in 0..len / 8 {
                    results.extend([(from(pair * 2 + 1), 4), (from(pair * 2), 4)]);
                }
            }
            4 => results.extend((0..len / 4).map(|i| (from(i), 4))),
            _ => results
                .extend((0..len.div_ceil(4)).map(|i| (from(i), (len / 2 * 2 - i * 4).min(4)))),
        }
        // Results are kept where no register is read before their use: in the slots after these
        // registers, or in separate memory.
        for (i, (word, bytes)) in (0_i16..).zip(&results) {
            match word {
                Word::Constant(value) => self.asm.mov32(R1, *value),
                Word::At { at, .. } => self.asm.load(Width::W, R1, R10, *at),
            }
            if size == 2 {
                self.swap_halves(*bytes);
            } else {
                self.asm.swap(R1, 32);
            }
            self.asm.store(Width::W, R10, SCRATCH + i * 4, R1);
        }
        for (i, (_, bytes)) in (0_u8..).zip(results) {
            self.asm.load(Width::W, R1, R10, SCRATCH + i16::from(i) * 4);
            if bytes < 4 {
                // The other half of the word stays.
                self.word(R2, dst + i, rule);
                self.asm.alu32(Alu::And, R2, !first_bytes(bytes) as i32);
                self.asm.alu32(Alu::And, R1, first_bytes(bytes) as i32);
                self.asm.alu32(Alu::Or, R1, R2);
            }
            let bytes = match rule.words.get(dst + i) {
                Word::At { bytes: before, .. } => bytes.max(before),
                Word::Constant(_) => 4,
            };
            self.keep(dst + i, R1, bytes, rule);
        }
    }

    /// R1 = each half of it in the other order.
    fn swap_halves(&mut self, bytes: u8) {
        if bytes <= 2 {
            return self.asm.swap(R1, 16);
        }
        self.asm.mov(R2, R1);
        self.asm.alu32(Alu::Rsh, R2, 16);
        self.asm.swap(R1, 16);
        self.asm.swap(R2, 16);
        self.asm.alu32(Alu::Lsh, R2, 16);
        self.asm.alu32(Alu::Or, R1, R2);
    }

    /// Counts the packet.
    pub(super) fn count(&mut self, state: &StateRef) -> Result<(), String> {
        let index = self.plan.counters_ref().index(state).ok_or_else(refused)?;
        let per_value = self.plan.counters_ref().per_value();
        let at = (index % per_value * CELL) as i16;
        if index < per_value {
            self.count_at(COUNTERS, at);
            return Ok(());
        }
        let absent = self.asm.label();
        self.asm.mov32(R1, (index / per_value) as u32);
        self.cells_of(R1);
        self.asm.jump_if(Cond::Eq, R0, 0, absent);
        self.count_at(R0, at);
        self.asm.bind(absent);
        Ok(())
    }

    /// R0 = the processor's counters of the value with this number, or 0.
    pub(super) fn cells_of(&mut self, number: Reg) {
        let Some(map) = self.plan.counters_ref().map().cloned() else { return };
        self.asm.store(Width::W, R10, OPAQUE + 4, number);
        self.asm.mov(R2, R10);
        self.asm.alu(Alu::Add, R2, i32::from(OPAQUE) + 4);
        self.asm.map(R1, &map);
        self.asm.call(Helper::MapLookup);
    }

    /// Counts the packet in the counter with number R3.
    pub(super) fn count_number(&mut self) {
        let (count, per_value) =
            (self.plan.counters_ref().count(), self.plan.counters_ref().per_value());
        let absent = self.asm.label();
        if count <= per_value {
            self.asm.jump_if(Cond::Ge, R3, per_value as i32, absent);
            self.asm.alu(Alu::Mul, R3, CELL as i32);
            self.asm.alu(Alu::Add, R3, COUNTERS);
            self.count_at(R3, 0);
            self.asm.bind(absent);
            return;
        }
        // Values that are not alone have as many cells as they can, a power of two. The place in
        // the value waits while the value is looked up; at four after a multiple of eight the
        // verifier takes a word for unknown.
        self.asm.mov(R1, R3);
        self.asm.alu(Alu::Rsh, R1, per_value.trailing_zeros() as i32);
        self.asm.alu(Alu::And, R3, per_value as i32 - 1);
        self.asm.store(Width::W, R10, SCRATCH + 12, R3);
        self.cells_of(R1);
        self.asm.jump_if(Cond::Eq, R0, 0, absent);
        self.asm.load(Width::W, R2, R10, SCRATCH + 12);
        self.asm.jump_if(Cond::Ge, R2, per_value as i32, absent);
        self.asm.alu(Alu::Mul, R2, CELL as i32);
        self.asm.alu(Alu::Add, R0, R2);
        self.count_at(R0, 0);
        self.asm.bind(absent);
    }

    /// Counts the packet in the cell at `base + at`.
    pub(super) fn count_at(&mut self, base: Reg, at: i16) {
        for (at, more) in [(at, Operand::Imm(1)), (at + 8, Operand::Reg(LENGTH))] {
            self.asm.load(Width::D, R1, base, at);
            self.asm.alu(Alu::Add, R1, more);
            self.asm.store(Width::D, base, at, R1);
        }
    }
}

/// Up to four bytes as a number in their order.
pub(super) fn number(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |n, b| n << 8 | u32::from(*b))
}

/// What [`Plan::new`](super::plan::Plan::new) has refused already.
pub(super) fn refused() -> String {
    "it has no BPF code".into()
}
