// SPDX-License-Identifier: Apache-2.0

//! What stands in for the compiler in a build without a code generator: it refuses.

use std::any::Any;
use std::sync::Arc;

use penstock_program::Image;

use crate::{CompileError, Compiled, Helpers, List, Options};

/// No code exists in such a build, so no value of this type does.
#[derive(Debug)]
pub(crate) enum Code {}

/// Nothing looks at tables.
pub(crate) type Tables = ();

impl Code {
    pub(crate) fn size(&self) -> u64 {
        match *self {}
    }
}

/// Whether code can be made for this machine.
///
/// # Errors
/// Always: the build has no code generator.
pub fn supported() -> Result<(), CompileError> {
    Err(refusal())
}

fn refusal() -> CompileError {
    CompileError::Machine("this build has no code generator (feature `jit`)".into())
}

/// Makes code for hook lists.
///
/// # Errors
/// Always: the build has no code generator.
pub fn compile<I>(
    _image: Arc<I>,
    _lists: &[List],
    _helpers: &'static Helpers,
    _options: Options,
) -> Result<Compiled, CompileError>
where
    I: AsRef<Image> + Any + Send + Sync,
{
    Err(refusal())
}
