// SPDX-License-Identifier: Apache-2.0

//! All that this crate knows of Cranelift: functions made of blocks of instructions on numbers, and
//! the memory that their machine code is in.
//!
//! Functions take and give 64-bit numbers. Values have 8, 16, 32 or 64 bits; an operation takes its
//! width from its operands.

use std::sync::Mutex;

use cranelift_codegen::Context;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    self, AbiParam, InstBuilder, MemFlagsData, Signature, StackSlotData, StackSlotKind, types,
};
use cranelift_codegen::settings::{self, Configurable};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{FuncId, Module, default_libcall_names};

use crate::CompileError;
use crate::host::Address;

pub(crate) use cranelift_codegen::ir::{Block, Value};
pub(crate) use cranelift_module::FuncId as Function;

/// Widths of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Width {
    Byte,
    Half,
    Word,
    Long,
}

impl Width {
    fn of(self) -> ir::Type {
        match self {
            Width::Byte => types::I8,
            Width::Half => types::I16,
            Width::Word => types::I32,
            Width::Long => types::I64,
        }
    }
}

/// Comparisons; all but equality as unsigned numbers unless they say otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Is {
    Equal,
    NotEqual,
    Below,
    NotAbove,
    SignedBelow,
}

impl Is {
    fn of(self) -> IntCC {
        match self {
            Is::Equal => IntCC::Equal,
            Is::NotEqual => IntCC::NotEqual,
            Is::Below => IntCC::UnsignedLessThan,
            Is::NotAbove => IntCC::UnsignedLessThanOrEqual,
            Is::SignedBelow => IntCC::SignedLessThan,
        }
    }
}

/// Machine code in the making.
pub(crate) struct Session {
    module: JITModule,
    context: Context,
    functions: FunctionBuilderContext,
    pointer: ir::Type,
    /// Functions so far.
    defined: Vec<Defined>,
}

/// A function and how its code is laid out.
struct Defined {
    function: FuncId,
    size: u32,
    /// Stretches that were marked by [`Asm::mark`]: first byte, one past the last, the number.
    marks: Vec<(u32, u32, u32)>,
}

impl Session {
    /// # Errors
    /// This machine is none that code can be made for.
    pub(crate) fn new(verify: bool) -> Result<Self, CompileError> {
        let mut flags = settings::builder();
        let mut set = |name, value| {
            flags
                .set(name, value)
                .map_err(|e| CompileError::Machine(format!("setting {name}: {e}")))
        };
        set("use_colocated_libcalls", "false")?;
        set("is_pic", "false")?;
        // Loads are shared and moved before they get here: what optimization finds beyond that is
        // not worth its time.
        set("opt_level", "none")?;
        set("enable_probestack", "false")?;
        set("unwind_info", "false")?;
        set("enable_verifier", if verify { "true" } else { "false" })?;
        let isa = cranelift_native_isa(settings::Flags::new(flags))?;
        let pointer = isa.pointer_type();
        if pointer != types::I64 || isa.endianness() != ir::Endianness::Little {
            return Err(CompileError::Machine(
                "code is made for 64-bit little-endian machines".into(),
            ));
        }
        let module = JITModule::new(JITBuilder::with_isa(isa, default_libcall_names()));
        let (context, functions) = (module.make_context(), FunctionBuilderContext::new());
        Ok(Session { module, context, functions, pointer, defined: Vec::new() })
    }

    fn signature(&self, parameters: usize) -> Signature {
        let mut signature = self.module.make_signature();
        signature.params = vec![AbiParam::new(types::I64); parameters];
        signature.returns = vec![AbiParam::new(types::I64)];
        signature
    }

    /// Announces a function, so that others can call it.
    pub(crate) fn declare(&mut self, parameters: usize) -> Result<Function, CompileError> {
        let signature = self.signature(parameters);
        self.module.declare_anonymous_function(&signature).map_err(CompileError::code)
    }

