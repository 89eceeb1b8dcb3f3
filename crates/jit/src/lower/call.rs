// SPDX-License-Identifier: Apache-2.0

//! Operations that the interpreter's functions run.

use penstock_program::op::Op;

use super::Flow;
use crate::asm::{Block, Value};
use crate::frame::{Frame, Registers};
use crate::host::Address;

fn call(f: &mut Frame<'_, '_>, function: Address, op: &Op, registers: &Registers) -> Value {
    f.spill(registers, op.info().reads);
    let op = f.asm.long(std::ptr::from_ref(op).addr() as u64);
    f.asm.call_address(function, &[f.packet, f.host, op, f.memory, f.entry])
}

fn call_at(f: &mut Frame<'_, '_>, op: &Op, place: Value, registers: &Registers) -> Value {
    f.spill(registers, op.info().reads);
    let op = f.asm.long(std::ptr::from_ref(op).addr() as u64);
    f.asm.call_address(f.helpers.found, &[f.packet, f.host, op, f.memory, f.entry, place])
}

/// What follows a lookup that goes on or ends the rule, where the key was found in a place.
pub(super) fn at_or_break(
    f: &mut Frame<'_, '_>,
    op: &Op,
    place: Value,
    registers: &mut Registers,
    fail: Block,
) -> Flow {
    let answer = call_at(f, op, place, registers);
    f.leave_if(answer, fail);
    registers.written_in_memory(op.info().writes);
    Flow::Next
}

/// What follows a lookup of which every answer may come, where the key was found in a place.
pub(super) fn answered_at(
    f: &mut Frame<'_, '_>,
    op: &Op,
    place: Value,
    registers: &mut Registers,
) -> Flow {
    let answer = call_at(f, op, place, registers);
    registers.written_in_memory(op.info().writes);
    Flow::Step(answer)
}

/// Operations that go on or end the rule, by a function of their own.
pub(super) fn or_break(
    f: &mut Frame<'_, '_>,
    function: Address,
    op: &Op,
    registers: &mut Registers,
    fail: Block,
) -> Flow {
    let answer = call(f, function, op, registers);
    f.leave_if(answer, fail);
    registers.written_in_memory(op.info().writes);
    Flow::Next
}

/// Operations that go on or end the rule.
pub(super) fn any_or_break(
    f: &mut Frame<'_, '_>,
    op: &Op,
    registers: &mut Registers,
    fail: Block,
) -> Flow {
    or_break(f, f.helpers.any, op, registers, fail)
}

/// Operations of which every answer may come, by a function of their own.
pub(super) fn answered(
    f: &mut Frame<'_, '_>,
    function: Address,
    op: &Op,
    registers: &mut Registers,
) -> Flow {
    let answer = call(f, function, op, registers);
    registers.written_in_memory(op.info().writes);
    Flow::Step(answer)
}

/// Operations of which every answer may come.
pub(super) fn any_answered(f: &mut Frame<'_, '_>, op: &Op, registers: &mut Registers) -> Flow {
    answered(f, f.helpers.any, op, registers)
}
