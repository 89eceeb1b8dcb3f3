// SPDX-License-Identifier: Apache-2.0

//! Checksums of the Internet protocols (`net/core/filter.c`, RFC 1624).

use super::Called;
use crate::fault::FaultKind;
use crate::map::Errno;
use crate::run::Run;

/// Adds with the carry at the other end.
fn add(a: u32, b: u32) -> u32 {
    let (sum, carry) = a.overflowing_add(b);
    sum + u32::from(carry)
}

fn sub(a: u32, b: u32) -> u32 {
    add(a, !b)
}

/// The sum of bytes, with zeros after them, added to another one.
fn partial(bytes: &[u8], seed: u32) -> u32 {
    let (words, rest) = bytes.as_chunks();
    let sum = words.iter().fold(seed, |sum, word| add(sum, u32::from_le_bytes(*word)));
    let mut last = [0; 4];
    for (place, byte) in last.iter_mut().zip(rest) {
        *place = *byte;
    }
    add(sum, u32::from_le_bytes(last))
}

/// A sum of 32 bits in 16.
fn fold(sum: u32) -> u16 {
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}

pub(super) fn diff(run: &mut Run<'_>) -> Called {
    const NAME: &str = "bpf_csum_diff";
    let [from, from_len, to, to_len] = [run.r[1], run.r[2], run.r[3], run.r[4]];
    // These arguments are of 32 bits.
    let (from_len, to_len) = (from_len as u32 as usize, to_len as u32 as usize);
    run.pay((from_len + to_len) as u64 / 16)?;
    let seed = run.r[5] as u32;
    let bytes = |at, len, number| match len {
        0 => Ok(&[][..]),
        len => run.memory(at, len).ok_or(FaultKind::Argument(NAME, number)),
    };
    let (old, new) = (bytes(from, from_len, 1)?, bytes(to, to_len, 3)?);
    let sum = match (old.is_empty(), new.is_empty()) {
        (false, false) => sub(partial(new, seed), partial(old, 0)),
        (true, false) => partial(new, seed),
        (false, true) => !partial(old, !seed),
        (true, true) => seed,
    };
    Ok(u64::from(fold(sum)))
}

/// Flags: bytes of the field, and how checksums of UDP are treated.
const FIELD: u64 = 0xf;
const PSEUDO: u64 = 0x10;
const MANGLED_ZERO: u64 = 0x20;
const MARK_ENFORCE: u64 = 0x40;
const IPV6: u64 = 0x80;

/// The checksum after a field of 0 (`to` is a difference), 2 or 4 bytes changed.
fn changed(sum: u16, from: u32, to: u32, flags: u64) -> Option<u16> {
    let old = u32::from(!sum);
    let new = match flags & FIELD {
        0 if from == 0 => add(old, to),
        2 => add(sub(old, from & 0xffff), to & 0xffff),
        4 => add(sub(old, from), to),
        _ => return None,
    };
    Some(!fold(new))
}

/// The bytes of the checksum that R2 points to, which are made writable.
fn place<'a>(run: &'a mut Run<'_>, offset: u32) -> Option<&'a mut [u8; 2]> {
    if offset > 0xffff || offset & 1 != 0 {
        return None;
    }
    run.context.packet_mut().bytes_mut().get_mut(offset as usize..)?.first_chunk_mut()
}

pub(super) fn replace_l3(run: &mut Run<'_>) -> Called {
    run.context_argument("bpf_l3_csum_replace", 1)?;
    let (offset, from, to) = (run.r[2] as u32, run.r[3] as u32, run.r[4] as u32);
    let flags = run.r[5];
    if flags & !FIELD != 0 {
        return Ok(Errno::INVAL.result());
    }
    let Some(place) = place(run, offset) else { return Ok(Errno::FAULT.result()) };
    match changed(u16::from_le_bytes(*place), from, to, flags) {
        Some(sum) => *place = sum.to_le_bytes(),
        None => return Ok(Errno::INVAL.result()),
    }
    Ok(0)
}

pub(super) fn replace_l4(run: &mut Run<'_>) -> Called {
    run.context_argument("bpf_l4_csum_replace", 1)?;
    let (offset, from, to) = (run.r[2] as u32, run.r[3] as u32, run.r[4] as u32);
    let flags = run.r[5];
    if flags & !(FIELD | PSEUDO | MANGLED_ZERO | MARK_ENFORCE | IPV6) != 0 {
        return Ok(Errno::INVAL.result());
    }
    let Some(place) = place(run, offset) else { return Ok(Errno::FAULT.result()) };
    if flags & MANGLED_ZERO != 0 && flags & MARK_ENFORCE == 0 && *place == [0, 0] {
        return Ok(0);
    }
    match changed(u16::from_le_bytes(*place), from, to, flags) {
        Some(0) if flags & MANGLED_ZERO != 0 => *place = [0xff, 0xff],
        Some(sum) => *place = sum.to_le_bytes(),
        None => return Ok(Errno::INVAL.result()),
    }
    Ok(0)
}
