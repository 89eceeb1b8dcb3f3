// SPDX-License-Identifier: Apache-2.0

//! Accesses to memory. An address is looked for in the memory that the register probably has the
//! address of. It is compared with where that begins and how long it is; if it is not there, the
//! interpreter continues. Accesses by one register in one block are compared at once.
//!
//! Safety: a value that [`Lowering::place`] gives is the machine's address of bytes that were
//! compared, by code or by the program itself, of a value that a lookup has found, or of a constant
//! place in the function's own frame. Nothing else is dereferenced but fields of the run, its state
//! and its context.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value, types};

use super::analysis::Hint;
use super::entry;
use super::facts::{Fact, Place, Window};
use super::field::{Field, packet_at};
use super::lower::{LOADED, Lowering, good, register_at, type_of};
use crate::context::ProgramKind;
use crate::map::READ_ONLY;
use crate::op::{Atomic, Op, Size};
use crate::packet;
use crate::space::{CONTEXT, FRAME, PACKET, VALUES, address};

/// The most bytes that are compared at once.
const MOST: i32 = 4096;

/// The register that an instruction accesses memory by, where, how much, and whether it writes.
fn access(op: &Op) -> Option<(u8, i16, Size, bool)> {
    match *op {
        Op::Load { size, src, off, .. } | Op::LoadSigned { size, src, off, .. } => {
            Some((src, off, size, false))
        }
        Op::StoreX { size, dst, off, .. } | Op::StoreK { size, dst, off, .. } => {
            Some((dst, off, size, true))
        }
        Op::Atomic { op: Atomic::Load, size, src, off, .. } => Some((src, off, size, false)),
        Op::Atomic { size, dst, off, .. } => Some((dst, off, size, true)),
        _ => None,
    }
}

/// Whether an instruction gives a register another value.
fn writes(op: &Op, register: u8) -> bool {
    match *op {
        Op::Alu64X(_, dst, _)
        | Op::Alu64K(_, dst, _)
        | Op::Alu32X(_, dst, _)
        | Op::Alu32K(_, dst, _)
        | Op::Neg64(dst)
        | Op::Neg32(dst)
        | Op::End(_, dst)
        | Op::LoadImm(dst, _)
        | Op::Load { dst, .. }
        | Op::LoadSigned { dst, .. } => dst == register,
        Op::StoreX { .. } | Op::StoreK { .. } | Op::Half => false,
        _ => true,
    }
}

impl Lowering<'_, '_> {
    /// Where a register probably points, if code may access that.
    fn window(&self, register: u8, write: bool) -> Option<Window> {
        let kind = self.function.kind;
        match self.hint(register) {
            Hint::Packet => {
                let may = match kind {
                    ProgramKind::Xdp | ProgramKind::Tc => true,
                    ProgramKind::Netfilter => !write,
                    ProgramKind::SocketFilter => false,
                };
                may.then_some(Window::Packet)
            }
            Hint::Stack(_) => Some(Window::Frame),
            Hint::Values(map) => {
                let place = self.from.source.maps.get(map as usize)?;
                let may = !write || place.flags & READ_ONLY == 0;
                may.then_some(Window::Values(map))
            }
            Hint::Nothing | Hint::Number | Hint::Context | Hint::Map(_) | Hint::Unknown => None,
        }
    }

    /// The distances from a register's address that this instruction and those after it in the same
    /// block access, as far as they are near each other.
    fn extent(&self, register: u8, off: i32, len: i32) -> (i32, i32) {
        let (mut from, mut to) = (off, off + len);
        let mut pc = self.pc;
        while let Some(op) = self.from.source.ops.get(pc as usize) {
            if pc > self.pc && self.function.blocks.contains_key(&pc) {
                break;
            }
            if let Some((by, off, size, _)) = access(op)
                && by == register
            {
                let (low, high) = (from.min(off.into()), to.max(i32::from(off) + size as i32));
                if high - low > MOST {
                    break;
                }
                (from, to) = (low, high);
            }
            if writes(op, register) {
                break;
            }
            pc += 1;
        }
        (from, to)
    }

