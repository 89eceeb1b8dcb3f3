// SPDX-License-Identifier: Apache-2.0

//! A function in the making: its registers, its part of the run, and its blocks. Registers are values
//! of the code generator; the interpreter's are written only where another function, or the
//! interpreter, continues.

use std::collections::{BTreeMap, HashMap};
use std::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    AbiParam, Block, InstBuilder, MemFlagsData, SigRef, Type, Value, types,
};
use cranelift_frontend::{FunctionBuilder, Variable};
use cranelift_jit::JITModule;
use cranelift_module::{FuncId, Module};

use super::analysis::{Function, Hint};
use super::facts::{Fact, Facts, Window};
use super::field::packet_at;
use super::{Source, entry};
use crate::op::Size;
use crate::packet;
use crate::run::Run;
use crate::space::{CONTEXT, FRAME, FRAME_STEP, PACKET, STACK, address};
use crate::state::State;

/// What functions are made from.
#[derive(Clone, Copy)]
pub(super) struct Parts<'a> {
    pub(super) source: &'a Source,
    pub(super) functions: &'a [Function],
    pub(super) ids: &'a HashMap<u32, FuncId>,
}

/// A function in the making.
pub(super) struct Lowering<'a, 'b> {
    pub(super) b: FunctionBuilder<'a>,
    pub(super) module: &'b mut JITModule,
    pub(super) function: &'b Function,
    pub(super) from: Parts<'b>,
    /// The run, and its state.
    pub(super) run: Value,
    pub(super) state: Value,
    /// R0 to R9.
    registers: [Variable; 10],
    /// The limit of steps that is left, if the function uses it.
    steps: Variable,
    /// Where data and the room behind the packet begin, in its buffer.
    pub(super) data: Variable,
    pub(super) end: Variable,
    /// The address of the first byte of the packet, metadata included.
    pub(super) start: Variable,
    /// What is added to an address in the packet for the machine's address.
    pub(super) bias: Variable,
    /// Bytes from `start` that may be accessed, plus one.
    pub(super) places: Variable,
    /// Whether the function needs these five.
    pub(super) sees_packet: bool,
    /// The frame of this function: R10 less its length, and where that is for the machine.
    pub(super) frame: Value,
    pub(super) frame_at: Value,
    pub(super) facts: Facts,
    /// What is known where a block begins to which there is one way.
    pub(super) kept: BTreeMap<u32, Facts>,
    pub(super) blocks: BTreeMap<u32, Block>,
    signatures: [Option<SigRef>; 5],
    /// The instruction.
    pub(super) pc: u32,
}

/// Accesses to memory that was found good.
pub(super) fn good() -> MemFlagsData {
    MemFlagsData::new().with_notrap()
}

/// Where a register is in the state.
pub(super) fn register_at(register: u8) -> i32 {
    (offset_of!(State, r) + 8 * usize::from(register)) as i32
}

