//! Counters and other stateful statements.

use penstock_program::State;
use penstock_program::image::{Op, Stateful};

use super::{Flow, call};
use crate::asm::Block;
use crate::frame::{Frame, Registers};

pub(super) fn counter(f: &mut Frame<'_, '_>, state: &State) -> Flow {
    let (State::Counter(counter), Some(length)) = (state, f.windows.length) else {
        // The interpreter counts nothing either in a state that is no counter's.
        return Flow::Next;
    };
    let [packets, bytes] = counter.cells().map(|cell| cell.as_ptr().addr() as u64);
    let (packets, one) = (f.asm.long(packets), f.asm.long(1));
    f.asm.atomic_add(packets, one);
    let bytes = f.asm.long(bytes);
    f.asm.atomic_add(bytes, length);
    Flow::Next
}

pub(super) fn run(
    f: &mut Frame<'_, '_>,
    op: &Op,
    stateful: &Stateful,
    registers: &mut Registers,
    fail: Block,
) -> Flow {
    match stateful {
        Stateful::Counter(state) => counter(f, state),
        Stateful::Quota { .. }
        | Stateful::NamedQuota { .. }
        | Stateful::Limit { .. }
        | Stateful::Last(_)
        | Stateful::SecMark(_) => call::or_break(f, f.helpers.stateful, op, registers, fail),
        Stateful::Connlimit { .. } | Stateful::Ct(_) | Stateful::Synproxy(_) => {
            call::answered(f, f.helpers.stateful, op, registers)
        }
    }
}