    /// Defines a function. `body` gets its parameters in a block that nothing goes back to, and
    /// ends all blocks.
    pub(crate) fn define<T>(
        &mut self,
        function: Function,
        parameters: usize,
        body: impl FnOnce(&mut Asm<'_>, &[Value]) -> T,
    ) -> Result<T, CompileError> {
        self.context.func.signature = self.signature(parameters);
        let mut builder = FunctionBuilder::new(&mut self.context.func, &mut self.functions);
        let entry = builder.create_block();
        builder.append_block_params_for_function_params(entry);
        builder.switch_to_block(entry);
        let values = builder.block_params(entry).to_vec();
        let pointer = self.pointer;
        let config = self.module.target_config();
        let mut asm =
            Asm { builder, module: &mut self.module, pointer, signatures: [None; 9], calls: 0 };
        let result = body(&mut asm, &values);
        let mut builder = asm.builder;
        builder.seal_all_blocks();
        builder.finalize(config);
        let defined = self.module.define_function(function, &mut self.context);
        let code = self.context.compiled_code();
        let size = code.map_or(0, |code| code.code_info().total_size);
        let marks = code.map_or(&[][..], |code| code.buffer.get_srclocs_sorted());
        // Without a mark it is the largest number.
        let number = |mark: u32| if mark == ir::SourceLoc::default().bits() { 0 } else { mark };
        let marks = marks.iter().map(|m| (m.start, m.end, number(m.loc.bits()))).collect();
        self.module.clear_context(&mut self.context);
        defined.map_err(CompileError::code)?;
        self.defined.push(Defined { function, size, marks });
        Ok(result)
    }

    /// Makes all defined functions ready to run.
    pub(crate) fn finish(mut self) -> Result<Code, CompileError> {
        self.module.finalize_definitions().map_err(CompileError::code)?;
        let functions = self.defined;
        Ok(Code { module: Some(Mutex::new(self.module)), functions })
    }
}

fn cranelift_native_isa(
    flags: settings::Flags,
) -> Result<cranelift_codegen::isa::OwnedTargetIsa, CompileError> {
    let builder = cranelift_native::builder().map_err(|e| CompileError::Machine(e.into()))?;
    builder.finish(flags).map_err(CompileError::code)
}

/// Finished machine code. Its memory is freed when this is dropped.
pub(crate) struct Code {
    module: Option<Mutex<JITModule>>,
    functions: Vec<Defined>,
}

impl Code {
    /// Where a function begins.
    pub(crate) fn address(&self, function: Function) -> Option<*const u8> {
        let module = self.module.as_ref()?.lock().ok()?;
        let defined = self.functions.iter().any(|f| f.function == function);
        defined.then(|| module.get_finalized_function(function))
    }

    /// Addresses and lengths of stretches of code with the numbers that they were marked with; 0
    /// for what was not marked.
    pub(crate) fn stretches(&self) -> Vec<(usize, u32, u32)> {
        let mut all = Vec::new();
        for f in &self.functions {
            let Some(start) = self.address(f.function).map(|a| a.addr()) else { continue };
            let mut at = 0;
            for &(first, end, number) in f.marks.iter().chain(&[(f.size, f.size, 0)]) {
                if at < first {
                    all.push((start + at as usize, first - at, 0));
                }
                if first < end {
                    all.push((start + first as usize, end - first, number));
                }
                at = end;
            }
        }
        all
    }

    /// Bytes of all functions.
    pub(crate) fn size(&self) -> u64 {
        self.functions.iter().map(|f| u64::from(f.size)).sum()
    }
}

impl Drop for Code {
    fn drop(&mut self) {
        let Some(module) = self.module.take() else { return };
        let module = module.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        // SAFETY: addresses of functions leave this crate only inside of calls through a
        // `Compiled`, which holds this value for as long as the call lasts; so nothing runs the
        // code now, and nothing can call it later.
        unsafe { module.free_memory() };
    }
}

/// A function in the making.
pub(crate) struct Asm<'a> {
    builder: FunctionBuilder<'a>,
    module: &'a mut JITModule,
    pointer: ir::Type,
    signatures: [Option<ir::SigRef>; 9],
    /// Calls so far that may need a host.
    pub(crate) calls: usize,
}

