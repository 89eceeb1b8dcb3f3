// SPDX-License-Identifier: Apache-2.0

//! A loop over things that lie one after the other, with a decision about each.

use crate::asm::{Asm, Block, Is, Value, Width};
use crate::outcome;

/// What becomes of things after one that goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// It decides on them: what becomes of that one makes no difference to them.
    Any,
    /// It leaves them, since that one may change sets in which they are looked up.
    OneAfterTheOther,
}

/// The loop, while its body is made.
pub(crate) struct Each {
    head: Block,
    index: Value,
    /// Address of the one that is decided on.
    pub(crate) item: Value,
    /// Where the body goes with a decision.
    pub(crate) decided: Block,
    decision: Value,
}

impl Each {
    /// Begins it over so many things of `size` bytes: the body follows. The function returns how
    /// many were decided on.
    pub(crate) fn begin(asm: &mut Asm<'_>, items: Value, count: Value, size: usize) -> Each {
        let (head, index) = asm.block_with(Width::Long);
        let (decided, decision) = asm.block_with(Width::Long);
        let (body, out) = (asm.block(), asm.block());
        let zero = asm.long(0);
        asm.jump_with(head, zero);
        asm.at(head);
        let more = asm.is(index, Is::Below, count);
        asm.branch(more, body, out);
        asm.at(out);
        asm.ret(index);
        asm.at(body);
        let size = asm.long(size as u64);
        let offset = asm.multiply(index, size);
        let item = asm.add(items, offset);
        Each { head, index, item, decided, decision }
    }

    /// Ends it: the decision, of eight bytes, goes to its place among `decisions`, and the next one
    /// follows, with [`Order::OneAfterTheOther`] only after a drop.
    pub(crate) fn end(self, asm: &mut Asm<'_>, decisions: Value, order: Order) {
        asm.at(self.decided);
        let offset = asm.shift_left(self.index, 3);
        let place = asm.add(decisions, offset);
        asm.store(self.decision, place, 0);
        let one = asm.long(1);
        let next = asm.add(self.index, one);
        if order == Order::OneAfterTheOther {
            let (on, stop) = (asm.block(), asm.cold_block());
            let kind = asm.and_number(self.decision, outcome::KIND);
            let drop = asm.is_number(kind, Is::Equal, outcome::DROP);
            let policy = asm.is_number(kind, Is::Equal, outcome::POLICY);
            let drops = asm.or(drop, policy);
            asm.branch(drops, on, stop);
            asm.at(stop);
            asm.ret(next);
            asm.at(on);
        }
        asm.jump_with(self.head, next);
    }
}
