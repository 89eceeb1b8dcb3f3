// SPDX-License-Identifier: Apache-2.0

//! The verifier: what the kernel refuses in the program of a rule when it is loaded.
//!
//! Registers exist and hold what is asked of them, nothing is read that was not written before
//! (`nft_parse_register_load()` since Linux 6.13), operands have sizes that the expressions take,
//! verdicts go into the verdict register only. Names of chains, loops and types are checked by the
//! ruleset.

use std::fmt;

use crate::expr::{Expr, Use, Width};
use crate::{Data, Errno, Family, Register};

/// Bytes of all registers.
const REGISTERS: u32 = 64;
/// Bytes of a constant (`struct nft_data`).
const CONSTANT: usize = 16;

/// What programs need to know of the sets that they name.
pub trait Sets {
    /// Bytes of a key; `None` if there is no such set.
    fn key_len(&self, set: &str) -> Option<u32>;
    /// Bytes of a map's values; `None` for sets and for maps of verdicts or objects.
    fn value_len(&self, set: &str) -> Option<u32>;
    /// Whether it maps to verdicts.
    fn is_verdict_map(&self, set: &str) -> bool;
}

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

/// A program that is refused, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerifyError {
    /// Number of the expression, from 0.
    pub expression: usize,
    /// Why.
    pub reason: Reason,
}

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expression {}: {}", self.expression, self.reason)
    }
}

impl std::error::Error for VerifyError {}

/// Verifies the program of a rule in a table of a family.
///
/// # Errors
/// Which expression is refused, and why.
pub fn verify(exprs: &[Expr], family: Family, sets: &dyn Sets) -> Result<(), VerifyError> {
    let mut written = 0u16;
    for (expression, expr) in exprs.iter().enumerate() {
        expr.verify()
            .and_then(|()| registers(expr, family, sets, &mut written))
            .map_err(|reason| VerifyError { expression, reason })?;
    }
    Ok(())
}

/// Checks the registers of one expression; `written` has a bit for each slot that holds something.
fn registers(
    expr: &Expr,
    family: Family,
    sets: &dyn Sets,
    written: &mut u16,
) -> Result<(), Reason> {
    let mut uses = Ok(());
    let mut check = |access: Use| -> Result<(), Reason> {
        let bytes = |width: Width| match width {
            Width::Bytes(bytes) => Ok(bytes),
            Width::Key(set) => sets.key_len(set).ok_or(Reason::NoSuchSet),
            Width::Value(set) => {
                sets.key_len(set).ok_or(Reason::NoSuchSet)?;
                sets.value_len(set).ok_or(Reason::NotSuchAMap)
            }
        };
        match access {
            Use::Verdict(Register::VERDICT, map) => match map {
                Some(map) if !sets.is_verdict_map(map) => Err(Reason::NotSuchAMap),
                Some(_) | None => Ok(()),
            },
            Use::Verdict(register, _) => Err(Reason::VerdictElsewhere(register)),
            Use::Read(register, width) => {
                let mask = slots(register, bytes(width)?)?;
                if *written & mask == mask { Ok(()) } else { Err(Reason::Uninitialized(register)) }
            }
            Use::Write(register, width) => {
                *written |= slots(register, bytes(width)?)?;
                Ok(())
            }
        }
    };
    expr.uses(family, &mut |access| {
        if uses.is_ok() {
            uses = check(access);
        }
    });
    uses
}

/// The slots that an access covers.
fn slots(register: Register, len: u32) -> Result<u16, Reason> {
    if register == Register::VERDICT {
        return Err(Reason::VerdictRegister);
    }
    let slot = register.slot().ok_or(Reason::NoSuchRegister(register))? as u32;
    if len == 0 {
        return Err(Reason::Empty);
    }
    if slot * 4 + len > REGISTERS {
        return Err(Reason::OutOfBounds(register));
    }
    let count = len.div_ceil(4);
    Ok((((1u32 << count) - 1) << slot) as u16)
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
