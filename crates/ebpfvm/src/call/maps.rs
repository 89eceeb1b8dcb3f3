// SPDX-License-Identifier: Apache-2.0

//! Maps and rings (`kernel/bpf/helpers.c`, `ringbuf.c`).

use super::{Called, status};
use crate::fault::FaultKind;
use crate::map::{Errno, MapKind};
use crate::run::Run;
use crate::space::{MAPS, VALUES, address, split};

/// Bytes of the longest key.
const LONGEST: usize = 512;

/// The map of R1, and a copy of the key that R2 points to.
fn map_and_key(
    run: &mut Run<'_>,
    helper: &'static str,
    key: &mut [u8; LONGEST],
) -> Result<(usize, usize), FaultKind> {
    let map = run.map_number(run.r[1]).ok_or(FaultKind::Argument(helper, 1))?;
    let len = run.maps[map].spec().key as usize;
    let bytes = run.memory(run.r[2], len).ok_or(FaultKind::Argument(helper, 2))?;
    key.get_mut(..len).ok_or(FaultKind::Argument(helper, 2))?.copy_from_slice(bytes);
    Ok((map, len))
}

pub(super) fn lookup(run: &mut Run<'_>) -> Called {
    let mut key = [0; LONGEST];
    let (number, len) = map_and_key(run, "bpf_map_lookup_elem", &mut key)?;
    let map = &mut run.maps[number];
    if !map.spec().kind.searched_by_programs() {
        return Err(FaultKind::Argument("bpf_map_lookup_elem", 1));
    }
    let found = key.get(..len).and_then(|key| map.find(key));
    if map.spec().kind.has_maps() {
        let found = found.and_then(|at| map.map_of(map.value_at(at)));
        return Ok(found.map_or(0, |inner| address(MAPS + inner, 0)));
    }
    Ok(found.map_or(0, |at| address(VALUES + number as u32, at)))
}

pub(super) fn update(run: &mut Run<'_>) -> Called {
    let mut key = [0; LONGEST];
    let (number, len) = map_and_key(run, "bpf_map_update_elem", &mut key)?;
    let spec = run.maps[number].spec();
    if !spec.kind.changed_by_programs() {
        return Err(FaultKind::Argument("bpf_map_update_elem", 1));
    }
    let size = spec.value as usize;
    run.pay(size as u64 / 16)?;
    let wrong = FaultKind::Argument("bpf_map_update_elem", 3);
    run.memory(run.r[3], size).ok_or(wrong)?;
    let key = key.get(..len).unwrap_or(&[]);
    // The value may lie in the same map, so its place is found first and written then.
    let flags = run.r[4];
    match run.maps[number].place(key, flags) {
        Ok(at) => {
            run.copy_value(number, at, size).ok_or(wrong)?;
            Ok(0)
        }
        Err(errno) => Ok(errno.result()),
    }
}

impl Run<'_> {
    /// Copies the value that R3 points to into an element, also of a map that programs only read.
    fn copy_value(&mut self, map: usize, at: u32, size: usize) -> Option<()> {
        let (region, offset) = split(self.r[3]);
        if region == VALUES + map as u32 {
            let from = offset as usize;
            let memory = &mut self.maps.get_mut(map)?.memory;
            memory.copy_within(from..from + size, at as usize);
            return Some(());
        }
        let mut piece = [0; 64];
        for done in (0..size).step_by(piece.len()) {
            let n = piece.len().min(size - done);
            let piece = piece.get_mut(..n)?;
            piece.copy_from_slice(self.memory(self.r[3] + done as u64, n)?);
            let to = at as usize + done;
            self.maps.get_mut(map)?.memory.get_mut(to..to + n)?.copy_from_slice(piece);
        }
        Some(())
    }
}

pub(super) fn delete(run: &mut Run<'_>) -> Called {
    let mut key = [0; LONGEST];
    let (number, len) = map_and_key(run, "bpf_map_delete_elem", &mut key)?;
    let map = &mut run.maps[number];
    if !map.spec().kind.changed_by_programs() {
        return Err(FaultKind::Argument("bpf_map_delete_elem", 1));
    }
    Ok(status(map.remove(key.get(..len).unwrap_or(&[]))))
}

/// The map of R1, if it is of one of these kinds, and the bytes of its values.
fn map_of(
    run: &Run<'_>,
    helper: &'static str,
    kinds: &[MapKind],
) -> Result<(usize, usize), FaultKind> {
    let wrong = FaultKind::Argument(helper, 1);
    let map = run.map_number(run.r[1]).ok_or(wrong)?;
    let spec = run.maps[map].spec();
    if kinds.contains(&spec.kind) { Ok((map, spec.value as usize)) } else { Err(wrong) }
}

