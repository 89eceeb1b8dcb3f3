// SPDX-License-Identifier: Apache-2.0

//! Words of memory that programs and this process change at once.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::map::{Map, MapKind, MapSpec};

/// An array of words: the only value of a map, which is mapped into memory.
#[derive(Debug)]
pub struct SharedWords {
    map: Arc<Map>,
    memory: Memory,
}

impl SharedWords {
    /// So many words, all zero.
    ///
    /// # Errors
    /// Those of bpf(2) and mmap(2).
    pub fn new(name: &'static str, words: u32) -> io::Result<Self> {
        SharedWords::of(Arc::new(Map::new(SharedWords::spec(name, words))))
    }

    /// What a map of so many words is made from.
    pub fn spec(name: &'static str, words: u32) -> MapSpec {
        let value = words.saturating_mul(size_of::<u64>() as u32);
        MapSpec { name, kind: MapKind::MappedArray, key: 4, value, entries: 1 }
    }

    /// The words of a map that is made from [`SharedWords::spec`].
    ///
    /// # Errors
    /// Those of bpf(2) and mmap(2); it is another kind of map.
    pub fn of(map: Arc<Map>) -> io::Result<Self> {
        let MapSpec { kind, value, entries, .. } = *map.spec();
        if (kind, entries) != (MapKind::MappedArray, 1) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a map without words"));
        }
        let memory = Memory::map(map.create()?, value as usize / size_of::<u64>())?;
        Ok(SharedWords { map, memory })
    }

    /// The map: a program finds word `n` at byte `8 * n` of its value.
    pub fn map(&self) -> &Arc<Map> {
        &self.map
    }

    /// A word.
    pub fn get(&self, index: u32) -> Option<&AtomicU64> {
        self.memory.words().get(index as usize)
    }

    /// Number of words.
    pub fn len(&self) -> u32 {
        self.memory.len as u32
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.memory.len == 0
    }
}

/// A mapping of the value of a map. Unmapped when it is dropped.
#[derive(Debug)]
struct Memory {
    start: NonNull<AtomicU64>,
    /// Words.
    len: usize,
}

// SAFETY: the memory belongs to the owner of the mapping, on any thread.
unsafe impl Send for Memory {}
// SAFETY: all that is read and written there are atomic words.
unsafe impl Sync for Memory {}

impl Memory {
    fn map(map: BorrowedFd<'_>, len: usize) -> io::Result<Self> {
        let (protection, fd) = (libc::PROT_READ | libc::PROT_WRITE, map.as_raw_fd());
        let bytes = len * size_of::<u64>();
        // SAFETY: a new mapping at an address that the kernel chooses touches no memory that is in
        // use.
        let start =
            unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, libc::MAP_SHARED, fd, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        match NonNull::new(start.cast()) {
            Some(start) => Ok(Memory { start, len }),
            None => Err(io::ErrorKind::OutOfMemory.into()),
        }
    }

    fn words(&self) -> &[AtomicU64] {
        // SAFETY: `len` words from a page's start on are mapped as long as `self` is there, and
        // programs change them by atomic operations only.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: this is what was mapped, and nothing borrowed from it outlives it.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len * size_of::<u64>()) };
    }
}
