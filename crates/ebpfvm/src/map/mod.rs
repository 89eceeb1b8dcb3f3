// SPDX-License-Identifier: Apache-2.0

//! Maps: memory that programs and user space share, as in `kernel/bpf/` of Linux. All memory of a
//! map is reserved when it is made. There is one processor, number 0.

mod bloom;
mod hash;
mod kind;
mod prefixes;
mod queue;
mod ring;
mod table;

use std::fmt;

use crate::memory::Memory;
use bloom::Bloom;
pub(crate) use kind::{MMAPABLE, READ_ONLY};
pub use kind::{MapKind, MapSpec};
use prefixes::Prefixes;
use queue::Queue;
pub(crate) use ring::Ring;
use table::Table;

/// A number of an error (`<errno.h>`), as helpers return it with the other sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub i32);

impl Errno {
    #![allow(missing_docs)]
    pub const PERM: Errno = Errno(1);
    pub const NOENT: Errno = Errno(2);
    pub const TOO_BIG: Errno = Errno(7);
    pub const AGAIN: Errno = Errno(11);
    pub const NOMEM: Errno = Errno(12);
    pub const FAULT: Errno = Errno(14);
    pub const EXIST: Errno = Errno(17);
    pub const NODEV: Errno = Errno(19);
    pub const INVAL: Errno = Errno(22);
    pub const NOSPC: Errno = Errno(28);
    pub const PROTO: Errno = Errno(71);
    pub const OVERFLOW: Errno = Errno(75);
    pub const OPNOTSUPP: Errno = Errno(95);
    pub const AFNOSUPPORT: Errno = Errno(97);

    /// What a helper returns.
    pub fn result(self) -> u64 {
        -i64::from(self.0) as u64
    }
}

/// Flags of an update (`BPF_NOEXIST`, `BPF_EXIST`).
const NO_EXIST: u64 = 1;
const EXIST: u64 = 2;

/// Why a map cannot be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MapError {
    /// Sizes or flags that its kind does not take: the name of the map and what it is.
    Invalid(String, &'static str),
    /// It needs more memory than is left of the limit: its name and bytes.
    Memory(String, u64),
}

impl fmt::Display for MapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MapError::Invalid(name, what) => write!(f, "map {name}: {what}"),
            MapError::Memory(name, bytes) => {
                write!(f, "map {name} needs {bytes} bytes, more than the limit allows")
            }
        }
    }
}

impl std::error::Error for MapError {}

#[derive(Debug)]
enum Store {
    Array,
    Table(Table),
    Prefixes(Prefixes),
    Programs(Vec<Option<u32>>),
    Ring(Ring),
    Queue(Queue),
    Bloom(Bloom),
}

/// A map.
#[derive(Debug)]
pub struct Map {
    spec: MapSpec,
    store: Store,
    /// The values, one per slot.
    pub(crate) memory: Memory,
    /// Bytes from value to value.
    pub(crate) stride: usize,
    /// What the maps are like that are its values.
    pub(crate) inner: Option<Box<MapSpec>>,
}

/// The largest memory of one map: offsets in it are below 2^31.
const LARGEST: u64 = 1 << 30;

