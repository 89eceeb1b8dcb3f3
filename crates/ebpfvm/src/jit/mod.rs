// SPDX-License-Identifier: Apache-2.0

//! Machine code for programs, by Cranelift.
//!
//! The interpreter says what an instruction means. Machine code does what is common, and leaves the
//! rest of the function to the interpreter, at any instruction: it stores the registers and says
//! where it stopped. So it makes no faults of its own: an access that is not in bounds, or a jump
//! that the limit of steps does not allow, is done again by the interpreter, which says why not.
//!
//! | module | it is |
//! | --- | --- |
//! | `source` | what code is made from |
//! | `analysis` | functions, what registers probably have, which of them matter |
//! | `generate` | from these to finished code |
//! | `lower`, `facts` | a function in the making, and what is known at a place in it |
//! | `instruction` | instructions; `access` to memory; `call` of helpers and functions |
//! | `field` | where fields of contexts are |
//! | `entry` | from Rust to code, and from code to Rust |
//! | `without` | what stands in for all that without the feature `cranelift` |

mod source;

#[cfg(feature = "cranelift")]
mod access;
#[cfg(feature = "cranelift")]
mod analysis;
#[cfg(feature = "cranelift")]
mod call;
#[cfg(feature = "cranelift")]
mod entry;
#[cfg(feature = "cranelift")]
mod facts;
#[cfg(feature = "cranelift")]
mod field;
#[cfg(feature = "cranelift")]
mod generate;
#[cfg(feature = "cranelift")]
mod instruction;
#[cfg(feature = "cranelift")]
mod lower;
#[cfg(not(feature = "cranelift"))]
mod without;

use std::fmt;

#[cfg(feature = "cranelift")]
pub(crate) use generate::make;
pub(crate) use source::Source;
#[cfg(not(feature = "cranelift"))]
pub(crate) use without::make;

/// Why there is no machine code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompileError(pub(crate) String);

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no machine code: {}", self.0)
    }
}

impl std::error::Error for CompileError {}
