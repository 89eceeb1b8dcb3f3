// SPDX-License-Identifier: Apache-2.0

//! Sets and maps of a generation: in line where they are small, a bit table for keys of up to 16
//! bits, and otherwise the search that suits the set's structure, in line or by a function that was
//! made for it. What elements hold is the interpreter's.

use penstock_program::image::{LinkedData, LinkedValue, LinkedVerdict};
use penstock_program::op::{Load, Op};
use penstock_sets::{ElementRef, Set};

use super::key::Key;
use super::search::place;
use super::{Flow, call, compare, search};
use crate::asm::{Block, Is, Value, Width};
use crate::lowering_ctx::{LoweringCtx, Registers};
use crate::tables::Tables;

/// Elements that are compared one after the other.
const IN_LINE: usize = 8;

pub(super) fn lookup(
    ctx: &mut LoweringCtx<'_, '_>,
    op: &Op,
    registers: &mut Registers,
    fail: Block,
    tables: &mut Tables,
) -> Flow {
    let Op::Lookup { src, key_len, inverse, load, set } = op else {
        return call::any_or_break(ctx, op, registers, fail);
    };
    let key = Key { src: *src, len: *key_len };
    match load {
        Load::Nothing if plain(set, key.len) => {
            if let Some(elements) = small(set, key.len) {
                members(ctx, key, &elements, *inverse, registers, fail);
                return Flow::Next;
            }
            if key.len <= 2 {
                let table = tables.keep(bits_of(set, key.len));
                bit_table(ctx, key, table, *inverse, registers, fail);
                return Flow::Next;
            }
        }
        Load::Verdict if !inverse && plain(set, key.len) => {
            if let Some(elements) = small(set, key.len) {
                return verdicts(ctx, key, &elements, registers, fail);
            }
        }
        Load::Nothing | Load::Bytes { .. } | Load::Verdict => {}
    }
    // What holds for keys that are nowhere is then known without asking anybody.
    let search = set.search().filter(|_| set.catch_all(0).is_none() && is_of(set, key.len));
    if *load == Load::Nothing
        && set.is_presence_only()
        && !set.may_expire()
        && let Some(search) = &search
    {
        if *inverse {
            let on = ctx.asm.block();
            place(ctx, search, key, op, registers, on);
            ctx.leaves();
            ctx.asm.jump(fail);
            ctx.asm.at(on);
        } else {
            place(ctx, search, key, op, registers, fail);
        }
        return Flow::Next;
    }
    let found =
        search.filter(|_| !inverse).map(|search| place(ctx, &search, key, op, registers, fail));
    let statements = set.iter_unordered().any(|e| !e.value.statements.is_empty());
    if *load == Load::Verdict || statements {
        match found {
            Some(place) => call::answered_at(ctx, op, place, registers),
            None => call::answered(ctx, ctx.helpers.lookup, op, registers),
        }
    } else {
        match found {
            Some(place) => call::at_or_break(ctx, op, place, registers, fail),
            None => call::or_break(ctx, ctx.helpers.lookup, op, registers, fail),
        }
    }
}

/// A lookup in a set that packets change.
pub(super) fn dynamic(
    ctx: &mut LoweringCtx<'_, '_>,
    op: &Op,
    registers: &mut Registers,
    fail: Block,
) -> Flow {
    if let Op::LookupDynamic { src, key_len, inverse, load: Load::Nothing, set } = op
        && let Some(now) = ctx.frame_time
        && usize::from(*key_len) == set.key_len()
        && set.is_presence_only()
    {
        let key = Key { src: *src, len: *key_len };
        let found = search::in_dynamic_set(ctx, set, key, now, op, registers);
        if *inverse {
            ctx.leave_if(found, fail);
        } else {
            ctx.leave_unless(found, fail);
        }
        ctx.dynamic_sets.push(set.clone());
        return Flow::Next;
    }
    // Statements of elements may answer in every way.
    call::answered(ctx, ctx.helpers.lookup_dynamic, op, registers)
}

/// Whether keys of the set are as long as those that are looked up.
fn is_of(set: &Set<LinkedValue>, key_len: u8) -> bool {
    set.description().key_len == usize::from(key_len)
}

/// Whether being in the set is all that there is to its elements: none expires, counts or stands
/// for the rest.
fn plain(set: &Set<LinkedValue>, key_len: u8) -> bool {
    (1..=16).contains(&key_len)
        && is_of(set, key_len)
        && set.catch_all(0).is_none()
        && set.iter_unordered().all(|e| e.expires_at.is_none() && e.value.statements.is_empty())
}

