// SPDX-License-Identifier: Apache-2.0

//! What is known of programs before code is made: which functions they have, what registers
//! probably have, and which of them are read later.
//!
//! What registers probably have decides which memory an access looks at first. Nothing is taken for
//! granted: code asks the address where it is.

use std::collections::{BTreeMap, BTreeSet};

use super::CompileError;
use super::field::Field;
use crate::context::ProgramKind;
use crate::helper::Helper;
use crate::op::{Alu, Atomic, Op, Size};
use crate::space::{CODE, CONTEXT, MAPS, STACK, VALUES, split};
use crate::state::Entry;

/// What a register probably has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hint {
    /// The instruction is never reached.
    Nothing,
    Number,
    Context,
    Packet,
    /// A place in the frame of this function, if the offset is known at that distance from R10.
    Stack(Option<i32>),
    Values(u32),
    Map(u32),
    Unknown,
}

impl Hint {
    fn join(self, other: Hint) -> Hint {
        use Hint::*;
        match (self, other) {
            (a, b) if a == b => a,
            // A null pointer is a number, too.
            (Nothing | Number, other) | (other, Nothing | Number) => other,
            (Stack(_), Stack(_)) => Stack(None),
            _ => Unknown,
        }
    }

    fn is_pointer(self) -> bool {
        matches!(self, Hint::Context | Hint::Packet | Hint::Stack(_) | Hint::Values(_))
    }
}

/// Words of eight bytes that a frame has.
const SLOTS: usize = 64;

/// What registers and the frame probably have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hints {
    registers: [Hint; 11],
    slots: [Hint; SLOTS],
}

impl Hints {
    fn nothing() -> Hints {
        Hints { registers: [Hint::Nothing; 11], slots: [Hint::Nothing; SLOTS] }
    }

    pub(super) fn of(&self, register: u8) -> Hint {
        self.registers.get(usize::from(register)).copied().unwrap_or(Hint::Unknown)
    }

    fn set(&mut self, register: u8, hint: Hint) {
        if let Some(place) = self.registers.get_mut(usize::from(register)) {
            *place = hint;
        }
    }

    /// Whether something changed.
    fn join(&mut self, other: &Hints) -> bool {
        let before = self.clone();
        for (mine, other) in self.registers.iter_mut().zip(&other.registers) {
            *mine = mine.join(*other);
        }
        for (mine, other) in self.slots.iter_mut().zip(&other.slots) {
            *mine = mine.join(*other);
        }
        before != *self
    }

    fn slot(&mut self, base: Hint, off: i16) -> Option<&mut Hint> {
        let Hint::Stack(Some(at)) = base else { return None };
        let at = usize::try_from(512 + at + i32::from(off)).ok()?;
        if at.is_multiple_of(8) { self.slots.get_mut(at / 8) } else { None }
    }
}

/// A function: what is reached from its first instruction without calls.
pub(super) struct Function {
    pub(super) kind: ProgramKind,
    pub(super) start: u32,
    /// Registers that are read after it ends, besides R0.
    exit: u16,
    /// By instruction: what registers probably have before it.
    pub(super) hints: BTreeMap<u32, Hints>,
    /// By instruction: registers that are read from it on before they are written.
    pub(super) live: BTreeMap<u32, u16>,
    /// Instructions that jumps lead to, with how many ways there are to each block.
    pub(super) blocks: BTreeMap<u32, u32>,
    /// It goes back, or calls a function: it uses the limit of steps.
    pub(super) pays: bool,
}

/// Instructions that all functions of a machine may have together.
const MOST: usize = 1 << 16;

/// R0 to R5.
const CLOBBERED: u16 = 0x3f;

fn bit(register: u8) -> u16 {
    1 << register.min(15)
}

/// Instructions that may follow, and whether the next one is among them as a continuation.
pub(super) fn ways(op: &Op, pc: u32) -> [Option<u32>; 2] {
    match *op {
        Op::Jump(to) => [Some(to), None],
        Op::Jump64X(_, _, _, to)
        | Op::Jump32X(_, _, _, to)
        | Op::Jump64K { to, .. }
        | Op::Jump32K { to, .. } => [Some(pc + 1), Some(to)],
        Op::LoadImm(..) => [Some(pc + 2), None],
        Op::Exit => [None, None],
        _ => [Some(pc + 1), None],
    }
}

fn is_jump(op: &Op) -> bool {
    matches!(
        op,
        Op::Jump(_) | Op::Jump64X(..) | Op::Jump32X(..) | Op::Jump64K { .. } | Op::Jump32K { .. }
    )
}

