//! Counters.

use penstock_program::State;

use super::Flow;
use crate::frame::Frame;

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
