// SPDX-License-Identifier: Apache-2.0

//! The verifier: what the kernel refuses in the program of a rule when it is loaded.
//!
//! Registers exist and hold what is asked of them, nothing is read that was not written before
//! (`nft_parse_register_load()` since Linux 6.13), operands have sizes that the expressions take,
//! verdicts go into the verdict register only. Names of chains, loops and types are checked by the
//! ruleset.

use std::fmt;

use crate::expr::{Expr, Use, Width};
use crate::{Family, Register};

pub use crate::check::Reason;

/// Bytes of all registers.
const REGISTERS: u32 = 64;
/// What programs need to know of the sets that they name.
pub trait Sets {
    /// Bytes of a key; `None` if there is no such set.
    fn key_len(&self, set: &str) -> Option<u32>;
    /// Bytes of a map's values; `None` for sets and for maps of verdicts or objects.
    fn value_len(&self, set: &str) -> Option<u32>;
    /// Whether it maps to verdicts.
    fn is_verdict_map(&self, set: &str) -> bool;
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
