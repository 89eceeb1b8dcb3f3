// SPDX-License-Identifier: Apache-2.0

//! Instructions, one by one: arithmetic, jumps, and which of the other files does the rest.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Type, Value, types};
use cranelift_frontend::FunctionBuilder;

use super::analysis::ways;
use super::facts::{Fact, Facts, Place};
use super::lower::Lowering;
use crate::op::{Alu, Cond, Op, Order};

impl<'a> Lowering<'a, '_> {
    /// All instructions.
    pub(super) fn finish(mut self) -> FunctionBuilder<'a> {
        if let Some(first) = self.blocks.get(&self.function.start) {
            self.b.ins().jump(*first, &[]);
        }
        let mut open = false;
        for pc in self.function.live.keys().copied() {
            self.pc = pc;
            if let Some(block) = self.blocks.get(&pc).copied() {
                if open {
                    self.go(pc);
                }
                self.b.switch_to_block(block);
                self.facts = self.kept.remove(&pc).unwrap_or_default();
            }
            let Some(op) = self.from.source.ops.get(pc as usize).copied() else { continue };
            self.op(op);
            // The next instruction in the order of numbers need not be the one that follows.
            open = !matches!(op, Op::Exit) && !self.is_jump(&op);
        }
        self.b.seal_all_blocks();
        self.b
    }

    fn is_jump(&self, op: &Op) -> bool {
        matches!(
            op,
            Op::Jump(_)
                | Op::Jump64X(..)
                | Op::Jump32X(..)
                | Op::Jump64K { .. }
                | Op::Jump32K { .. }
        )
    }

    /// Jumps, and pays for it if that is back.
    fn jump(&mut self, to: u32) {
        if to <= self.pc {
            self.pay(u64::from(self.pc - to) + 1);
        }
        self.go(to);
    }

    /// Jumps if the condition holds; `known` is what is known if it does, and if it does not.
    fn branch(&mut self, holds: Value, to: u32, known: (Facts, Facts)) {
        let next = self.pc + 1;
        let (yes, no) = (self.blocks.get(&to).copied(), self.blocks.get(&next).copied());
        let (Some(yes), Some(no)) = (yes, no) else { return };
        self.keep_facts(next, known.1);
        self.facts = known.0;
        if to <= self.pc {
            let back = self.b.create_block();
            self.b.ins().brif(holds, back, &[], no, &[]);
            self.b.switch_to_block(back);
            self.jump(to);
        } else {
            self.keep_facts(to, self.facts.clone());
            self.b.ins().brif(holds, yes, &[], no, &[]);
        }
    }

    fn op(&mut self, op: Op) {
        match op {
            Op::Alu64X(Alu::Mov, dst, src) => {
                let value = self.get(src);
                let known = self.facts.of(src);
                self.set(dst, value);
                self.facts.know(dst, known);
            }
            Op::Alu64K(Alu::Add, dst, imm) => {
                let known = self.facts.of(dst);
                let value = self.get(dst);
                let value = self.b.ins().iadd_imm_s(value, i64::from(imm));
                self.set(dst, value);
                self.facts.know(dst, known.moved(imm));
            }
            Op::Alu64X(alu, dst, src) => {
                let (a, b) = (self.get(dst), self.get(src));
                let value = self.alu(alu, a, b);
                self.set(dst, value);
            }
            Op::Alu64K(Alu::Mov, dst, imm) => {
                let number = i64::from(imm) as u64;
                let value = self.number(number);
                self.set(dst, value);
                self.facts.know(dst, Fact::number(number));
            }
            Op::Alu64K(alu, dst, imm) => {
                let (a, b) = (self.get(dst), self.number(i64::from(imm) as u64));
                let value = self.alu(alu, a, b);
                self.set(dst, value);
            }
            Op::Alu32X(alu, dst, src) => {
                let (a, b) = (self.word(dst), self.word(src));
                self.alu32(alu, dst, a, b);
            }
            Op::Alu32K(alu, dst, imm) => {
                let a = self.word(dst);
                let b = self.b.ins().iconst(types::I32, i64::from(imm));
                self.alu32(alu, dst, a, b);
            }
            Op::Neg64(dst) => {
                let value = self.get(dst);
                let value = self.b.ins().ineg(value);
                self.set(dst, value);
            }
            Op::Neg32(dst) => {
                let value = self.word(dst);
                let value = self.b.ins().ineg(value);
                let value = self.b.ins().uextend(types::I64, value);
                self.set(dst, value);
            }
            Op::End(order, dst) => {
                let value = self.get(dst);
                let value = self.end(order, value);
                self.set(dst, value);
            }
            Op::LoadImm(dst, value) => {
                let number = self.number(value);
                self.set(dst, number);
                self.facts.know(dst, Fact::number(value));
            }
            Op::Jump(to) => self.jump(to),
            Op::Jump64X(cond, dst, src, to) => {
                let (a, b) = match (self.offset(dst), self.offset(src)) {
                    (Some(a), Some(b)) if cond != Cond::Set => (a, b),
                    _ => (self.get(dst), self.get(src)),
                };
                let holds = self.holds(cond, a, b);
                self.branch(holds, to, self.facts.compared(cond, dst, src));
            }
            Op::Jump64K { cond, dst, imm, to } => {
                let (a, b) = (self.get(dst), self.number(i64::from(imm) as u64));
                let holds = self.holds(cond, a, b);
                self.branch(holds, to, self.facts.compared_with(cond, dst, imm));
            }
            Op::Jump32X(cond, dst, src, to) => {
                let (a, b) = (self.word(dst), self.word(src));
                let holds = self.holds(cond, a, b);
                self.branch(holds, to, (self.facts.clone(), self.facts.clone()));
            }
            Op::Jump32K { cond, dst, imm, to } => {
                let a = self.word(dst);
                let b = self.b.ins().iconst(types::I32, i64::from(imm));
                let holds = self.holds(cond, a, b);
                self.branch(holds, to, (self.facts.clone(), self.facts.clone()));
            }
            Op::Load { size, dst, src, off } => {
                let place = self.packet_place(size, src, off);
                let value = self.load(size, false, src, off);
                self.set(dst, value);
                self.facts.know(dst, Fact { place, ..Fact::default() });
            }
            Op::LoadSigned { size, dst, src, off } => {
                let value = self.load(size, true, src, off);
                self.set(dst, value);
            }
            Op::StoreX { size, dst, src, off } => {
                let value = self.get(src);
                self.store(size, dst, off, value);
            }
            Op::StoreK { size, dst, off, imm } => {
                let value = self.number(i64::from(imm) as u64);
                self.store(size, dst, off, value);
            }
            Op::Atomic { op, size, dst, src, off } => self.atomic(op, size, dst, src, off),
            Op::Absolute(..) | Op::Indirect(..) => self.packet(op),
            Op::Call(helper) => self.helper(helper),
            Op::CallLocal(to) => self.function_call(to),
            Op::Exit => {
                self.leave(self.function.exit());
                self.ret(u64::from(self.pc));
            }
            Op::Half => {}
        }
        debug_assert!(ways(&op, self.pc).len() == 2);
    }

    /// Where the address that a register has is in the buffer of the packet, if it is known.
    /// Addresses are in the order of offsets, which are shorter.
    fn offset(&mut self, register: u8) -> Option<Value> {
        if !self.sees_packet {
            return None;
        }
        match self.facts.of(register).place? {
            Place::End => Some(self.b.use_var(self.end)),
            Place::Data(at) if (0..=i32::from(i16::MAX)).contains(&at) => {
                let data = self.b.use_var(self.data);
                Some(self.b.ins().iadd_imm_s(data, i64::from(at)))
            }
            Place::Data(_) => None,
        }
    }

    pub(super) fn wide(&mut self, value: Value) -> Value {
        match self.b.func.dfg.value_type(value) {
            types::I64 => value,
            _ => self.b.ins().uextend(types::I64, value),
        }
    }

    fn word(&mut self, register: u8) -> Value {
        let value = self.get(register);
        self.b.ins().ireduce(types::I32, value)
    }

    fn alu32(&mut self, alu: Alu, dst: u8, a: Value, b: Value) {
        let value = self.alu(alu, a, b);
        let value = self.b.ins().uextend(types::I64, value);
        self.set(dst, value);
    }

    /// Of values that have one width.
    fn alu(&mut self, alu: Alu, a: Value, b: Value) -> Value {
        let width = self.b.func.dfg.value_type(a);
        let signed = |this: &mut Self, narrow: Type| {
            if narrow.bits() >= width.bits() {
                return b;
            }
            let low = this.b.ins().ireduce(narrow, b);
            this.b.ins().sextend(width, low)
        };
        match alu {
            Alu::Add => self.b.ins().iadd(a, b),
            Alu::Sub => self.b.ins().isub(a, b),
            Alu::Mul => self.b.ins().imul(a, b),
            Alu::Div | Alu::Mod | Alu::SDiv | Alu::SMod => self.divide(alu, a, b),
            Alu::Or => self.b.ins().bor(a, b),
            Alu::And => self.b.ins().band(a, b),
            Alu::Xor => self.b.ins().bxor(a, b),
            // The count is taken modulo the width.
            Alu::Lsh => self.b.ins().ishl(a, b),
            Alu::Rsh => self.b.ins().ushr(a, b),
            Alu::Arsh => self.b.ins().sshr(a, b),
            Alu::Mov => b,
            Alu::Mov8 => signed(self, types::I8),
            Alu::Mov16 => signed(self, types::I16),
            Alu::Mov32 => signed(self, types::I32),
        }
    }

    fn divide(&mut self, alu: Alu, a: Value, b: Value) -> Value {
        let width = self.b.func.dfg.value_type(a);
        let zero = self.b.ins().iconst(width, 0);
        let one = self.b.ins().iconst(width, 1);
        let is_zero = self.b.ins().icmp(IntCC::Equal, b, zero);
        let by = self.b.ins().select(is_zero, one, b);
        match alu {
            Alu::Div => {
                let value = self.b.ins().udiv(a, by);
                self.b.ins().select(is_zero, zero, value)
            }
            Alu::Mod => {
                let value = self.b.ins().urem(a, by);
                self.b.ins().select(is_zero, a, value)
            }
            // The least number divided by -1 is itself, and leaves nothing.
            Alu::SDiv => {
                let minus = self.b.ins().iconst(width, -1);
                let negates = self.b.ins().icmp(IntCC::Equal, b, minus);
                let by = self.b.ins().select(negates, one, by);
                let value = self.b.ins().sdiv(a, by);
                let negative = self.b.ins().ineg(a);
                let value = self.b.ins().select(negates, negative, value);
                self.b.ins().select(is_zero, zero, value)
            }
            _ => {
                let minus = self.b.ins().iconst(width, -1);
                let negates = self.b.ins().icmp(IntCC::Equal, b, minus);
                let by = self.b.ins().select(negates, one, by);
                let value = self.b.ins().srem(a, by);
                self.b.ins().select(is_zero, a, value)
            }
        }
    }

    fn holds(&mut self, cond: Cond, a: Value, b: Value) -> Value {
        let is = match cond {
            Cond::Eq => IntCC::Equal,
            Cond::Ne => IntCC::NotEqual,
            Cond::Gt => IntCC::UnsignedGreaterThan,
            Cond::Ge => IntCC::UnsignedGreaterThanOrEqual,
            Cond::Lt => IntCC::UnsignedLessThan,
            Cond::Le => IntCC::UnsignedLessThanOrEqual,
            Cond::SGt => IntCC::SignedGreaterThan,
            Cond::SGe => IntCC::SignedGreaterThanOrEqual,
            Cond::SLt => IntCC::SignedLessThan,
            Cond::SLe => IntCC::SignedLessThanOrEqual,
            Cond::Set => {
                let both = self.b.ins().band(a, b);
                let width = self.b.func.dfg.value_type(a);
                let zero = self.b.ins().iconst(width, 0);
                return self.b.ins().icmp(IntCC::NotEqual, both, zero);
            }
        };
        self.b.ins().icmp(is, a, b)
    }

    fn end(&mut self, order: Order, value: Value) -> Value {
        let narrow = match order {
            Order::Le16 | Order::Be16 | Order::Swap16 => types::I16,
            Order::Le32 | Order::Be32 | Order::Swap32 => types::I32,
            Order::Le64 | Order::Be64 | Order::Swap64 => types::I64,
        };
        let value = match narrow {
            types::I64 => value,
            narrow => self.b.ins().ireduce(narrow, value),
        };
        let value = match order {
            Order::Le16 | Order::Le32 | Order::Le64 => value,
            _ => self.b.ins().bswap(value),
        };
        self.wide(value)
    }
}
