// SPDX-License-Identifier: Apache-2.0

//! Instructions as the interpreter runs them: decoded once, with targets of jumps as indexes.

use crate::helper::Helper;

/// Arithmetic of two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Alu {
    Add,
    Sub,
    Mul,
    Div,
    SDiv,
    Mod,
    SMod,
    Or,
    And,
    Xor,
    Lsh,
    Rsh,
    Arsh,
    Mov,
    /// The low byte with its sign.
    Mov8,
    /// The low 16 bits with their sign.
    Mov16,
    /// The low 32 bits with their sign.
    Mov32,
}

/// Condition of a jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Cond {
    Eq,
    Gt,
    Ge,
    Set,
    Ne,
    SGt,
    SGe,
    Lt,
    Le,
    SLt,
    SLe,
}

/// Width of an access to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Size {
    B = 1,
    H = 2,
    W = 4,
    D = 8,
}

/// Change of a byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Order {
    Le16,
    Le32,
    Le64,
    Be16,
    Be32,
    Be64,
    Swap16,
    Swap32,
    Swap64,
}

/// What is done to a word of memory at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Atomic {
    Add,
    Or,
    And,
    Xor,
    FetchAdd,
    FetchOr,
    FetchAnd,
    FetchXor,
    Exchange,
    CompareExchange,
    Load,
    Store,
}

/// One instruction. Registers are below 11, targets below the number of instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Op {
    Alu64X(Alu, u8, u8),
    Alu64K(Alu, u8, i32),
    Alu32X(Alu, u8, u8),
    Alu32K(Alu, u8, i32),
    Neg64(u8),
    Neg32(u8),
    End(Order, u8),
    LoadImm(u8, u64),
    Jump(u32),
    Jump64X(Cond, u8, u8, u32),
    Jump64K {
        cond: Cond,
        dst: u8,
        imm: i32,
        to: u32,
    },
    Jump32X(Cond, u8, u8, u32),
    Jump32K {
        cond: Cond,
        dst: u8,
        imm: i32,
        to: u32,
    },
    Load {
        size: Size,
        dst: u8,
        src: u8,
        off: i16,
    },
    LoadSigned {
        size: Size,
        dst: u8,
        src: u8,
        off: i16,
    },
    StoreX {
        size: Size,
        dst: u8,
        src: u8,
        off: i16,
    },
    StoreK {
        size: Size,
        dst: u8,
        off: i16,
        imm: i32,
    },
    Atomic {
        op: Atomic,
        size: Size,
        dst: u8,
        src: u8,
        off: i16,
    },
    /// From the packet of a socket filter or a filter of tc, in network byte order, into R0.
    Absolute(Size, i32),
    /// The same, with a register added to the place.
    Indirect(Size, u8, i32),
    Call(Helper),
    CallLocal(u32),
    Exit,
    /// The second half of a constant of 64 bits: no jump may lead here.
    Half,
}
