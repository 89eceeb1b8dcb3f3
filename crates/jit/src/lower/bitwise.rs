// SPDX-License-Identifier: Apache-2.0

//! Computing on registers. Words are numbers in host order, as in the interpreter.

use penstock_program::expr::BoolOp;
use penstock_program::op::Op;

use super::{Flow, call};
use crate::asm::{Block, Value, Width};
use crate::lowering_ctx::{LoweringCtx, Registers};

pub(super) fn mask_xor(
    ctx: &mut LoweringCtx<'_, '_>,
    src: u8,
    dst: u8,
    words: u8,
    [masks, xors]: &[[u32; 4]; 2],
    registers: &mut Registers,
) -> Flow {
    for (i, (mask, xor)) in (0..words).zip(masks.iter().zip(xors)) {
        if let Some(known) = registers.constant(src + i) {
            let number = known & mask ^ xor;
            let value = ctx.asm.word(number);
            registers.set_constant(dst + i, value, number);
            continue;
        }
        let mut value = ctx.word(registers, src + i);
        if *mask != u32::MAX {
            value = ctx.asm.and_number(value, u64::from(*mask));
        }
        if *xor != 0 {
            value = ctx.asm.xor_number(value, u64::from(*xor));
        }
        registers.set(dst + i, value);
    }
    Flow::Next
}

/// Word by word of two sources into the third register.
pub(super) fn combine(
    ctx: &mut LoweringCtx<'_, '_>,
    op: BoolOp,
    [src, other, dst]: [u8; 3],
    words: u8,
    registers: &mut Registers,
) -> Flow {
    for i in 0..words {
        let (a, b) = (ctx.word(registers, src + i), ctx.word(registers, other + i));
        let word = match op {
            BoolOp::And => ctx.asm.and(a, b),
            BoolOp::Or => ctx.asm.or(a, b),
            BoolOp::Xor => ctx.asm.xor(a, b),
        };
        registers.set(dst + i, word);
    }
    Flow::Next
}

pub(super) fn lshift(
    ctx: &mut LoweringCtx<'_, '_>,
    src: u8,
    dst: u8,
    words: u8,
    bits: u8,
    registers: &mut Registers,
) -> Flow {
    let mut carry: Option<Value> = None;
    for i in (0..words).rev() {
        let value = ctx.word(registers, src + i);
        let wide = ctx.asm.widen(value, Width::Long);
        let wide = ctx.asm.shift_left(wide, bits);
        let low = ctx.asm.narrow(wide, Width::Word);
        let word = carry.map_or(low, |carry| ctx.asm.or(low, carry));
        registers.set(dst + i, word);
        let high = ctx.asm.shift_right(wide, 32);
        carry = Some(ctx.asm.narrow(high, Width::Word));
    }
    Flow::Next
}

pub(super) fn rshift(
    ctx: &mut LoweringCtx<'_, '_>,
    src: u8,
    dst: u8,
    words: u8,
    bits: u8,
    registers: &mut Registers,
) -> Flow {
    let mut carry: Option<Value> = None;
    for i in 0..words {
        let value = ctx.word(registers, src + i);
        let wide = ctx.asm.widen(value, Width::Long);
        let wide = ctx.asm.shift_left(wide, 32);
        let wide = ctx.asm.shift_right(wide, bits);
        let high = ctx.asm.shift_right(wide, 32);
        let high = ctx.asm.narrow(high, Width::Word);
        let word = carry.map_or(high, |carry| ctx.asm.or(high, carry));
        registers.set(dst + i, word);
        carry = Some(ctx.asm.narrow(wide, Width::Word));
    }
    Flow::Next
}

/// [`Op::Byteorder`].
pub(super) fn byteorder(
    ctx: &mut LoweringCtx<'_, '_>,
    op: &Op,
    registers: &mut Registers,
    fail: Block,
) -> Flow {
    let Op::Byteorder { src, dst, len, size } = *op else {
        return call::any_or_break(ctx, op, registers, fail);
    };
    match (size, len) {
        (2, 2) => {
            let value = ctx.word(registers, src);
            let half = ctx.asm.narrow(value, Width::Half);
            let half = ctx.asm.swap_bytes(half);
            let swapped = ctx.asm.widen(half, Width::Word);
            // The rest of the word stays.
            let old = ctx.word(registers, dst);
            let old = ctx.asm.and_number(old, u64::from(0xffff_0000_u32));
            let word = ctx.asm.or(old, swapped);
            registers.set(dst, word);
        }
        (4, 4) => {
            let value = ctx.word(registers, src);
            let swapped = ctx.asm.swap_bytes(value);
            registers.set(dst, swapped);
        }
        (8, 8) => {
            let (first, second) = (ctx.word(registers, src), ctx.word(registers, src + 1));
            let (first, second) = (ctx.asm.swap_bytes(first), ctx.asm.swap_bytes(second));
            registers.set(dst, second);
            registers.set(dst + 1, first);
        }
        _ => return call::any_or_break(ctx, op, registers, fail),
    }
    Flow::Next
}
