// SPDX-License-Identifier: Apache-2.0

//! Searching a set for a key: in line where its structure is that of words or tables, else by a
//! function made for it.

use std::sync::Arc;

use penstock_program::DynamicSet;
use penstock_program::op::Op;
use penstock_program::state::DynamicSearch;
use penstock_sets::{ClassTables, FieldClasses, NOWHERE, Root, Search, Searcher, Spans, WordCells};

use super::key::Key;
use crate::asm::{Block, Is, Value, Width};
use crate::host::Address;
use crate::lowering_ctx::{LoweringCtx, Registers};

/// Where in a set a key is; code leaves to `nowhere` if it is not in it.
pub(super) fn place(
    ctx: &mut LoweringCtx<'_, '_>,
    search: &Search<'_>,
    key: Key,
    op: &Op,
    registers: &mut Registers,
    nowhere: Block,
) -> Value {
    let place = match search {
        Search::Words(cells) => {
            let word = ctx.word(registers, key.src);
            return place_of_word(ctx, cells, word, nowhere);
        }
        Search::Spans(spans) => return place_in_spans(ctx, spans, key, registers, nowhere),
        Search::Tables(tables) => return place_in_tables(ctx, tables, key, op, registers, nowhere),
        Search::Number(searcher) => by_number(ctx, searcher, key, registers),
        Search::Address(searcher) => by_address(ctx, searcher, key, op, registers),
    };
    let is_nowhere = ctx.asm.is_number(place, Is::Equal, NOWHERE);
    ctx.leave_if(is_nowhere, nowhere);
    place
}

fn by_number(
    ctx: &mut LoweringCtx<'_, '_>,
    searcher: &Searcher<u64>,
    key: Key,
    registers: &mut Registers,
) -> Value {
    let index = ctx.asm.long(searcher.index.addr() as u64);
    let number = number(ctx, key, registers);
    ctx.asm.call_without_host(Address::of_search(searcher.function as *const ()), &[index, number])
}

fn by_address(
    ctx: &mut LoweringCtx<'_, '_>,
    searcher: &Searcher<*const u8>,
    key: Key,
    op: &Op,
    registers: &Registers,
) -> Value {
    let address = in_memory(ctx, key, op, registers);
    let index = ctx.asm.long(searcher.index.addr() as u64);
    ctx.asm.call_without_host(Address::of_search(searcher.function as *const ()), &[index, address])
}

/// Whether there is an element for a key at a time in a set that packets change.
pub(super) fn in_dynamic_set(
    ctx: &mut LoweringCtx<'_, '_>,
    set: &Arc<DynamicSet>,
    key: Key,
    now: Value,
    op: &Op,
    registers: &mut Registers,
) -> Value {
    let address = ctx.asm.long(Arc::as_ptr(set).addr() as u64);
    let (function, key) = match set.search() {
        DynamicSearch::Number(function) => (function as *const (), number(ctx, key, registers)),
        DynamicSearch::Address(function) => {
            (function as *const (), in_memory(ctx, key, op, registers))
        }
    };
    ctx.asm.call_without_host(Address::of_search(function), &[address, key, now])
}

/// The address of a key in the memory for registers.
fn in_memory(ctx: &mut LoweringCtx<'_, '_>, key: Key, op: &Op, registers: &Registers) -> Value {
    ctx.spill(registers, op.info().reads);
    let offset = ctx.asm.long(u64::from(key.src) * 4);
    ctx.asm.add(ctx.memory, offset)
}

/// A key of up to 8 bytes as a number, its bytes from the lowest on.
fn number(ctx: &mut LoweringCtx<'_, '_>, key: Key, registers: &mut Registers) -> Value {
    let mut part = |slot: u8, len: u8| {
        let mut word = ctx.word(registers, slot);
        if len < 4 {
            word = ctx.asm.and_number(word, u64::from(u32::MAX >> (8 * (4 - len))));
        }
        ctx.asm.widen(word, Width::Long)
    };
    let low = part(key.src, key.len.min(4));
    if key.len <= 4 {
        return low;
    }
    let high = part(key.src + 1, key.len - 4);
    let high = ctx.asm.shift_left(high, 32);
    ctx.asm.or(low, high)
}

