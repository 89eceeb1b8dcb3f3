// SPDX-License-Identifier: Apache-2.0

//! Lookups in sets that clients change ([`live`](super)).

use penstock_bpf::asm::{Alu, Cond, Helper, Label, Reg::*, Width};
use penstock_program::image::{LinkedData, LinkedVerdict};
use penstock_program::op::{Load, Op};

use super::super::Compiler;
use super::super::chain::Rule;
use super::super::frame::*;
use super::super::lower::{home, refused};
use super::super::masks::MaskTable;
use super::form::Structure;
use super::layout::BLOCK;
use super::masked::first_mask;
use super::{CATCH_ALL, Elements, LiveSet, Use};

/// In the stack frame, where the verifier takes them for unknown: a row, how many there are, and the
/// first.
const PLACE: i16 = OPAQUE + 4;
const COUNT: i16 = OPAQUE + 12;
const FIRST: i16 = SCRATCH + 60;

/// Rows in the order of the keys that they begin with.
struct Sorted<'a> {
    map: &'a LiveSet,
    /// Bytes: of the first row in the map's value, and of a row.
    at: u32,
    len: i32,
    /// Rows at most.
    count: usize,
    /// Words of a key.
    numbers: u8,
}

/// Where packets go.
#[derive(Clone, Copy)]
struct Ends {
    /// With the slot at R5, unless there are only bits.
    hit: Label,
    miss: Label,
}

