// SPDX-License-Identifier: Apache-2.0

//! Bytes that stay where they are, which machine code reaches by their address.

use std::mem::offset_of;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::slice;

/// Bytes at one place for as long as they live. In contrast to a `Box`, references to them come from
/// a raw pointer each time, so an address that was taken earlier stays good after other accesses.
pub(crate) struct Memory {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the bytes belong to this value alone, as those of a `Box<[u8]>` do.
unsafe impl Send for Memory {}
// SAFETY: as above; a shared reference gives shared references to bytes only.
unsafe impl Sync for Memory {}

impl Memory {
    /// So many zeros.
    pub(crate) fn new(len: usize) -> Memory {
        // Zeros come from the system untouched, so memory that is not used costs nothing.
        let bytes = NonNull::from(Box::leak(vec![0; len].into_boxed_slice()));
        // Machine code reaches bytes by addresses that it reads or has in it.
        bytes.as_ptr().expose_provenance();
        Memory { start: bytes.cast(), len }
    }

    /// Where the address of the bytes is in this value.
    #[cfg_attr(not(feature = "cranelift"), allow(dead_code))]
    pub(crate) const START_AT: usize = offset_of!(Memory, start);

    /// Where the bytes begin.
    pub(crate) fn address(&self) -> *mut u8 {
        self.start.as_ptr()
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: `new` has the pointer from a box, and nothing else frees it.
        drop(unsafe {
            Box::from_raw(std::ptr::slice_from_raw_parts_mut(self.address(), self.len))
        });
    }
}

impl Deref for Memory {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the pointer is to initialized bytes that live as long as this value. Machine code
        // writes them only while a run has this value exclusively, and makes no reference.
        unsafe { slice::from_raw_parts(self.address(), self.len) }
    }
}

impl DerefMut for Memory {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and the reference to this value is exclusive.
        unsafe { slice::from_raw_parts_mut(self.address(), self.len) }
    }
}

impl Clone for Memory {
    fn clone(&self) -> Memory {
        let mut new = Memory::new(self.len());
        new.copy_from_slice(self);
        new
    }
}

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Memory({} bytes)", self.len())
    }
}