/// The elements, if they are few and keys are numbers or compared as a whole.
fn small(set: &Set<LinkedValue>, key_len: u8) -> Option<Vec<ElementRef<'_, LinkedValue>>> {
    if set.len() > IN_LINE {
        return None;
    }
    let elements: Vec<_> = set.iter_unordered().collect();
    let one_field = set.description().fields.len() <= 1;
    let fits = |e: &ElementRef<'_, LinkedValue>| {
        e.key.len() == usize::from(key_len)
            && e.key_end.is_none_or(|end| one_field && end.len() == usize::from(key_len))
    };
    elements.iter().all(fits).then_some(elements)
}

/// Whether the key is an element's.
fn is_in(
    ctx: &mut LoweringCtx<'_, '_>,
    key: Key,
    element: &ElementRef<'_, LinkedValue>,
    registers: &mut Registers,
) -> Value {
    let padded = |bytes: &[u8]| {
        let mut all = [0; 16];
        all[..bytes.len()].copy_from_slice(bytes);
        all
    };
    let from = padded(element.key);
    match element.key_end {
        Some(end) if end != element.key => {
            compare::within(ctx, key.src, key.len, &[from, padded(end)], registers)
        }
        _ => {
            let differs = compare::differs(ctx, key.src, key.len, &from, registers);
            ctx.asm.is_number(differs, Is::Equal, 0)
        }
    }
}

fn members(
    ctx: &mut LoweringCtx<'_, '_>,
    key: Key,
    elements: &[ElementRef<'_, LinkedValue>],
    inverse: bool,
    registers: &mut Registers,
    fail: Block,
) {
    let on = ctx.asm.block();
    let (hit, miss) = if inverse { (fail, on) } else { (on, fail) };
    for element in elements {
        let found = is_in(ctx, key, element, registers);
        ctx.leave_if(found, hit);
    }
    ctx.leaves();
    ctx.asm.jump(miss);
    ctx.asm.at(on);
}

fn verdicts(
    ctx: &mut LoweringCtx<'_, '_>,
    key: Key,
    elements: &[ElementRef<'_, LinkedValue>],
    registers: &mut Registers,
    fail: Block,
) -> Flow {
    let mut ways: Vec<(Block, LinkedVerdict)> = Vec::new();
    for element in elements {
        let way = match &element.value.data {
            LinkedData::Verdict(verdict) => match ways.iter().find(|(_, v)| v == verdict) {
                Some((block, _)) => *block,
                None => {
                    let block = ctx.asm.block();
                    ways.push((block, *verdict));
                    block
                }
            },
            // Elements of a map hold what the map says.
            LinkedData::None
            | LinkedData::Value(_)
            | LinkedData::Long(_)
            | LinkedData::Object(_) => fail,
        };
        let found = is_in(ctx, key, element, registers);
        ctx.leave_if(found, way);
    }
    ctx.leaves();
    ctx.asm.jump(fail);
    Flow::Verdicts(ways)
}

/// A bit for each key of one or two bytes, numbered as its bytes are in memory.
fn bits_of(set: &Set<LinkedValue>, key_len: u8) -> Box<[u64]> {
    let keys = 1usize << (8 * key_len);
    let mut bits = vec![0u64; keys / 64].into_boxed_slice();
    for number in 0..keys {
        let bytes = (number as u16).to_le_bytes();
        if set.contains(&bytes[..usize::from(key_len)], 0) {
            bits[number / 64] |= 1 << (number % 64);
        }
    }
    bits
}

/// Asks for the bit of a key in the table at an address, which [`bits_of`] has made.
fn bit_table(
    ctx: &mut LoweringCtx<'_, '_>,
    key: Key,
    table: u64,
    inverse: bool,
    registers: &mut Registers,
    fail: Block,
) {
    let keys = 1u64 << (8 * key.len);
    let table = ctx.asm.long(table);
    let word = ctx.word(registers, key.src);
    let number = ctx.asm.and_number(word, keys - 1);
    let wide = ctx.asm.widen(number, Width::Long);
    let byte = ctx.asm.shift_right(wide, 3);
    let address = ctx.asm.add(table, byte);
    let byte = ctx.asm.load(Width::Byte, address, 0);
    let byte = ctx.asm.widen(byte, Width::Word);
    let bit = ctx.asm.and_number(number, 7);
    let bit = ctx.asm.shift_right_by(byte, bit);
    let bit = ctx.asm.and_number(bit, 1);
    if inverse {
        ctx.leave_if(bit, fail);
    } else {
        ctx.leave_unless(bit, fail);
    }
}
