// SPDX-License-Identifier: Apache-2.0

//! Why a program was ended while it ran.

use std::fmt;

/// What a program did that it may not. The kernel's verifier refuses most such programs beforehand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FaultKind {
    /// It read where it has no memory: address and length in bytes.
    Read(u64, u32),
    /// It wrote where it has no memory, or memory that is read only: address and length in bytes.
    Write(u64, u32),
    /// It accesses a field of its context otherwise than programs of its type may: offset and
    /// length in bytes.
    Context(u32, u32),
    /// Too many instructions.
    Steps,
    /// Functions call each other too deeply.
    Depth,
    /// An argument of a helper is none that it takes; the number counts from 1.
    Argument(&'static str, u8),
    /// The helper is for programs of another type, or for a packet that is not there.
    Unavailable(&'static str),
    /// `LD_ABS` or `LD_IND` in a program whose packet they cannot read.
    NoPacket,
    /// A verdict that programs of the type may not return.
    Verdict(u64),
    /// It ends without releasing connections that it has looked up, or holds too many.
    References,
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FaultKind::Read(at, len) => write!(f, "reads {len} bytes at {at:#x}"),
            FaultKind::Write(at, len) => write!(f, "writes {len} bytes at {at:#x}"),
            FaultKind::Context(at, len) => {
                write!(f, "accesses {len} bytes at {at} of its context")
            }
            FaultKind::Steps => f.write_str("runs too long"),
            FaultKind::Depth => f.write_str("calls functions too deeply"),
            FaultKind::Argument(helper, number) => {
                write!(f, "calls {helper} with a wrong argument {number}")
            }
            FaultKind::Unavailable(helper) => {
                write!(f, "calls {helper}, which its type does not have")
            }
            FaultKind::NoPacket => f.write_str("loads from a packet that its type does not have"),
            FaultKind::References => f.write_str("does not release its connections"),
            FaultKind::Verdict(verdict) => write!(f, "returns {verdict:#x}"),
        }
    }
}

/// Why and where a program was ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Why.
    pub kind: FaultKind,
    /// At which instruction of the program, from 0.
    pub at: u32,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "instruction {} {}", self.at, self.kind)
    }
}

impl std::error::Error for Fault {}
