// SPDX-License-Identifier: Apache-2.0

//! Maps: memory that programs and user space share, as in `kernel/bpf/` of Linux. All memory of a
//! map is reserved when it is made. There is one processor, number 0.

mod hash;
mod ring;
mod table;

use std::fmt;

use crate::memory::Memory;
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

/// What a map is (`enum bpf_map_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
#[allow(missing_docs)]
pub enum MapKind {
    Hash = 1,
    Array = 2,
    /// Programs to continue with.
    Programs = 3,
    PerCpuHash = 5,
    PerCpuArray = 6,
    LruHash = 9,
    LruPerCpuHash = 10,
    /// Prefixes; a key begins with its length in bits.
    LongestPrefix = 11,
    /// Devices to redirect to, by a number from 0 on.
    Devices = 14,
    /// Devices by any number.
    DevicesByHash = 25,
    Ring = 27,
}

impl MapKind {
    /// All of them.
    pub const ALL: [MapKind; 11] = [
        MapKind::Hash,
        MapKind::Array,
        MapKind::Programs,
        MapKind::PerCpuHash,
        MapKind::PerCpuArray,
        MapKind::LruHash,
        MapKind::LruPerCpuHash,
        MapKind::LongestPrefix,
        MapKind::Devices,
        MapKind::DevicesByHash,
        MapKind::Ring,
    ];

    /// By its number.
    pub fn of_number(number: u32) -> Option<MapKind> {
        MapKind::ALL.into_iter().find(|kind| *kind as u32 == number)
    }

    /// Whether programs change it by helpers.
    pub(crate) fn changed_by_programs(self) -> bool {
        use MapKind::*;
        match self {
            Hash | Array | PerCpuHash | PerCpuArray | LruHash | LruPerCpuHash | LongestPrefix => {
                true
            }
            Programs | Devices | DevicesByHash | Ring => false,
        }
    }

    /// Whether programs find values in it.
    pub(crate) fn searched_by_programs(self) -> bool {
        match self {
            MapKind::Programs | MapKind::Ring => false,
            MapKind::Devices | MapKind::DevicesByHash => true,
            _ => self.changed_by_programs(),
        }
    }

    fn is_array(self) -> bool {
        matches!(self, MapKind::Array | MapKind::PerCpuArray | MapKind::Devices | MapKind::Programs)
    }
}

/// `BPF_F_NO_PREALLOC`
const NO_PREALLOC: u32 = 1;
/// `BPF_F_RDONLY_PROG`
pub(crate) const READ_ONLY: u32 = 1 << 7;
/// `BPF_F_MMAPABLE`
pub(crate) const MMAPABLE: u32 = 1 << 10;

/// Flags of an update (`BPF_NOEXIST`, `BPF_EXIST`).
const NO_EXIST: u64 = 1;
const EXIST: u64 = 2;

/// What a map is made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapSpec {
    /// As the program's source has it.
    pub name: String,
    /// Kind.
    pub kind: MapKind,
    /// Bytes of a key.
    pub key: u32,
    /// Bytes of a value.
    pub value: u32,
    /// Keys at most; for a ring its bytes.
    pub entries: u32,
    /// `BPF_F_*`.
    pub flags: u32,
}

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
}

/// Prefixes of a trie: a table whose keys are masked, and how many there are of each length.
#[derive(Debug)]
struct Prefixes {
    table: Table,
    lengths: Vec<u32>,
    /// A bit for each length of which there are any.
    present: Vec<u64>,
    /// The keys as they were given, which listings show.
    given: Vec<u8>,
    /// Room for one key.
    masked: Vec<u8>,
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
}

/// The largest memory of one map: offsets in it are below 2^31.
const LARGEST: u64 = 1 << 30;

