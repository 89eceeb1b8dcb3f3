// SPDX-License-Identifier: Apache-2.0

//! The memory of a packet, in a layout that machine code may rely on.

use std::fmt;
use std::mem;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};

/// Bytes on the heap, all of them initialized. Like a boxed slice, but where its address and its
/// length are is known at compile time.
#[repr(C)]
pub(crate) struct Buffer {
    /// From `Box::into_raw`, as `len` is: this owns the bytes.
    pub(crate) start: NonNull<u8>,
    len: usize,
}

// SAFETY: a buffer owns its bytes as a `Box<[u8]>` does, which may go to other threads.
unsafe impl Send for Buffer {}
// SAFETY: through a shared buffer its bytes are only read.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// Makes the buffer at least `len` bytes long. What it held stays where it is, counted from
    /// its start; the bytes after that are zero. Each time it grows it at least doubles.
    #[inline]
    pub(crate) fn grow(&mut self, len: usize) {
        if self.len < len {
            self.change(|bytes| bytes.resize(len, 0));
        }
    }

    /// Puts `len` zero bytes before all others.
    pub(crate) fn grow_front(&mut self, len: usize) {
        self.change(|bytes| drop(bytes.splice(0..0, std::iter::repeat_n(0, len))));
    }

    /// A vector decides how much memory there is. The buffer has all of it.
    #[cold]
    fn change(&mut self, change: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = Vec::from(self.take());
        change(&mut bytes);
        bytes.resize(bytes.capacity(), 0);
        *self = Buffer::from(bytes.into_boxed_slice());
    }

    /// Leaves an empty buffer.
    fn take(&mut self) -> Box<[u8]> {
        let Buffer { start, len } = *mem::ManuallyDrop::new(mem::take(self));
        // SAFETY: both are from `Box::into_raw`, and no buffer owns them now: `self` is another
        // one, and their former buffer is not dropped.
        unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(start.as_ptr(), len)) }
    }
}

impl From<Box<[u8]>> for Buffer {
    fn from(bytes: Box<[u8]>) -> Self {
        let len = bytes.len();
        // A box's address is never null.
        let start = NonNull::new(Box::into_raw(bytes).cast()).unwrap_or(NonNull::dangling());
        Buffer { start, len }
    }
}

impl Default for Buffer {
    #[inline]
    fn default() -> Self {
        // What an empty box has: it owns no memory.
        Buffer { start: NonNull::dangling(), len: 0 }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        drop(self.take());
    }
}

impl Deref for Buffer {
    type Target = [u8];

    #[inline(always)]
    fn deref(&self) -> &[u8] {
        // SAFETY: the buffer owns `len` initialized bytes from `start` on, and is borrowed.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for Buffer {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_stay_when_a_buffer_grows_at_either_end() {
        let mut buffer = Buffer::default();
        assert_eq!(*buffer, []);
        buffer.grow(0);
        assert_eq!(*buffer, []);
        buffer.grow(100);
        assert_eq!(*buffer, [0; 100]);
        buffer.fill(7);
        buffer.grow(60);
        assert_eq!(*buffer, [7; 100]);
        buffer.grow(101);
        assert_eq!((&buffer[..100], buffer[100], buffer.len()), (&[7; 100][..], 0, 200));
        buffer.grow_front(3);
        assert_eq!((&buffer[..3], &buffer[3..103], buffer[103]), (&[0; 3][..], &[7; 100][..], 0));
        let moved = std::thread::spawn(move || buffer[50]).join().unwrap();
        assert_eq!(moved, 7);
    }
}
