// SPDX-License-Identifier: Apache-2.0

//! Metadata.

use penstock_packet::{Ct, CtInfo, layout};
use penstock_program::expr::MetaKey;
use penstock_program::op::Op;

use super::{Flow, call, load};
use crate::asm::{Block, Is, Width};
use crate::frame::{Frame, Known, Registers};

pub(super) fn get(
    f: &mut Frame<'_, '_>,
    op: &Op,
    key: MetaKey,
    dst: u8,
    registers: &mut Registers,
    fail: Block,
) -> Flow {
    match key {
        MetaKey::NfProto => {
            let number = load::word_of(&[f.family as u8]);
            let value = f.asm.word(number);
            registers.set_constant(dst, value, number);
        }
        MetaKey::L4Proto => {
            let Some((has, protocol)) = f.windows.protocol else {
                return call::any_or_break(f, op, registers, fail);
            };
            if !f.facts.holds(Known::Protocol) {
                f.leave_unless(has, fail);
                f.facts.learn(Known::Protocol, None);
            }
            registers.set(dst, protocol);
        }
        MetaKey::Len => {
            let Some(length) = f.windows.length else {
                return call::any_or_break(f, op, registers, fail);
            };
            let word = f.asm.narrow(length, Width::Word);
            registers.set(dst, word);
        }
        MetaKey::Protocol => {
            let known = Known::Meta(layout::PROTOCOL);
            let value = f.facts.value(known).unwrap_or_else(|| {
                // In a register it is in network order.
                let half = f.asm.load(Width::Half, f.packet, layout::PROTOCOL);
                let half = f.asm.swap_bytes(half);
                let value = f.asm.widen(half, Width::Word);
                f.facts.learn(known, Some(value));
                value
            });
            registers.set(dst, value);
        }
        MetaKey::Mark => word(f, layout::MARK, dst, registers),
        MetaKey::Priority => word(f, layout::PRIORITY, dst, registers),
        MetaKey::Iif => word(f, layout::IIF, dst, registers),
        MetaKey::Oif => word(f, layout::OIF, dst, registers),
        _ => return call::any_or_break(f, op, registers, fail),
    }
    Flow::Next
}

fn word(f: &mut Frame<'_, '_>, at: usize, dst: u8, registers: &mut Registers) {
    let known = Known::Meta(at);
    let value = f.facts.value(known).unwrap_or_else(|| {
        let value = f.asm.load(Width::Word, f.packet, at);
        f.facts.learn(known, Some(value));
        value
    });
    registers.set(dst, value);
}

pub(super) fn set(
    f: &mut Frame<'_, '_>,
    op: &Op,
    key: MetaKey,
    src: u8,
    registers: &mut Registers,
    fail: Block,
) -> Flow {
    let place = match key {
        MetaKey::Mark => layout::MARK,
        MetaKey::Priority => layout::PRIORITY,
        _ => return call::any_or_break(f, op, registers, fail),
    };
    let value = f.word(registers, src);
    f.asm.store(value, f.packet, place);
    Flow::Next
}

/// [`Ct::state`](penstock_packet::Ct::state).
pub(super) fn ct_state(f: &mut Frame<'_, '_>, dst: u8, registers: &mut Registers) -> Flow {
    let known = Known::Meta(layout::CT_INFO);
    let value = f.facts.value(known).unwrap_or_else(|| {
        // The bit of each `CtInfo`, in half a byte each, one more than its number; 7 for
        // `Untracked`.
        let info = f.asm.load(Width::Byte, f.packet, layout::CT_INFO);
        let info = f.asm.widen(info, Width::Word);
        let numbers = CtInfo::ALL
            .iter()
            .fold(0u32, |all, info| all | info.state_bit().trailing_zeros() << (4 * *info as u32));
        let numbers = f.asm.word(numbers);
        let place = f.asm.shift_left(info, 2);
        let number = f.asm.shift_right_by(numbers, place);
        let number = f.asm.and_number(number, 15);
        let one = f.asm.word(1);
        let state = f.asm.shift_left_by(one, number);
        let entry = f.asm.load(Width::Word, f.packet, layout::CT_ENTRY);
        let template = f.asm.load(Width::Half, f.packet, layout::CT_TEMPLATE);
        let has_entry = f.asm.is_number(entry, Is::NotEqual, Ct::NONE.into());
        let has_template = f.asm.is_number(template, Is::NotEqual, 0);
        let untracked = f.asm.is_number(info, Is::Equal, CtInfo::Untracked as u64);
        let valid = f.asm.or(has_entry, has_template);
        let valid = f.asm.or(valid, untracked);
        let invalid = f.asm.word(Ct::INVALID);
        let value = f.asm.select(valid, state, invalid);
        f.facts.learn(known, Some(value));
        value
    });
    registers.set(dst, value);
    Flow::Next
}
