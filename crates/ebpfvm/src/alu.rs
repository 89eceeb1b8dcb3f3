// SPDX-License-Identifier: Apache-2.0

//! Arithmetic as RFC 9669 has it: a division by zero gives 0, the remainder of one leaves the
//! dividend, shifts take the low bits of their count.

use crate::op::{Alu, Atomic, Cond, Order, Size};

#[inline]
pub(crate) fn alu64(op: Alu, a: u64, b: u64) -> u64 {
    match op {
        Alu::Add => a.wrapping_add(b),
        Alu::Sub => a.wrapping_sub(b),
        Alu::Mul => a.wrapping_mul(b),
        Alu::Div => a.checked_div(b).unwrap_or(0),
        Alu::SDiv if b == 0 => 0,
        Alu::SDiv => (a as i64).wrapping_div(b as i64) as u64,
        Alu::Mod => a.checked_rem(b).unwrap_or(a),
        Alu::SMod if b == 0 => a,
        Alu::SMod => (a as i64).wrapping_rem(b as i64) as u64,
        Alu::Or => a | b,
        Alu::And => a & b,
        Alu::Xor => a ^ b,
        Alu::Lsh => a.wrapping_shl(b as u32),
        Alu::Rsh => a.wrapping_shr(b as u32),
        Alu::Arsh => (a as i64).wrapping_shr(b as u32) as u64,
        Alu::Mov => b,
        Alu::Mov8 => i64::from(b as i8) as u64,
        Alu::Mov16 => i64::from(b as i16) as u64,
        Alu::Mov32 => i64::from(b as i32) as u64,
    }
}

#[inline]
pub(crate) fn alu32(op: Alu, a: u32, b: u32) -> u64 {
    u64::from(match op {
        Alu::Add => a.wrapping_add(b),
        Alu::Sub => a.wrapping_sub(b),
        Alu::Mul => a.wrapping_mul(b),
        Alu::Div => a.checked_div(b).unwrap_or(0),
        Alu::SDiv if b == 0 => 0,
        Alu::SDiv => (a as i32).wrapping_div(b as i32) as u32,
        Alu::Mod => a.checked_rem(b).unwrap_or(a),
        Alu::SMod if b == 0 => a,
        Alu::SMod => (a as i32).wrapping_rem(b as i32) as u32,
        Alu::Or => a | b,
        Alu::And => a & b,
        Alu::Xor => a ^ b,
        Alu::Lsh => a.wrapping_shl(b),
        Alu::Rsh => a.wrapping_shr(b),
        Alu::Arsh => (a as i32).wrapping_shr(b) as u32,
        Alu::Mov | Alu::Mov32 => b,
        Alu::Mov8 => i32::from(b as i8) as u32,
        Alu::Mov16 => i32::from(b as i16) as u32,
    })
}

#[inline]
pub(crate) fn holds64(cond: Cond, a: u64, b: u64) -> bool {
    match cond {
        Cond::Eq => a == b,
        Cond::Gt => a > b,
        Cond::Ge => a >= b,
        Cond::Set => a & b != 0,
        Cond::Ne => a != b,
        Cond::SGt => (a as i64) > b as i64,
        Cond::SGe => a as i64 >= b as i64,
        Cond::Lt => a < b,
        Cond::Le => a <= b,
        Cond::SLt => (a as i64) < b as i64,
        Cond::SLe => a as i64 <= b as i64,
    }
}

#[inline]
pub(crate) fn holds32(cond: Cond, a: u32, b: u32) -> bool {
    match cond {
        Cond::SGt | Cond::SGe | Cond::SLt | Cond::SLe => {
            holds64(cond, i64::from(a as i32) as u64, i64::from(b as i32) as u64)
        }
        _ => holds64(cond, u64::from(a), u64::from(b)),
    }
}

#[inline]
pub(crate) fn end(order: Order, value: u64) -> u64 {
    match order {
        Order::Le16 => value & 0xffff,
        Order::Le32 => value & 0xffff_ffff,
        Order::Le64 => value,
        Order::Be16 | Order::Swap16 => u64::from((value as u16).swap_bytes()),
        Order::Be32 | Order::Swap32 => u64::from((value as u32).swap_bytes()),
        Order::Be64 | Order::Swap64 => value.swap_bytes(),
    }
}

/// What stands in memory after an operation other than a comparison.
#[inline]
pub(crate) fn atomic(op: Atomic, old: u64, operand: u64) -> u64 {
    match op {
        Atomic::Add | Atomic::FetchAdd => old.wrapping_add(operand),
        Atomic::Or | Atomic::FetchOr => old | operand,
        Atomic::And | Atomic::FetchAnd => old & operand,
        Atomic::Xor | Atomic::FetchXor => old ^ operand,
        Atomic::Exchange | Atomic::CompareExchange | Atomic::Store => operand,
        Atomic::Load => old,
    }
}

/// The low bytes of a value, with their sign.
#[inline]
pub(crate) fn signed(size: Size, value: u64) -> u64 {
    match size {
        Size::B => i64::from(value as i8) as u64,
        Size::H => i64::from(value as i16) as u64,
        Size::W => i64::from(value as i32) as u64,
        Size::D => value,
    }
}

/// The low bytes of a value.
#[inline]
pub(crate) fn low(size: Size, value: u64) -> u64 {
    match size {
        Size::B => value & 0xff,
        Size::H => value & 0xffff,
        Size::W => value & 0xffff_ffff,
        Size::D => value,
    }
}
