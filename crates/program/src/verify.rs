// SPDX-License-Identifier: Apache-2.0

//! The verifier: what the kernel refuses in the program of a rule when it is loaded.
//!
//! Registers exist and hold what is asked of them, nothing is read that was not written before
//! (`nft_parse_register_load()` since Linux 6.13), operands have sizes that the expressions take,
//! verdicts go into the verdict register only. Names of chains, loops and types are checked by the
//! ruleset.

use std::fmt;

use crate::Register;
use crate::expr::*;
use crate::state::{BadLimit, Bucket};

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
    /// The kernel's error number.
    pub fn errno(&self) -> i32 {
        const ENOENT: i32 = 2;
        const EINVAL: i32 = 22;
        const ERANGE: i32 = 34;
        const ENODATA: i32 = 61;
        const EOVERFLOW: i32 = 75;
        const EOPNOTSUPP: i32 = 95;
        match self {
            Reason::NoSuchRegister(_) | Reason::OutOfBounds(_) | Reason::TooLarge => ERANGE,
            Reason::Uninitialized(_) => ENODATA,
            Reason::NoSuchSet => ENOENT,
            Reason::Key | Reason::Misplaced => EOPNOTSUPP,
            Reason::Overflow => EOVERFLOW,
            Reason::VerdictRegister
            | Reason::VerdictElsewhere(_)
            | Reason::Empty
            | Reason::NotSuchAMap
            | Reason::Constant
            | Reason::Operand(_) => EINVAL,
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

/// Verifies the program of a rule in a table of family `nfproto` (`NFPROTO_*`).
pub fn verify(exprs: &[Expr], nfproto: u8, sets: &dyn Sets) -> Result<(), VerifyError> {
    let mut written = 0u16;
    for (expression, expr) in exprs.iter().enumerate() {
        operands(expr)
            .and_then(|()| registers(expr, nfproto, sets, &mut written))
            .map_err(|reason| VerifyError { expression, reason })?;
    }
    Ok(())
}

/// Checks the registers of one expression; `written` has a bit for each slot that holds something.
fn registers(expr: &Expr, nfproto: u8, sets: &dyn Sets, written: &mut u16) -> Result<(), Reason> {
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
            Use::Verdict(Register::VERDICT) => match expr {
                Expr::Lookup(x) if !sets.is_verdict_map(&x.set) => Err(Reason::NotSuchAMap),
                _ => Ok(()),
            },
            Use::Verdict(register) => Err(Reason::VerdictElsewhere(register)),
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
    expr.uses(nfproto, &mut |access| {
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

fn constant(data: &crate::Data) -> Result<(), Reason> {
    if (1..=CONSTANT).contains(&data.bytes().len()) { Ok(()) } else { Err(Reason::Constant) }
}

fn refuse(wrong: bool, reason: Reason) -> Result<(), Reason> {
    if wrong { Err(reason) } else { Ok(()) }
}

const BYTE: u32 = u8::MAX as u32;

/// Checks what is not a register.
fn operands(expr: &Expr) -> Result<(), Reason> {
    match expr {
        Expr::Immediate(x) => match &x.data {
            ImmediateData::Value(data) => constant(data),
            ImmediateData::Verdict(_) => Ok(()),
        },
        Expr::Payload(x) => {
            refuse(x.base == PayloadBase::Tunnel, Reason::Misplaced)?;
            refuse(x.offset > u32::from(u16::MAX) || x.len > BYTE, Reason::TooLarge)
        }
        Expr::PayloadSet(x) => {
            refuse(x.base == PayloadBase::Tunnel, Reason::Misplaced)?;
            refuse(x.offset > BYTE || x.len > BYTE || x.csum_offset > BYTE, Reason::TooLarge)?;
            refuse(
                x.csum_flags & !L4CSUM_PSEUDOHDR != 0,
                Reason::Operand("a checksum flag is unknown"),
            )?;
            let sctp = x.csum_type == ChecksumType::Sctp;
            let fits = x.base == PayloadBase::Transport && x.csum_offset == 8;
            refuse(
                sctp && !fits,
                Reason::Operand("the CRC of SCTP is at byte 8 of the transport header"),
            )
        }
        Expr::MetaSet(x) => match x.key {
            MetaKey::Mark
            | MetaKey::Priority
            | MetaKey::SecMark
            | MetaKey::NfTrace
            | MetaKey::PktType
            | MetaKey::BriBroute => Ok(()),
            _ => Err(Reason::Key),
        },
        Expr::Meta(x) => {
            refuse(matches!(x.key, MetaKey::NfTrace | MetaKey::BriBroute), Reason::Key)
        }
        Expr::Cmp(x) => constant(&x.data),
        Expr::Range(x) => {
            constant(&x.from)?;
            constant(&x.to)?;
            refuse(
                x.from.bytes().len() != x.to.bytes().len(),
                Reason::Operand("the ends of a range differ in length"),
            )?;
            refuse(!matches!(x.op, CmpOp::Eq | CmpOp::Neq), Reason::Operand("a range is eq or neq"))
        }
        Expr::Bitwise(x) => {
            refuse(x.len > BYTE, Reason::TooLarge)?;
            match &x.op {
                BitwiseOp::MaskXor { mask, xor } => {
                    constant(mask)?;
                    constant(xor)?;
                    let fits = |data: &crate::Data| data.bytes().len() == x.len as usize;
                    refuse(
                        !fits(mask) || !fits(xor),
                        Reason::Operand("mask and xor are as long as the register"),
                    )
                }
                BitwiseOp::Lshift(bits) | BitwiseOp::Rshift(bits) => {
                    refuse(!(1..32).contains(bits), Reason::Operand("a shift is by 1 to 31 bits"))
                }
                BitwiseOp::Combine(..) => Ok(()),
            }
        }
        Expr::Byteorder(x) => {
            refuse(!matches!(x.size, 2 | 4 | 8), Reason::Operand("numbers have 2, 4 or 8 bytes"))?;
            refuse(x.len > BYTE, Reason::TooLarge)
        }
        Expr::Lookup(x) => refuse(
            x.inverse && x.dreg.is_some(),
            Reason::Operand("a lookup that fails to find has nothing to load"),
        ),
        Expr::Limit(x) => match Bucket::new(x) {
            Ok(_) => Ok(()),
            Err(BadLimit::ZeroRate) => Err(Reason::Operand("the rate is not zero")),
            Err(BadLimit::Overflow) => Err(Reason::Overflow),
        },
        Expr::Quota(x) => refuse(x.bytes > i64::MAX as u64, Reason::Overflow),
        Expr::Log(x) => {
            let both = x.group.is_some() && (x.level.is_some() || x.flags.is_some());
            refuse(both, Reason::Operand("a log has a level or a group"))?;
            refuse(x.level.is_some_and(|l| l > 8), Reason::Operand("the log level is unknown"))?;
            refuse(x.prefix.as_ref().is_some_and(|p| p.len() > 127), Reason::TooLarge)
        }
        Expr::Exthdr(x) => refuse(x.offset > BYTE || x.len > BYTE, Reason::TooLarge),
        Expr::ExthdrSet(x) => {
            refuse(x.op != ExthdrOp::TcpOpt, Reason::Misplaced)?;
            refuse(x.offset > BYTE || x.len > BYTE, Reason::TooLarge)?;
            refuse(x.offset < 2, Reason::Misplaced)?;
            refuse(
                !matches!(x.len, 2 | 4),
                Reason::Operand("2 or 4 bytes of an option can be written"),
            )
        }
        Expr::ExthdrReset(x) => refuse(x.op != ExthdrOp::TcpOpt, Reason::Misplaced),
        Expr::Numgen(x) => {
            refuse(x.modulus == 0, Reason::TooLarge)?;
            refuse(x.offset.checked_add(x.modulus - 1).is_none(), Reason::Overflow)
        }
        Expr::Hash(Hash::Jenkins { modulus, offset, len, .. }) => {
            refuse(*len == 0 || *len > BYTE || *modulus < 1, Reason::TooLarge)?;
            refuse(offset.checked_add(modulus - 1).is_none(), Reason::Overflow)
        }
        Expr::Hash(Hash::Sym { modulus, offset, .. }) => {
            refuse(*modulus < 1, Reason::TooLarge)?;
            refuse(offset.checked_add(modulus - 1).is_none(), Reason::Overflow)
        }
        Expr::Fib(x) => {
            const ALL: u32 = FIB_SADDR | FIB_DADDR | FIB_MARK | FIB_IIF | FIB_OIF | FIB_PRESENT;
            let one = |a: u32, b: u32| (x.flags & a != 0) != (x.flags & b != 0);
            refuse(x.flags & !ALL != 0 || x.flags == 0, Reason::Operand("a fib flag is unknown"))?;
            refuse(
                !one(FIB_SADDR, FIB_DADDR),
                Reason::Operand("fib looks up the source or the destination"),
            )?;
            refuse(
                x.flags & FIB_PRESENT != 0 && x.result != FibResult::Oif,
                Reason::Operand("fib tells of an index only whether it is there"),
            )?;
            let both = FIB_IIF | FIB_OIF;
            refuse(x.flags & both == both, Reason::Operand("fib looks at one interface"))
        }
        Expr::Dynset(x) => x.exprs.iter().try_for_each(|e| match e {
            Expr::Counter(_)
            | Expr::Limit(_)
            | Expr::Quota(_)
            | Expr::Last(_)
            | Expr::Connlimit(_) => operands(e),
            _ => Err(Reason::Misplaced),
        }),
        Expr::Inner(x) => {
            let all = INNER_HDRSIZE | INNER_LINK | INNER_NETWORK | INNER_TRANSPORT;
            refuse(x.flags & !all != 0, Reason::Operand("a flag of inner is unknown"))?;
            refuse(x.kind > BYTE, Reason::TooLarge)?;
            let told = x.flags & INNER_HDRSIZE != 0;
            refuse(
                told && (x.hdrsize == 0 || x.hdrsize > INNER_HDRSIZE_MAX) || x.hdrsize > BYTE,
                Reason::Operand("the header of a tunnel has 1 to 64 bytes"),
            )?;
            match &*x.expr {
                Expr::Payload(p) => {
                    refuse(p.base == PayloadBase::Inner, Reason::Misplaced)?;
                    refuse(p.offset > u32::from(u16::MAX) || p.len > BYTE, Reason::TooLarge)
                }
                Expr::Meta(Meta { key: MetaKey::Protocol | MetaKey::L4Proto, .. }) => Ok(()),
                _ => Err(Reason::Misplaced),
            }
        }
        Expr::Queue(x) => {
            refuse(x.sreg.is_none() && x.total == 0, Reason::Operand("there is no queue"))
        }
        Expr::Reject(x) => {
            let codes = if x.kind == RejectType::IcmpxUnreach { 3 } else { BYTE as u8 };
            refuse(x.code > codes, Reason::Operand("the code is unknown"))
        }
        Expr::Last(_)
        | Expr::Counter(_)
        | Expr::Connlimit(_)
        | Expr::Objref(_)
        | Expr::Rt(_)
        | Expr::Ct(_)
        | Expr::CtSet(_)
        | Expr::Notrack
        | Expr::Nat(_)
        | Expr::Masq(_)
        | Expr::Redir(_)
        | Expr::Dup(_)
        | Expr::Fwd(_)
        | Expr::Tproxy(_)
        | Expr::Synproxy(_)
        | Expr::Socket(_)
        | Expr::Osf(_)
        | Expr::Xfrm(_)
        | Expr::Tunnel(_)
        | Expr::FlowOffload(_)
        | Expr::Xt(_) => Ok(()),
    }
}
