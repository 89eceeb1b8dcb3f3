// SPDX-License-Identifier: Apache-2.0

//! Comparisons with constants.

use penstock_program::expr::CmpOp;
use penstock_program::op::Op;

use super::{Flow, call, load};
use crate::asm::{Block, Is, Value, Width};
use crate::lowering_ctx::{LoweringCtx, Registers};

/// A comparison with a result that is known before any packet comes.
fn known(ctx: &mut LoweringCtx<'_, '_>, holds: bool, fail: Block) -> Flow {
    if holds {
        return Flow::Next;
    }
    ctx.leaves();
    ctx.asm.jump(fail);
    Flow::Ended
}

/// [`Op::CmpWord`].
pub(super) fn word(
    ctx: &mut LoweringCtx<'_, '_>,
    op: &Op,
    registers: &mut Registers,
    fail: Block,
) -> Flow {
    let Op::CmpWord { src, equal, mask, data } = *op else {
        return call::any_or_break(ctx, op, registers, fail);
    };
    if let Some(number) = registers.constant(src) {
        return known(ctx, (number & mask == data) == equal, fail);
    }
    let mut value = ctx.word(registers, src);
    if mask != u32::MAX {
        value = ctx.asm.and_number(value, u64::from(mask));
    }
    let breaks =
        ctx.asm.is_number(value, if equal { Is::NotEqual } else { Is::Equal }, u64::from(data));
    ctx.leave_if(breaks, fail);
    Flow::Next
}

/// The first `len` bytes from a register on as numbers of 64 bits that are ordered as the bytes
/// are.
fn ordered(
    ctx: &mut LoweringCtx<'_, '_>,
    src: u8,
    len: u8,
    registers: &mut Registers,
) -> Vec<Value> {
    let slots: Vec<Value> = (0..len.div_ceil(4))
        .map(|i| {
            let value = ctx.word(registers, src + i);
            let value = match len - i * 4 {
                left @ 1..4 => ctx.asm.and_number(value, u64::from(u32::MAX >> (8 * (4 - left)))),
                _ => value,
            };
            let swapped = ctx.asm.swap_bytes(value);
            ctx.asm.widen(swapped, Width::Long)
        })
        .collect();
    slots
        .chunks(2)
        .map(|pair| {
            let high = ctx.asm.shift_left(pair[0], 32);
            match pair.get(1) {
                Some(low) => ctx.asm.or(high, *low),
                None => high,
            }
        })
        .collect()
}

/// The first `len` bytes of a constant as two numbers of 64 bits, as [`ordered`] has them.
fn ordered_constant(data: &[u8; 16], len: u8) -> [u64; 2] {
    let mut bytes = [0; 16];
    bytes[..usize::from(len)].copy_from_slice(&data[..usize::from(len)]);
    let number = u128::from_be_bytes(bytes);
    [(number >> 64) as u64, number as u64]
}

/// Whether the numbers are below a constant (or not above it, with `or_equal`).
fn below(
    ctx: &mut LoweringCtx<'_, '_>,
    value: &[Value],
    constant: [u64; 2],
    or_equal: bool,
) -> Value {
    let last = if or_equal { Is::NotAbove } else { Is::Below };
    match value {
        [high, low] => {
            let less = ctx.asm.is_number(*high, Is::Below, constant[0]);
            let same = ctx.asm.is_number(*high, Is::Equal, constant[0]);
            let beneath = ctx.asm.is_number(*low, last, constant[1]);
            let beneath = ctx.asm.and(same, beneath);
            ctx.asm.or(less, beneath)
        }
        _ => ctx.asm.is_number(value[0], last, constant[0]),
    }
}

/// [`Op::Cmp`].
pub(super) fn cmp(
    ctx: &mut LoweringCtx<'_, '_>,
    op: &Op,
    registers: &mut Registers,
    fail: Block,
) -> Flow {
    let Op::Cmp { op: cmp, src, len: len @ 1..=16, data } = op else {
        return call::any_or_break(ctx, op, registers, fail);
    };
    let (src, len) = (*src, *len);
    match cmp {
        CmpOp::Eq => {
            let differs = differs(ctx, src, len, data, registers);
            ctx.leave_if(differs, fail);
        }
        CmpOp::Neq => {
            let differs = differs(ctx, src, len, data, registers);
            ctx.leave_unless(differs, fail);
        }
        CmpOp::Lt | CmpOp::Lte | CmpOp::Gt | CmpOp::Gte => {
            let value = ordered(ctx, src, len, registers);
            let or_equal = matches!(cmp, CmpOp::Lte | CmpOp::Gt);
            let beneath = below(ctx, &value, ordered_constant(data, len), or_equal);
            if matches!(cmp, CmpOp::Lt | CmpOp::Lte) {
                ctx.leave_unless(beneath, fail);
            } else {
                ctx.leave_if(beneath, fail);
            }
        }
    }
    Flow::Next
}

/// Not zero if bytes differ from a constant's.
pub(super) fn differs(
    ctx: &mut LoweringCtx<'_, '_>,
    src: u8,
    len: u8,
    data: &[u8; 16],
    registers: &mut Registers,
) -> Value {
    let mut all: Option<Value> = None;
    for (slot, chunk) in (src..).zip(data[..usize::from(len)].chunks(4)) {
        let mut value = ctx.word(registers, slot);
        if chunk.len() < 4 {
            value = ctx.asm.and_number(value, u64::from(u32::MAX >> (8 * (4 - chunk.len()))));
        }
        let value = ctx.asm.xor_number(value, u64::from(load::word_of(chunk)));
        all = Some(all.map_or(value, |all| ctx.asm.or(all, value)));
    }
    all.unwrap_or_else(|| ctx.asm.word(0))
}

/// [`Op::Range`].
pub(super) fn range(
    ctx: &mut LoweringCtx<'_, '_>,
    op: &Op,
    registers: &mut Registers,
    fail: Block,
) -> Flow {
    let Op::Range { inside, src, len: len @ 1..=16, ends } = op else {
        return call::any_or_break(ctx, op, registers, fail);
    };
    let within = within(ctx, *src, *len, ends, registers);
    if *inside {
        ctx.leave_unless(within, fail);
    } else {
        ctx.leave_if(within, fail);
    }
    Flow::Next
}

/// Whether `len` bytes, at most 16, are between two constants, both included.
pub(super) fn within(
    ctx: &mut LoweringCtx<'_, '_>,
    src: u8,
    len: u8,
    ends: &[[u8; 16]; 2],
    registers: &mut Registers,
) -> Value {
    let [from, to] = ends.each_ref().map(|end| ordered_constant(end, len));
    if from > to {
        return ctx.asm.number(Width::Byte, 0);
    }
    let value = ordered(ctx, src, len, registers);
    match value[..] {
        [only] => {
            // One comparison for both ends: below the first, the difference is large.
            let first = ctx.asm.long(from[0]);
            let distance = ctx.asm.sub(only, first);
            ctx.asm.is_number(distance, Is::NotAbove, to[0] - from[0])
        }
        _ => {
            let low = below(ctx, &value, from, false);
            let high = below(ctx, &value, to, true);
            let zero = ctx.asm.number(Width::Byte, 0);
            ctx.asm.select(low, zero, high)
        }
    }
}
