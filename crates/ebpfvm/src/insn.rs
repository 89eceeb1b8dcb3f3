// SPDX-License-Identifier: Apache-2.0

//! Instructions in their encoding (RFC 9669, section 3; `<linux/bpf.h>`), little-endian.

/// One instruction of eight bytes; those with a constant of 64 bits are two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Insn {
    /// Class, operation and mode.
    pub code: u8,
    /// Destination register.
    pub dst: u8,
    /// Source register, or what a constant means.
    pub src: u8,
    /// Offset of an address, or of a jump in instructions.
    pub off: i16,
    /// Constant.
    pub imm: i32,
}

impl Insn {
    /// Bytes of one.
    pub const LEN: usize = 8;

    /// From its bytes.
    pub fn read(bytes: &[u8; Insn::LEN]) -> Insn {
        let [code, regs, off0, off1, imm @ ..] = *bytes;
        Insn {
            code,
            dst: regs & 15,
            src: regs >> 4,
            off: i16::from_le_bytes([off0, off1]),
            imm: i32::from_le_bytes(imm),
        }
    }

    /// Its bytes.
    pub fn bytes(self) -> [u8; Insn::LEN] {
        let [off0, off1] = self.off.to_le_bytes();
        let [a, b, c, d] = self.imm.to_le_bytes();
        [self.code, self.dst & 15 | self.src << 4, off0, off1, a, b, c, d]
    }

    /// The instructions of a section or file; nothing if its length is no multiple of
    /// [`Insn::LEN`].
    pub fn read_all(bytes: &[u8]) -> Option<Vec<Insn>> {
        let (chunks, rest) = bytes.as_chunks();
        rest.is_empty().then(|| chunks.iter().map(Insn::read).collect())
    }
}

/// Classes: the low three bits.
pub mod class {
    #![allow(missing_docs)]
    pub const LD: u8 = 0;
    pub const LDX: u8 = 1;
    pub const ST: u8 = 2;
    pub const STX: u8 = 3;
    pub const ALU: u8 = 4;
    pub const JMP: u8 = 5;
    pub const JMP32: u8 = 6;
    pub const ALU64: u8 = 7;
}

/// The second operand is a register.
pub const X: u8 = 8;

/// Modes of accesses to memory: the high three bits.
pub mod mode {
    #![allow(missing_docs)]
    pub const IMM: u8 = 0x00;
    pub const ABS: u8 = 0x20;
    pub const IND: u8 = 0x40;
    pub const MEM: u8 = 0x60;
    pub const MEMSX: u8 = 0x80;
    pub const ATOMIC: u8 = 0xc0;
}

/// What the constant of 64 bits is: the source register of the instruction.
pub mod pseudo {
    #![allow(missing_docs)]
    pub const MAP_FD: u8 = 1;
    pub const MAP_VALUE: u8 = 2;
    pub const BTF_ID: u8 = 3;
    pub const FUNC: u8 = 4;
    /// Of a call: a function of the program.
    pub const CALL: u8 = 1;
    /// Of a call: a kfunc.
    pub const KFUNC_CALL: u8 = 2;
}

/// The opcode of a constant of 64 bits, the first of two instructions.
pub const LOAD_IMM64: u8 = 0x18;
/// The opcode of calls.
pub const CALL: u8 = 0x85;
/// The opcode that ends a function.
pub const EXIT: u8 = 0x95;
