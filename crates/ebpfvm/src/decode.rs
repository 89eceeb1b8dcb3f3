// SPDX-License-Identifier: Apache-2.0

//! From instructions in their encoding to those that the interpreter runs. What is decoded cannot
//! leave its program: all jumps have targets, and the end is not passed.

use std::fmt;

use crate::helper::Helper;
use crate::insn::{CALL, EXIT, Insn, LOAD_IMM64, X, class, mode, pseudo};
use crate::op::{Alu, Atomic, Cond, Op, Order, Size};
use crate::space::{CODE, MAPS, VALUES, address};

/// Why a program cannot run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodeError {
    /// The instruction, from 0.
    pub at: usize,
    /// What is wrong with it.
    pub what: DecodeErrorKind,
}

/// What is wrong with an instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DecodeErrorKind {
    /// There is no such instruction, or one of its fields should be zero.
    Unknown(u8),
    /// There is no such register, or R10 would be written.
    Register,
    /// A jump or call leads out of the program, or into the middle of an instruction.
    Target,
    /// Nothing ends the program.
    End,
    /// A division by the constant zero, or a shift by the width or more.
    Constant,
    /// A map that is not there.
    Map,
    /// A helper that is not there.
    Helper(i32),
    /// Too many instructions, or none.
    Length,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "instruction {}: ", self.at)?;
        match &self.what {
            DecodeErrorKind::Unknown(code) => write!(f, "{code:#04x} is not supported"),
            DecodeErrorKind::Register => f.write_str("no such register"),
            DecodeErrorKind::Target => f.write_str("a jump out of the program"),
            DecodeErrorKind::End => f.write_str("the program does not end here"),
            DecodeErrorKind::Constant => f.write_str("a division by zero, or a shift too far"),
            DecodeErrorKind::Map => f.write_str("no such map"),
            DecodeErrorKind::Helper(number) => write!(f, "helper {number} is not supported"),
            DecodeErrorKind::Length => f.write_str("too long or empty"),
        }
    }
}

impl std::error::Error for DecodeError {}

/// Instructions that a program may have (`BPF_COMPLEXITY_LIMIT_INSNS`).
const LONGEST: usize = 1_000_000;

/// Decodes a program.
///
/// A constant of 64 bits whose source register is 1 or 2 names a map by its number (`maps` are
/// there) in place of a descriptor; a call whose source register is 2 has the number of a kfunc
/// ([`Helper::number`]). Targets are counted from `base`, the place of the program in the machine.
///
/// # Errors
/// The first instruction that is wrong.
pub(crate) fn decode(insns: &[Insn], maps: usize, base: u32) -> Result<Vec<Op>, DecodeError> {
    let wrong = |at, what| DecodeError { at, what };
    if insns.is_empty() || insns.len() > LONGEST {
        return Err(wrong(0, DecodeErrorKind::Length));
    }
    let mut ops = Vec::with_capacity(insns.len());
    while let Some(insn) = insns.get(ops.len()) {
        let at = ops.len();
        let decoder = Decoder { insn: *insn, at, len: insns.len(), maps, base };
        if insn.code == LOAD_IMM64 {
            let next = insns.get(at + 1).ok_or(wrong(at, DecodeErrorKind::End))?;
            ops.push(decoder.load_imm64(next).map_err(|what| wrong(at, what))?);
            ops.push(Op::Half);
        } else {
            ops.push(decoder.decode().map_err(|what| wrong(at, what))?);
        }
    }
    for (at, op) in ops.iter().enumerate() {
        let to = match *op {
            Op::Jump(to)
            | Op::CallLocal(to)
            | Op::Jump64X(_, _, _, to)
            | Op::Jump32X(_, _, _, to)
            | Op::Jump64K { to, .. }
            | Op::Jump32K { to, .. } => to,
            Op::LoadImm(_, value) if insns.get(at).is_some_and(|i| i.src == pseudo::FUNC) => {
                value as u32
            }
            _ => continue,
        };
        if ops.get((to - base) as usize) == Some(&Op::Half) {
            return Err(wrong(at, DecodeErrorKind::Target));
        }
    }
    match ops.last() {
        Some(Op::Exit | Op::Jump(_)) => Ok(ops),
        _ => Err(wrong(ops.len() - 1, DecodeErrorKind::End)),
    }
}

/// One instruction at its place.
struct Decoder {
    insn: Insn,
    at: usize,
    len: usize,
    maps: usize,
    base: u32,
}

type Decoded = Result<Op, DecodeErrorKind>;

impl Decoder {
    fn unknown(&self) -> DecodeErrorKind {
        DecodeErrorKind::Unknown(self.insn.code)
    }

    /// Refuses what is not zero.
    fn zero(&self, is_zero: bool) -> Result<(), DecodeErrorKind> {
        if is_zero { Ok(()) } else { Err(self.unknown()) }
    }

    fn read(&self, register: u8) -> Result<u8, DecodeErrorKind> {
        if register <= 10 { Ok(register) } else { Err(DecodeErrorKind::Register) }
    }