impl MapSpec {
    fn check(&self) -> Result<(), &'static str> {
        let common = READ_ONLY | MMAPABLE | 1 << 3 | 1 << 4 | 1 << 6 | 1 << 8;
        let sizes = match self.kind {
            MapKind::Ring => {
                let fits = self.entries.is_power_of_two() && self.entries.is_multiple_of(4096);
                if !fits {
                    return Err("its size is no power of two, or no multiple of 4096");
                }
                self.key == 0 && self.value == 0
            }
            MapKind::Programs => self.key == 4 && self.value == 4 && self.entries > 0,
            MapKind::Devices | MapKind::DevicesByHash => {
                self.key == 4 && matches!(self.value, 4 | 8) && self.entries > 0
            }
            MapKind::LongestPrefix => {
                if self.flags & NO_PREALLOC == 0 {
                    return Err("a trie needs the flag BPF_F_NO_PREALLOC");
                }
                (5..=260).contains(&self.key) && self.value > 0 && self.entries > 0
            }
            kind if kind.is_array() => self.key == 4 && self.value > 0 && self.entries > 0,
            _ => self.key > 0 && self.key <= 512 && self.value > 0 && self.entries > 0,
        };
        if !sizes {
            return Err("its kind does not take these sizes");
        }
        // BPF_F_NO_COMMON_LRU and BPF_F_NUMA_NODE change where memory lies, not what happens.
        let allowed = match self.kind {
            MapKind::Hash | MapKind::PerCpuHash | MapKind::LongestPrefix => {
                common | NO_PREALLOC | 4
            }
            MapKind::LruHash | MapKind::LruPerCpuHash => common | 2 | 4,
            _ => common | 4,
        };
        if self.flags & !allowed != 0 { Err("its flags are not known") } else { Ok(()) }
    }

    /// Bytes of all that it needs.
    fn bytes(&self) -> u64 {
        let entries = u64::from(self.entries) + 1;
        let value = u64::from(self.value).next_multiple_of(8);
        match self.kind {
            MapKind::Ring => 2 * u64::from(self.entries),
            kind if kind.is_array() => entries.saturating_mul(value + 8),
            _ => entries.saturating_mul(value + 2 * u64::from(self.key) + Table::OVERHEAD),
        }
    }
}

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
                let prefixes = Prefixes {
                    table: Table::new(key, spec.entries, false),
                    lengths: vec![0; (key - 4) * 8 + 1],
                    present: vec![0; 33],
                    given: vec![0; slots * key],
                    masked: vec![0; key],
                };
                (Store::Prefixes(prefixes), slots * stride)
            }
            kind => {
                let replaces = matches!(kind, MapKind::LruHash | MapKind::LruPerCpuHash);
                (Store::Table(Table::new(key, spec.entries, replaces)), slots * stride)
            }
        };
        Ok(Map { spec, store, memory: Memory::new(memory), stride })
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
            Store::Programs(_) | Store::Ring(_) => return None,
        };
        if self.spec.kind == MapKind::Devices && !self.has_device(slot) {
            return None;
        }
        Some(slot * self.stride as u32)
    }

    /// Whether a place in an array of devices has one.
    fn has_device(&self, slot: u32) -> bool {
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
    /// full trie, `EEXIST`, `ENOENT`, `EINVAL`.
    pub fn set(&mut self, key: &[u8], value: &[u8], flags: u64) -> Result<(), Errno> {
        if value.len() != self.spec.value as usize {
            return Err(Errno::INVAL);
        }
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
            Store::Programs(_) | Store::Ring(_) => return Err(Errno::INVAL),
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
            Store::Array | Store::Programs(_) | Store::Ring(_) => return Err(Errno::INVAL),
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
            Store::Array if self.spec.kind == MapKind::Devices => {
                (slot..self.spec.entries).find(|slot| self.has_device(*slot))?
            }
            Store::Array => (slot < self.spec.entries).then_some(slot)?,
            Store::Table(table) => table.used_from(slot)?,
            Store::Prefixes(prefixes) => prefixes.table.used_from(slot)?,
            Store::Programs(_) | Store::Ring(_) => return None,
        };
        Some((slot, slot * self.stride as u32))
    }

    /// The key of a slot that has one.
    pub(crate) fn key_of(&self, slot: u32) -> Vec<u8> {
        match &self.store {
            Store::Table(table) => table.key(slot).to_vec(),
            Store::Prefixes(prefixes) => prefixes.given(slot).to_vec(),
            Store::Array | Store::Programs(_) | Store::Ring(_) => slot.to_le_bytes().to_vec(),
        }
    }

    /// How many elements it has.
    pub fn len(&self) -> u32 {
        match &self.store {
            Store::Array if self.spec.kind == MapKind::Devices => {
                (0..self.spec.entries).filter(|slot| self.has_device(*slot)).count() as u32
            }
            Store::Array => self.spec.entries,
            Store::Table(table) => table.len(),
            Store::Prefixes(prefixes) => prefixes.table.len(),
            Store::Programs(programs) => programs.iter().flatten().count() as u32,
            Store::Ring(_) => 0,
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

/// Clears the bits of an address after the first `bits`.
fn mask(address: &mut [u8], bits: usize) {
    if let Ok(word) = <&mut [u8; 4]>::try_from(&mut *address) {
        let kept = u32::MAX.checked_shl(32 - bits.min(32) as u32).unwrap_or(0);
        *word = (u32::from_be_bytes(*word) & kept).to_be_bytes();
        return;
    }
    for (at, byte) in address.iter_mut().enumerate() {
        let kept = bits.saturating_sub(at * 8).min(8);
        *byte &= !(0xff_u16 >> kept) as u8;
    }
}

impl Prefixes {
    fn key_len(&self) -> usize {
        self.masked.len()
    }

    fn given(&self, slot: u32) -> &[u8] {
        let at = slot as usize * self.key_len();
        self.given.get(at..at + self.key_len()).unwrap_or(&[])
    }

    /// Writes a key into `masked`, with this length.
    fn prepare(&mut self, key: &[u8], bits: usize) {
        self.masked.copy_from_slice(key);
        let (length, address) = self.masked.split_at_mut(4);
        length.copy_from_slice(&(bits as u32).to_le_bytes());
        mask(address, bits);
    }

    /// The length that a key says, if it is not too large.
    fn bits(&self, key: &[u8]) -> Option<usize> {
        let bits = index(key.get(..4)?)? as usize;
        (bits < self.lengths.len()).then_some(bits)
    }

    fn longest(&mut self, key: &[u8]) -> Option<u32> {
        let most = self.bits(key)?;
        let mut next = Some(most);
        while let Some(bits) = next.and_then(|from| self.present_from(from)) {
            next = bits.checked_sub(1);
            self.prepare(key, bits);
            if let Some(slot) = self.table.find(&self.masked) {
                return Some(slot);
            }
        }
        None
    }

    /// The longest length up to this one of which there are prefixes.
    fn present_from(&self, bits: usize) -> Option<usize> {
        let mut word = bits / 64;
        let mut found = self.present.get(word)? << (63 - bits % 64) >> (63 - bits % 64);
        while found == 0 {
            word = word.checked_sub(1)?;
            found = *self.present.get(word)?;
        }
        Some(word * 64 + found.ilog2() as usize)
    }

    /// The number of prefixes of a length changed.
    fn note(&mut self, bits: usize) {
        let (there, bit) = (self.lengths[bits] != 0, 1 << (bits % 64));
        if let Some(word) = self.present.get_mut(bits / 64) {
            *word = if there { *word | bit } else { *word & !bit };
        }
    }

    fn slot_for(&mut self, key: &[u8], flags: u64) -> Result<u32, Errno> {
        let bits = self.bits(key).ok_or(Errno::INVAL)?;
        self.prepare(key, bits);
        let before = self.table.len();
        let slot = slot_for(&mut self.table, &self.masked, flags, false, Errno::NOSPC)?;
        self.lengths[bits] += self.table.len() - before;
        self.note(bits);
        let at = slot as usize * key.len();
        self.given[at..at + key.len()].copy_from_slice(key);
        Ok(slot)
    }

    fn remove(&mut self, key: &[u8]) -> Result<bool, Errno> {
        let bits = self.bits(key).ok_or(Errno::INVAL)?;
        self.prepare(key, bits);
        let removed = self.table.remove(&self.masked);
        self.lengths[bits] -= u32::from(removed);
        self.note(bits);
        Ok(removed)
    }
}