impl Map {
    /// Makes one; its memory is taken from `left`, in bytes.
    ///
    /// # Errors
    /// Sizes or flags that the kind does not take, or too little memory.
    pub fn new(spec: MapSpec, left: &mut u64) -> Result<Map, MapError> {
        spec.check().map_err(|what| MapError::Invalid(spec.name.clone(), what))?;
        let bytes = spec.bytes();
        if bytes > LARGEST || bytes > *left {
            return Err(MapError::Memory(spec.name.clone(), bytes));
        }
        *left -= bytes;
        let stride = (spec.value as usize).next_multiple_of(8);
        let key = spec.key as usize;
        let slots = Table::slots(spec.entries);
        let (store, memory) = match spec.kind {
            MapKind::Ring => (Store::Ring(Ring::new(spec.entries)), spec.entries as usize * 2),
            MapKind::Programs => (Store::Programs(vec![None; spec.entries as usize]), 0),
            kind if kind.is_array() => (Store::Array, spec.entries as usize * stride),
            MapKind::LongestPrefix => {
                (Store::Prefixes(Prefixes::new(key, spec.entries)), slots * stride)
            }
            MapKind::Queue | MapKind::Stack => {
                let queue = Queue::new(spec.entries, spec.kind == MapKind::Stack);
                (Store::Queue(queue), spec.entries as usize * stride)
            }
            MapKind::Bloom => (Store::Bloom(Bloom::new(spec.entries)), 0),
            kind => {
                let replaces = matches!(kind, MapKind::LruHash | MapKind::LruPerCpuHash);
                (Store::Table(Table::new(key, spec.entries, replaces)), slots * stride)
            }
        };
        Ok(Map { spec, store, memory: Memory::new(memory), stride, inner: None })
    }

    /// What it was made from.
    pub fn spec(&self) -> &MapSpec {
        &self.spec
    }

    /// Where the value of a key begins in the memory.
    pub(crate) fn find(&mut self, key: &[u8]) -> Option<u32> {
        let slot = match &mut self.store {
            Store::Array => index(key).filter(|at| *at < self.spec.entries)?,
            Store::Table(table) => {
                let slot = table.find(key)?;
                table.touch(slot);
                slot
            }
            Store::Prefixes(prefixes) => prefixes.longest(key)?,
            Store::Programs(_) | Store::Ring(_) | Store::Queue(_) | Store::Bloom(_) => {
                return None;
            }
        };
        if self.spec.kind.has_holes() && !self.is_set(slot) {
            return None;
        }
        Some(slot * self.stride as u32)
    }

    /// Whether a place in an array of devices or maps has one.
    fn is_set(&self, slot: u32) -> bool {
        self.value_at(slot * self.stride as u32).iter().any(|byte| *byte != 0)
    }

    /// The value at a place that [`Map::find`] gave.
    pub(crate) fn value_at(&self, at: u32) -> &[u8] {
        self.memory
            .get(at as usize..)
            .and_then(|m| m.get(..self.spec.value as usize))
            .unwrap_or(&[])
    }

    /// The value of a key.
    pub fn get(&mut self, key: &[u8]) -> Option<&[u8]> {
        if key.len() != self.spec.key as usize {
            return None;
        }
        let at = self.find(key)?;
        Some(self.value_at(at))
    }

    /// Sets the value of a key. `flags`: 1 (`BPF_NOEXIST`) if there must be none, 2 (`BPF_EXIST`)
    /// if there must be one, or 0.
    ///
    /// # Errors
    /// Those of the kernel: `E2BIG` for a full hash or an index that is too large, `ENOSPC` for a
    /// full trie, `EEXIST`, `ENOENT`, `EINVAL`. The values of maps of maps are set by
    /// [`Machine::set_map`](crate::Machine::set_map).
    pub fn set(&mut self, key: &[u8], value: &[u8], flags: u64) -> Result<(), Errno> {
        if value.len() != self.spec.value as usize || self.spec.kind.has_maps() {
            return Err(Errno::INVAL);
        }
        self.write(key, value, flags)
    }

    /// Makes a map with this number in the machine the value of a key.
    pub(crate) fn set_map(&mut self, key: &[u8], map: u32, spec: &MapSpec) -> Result<(), Errno> {
        if !self.inner.as_ref().is_some_and(|inner| inner.is_like(spec)) {
            return Err(Errno::INVAL);
        }
        // 0 is none.
        self.write(key, &(map + 1).to_le_bytes(), 0)
    }

    /// The number in the machine of the map that a value of this map is.
    pub fn map_of(&self, value: &[u8]) -> Option<u32> {
        let id = u32::from_le_bytes(*value.first_chunk()?);
        self.spec.kind.has_maps().then(|| id.checked_sub(1)).flatten()
    }