pub(super) fn push(run: &mut Run<'_>) -> Called {
    const NAME: &str = "bpf_map_push_elem";
    let (map, size) = map_of(run, NAME, &[MapKind::Queue, MapKind::Stack, MapKind::Bloom])?;
    run.pay(size as u64 / 16)?;
    let bytes = run.memory(run.r[2], size).ok_or(FaultKind::Argument(NAME, 2))?;
    // The value may lie in any memory, also that of the map.
    let mut short = [0; 512];
    let done = match short.get_mut(..size) {
        Some(value) => {
            value.copy_from_slice(bytes);
            let flags = run.r[3];
            run.maps[map].push(value, flags)
        }
        None => return Err(FaultKind::Argument(NAME, 2)),
    };
    Ok(status(done))
}

pub(super) fn pop(run: &mut Run<'_>, helper: &'static str, stays: bool) -> Called {
    let kinds = [MapKind::Queue, MapKind::Stack, MapKind::Bloom];
    let (map, size) = map_of(run, helper, if stays { &kinds } else { &kinds[..2] })?;
    run.pay(size as u64 / 16)?;
    let wrong = FaultKind::Argument(helper, 2);
    let mut value = [0; 512];
    let value = value.get_mut(..size).ok_or(wrong)?;
    if run.maps[map].spec().kind == MapKind::Bloom {
        value.copy_from_slice(run.memory(run.r[2], size).ok_or(wrong)?);
        let has = run.maps[map].may_have(value);
        return Ok(status(if has { Ok(()) } else { Err(Errno::NOENT) }));
    }
    run.memory_mut(run.r[2], size).ok_or(wrong)?;
    let taken = run.maps[map].pop(stays);
    let found = taken.is_some();
    if let Some(bytes) = taken {
        value.copy_from_slice(bytes);
    }
    run.memory_mut(run.r[2], size).ok_or(wrong)?.copy_from_slice(value);
    Ok(status(if found { Ok(()) } else { Err(Errno::NOENT) }))
}

/// The ring of R1.
fn ring(run: &Run<'_>, helper: &'static str) -> Result<usize, FaultKind> {
    let wrong = FaultKind::Argument(helper, 1);
    let number = run.map_number(run.r[1]).ok_or(wrong)?;
    if run.maps[number].is_ring() { Ok(number) } else { Err(wrong) }
}

/// Flags: `BPF_RB_NO_WAKEUP`, `BPF_RB_FORCE_WAKEUP`.
const WAKEUPS: u64 = 3;

pub(super) fn ring_output(run: &mut Run<'_>) -> Called {
    let number = ring(run, "bpf_ringbuf_output")?;
    let len = run.length("bpf_ringbuf_output", 3)?;
    let wrong = FaultKind::Argument("bpf_ringbuf_output", 2);
    run.memory(run.r[2], len).ok_or(wrong)?;
    if run.r[4] & !WAKEUPS != 0 {
        return Ok(Errno::INVAL.result());
    }
    let Some((ring, memory)) = run.maps[number].ring() else { return Err(wrong) };
    let Some(at) = ring.reserve(memory, len as u64) else { return Ok(Errno::AGAIN.result()) };
    run.copy_within(address(VALUES + number as u32, at), run.r[2], len).ok_or(wrong)?;
    if let Some((ring, memory)) = run.maps[number].ring() {
        ring.commit(memory, at, false).ok_or(wrong)?;
    }
    Ok(0)
}

pub(super) fn ring_reserve(run: &mut Run<'_>) -> Called {
    let number = ring(run, "bpf_ringbuf_reserve")?;
    let len = run.length("bpf_ringbuf_reserve", 2)?;
    if run.r[3] != 0 {
        return Ok(0);
    }
    let Some((ring, memory)) = run.maps[number].ring() else { return Ok(0) };
    let at = ring.reserve(memory, len as u64);
    Ok(at.map_or(0, |at| address(VALUES + number as u32, at)))
}

pub(super) fn ring_commit(run: &mut Run<'_>, helper: &'static str, discard: bool) -> Called {
    let wrong = FaultKind::Argument(helper, 1);
    let (region, at) = split(run.r[1]);
    let number = region.checked_sub(VALUES).ok_or(wrong)? as usize;
    let map = run.maps.get_mut(number).ok_or(wrong)?;
    let (ring, memory) = map.ring().ok_or(wrong)?;
    ring.commit(memory, at, discard).ok_or(wrong)?;
    Ok(0)
}

pub(super) fn ring_query(run: &mut Run<'_>) -> Called {
    let number = ring(run, "bpf_ringbuf_query")?;
    let flags = run.r[2];
    Ok(run.maps[number].ring().map_or(0, |(ring, _)| ring.query(flags)))
}
