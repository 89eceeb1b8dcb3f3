// SPDX-License-Identifier: Apache-2.0

//! Finding a key among a set's elements: code for few, maps for many.
//!
//! | elements | structure |
//! | --- | --- |
//! | up to 4, or up to 8 intervals | comparisons |
//! | keys of one or two bytes | a bit, or the outcome's number, for each possible key |
//! | keys | hash |
//! | intervals | sorted array, bisected |
//! | concatenations of intervals | comparisons, up to 64; a hash of keys under masks |

use std::collections::HashMap;

use super::Compiler;
use super::chain::Rule;
use super::frame::*;
use super::lower::{home, number};
use super::masks::{MaskTable, mask_len};
use super::pieces::{MOST_MASKS, Masks, pieces};
use super::words::Word;
use super::words::first_bytes;
use penstock_bpf::asm::{Alu, Cond, Helper, Label, Reg, Reg::*, Width};
use penstock_bpf::{MapKind, MapSpec};

const FEW: usize = 4;
const FEW_INTERVALS: usize = 8;
const FEW_RANGES: usize = 64;
const MOST_RANGES: usize = 256;
/// Keys under masks at most.
const MOST_PIECES: usize = 1 << 21;
const MOST: usize = 1 << 20;

/// An element to find.
pub(super) struct Member {
    pub(super) from: Box<[u8]>,
    /// Last key, included; for concatenations the last of each field.
    pub(super) to: Option<Box<[u8]>>,
    /// Number of what finding it means, from 1 on.
    pub(super) outcome: u32,
}

impl Member {
    fn last(&self) -> &[u8] {
        self.to.as_deref().unwrap_or(&self.from)
    }

    fn is_interval(&self) -> bool {
        *self.from != *self.last()
    }
}

/// What is searched.
pub(super) struct Members {
    pub(super) all: Vec<Member>,
    /// Length of each field of a concatenation where fields may be intervals; else empty.
    pub(super) fields: Vec<u8>,
    pub(super) key_len: u8,
    /// All outcomes are equal and not asked for.
    pub(super) mute: bool,
}

/// Concatenations of intervals as keys under masks, each with the place of its element and what
/// finding it means.
struct Masked {
    masks: Masks,
    keys: HashMap<Box<[u8]>, [u32; 2]>,
    key_len: u8,
}

impl Masked {
    /// `None` if there are too many.
    fn of(members: &Members) -> Option<Masked> {
        let (mut masks, mut keys) = (Masks::default(), HashMap::new());
        for (place, member) in (0..).zip(&members.all) {
            for (mask, bytes) in pieces(&members.fields, &member.from, member.last())? {
                let key = [&masks.number(&mask)?.to_ne_bytes(), &*bytes].concat();
                keys.entry(key.into()).or_insert([place, member.outcome]);
            }
            if keys.len() > MOST_PIECES {
                return None;
            }
        }
        Some(Masked { masks, keys, key_len: members.key_len })
    }
}