    fn write(&mut self, key: &[u8], value: &[u8], flags: u64) -> Result<(), Errno> {
        let at = self.place(key, flags)? as usize;
        match self.memory.get_mut(at..at + value.len()) {
            Some(place) => place.copy_from_slice(value),
            None => return Err(Errno::INVAL),
        }
        Ok(())
    }

    /// The place for a new value of a key.
    pub(crate) fn place(&mut self, key: &[u8], flags: u64) -> Result<u32, Errno> {
        if flags > EXIST || key.len() != self.spec.key as usize {
            return Err(Errno::INVAL);
        }
        let slot = match &mut self.store {
            Store::Array => {
                let at = index(key).filter(|at| *at < self.spec.entries).ok_or(Errno::TOO_BIG)?;
                if flags == NO_EXIST {
                    return Err(Errno::EXIST);
                }
                at
            }
            Store::Table(table) => {
                let per_cpu =
                    matches!(self.spec.kind, MapKind::PerCpuHash | MapKind::LruPerCpuHash);
                slot_for(table, key, flags, per_cpu, Errno::TOO_BIG)?
            }
            Store::Prefixes(prefixes) => prefixes.slot_for(key, flags)?,
            Store::Programs(_) | Store::Ring(_) | Store::Queue(_) | Store::Bloom(_) => {
                return Err(Errno::INVAL);
            }
        };
        Ok(slot * self.stride as u32)
    }

    /// Removes a key.
    ///
    /// # Errors
    /// Those of the kernel: `ENOENT`, and `EINVAL` for arrays.
    pub fn remove(&mut self, key: &[u8]) -> Result<(), Errno> {
        if key.len() != self.spec.key as usize {
            return Err(Errno::INVAL);
        }
        let removed = match &mut self.store {
            Store::Table(table) => table.remove(key),
            Store::Prefixes(prefixes) => prefixes.remove(key)?,
            Store::Array if self.spec.kind == MapKind::ArrayOfMaps => {
                let at = self.find(key).ok_or(Errno::NOENT)? as usize;
                if let Some(place) = self.memory.get_mut(at..at + 4) {
                    place.fill(0);
                }
                true
            }
            Store::Array
            | Store::Programs(_)
            | Store::Ring(_)
            | Store::Queue(_)
            | Store::Bloom(_) => return Err(Errno::INVAL),
        };
        if removed { Ok(()) } else { Err(Errno::NOENT) }
    }

    /// Makes a program, by its number in the machine, element `index` of an array of programs.
    ///
    /// # Errors
    /// `EINVAL` for another kind of map, `E2BIG` for an index that is too large.
    pub fn set_program(&mut self, index: u32, program: Option<u32>) -> Result<(), Errno> {
        let Store::Programs(programs) = &mut self.store else { return Err(Errno::INVAL) };
        *programs.get_mut(index as usize).ok_or(Errno::TOO_BIG)? = program;
        Ok(())
    }

    pub(crate) fn program(&self, index: u32) -> Option<u32> {
        match &self.store {
            Store::Programs(programs) => programs.get(index as usize).copied().flatten(),
            _ => None,
        }
    }

    pub(crate) fn is_ring(&self) -> bool {
        matches!(self.store, Store::Ring(_))
    }

    pub(crate) fn ring(&mut self) -> Option<(&mut Ring, &mut [u8])> {
        match &mut self.store {
            Store::Ring(ring) => Some((ring, &mut self.memory)),
            _ => None,
        }
    }

    /// `bpf_map_push_elem()`.
    pub(crate) fn push(&mut self, value: &[u8], flags: u64) -> Result<(), Errno> {
        match &mut self.store {
            Store::Queue(queue) => {
                let at = queue.push(flags)? as usize * self.stride;
                let place = self.memory.get_mut(at..at + value.len()).ok_or(Errno::INVAL)?;
                place.copy_from_slice(value);
                Ok(())
            }
            Store::Bloom(bloom) => bloom.push(value, flags),
            _ => Err(Errno::INVAL),
        }
    }