    /// The machine's address of bytes at an address, and a distance to be added to it. `None` if it
    /// is not known beforehand in which memory they are.
    pub(super) fn place(
        &mut self,
        register: u8,
        off: i16,
        len: u32,
        write: bool,
    ) -> Option<(Value, i32)> {
        let (off, len) = (i32::from(off), i32::try_from(len).ok().filter(|len| *len <= MOST)?);
        if register == 10 && off >= -(FRAME as i32) && off + len <= 0 {
            return Some((self.frame_at, FRAME as i32 + off));
        }
        let window = self.window(register, write)?;
        let fact = self.facts.of(register);
        if let (Window::Values(map), Some(number)) = (window, fact.number) {
            let memory = self.from.source.maps.get(map as usize)?;
            let at =
                number.wrapping_add(i64::from(off) as u64).wrapping_sub(address(VALUES + map, 0));
            if at.checked_add(len as u64).is_some_and(|end| end <= memory.len as u64) {
                let base = (memory.address as u64).wrapping_add(at);
                return Some((self.number(base), 0));
            }
        }
        let known = (window == Window::Packet && self.facts.in_packet(register, off, len))
            || fact
                .within
                .is_some_and(|(of, from, to)| of == window && from <= off && off + len <= to);
        let base = self.get(register);
        // What is added to an address, and where the memory begins.
        let (start, bias) = match window {
            Window::Packet => (self.b.use_var(self.start), self.b.use_var(self.bias)),
            Window::Frame => (self.frame, self.b.ins().isub(self.frame_at, self.frame)),
            Window::Values(map) => {
                let memory = self.from.source.maps.get(map as usize)?;
                let start = address(VALUES + map, 0);
                let bias = (memory.address as u64).wrapping_sub(start);
                (self.number(start), self.number(bias))
            }
            Window::Context => return None,
        };
        if !known {
            let (from, to) = self.extent(register, off, len);
            let count = (to - from) as u64;
            // An access of `count` bytes may begin at so many places.
            let places = match window {
                Window::Packet => {
                    let (count, places) = (self.number(count), self.b.use_var(self.places));
                    let most = self.b.ins().umax(places, count);
                    self.b.ins().isub(most, count)
                }
                Window::Values(map) => {
                    let len = self.from.source.maps.get(map as usize)?.len as u64;
                    self.number((len + 1).saturating_sub(count))
                }
                _ => self.number(u64::from(FRAME + 1).saturating_sub(count)),
            };
            let first = self.b.ins().iadd_imm_s(base, i64::from(from));
            let at = self.b.ins().isub(first, start);
            let holds = self.b.ins().icmp(IntCC::UnsignedLessThan, at, places);
            self.guard(holds);
            let known = Fact { within: Some((window, from, to)), ..fact };
            self.facts.know(register, known);
        }
        Some((self.b.ins().iadd(base, bias), off))
    }

    /// The place in the packet that a load gives the address of.
    pub(super) fn packet_place(&self, size: Size, register: u8, off: i16) -> Option<Place> {
        if self.hint(register) != Hint::Context {
            return None;
        }
        let Field::Place(at) = Field::of(self.function.kind, off, size)? else { return None };
        match at - packet_at(self.function.kind) {
            packet::at::DATA => Some(Place::Data(0)),
            packet::at::END => Some(Place::End),
            _ => None,
        }
    }

    /// Loads a value of an access and extends it to 64 bits, by its sign or by zeros.
    pub(super) fn load(&mut self, size: Size, signed: bool, register: u8, off: i16) -> Value {
        if self.hint(register) == Hint::Context
            && let Some(field) = Field::of(self.function.kind, off, size)
        {
            self.be_context(register);
            return self.field(field, size, signed);
        }
        if let Some((base, off)) = self.place(register, off, size as u32, false) {
            return self.load_at(size, signed, base, off);
        }
        let at = self.get(register);
        let at = self.b.ins().iadd_imm_s(at, i64::from(off));
        let len = self.number(size as u64);
        let done = self.call(entry::load as *const () as usize, &[self.run, at, len]);
        self.guard(done);
        self.load_at(size, signed, self.state, LOADED)
    }

    /// Loads from an address of the machine, and extends what it loads.
    fn load_at(&mut self, size: Size, signed: bool, base: Value, off: i32) -> Value {
        let ins = self.b.ins();
        match (size, signed) {
            (Size::B, false) => ins.uload8(types::I64, good(), base, off),
            (Size::B, true) => ins.sload8(types::I64, good(), base, off),
            (Size::H, false) => ins.uload16(types::I64, good(), base, off),
            (Size::H, true) => ins.sload16(types::I64, good(), base, off),
            (Size::W, false) => ins.uload32(good(), base, off),
            (Size::W, true) => ins.sload32(good(), base, off),
            (Size::D, _) => ins.load(types::I64, good(), base, off),
        }
    }

    /// Loads a field of the context. The address of a packet has 64 bits, also in a field of 32.
    fn field(&mut self, field: Field, size: Size, signed: bool) -> Value {
        let context = self.context();
        let packet = packet_at(self.function.kind);
        let mut load = |at: usize| self.b.ins().load(types::I64, good(), context, at as i32);
        let value = match field {
            Field::Place(at) => {
                let offset = match at - packet {
                    packet::at::DATA if self.sees_packet => self.b.use_var(self.data),
                    packet::at::END if self.sees_packet => self.b.use_var(self.end),
                    _ => load(at),
                };
                let region = self.number(address(PACKET, 0));
                self.b.ins().iadd(offset, region)
            }
            Field::Length => {
                let end = load(packet + packet::at::END);
                let data = load(packet + packet::at::DATA);
                self.b.ins().isub(end, data)
            }
            Field::Number(at, bits) => {
                let value = self.load_at(size, signed, context, at as i32);
                return match bits {
                    0xffff | 7 => self.b.ins().band_imm_u(value, bits as i64),
                    _ => value,
                };
            }
        };
        if !signed {
            return value;
        }
        let value = self.narrow(size, value);
        self.b.ins().sextend(types::I64, value)
    }

