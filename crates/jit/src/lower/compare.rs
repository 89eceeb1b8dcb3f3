// SPDX-License-Identifier: Apache-2.0

//! Comparisons with constants.

use penstock_program::expr::CmpOp;
use penstock_program::op::Op;

use super::{Flow, call, load};
use crate::asm::{Block, Is, Value, Width};
use crate::frame::{Frame, Registers};

/// A comparison with a result that is known before any packet comes.
fn known(f: &mut Frame<'_, '_>, holds: bool, fail: Block) -> Flow {
    if holds {
        return Flow::Next;
    }
    f.leaves();
    f.asm.jump(fail);
    Flow::Ended
}

/// [`Op::CmpWord`].
pub(super) fn word(f: &mut Frame<'_, '_>, op: &Op, registers: &mut Registers, fail: Block) -> Flow {
    let Op::CmpWord { src, equal, mask, data } = *op else {
        return call::any_or_break(f, op, registers, fail);
    };
    if let Some(number) = registers.constant(src) {
        return known(f, (number & mask == data) == equal, fail);
    }
    let mut value = f.word(registers, src);
    if mask != u32::MAX {
        value = f.asm.and_number(value, u64::from(mask));
    }
    let breaks =
        f.asm.is_number(value, if equal { Is::NotEqual } else { Is::Equal }, u64::from(data));
    f.leave_if(breaks, fail);
    Flow::Next
}

/// The first `len` bytes from a register on as numbers of 64 bits that are ordered as the bytes
/// are.
fn ordered(f: &mut Frame<'_, '_>, src: u8, len: u8, registers: &mut Registers) -> Vec<Value> {
    let slots: Vec<Value> = (0..len.div_ceil(4))
        .map(|i| {
            let value = f.word(registers, src + i);
            let value = match len - i * 4 {
                left @ 1..4 => f.asm.and_number(value, u64::from(u32::MAX >> (8 * (4 - left)))),
                _ => value,
            };
            let swapped = f.asm.swap_bytes(value);
            f.asm.widen(swapped, Width::Long)
        })
        .collect();
    slots
        .chunks(2)
        .map(|pair| {
            let high = f.asm.shift_left(pair[0], 32);
            match pair.get(1) {
                Some(low) => f.asm.or(high, *low),
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
fn below(f: &mut Frame<'_, '_>, value: &[Value], constant: [u64; 2], or_equal: bool) -> Value {
    let last = if or_equal { Is::NotAbove } else { Is::Below };
    match value {
        [high, low] => {
            let less = f.asm.is_number(*high, Is::Below, constant[0]);
            let same = f.asm.is_number(*high, Is::Equal, constant[0]);
            let beneath = f.asm.is_number(*low, last, constant[1]);
            let beneath = f.asm.and(same, beneath);
            f.asm.or(less, beneath)
        }
        _ => f.asm.is_number(value[0], last, constant[0]),
    }
}

/// [`Op::Cmp`].
pub(super) fn cmp(f: &mut Frame<'_, '_>, op: &Op, registers: &mut Registers, fail: Block) -> Flow {
    let Op::Cmp { op: cmp, src, len: len @ 1..=16, data } = op else {
        return call::any_or_break(f, op, registers, fail);
    };
    let (src, len) = (*src, *len);
    match cmp {
        CmpOp::Eq => {
            let differs = differs(f, src, len, data, registers);
            f.leave_if(differs, fail);
        }
        CmpOp::Neq => {
            let differs = differs(f, src, len, data, registers);
            f.leave_unless(differs, fail);
        }
        CmpOp::Lt | CmpOp::Lte | CmpOp::Gt | CmpOp::Gte => {
            let value = ordered(f, src, len, registers);
            let or_equal = matches!(cmp, CmpOp::Lte | CmpOp::Gt);
            let beneath = below(f, &value, ordered_constant(data, len), or_equal);
            if matches!(cmp, CmpOp::Lt | CmpOp::Lte) {
                f.leave_unless(beneath, fail);
            } else {
                f.leave_if(beneath, fail);
            }
        }
    }
    Flow::Next
}

/// Not zero if bytes differ from a constant's.
pub(super) fn differs(
    f: &mut Frame<'_, '_>,
    src: u8,
    len: u8,
    data: &[u8; 16],
    registers: &mut Registers,
) -> Value {
    let mut all: Option<Value> = None;
    for (slot, chunk) in (src..).zip(data[..usize::from(len)].chunks(4)) {
        let mut value = f.word(registers, slot);
        if chunk.len() < 4 {
            value = f.asm.and_number(value, u64::from(u32::MAX >> (8 * (4 - chunk.len()))));
        }
        let value = f.asm.xor_number(value, u64::from(load::word_of(chunk)));
        all = Some(all.map_or(value, |all| f.asm.or(all, value)));
    }
    all.unwrap_or_else(|| f.asm.word(0))
}

/// [`Op::Range`].
pub(super) fn range(
    f: &mut Frame<'_, '_>,
    op: &Op,
    registers: &mut Registers,
    fail: Block,
) -> Flow {
    let Op::Range { inside, src, len: len @ 1..=16, ends } = op else {
        return call::any_or_break(f, op, registers, fail);
    };
    let within = within(f, *src, *len, ends, registers);
    if *inside {
        f.leave_unless(within, fail);
    } else {
        f.leave_if(within, fail);
    }
    Flow::Next
}

/// Whether `len` bytes, at most 16, are between two constants, both included.
pub(super) fn within(
    f: &mut Frame<'_, '_>,
    src: u8,
    len: u8,
    ends: &[[u8; 16]; 2],
    registers: &mut Registers,
) -> Value {
    let [from, to] = ends.each_ref().map(|end| ordered_constant(end, len));
    if from > to {
        return f.asm.number(Width::Byte, 0);
    }
    let value = ordered(f, src, len, registers);
    match value[..] {
        [only] => {
            // One comparison for both ends: below the first, the difference is large.
            let first = f.asm.long(from[0]);
            let distance = f.asm.sub(only, first);
            f.asm.is_number(distance, Is::NotAbove, to[0] - from[0])
        }
        _ => {
            let low = below(f, &value, from, false);
            let high = below(f, &value, to, true);
            let zero = f.asm.number(Width::Byte, 0);
            f.asm.select(low, zero, high)
        }
    }
}