impl Compiler<'_> {
    /// Goes to `hit` with the outcome's number in R0, or to `miss`.
    pub(super) fn search(
        &mut self,
        members: &Members,
        src: u8,
        hit: Label,
        miss: Label,
        rule: &mut Rule,
    ) -> Result<(), String> {
        let Members { all, fields, key_len, .. } = members;
        let intervals = all.iter().any(Member::is_interval);
        match (intervals, all.len()) {
            (_, MOST..) => return Err(format!("the set has more than {MOST} elements")),
            (true, _) if !fields.is_empty() => self.ranges(members, src, hit, miss, rule)?,
            (false, 0..=FEW) => self.few(members, src, hit, miss, rule),
            (_, _) if *key_len <= 2 => self.direct(members, src, hit, miss, rule),
            (true, 0..=FEW_INTERVALS) => self.few_intervals(members, src, hit, miss, rule),
            (true, _) => self.bisect(members, src, hit, miss, rule),
            (false, _) => self.hash(members, src, hit, miss, rule),
        }
        Ok(())
    }

    fn found(&mut self, members: &Members, member: &Member, hit: Label) {
        if !members.mute {
            self.asm.mov32(R0, member.outcome);
        }
        self.asm.jump(hit);
    }

    /// One comparison after the other.
    fn few(&mut self, members: &Members, src: u8, hit: Label, miss: Label, rule: &Rule) {
        for member in &members.all {
            let other = self.asm.label();
            self.compare(src, &member.from, other, other, rule);
            self.found(members, member, hit);
            self.asm.bind(other);
        }
        self.asm.jump(miss);
    }

    fn few_intervals(&mut self, members: &Members, src: u8, hit: Label, miss: Label, rule: &Rule) {
        for member in &members.all {
            let other = self.asm.label();
            self.interval(src, &member.from, member.last(), other, rule);
            self.found(members, member, hit);
            self.asm.bind(other);
        }
        self.asm.jump(miss);
    }

    /// Concatenations of intervals: of several that match, the one inserted first is found. What is
    /// too varied for a hash is compared one after the other.
    fn ranges(
        &mut self,
        members: &Members,
        src: u8,
        hit: Label,
        miss: Label,
        rule: &Rule,
    ) -> Result<(), String> {
        let masked = (members.all.len() > FEW_RANGES).then(|| Masked::of(members)).flatten();
        if let Some(masked) = masked {
            self.masked(masked, src, hit, miss, rule);
            return Ok(());
        }
        if members.all.len() > MOST_RANGES {
            return Err(format!(
                "a set of {} concatenations with intervals that are more than {MOST_MASKS} \
                 combinations of prefix lengths",
                members.all.len()
            ));
        }
        for member in &members.all {
            self.check_size().map_err(|e| e.reason)?;
            let other = self.asm.label();
            let mut word = 0;
            for len in &members.fields {
                let bytes = usize::from(word) * 4..usize::from(word) * 4 + usize::from(*len);
                let ends = (member.from.get(bytes.clone()), member.last().get(bytes));
                let (Some(from), Some(to)) = ends else {
                    return Err("a key is shorter than its fields".into());
                };
                self.interval(src + word, from, to, other, rule);
                word += len.div_ceil(4);
            }
            self.found(members, member, hit);
            self.asm.bind(other);
        }
        self.asm.jump(miss);
        Ok(())
    }

    fn masked(&mut self, masked: Masked, src: u8, hit: Label, miss: Label, rule: &Rule) {
        let Masked { masks, keys, key_len } = masked;
        let len = mask_len(key_len);
        let mut table = (masks.len() as u64).to_ne_bytes().to_vec();
        table.resize(8 + masks.len() * len, 0);
        for (number, mask) in masks.iter() {
            let at = 8 + number as usize * len;
            if let Some(to) = table.get_mut(at..at + mask.len()) {
                to.copy_from_slice(mask);
            }
        }
        // As many as code may ask for.
        table.resize(8 + MOST_MASKS * len, 0);
        let masks = self.one_value("rule_set_masks", table);
        let spec = MapSpec {
            name: "rule_set_pieces",
            kind: MapKind::Hash,
            key: 4 + u32::from(key_len),
            value: 8,
            entries: keys.len() as u32,
        };
        let mut contents: Vec<(Vec<u8>, Vec<u8>)> = keys
            .into_iter()
            .map(|(key, [place, outcome])| {
                let value = [place.to_ne_bytes(), outcome.to_ne_bytes()].concat();
                (key.into(), value)
            })
            .collect();
        // Equal sets have equal maps.
        contents.sort();
        let keys = self.constant(spec, contents);
        let next = self.asm.label();
        let table = MaskTable { masks: &masks, at: 8, count: 0, first: 0, keys: &keys, key_len };
        self.each_mask(&table, src, rule, next, |_| {});
        self.first_found(miss);
        self.asm.mov(R0, R1);
        self.asm.jump(hit);
    }

    /// R1 = a key of one or two bytes as a number, in memory order.
    pub(super) fn short_key(&mut self, src: u8, key_len: u8, rule: &Rule) {
        let width = if key_len == 1 { Width::B } else { Width::H };
        match rule.words.get(src) {
            Word::Constant(value) => self.asm.mov32(R1, value & first_bytes(key_len)),
            Word::At { at, .. } => self.asm.load(width, R1, R10, at),
        }
    }

    /// An entry for each key that there can be.
    fn direct(&mut self, members: &Members, src: u8, hit: Label, miss: Label, rule: &Rule) {
        let keys = 1_usize << (u32::from(members.key_len) * 8);
        let mut table = vec![0_u32; keys];
        for member in &members.all {
            for key in number(&member.from)..=number(member.last()) {
                // As the processor loads it.
                let raw = match members.key_len {
                    1 => key,
                    _ => u32::from(u16::from_ne_bytes((key as u16).to_be_bytes())),
                };
                if let Some(entry) = table.get_mut(raw as usize) {
                    *entry = member.outcome;
                }
            }
        }
        self.short_key(src, members.key_len, rule);
        if members.mute {
            let bits = |part: &[u32]| {
                part.iter().rev().fold(0_u8, |bits, n| bits << 1 | u8::from(*n != 0))
            };
            let map = self.one_value("rule_set_bits", table.chunks(8).map(bits).collect());
            self.asm.mov(R2, R1);
            self.asm.alu(Alu::Rsh, R2, 3);
            self.asm.map_value(R3, &map, 0);
            self.asm.alu(Alu::Add, R3, R2);
            self.asm.load(Width::B, R0, R3, 0);
            self.asm.alu(Alu::And, R1, 7);
            self.asm.alu(Alu::Rsh, R0, R1);
            self.asm.alu(Alu::And, R0, 1);
        } else {
            let map = self
                .one_value("rule_set_table", table.iter().flat_map(|n| n.to_ne_bytes()).collect());
            self.asm.alu(Alu::Lsh, R1, 2);
            self.asm.map_value(R3, &map, 0);
            self.asm.alu(Alu::Add, R3, R1);
            self.asm.load(Width::W, R0, R3, 0);
        }
        self.asm.jump_if(Cond::Eq, R0, 0, miss);
        self.asm.jump(hit);
    }

    fn hash(&mut self, members: &Members, src: u8, hit: Label, miss: Label, rule: &mut Rule) {
        let spec = MapSpec {
            name: "rule_set_hash",
            kind: MapKind::Hash,
            key: u32::from(members.key_len),
            value: 4,
            entries: members.all.len() as u32,
        };
        let contents =
            members.all.iter().map(|m| (m.from.to_vec(), m.outcome.to_ne_bytes().to_vec()));
        let map = self.constant(spec, contents.collect());
        let at = self.contiguous(src, members.key_len, rule);
        self.asm.mov(R2, R10);
        self.asm.alu(Alu::Add, R2, i32::from(at));
        self.asm.map(R1, &map);
        self.asm.call(Helper::MapLookup);
        self.asm.jump_if(Cond::Eq, R0, 0, miss);
        self.asm.load(Width::W, R0, R0, 0);
        self.asm.jump(hit);
    }

    /// Where the bytes of a key lie in a row.
    pub(super) fn contiguous(&mut self, src: u8, len: u8, rule: &mut Rule) -> i16 {
        let words = len.div_ceil(4);
        if let Word::At { at: first, .. } = rule.words.get(src) {
            let in_place = |i| match rule.words.get(src + i) {
                Word::At { at, .. } => at == first + i16::from(i) * 4,
                Word::Constant(_) => false,
            };
            if (0..words).all(in_place) {
                return first;
            }
        }
        for i in 0..words {
            let Word::At { at, bytes } = rule.words.get(src + i) else {
                self.word(R1, src + i, rule);
                self.keep(src + i, R1, 4, rule);
                continue;
            };
            if at != home(src + i) {
                self.word(R1, src + i, rule);
                self.keep(src + i, R1, bytes, rule);
            }
        }
        home(src)
    }

    /// Sorted intervals: the last that begins at the key or before it, if it does not end before.
    ///
    /// A row of the table: first key, last key (each in numbers of eight bytes), outcome.
    fn bisect(&mut self, members: &Members, src: u8, hit: Label, miss: Label, rule: &Rule) {
        let numbers = members.key_len.div_ceil(8);
        let row = i32::from(numbers) * 16 + 8;
        let mut sorted: Vec<_> = members.all.iter().collect();
        sorted.sort_by(|a, b| a.from.cmp(&b.from));
        let mut table = Vec::new();
        for member in &sorted {
            for key in [&*member.from, member.last()] {
                table.extend((0..numbers).flat_map(|n| eight(key, n).to_ne_bytes()));
            }
            table.extend(u64::from(member.outcome).to_ne_bytes());
        }
        let map = self.one_value("rule_set_ranges", table);
        let place = OPAQUE + 4;
        let row_of = |this: &mut Self, n: Reg| {
            this.asm.mov(R3, n);
            this.asm.alu(Alu::Mul, R3, row);
            this.asm.map_value(R4, &map, 0);
            this.asm.alu(Alu::Add, R4, R3);
        };
        // The key's numbers wait in the registers' places.
        let keys = SCRATCH;
        for n in 0..numbers {
            self.key_number(src, n, members.key_len, rule);
            self.asm.store(Width::D, R10, keys + i16::from(n) * 8, R0);
        }
        // The row so far is kept where the verifier forgets it: it would follow each way through
        // the table.
        self.asm.store(Width::W, R10, place, 0);
        let count = sorted.len() as u32;
        for step in (0..count.next_power_of_two().trailing_zeros()).rev() {
            let (stay, take) = (self.asm.label(), self.asm.label());
            self.asm.load(Width::W, R1, R10, place);
            self.asm.alu(Alu::Add, R1, 1 << step);
            self.asm.jump_if(Cond::Ge, R1, count as i32, stay);
            row_of(self, R1);
            for n in 0..numbers {
                self.asm.load(Width::D, R0, R10, keys + i16::from(n) * 8);
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
        self.asm.jump_if(Cond::Ge, R1, count as i32, miss);
        row_of(self, R1);
        self.is_within(numbers, miss);
        self.asm.load(Width::W, R0, R4, i16::from(numbers) * 16);
        self.asm.jump(hit);
    }

    /// Goes to `miss` unless the key, whose numbers are kept, is in the interval of row R4: even
    /// the first may begin after it.
    pub(super) fn is_within(&mut self, numbers: u8, miss: Label) {
        let keys = SCRATCH;
        for (end, outside, inside) in
            [(0, Cond::Gt, Cond::Lt), (i16::from(numbers) * 8, Cond::Lt, Cond::Gt)]
        {
            let within = self.asm.label();
            for n in 0..numbers {
                self.asm.load(Width::D, R0, R10, keys + i16::from(n) * 8);
                self.asm.load(Width::D, R5, R4, end + i16::from(n) * 8);
                self.asm.jump_if(outside, R5, R0, miss);
                if n + 1 < numbers {
                    self.asm.jump_if(inside, R5, R0, within);
                }
            }
            self.asm.bind(within);
        }
    }

    /// R0 = the `n`th eight bytes of a key as a number in their order, zeros after its end.
    pub(super) fn key_number(&mut self, src: u8, n: u8, len: u8, rule: &Rule) {
        self.asm.mov(R0, 0);
        for (word, shift) in [(n * 2, 32), (n * 2 + 1, 0)] {
            if word * 4 >= len {
                break;
            }
            self.ordered(R1, src, word, len, rule);
            let missing = 4 - (len - word * 4).min(4);
            self.asm.alu(Alu::Lsh, R1, shift + i32::from(missing) * 8);
            self.asm.alu(Alu::Or, R0, R1);
        }
    }
}

/// The `n`th eight bytes as a number in their order, zeros after the end.
pub(super) fn eight(key: &[u8], n: u8) -> u64 {
    let mut bytes = [0; 8];
    for (to, from) in bytes.iter_mut().zip(key.iter().skip(usize::from(n) * 8)) {
        *to = *from;
    }
    u64::from_be_bytes(bytes)
}
