// SPDX-License-Identifier: Apache-2.0

//! Constants and bytes of headers into registers.

use penstock_program::expr::PayloadBase;
use penstock_program::op::{HeaderLoad, Op, sees_fragments};

use super::{Flow, call};
use crate::asm::{Block, Is, Value, Width};
use crate::frame::{Frame, Header, Known, Registers};

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
    f: &mut Frame<'_, '_>,
    dst: u8,
    len: u8,
    data: &[u8; 16],
    registers: &mut Registers,
) -> Flow {
    let bytes = data.get(..usize::from(len)).unwrap_or(data);
    for (slot, chunk) in (dst..).zip(bytes.chunks(4)) {
        let number = word_of(chunk);
        let value = f.asm.word(number);
        registers.set_constant(slot, value, number);
    }
    Flow::Next
}

/// A load from the link, network or transport header.
pub(super) fn header(
    f: &mut Frame<'_, '_>,
    op: &Op,
    registers: &mut Registers,
    fail: Block,
) -> Flow {
    let Some(HeaderLoad { base, dst, len, offset }) = op.header_load().filter(|l| l.len > 0) else {
        return call::any_or_break(f, op, registers, fail);
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
    let Some((header, window)) = header.and_then(|h| Some((h, f.windows.of(h)?))) else {
        return call::any_or_break(f, op, registers, fail);
    };
    if !f.facts.holds(Known::There(header, end)) {
        let short = f.asm.is_number(window.len, Is::SignedBelow, end.into());
        f.leave_if(short, fail);
        f.facts.learn(Known::There(header, end), None);
    }
    for (slot, at) in (dst..).zip((offset..end).step_by(4)) {
        let count = (end - at).min(4) as u8;
        let known = Known::Bytes(header, at, count);
        let value = match f.facts.value(known) {
            Some(value) => value,
            None => {
                let value = bytes(f, window.base, at as usize, count);
                f.facts.learn(known, Some(value));
                value
            }
        };
        registers.set(slot, value);
    }
    Flow::Next
}

/// 1 to 4 bytes as a word.
fn bytes(f: &mut Frame<'_, '_>, base: Value, offset: usize, count: u8) -> Value {
    match count {
        1 => {
            let byte = f.asm.load(Width::Byte, base, offset);
            f.asm.widen(byte, Width::Word)
        }
        2 => {
            let half = f.asm.load(Width::Half, base, offset);
            f.asm.widen(half, Width::Word)
        }
        3 => {
            let (low, high) = (bytes(f, base, offset, 2), bytes(f, base, offset + 2, 1));
            let high = f.asm.shift_left(high, 16);
            f.asm.or(low, high)
        }
        _ => f.asm.load(Width::Word, base, offset),
    }
}
