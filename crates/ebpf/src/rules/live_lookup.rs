// SPDX-License-Identifier: Apache-2.0

//! Lookups in sets that clients change ([`live_sets`](super::live_sets)).

use penstock_bpf::asm::{Alu, Cond, Helper, Label, Reg::*, Width};
use penstock_program::image::{LinkedData, LinkedVerdict};
use penstock_program::op::{Load, Op};

use super::Compiler;
use super::chain::Rule;
use super::frame::*;
use super::live_sets::{CATCH_ALL, Elements, LiveSet, Structure, Use};
use super::lower::{home, refused};

/// Where packets go.
#[derive(Clone, Copy)]
struct Ends {
    /// With the slot at R5, unless there are only bits.
    hit: Label,
    miss: Label,
}

impl Compiler<'_> {
    /// The maps of a set, if it has some that stay when elements change.
    fn live(&mut self, set: &Elements, key_len: u8, load: Load) -> Option<Use> {
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
    pub(super) fn live_lookup(&mut self, op: &Op, rule: &mut Rule) -> Result<bool, String> {
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
            Structure::Sorted => self.live_sorted(&live, parity, *src, first, rule),
        }
        if live.form().catch_all {
            let word = match live.form().structure {
                Structure::Sorted => 1,
                _ => CATCH_ALL as usize * live.form().slot_words(),
            };
            self.asm.bind(miss);
            self.asm.map_value(R5, live.words(), self.byte_at(&live, parity, word));
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
        ((parity * live.form().words(live.room()) + word) * size_of::<u64>()) as u32
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
        self.asm.map_value(R3, live.words(), self.byte_at(live, parity, 0));
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
        let keys = live.keys().ok_or_else(refused)?;
        let at = self.contiguous(src, live.form().key_len, rule);
        self.asm.map(R1, keys);
        self.asm.mov(R2, R10);
        self.asm.alu(Alu::Add, R2, i32::from(at));
        self.asm.call(Helper::MapLookup);
        self.asm.jump_if(Cond::Eq, R0, 0, ends.miss);
        self.asm.load(Width::W, R1, R0, 0);
        self.asm.jump_if(Cond::Ge, R1, live.room() as i32, ends.miss);
        if live.form().structure == Structure::HashedBits {
            self.bit(live, parity, ends);
            return Ok(());
        }
        self.asm.alu(Alu::Mul, R1, (live.form().slot_words() * size_of::<u64>()) as i32);
        self.asm.map_value(R5, live.words(), self.byte_at(live, parity, 0));
        self.asm.alu(Alu::Add, R5, R1);
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

    /// The last interval that begins at the key or before it, if it does not end before.
    fn live_sorted(&mut self, live: &LiveSet, parity: usize, src: u8, ends: Ends, rule: &Rule) {
        let form = live.form();
        let numbers = form.key_words() as u8;
        let row = (form.row_words() * size_of::<u64>()) as i32;
        let rows = self.byte_at(live, parity, form.head_words());
        let room = live.room() as i32;
        // Number of rows, where the verifier forgets it, too.
        let (place, count) = (OPAQUE + 4, OPAQUE + 12);
        for n in 0..numbers {
            self.key_number(src, n, form.key_len, rule);
            self.asm.store(Width::D, R10, SCRATCH + i16::from(n) * 8, R0);
        }
        self.asm.map_value(R4, live.words(), self.byte_at(live, parity, 0));
        self.asm.load(Width::W, R1, R4, 0);
        self.asm.jump_if(Cond::Eq, R1, 0, ends.miss);
        self.asm.store(Width::W, R10, count, R1);
        self.asm.store(Width::W, R10, place, 0);
        for step in (0..(room as u32).next_power_of_two().trailing_zeros()).rev() {
            let (stay, take) = (self.asm.label(), self.asm.label());
            self.asm.load(Width::W, R1, R10, place);
            self.asm.alu(Alu::Add, R1, 1 << step);
            self.asm.load(Width::W, R2, R10, count);
            self.asm.jump_if(Cond::Ge, R1, R2, stay);
            self.asm.jump_if(Cond::Ge, R1, room, stay);
            self.live_row(live, rows, row);
            for n in 0..numbers {
                self.asm.load(Width::D, R0, R10, SCRATCH + i16::from(n) * 8);
                self.asm.load(Width::D, R5, R4, i16::from(n) * 8);
                self.asm.jump_if(Cond::Gt, R5, R0, stay);
                if n + 1 < numbers {
                    self.asm.jump_if(Cond::Lt, R5, R0, take);
                }
            }
            self.asm.bind(take);
            self.asm.store(Width::W, R10, place, R1);
            self.asm.bind(stay);
        }
        self.asm.load(Width::W, R1, R10, place);
        self.asm.jump_if(Cond::Ge, R1, room, ends.miss);
        self.live_row(live, rows, row);
        self.is_within(numbers, ends.miss);
        self.asm.mov(R5, R4);
        self.asm.alu(Alu::Add, R5, i32::from(numbers) * 16);
        self.slot_is_alive(live, ends);
    }

    /// R4 = row R1.
    fn live_row(&mut self, live: &LiveSet, rows: u32, row: i32) {
        self.asm.mov(R3, R1);
        self.asm.alu(Alu::Mul, R3, row);
        self.asm.map_value(R4, live.words(), rows);
        self.asm.alu(Alu::Add, R4, R3);
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
