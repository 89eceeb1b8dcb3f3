// SPDX-License-Identifier: Apache-2.0

//! Counters and other stateful statements.

use penstock_program::State;
use penstock_program::image::Stateful;
use penstock_program::op::Op;

use super::{Flow, call};
use crate::asm::{Block, Value, Width};
use crate::lowering_ctx::{LoweringCtx, Registers};

pub(super) fn counter(ctx: &mut LoweringCtx<'_, '_>, state: &State) -> Flow {
    count(ctx, state);
    Flow::Next
}

/// Counts the packet.
pub(crate) fn count(ctx: &mut LoweringCtx<'_, '_>, state: &State) {
    // The interpreter counts nothing either in a state that is no counter's.
    if let Some(cells) = cells_of(state) {
        let place = ctx.asm.long(cells);
        count_at(ctx, place);
    }
}

/// Where the first worker counts packets and bytes.
pub(crate) fn cells_of(state: &State) -> Option<u64> {
    let State::Counter(counter) = state else { return None };
    Some(counter.cells_of_first().as_ptr().addr() as u64)
}

/// Counts the packet in the cells that are those of the first worker at an address.
pub(crate) fn count_at(ctx: &mut LoweringCtx<'_, '_>, cells: Value) {
    let Some(length) = ctx.windows.length else { return };
    let place = ctx.asm.add(cells, ctx.cells);
    let one = ctx.asm.long(1);
    for (offset, more) in [(0, one), (size_of::<u64>(), length)] {
        let count = ctx.asm.load(Width::Long, place, offset);
        let count = ctx.asm.add(count, more);
        ctx.asm.store(count, place, offset);
    }
}

pub(super) fn run(
    ctx: &mut LoweringCtx<'_, '_>,
    op: &Op,
    stateful: &Stateful,
    registers: &mut Registers,
    fail: Block,
) -> Flow {
    if let Stateful::Counter(state) = stateful {
        return counter(ctx, state);
    }
    if op.info().decides {
        call::answered(ctx, ctx.helpers.stateful, op, registers)
    } else {
        call::or_break(ctx, ctx.helpers.stateful, op, registers, fail)
    }
}
