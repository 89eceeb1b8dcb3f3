// SPDX-License-Identifier: Apache-2.0

//! The rule for a word among many rules that compare it with a constant each, and then only count
//! and decide.
//!
//! Code for each of many rules would take long to make, and to find the way to it takes a guess at
//! each step. A table of constants takes one access, and what the rule does is data next to it.

use std::collections::BTreeMap;

use penstock_program::State;

use crate::asm::{Block, Is, Value, Width};
use crate::filter;
use crate::lower;
use crate::lowering_ctx::LoweringCtx;
use crate::tables::Tables;

/// Fewer rules are searched for.
pub(crate) const WORTHWHILE: usize = filter::WORTHWHILE;

/// A cell without a constant. The others have the number of the rule above the constant.
const EMPTY: u64 = u64::MAX;

/// A rule that counts and decides.
pub(crate) struct Deciding<'a> {
    /// What it decides, as code does.
    pub(crate) decision: u64,
    /// Where it counts.
    pub(crate) counter: Option<&'a State>,
}

/// Open addressing on words.
struct Cells {
    cells: Box<[u64]>,
    /// Bits of a product that are no part of the hash.
    shift: u8,
}

impl Cells {
    /// Constants with their numbers, from 0 on.
    fn new(constants: impl ExactSizeIterator<Item = u32>) -> Cells {
        let size = (constants.len() * 2).next_power_of_two().max(2);
        let shift = 64 - size.ilog2() as u8;
        let mut cells = vec![EMPTY; size].into_boxed_slice();
        for (number, constant) in (0u64..).zip(constants) {
            let mut at = filter::hash(constant, shift);
            while let Some(cell) = cells.get_mut(at % size) {
                if *cell == EMPTY {
                    *cell = number << 32 | u64::from(constant);
                    break;
                }
                at += 1;
            }
        }
        Cells { cells, shift }
    }
}

/// Leaves to `none` unless a word is one of the constants; otherwise counts, and gives what the
/// rule decides.
pub(crate) fn look_up(
    ctx: &mut LoweringCtx<'_, '_>,
    tables: &mut Tables,
    word: Value,
    rules: &BTreeMap<u32, Deciding<'_>>,
    none: Block,
) -> Value {
    let Cells { cells, shift } = Cells::new(rules.keys().copied());
    let last = cells.len() as u64 - 1;
    let cells = tables.keep(cells);
    let decisions = tables.keep(rules.values().map(|rule| rule.decision).collect());
    let asm = &mut *ctx.asm;
    let home = filter::hash_in_code(asm, word, shift);
    let (look, at) = asm.block_with(Width::Long);
    let (other, same) = (asm.block(), asm.block());
    asm.jump_with(look, home);
    asm.at(look);
    let cell = asm.element(Width::Long, cells, at);
    let constant = asm.narrow(cell, Width::Word);
    let is_same = asm.is(constant, Is::Equal, word);
    asm.branch(is_same, same, other);
    asm.at(other);
    let is_empty = asm.is_number(cell, Is::Equal, EMPTY);
    asm.leave_if(is_empty, none);
    let one = asm.long(1);
    let next = asm.add(at, one);
    let next = asm.and_number(next, last);
    asm.jump_with(look, next);
    asm.at(same);
    // What is empty looks like the greatest constant.
    let is_empty = asm.is_number(cell, Is::Equal, EMPTY);
    asm.leave_if(is_empty, none);
    let number = asm.shift_right(cell, 32);
    if rules.values().any(|rule| rule.counter.is_some()) {
        let address = |rule: &Deciding<'_>| rule.counter.and_then(lower::cells_of).unwrap_or(0);
        let counters = tables.keep(rules.values().map(address).collect());
        let place = ctx.asm.element(Width::Long, counters, number);
        let (counts, on) = (ctx.asm.block(), ctx.asm.block());
        ctx.asm.branch(place, counts, on);
        ctx.asm.at(counts);
        lower::count_at(ctx, place);
        ctx.asm.jump(on);
        ctx.asm.at(on);
    }
    ctx.asm.element(Width::Long, decisions, number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_constant_has_a_cell_that_is_found_from_its_home() {
        let constants: Vec<u32> =
            (0..1000).map(|n: u32| (10 << 24 | n).swap_bytes()).chain([0, u32::MAX]).collect();
        let Cells { cells, shift } = Cells::new(constants.iter().copied());
        for (number, constant) in (0u64..).zip(&constants) {
            let home = filter::hash(*constant, shift);
            let way = (home..).map(|at| cells[at % cells.len()]);
            let found =
                way.take_while(|cell| *cell != EMPTY).find(|cell| *cell as u32 == *constant);
            assert_eq!(found, Some(number << 32 | u64::from(*constant)));
        }
        assert!(cells.iter().filter(|cell| **cell == EMPTY).count() >= constants.len());
    }
}
