// SPDX-License-Identifier: Apache-2.0

//! The code that looks a key up under each of some masks ([`pieces`](super::pieces)).

use std::sync::Arc;

use penstock_bpf::Map;
use penstock_bpf::asm::{Alu, Cond, Helper, Label, Reg::*, Width};

use super::Compiler;
use super::chain::Rule;
use super::frame::*;
use super::pieces::MOST_MASKS;

/// Masks, and the hash of keys under them.
pub(super) struct MaskTable<'a> {
    /// The map whose only value has the masks, each of whole units of eight bytes, from this byte on.
    pub(super) masks: &'a Arc<Map>,
    pub(super) at: u32,
    /// The byte at which their number is.
    pub(super) count: u32,
    /// The number of the first in keys.
    pub(super) first: u32,
    /// From the number of the mask and the bytes under it to the place, and what else there is.
    pub(super) keys: &'a Arc<Map>,
    pub(super) key_len: u8,
}

/// In the stack frame: the number of the mask, where the verifier takes it for unknown, and the bytes
/// under it.
const KEY: i16 = SCRATCH + 4;
/// The least place so far, and what stands next to it.
const BEST: i16 = OPAQUE + 4;
const FOUND: i16 = OPAQUE + 12;

impl Compiler<'_> {
    /// Looks a key up under each mask. `accept` sees what is found, its place in R2 and what stands
    /// next to it in R3, which stay; it goes on where that counts, and to `next` where it does not.
    pub(super) fn each_mask(
        &mut self,
        table: &MaskTable<'_>,
        src: u8,
        rule: &Rule,
        next: Label,
        accept: impl FnOnce(&mut Self),
    ) {
        let words = table.key_len.div_ceil(4);
        let [again, give_up, done] = [(); 3].map(|()| self.asm.label());
        self.asm.store(Width::W, R10, KEY, table.first as i32);
        self.asm.store(Width::W, R10, BEST, -1);
        self.asm.bind(again);
        self.asm.may_goto(give_up);
        self.asm.load(Width::W, R3, R10, KEY);
        self.asm.alu(Alu::Sub, R3, table.first as i32);
        self.asm.map_value(R2, table.masks, table.count);
        self.asm.load(Width::W, R2, R2, 0);
        self.asm.jump_if(Cond::Ge, R3, R2, done);
        self.asm.jump_if(Cond::Ge, R3, MOST_MASKS as i32, done);
        self.asm.alu(Alu::Mul, R3, mask_len(table.key_len) as i32);
        self.asm.map_value(R4, table.masks, table.at);
        self.asm.alu(Alu::Add, R4, R3);
        // In order and in pairs: the verifier forgets a word with the one after it.
        for n in 0..words + words % 2 {
            let at = i16::from(n) * 4;
            if n == words {
                self.asm.store(Width::W, R10, KEY + 4 + at, 0);
                break;
            }
            self.word(R1, src + n, rule);
            self.asm.load(Width::W, R2, R4, at);
            self.asm.alu(Alu::And, R1, R2);
            self.asm.store(Width::W, R10, KEY + 4 + at, R1);
        }
        self.asm.map(R1, table.keys);
        self.asm.mov(R2, R10);
        self.asm.alu(Alu::Add, R2, i32::from(KEY));
        self.asm.call(Helper::MapLookup);
        self.asm.jump_if(Cond::Eq, R0, 0, next);
        self.asm.load(Width::W, R2, R0, 0);
        self.asm.load(Width::W, R3, R0, 4);
        self.asm.load(Width::W, R1, R10, BEST);
        self.asm.jump_if(Cond::Ge, R2, R1, next);
        accept(self);
        self.asm.store(Width::W, R10, BEST, R2);
        self.asm.store(Width::W, R10, FOUND, R3);
        self.asm.bind(next);
        self.asm.load(Width::W, R1, R10, KEY);
        self.asm.alu(Alu::Add, R1, 1);
        self.asm.store(Width::W, R10, KEY, R1);
        self.asm.jump(again);
        // Time is up (a quarter of a second).
        self.asm.bind(give_up);
        self.asm.jump(self.drop);
        self.asm.bind(done);
    }

    /// R1 = what stands next to the least place of all that counted; goes to `none` if nothing did.
    pub(super) fn first_found(&mut self, none: Label) {
        self.asm.load(Width::W, R1, R10, BEST);
        self.asm.jump_if32(Cond::Eq, R1, -1, none);
        self.asm.load(Width::W, R1, R10, FOUND);
    }
}

/// Bytes of a mask in a table.
pub(super) fn mask_len(key_len: u8) -> usize {
    usize::from(key_len).next_multiple_of(8)
}
