// SPDX-License-Identifier: Apache-2.0

//! Checks of operands, and why a program is refused. [`verify`](mod@crate::verify) returns the
//! reasons to other crates.

use std::fmt;

use crate::{Data, Errno, Register};

/// Bytes of a constant (`struct nft_data`).
const CONSTANT: usize = 16;

/// Why a program is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// No register has this number.
    NoSuchRegister(Register),
    /// A verdict register is read, or written without a verdict.
    VerdictRegister,
    /// A verdict goes into another register.
    VerdictElsewhere(Register),
    /// The access is empty.
    Empty,
    /// The access passes the end of the registers.
    OutOfBounds(Register),
    /// The register was not written before, or not all of it.
    Uninitialized(Register),
    /// There is no such set.
    NoSuchSet,
    /// The set does not map to what is asked of it.
    NotSuchAMap,
    /// A constant is empty or longer than 16 bytes.
    Constant,
    /// An offset or length exceeds what the attribute takes.
    TooLarge,
    /// An operand that the expression does not take.
    Operand(&'static str),
    /// Unknown key for this purpose.
    Key,
    /// Not among the expressions that can be here.
    Misplaced,
    /// Rate and burst exceed 64 bits.
    Overflow,
}

impl Reason {
    /// The kernel's error.
    pub fn errno(&self) -> Errno {
        match self {
            Reason::NoSuchRegister(_) | Reason::OutOfBounds(_) | Reason::TooLarge => Errno::Erange,
            Reason::Uninitialized(_) => Errno::Enodata,
            Reason::NoSuchSet => Errno::Enoent,
            Reason::Key | Reason::Misplaced => Errno::Eopnotsupp,
            Reason::Overflow => Errno::Eoverflow,
            Reason::VerdictRegister
            | Reason::VerdictElsewhere(_)
            | Reason::Empty
            | Reason::NotSuchAMap
            | Reason::Constant
            | Reason::Operand(_) => Errno::Einval,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::NoSuchRegister(r) => write!(f, "there is no {r}"),
            Reason::VerdictRegister => {
                f.write_str("the verdict register takes and gives verdicts only")
            }
            Reason::VerdictElsewhere(r) => write!(f, "a verdict does not go into {r}"),
            Reason::Empty => f.write_str("no byte is accessed"),
            Reason::OutOfBounds(r) => {
                write!(f, "the access to {r} passes the end of the registers")
            }
            Reason::Uninitialized(r) => write!(f, "{r} is read before it is written"),
            Reason::NoSuchSet => f.write_str("there is no such set"),
            Reason::NotSuchAMap => f.write_str("the set does not map to what is loaded"),
            Reason::Constant => f.write_str("a constant has 1 to 16 bytes"),
            Reason::TooLarge => f.write_str("an offset or length is too large"),
            Reason::Operand(what) => f.write_str(what),
            Reason::Key => f.write_str("the key cannot be used so"),
            Reason::Misplaced => f.write_str("the expression cannot stand here"),
            Reason::Overflow => f.write_str("rate and burst exceed 64 bits"),
        }
    }
}

/// Checks the length of a constant.
pub(crate) fn constant(data: &Data) -> Result<(), Reason> {
    refuse(!(1..=CONSTANT).contains(&data.bytes().len()), Reason::Constant)
}

/// An error if something is wrong.
pub(crate) fn refuse(wrong: bool, reason: Reason) -> Result<(), Reason> {
    if wrong { Err(reason) } else { Ok(()) }
}

/// The most that an attribute of a byte takes.
pub(crate) const BYTE: u32 = u8::MAX as u32;
