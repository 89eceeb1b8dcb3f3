// SPDX-License-Identifier: Apache-2.0

//! Dynptrs: 16 bytes in a program's memory that say where bytes are and how many
//! (`kernel/bpf/helpers.c`). A program that writes its own reaches no more than with addresses,
//! since each use is checked.

use super::{Called, Copied};
use crate::context::{Context, ProgramKind};
use crate::fault::FaultKind;
use crate::map::Errno;
use crate::run::Run;
use crate::space::{CONTEXT, PACKET, address, split};

/// Bytes of one.
const LEN: usize = 16;
/// The most bytes that one may stand for (`DYNPTR_MAX_SIZE`).
const MOST: u32 = (1 << 24) - 1;
/// Set in the second word if nothing may be written.
const READ_ONLY: u64 = 1 << 32;
/// `ERANGE`
const RANGE: Errno = Errno(34);

/// What one says.
#[derive(Clone, Copy)]
struct Dynptr {
    /// An address; for a packet the offset in it, in the region of the context. 0 for none.
    base: u64,
    size: u32,
    read_only: bool,
}

impl Dynptr {
    fn read(run: &Run<'_>, register: u8, helper: &'static str) -> Result<Dynptr, FaultKind> {
        let bytes = run.memory(run.r[usize::from(register & 15)], LEN);
        let halves = bytes.and_then(|b| b.split_first_chunk());
        let (base, rest) = halves.ok_or(FaultKind::Argument(helper, register))?;
        let second = rest.first_chunk().map_or(0, |b| u64::from_le_bytes(*b));
        Ok(Dynptr {
            base: u64::from_le_bytes(*base),
            size: second as u32,
            read_only: second & READ_ONLY != 0,
        })
    }

    fn write(self, run: &mut Run<'_>, register: u8, helper: &'static str) -> Result<(), FaultKind> {
        let at = run.r[usize::from(register & 15)];
        let place = run.memory_mut(at, LEN).ok_or(FaultKind::Argument(helper, register))?;
        let flags = if self.read_only { READ_ONLY } else { 0 };
        let words = [self.base, u64::from(self.size) | flags].map(u64::to_le_bytes);
        place.copy_from_slice(words.as_flattened());
        Ok(())
    }

    const NULL: Dynptr = Dynptr { base: 0, size: 0, read_only: false };

    /// The offset in the packet, for one of a packet.
    fn in_packet(self) -> Option<u32> {
        match split(self.base) {
            (CONTEXT, offset) => Some(offset),
            _ => None,
        }
    }

    fn has(self, offset: u64, len: u64) -> bool {
        offset.checked_add(len).is_some_and(|end| end <= u64::from(self.size))
    }
}

pub(super) fn from_mem(run: &mut Run<'_>) -> Called {
    const NAME: &str = "bpf_dynptr_from_mem";
    let (base, size, flags) = (run.r[1], run.r[2] as u32, run.r[3]);
    run.memory(base, size as usize).ok_or(FaultKind::Argument(NAME, 1))?;
    let (made, result) = if size > MOST {
        (Dynptr::NULL, Errno::TOO_BIG.result())
    } else if flags != 0 {
        (Dynptr::NULL, Errno::INVAL.result())
    } else {
        (Dynptr { base, size, read_only: false }, 0)
    };
    made.write(run, 4, NAME)?;
    Ok(result)
}

pub(super) fn from_packet(run: &mut Run<'_>, name: &'static str) -> Called {
    run.context_argument(name, 1)?;
    if run.r[2] != 0 {
        Dynptr::NULL.write(run, 3, name)?;
        return Ok(Errno::INVAL.result());
    }
    let size = run.context.packet().len() as u32;
    let read_only = !run.context.is_writable();
    Dynptr { base: address(CONTEXT, 0), size, read_only }.write(run, 3, name)?;
    Ok(0)
}

pub(super) fn read(run: &mut Run<'_>) -> Called {
    const NAME: &str = "bpf_dynptr_read";
    let from = Dynptr::read(run, 3, NAME)?;
    let to = run.r[1];
    let len = run.length(NAME, 2)?;
    let (offset, flags) = (run.r[4], run.r[5]);
    run.memory_mut(to, len).ok_or(FaultKind::Argument(NAME, 1))?;
    if from.base == 0 || flags != 0 {
        return Ok(Errno::INVAL.result());
    }
    if !from.has(offset, len as u64) {
        return Ok(Errno::TOO_BIG.result());
    }
    let done = match from.in_packet() {
        Some(base) => run.copy_out(base as usize + offset as usize, to, len),
        None => run.copy_within(to, from.base.wrapping_add(offset), len).map(|()| Copied::Whole),
    };
    copied(done, NAME, run)
}