/// [`place`] in open addressing, in line.
fn place_of_word(
    ctx: &mut LoweringCtx<'_, '_>,
    table: &WordCells<'_>,
    word: Value,
    nowhere: Block,
) -> Value {
    ctx.leaves();
    let key = ctx.asm.widen(word, Width::Long);
    let last = table.cells.len() as u64 - 1;
    let seeded = ctx.asm.xor_number(key, table.seed);
    let factor = ctx.asm.long(WordCells::FACTOR);
    let low = ctx.asm.multiply(seeded, factor);
    let high = ctx.asm.multiply_high(seeded, factor);
    let hash = ctx.asm.xor(low, high);
    let home = ctx.asm.and_number(hash, last);
    let (look, at) = ctx.asm.block_with(Width::Long);
    let (other, same) = (ctx.asm.block(), ctx.asm.block());
    ctx.asm.jump_with(look, home);
    ctx.asm.at(look);
    let cell = ctx.asm.element(Width::Long, table.cells.as_ptr().addr() as u64, at);
    let upper = ctx.asm.shift_right(cell, 32);
    let is_same = ctx.asm.is(upper, Is::Equal, key);
    ctx.asm.branch(is_same, same, other);
    ctx.asm.at(other);
    let is_empty = ctx.asm.is_number(cell, Is::Equal, NOWHERE);
    ctx.asm.leave_if(is_empty, nowhere);
    let one = ctx.asm.long(1);
    let next = ctx.asm.add(at, one);
    let next = ctx.asm.and_number(next, last);
    ctx.asm.jump_with(look, next);
    ctx.asm.at(same);
    // What is empty looks like the greatest key.
    let is_empty = ctx.asm.is_number(cell, Is::Equal, NOWHERE);
    ctx.asm.leave_if(is_empty, nowhere);
    ctx.asm.and_number(cell, u32::MAX.into())
}

/// [`place`] among intervals.
fn place_in_spans(
    ctx: &mut LoweringCtx<'_, '_>,
    spans: &Spans<'_>,
    key: Key,
    registers: &mut Registers,
    nowhere: Block,
) -> Value {
    ctx.leaves();
    let Root { min, shift, cells } = spans.root;
    let (found, place) = ctx.asm.block_with(Width::Long);
    let word = ctx.word(registers, key.src);
    let number = ctx.asm.swap_bytes(word);
    let below = ctx.asm.is_number(number, Is::Below, min.into());
    ctx.leave_if(below, nowhere);
    let first = ctx.asm.word(min);
    let above = ctx.asm.sub(number, first);
    let part = ctx.asm.shift_right(above, shift as u8);
    let part = ctx.asm.widen(part, Width::Long);
    // After the last cell only the last interval can have it.
    let (look, at) = ctx.asm.block_with(Width::Long);
    let last = ctx.asm.long(spans.first.len() as u64 - 1);
    let (inside, after) = (ctx.asm.block(), ctx.asm.block());
    let is_inside = ctx.asm.is_number(part, Is::Below, cells.len() as u64);
    ctx.asm.branch(is_inside, inside, after);
    ctx.asm.at(after);
    ctx.asm.jump_with(look, last);
    ctx.asm.at(inside);
    let cell = ctx.asm.element(Width::Long, cells.as_ptr().addr() as u64, part);
    let (cut, whole) = (ctx.asm.cold_block(), ctx.asm.block());
    let is_cut = ctx.asm.is_number(cell, Is::SignedBelow, 0);
    ctx.asm.branch(is_cut, cut, whole);
    ctx.asm.at(cut);
    let answer = by_number(ctx, &spans.otherwise, key, registers);
    let is_nowhere = ctx.asm.is_number(answer, Is::Equal, NOWHERE);
    ctx.leave_if(is_nowhere, nowhere);
    ctx.asm.jump_with(found, answer);
    // From the last interval that begins in the cell back to one that does not begin after the
    // key. There is one: the first of all begins at `min`.
    ctx.asm.at(whole);
    let before = ctx.asm.and_number(cell, u32::MAX.into());
    let count = ctx.asm.shift_right(cell, 32);
    let end = ctx.asm.add(before, count);
    let one = ctx.asm.long(1);
    let latest = ctx.asm.sub(end, one);
    ctx.asm.jump_with(look, latest);
    ctx.asm.at(look);
    let from = ctx.asm.element(Width::Word, spans.first.as_ptr().addr() as u64, at);
    let (earlier, here) = (ctx.asm.block(), ctx.asm.block());
    let begins_after = ctx.asm.is(number, Is::Below, from);
    ctx.asm.branch(begins_after, earlier, here);
    ctx.asm.at(earlier);
    let one = ctx.asm.long(1);
    let next = ctx.asm.sub(at, one);
    ctx.asm.jump_with(look, next);
    ctx.asm.at(here);
    let to = ctx.asm.element(Width::Word, spans.last.as_ptr().addr() as u64, at);
    let ends_before = ctx.asm.is(to, Is::Below, number);
    ctx.leave_if(ends_before, nowhere);
    let slot = ctx.asm.element(Width::Word, spans.places.as_ptr().addr() as u64, at);
    let slot = ctx.asm.widen(slot, Width::Long);
    ctx.asm.jump_with(found, slot);
    ctx.asm.at(found);
    place
}