impl Asm<'_> {
    // Blocks.

    pub(crate) fn block(&mut self) -> Block {
        self.builder.create_block()
    }

    /// A block that is seldom reached.
    pub(crate) fn cold_block(&mut self) -> Block {
        let block = self.builder.create_block();
        self.builder.set_cold_block(block);
        block
    }

    /// A block that is entered with a number.
    pub(crate) fn block_with(&mut self, width: Width) -> (Block, Value) {
        let block = self.builder.create_block();
        let value = self.builder.append_block_param(block, width.of());
        (block, value)
    }

    /// Another number that a block is entered with.
    pub(crate) fn parameter(&mut self, block: Block, width: Width) -> Value {
        self.builder.append_block_param(block, width.of())
    }

    /// What follows goes to `block`; the one before has ended.
    pub(crate) fn at(&mut self, block: Block) {
        self.builder.switch_to_block(block);
    }

    pub(crate) fn jump(&mut self, to: Block) {
        self.builder.ins().jump(to, &[]);
    }

    pub(crate) fn jump_with(&mut self, to: Block, value: Value) {
        self.builder.ins().jump(to, &[value.into()]);
    }

    /// Jumps to a block with all values that it is entered with.
    pub(crate) fn jump_with_all(&mut self, to: Block, values: &[Value]) {
        let values: Vec<_> = values.iter().map(|value| (*value).into()).collect();
        self.builder.ins().jump(to, &values);
    }

    pub(crate) fn branch(&mut self, condition: Value, yes: Block, no: Block) {
        self.builder.ins().brif(condition, yes, &[], no, &[]);
    }

    /// Jumps to a block with all values that it is entered with if the condition holds, else to one
    /// without any.
    pub(crate) fn branch_with_all(
        &mut self,
        condition: Value,
        (yes, values): (Block, &[Value]),
        no: Block,
    ) {
        let values: Vec<_> = values.iter().map(|value| (*value).into()).collect();
        self.builder.ins().brif(condition, yes, &values, no, &[]);
    }

    /// Leaves to `out` if the condition holds, and continues otherwise.
    pub(crate) fn leave_if(&mut self, condition: Value, out: Block) {
        let on = self.block();
        self.branch(condition, out, on);
        self.at(on);
    }

    /// Leaves to `out` unless the condition holds.
    pub(crate) fn leave_unless(&mut self, condition: Value, out: Block) {
        let on = self.block();
        self.branch(condition, on, out);
        self.at(on);
    }

    pub(crate) fn ret(&mut self, value: Value) {
        self.builder.ins().return_(&[value]);
    }

    /// What follows is about a number other than 0.
    pub(crate) fn mark(&mut self, number: u32) {
        self.builder.set_srcloc(ir::SourceLoc::new(number));
    }

    // Numbers.

    pub(crate) fn number(&mut self, width: Width, number: u64) -> Value {
        let signed = match width {
            Width::Byte => i64::from(number as u8 as i8),
            Width::Half => i64::from(number as u16 as i16),
            Width::Word => i64::from(number as u32 as i32),
            Width::Long => number as i64,
        };
        self.builder.ins().iconst(width.of(), signed)
    }

    pub(crate) fn long(&mut self, number: u64) -> Value {
        self.number(Width::Long, number)
    }

    pub(crate) fn word(&mut self, number: u32) -> Value {
        self.number(Width::Word, number.into())
    }

    fn like(&mut self, value: Value, number: u64) -> Value {
        let width = match self.builder.func.dfg.value_type(value).bits() {
            8 => Width::Byte,
            16 => Width::Half,
            32 => Width::Word,
            _ => Width::Long,
        };
        self.number(width, number)
    }

    pub(crate) fn is(&mut self, a: Value, is: Is, b: Value) -> Value {
        self.builder.ins().icmp(is.of(), a, b)
    }

    pub(crate) fn is_number(&mut self, a: Value, is: Is, number: u64) -> Value {
        let b = self.like(a, number);
        self.is(a, is, b)
    }

    pub(crate) fn add(&mut self, a: Value, b: Value) -> Value {
        self.builder.ins().iadd(a, b)
    }

    pub(crate) fn multiply(&mut self, a: Value, b: Value) -> Value {
        self.builder.ins().imul(a, b)
    }

    /// The upper half of the product of two numbers of 64 bits.
    pub(crate) fn multiply_high(&mut self, a: Value, b: Value) -> Value {
        self.builder.ins().umulhi(a, b)
    }

    pub(crate) fn sub(&mut self, a: Value, b: Value) -> Value {
        self.builder.ins().isub(a, b)
    }

    pub(crate) fn and(&mut self, a: Value, b: Value) -> Value {
        self.builder.ins().band(a, b)
    }

    pub(crate) fn and_number(&mut self, a: Value, number: u64) -> Value {
        let b = self.like(a, number);
        self.and(a, b)
    }

    pub(crate) fn or(&mut self, a: Value, b: Value) -> Value {
        self.builder.ins().bor(a, b)
    }

    pub(crate) fn xor(&mut self, a: Value, b: Value) -> Value {
        self.builder.ins().bxor(a, b)
    }

    pub(crate) fn xor_number(&mut self, a: Value, number: u64) -> Value {
        let b = self.like(a, number);
        self.builder.ins().bxor(a, b)
    }

    pub(crate) fn shift_left(&mut self, a: Value, bits: u8) -> Value {
        let bits = self.like(a, bits.into());
        self.builder.ins().ishl(a, bits)
    }

    pub(crate) fn shift_right(&mut self, a: Value, bits: u8) -> Value {
        let bits = self.like(a, bits.into());
        self.builder.ins().ushr(a, bits)
    }

    /// Shifts to the left by another value, modulo the width of `a`.
    pub(crate) fn shift_left_by(&mut self, a: Value, bits: Value) -> Value {
        self.builder.ins().ishl(a, bits)
    }

    /// Shifts to the right by another value, modulo the width of `a`.
    pub(crate) fn shift_right_by(&mut self, a: Value, bits: Value) -> Value {
        self.builder.ins().ushr(a, bits)
    }

    pub(crate) fn swap_bytes(&mut self, a: Value) -> Value {
        self.builder.ins().bswap(a)
    }

    /// To a larger width, with zeros.
    pub(crate) fn widen(&mut self, a: Value, width: Width) -> Value {
        self.builder.ins().uextend(width.of(), a)
    }

    /// To a smaller width.
    pub(crate) fn narrow(&mut self, a: Value, width: Width) -> Value {
        self.builder.ins().ireduce(width.of(), a)
    }

    pub(crate) fn select(&mut self, condition: Value, yes: Value, no: Value) -> Value {
        self.builder.ins().select(condition, yes, no)
    }

    // Memory.

    /// Loads from an address that is good whenever this point is reached.
    pub(crate) fn load(&mut self, width: Width, base: Value, offset: usize) -> Value {
        self.builder.ins().load(width.of(), MemFlagsData::new().with_notrap(), base, offset as i32)
    }

    /// An element of the array at an address, by its number.
    pub(crate) fn element(&mut self, width: Width, array: u64, at: Value) -> Value {
        let array = self.long(array);
        let bits = match width {
            Width::Byte => 0,
            Width::Half => 1,
            Width::Word => 2,
            Width::Long => 3,
        };
        let offset = self.shift_left(at, bits);
        let address = self.add(array, offset);
        self.load(width, address, 0)
    }

    pub(crate) fn store(&mut self, value: Value, base: Value, offset: usize) {
        self.builder.ins().store(MemFlagsData::new().with_notrap(), value, base, offset as i32);
    }

    /// The address of new memory on the stack, of `bytes` bytes at a multiple of 16.
    pub(crate) fn stack(&mut self, bytes: u32) -> Value {
        let slot = self.builder.create_sized_stack_slot(StackSlotData::new(
            StackSlotKind::ExplicitSlot,
            bytes,
            4,
        ));
        self.builder.ins().stack_addr(self.pointer, slot, 0)
    }

    // Calls.

    /// As [`Session::declare`].
    pub(crate) fn declare(&mut self, parameters: usize) -> Result<Function, CompileError> {
        let mut signature = self.module.make_signature();
        signature.params = vec![AbiParam::new(types::I64); parameters];
        signature.returns = vec![AbiParam::new(types::I64)];
        self.module.declare_anonymous_function(&signature).map_err(CompileError::code)
    }

    /// Calls a function of this session.
    pub(crate) fn call(&mut self, function: Function, arguments: &[Value]) -> Value {
        self.calls += 1;
        let function = self.module.declare_func_in_func(function, self.builder.func);
        let call = self.builder.ins().call(function, arguments);
        self.builder.inst_results(call)[0]
    }

    /// Calls a function of this session by its address, as an indirect call.
    pub(crate) fn call_by_address(&mut self, function: Function, arguments: &[Value]) -> Value {
        self.calls += 1;
        let function = self.module.declare_func_in_func(function, self.builder.func);
        let signature = self.builder.func.dfg.ext_funcs[function].signature;
        let address = self.builder.ins().func_addr(self.pointer, function);
        let call = self.builder.ins().call_indirect(signature, address, arguments);
        self.builder.inst_results(call)[0]
    }

    /// Calls an `extern "C"` function of the program, which takes and gives 64-bit numbers and
    /// pointers.
    pub(crate) fn call_address(&mut self, address: Address, arguments: &[Value]) -> Value {
        self.calls += 1;
        self.call_without_host(address, arguments)
    }

    /// Calls an `extern "C"` function that needs no host: it does not count among [`Asm::calls`].
    pub(crate) fn call_without_host(&mut self, address: Address, arguments: &[Value]) -> Value {
        let parameters = arguments.len();
        let signature = match self.signatures.get(parameters).copied().flatten() {
            Some(known) => known,
            None => {
                let mut signature = self.module.make_signature();
                signature.params = vec![AbiParam::new(types::I64); parameters];
                signature.returns = vec![AbiParam::new(types::I64)];
                let imported = self.builder.import_signature(signature);
                if let Some(place) = self.signatures.get_mut(parameters) {
                    *place = Some(imported);
                }
                imported
            }
        };
        let address = self.long(address.number());
        let call = self.builder.ins().call_indirect(signature, address, arguments);
        self.builder.inst_results(call)[0]
    }
}