/// Finds all functions of programs and what is known of them.
pub(super) fn functions(ops: &[Op], programs: &[Entry]) -> Result<Vec<Function>, CompileError> {
    let mut all = Vec::new();
    let mut sum = 0;
    let tail_calls = ops.contains(&Op::Call(Helper::TailCall));
    for program in programs {
        let range = program.start..program.start + program.len;
        let own = ops.get(range.start as usize..range.end as usize).unwrap_or(&[]);
        // A number may look like the address of a function, and name no instruction.
        let is_place =
            |at: u32| range.contains(&at) && ops.get(at as usize).is_some_and(|op| *op != Op::Half);
        let mut starts = BTreeMap::from([(program.start, if tail_calls { CLOBBERED } else { 0 })]);
        for op in own {
            match *op {
                Op::CallLocal(to) => *starts.entry(to).or_insert(0) |= CLOBBERED,
                Op::LoadImm(_, value) if split(value).0 == CODE && is_place(value as u32) => {
                    *starts.entry(value as u32).or_insert(0) |= CLOBBERED;
                }
                _ => {}
            }
        }
        let first = all.len();
        for (start, exit) in starts {
            let function = Function::shape(ops, program.kind, start, exit);
            sum += function.live.len();
            if sum > MOST {
                return Err(CompileError(format!("functions have more than {MOST} instructions")));
            }
            all.push(function);
        }
        let own = all.get_mut(first..).unwrap_or(&mut []);
        live(own, ops);
        hints(own, ops, program.start);
    }
    Ok(all)
}

impl Function {
    /// Its instructions and blocks.
    fn shape(ops: &[Op], kind: ProgramKind, start: u32, exit: u16) -> Function {
        let mut live = BTreeMap::new();
        let mut blocks = BTreeMap::from([(start, 1)]);
        let mut pays = false;
        let mut open = vec![start];
        while let Some(pc) = open.pop() {
            if live.insert(pc, 0).is_some() {
                continue;
            }
            let Some(op) = ops.get(pc as usize) else { continue };
            pays |= matches!(op, Op::CallLocal(_));
            for to in ways(op, pc).into_iter().flatten() {
                pays |= to <= pc;
                if is_jump(op) {
                    *blocks.entry(to).or_insert(0) += 1;
                }
                open.push(to);
            }
        }
        // A block that is also run into has one more way.
        for pc in live.keys() {
            let Some(op) = ops.get(*pc as usize) else { continue };
            if is_jump(op) {
                continue;
            }
            for to in ways(op, *pc).into_iter().flatten() {
                if let Some(count) = blocks.get_mut(&to) {
                    *count += 1;
                }
            }
        }
        Function { kind, start, exit: exit | 1, hints: BTreeMap::new(), live, blocks, pays }
    }

    /// Registers that are read after an instruction.
    pub(super) fn live_after(&self, op: &Op, pc: u32) -> u16 {
        let ways = ways(op, pc).into_iter().flatten();
        ways.map(|to| self.live.get(&to).copied().unwrap_or(0)).fold(0, |a, b| a | b)
    }

    /// Whether it begins runs only: R1 is the context then, and other registers are 0.
    pub(super) fn begins_runs(&self) -> bool {
        self.exit == 1
    }

    /// Whether registers may have addresses in the packet.
    pub(super) fn sees_packet(&self) -> bool {
        self.hints.values().any(|hints| hints.registers.contains(&Hint::Packet))
    }

    /// Registers that whoever called reads after the function.
    pub(super) fn exit(&self) -> u16 {
        self.exit
    }
}

