// SPDX-License-Identifier: Apache-2.0

//! Maps: memory that programs and user space share.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, OnceLock};

use crate::sys::{self, MapParts};

/// What a map is (`enum bpf_map_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum MapKind {
    /// Any keys.
    Hash = 1,
    /// Numbers from 0 on.
    Array = 2,
    /// Programs to continue with.
    Programs = 3,
    /// An array with separate values for each processor.
    PerCpuArray = 6,
    /// Any keys; the one that was used least recently goes where there is no room.
    RecentHash = 9,
    /// Prefixes; a key begins with its length in bits.
    LongestPrefix = 11,
    /// Devices by a number from 0 on.
    Devices = 14,
    /// AF_XDP sockets by the number of the queue.
    Sockets = 17,
    /// Devices by any number.
    DevicesByHash = 25,
    /// Maps by a number from 0 on, made by [`Map::of_maps`].
    Maps = 12,
    /// Records of any length, read by a [`RecordRing`](crate::RecordRing); there are no keys, and
    /// `entries` is its size in bytes.
    Records = 27,
    /// An array that user space maps into its memory; the values are contiguous.
    MappedArray = ARRAY | MAPPED,
}

/// `BPF_MAP_TYPE_ARRAY`.
const ARRAY: u32 = 2;
/// `BPF_F_NO_PREALLOC`.
const NO_PREALLOC: u32 = 1;
/// `BPF_F_MMAPABLE`; no kind has so high a number.
const MAPPED: u32 = 1 << 10;

impl MapKind {
    /// `enum bpf_map_type`.
    fn number(self) -> u32 {
        self as u32 & !MAPPED
    }

    fn flags(self) -> u32 {
        match self {
            MapKind::LongestPrefix => NO_PREALLOC,
            MapKind::MappedArray => MAPPED,
            _ => 0,
        }
    }
}

/// What a map is made from. Nothing is asked of the kernel until it is [created](Map::create).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapSpec {
    /// Up to 15 letters, as bpftool shows it.
    pub name: &'static str,
    /// Kind.
    pub kind: MapKind,
    /// Bytes of a key.
    pub key: u32,
    /// Bytes of a value.
    pub value: u32,
    /// Keys at most.
    pub entries: u32,
}

/// A map. It is created at its first use, so that code can be generated without the right to load
/// it.
#[derive(Debug)]
pub struct Map {
    spec: MapSpec,
    fd: OnceLock<OwnedFd>,
    contents: Vec<(Vec<u8>, Vec<u8>)>,
    /// What maps in it are like.
    inner: Option<Arc<Map>>,
}

impl Map {
    /// A map that is made when it is first needed, with these keys and values in it.
    pub fn with_contents(spec: MapSpec, contents: Vec<(Vec<u8>, Vec<u8>)>) -> Self {
        Map { spec, fd: OnceLock::new(), contents, inner: None }
    }

    /// A map without contents.
    pub fn new(spec: MapSpec) -> Self {
        Map::with_contents(spec, Vec::new())
    }

    /// A map of maps ([`MapKind::Maps`]) that are like one, which is made with it; its values are
    /// their descriptors.
    pub fn of_maps(spec: MapSpec, inner: Arc<Map>) -> Self {
        Map { inner: Some(inner), ..Map::new(spec) }
    }

    /// A map that is open already. Without a number of `entries` in `spec` it may have any.
    ///
    /// # Errors
    /// It is not the map that `spec` says.
    pub fn from_fd(spec: MapSpec, fd: OwnedFd) -> io::Result<Self> {
        let mut info = [0; 24];
        sys::info(fd.as_fd(), &mut info)?;
        let field = |at: usize| {
            info.get(at..at + 4).and_then(|b| b.first_chunk()).map(|b| u32::from_ne_bytes(*b))
        };
        // type, id, key size, value size, entries
        let found = (field(0), field(8), field(12));
        let entries = field(16).filter(|entries| spec.entries == 0 || *entries == spec.entries);
        match entries {
            Some(entries)
                if found == (Some(spec.kind.number()), Some(spec.key), Some(spec.value)) =>
            {
                let spec = MapSpec { entries, ..spec };
                Ok(Map { spec, fd: OnceLock::from(fd), contents: Vec::new(), inner: None })
            }
            _ => Err(io::Error::new(io::ErrorKind::InvalidData, "another kind of map")),
        }
    }

