// SPDX-License-Identifier: Apache-2.0

//! The interpreter. It allocates nothing. Straight code costs no steps, what leads back does, so
//! that all work of a run is bounded by the length of its programs and the limit of steps.

use crate::alu;
use crate::call;
use crate::fault::FaultKind;
use crate::helper::Helper;
use crate::map::Errno;
use crate::op::{Atomic, Op, Size};
use crate::run::Run;
use crate::space::{CODE, FRAME, FRAME_STEP, STACK, VALUES, address, split};
use crate::state::{DEPTH, Frame};

/// Programs that continue each other (`MAX_TAIL_CALL_CNT`).
const TAIL_CALLS: u32 = 33;
/// Rounds of `bpf_loop()` (`BPF_MAX_LOOPS`).
const LOOPS: u64 = 8 << 20;

/// What an instruction does to the order of execution.
pub(crate) enum Then {
    Next,
    Go(u32),
    /// The function is over.
    Leave,
}

impl Run<'_> {
    pub(crate) fn frame_end(depth: usize) -> u64 {
        address(STACK, depth as u32 * FRAME_STEP + FRAME)
    }

    /// Runs until the function at this depth, where it is now, ends: R0.
    pub(crate) fn until(&mut self, start: u32) -> Result<u64, FaultKind> {
        let depth = self.depth;
        self.r[10] = Self::frame_end(depth);
        self.pc = start;
        loop {
            let op = self.ops[self.pc as usize];
            match self.step(op)? {
                Then::Next => self.pc += 1,
                Then::Go(to) => {
                    if to <= self.pc {
                        self.pay(u64::from(self.pc - to) + 1)?;
                    }
                    self.pc = to;
                }
                Then::Leave if self.depth == depth => return Ok(self.r[0]),
                Then::Leave => {
                    let to = self.leave() + 1;
                    if to <= self.pc {
                        self.pay(u64::from(self.pc - to) + 1)?;
                    }
                    self.pc = to;
                }
            }
        }
    }

    #[inline(always)]
    fn reg(&self, register: u8) -> u64 {
        self.r[usize::from(register & 15)]
    }

    #[inline(always)]
    fn set(&mut self, register: u8, value: u64) {
        self.r[usize::from(register & 15)] = value;
    }

    #[inline(always)]
    fn place(&self, register: u8, off: i16) -> u64 {
        self.reg(register).wrapping_add(i64::from(off) as u64)
    }

    #[inline(always)]
    pub(crate) fn step(&mut self, op: Op) -> Result<Then, FaultKind> {
        let jump = |holds, to| Ok(if holds { Then::Go(to) } else { Then::Next });
        match op {
            Op::Alu64X(op, dst, src) => {
                self.set(dst, alu::alu64(op, self.reg(dst), self.reg(src)));
            }
            Op::Alu64K(op, dst, imm) => {
                self.set(dst, alu::alu64(op, self.reg(dst), i64::from(imm) as u64));
            }
            Op::Alu32X(op, dst, src) => {
                self.set(dst, alu::alu32(op, self.reg(dst) as u32, self.reg(src) as u32));
            }
            Op::Alu32K(op, dst, imm) => {
                self.set(dst, alu::alu32(op, self.reg(dst) as u32, imm as u32));
            }
            Op::Neg64(dst) => self.set(dst, self.reg(dst).wrapping_neg()),
            Op::Neg32(dst) => self.set(dst, u64::from((self.reg(dst) as u32).wrapping_neg())),
            Op::End(order, dst) => self.set(dst, alu::end(order, self.reg(dst))),
            Op::LoadImm(dst, value) => {
                self.set(dst, value);
                return Ok(Then::Go(self.pc + 2));
            }
            Op::Jump(to) => return Ok(Then::Go(to)),
            Op::Jump64X(cond, dst, src, to) => {
                return jump(alu::holds64(cond, self.reg(dst), self.reg(src)), to);
            }
            Op::Jump64K { cond, dst, imm, to } => {
                return jump(alu::holds64(cond, self.reg(dst), i64::from(imm) as u64), to);
            }
            Op::Jump32X(cond, dst, src, to) => {
                return jump(alu::holds32(cond, self.reg(dst) as u32, self.reg(src) as u32), to);
            }
            Op::Jump32K { cond, dst, imm, to } => {
                return jump(alu::holds32(cond, self.reg(dst) as u32, imm as u32), to);
            }
            Op::Load { size, dst, src, off } => {
                let value = self.load(self.place(src, off), size)?;
                self.set(dst, value);
            }
            Op::LoadSigned { size, dst, src, off } => {
                let value = self.load(self.place(src, off), size)?;
                self.set(dst, alu::signed(size, value));
            }
            Op::StoreX { size, dst, src, off } => {
                self.store(self.place(dst, off), size, self.reg(src))?;
            }
            Op::StoreK { size, dst, off, imm } => {
                self.store(self.place(dst, off), size, i64::from(imm) as u64)?;
            }
            Op::Atomic { op, size, dst, src, off } => self.atomic(op, size, dst, src, off)?,
            Op::Absolute(size, at) => return self.packet(size, at),
            Op::Indirect(size, src, at) => {
                let at = self.reg(src).wrapping_add(i64::from(at) as u64) as i32;
                return self.packet(size, at);
            }
            Op::Call(helper) => return self.helper(helper),
            Op::CallLocal(to) => {
                self.enter()?;
                return Ok(Then::Go(to));
            }
            Op::Exit => return Ok(Then::Leave),
            // No jump leads here: the decoder sees to it.
            Op::Half => {}
        }
        Ok(Then::Next)
    }

    /// Begins a function.
    fn enter(&mut self) -> Result<(), FaultKind> {
        let kept = [self.r[6], self.r[7], self.r[8], self.r[9]];
        let (depth, from) = (self.depth, self.pc);
        // The last frame calls nothing.
        if depth + 1 >= DEPTH {
            return Err(FaultKind::Depth);
        }
        self.frames[depth] = Frame { from, kept };
        self.depth += 1;
        self.r[10] = Self::frame_end(self.depth);
        Ok(())
    }

    /// Ends a function: where it was called.
    fn leave(&mut self) -> u32 {
        self.depth -= 1;
        let depth = self.depth;
        let Frame { from, kept } = self.frames[depth];
        self.r[6..10].copy_from_slice(&kept);
        self.r[10] = Self::frame_end(self.depth);
        from
    }

    /// Calls a function of the program from a helper.
    fn callback(&mut self, to: u32, arguments: [u64; 4]) -> Result<u64, FaultKind> {
        let from = self.pc;
        self.enter()?;
        self.r[1..5].copy_from_slice(&arguments);
        self.pay(u64::from(from.abs_diff(to)) + 1)?;
        let result = self.function_from(to, self.context.kind())?;
        self.pay(u64::from(self.pc.abs_diff(from)) + 1)?;
        self.pc = self.leave();
        Ok(result)
    }

    pub(crate) fn helper(&mut self, helper: Helper) -> Result<Then, FaultKind> {
        self.r[0] = match helper {
            Helper::TailCall => return self.tail_call(),
            Helper::Loop => self.repeat()?,
            Helper::ForEachMapElem => self.for_each()?,
            _ => call::function(helper)(self)?,
        };
        Ok(Then::Next)
    }

    fn tail_call(&mut self) -> Result<Then, FaultKind> {
        const NAME: &str = "bpf_tail_call";
        let map = self.map_number(self.r[2]).ok_or(FaultKind::Argument(NAME, 2))?;
        let index = self.r[3] as u32;
        let program = self.maps[map].program(index).and_then(|p| self.programs.get(p as usize));
        let Some(program) = program.filter(|_| self.tail_calls < TAIL_CALLS) else {
            self.r[0] = Errno::NOENT.result();
            return Ok(Then::Next);
        };
        if program.kind != self.context.kind() {
            return Err(FaultKind::Argument(NAME, 2));
        }
        let start = program.start;
        self.tail_calls += 1;
        // It continues in the frame of the function that calls it.
        Ok(Then::Go(start))
    }

    /// The function of the program that R2 or R1 is, for a helper that calls it.
    fn function(&self, value: u64, helper: &'static str, number: u8) -> Result<u32, FaultKind> {
        match split(value) {
            (CODE, at) if self.ops.get(at as usize).is_some_and(|op| *op != Op::Half) => Ok(at),
            _ => Err(FaultKind::Argument(helper, number)),
        }
    }

    /// `bpf_loop()`: how often it called.
    fn repeat(&mut self) -> Result<u64, FaultKind> {
        let (rounds, context, flags) = (u64::from(self.r[1] as u32), self.r[3], self.r[4]);
        let function = self.function(self.r[2], "bpf_loop", 2)?;
        if flags != 0 {
            return Ok(Errno::INVAL.result());
        }
        if rounds > LOOPS {
            return Ok(Errno::TOO_BIG.result());
        }
        for round in 0..rounds {
            if self.callback(function, [round, context, 0, 0])? != 0 {
                return Ok(round + 1);
            }
        }
        Ok(rounds)
    }

    /// `bpf_for_each_map_elem()`: how many elements it called for.
    fn for_each(&mut self) -> Result<u64, FaultKind> {
        const NAME: &str = "bpf_for_each_map_elem";
        let map = self.map_number(self.r[1]).ok_or(FaultKind::Argument(NAME, 1))?;
        let function = self.function(self.r[2], NAME, 2)?;
        let (context, flags) = (self.r[3], self.r[4]);
        if !self.maps[map].spec().kind.changed_by_programs() {
            return Err(FaultKind::Argument(NAME, 1));
        }
        if flags != 0 {
            return Ok(Errno::INVAL.result());
        }
        let named = self.r[1];
        let (mut slot, mut called) = (0, 0);
        while let Some((found, at)) = self.maps[map].element_from(slot) {
            self.pay(u64::from(found - slot))?;
            slot = found + 1;
            called += 1;
            let key = self.key_of(map, found)?;
            let value = address(VALUES + map as u32, at);
            if self.callback(function, [named, key, value, context])? != 0 {
                break;
            }
        }
        Ok(called)
    }

    /// The address of a copy of an element's key, at the end of the stack, which belongs to the
    /// last frame. That frame has no room then, so callbacks may not go as deep as elsewhere.
    fn key_of(&mut self, map: usize, slot: u32) -> Result<u64, FaultKind> {
        let key = self.maps[map].key_of(slot);
        if self.depth + 2 >= DEPTH || key.len() > FRAME as usize {
            return Err(FaultKind::Depth);
        }
        let at = address(STACK, (DEPTH as u32 - 1) * FRAME_STEP);
        let place = self.memory_mut(at, key.len()).ok_or(FaultKind::Depth)?;
        place.copy_from_slice(&key);
        Ok(at)
    }

    fn packet(&mut self, size: Size, at: i32) -> Result<Then, FaultKind> {
        match call::load_packet(self, at, size as usize)? {
            Some(value) => {
                self.r[0] = value;
                Ok(Then::Next)
            }
            None => {
                self.r[0] = 0;
                // The function ends, as everywhere in the kernel.
                Ok(Then::Leave)
            }
        }
    }

    fn atomic(
        &mut self,
        op: Atomic,
        size: Size,
        dst: u8,
        src: u8,
        off: i16,
    ) -> Result<(), FaultKind> {
        if op == Atomic::Load {
            let value = self.load(self.place(src, off), size)?;
            self.set(dst, value);
            return Ok(());
        }
        let at = self.place(dst, off);
        let wrong = FaultKind::Write(at, size as u32);
        if !self.is_atomic(at, size) || self.memory(at, size as usize).is_none() {
            return Err(wrong);
        }
        let operand = alu::low(size, self.reg(src));
        let old = self.load(at, size)?;
        if op == Atomic::CompareExchange {
            let new = if old == alu::low(size, self.r[0]) { operand } else { old };
            self.store(at, size, new)?;
            self.r[0] = old;
            return Ok(());
        }
        self.store(at, size, alu::atomic(op, old, operand))?;
        match op {
            Atomic::FetchAdd
            | Atomic::FetchOr
            | Atomic::FetchAnd
            | Atomic::FetchXor
            | Atomic::Exchange => self.set(src, old),
            Atomic::Add
            | Atomic::Or
            | Atomic::And
            | Atomic::Xor
            | Atomic::CompareExchange
            | Atomic::Load
            | Atomic::Store => {}
        }
        Ok(())
    }
}