    fn written(&self) -> Result<u8, DecodeErrorKind> {
        let dst = self.insn.dst;
        if dst < 10 { Ok(dst) } else { Err(DecodeErrorKind::Register) }
    }

    fn target(&self, by: i32) -> Result<u32, DecodeErrorKind> {
        let to = self.at as i64 + 1 + i64::from(by);
        match usize::try_from(to) {
            Ok(to) if to < self.len => Ok(self.base + to as u32),
            _ => Err(DecodeErrorKind::Target),
        }
    }

    fn decode(&self) -> Decoded {
        match self.insn.code & 7 {
            class::ALU | class::ALU64 => self.alu(),
            class::JMP | class::JMP32 => self.jump(),
            class::LDX => self.load(),
            class::ST | class::STX => self.store(),
            _ => self.packet(),
        }
    }

    fn load_imm64(&self, next: &Insn) -> Decoded {
        let Insn { src, off, imm, .. } = self.insn;
        let plain = next.code == 0 && next.dst == 0 && next.src == 0 && next.off == 0;
        self.zero(off == 0 && plain)?;
        let dst = self.written()?;
        let map = || match u32::try_from(imm) {
            Ok(map) if (map as usize) < self.maps => Ok(map),
            _ => Err(DecodeErrorKind::Map),
        };
        let value = match src {
            0 => u64::from(imm as u32) | u64::from(next.imm as u32) << 32,
            pseudo::MAP_FD => {
                self.zero(next.imm == 0)?;
                address(MAPS + map()?, 0)
            }
            pseudo::MAP_VALUE => address(VALUES + map()?, next.imm as u32),
            pseudo::FUNC => {
                self.zero(next.imm == 0)?;
                address(CODE, self.target(imm)?)
            }
            _ => return Err(self.unknown()),
        };
        Ok(Op::LoadImm(dst, value))
    }

    /// The byte order of a value, in class ALU, or swapped, in class ALU64.
    fn end(&self) -> Decoded {
        let Insn { code, src, off, imm, .. } = self.insn;
        self.zero(src == 0 && off == 0)?;
        let order = match (code, imm) {
            (0xd4, 16) => Order::Le16,
            (0xd4, 32) => Order::Le32,
            (0xd4, 64) => Order::Le64,
            (0xdc, 16) => Order::Be16,
            (0xdc, 32) => Order::Be32,
            (0xdc, 64) => Order::Be64,
            (0xd7, 16) => Order::Swap16,
            (0xd7, 32) => Order::Swap32,
            (0xd7, 64) => Order::Swap64,
            _ => return Err(self.unknown()),
        };
        Ok(Op::End(order, self.written()?))
    }

    fn alu(&self) -> Decoded {
        let Insn { code, src, off, imm, .. } = self.insn;
        let wide = code & 7 == class::ALU64;
        let from_register = code & X != 0;
        let alu = match (code >> 4, off) {
            (0xd, _) => return self.end(),
            (0x8, 0) => {
                self.zero(!from_register && src == 0 && imm == 0)?;
                let dst = self.written()?;
                return Ok(if wide { Op::Neg64(dst) } else { Op::Neg32(dst) });
            }
            (0x0, 0) => Alu::Add,
            (0x1, 0) => Alu::Sub,
            (0x2, 0) => Alu::Mul,
            (0x3, 0) => Alu::Div,
            (0x3, 1) => Alu::SDiv,
            (0x4, 0) => Alu::Or,
            (0x5, 0) => Alu::And,
            (0x6, 0) => Alu::Lsh,
            (0x7, 0) => Alu::Rsh,
            (0x9, 0) => Alu::Mod,
            (0x9, 1) => Alu::SMod,
            (0xa, 0) => Alu::Xor,
            (0xb, 0) => Alu::Mov,
            (0xb, 8) if from_register => Alu::Mov8,
            (0xb, 16) if from_register => Alu::Mov16,
            (0xb, 32) if from_register && wide => Alu::Mov32,
            (0xc, 0) => Alu::Arsh,
            _ => return Err(self.unknown()),
        };
        let dst = self.written()?;
        if from_register {
            self.zero(imm == 0)?;
            let src = self.read(src)?;
            return Ok(if wide { Op::Alu64X(alu, dst, src) } else { Op::Alu32X(alu, dst, src) });
        }
        self.zero(src == 0)?;
        let width = if wide { 64 } else { 32 };
        let sound = match alu {
            Alu::Div | Alu::SDiv | Alu::Mod | Alu::SMod => imm != 0,
            Alu::Lsh | Alu::Rsh | Alu::Arsh => (0..width).contains(&imm),
            _ => true,
        };
        if !sound {
            return Err(DecodeErrorKind::Constant);
        }
        Ok(if wide { Op::Alu64K(alu, dst, imm) } else { Op::Alu32K(alu, dst, imm) })
    }