    /// `bpf_map_pop_elem()`, or `bpf_map_peek_elem()` if the value stays: the value.
    pub(crate) fn pop(&mut self, stays: bool) -> Option<&[u8]> {
        let Store::Queue(queue) = &mut self.store else { return None };
        let slot = if stays { queue.peek()? } else { queue.pop()? };
        Some(self.value_at(slot * self.stride as u32))
    }

    /// `bpf_map_peek_elem()` of a filter: whether a value was put, or another one that is alike.
    pub(crate) fn may_have(&self, value: &[u8]) -> bool {
        matches!(&self.store, Store::Bloom(bloom) if bloom.may_have(value))
    }

    /// The next record of a ring, which is the caller's from then on.
    pub fn take_record(&mut self) -> Option<Vec<u8>> {
        match &mut self.store {
            Store::Ring(ring) => ring.take(&self.memory),
            _ => None,
        }
    }

    /// The first slot with an element from this one on, and where its value is.
    pub(crate) fn element_from(&self, slot: u32) -> Option<(u32, u32)> {
        let slot = match &self.store {
            Store::Array if self.spec.kind.has_holes() => {
                (slot..self.spec.entries).find(|slot| self.is_set(*slot))?
            }
            Store::Array => (slot < self.spec.entries).then_some(slot)?,
            Store::Table(table) => table.used_from(slot)?,
            Store::Prefixes(prefixes) => prefixes.table.used_from(slot)?,
            Store::Programs(_) | Store::Ring(_) | Store::Queue(_) | Store::Bloom(_) => {
                return None;
            }
        };
        Some((slot, slot * self.stride as u32))
    }

    /// The key of a slot that has one.
    pub(crate) fn key_of(&self, slot: u32) -> Vec<u8> {
        match &self.store {
            Store::Table(table) => table.key(slot).to_vec(),
            Store::Prefixes(prefixes) => prefixes.given(slot).to_vec(),
            Store::Array
            | Store::Programs(_)
            | Store::Ring(_)
            | Store::Queue(_)
            | Store::Bloom(_) => slot.to_le_bytes().to_vec(),
        }
    }

    /// How many elements it has.
    pub fn len(&self) -> u32 {
        match &self.store {
            Store::Array if self.spec.kind.has_holes() => {
                (0..self.spec.entries).filter(|slot| self.is_set(*slot)).count() as u32
            }
            Store::Array => self.spec.entries,
            Store::Table(table) => table.len(),
            Store::Prefixes(prefixes) => prefixes.table.len(),
            Store::Programs(programs) => programs.iter().flatten().count() as u32,
            Store::Queue(queue) => queue.len(),
            Store::Ring(_) | Store::Bloom(_) => 0,
        }
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All elements; those of an array by their number, others in no order that means something.
    pub fn elements(&self) -> impl Iterator<Item = (Vec<u8>, &[u8])> {
        let mut from = 0;
        std::iter::from_fn(move || {
            let (slot, at) = self.element_from(from)?;
            from = slot + 1;
            Some((self.key_of(slot), self.value_at(at)))
        })
    }
}

/// The index that a key of four bytes is.
fn index(key: &[u8]) -> Option<u32> {
    key.try_into().ok().map(u32::from_le_bytes)
}

/// The slot for a new value of a key.
fn slot_for(
    table: &mut Table,
    key: &[u8],
    flags: u64,
    in_place: bool,
    full: Errno,
) -> Result<u32, Errno> {
    match table.find(key) {
        Some(_) if flags == NO_EXIST => Err(Errno::EXIST),
        Some(slot) if in_place => {
            table.touch(slot);
            Ok(slot)
        }
        Some(slot) => Ok(table.replace(slot)),
        None if flags == EXIST => Err(Errno::NOENT),
        None => table.insert(key).ok_or(full),
    }
}
