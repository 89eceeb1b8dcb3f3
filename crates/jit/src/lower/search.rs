// SPDX-License-Identifier: Apache-2.0

//! Searching a set for a key: in line where its structure is that of words or tables, else by a
//! function made for it.

use penstock_program::op::Op;
use penstock_sets::{ClassTables, FieldClasses, NOWHERE, Root, Search, Searcher, Spans, WordCells};

use super::key::Key;
use crate::asm::{Block, Is, Value, Width};
use crate::frame::{Frame, Registers};
use crate::host::Address;

/// Where in a set a key is; code leaves to `nowhere` if it is not in it.
pub(super) fn place(
    f: &mut Frame<'_, '_>,
    search: &Search<'_>,
    key: Key,
    op: &Op,
    registers: &mut Registers,
    nowhere: Block,
) -> Value {
    let place = match search {
        Search::Words(cells) => {
            let word = f.word(registers, key.src);
            return place_of_word(f, cells, word, nowhere);
        }
        Search::Spans(spans) => return place_in_spans(f, spans, key, registers, nowhere),
        Search::Tables(tables) => return place_in_tables(f, tables, key, op, registers, nowhere),
        Search::Number(searcher) => by_number(f, searcher, key, registers),
        Search::Address(searcher) => by_address(f, searcher, key, op, registers),
    };
    let is_nowhere = f.asm.is_number(place, Is::Equal, NOWHERE);
    f.leave_if(is_nowhere, nowhere);
    place
}

fn by_number(
    f: &mut Frame<'_, '_>,
    searcher: &Searcher<u64>,
    key: Key,
    registers: &mut Registers,
) -> Value {
    let index = f.asm.long(searcher.index.addr() as u64);
    let number = number(f, key, registers);
    f.asm.call_alone(Address::of_search(searcher.function as *const ()), &[index, number])
}

fn by_address(
    f: &mut Frame<'_, '_>,
    searcher: &Searcher<*const u8>,
    key: Key,
    op: &Op,
    registers: &Registers,
) -> Value {
    f.spill(registers, op.info().reads);
    let index = f.asm.long(searcher.index.addr() as u64);
    let offset = f.asm.long(u64::from(key.src) * 4);
    let address = f.asm.add(f.memory, offset);
    f.asm.call_alone(Address::of_search(searcher.function as *const ()), &[index, address])
}

/// A key of up to 8 bytes as a number, its bytes from the lowest on.
fn number(f: &mut Frame<'_, '_>, key: Key, registers: &mut Registers) -> Value {
    let mut part = |slot: u8, len: u8| {
        let mut word = f.word(registers, slot);
        if len < 4 {
            word = f.asm.and_number(word, u64::from(u32::MAX >> (8 * (4 - len))));
        }
        f.asm.widen(word, Width::Long)
    };
    let low = part(key.src, key.len.min(4));
    if key.len <= 4 {
        return low;
    }
    let high = part(key.src + 1, key.len - 4);
    let high = f.asm.shift_left(high, 32);
    f.asm.or(low, high)
}

/// [`place`] in open addressing, in line.
fn place_of_word(
    f: &mut Frame<'_, '_>,
    table: &WordCells<'_>,
    word: Value,
    nowhere: Block,
) -> Value {
    f.leaves();
    let key = f.asm.widen(word, Width::Long);
    let last = table.cells.len() as u64 - 1;
    let seeded = f.asm.xor_number(key, table.seed);
    let factor = f.asm.long(WordCells::FACTOR);
    let low = f.asm.multiply(seeded, factor);
    let high = f.asm.multiply_high(seeded, factor);
    let hash = f.asm.xor(low, high);
    let home = f.asm.and_number(hash, last);
    let (look, at) = f.asm.block_with(Width::Long);
    let (other, same) = (f.asm.block(), f.asm.block());
    f.asm.jump_with(look, home);
    f.asm.at(look);
    let cell = element(f, Width::Long, table.cells.as_ptr().addr(), at);
    let upper = f.asm.shift_right(cell, 32);
    let is_same = f.asm.is(upper, Is::Equal, key);
    f.asm.branch(is_same, same, other);
    f.asm.at(other);
    let is_empty = f.asm.is_number(cell, Is::Equal, NOWHERE);
    f.asm.leave_if(is_empty, nowhere);
    let one = f.asm.long(1);
    let next = f.asm.add(at, one);
    let next = f.asm.and_number(next, last);
    f.asm.jump_with(look, next);
    f.asm.at(same);
    // What is empty looks like the greatest key.
    let is_empty = f.asm.is_number(cell, Is::Equal, NOWHERE);
    f.asm.leave_if(is_empty, nowhere);
    f.asm.and_number(cell, u32::MAX.into())
}