    /// Makes sure that a register has the address of the context.
    fn be_context(&mut self, register: u8) {
        let fact = self.facts.of(register);
        if matches!(fact.within, Some((Window::Context, ..))) {
            return;
        }
        let base = self.get(register);
        let context = self.number(address(CONTEXT, 0));
        let holds = self.b.ins().icmp(IntCC::Equal, base, context);
        self.guard(holds);
        self.facts.know(register, Fact { within: Some((Window::Context, 0, 0)), ..fact });
    }

    pub(super) fn store(&mut self, size: Size, register: u8, off: i16, value: Value) {
        if self.hint(register) == Hint::Context
            && let Some((at, bits)) = Field::written(self.function.kind, off, size)
        {
            self.be_context(register);
            let context = self.context();
            let mut value = self.narrow(size, value);
            if bits == 0xffff {
                value = self.b.ins().band_imm_u(value, bits as i64);
            }
            self.b.ins().store(good(), value, context, at as i32);
            return;
        }
        if let Some((base, off)) = self.place(register, off, size as u32, true) {
            let value = self.narrow(size, value);
            self.b.ins().store(good(), value, base, off);
            return;
        }
        let at = self.get(register);
        let at = self.b.ins().iadd_imm_s(at, i64::from(off));
        let len = self.number(size as u64);
        let done = self.call(entry::store as *const () as usize, &[self.run, at, len, value]);
        self.guard(done);
    }

    /// A value of 64 bits in the width of an access; others stay as they are.
    pub(super) fn narrow(&mut self, size: Size, value: Value) -> Value {
        match (size, self.b.func.dfg.value_type(value)) {
            (Size::D, _) => value,
            (size, types::I64) => self.b.ins().ireduce(type_of(size), value),
            _ => value,
        }
    }

    /// What is done at once: one processor runs one program of a machine at a time.
    pub(super) fn atomic(&mut self, op: Atomic, size: Size, dst: u8, src: u8, off: i16) {
        let by = if op == Atomic::Load { src } else { dst };
        let near = matches!(self.hint(by), Hint::Stack(_) | Hint::Values(_));
        let place = if near { self.place(by, off, size as u32, op != Atomic::Load) } else { None };
        let Some((base, at)) = place else {
            return self.atomic_by_interpreter(op, dst, src);
        };
        let width = type_of(size);
        if op == Atomic::Load {
            let value = self.b.ins().load(width, good(), base, at);
            let value = self.wide(value);
            return self.set(dst, value);
        }
        let register = self.get(dst);
        let first = self.b.ins().iadd_imm_s(register, i64::from(off));
        let rest = self.b.ins().band_imm_u(first, size as i64 - 1);
        let aligned = self.b.ins().icmp_imm_u(IntCC::Equal, rest, 0);
        self.guard(aligned);
        let operand = self.get(src);
        let operand = self.narrow(size, operand);
        let old = match op {
            Atomic::Store => operand,
            _ => self.b.ins().load(width, good(), base, at),
        };
        let new = match op {
            Atomic::Add | Atomic::FetchAdd => self.b.ins().iadd(old, operand),
            Atomic::Or | Atomic::FetchOr => self.b.ins().bor(old, operand),
            Atomic::And | Atomic::FetchAnd => self.b.ins().band(old, operand),
            Atomic::Xor | Atomic::FetchXor => self.b.ins().bxor(old, operand),
            Atomic::Exchange | Atomic::Store | Atomic::Load => operand,
            Atomic::CompareExchange => {
                let wanted = self.get(0);
                let wanted = self.narrow(size, wanted);
                let same = self.b.ins().icmp(IntCC::Equal, old, wanted);
                self.b.ins().select(same, operand, old)
            }
        };
        self.b.ins().store(good(), new, base, at);
        let old = self.wide(old);
        match op {
            Atomic::CompareExchange => self.set(0, old),
            Atomic::FetchAdd
            | Atomic::FetchOr
            | Atomic::FetchAnd
            | Atomic::FetchXor
            | Atomic::Exchange => self.set(src, old),
            Atomic::Add | Atomic::Or | Atomic::And | Atomic::Xor | Atomic::Load | Atomic::Store => {
            }
        }
    }

    fn atomic_by_interpreter(&mut self, op: Atomic, dst: u8, src: u8) {
        self.leave(1 | 1 << dst | 1 << src);
        self.leave_pc();
        let status = self.call(entry::step as *const () as usize, &[self.run]);
        self.return_unless_zero(status);
        let written = match op {
            Atomic::Load => Some(dst),
            Atomic::CompareExchange => Some(0),
            Atomic::FetchAdd
            | Atomic::FetchOr
            | Atomic::FetchAnd
            | Atomic::FetchXor
            | Atomic::Exchange => Some(src),
            Atomic::Add | Atomic::Or | Atomic::And | Atomic::Xor | Atomic::Store => None,
        };
        if let Some(register) = written {
            debug_assert!(register_at(register) >= 0);
            self.take(register);
        }
    }
}