/// Registers that an instruction reads, and those that it writes.
fn uses(op: &Op, exit: u16) -> (u16, u16) {
    match *op {
        Op::Alu64X(Alu::Mov | Alu::Mov8 | Alu::Mov16 | Alu::Mov32, dst, src)
        | Op::Alu32X(Alu::Mov | Alu::Mov8 | Alu::Mov16 | Alu::Mov32, dst, src) => {
            (bit(src), bit(dst))
        }
        Op::Alu64X(_, dst, src) | Op::Alu32X(_, dst, src) => (bit(src) | bit(dst), bit(dst)),
        Op::Alu64K(Alu::Mov, dst, _) | Op::Alu32K(Alu::Mov, dst, _) => (0, bit(dst)),
        Op::Alu64K(_, dst, _)
        | Op::Alu32K(_, dst, _)
        | Op::Neg64(dst)
        | Op::Neg32(dst)
        | Op::End(_, dst) => (bit(dst), bit(dst)),
        Op::LoadImm(dst, _) => (0, bit(dst)),
        Op::Jump(_) | Op::Half => (0, 0),
        Op::Jump64X(_, dst, src, _) | Op::Jump32X(_, dst, src, _) => (bit(dst) | bit(src), 0),
        Op::Jump64K { dst, .. } | Op::Jump32K { dst, .. } => (bit(dst), 0),
        Op::Load { dst, src, .. } | Op::LoadSigned { dst, src, .. } => (bit(src), bit(dst)),
        Op::StoreX { dst, src, .. } => (bit(dst) | bit(src), 0),
        Op::StoreK { dst, .. } => (bit(dst), 0),
        Op::Atomic { dst, src, .. } => (bit(dst) | bit(src) | 1, 0),
        Op::Absolute(..) => (exit, 1),
        Op::Indirect(_, src, _) => (exit | bit(src), 1),
        Op::Call(helper) => match helper {
            Helper::MapLookup | Helper::MapDelete => (0x6, 1),
            Helper::KtimeGetNs | Helper::Prandom | Helper::Processor => (0, 1),
            Helper::TailCall | Helper::Loop | Helper::ForEachMapElem => (0x3ff, 1),
            _ => (0x3e, 1),
        },
        // What the function reads is added by the caller.
        Op::CallLocal(_) => (0, CLOBBERED),
        Op::Exit => (exit, 0),
    }
}

/// Says of each instruction which registers are read from it on.
fn live(functions: &mut [Function], ops: &[Op]) {
    let mut entries: BTreeMap<u32, u16> = BTreeMap::new();
    loop {
        let mut changed = false;
        for function in &mut *functions {
            loop {
                let mut moved = false;
                let places: Vec<u32> = function.live.keys().rev().copied().collect();
                for pc in places {
                    let Some(op) = ops.get(pc as usize) else { continue };
                    let after = function.live_after(op, pc);
                    let (mut read, written) = uses(op, function.exit);
                    if let Op::CallLocal(to) = op {
                        read |= entries.get(to).copied().unwrap_or(0);
                    }
                    let now = after & !written | read;
                    moved |= function.live.insert(pc, now & 0x3ff) != Some(now & 0x3ff);
                }
                if !moved {
                    break;
                }
            }
            let entry = function.live.get(&function.start).copied().unwrap_or(0);
            changed |= entries.insert(function.start, entry) != Some(entry);
        }
        if !changed {
            return;
        }
    }
}

/// Says of each instruction what registers probably have before it.
fn hints(functions: &mut [Function], ops: &[Op], program: u32) {
    let mut entries: BTreeMap<u32, Hints> = BTreeMap::new();
    for function in &*functions {
        let mut hints = Hints::nothing();
        if function.start == program {
            hints.set(1, Hint::Context);
        }
        entries.insert(function.start, hints);
    }
    let mut open: BTreeSet<u32> = functions.iter().map(|f| f.start).collect();
    while let Some(start) = open.pop_first() {
        let Some(function) = functions.iter_mut().find(|f| f.start == start) else { continue };
        let mut hints = entries.get(&start).cloned().unwrap_or_else(Hints::nothing);
        hints.set(10, Hint::Stack(Some(0)));
        let mut places = BTreeSet::new();
        function.hints.entry(start).or_insert_with(Hints::nothing).join(&hints);
        places.insert(start);
        while let Some(pc) = places.pop_first() {
            let Some(op) = ops.get(pc as usize) else { continue };
            let Some(before) = function.hints.get(&pc) else { continue };
            if let Op::CallLocal(to) = op {
                let mut handed = before.clone();
                handed.slots = [Hint::Nothing; SLOTS];
                for hint in &mut handed.registers {
                    // The frame of this function is not that of the other.
                    if matches!(hint, Hint::Stack(_)) {
                        *hint = Hint::Unknown;
                    }
                }
                if let Some(entry) = entries.get_mut(to)
                    && entry.join(&handed)
                {
                    open.insert(*to);
                }
            }
            let mut after = before.clone();
            follow(&mut after, op, function.kind);
            for to in ways(op, pc).into_iter().flatten() {
                let mut new = false;
                let place = function.hints.entry(to).or_insert_with(|| {
                    new = true;
                    Hints::nothing()
                });
                if place.join(&after) | new {
                    places.insert(to);
                }
            }
        }
    }
}

