// SPDX-License-Identifier: Apache-2.0

//! Operations that the interpreter's functions run.

use penstock_program::op::Op;

use super::Flow;
use crate::asm::{Block, Value};
use crate::host::Address;
use crate::lowering_ctx::{LoweringCtx, Registers};

fn call(ctx: &mut LoweringCtx<'_, '_>, function: Address, op: &Op, registers: &Registers) -> Value {
    ctx.spill(registers, op.info().reads);
    let op = ctx.asm.long(std::ptr::from_ref(op).addr() as u64);
    ctx.asm.call_address(function, &[ctx.packet, ctx.host, op, ctx.memory, ctx.entry])
}

fn call_at(ctx: &mut LoweringCtx<'_, '_>, op: &Op, place: Value, registers: &Registers) -> Value {
    ctx.spill(registers, op.info().reads);
    let op = ctx.asm.long(std::ptr::from_ref(op).addr() as u64);
    ctx.asm
        .call_address(ctx.helpers.found, &[ctx.packet, ctx.host, op, ctx.memory, ctx.entry, place])
}

/// What follows a lookup that goes on or ends the rule, where the key was found in a place.
pub(super) fn at_or_break(
    ctx: &mut LoweringCtx<'_, '_>,
    op: &Op,
    place: Value,
    registers: &mut Registers,
    fail: Block,
) -> Flow {
    let answer = call_at(ctx, op, place, registers);
    ctx.leave_if(answer, fail);
    registers.written_in_memory(op.info().writes);
    Flow::Next
}

/// What follows a lookup of which every answer may come, where the key was found in a place.
pub(super) fn answered_at(
    ctx: &mut LoweringCtx<'_, '_>,
    op: &Op,
    place: Value,
    registers: &mut Registers,
) -> Flow {
    let answer = call_at(ctx, op, place, registers);
    registers.written_in_memory(op.info().writes);
    Flow::Step(answer)
}

/// Operations that continue or end the rule, by their own function.
pub(super) fn or_break(
    ctx: &mut LoweringCtx<'_, '_>,
    function: Address,
    op: &Op,
    registers: &mut Registers,
    fail: Block,
) -> Flow {
    let answer = call(ctx, function, op, registers);
    ctx.leave_if(answer, fail);
    registers.written_in_memory(op.info().writes);
    Flow::Next
}

/// Operations that continue or end the rule.
pub(super) fn any_or_break(
    ctx: &mut LoweringCtx<'_, '_>,
    op: &Op,
    registers: &mut Registers,
    fail: Block,
) -> Flow {
    or_break(ctx, ctx.helpers.any, op, registers, fail)
}

/// Operations of which every answer may come, by their own function.
pub(super) fn answered(
    ctx: &mut LoweringCtx<'_, '_>,
    function: Address,
    op: &Op,
    registers: &mut Registers,
) -> Flow {
    let answer = call(ctx, function, op, registers);
    registers.written_in_memory(op.info().writes);
    Flow::Step(answer)
}

/// Operations of which every answer may come.
pub(super) fn any_answered(
    ctx: &mut LoweringCtx<'_, '_>,
    op: &Op,
    registers: &mut Registers,
) -> Flow {
    answered(ctx, ctx.helpers.any, op, registers)
}