/// What comes of a copy. A packet that is too short by now is an error of its type.
fn copied(done: Option<Copied>, name: &'static str, run: &Run<'_>) -> Called {
    match done {
        Some(Copied::Whole) => Ok(0),
        Some(Copied::Short) if run.context.kind() == ProgramKind::Xdp => Ok(Errno::INVAL.result()),
        Some(Copied::Short) => Ok(Errno::FAULT.result()),
        None => Err(FaultKind::Argument(name, 1)),
    }
}

pub(super) fn write(run: &mut Run<'_>) -> Called {
    const NAME: &str = "bpf_dynptr_write";
    let to = Dynptr::read(run, 1, NAME)?;
    let (offset, from) = (run.r[2], run.r[3]);
    let len = run.length(NAME, 4)?;
    let flags = run.r[5];
    run.memory(from, len).ok_or(FaultKind::Argument(NAME, 3))?;
    if to.base == 0 || to.read_only {
        return Ok(Errno::INVAL.result());
    }
    if !to.has(offset, len as u64) {
        return Ok(Errno::TOO_BIG.result());
    }
    /// Flags that packets of traffic control take: `BPF_F_RECOMPUTE_CSUM`, `BPF_F_INVALIDATE_HASH`.
    const SKB_FLAGS: u64 = 3;
    let skb = matches!(run.context, Context::Skb(_)) && to.in_packet().is_some();
    if flags & !(if skb { SKB_FLAGS } else { 0 }) != 0 {
        return Ok(Errno::INVAL.result());
    }
    let done = match to.in_packet() {
        Some(_) if !run.context.is_writable() => return Ok(Errno::INVAL.result()),
        Some(base) => run.copy_in(base as usize + offset as usize, from, len),
        None => run.copy_within(to.base.wrapping_add(offset), from, len).map(|()| Copied::Whole),
    };
    if flags & 2 != 0
        && let Context::Skb(skb) = &mut *run.context
    {
        skb.hash = 0;
    }
    copied(done, NAME, run)
}

pub(super) fn data(run: &mut Run<'_>) -> Called {
    const NAME: &str = "bpf_dynptr_data";
    let of = Dynptr::read(run, 1, NAME)?;
    let (offset, len) = (run.r[2], run.r[3]);
    let none = of.base == 0 || of.read_only || of.in_packet().is_some();
    Ok(if none || !of.has(offset, len) { 0 } else { of.base.wrapping_add(offset) })
}

pub(super) fn slice(run: &mut Run<'_>, writable: bool) -> Called {
    const NAME: &str = "bpf_dynptr_slice";
    let of = Dynptr::read(run, 1, NAME)?;
    let (offset, len) = (run.r[2], u64::from(run.r[4] as u32));
    if of.base == 0 || writable && of.read_only || !of.has(offset, len) {
        return Ok(0);
    }
    let Some(base) = of.in_packet() else { return Ok(of.base.wrapping_add(offset)) };
    let from = base as usize + offset as usize;
    let packet = run.context.packet();
    if packet.bytes().get(from..).is_none_or(|bytes| bytes.len() < len as usize) {
        return Ok(0);
    }
    let (_, data, _) = packet.bounds();
    Ok(address(PACKET, (data + from) as u32))
}

pub(super) fn adjust(run: &mut Run<'_>) -> Called {
    const NAME: &str = "bpf_dynptr_adjust";
    let of = Dynptr::read(run, 1, NAME)?;
    let (start, end) = (run.r[2], run.r[3]);
    if of.base == 0 || start > end {
        return Ok(Errno::INVAL.result());
    }
    if end > u64::from(of.size) {
        return Ok(RANGE.result());
    }
    let moved = Dynptr { base: of.base.wrapping_add(start), size: (end - start) as u32, ..of };
    moved.write(run, 1, NAME)?;
    Ok(0)
}

pub(super) fn is_null(run: &mut Run<'_>) -> Called {
    Ok(u64::from(Dynptr::read(run, 1, "bpf_dynptr_is_null")?.base == 0))
}

pub(super) fn is_rdonly(run: &mut Run<'_>) -> Called {
    let of = Dynptr::read(run, 1, "bpf_dynptr_is_rdonly")?;
    Ok(u64::from(of.base != 0 && of.read_only))
}

pub(super) fn size(run: &mut Run<'_>) -> Called {
    let of = Dynptr::read(run, 1, "bpf_dynptr_size")?;
    Ok(if of.base == 0 { Errno::INVAL.result() } else { u64::from(of.size) })
}

pub(super) fn clone(run: &mut Run<'_>) -> Called {
    const NAME: &str = "bpf_dynptr_clone";
    let of = Dynptr::read(run, 1, NAME)?;
    of.write(run, 2, NAME)?;
    Ok(if of.base == 0 { Errno::INVAL.result() } else { 0 })
}
