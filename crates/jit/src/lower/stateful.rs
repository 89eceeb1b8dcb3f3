// SPDX-License-Identifier: Apache-2.0

//! Counters and other stateful statements.

use penstock_program::State;
use penstock_program::image::Stateful;
use penstock_program::op::Op;

use super::{Flow, call};
use crate::asm::{Block, Width};
use crate::lowering_ctx::{LoweringCtx, Registers};

pub(super) fn counter(ctx: &mut LoweringCtx<'_, '_>, state: &State) -> Flow {
    count(ctx, state);
    Flow::Next
}

/// Counts the packet.
pub(crate) fn count(ctx: &mut LoweringCtx<'_, '_>, state: &State) {
    let (State::Counter(counter), Some(length)) = (state, ctx.windows.length) else {
        // The interpreter counts nothing either in a state that is no counter's.
        return;
    };
    let first = counter.cells_of_first();
    let [packets, bytes] = first.each_ref().map(|cell| cell.as_ptr().addr());
    let place = ctx.asm.long(packets as u64);
    let place = ctx.asm.add(place, ctx.cells);
    let one = ctx.asm.long(1);
    for (offset, more) in [(0, one), (bytes - packets, length)] {
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
