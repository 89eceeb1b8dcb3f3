// SPDX-License-Identifier: Apache-2.0

//! What stands in for machine code in a build without a code generator.

use super::{CompileError, Source};
use crate::code::{Code, Function};
use crate::context::ProgramKind;
use crate::fault::FaultKind;
use crate::run::Run;

/// Makes no code.
pub(crate) fn make(_: &Source) -> Result<Code, CompileError> {
    Err(CompileError("this build has no code generator (feature `cranelift`)".into()))
}

impl Run<'_> {
    /// Runs a program from its beginning to its end: R0.
    pub(crate) fn program_from(
        &mut self,
        _: Option<Function>,
        start: u32,
        _: ProgramKind,
    ) -> Result<u64, FaultKind> {
        self.clear_registers();
        self.until(start)
    }

    /// Runs a function to its end: R0.
    pub(crate) fn function_from(&mut self, start: u32, _: ProgramKind) -> Result<u64, FaultKind> {
        self.until(start)
    }
}
