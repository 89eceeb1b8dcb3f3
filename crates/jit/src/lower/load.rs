// SPDX-License-Identifier: Apache-2.0

//! Constants and bytes of headers into registers.

use penstock_program::expr::PayloadBase;
use penstock_program::op::{HeaderLoad, Op, sees_fragments};

use super::{Flow, call};
use crate::asm::{Block, Is, Value, Width};
use crate::lowering_ctx::{Header, Known, LoweringCtx, Registers};

/// Where the ethertype stands in the link header. An access from there on reaches the tag, which is
/// not part of the frame here.
const ETH_TYPE: u32 = 12;

/// A word of bytes in memory order, the rest zero.
pub(super) fn word_of(bytes: &[u8]) -> u32 {
    let mut word = [0; 4];
    word[..bytes.len()].copy_from_slice(bytes);
    u32::from_ne_bytes(word)
}

pub(super) fn immediate(
    ctx: &mut LoweringCtx<'_, '_>,
    dst: u8,
    len: u8,
    data: &[u8; 16],
    registers: &mut Registers,
) -> Flow {
    let bytes = data.get(..usize::from(len)).unwrap_or(data);
    for (slot, chunk) in (dst..).zip(bytes.chunks(4)) {
        let number = word_of(chunk);
        let value = ctx.asm.word(number);
        registers.set_constant(slot, value, number);
    }
    Flow::Next
}

/// A load from the link, network or transport header.
pub(super) fn header(
    ctx: &mut LoweringCtx<'_, '_>,
    op: &Op,
    registers: &mut Registers,
    fail: Block,
) -> Flow {
    let Some(HeaderLoad { base, dst, len, offset }) = op.header_load().filter(|l| l.len > 0) else {
        return call::any_or_break(ctx, op, registers, fail);
    };
    let (offset, end) = (u32::from(offset), u32::from(offset) + u32::from(len));
    let header = match base {
        // The interpreter joins it with the tag of the metadata.
        PayloadBase::Link if end > ETH_TYPE => None,
        PayloadBase::Link => Some(Header::Link),
        PayloadBase::Network => Some(Header::Network),
        PayloadBase::Transport if sees_fragments(len, offset as u16) => Some(Header::Transport),
        PayloadBase::Transport => Some(Header::WholeTransport),
        PayloadBase::Inner | PayloadBase::Tunnel => None,
    };
    let Some((header, window)) = header.and_then(|h| Some((h, ctx.windows.of(h)?))) else {
        return call::any_or_break(ctx, op, registers, fail);
    };
    if !ctx.facts.holds(Known::There(header, end)) {
        let short = ctx.asm.is_number(window.len, Is::SignedBelow, end.into());
        ctx.leave_if(short, fail);
        ctx.facts.learn(Known::There(header, end), None);
    }
    for (slot, at) in (dst..).zip((offset..end).step_by(4)) {
        let count = (end - at).min(4) as u8;
        let known = Known::Bytes(header, at, count);
        let value = match ctx.facts.value(known) {
            Some(value) => value,
            None => {
                let value = bytes(ctx, window.base, at as usize, count);
                ctx.facts.learn(known, Some(value));
                value
            }
        };
        registers.set(slot, value);
    }
    Flow::Next
}

/// 1 to 4 bytes as a word.
fn bytes(ctx: &mut LoweringCtx<'_, '_>, base: Value, offset: usize, count: u8) -> Value {
    match count {
        1 => {
            let byte = ctx.asm.load(Width::Byte, base, offset);
            ctx.asm.widen(byte, Width::Word)
        }
        2 => {
            let half = ctx.asm.load(Width::Half, base, offset);
            ctx.asm.widen(half, Width::Word)
        }
        3 => {
            let (low, high) = (bytes(ctx, base, offset, 2), bytes(ctx, base, offset + 2, 1));
            let high = ctx.asm.shift_left(high, 16);
            ctx.asm.or(low, high)
        }
        _ => ctx.asm.load(Width::Word, base, offset),
    }
}
