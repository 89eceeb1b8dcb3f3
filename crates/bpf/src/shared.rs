// SPDX-License-Identifier: Apache-2.0

//! Words of memory that programs and this process change at once.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::map::{Map, MapKind, MapSpec};
use crate::mapping::Mapping;

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
        self.memory.len() as u32
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.memory.len() == 0
    }
}

/// A mapping of words.
///
/// # Invariant
/// It is readable and writable, and its length is that of whole words.
#[derive(Debug)]
struct Memory(Mapping);

// SAFETY: all that is read and written there are atomic words.
unsafe impl Sync for Memory {}

impl Memory {
    fn map(map: BorrowedFd<'_>, len: usize) -> io::Result<Self> {
        let (bytes, protection) = (len * size_of::<u64>(), libc::PROT_READ | libc::PROT_WRITE);
        Ok(Memory(Mapping::new(map, 0, bytes, protection)?))
    }

    /// Words.
    fn len(&self) -> usize {
        self.0.len() / size_of::<u64>()
    }

    fn words(&self) -> &[AtomicU64] {
        // SAFETY: so many words from a page's start on are mapped as long as `self` is there, and
        // programs change them by atomic operations only.
        unsafe { std::slice::from_raw_parts(self.0.start().cast().as_ptr(), self.len()) }
    }
}
