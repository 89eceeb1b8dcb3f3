// SPDX-License-Identifier: Apache-2.0

//! Counters and other stateful statements.

use penstock_program::State;
use penstock_program::image::Stateful;
use penstock_program::op::Op;

use super::{Flow, call};
use crate::asm::{Block, Width};
use crate::frame::{Frame, Registers};

pub(super) fn counter(f: &mut Frame<'_, '_>, state: &State) -> Flow {
    let (State::Counter(counter), Some(length)) = (state, f.windows.length) else {
        // The interpreter counts nothing either in a state that is no counter's.
        return Flow::Next;
    };
    let first = counter.cells_of_first();
    let [packets, bytes] = first.each_ref().map(|cell| cell.as_ptr().addr());
    let place = f.asm.long(packets as u64);
    let place = f.asm.add(place, f.cells);
    let one = f.asm.long(1);
    for (offset, more) in [(0, one), (bytes - packets, length)] {
        let count = f.asm.load(Width::Long, place, offset);
        let count = f.asm.add(count, more);
        f.asm.store(count, place, offset);
    }
    Flow::Next
}

pub(super) fn run(
    f: &mut Frame<'_, '_>,
    op: &Op,
    stateful: &Stateful,
    registers: &mut Registers,
    fail: Block,
) -> Flow {
    if let Stateful::Counter(state) = stateful {
        return counter(f, state);
    }
    if op.info().decides {
        call::answered(f, f.helpers.stateful, op, registers)
    } else {
        call::or_break(f, f.helpers.stateful, op, registers, fail)
    }
}