impl Compiler<'_> {
    /// The maps of a set, if it has some that stay when elements change.
    fn live(&self, set: &Elements, key_len: u8, load: Load) -> Option<Use> {
        let shared = self.job.shared?;
        let id = self.named.get(set)?;
        let (data_len, verdict) = match load {
            Load::Nothing => (0, false),
            Load::Bytes { len, .. } => (len, false),
            Load::Verdict => (0, true),
        };
        shared.live.of(self.job.image, id, set, [key_len, data_len], verdict)
    }

    /// The set or map expression, of a set that clients may change; whether it is one.
    pub(in super::super) fn live_lookup(
        &mut self,
        op: &Op,
        rule: &mut Rule,
    ) -> Result<bool, String> {
        let Op::Lookup { src, key_len, inverse, load, set } = op else { return Err(refused()) };
        let Some(used) = self.live(set, *key_len, *load) else { return Ok(false) };
        let [hit, miss] = [(); 2].map(|()| self.asm.label());
        let (live, parity) = (used.live.clone(), used.parity);
        if !self.live_uses.iter().any(|known| std::sync::Arc::ptr_eq(&known.live, &live)) {
            self.live_uses.push(used);
        }
        // Of an inverse lookup a match ends the rule; otherwise it continues.
        let ends = match inverse {
            true => Ends { hit: rule.next, miss: hit },
            false => Ends { hit, miss: rule.next },
        };
        let first = Ends { miss: if live.form().catch_all { miss } else { ends.miss }, ..ends };
        match live.form().structure {
            Structure::Bits => self.live_bits(&live, parity, *src, first, rule),
            Structure::HashedBits | Structure::Hash => {
                self.live_hash(&live, parity, *src, first, rule)?;
            }
            Structure::Blocks => self.live_blocks(&live, parity, *src, first, rule),
            Structure::Masked => self.live_masked(&live, parity, *src, first, rule)?,
        }
        if live.form().catch_all {
            let word = match live.form().structure {
                Structure::Blocks | Structure::Masked => 1,
                _ => CATCH_ALL as usize * live.form().slot_words(),
            };
            self.asm.bind(miss);
            self.asm.map_value(R5, &live.words, self.byte_at(&live, parity, word));
            self.slot_is_alive(&live, ends);
        }
        self.asm.bind(hit);
        if !*inverse {
            self.live_meaning(&live, set, *load, rule)?;
        }
        Ok(true)
    }

    /// The byte of the map's value at which a word of a parity is.
    fn byte_at(&self, live: &LiveSet, parity: usize, word: usize) -> u32 {
        ((parity * live.layout.words() + word) * size_of::<u64>()) as u32
    }

    fn live_bits(&mut self, live: &LiveSet, parity: usize, src: u8, ends: Ends, rule: &Rule) {
        self.short_key(src, live.form().key_len, rule);
        self.bit(live, parity, ends);
    }

    /// Goes where bit R1 says, which is in bounds.
    fn bit(&mut self, live: &LiveSet, parity: usize, Ends { hit, miss }: Ends) {
        self.asm.mov(R2, R1);
        self.asm.alu(Alu::Rsh, R2, 6);
        self.asm.alu(Alu::Lsh, R2, 3);
        self.asm.map_value(R3, &live.words, self.byte_at(live, parity, 0));
        self.asm.alu(Alu::Add, R3, R2);
        self.asm.load(Width::D, R0, R3, 0);
        self.asm.alu(Alu::And, R1, 63);
        self.asm.alu(Alu::Rsh, R0, R1);
        self.asm.alu(Alu::And, R0, 1);
        self.asm.jump_if(Cond::Eq, R0, 0, miss);
        self.asm.jump(hit);
    }

    fn live_hash(
        &mut self,
        live: &LiveSet,
        parity: usize,
        src: u8,
        ends: Ends,
        rule: &mut Rule,
    ) -> Result<(), String> {
        let keys = live.keys.as_ref().ok_or_else(refused)?;
        let at = self.contiguous(src, live.form().key_len, rule);
        self.asm.map(R1, keys);
        self.asm.mov(R2, R10);
        self.asm.alu(Alu::Add, R2, i32::from(at));
        self.asm.call(Helper::MapLookup);
        self.asm.jump_if(Cond::Eq, R0, 0, ends.miss);
        self.asm.load(Width::W, R1, R0, 0);
        if live.form().structure == Structure::HashedBits {
            self.asm.jump_if(Cond::Ge, R1, live.layout.room as i32, ends.miss);
            self.bit(live, parity, ends);
            return Ok(());
        }
        self.live_slot(live, parity, ends.miss);
        self.slot_is_alive(live, ends);
        Ok(())
    }

    /// Goes where the slot at R5 says: to `miss` if there is no element, or it has expired.
    fn slot_is_alive(&mut self, live: &LiveSet, Ends { hit, miss }: Ends) {
        self.asm.load(Width::D, R0, R5, 0);
        self.asm.jump_if(Cond::Eq, R0, 0, miss);
        if live.form().timeout {
            self.asm.load(Width::D, R0, R5, 8);
            self.asm.load(Width::D, R1, R10, TIME);
            self.asm.jump_if(Cond::Le, R0, R1, miss);
        }
        self.asm.jump(hit);
    }

    /// The last interval that begins at the key or before it, if it does not end before: in the last
    /// block that may have it.
    fn live_blocks(&mut self, live: &LiveSet, parity: usize, src: u8, ends: Ends, rule: &Rule) {
        let layout = &live.layout;
        let numbers = live.form().key_words() as u8;
        let [entry, row] = [layout.entry_words(), layout.row_words()].map(|words| words as i32 * 8);
        let index = self.byte_at(live, parity, layout.head_words());
        let rows = self.byte_at(live, parity, layout.first_row());
        let blocks = layout.blocks();
        for n in 0..numbers {
            self.key_number(src, n, live.form().key_len, rule);
            self.asm.store(Width::D, R10, SCRATCH + i16::from(n) * 8, R0);
        }
        self.asm.map_value(R4, &live.words, self.byte_at(live, parity, 0));
        self.asm.load(Width::W, R1, R4, 0);
        self.asm.jump_if(Cond::Eq, R1, 0, ends.miss);
        self.asm.store(Width::W, R10, COUNT, R1);
        self.asm.store(Width::W, R10, FIRST, 0);
        let sorted = Sorted { map: live, at: index, len: entry, count: blocks, numbers };
        self.bisect_live(&sorted, blocks);
        self.asm.load(Width::W, R1, R10, PLACE);
        self.asm.jump_if(Cond::Ge, R1, blocks as i32, ends.miss);
        self.row_of(&sorted);
        self.asm.load(Width::W, R1, R4, i16::from(numbers) * 8);
        self.asm.load(Width::W, R2, R4, i16::from(numbers) * 8 + 4);
        self.asm.jump_if(Cond::Eq, R2, 0, ends.miss);
        self.asm.jump_if(Cond::Ge, R1, blocks as i32, ends.miss);
        self.asm.alu(Alu::Mul, R1, BLOCK as i32);
        self.asm.store(Width::W, R10, FIRST, R1);
        self.asm.store(Width::W, R10, COUNT, R2);
        let sorted = Sorted { at: rows, len: row, count: blocks * BLOCK, ..sorted };
        self.bisect_live(&sorted, BLOCK);
        self.asm.load(Width::W, R1, R10, PLACE);
        self.asm.load(Width::W, R2, R10, FIRST);
        self.asm.alu(Alu::Add, R1, R2);
        self.asm.jump_if(Cond::Ge, R1, sorted.count as i32, ends.miss);
        self.row_of(&sorted);
        self.is_within(numbers, ends.miss);
        self.asm.mov(R5, R4);
        self.asm.alu(Alu::Add, R5, i32::from(numbers) * 16);
        self.slot_is_alive(live, ends);
    }

    /// Stores at [`PLACE`] the number, after that at [`FIRST`], of the last row that begins with the
    /// key or before it, or 0; there are as many rows as [`COUNT`] says, at most `most`.
    fn bisect_live(&mut self, sorted: &Sorted<'_>, most: usize) {
        self.asm.store(Width::W, R10, PLACE, 0);
        for step in (0..(most as u32).next_power_of_two().trailing_zeros()).rev() {
            let (stay, take) = (self.asm.label(), self.asm.label());
            self.asm.load(Width::W, R2, R10, PLACE);
            self.asm.alu(Alu::Add, R2, 1 << step);
            self.asm.load(Width::W, R1, R10, COUNT);
            self.asm.jump_if(Cond::Ge, R2, R1, stay);
            self.asm.load(Width::W, R1, R10, FIRST);
            self.asm.alu(Alu::Add, R1, R2);
            self.asm.jump_if(Cond::Ge, R1, sorted.count as i32, stay);
            self.row_of(sorted);
            for n in 0..sorted.numbers {
                self.asm.load(Width::D, R0, R10, SCRATCH + i16::from(n) * 8);
                self.asm.load(Width::D, R5, R4, i16::from(n) * 8);
                self.asm.jump_if(Cond::Gt, R5, R0, stay);
                if n + 1 < sorted.numbers {
                    self.asm.jump_if(Cond::Lt, R5, R0, take);
                }
            }
            self.asm.bind(take);
            self.asm.store(Width::W, R10, PLACE, R2);
            self.asm.bind(stay);
        }
    }

    /// R4 = row R1.
    fn row_of(&mut self, sorted: &Sorted<'_>) {
        self.asm.mov(R3, R1);
        self.asm.alu(Alu::Mul, R3, sorted.len);
        self.asm.map_value(R4, &sorted.map.words, sorted.at);
        self.asm.alu(Alu::Add, R4, R3);
    }

    /// The first element, of those that match under some mask and have not expired.
    fn live_masked(
        &mut self,
        live: &LiveSet,
        parity: usize,
        src: u8,
        ends: Ends,
        rule: &Rule,
    ) -> Result<(), String> {
        let layout = &live.layout;
        let keys = live.keys.as_ref().ok_or_else(refused)?;
        let table = MaskTable {
            masks: &live.words,
            at: self.byte_at(live, parity, layout.head_words()),
            count: self.byte_at(live, parity, 0),
            first: first_mask(parity),
            keys,
            key_len: live.form().key_len,
        };
        let next = self.asm.label();
        self.each_mask(&table, src, rule, next, |this| {
            let alive = this.asm.label();
            this.asm.mov(R1, R3);
            this.live_slot(live, parity, next);
            this.slot_is_alive(live, Ends { hit: alive, miss: next });
            this.asm.bind(alive);
        });
        self.first_found(ends.miss);
        self.live_slot(live, parity, ends.miss);
        self.asm.jump(ends.hit);
        Ok(())
    }

    /// R5 = slot R1. All else stays.
    fn live_slot(&mut self, live: &LiveSet, parity: usize, missing: Label) {
        self.asm.jump_if(Cond::Ge, R1, live.layout.room as i32, missing);
        self.asm.alu(Alu::Mul, R1, (live.form().slot_words() * size_of::<u64>()) as i32);
        self.asm.map_value(R5, &live.words, self.byte_at(live, parity, live.layout.first_row()));
        self.asm.alu(Alu::Add, R5, R1);
    }

    /// Does what the slot at R5 says.
    fn live_meaning(
        &mut self,
        live: &LiveSet,
        set: &Elements,
        load: Load,
        rule: &mut Rule,
    ) -> Result<(), String> {
        match load {
            Load::Nothing => {}
            Load::Bytes { dst, len } => {
                for word in 0..len.div_ceil(4) {
                    let at = live.form().data_at() + i16::from(word) * 4;
                    self.asm.load(Width::W, R1, R5, at);
                    self.asm.store(Width::W, R10, home(dst + word), R1);
                }
                rule.words.set_at(dst, home(dst), len);
            }
            Load::Verdict => {
                // A verdict of which there is no element may name a chain that is gone.
                let used = |verdict: &LinkedVerdict| {
                    set.iter_unordered().any(
                        |e| matches!(&e.value.data, LinkedData::Verdict(other) if other == verdict),
                    )
                };
                let verdicts = live.form().verdicts.iter();
                let verdicts: Vec<_> = verdicts
                    .map(|verdict| if used(verdict) { *verdict } else { LinkedVerdict::Break })
                    .collect();
                self.asm.load(Width::D, R0, R5, 0);
                self.asm.alu(Alu::Sub, R0, 1);
                self.dispatch(&verdicts, rule)?;
            }
        }
        Ok(())
    }
}