/// What registers have after an instruction.
fn follow(hints: &mut Hints, op: &Op, kind: ProgramKind) {
    let moved = |hint: Hint, by: i32| match hint {
        Hint::Stack(Some(at)) => Hint::Stack(at.checked_add(by)),
        other => other,
    };
    match *op {
        Op::Alu64X(Alu::Mov, dst, src) => hints.set(dst, hints.of(src)),
        Op::Alu64K(Alu::Add, dst, imm) => hints.set(dst, moved(hints.of(dst), imm)),
        Op::Alu64X(Alu::Add, dst, src) => {
            let (a, b) = (hints.of(dst), hints.of(src));
            let sum = match (a.is_pointer(), b.is_pointer()) {
                (true, false) => a,
                (false, true) => b,
                _ => Hint::Number,
            };
            let sum = if matches!(sum, Hint::Stack(_)) { Hint::Stack(None) } else { sum };
            hints.set(dst, sum);
        }
        Op::Alu64X(Alu::Sub, dst, src) => {
            let (a, b) = (hints.of(dst), hints.of(src));
            let difference = match (a, b.is_pointer()) {
                (Hint::Stack(_), false) => Hint::Stack(None),
                (a, false) if a.is_pointer() => a,
                _ => Hint::Number,
            };
            hints.set(dst, difference);
        }
        Op::Alu64X(_, dst, _)
        | Op::Alu64K(_, dst, _)
        | Op::Alu32X(_, dst, _)
        | Op::Alu32K(_, dst, _)
        | Op::Neg64(dst)
        | Op::Neg32(dst)
        | Op::End(_, dst)
        | Op::LoadSigned { dst, .. } => hints.set(dst, Hint::Number),
        Op::LoadImm(dst, value) => hints.set(
            dst,
            match split(value) {
                (region, 0) if region >= MAPS => Hint::Map(region - MAPS),
                (region, _) if (VALUES..MAPS).contains(&region) => Hint::Values(region - VALUES),
                (CONTEXT | STACK, _) => Hint::Unknown,
                _ => Hint::Number,
            },
        ),
        Op::Load { size, dst, src, off } => {
            let base = hints.of(src);
            let loaded = match base {
                Hint::Context => match Field::of(kind, off, size) {
                    Some(Field::Place(_)) => Hint::Packet,
                    _ if size == Size::D => Hint::Unknown,
                    _ => Hint::Number,
                },
                _ if size != Size::D => Hint::Number,
                base => match hints.slot(base, off) {
                    Some(Hint::Nothing) | None => Hint::Unknown,
                    Some(hint) => *hint,
                },
            };
            hints.set(dst, loaded);
        }
        Op::StoreX { size, dst, src, off } => {
            let hint = if size == Size::D { hints.of(src) } else { Hint::Number };
            let base = hints.of(dst);
            if let Some(slot) = hints.slot(base, off) {
                *slot = hint;
            }
        }
        Op::StoreK { dst, off, .. } => {
            let base = hints.of(dst);
            if let Some(slot) = hints.slot(base, off) {
                *slot = Hint::Number;
            }
        }
        Op::Atomic { op, dst, src, .. } => match op {
            Atomic::Load => hints.set(dst, Hint::Unknown),
            Atomic::CompareExchange => hints.set(0, Hint::Number),
            Atomic::FetchAdd
            | Atomic::FetchOr
            | Atomic::FetchAnd
            | Atomic::FetchXor
            | Atomic::Exchange => hints.set(src, Hint::Number),
            Atomic::Add | Atomic::Or | Atomic::And | Atomic::Xor | Atomic::Store => {}
        },
        Op::Absolute(..) | Op::Indirect(..) => hints.set(0, Hint::Number),
        Op::Call(Helper::MapLookup | Helper::RingReserve) => {
            let found = match hints.of(1) {
                Hint::Map(map) => Hint::Values(map),
                _ => Hint::Unknown,
            };
            hints.set(0, found);
        }
        Op::Call(helper) => {
            let is_address = helper.is_kfunc() || helper == Helper::DynptrData;
            hints.set(0, if is_address { Hint::Unknown } else { Hint::Number });
        }
        Op::CallLocal(_) => {
            for register in 0..=5 {
                hints.set(register, Hint::Unknown);
            }
        }
        Op::Jump(_)
        | Op::Jump64X(..)
        | Op::Jump64K { .. }
        | Op::Jump32X(..)
        | Op::Jump32K { .. }
        | Op::Exit
        | Op::Half => {}
    }
}