const STATE: i32 = offset_of!(Run<'static>, state) as i32;
const STEPS: i32 = offset_of!(State, steps) as i32;
const PC: i32 = offset_of!(State, pc) as i32;
const DEPTH_AT: i32 = offset_of!(State, depth) as i32;
const CONTEXT_AT: i32 = offset_of!(State, context_at) as i32;
pub(super) const LOADED: i32 = offset_of!(State, loaded) as i32;

pub(super) fn type_of(size: Size) -> Type {
    match size {
        Size::B => types::I8,
        Size::H => types::I16,
        Size::W => types::I32,
        Size::D => types::I64,
    }
}

impl<'a, 'b> Lowering<'a, 'b> {
    pub(super) fn new(
        module: &'b mut JITModule,
        mut b: FunctionBuilder<'a>,
        function: &'b Function,
        from: Parts<'b>,
    ) -> Self {
        let entry = b.create_block();
        b.append_block_params_for_function_params(entry);
        b.switch_to_block(entry);
        let run = b.block_params(entry).first().copied().unwrap_or(Value::from_u32(0));
        let registers = std::array::from_fn(|_| b.declare_var(types::I64));
        let [steps, data, end, start, bias, places] =
            std::array::from_fn(|_| b.declare_var(types::I64));
        let blocks = function.blocks.keys().map(|pc| (*pc, b.create_block())).collect();
        let state = b.ins().load(types::I64, good(), run, STATE);
        // A run begins with the first frame.
        let depth = match function.begins_runs() {
            true => b.ins().iconst(types::I64, 0),
            false => b.ins().load(types::I64, good(), state, DEPTH_AT),
        };
        let by = b.ins().imul_imm_u(depth, i64::from(FRAME_STEP));
        let stack = b.ins().iconst(types::I64, address(STACK, 0) as i64);
        let frame = b.ins().iadd(stack, by);
        let by = b.ins().imul_imm_u(depth, i64::from(FRAME));
        let stack = b.ins().iconst(types::I64, from.source.stack as i64);
        let frame_at = b.ins().iadd(stack, by);
        let mut lowering = Lowering {
            b,
            module,
            function,
            from,
            run,
            state,
            registers,
            steps,
            data,
            end,
            start,
            bias,
            places,
            sees_packet: function.sees_packet(),
            frame,
            frame_at,
            facts: Facts::default(),
            kept: BTreeMap::new(),
            blocks,
            signatures: [None; 5],
            pc: function.start,
        };
        let zero = lowering.number(0);
        let live = function.live.get(&function.start).copied().unwrap_or(0);
        for register in 0..10 {
            match live >> register & 1 {
                1 if !function.begins_runs() => lowering.take(register),
                _ => lowering.set(register, zero),
            }
        }
        if function.begins_runs() {
            let context = lowering.number(address(CONTEXT, 0));
            lowering.set(1, context);
            let fact = Fact { within: Some((Window::Context, 0, 0)), ..Fact::default() };
            lowering.facts.know(1, fact);
            lowering.keep(function.start);
        }
        lowering.take_steps();
        lowering.look();
        lowering
    }

    /// Continues with a block.
    pub(super) fn go(&mut self, to: u32) {
        self.keep(to);
        if let Some(block) = self.blocks.get(&to) {
            self.b.ins().jump(*block, &[]);
        }
    }

    /// What is known is known where this way leads, if there is no other.
    fn keep(&mut self, to: u32) {
        self.keep_facts(to, self.facts.clone());
    }

    pub(super) fn keep_facts(&mut self, to: u32, facts: Facts) {
        if self.function.blocks.get(&to) == Some(&1) {
            self.kept.insert(to, facts);
        }
    }

    // Values.

    pub(super) fn number(&mut self, number: u64) -> Value {
        self.b.ins().iconst(types::I64, number as i64)
    }

    pub(super) fn hint(&self, register: u8) -> Hint {
        self.function.hints.get(&self.pc).map_or(Hint::Unknown, |hints| hints.of(register))
    }

    pub(super) fn get(&mut self, register: u8) -> Value {
        match self.registers.get(usize::from(register)) {
            Some(variable) => self.b.use_var(*variable),
            None => self.b.ins().iadd_imm_u(self.frame, i64::from(FRAME)),
        }
    }

    /// Gives a register a value; what was known of it is not any more.
    pub(super) fn set(&mut self, register: u8, value: Value) {
        self.facts.forget(register);
        if let Some(variable) = self.registers.get(usize::from(register)) {
            self.b.def_var(*variable, value);
        }
    }

    // The run.

    pub(super) fn read(&mut self, at: i32) -> Value {
        self.b.ins().load(types::I64, good(), self.state, at)
    }

    pub(super) fn write(&mut self, value: Value, at: i32) {
        self.b.ins().store(good(), value, self.state, at);
    }

    /// Takes a register from the state.
    pub(super) fn take(&mut self, register: u8) {
        let value = self.read(register_at(register));
        self.set(register, value);
    }

    /// Leaves registers in the state, and the limit of steps.
    pub(super) fn leave(&mut self, registers: u16) {
        for register in (0..10).filter(|register| registers >> register & 1 != 0) {
            let value = self.get(register);
            self.write(value, register_at(register));
        }
        if self.function.pays {
            let steps = self.b.use_var(self.steps);
            self.write(steps, STEPS);
        }
    }

    pub(super) fn leave_pc(&mut self) {
        let pc = self.b.ins().iconst(types::I32, i64::from(self.pc));
        self.b.ins().store(good(), pc, self.state, PC);
    }

    pub(super) fn take_steps(&mut self) {
        if self.function.pays {
            let steps = self.read(STEPS);
            self.b.def_var(self.steps, steps);
        }
    }

    pub(super) fn depth(&mut self) -> Value {
        self.read(DEPTH_AT)
    }

    pub(super) fn set_depth(&mut self, depth: Value) {
        self.write(depth, DEPTH_AT);
    }

    /// Sees where the packet is.
    pub(super) fn look(&mut self) {
        self.facts.forget_packet();
        if !self.sees_packet {
            return;
        }
        let packet = packet_at(self.function.kind);
        let context = self.context();
        let [meta, data, end, buffer] =
            [packet::at::META, packet::at::DATA, packet::at::END, packet::at::BUFFER]
                .map(|at| self.b.ins().load(types::I64, good(), context, (packet + at) as i32));
        let region = self.number(address(PACKET, 0));
        let start = self.b.ins().iadd(meta, region);
        let bias = self.b.ins().isub(buffer, region);
        let len = self.b.ins().isub(end, meta);
        let places = self.b.ins().iadd_imm_s(len, 1);
        self.b.def_var(self.data, data);
        self.b.def_var(self.end, end);
        self.b.def_var(self.start, start);
        self.b.def_var(self.bias, bias);
        self.b.def_var(self.places, places);
    }

    /// The machine's address of what is known of the packet.
    pub(super) fn context(&mut self) -> Value {
        self.read(CONTEXT_AT)
    }

    pub(super) fn ret(&mut self, number: u64) {
        let number = self.number(number);
        self.b.ins().return_(&[number]);
    }

    /// Calls a function of [`entry`].
    pub(super) fn call(&mut self, address: usize, arguments: &[Value]) -> Value {
        let count = arguments.len();
        let signature = match self.signatures.get(count).copied().flatten() {
            Some(known) => known,
            None => {
                let mut signature = self.module.make_signature();
                signature.params = vec![AbiParam::new(types::I64); count];
                signature.returns = vec![AbiParam::new(types::I64)];
                let new = self.b.import_signature(signature);
                if let Some(place) = self.signatures.get_mut(count) {
                    *place = Some(new);
                }
                new
            }
        };
        let address = self.number(address as u64);
        let call = self.b.ins().call_indirect(signature, address, arguments);
        self.b.inst_results(call).first().copied().unwrap_or(address)
    }

    // Ways.

    /// Continues if the condition holds; otherwise the interpreter does from this instruction on.
    pub(super) fn guard(&mut self, holds: Value) {
        let (on, out) = (self.b.create_block(), self.b.create_block());
        self.b.set_cold_block(out);
        self.b.ins().brif(holds, on, &[], out, &[]);
        self.b.switch_to_block(out);
        let live = self.function.live.get(&self.pc).copied().unwrap_or(0);
        self.leave(live);
        self.leave_pc();
        self.ret(entry::INTERPRET);
        self.b.switch_to_block(on);
    }

    /// Returns a status unless it is 0.
    pub(super) fn return_unless_zero(&mut self, status: Value) {
        let (on, out) = (self.b.create_block(), self.b.create_block());
        self.b.set_cold_block(out);
        self.b.ins().brif(status, out, &[], on, &[]);
        self.b.switch_to_block(out);
        self.b.ins().return_(&[status]);
        self.b.switch_to_block(on);
    }

    /// Pays for a way back of so many steps.
    pub(super) fn pay(&mut self, cost: u64) {
        let steps = self.b.use_var(self.steps);
        let cost = self.number(cost);
        let enough = self.b.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, steps, cost);
        self.guard(enough);
        let left = self.b.ins().isub(steps, cost);
        self.b.def_var(self.steps, left);
    }

    /// What is left of the limit of steps.
    pub(super) fn steps(&mut self) -> Value {
        self.b.use_var(self.steps)
    }

    pub(super) fn set_steps(&mut self, steps: Value) {
        self.b.def_var(self.steps, steps);
    }
}