    /// Whether both are made from the same.
    pub fn begins_as(&self, other: &Map) -> bool {
        std::ptr::eq(self, other) || self.spec == other.spec && self.contents == other.contents
    }

    /// What it was made from.
    pub fn spec(&self) -> &MapSpec {
        &self.spec
    }

    /// The map, made if it is not there yet.
    ///
    /// # Errors
    /// Those of bpf(2), such as `EPERM`.
    pub fn create(&self) -> io::Result<BorrowedFd<'_>> {
        if let Some(fd) = self.fd.get() {
            return Ok(fd.as_fd());
        }
        let MapSpec { name, kind, key, value, entries } = self.spec;
        let inner = self.inner.as_ref().map(|inner| inner.create()).transpose()?;
        let parts =
            MapParts { kind: kind.number(), key, value, entries, flags: kind.flags(), inner, name };
        let fd = sys::map_create(&parts)?;
        for (key, value) in &self.contents {
            self.check(key, value.len())?;
            sys::map_update(fd.as_fd(), key, value, 0)?;
        }
        Ok(self.fd.get_or_init(|| fd).as_fd())
    }

    /// Bytes of what user space reads and writes at a key.
    pub fn value_len(&self) -> usize {
        let one = self.spec.value as usize;
        match self.spec.kind {
            MapKind::PerCpuArray => one.next_multiple_of(8) * possible_cpus(),
            MapKind::Hash
            | MapKind::Array
            | MapKind::Programs
            | MapKind::RecentHash
            | MapKind::Records
            | MapKind::LongestPrefix
            | MapKind::Devices
            | MapKind::Sockets
            | MapKind::DevicesByHash
            | MapKind::Maps
            | MapKind::MappedArray => one,
        }
    }

    fn check(&self, key: &[u8], value: usize) -> io::Result<()> {
        if key.len() != self.spec.key as usize || value != self.value_len() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "key or value has another length",
            ));
        }
        Ok(())
    }

    /// The value at a key; with [`MapKind::PerCpuArray`] those of all processors, each filled up to
    /// 8 bytes.
    ///
    /// # Errors
    /// Those of bpf(2); a key of another length.
    pub fn get(&self, key: &[u8]) -> io::Result<Option<Vec<u8>>> {
        let mut value = vec![0; self.value_len()];
        self.check(key, value.len())?;
        Ok(sys::map_lookup(self.create()?, key, &mut value)?.then_some(value))
    }

    /// Sets the value at a key.
    ///
    /// # Errors
    /// Those of bpf(2), `E2BIG` when it is full; a key or value of another length.
    pub fn set(&self, key: &[u8], value: &[u8]) -> io::Result<()> {
        self.check(key, value.len())?;
        sys::map_update(self.create()?, key, value, 0)
    }

    /// Removes a key; whether it was there.
    ///
    /// # Errors
    /// Those of bpf(2); a key of another length.
    pub fn remove(&self, key: &[u8]) -> io::Result<bool> {
        self.check(key, self.value_len())?;
        sys::map_delete(self.create()?, key)
    }

    /// Removes a key, in one step with reading its value. Not for all kinds.
    ///
    /// # Errors
    /// Those of bpf(2); a key of another length.
    pub fn take(&self, key: &[u8]) -> io::Result<Option<Vec<u8>>> {
        let mut value = vec![0; self.value_len()];
        self.check(key, value.len())?;
        Ok(sys::map_take(self.create()?, key, &mut value)?.then_some(value))
    }

    /// Sets many values, keys and values each in a row. Not for all kinds.
    ///
    /// # Errors
    /// As [`Map::set`]; some may have been set.
    pub fn set_many(&self, keys: &[u8], values: &[u8]) -> io::Result<()> {
        let count = self.count(keys)?;
        if values.len() != count * self.value_len() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a value for each key"));
        }
        if count == 0 {
            Ok(())
        } else {
            sys::map_update_batch(self.create()?, keys, values, count as u32)
        }
    }

    /// Removes many keys, which lie in a row; those that are not there too.
    ///
    /// # Errors
    /// Those of bpf(2); keys of another length.
    pub fn remove_many(&self, keys: &[u8]) -> io::Result<()> {
        let len = self.spec.key as usize;
        let (mut at, count) = (0, self.count(keys)?);
        while at < count {
            let rest = keys.get(at * len..).unwrap_or_default();
            // It stops in front of one that is missing.
            at += 1 + sys::map_delete_batch(self.create()?, rest, (count - at) as u32)? as usize;
        }
        Ok(())
    }

    fn count(&self, keys: &[u8]) -> io::Result<usize> {
        let len = (self.spec.key as usize).max(1);
        if !keys.len().is_multiple_of(len) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "keys have another length"));
        }
        Ok(keys.len() / len)
    }

    /// Visits all keys and values; elements that change during the walk may be missed. Not for all
    /// kinds.
    ///
    /// # Errors
    /// Those of bpf(2).
    pub fn each(&self, mut visit: impl FnMut(&[u8], &[u8])) -> io::Result<()> {
        const COUNT: usize = 4096;
        let (key, value) = (self.spec.key as usize, self.value_len());
        let (mut keys, mut values) = (vec![0; key * COUNT], vec![0; value * COUNT]);
        let (mut from, mut next) = (vec![0; key.max(4)], vec![0; key.max(4)]);
        let mut first = true;
        loop {
            let begin = (!first).then_some(&*from);
            let (read, more) = sys::map_lookup_batch(
                self.create()?,
                begin,
                &mut next,
                &mut keys,
                &mut values,
                COUNT as u32,
            )?;
            let pairs = keys.chunks_exact(key.max(1)).zip(values.chunks_exact(value.max(1)));
            pairs.take(read as usize).for_each(|(key, value)| visit(key, value));
            if !more {
                return Ok(());
            }
            std::mem::swap(&mut from, &mut next);
            first = false;
        }
    }

    /// The key after another, or the first.
    ///
    /// # Errors
    /// Those of bpf(2); a key of another length.
    pub fn next_key(&self, key: Option<&[u8]>) -> io::Result<Option<Vec<u8>>> {
        if let Some(key) = key {
            self.check(key, self.value_len())?;
        }
        let mut next = vec![0; self.spec.key as usize];
        Ok(sys::map_next_key(self.create()?, key, &mut next)?.then_some(next))
    }

    /// Gives it a name in a file system of type bpf, where it outlives the process.
    ///
    /// # Errors
    /// Those of bpf(2); `EEXIST` if there is such a name.
    pub fn pin(&self, path: &std::path::Path) -> io::Result<()> {
        sys::pin(self.create()?, &sys::path_name(path)?)
    }

    /// Opens one that has a name.
    ///
    /// # Errors
    /// Those of bpf(2); it is not the map that `spec` says.
    pub fn pinned(spec: MapSpec, path: &std::path::Path) -> io::Result<Self> {
        Map::from_fd(spec, sys::get(&sys::path_name(path)?)?)
    }
}

/// Processors that there can be, for which values of [`MapKind::PerCpuArray`] have room.
pub fn possible_cpus() -> usize {
    static COUNT: OnceLock<usize> = OnceLock::new();
    *COUNT.get_or_init(|| {
        let text = fs::read_to_string("/sys/devices/system/cpu/possible").unwrap_or_default();
        let last = text.trim().rsplit([',', '-']).next().and_then(|n| n.parse::<usize>().ok());
        last.map_or_else(|| std::thread::available_parallelism().map_or(1, |n| n.get()), |n| n + 1)
    })
}
