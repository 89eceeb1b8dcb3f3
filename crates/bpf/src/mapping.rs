// SPDX-License-Identifier: Apache-2.0

//! Memory of a map that this process shares with programs (mmap(2)).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;

/// A mapping. Unmapped when it is dropped.
///
/// # Invariant
/// `len` bytes from `start` on, the beginning of a page, are mapped as long as it is there, and
/// allow what they were mapped for.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the memory belongs to the owner of the mapping, on any thread.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps `len` bytes from offset `from` on, both in bytes, for `protection` (`PROT_*`).
    ///
    /// # Errors
    /// Those of mmap(2).
    pub(crate) fn new(
        map: BorrowedFd<'_>,
        from: usize,
        len: usize,
        protection: i32,
    ) -> io::Result<Self> {
        let (fd, from) = (map.as_raw_fd(), from as libc::off_t);
        // SAFETY: a new mapping at an address that the kernel chooses touches no memory that is in
        // use.
        let start = unsafe {
            libc::mmap(std::ptr::null_mut(), len, protection, libc::MAP_SHARED, fd, from)
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        match NonNull::new(start.cast()) {
            Some(start) => Ok(Mapping { start, len }),
            None => Err(io::ErrorKind::OutOfMemory.into()),
        }
    }

    /// Where it begins.
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this is what was mapped, and nothing borrowed from it outlives it.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}
