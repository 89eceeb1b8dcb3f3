//! Metadata.

use penstock_packet::layout;
use penstock_program::expr::MetaKey;
use penstock_program::image::Op;

use super::{Flow, call, load};
use crate::asm::{Block, Width};
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
            let number = load::word_of(&[f.nfproto]);
            let value = f.asm.word(number);
            registers.set_constant(dst, value, number);
        }
        MetaKey::L4Proto => {
            let Some((has, protocol)) = f.windows.protocol else {
                return call::asking_or_break(f, op, registers, fail);
            };
            if !f.facts.holds(Known::Protocol) {
                f.leave_unless(has, fail);
                f.facts.learn(Known::Protocol, None);
            }
            registers.set(dst, protocol);
        }
        MetaKey::Len => {
            let Some(length) = f.windows.length else {
                return call::asking_or_break(f, op, registers, fail);
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
        _ => return call::asking_or_break(f, op, registers, fail),
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

pub(super) fn set(f: &mut Frame<'_, '_>, op: &Op, key: MetaKey, src: u8, registers: &mut Registers) -> Flow {
    let place = match key {
        MetaKey::Mark => layout::MARK,
        MetaKey::Priority => layout::PRIORITY,
        _ => return call::changing(f, op, registers),
    };
    let value = f.word(registers, src);
    f.asm.store(value, f.packet, place);
    Flow::Next
}