/// [`place`] by tables over the classes of the key's fields.
fn place_in_tables(
    ctx: &mut LoweringCtx<'_, '_>,
    tables: &ClassTables<'_>,
    key: Key,
    op: &Op,
    registers: &mut Registers,
    nowhere: Block,
) -> Value {
    ctx.leaves();
    let mut all: Option<Value> = None;
    for field in &tables.fields {
        let part = Key { src: key.src + (field.offset / 4) as u8, len: field.len as u8 };
        let own = match &field.classes {
            FieldClasses::Pages(index, pages) => {
                class_in_page(ctx, (index, pages), part, registers)
            }
            FieldClasses::Words(cells) => {
                let word = ctx.word(registers, part.src);
                let (known, class) = ctx.asm.block_with(Width::Long);
                let other = ctx.asm.block();
                let found = place_of_word(ctx, cells, word, other);
                ctx.asm.jump_with(known, found);
                ctx.asm.at(other);
                let none = ctx.asm.long(0);
                ctx.asm.jump_with(known, none);
                ctx.asm.at(known);
                class
            }
            FieldClasses::Number(searcher) => by_number(ctx, searcher, part, registers),
            FieldClasses::Address(searcher) => by_address(ctx, searcher, part, op, registers),
        };
        all = Some(match all {
            None => own,
            Some(before) => {
                let width = ctx.asm.long(field.width as u64);
                let row = ctx.asm.multiply(before, width);
                let at = ctx.asm.add(row, own);
                let class = ctx.asm.element(Width::Half, field.rows.as_ptr().addr() as u64, at);
                ctx.asm.widen(class, Width::Long)
            }
        });
    }
    let class = all.unwrap_or_else(|| ctx.asm.long(0));
    let place = ctx.asm.element(Width::Word, tables.places.as_ptr().addr() as u64, class);
    let is_nowhere = ctx.asm.is_number(place, Is::Equal, u32::MAX.into());
    ctx.leave_if(is_nowhere, nowhere);
    ctx.asm.widen(place, Width::Long)
}

/// The class of a field of one or two bytes.
fn class_in_page(
    ctx: &mut LoweringCtx<'_, '_>,
    (index, pages): (&[u8; 256], &[u16]),
    part: Key,
    registers: &mut Registers,
) -> Value {
    let word = ctx.word(registers, part.src);
    let word = ctx.asm.widen(word, Width::Long);
    let first = ctx.asm.and_number(word, 0xff);
    let at = if part.len == 1 {
        let page = ctx.asm.long(u64::from(index[0]) << 8);
        ctx.asm.or(page, first)
    } else {
        let page = ctx.asm.element(Width::Byte, index.as_ptr().addr() as u64, first);
        let page = ctx.asm.widen(page, Width::Long);
        let page = ctx.asm.shift_left(page, 8);
        let second = ctx.asm.shift_right(word, 8);
        let second = ctx.asm.and_number(second, 0xff);
        ctx.asm.or(page, second)
    };
    let class = ctx.asm.element(Width::Half, pages.as_ptr().addr() as u64, at);
    ctx.asm.widen(class, Width::Long)
}
