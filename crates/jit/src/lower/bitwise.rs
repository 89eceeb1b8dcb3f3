// SPDX-License-Identifier: Apache-2.0

//! Computing on registers. Words are numbers in host order, as in the interpreter.

use penstock_program::expr::BoolOp;
use penstock_program::op::Op;

use super::{Flow, call};
use crate::asm::{Block, Value, Width};
use crate::frame::{Frame, Registers};

pub(super) fn mask_xor(
    f: &mut Frame<'_, '_>,
    src: u8,
    dst: u8,
    words: u8,
    [masks, xors]: &[[u32; 4]; 2],
    registers: &mut Registers,
) -> Flow {
    for (i, (mask, xor)) in (0..words).zip(masks.iter().zip(xors)) {
        if let Some(known) = registers.constant(src + i) {
            let number = known & mask ^ xor;
            let value = f.asm.word(number);
            registers.set_constant(dst + i, value, number);
            continue;
        }
        let mut value = f.word(registers, src + i);
        if *mask != u32::MAX {
            value = f.asm.and_number(value, u64::from(*mask));
        }
        if *xor != 0 {
            value = f.asm.xor_number(value, u64::from(*xor));
        }
        registers.set(dst + i, value);
    }
    Flow::Next
}

/// Word by word of two sources into the third register.
pub(super) fn combine(
    f: &mut Frame<'_, '_>,
    op: BoolOp,
    [src, other, dst]: [u8; 3],
    words: u8,
    registers: &mut Registers,
) -> Flow {
    for i in 0..words {
        let (a, b) = (f.word(registers, src + i), f.word(registers, other + i));
        let word = match op {
            BoolOp::And => f.asm.and(a, b),
            BoolOp::Or => f.asm.or(a, b),
            BoolOp::Xor => f.asm.xor(a, b),
        };
        registers.set(dst + i, word);
    }
    Flow::Next
}

pub(super) fn lshift(
    f: &mut Frame<'_, '_>,
    src: u8,
    dst: u8,
    words: u8,
    bits: u8,
    registers: &mut Registers,
) -> Flow {
    let mut carry: Option<Value> = None;
    for i in (0..words).rev() {
        let value = f.word(registers, src + i);
        let wide = f.asm.widen(value, Width::Long);
        let wide = f.asm.shift_left(wide, bits);
        let low = f.asm.narrow(wide, Width::Word);
        let word = carry.map_or(low, |carry| f.asm.or(low, carry));
        registers.set(dst + i, word);
        let high = f.asm.shift_right(wide, 32);
        carry = Some(f.asm.narrow(high, Width::Word));
    }
    Flow::Next
}

pub(super) fn rshift(
    f: &mut Frame<'_, '_>,
    src: u8,
    dst: u8,
    words: u8,
    bits: u8,
    registers: &mut Registers,
) -> Flow {
    let mut carry: Option<Value> = None;
    for i in 0..words {
        let value = f.word(registers, src + i);
        let wide = f.asm.widen(value, Width::Long);
        let wide = f.asm.shift_left(wide, 32);
        let wide = f.asm.shift_right(wide, bits);
        let high = f.asm.shift_right(wide, 32);
        let high = f.asm.narrow(high, Width::Word);
        let word = carry.map_or(high, |carry| f.asm.or(high, carry));
        registers.set(dst + i, word);
        carry = Some(f.asm.narrow(wide, Width::Word));
    }
    Flow::Next
}

/// [`Op::Byteorder`].
pub(super) fn byteorder(
    f: &mut Frame<'_, '_>,
    op: &Op,
    registers: &mut Registers,
    fail: Block,
) -> Flow {
    let Op::Byteorder { src, dst, len, size } = *op else {
        return call::any_or_break(f, op, registers, fail);
    };
    match (size, len) {
        (2, 2) => {
            let value = f.word(registers, src);
            let half = f.asm.narrow(value, Width::Half);
            let half = f.asm.swap_bytes(half);
            let swapped = f.asm.widen(half, Width::Word);
            // The rest of the word stays.
            let old = f.word(registers, dst);
            let old = f.asm.and_number(old, u64::from(0xffff_0000_u32));
            let word = f.asm.or(old, swapped);
            registers.set(dst, word);
        }
        (4, 4) => {
            let value = f.word(registers, src);
            let swapped = f.asm.swap_bytes(value);
            registers.set(dst, swapped);
        }
        (8, 8) => {
            let (first, second) = (f.word(registers, src), f.word(registers, src + 1));
            let (first, second) = (f.asm.swap_bytes(first), f.asm.swap_bytes(second));
            registers.set(dst, second);
            registers.set(dst + 1, first);
        }
        _ => return call::any_or_break(f, op, registers, fail),
    }
    Flow::Next
}