    fn jump(&self) -> Decoded {
        let Insn { code, dst, src, off, imm } = self.insn;
        let wide = code & 7 == class::JMP;
        let from_register = code & X != 0;
        let cond = match code >> 4 {
            0x0 => {
                self.zero(!from_register && dst == 0 && src == 0)?;
                self.zero(if wide { imm == 0 } else { off == 0 })?;
                let by = if wide { i32::from(off) } else { imm };
                return Ok(Op::Jump(self.target(by)?));
            }
            0x8 | 0x9 => return self.call_or_exit(),
            0x1 => Cond::Eq,
            0x2 => Cond::Gt,
            0x3 => Cond::Ge,
            0x4 => Cond::Set,
            0x5 => Cond::Ne,
            0x6 => Cond::SGt,
            0x7 => Cond::SGe,
            0xa => Cond::Lt,
            0xb => Cond::Le,
            0xc => Cond::SLt,
            0xd => Cond::SLe,
            _ => return Err(self.unknown()),
        };
        let dst = self.read(dst)?;
        let to = self.target(i32::from(off))?;
        if from_register {
            self.zero(imm == 0)?;
            let src = self.read(src)?;
            let op = if wide { Op::Jump64X } else { Op::Jump32X };
            return Ok(op(cond, dst, src, to));
        }
        self.zero(src == 0)?;
        Ok(if wide {
            Op::Jump64K { cond, dst, imm, to }
        } else {
            Op::Jump32K { cond, dst, imm, to }
        })
    }

    fn call_or_exit(&self) -> Decoded {
        let Insn { code, dst, src, off, imm } = self.insn;
        self.zero(dst == 0 && off == 0)?;
        match (code, src) {
            (EXIT, 0) => {
                self.zero(imm == 0)?;
                Ok(Op::Exit)
            }
            (CALL, pseudo::CALL) => Ok(Op::CallLocal(self.target(imm)?)),
            (CALL, 0 | pseudo::KFUNC_CALL) => {
                let helper = Helper::of_number(imm)
                    .filter(|helper| helper.is_kfunc() == (src == pseudo::KFUNC_CALL));
                helper.map(Op::Call).ok_or(DecodeErrorKind::Helper(imm))
            }
            _ => Err(self.unknown()),
        }
    }

    fn size(&self) -> Size {
        match self.insn.code & 0x18 {
            0x00 => Size::W,
            0x08 => Size::H,
            0x10 => Size::B,
            _ => Size::D,
        }
    }

    fn load(&self) -> Decoded {
        let Insn { code, src, off, imm, .. } = self.insn;
        self.zero(imm == 0)?;
        let (size, dst, src) = (self.size(), self.written()?, self.read(src)?);
        match code & 0xe0 {
            mode::MEM => Ok(Op::Load { size, dst, src, off }),
            mode::MEMSX if size != Size::D => Ok(Op::LoadSigned { size, dst, src, off }),
            _ => Err(self.unknown()),
        }
    }

    fn store(&self) -> Decoded {
        let Insn { code, dst, src, off, imm } = self.insn;
        let (size, dst) = (self.size(), self.read(dst)?);
        match (code & 7, code & 0xe0) {
            (class::ST, mode::MEM) => {
                self.zero(src == 0)?;
                Ok(Op::StoreK { size, dst, off, imm })
            }
            (class::STX, mode::MEM) => {
                self.zero(imm == 0)?;
                Ok(Op::StoreX { size, dst, src: self.read(src)?, off })
            }
            (class::STX, mode::ATOMIC) => self.atomic(size, dst),
            _ => Err(self.unknown()),
        }
    }

    fn atomic(&self, size: Size, dst: u8) -> Decoded {
        let Insn { src, off, imm, .. } = self.insn;
        let op = match imm {
            0x00 => Atomic::Add,
            0x40 => Atomic::Or,
            0x50 => Atomic::And,
            0xa0 => Atomic::Xor,
            0x01 => Atomic::FetchAdd,
            0x41 => Atomic::FetchOr,
            0x51 => Atomic::FetchAnd,
            0xa1 => Atomic::FetchXor,
            0xe1 => Atomic::Exchange,
            0xf1 => Atomic::CompareExchange,
            0x100 => Atomic::Load,
            0x110 => Atomic::Store,
            _ => return Err(self.unknown()),
        };
        let loads = op == Atomic::Load;
        let wide = matches!(size, Size::W | Size::D);
        if !wide && !matches!(op, Atomic::Load | Atomic::Store) {
            return Err(self.unknown());
        }
        let src = self.read(src)?;
        // What a register receives is not R10.
        let fetches = imm & 1 != 0 && op != Atomic::CompareExchange;
        if fetches && src == 10 || loads && dst == 10 {
            return Err(DecodeErrorKind::Register);
        }
        Ok(Op::Atomic { op, size, dst, src, off })
    }

    fn packet(&self) -> Decoded {
        let Insn { code, dst, src, off, imm } = self.insn;
        self.zero(dst == 0 && off == 0)?;
        let size = self.size();
        match code & 0xe0 {
            mode::ABS if size != Size::D && src == 0 => Ok(Op::Absolute(size, imm)),
            mode::IND if size != Size::D => Ok(Op::Indirect(size, self.read(src)?, imm)),
            _ => Err(self.unknown()),
        }
    }
}
