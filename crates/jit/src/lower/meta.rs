// SPDX-License-Identifier: Apache-2.0

//! Metadata.

use penstock_packet::{Ct, CtInfo, layout};
use penstock_program::expr::MetaKey;
use penstock_program::op::Op;

use super::{Flow, call, load};
use crate::asm::{Block, Is, Width};
use crate::lowering_ctx::{Known, LoweringCtx, Registers};

pub(super) fn get(
    ctx: &mut LoweringCtx<'_, '_>,
    op: &Op,
    key: MetaKey,
    dst: u8,
    registers: &mut Registers,
    fail: Block,
) -> Flow {
    match key {
        MetaKey::NfProto => {
            let number = load::word_of(&[ctx.family as u8]);
            let value = ctx.asm.word(number);
            registers.set_constant(dst, value, number);
        }
        MetaKey::L4Proto => {
            let Some((has, protocol)) = ctx.windows.protocol else {
                return call::any_or_break(ctx, op, registers, fail);
            };
            if !ctx.facts.holds(Known::Protocol) {
                ctx.leave_unless(has, fail);
                ctx.facts.learn(Known::Protocol, None);
            }
            registers.set(dst, protocol);
        }
        MetaKey::Len => {
            let Some(length) = ctx.windows.length else {
                return call::any_or_break(ctx, op, registers, fail);
            };
            let word = ctx.asm.narrow(length, Width::Word);
            registers.set(dst, word);
        }
        MetaKey::Protocol => {
            let known = Known::Meta(layout::PROTOCOL);
            let value = ctx.facts.value(known).unwrap_or_else(|| {
                // In a register it is in network order.
                let half = ctx.asm.load(Width::Half, ctx.packet, layout::PROTOCOL);
                let half = ctx.asm.swap_bytes(half);
                let value = ctx.asm.widen(half, Width::Word);
                ctx.facts.learn(known, Some(value));
                value
            });
            registers.set(dst, value);
        }
        MetaKey::Mark => word(ctx, layout::MARK, dst, registers),
        MetaKey::Priority => word(ctx, layout::PRIORITY, dst, registers),
        MetaKey::Iif => word(ctx, layout::IIF, dst, registers),
        MetaKey::Oif => word(ctx, layout::OIF, dst, registers),
        _ => return call::any_or_break(ctx, op, registers, fail),
    }
    Flow::Next
}

fn word(ctx: &mut LoweringCtx<'_, '_>, at: usize, dst: u8, registers: &mut Registers) {
    let known = Known::Meta(at);
    let value = ctx.facts.value(known).unwrap_or_else(|| {
        let value = ctx.asm.load(Width::Word, ctx.packet, at);
        ctx.facts.learn(known, Some(value));
        value
    });
    registers.set(dst, value);
}

pub(super) fn set(
    ctx: &mut LoweringCtx<'_, '_>,
    op: &Op,
    key: MetaKey,
    src: u8,
    registers: &mut Registers,
    fail: Block,
) -> Flow {
    let place = match key {
        MetaKey::Mark => layout::MARK,
        MetaKey::Priority => layout::PRIORITY,
        _ => return call::any_or_break(ctx, op, registers, fail),
    };
    let value = ctx.word(registers, src);
    ctx.asm.store(value, ctx.packet, place);
    Flow::Next
}

/// [`Ct::state`](penstock_packet::Ct::state).
pub(super) fn ct_state(ctx: &mut LoweringCtx<'_, '_>, dst: u8, registers: &mut Registers) -> Flow {
    let known = Known::Meta(layout::CT_INFO);
    let value = ctx.facts.value(known).unwrap_or_else(|| {
        // The bit of each `CtInfo`, in half a byte each, one more than its number; 7 for
        // `Untracked`.
        let info = ctx.asm.load(Width::Byte, ctx.packet, layout::CT_INFO);
        let info = ctx.asm.widen(info, Width::Word);
        let numbers = CtInfo::ALL
            .iter()
            .fold(0u32, |all, info| all | info.state_bit().trailing_zeros() << (4 * *info as u32));
        let numbers = ctx.asm.word(numbers);
        let place = ctx.asm.shift_left(info, 2);
        let number = ctx.asm.shift_right_by(numbers, place);
        let number = ctx.asm.and_number(number, 15);
        let one = ctx.asm.word(1);
        let state = ctx.asm.shift_left_by(one, number);
        let entry = ctx.asm.load(Width::Word, ctx.packet, layout::CT_ENTRY);
        let template = ctx.asm.load(Width::Half, ctx.packet, layout::CT_TEMPLATE);
        let has_entry = ctx.asm.is_number(entry, Is::NotEqual, Ct::NONE.into());
        let has_template = ctx.asm.is_number(template, Is::NotEqual, 0);
        let untracked = ctx.asm.is_number(info, Is::Equal, CtInfo::Untracked as u64);
        let valid = ctx.asm.or(has_entry, has_template);
        let valid = ctx.asm.or(valid, untracked);
        let invalid = ctx.asm.word(Ct::INVALID);
        let value = ctx.asm.select(valid, state, invalid);
        ctx.facts.learn(known, Some(value));
        value
    });
    registers.set(dst, value);
    Flow::Next
}
