// SPDX-License-Identifier: Apache-2.0

//! From programs to finished code.

use std::collections::HashMap;
use std::fmt;
use std::panic::catch_unwind;
use std::sync::{Mutex, PoisonError};

use cranelift_codegen::CodegenError;
use cranelift_codegen::ir::{AbiParam, types};
use cranelift_codegen::settings::{self, Configurable};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{Module, ModuleError, default_libcall_names};

use super::analysis;
use super::lower::{Lowering, Parts};
use super::{CompileError, Source};
use crate::code::{Code, Compiled, Function};

/// Makes code for all functions of programs. What the code generator finds wrong with its input is
/// an error, and so is a panic of its own where panics unwind: the interpreter continues.
pub(crate) fn make(source: &Source) -> Result<Code, CompileError> {
    catch_unwind(|| generate(source)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        Err(CompileError(format!("the code generator failed: {}", text.unwrap_or("a panic"))))
    })
}

fn generate(source: &Source) -> Result<Code, CompileError> {
    fn wrong(error: impl fmt::Display) -> CompileError {
        CompileError(error.to_string())
    }
    let found = analysis::functions(&source.ops, &source.programs)?;
    let mut flags = settings::builder();
    for (name, value) in [
        ("use_colocated_libcalls", "false"),
        ("is_pic", "false"),
        ("opt_level", "speed"),
        ("enable_probestack", "false"),
        ("unwind_info", "false"),
        // Objects are other people's, and a panic of later passes would end the process.
        ("enable_verifier", "true"),
    ] {
        flags.set(name, value).map_err(wrong)?;
    }
    let isa = cranelift_native::builder().map_err(wrong)?;
    let isa = isa.finish(settings::Flags::new(flags)).map_err(wrong)?;
    if isa.pointer_type() != types::I64 || cfg!(target_endian = "big") {
        return Err(wrong("code is made for 64-bit little-endian machines"));
    }
    let module = JITModule::new(JITBuilder::with_isa(isa, default_libcall_names()));
    let mut memory = Memory(Some(Mutex::new(module)));
    let Some(module) = &mut memory.0 else { return Err(wrong("no memory")) };
    let module = module.get_mut().unwrap_or_else(PoisonError::into_inner);
    let mut signature = module.make_signature();
    signature.params = vec![AbiParam::new(types::I64)];
    signature.returns = vec![AbiParam::new(types::I64)];
    let mut ids = HashMap::new();
    for function in &found {
        let id = module.declare_anonymous_function(&signature).map_err(wrong)?;
        ids.insert(function.start, id);
    }
    let mut context = module.make_context();
    let mut builders = FunctionBuilderContext::new();
    let config = module.target_config();
    for function in &found {
        let Some(id) = ids.get(&function.start) else { continue };
        context.func.signature = signature.clone();
        let from = Parts { source, functions: &found, ids: &ids };
        let builder = FunctionBuilder::new(&mut context.func, &mut builders);
        let builder = Lowering::new(module, builder, function, from).finish();
        builder.finalize(config);
        module.define_function(*id, &mut context).map_err(|error| match error {
            ModuleError::Compilation(CodegenError::Verifier(errors)) => wrong(errors),
            other => wrong(other),
        })?;
        module.clear_context(&mut context);
    }
    module.finalize_definitions().map_err(wrong)?;
    let mut functions = vec![None; source.ops.len()];
    for function in &found {
        let Some(id) = ids.get(&function.start) else { continue };
        let address = module.get_finalized_function(*id);
        // SAFETY: the function has just been defined with the signature of this type.
        let address = unsafe { std::mem::transmute::<*const u8, Function>(address) };
        if let Some(place) = functions.get_mut(function.start as usize) {
            let (kind, begins_runs) = (function.kind, function.begins_runs());
            *place = Some(Compiled { function: address, kind, begins_runs });
        }
    }
    Ok(Code::new(functions, source.maps.clone(), source.stack, Box::new(memory)))
}

/// The memory that code is in, from the first function on that is put there.
struct Memory(Option<Mutex<JITModule>>);

impl Drop for Memory {
    fn drop(&mut self) {
        let Some(module) = self.0.take() else { return };
        let module = module.into_inner().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: functions run only during calls of `Run::function_from`, which has a reference to
        // the `Code` that this belongs to; so nothing runs them now, and nothing can call them later.
        unsafe { module.free_memory() };
    }
}
