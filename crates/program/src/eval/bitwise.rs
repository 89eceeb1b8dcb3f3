// SPDX-License-Identifier: Apache-2.0

//! Computing on registers (`net/netfilter/nft_bitwise.c`, `net/netfilter/nft_byteorder.c`).
//!
//! Words are numbers in host order, also where they hold packet bytes: that is how the kernel
//! shifts.

use super::Step;
use super::registers::Registers;
use crate::operand::BoolOp;

#[inline(never)]
pub(super) fn mask_xor(
    src: u8,
    dst: u8,
    words: u8,
    mask_xor: &[[u32; 4]; 2],
    registers: &mut Registers,
) -> Step {
    let [masks, xors] = mask_xor;
    for (i, (mask, xor)) in (0..words).zip(masks.iter().zip(xors)) {
        registers.set_word(dst + i, registers.word(src + i) & mask ^ xor);
    }
    Step::Next
}

/// Words in their order: one that was written is read again where registers overlap.
#[inline(never)]
pub(super) fn combine(
    op: BoolOp,
    src: u8,
    other: u8,
    dst: u8,
    words: u8,
    registers: &mut Registers,
) -> Step {
    for i in 0..words {
        let (a, b) = (registers.word(src + i), registers.word(other + i));
        registers.set_word(
            dst + i,
            match op {
                BoolOp::And => a & b,
                BoolOp::Or => a | b,
                BoolOp::Xor => a ^ b,
            },
        );
    }
    Step::Next
}

/// Bits leave a word for the one before it.
#[inline(never)]
pub(super) fn lshift(src: u8, dst: u8, words: u8, bits: u8, registers: &mut Registers) -> Step {
    let mut carry = 0;
    for i in (0..words).rev() {
        let wide = u64::from(registers.word(src + i)) << bits;
        registers.set_word(dst + i, wide as u32 | carry);
        carry = (wide >> 32) as u32;
    }
    Step::Next
}

/// Bits leave a word for the one after it.
#[inline(never)]
pub(super) fn rshift(src: u8, dst: u8, words: u8, bits: u8, registers: &mut Registers) -> Step {
    let mut carry = 0;
    for i in 0..words {
        let wide = u64::from(registers.word(src + i)) << 32 >> bits;
        registers.set_word(dst + i, (wide >> 32) as u32 | carry);
        carry = wide as u32;
    }
    Step::Next
}

/// Swaps the bytes of each number; on a host in network order there is nothing to swap. What is
/// left of a last word is not touched.
#[inline(never)]
pub(super) fn byteorder(src: u8, dst: u8, len: u8, size: u8, registers: &mut Registers) -> Step {
    let mut numbers = [0; 64];
    let from = registers.bytes(src, len);
    let size = usize::from(size).max(1);
    let whole = from.len() / size * size;
    numbers[..whole].copy_from_slice(&from[..whole]);
    if cfg!(target_endian = "little") {
        numbers[..whole].chunks_exact_mut(size).for_each(<[u8]>::reverse);
    }
    let to = registers.bytes_mut(dst, whole as u8);
    let fits = to.len();
    to.copy_from_slice(&numbers[..fits]);
    Step::Next
}
