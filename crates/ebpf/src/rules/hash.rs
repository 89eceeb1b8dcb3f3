// SPDX-License-Identifier: Apache-2.0

//! Hashes of registers and random numbers (`net/netfilter/nft_hash.c`, `nft_numgen.c`).

use super::Compiler;
use super::chain::Rule;
use super::words::first_bytes;
use penstock_bpf::asm::{Alu, Helper, Reg, Reg::*};

/// Words of a block of the hash.
const BLOCK: u8 = 3;

/// The state of the hash.
const A: Reg = R1;
const B: Reg = R2;
const C: Reg = R3;

/// `jhash` over register bytes, as `penstock_wire::jhash` has it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Jhash {
    pub(super) src: u8,
    pub(super) len: u8,
    pub(super) seed: u32,
}

/// A number scaled to the modulus, plus the offset.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    pub(super) modulus: u32,
    pub(super) offset: u32,
}

impl Compiler<'_> {
    /// `numgen random`.
    pub(super) fn random(&mut self, scale: Scale, dst: u8, rule: &mut Rule) {
        self.asm.call(Helper::Prandom);
        self.scale(R0, scale);
        self.keep(dst, R0, 4, rule);
    }

    /// Words are little-endian, as the hash has those of its last block everywhere: plans refuse
    /// hashes on other machines.
    pub(super) fn jhash(&mut self, hash: Jhash, scale: Scale, dst: u8, rule: &mut Rule) {
        let start = 0xdead_beef_u32.wrapping_add(hash.len.into()).wrapping_add(hash.seed);
        for reg in [A, B, C] {
            self.asm.mov32(reg, start);
        }
        let words = hash.len.div_ceil(4);
        let mut first = 0;
        while words - first > BLOCK {
            self.add_block(hash, first, rule);
            for (into, from, bits, more) in [
                (A, C, 4, B),
                (B, A, 6, C),
                (C, B, 8, A),
                (A, C, 16, B),
                (B, A, 19, C),
                (C, B, 4, A),
            ] {
                // into = (into - from) ^ rotated from; from += more
                self.asm.alu32(Alu::Sub, into, from);
                self.rotate(from, bits);
                self.asm.alu32(Alu::Xor, into, R4);
                self.asm.alu32(Alu::Add, from, more);
            }
            first += BLOCK;
        }
        self.add_block(hash, first, rule);
        for (into, from, bits) in
            [(C, B, 14), (A, C, 11), (B, A, 25), (C, B, 16), (A, C, 4), (B, A, 14), (C, B, 24)]
        {
            self.asm.alu32(Alu::Xor, into, from);
            self.rotate(from, bits);
            self.asm.alu32(Alu::Sub, into, R4);
        }
        self.scale(C, scale);
        self.keep(dst, C, 4, rule);
    }

    /// Adds up to three words to the state.
    fn add_block(&mut self, hash: Jhash, first: u8, rule: &Rule) {
        let words = hash.len.div_ceil(4);
        for (word, into) in (first..words).zip([A, B, C]) {
            self.word(R4, hash.src + word, rule);
            let bytes = (hash.len - word * 4).min(4);
            if bytes < 4 {
                self.asm.alu32(Alu::And, R4, first_bytes(bytes) as i32);
            }
            self.asm.alu32(Alu::Add, into, R4);
        }
    }

    /// R4 = bits of `from`, rotated to the left.
    fn rotate(&mut self, from: Reg, bits: i32) {
        self.asm.alu32(Alu::Mov, R4, from);
        self.asm.alu32(Alu::Lsh, R4, bits);
        self.asm.alu32(Alu::Mov, R5, from);
        self.asm.alu32(Alu::Rsh, R5, 32 - bits);
        self.asm.alu32(Alu::Or, R4, R5);
    }

    /// `reciprocal_scale()` of a number of 32 bits, plus the offset. R4 is lost.
    fn scale(&mut self, number: Reg, scale: Scale) {
        self.asm.mov32(R4, scale.modulus);
        self.asm.alu(Alu::Mul, number, R4);
        self.asm.alu(Alu::Rsh, number, 32);
        self.asm.alu32(Alu::Add, number, scale.offset as i32);
    }
}
