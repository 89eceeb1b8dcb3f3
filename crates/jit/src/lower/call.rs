//! Operations that the interpreter's functions run.

use penstock_program::image::Op;

use super::Flow;
use crate::asm::{Block, Is, Value};
use crate::frame::{Frame, Registers};
use crate::outcome::step;

fn before(f: &mut Frame<'_, '_>, op: &Op, registers: &Registers) -> Value {
    f.spill(registers, op.uses().reads);
    f.asm.long(std::ptr::from_ref(op).addr() as u64)
}

/// Operations that go on or end the rule, by a function of their own.
pub(super) fn frequent(
    f: &mut Frame<'_, '_>,
    function: usize,
    op: &Op,
    registers: &mut Registers,
    fail: Block,
) -> Flow {
    let op_address = before(f, op, registers);
    let answer = f.asm.call_address(function, &[f.packet, f.host, op_address, f.memory]);
    f.leave_if(answer, fail);
    registers.written_in_memory(op.uses().writes);
    Flow::Next
}

/// Operations that ask nobody and go on or end the rule.
pub(super) fn silent(f: &mut Frame<'_, '_>, op: &Op, registers: &mut Registers, fail: Block) -> Flow {
    frequent(f, f.helpers.silent, op, registers, fail)
}

/// Operations that ask nobody, change the packet, and may drop it.
pub(super) fn changing(f: &mut Frame<'_, '_>, op: &Op, registers: &mut Registers) -> Flow {
    answered(f, f.helpers.silent, op, registers)
}

/// Operations of which every answer may come, by a function of their own.
pub(super) fn answered(f: &mut Frame<'_, '_>, function: usize, op: &Op, registers: &mut Registers) -> Flow {
    let op_address = before(f, op, registers);
    let answer = f.asm.call_address(function, &[f.packet, f.host, op_address, f.memory]);
    registers.written_in_memory(op.uses().writes);
    Flow::Step(answer)
}

/// Operations that ask the outside, of which every answer may come.
pub(super) fn asking(f: &mut Frame<'_, '_>, op: &Op, registers: &mut Registers) -> Flow {
    let op_address = before(f, op, registers);
    let answer = f.asm.call_address(f.helpers.asking, &[f.packet, f.host, op_address, f.memory, f.entry]);
    registers.written_in_memory(op.uses().writes);
    Flow::Step(answer)
}

/// The same for operations that go on or end the rule.
pub(super) fn asking_or_break(
    f: &mut Frame<'_, '_>,
    op: &Op,
    registers: &mut Registers,
    fail: Block,
) -> Flow {
    match asking(f, op, registers) {
        Flow::Step(answer) => {
            let on = f.asm.is_number(answer, Is::Equal, step::NEXT);
            f.leave_unless(on, fail);
            Flow::Next
        }
        flow => flow,
    }
}