/// [`place`] among intervals.
fn place_in_spans(
    f: &mut Frame<'_, '_>,
    spans: &Spans<'_>,
    key: Key,
    registers: &mut Registers,
    nowhere: Block,
) -> Value {
    f.leaves();
    let Root { min, shift, cells } = spans.root;
    let (found, place) = f.asm.block_with(Width::Long);
    let word = f.word(registers, key.src);
    let number = f.asm.swap_bytes(word);
    let below = f.asm.is_number(number, Is::Below, min.into());
    f.leave_if(below, nowhere);
    let first = f.asm.word(min);
    let above = f.asm.sub(number, first);
    let part = f.asm.shift_right(above, shift as u8);
    let part = f.asm.widen(part, Width::Long);
    // After the last cell only the last interval can have it.
    let (look, at) = f.asm.block_with(Width::Long);
    let last = f.asm.long(spans.first.len() as u64 - 1);
    let (inside, after) = (f.asm.block(), f.asm.block());
    let is_inside = f.asm.is_number(part, Is::Below, cells.len() as u64);
    f.asm.branch(is_inside, inside, after);
    f.asm.at(after);
    f.asm.jump_with(look, last);
    f.asm.at(inside);
    let cell = element(f, Width::Long, cells.as_ptr().addr(), part);
    let (cut, whole) = (f.asm.cold_block(), f.asm.block());
    let is_cut = f.asm.is_number(cell, Is::SignedBelow, 0);
    f.asm.branch(is_cut, cut, whole);
    f.asm.at(cut);
    let answer = by_number(f, &spans.otherwise, key, registers);
    let is_nowhere = f.asm.is_number(answer, Is::Equal, NOWHERE);
    f.leave_if(is_nowhere, nowhere);
    f.asm.jump_with(found, answer);
    // From the last interval that begins in the cell back to one that does not begin after the
    // key. There is one: the first of all begins at `min`.
    f.asm.at(whole);
    let before = f.asm.and_number(cell, u32::MAX.into());
    let count = f.asm.shift_right(cell, 32);
    let end = f.asm.add(before, count);
    let one = f.asm.long(1);
    let latest = f.asm.sub(end, one);
    f.asm.jump_with(look, latest);
    f.asm.at(look);
    let from = element(f, Width::Word, spans.first.as_ptr().addr(), at);
    let (earlier, here) = (f.asm.block(), f.asm.block());
    let begins_after = f.asm.is(number, Is::Below, from);
    f.asm.branch(begins_after, earlier, here);
    f.asm.at(earlier);
    let one = f.asm.long(1);
    let next = f.asm.sub(at, one);
    f.asm.jump_with(look, next);
    f.asm.at(here);
    let to = element(f, Width::Word, spans.last.as_ptr().addr(), at);
    let ends_before = f.asm.is(to, Is::Below, number);
    f.leave_if(ends_before, nowhere);
    let slot = element(f, Width::Word, spans.places.as_ptr().addr(), at);
    let slot = f.asm.widen(slot, Width::Long);
    f.asm.jump_with(found, slot);
    f.asm.at(found);
    place
}

/// [`place`] by tables over the classes of the key's fields.
fn place_in_tables(
    f: &mut Frame<'_, '_>,
    tables: &ClassTables<'_>,
    key: Key,
    op: &Op,
    registers: &mut Registers,
    nowhere: Block,
) -> Value {
    f.leaves();
    let mut all: Option<Value> = None;
    for field in &tables.fields {
        let part = Key { src: key.src + (field.offset / 4) as u8, len: field.len as u8 };
        let own = match &field.classes {
            FieldClasses::Pages(index, pages) => class_in_page(f, (index, pages), part, registers),
            FieldClasses::Words(cells) => {
                let word = f.word(registers, part.src);
                let (known, class) = f.asm.block_with(Width::Long);
                let other = f.asm.block();
                let found = place_of_word(f, cells, word, other);
                f.asm.jump_with(known, found);
                f.asm.at(other);
                let none = f.asm.long(0);
                f.asm.jump_with(known, none);
                f.asm.at(known);
                class
            }
            FieldClasses::Number(searcher) => by_number(f, searcher, part, registers),
            FieldClasses::Address(searcher) => by_address(f, searcher, part, op, registers),
        };
        all = Some(match all {
            None => own,
            Some(before) => {
                let width = f.asm.long(field.width as u64);
                let row = f.asm.multiply(before, width);
                let at = f.asm.add(row, own);
                let class = element(f, Width::Half, field.rows.as_ptr().addr(), at);
                f.asm.widen(class, Width::Long)
            }
        });
    }
    let class = all.unwrap_or_else(|| f.asm.long(0));
    let place = element(f, Width::Word, tables.places.as_ptr().addr(), class);
    let is_nowhere = f.asm.is_number(place, Is::Equal, u32::MAX.into());
    f.leave_if(is_nowhere, nowhere);
    f.asm.widen(place, Width::Long)
}

/// The class of a field of one or two bytes.
fn class_in_page(
    f: &mut Frame<'_, '_>,
    (index, pages): (&[u8; 256], &[u16]),
    part: Key,
    registers: &mut Registers,
) -> Value {
    let word = f.word(registers, part.src);
    let word = f.asm.widen(word, Width::Long);
    let first = f.asm.and_number(word, 0xff);
    let at = if part.len == 1 {
        let page = f.asm.long(u64::from(index[0]) << 8);
        f.asm.or(page, first)
    } else {
        let page = element(f, Width::Byte, index.as_ptr().addr(), first);
        let page = f.asm.widen(page, Width::Long);
        let page = f.asm.shift_left(page, 8);
        let second = f.asm.shift_right(word, 8);
        let second = f.asm.and_number(second, 0xff);
        f.asm.or(page, second)
    };
    let class = element(f, Width::Half, pages.as_ptr().addr(), at);
    f.asm.widen(class, Width::Long)
}

/// An element of an array, by its number.
fn element(f: &mut Frame<'_, '_>, width: Width, array: usize, at: Value) -> Value {
    let array = f.asm.long(array as u64);
    let bits = match width {
        Width::Byte => 0,
        Width::Half => 1,
        Width::Word => 2,
        Width::Long => 3,
    };
    let offset = f.asm.shift_left(at, bits);
    let address = f.asm.add(array, offset);
    f.asm.load(width, address, 0)
}
