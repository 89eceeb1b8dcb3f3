// SPDX-License-Identifier: Apache-2.0

//! A signal that can be waited for by its descriptor (eventfd(2)).

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd};

/// Stays signalled until it is cleared.
#[derive(Debug)]
pub(crate) struct Event(File);

impl Event {
    /// Not signalled.
    pub(crate) fn new() -> std::io::Result<Self> {
        // SAFETY: no pointers.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(std::io::Error::last_os_error());
        }
        // SAFETY: a new descriptor without another owner.
        Ok(Event(unsafe { File::from_raw_fd(fd) }))
    }

    /// Wakes who waits.
    pub(crate) fn signal(&self) {
        // It fails only if it is signalled 2^64 times.
        let _ = (&self.0).write(&1u64.to_ne_bytes());
    }

    /// Takes the signal back, if there is one.
    pub(crate) fn clear(&self) {
        let _ = (&self.0).read(&mut [0; 8]);
    }
}

impl AsFd for Event {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
