// SPDX-License-Identifier: Apache-2.0

//! What threads share, by one name: the models of `models/` put other types in its place, which try
//! all orders in which threads may see the memory.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::ptr;

pub(crate) use std::sync::Mutex;
pub(crate) use std::sync::atomic::{AtomicBool, AtomicUsize, fence};

/// Bytes that two threads read and write by turns. Places count on beyond the end, modulo the
/// length.
pub(crate) struct Bytes(Box<[UnsafeCell<MaybeUninit<u64>>]>);

// SAFETY: callers make sure that there is no concurrent writer.
unsafe impl Sync for Bytes {}

impl std::fmt::Debug for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bytes").field("len", &self.len()).finish()
    }
}

impl Bytes {
    /// So many words, of anything.
    pub(crate) fn new(words: usize) -> Self {
        Bytes((0..words).map(|_| UnsafeCell::new(MaybeUninit::uninit())).collect())
    }

    /// Bytes.
    pub(crate) fn len(&self) -> usize {
        self.0.len() * size_of::<u64>()
    }

    fn at(&self, place: usize) -> *mut u8 {
        self.0.as_ptr().cast_mut().cast::<u8>().wrapping_add(place % self.len())
    }

    /// Writes a value.
    ///
    /// # Safety
    /// The place is a multiple of eight, a `T` fits before the end and needs no more alignment, and
    /// there is no concurrent access.
    pub(crate) unsafe fn put<T: Copy>(&self, place: usize, value: T) {
        // SAFETY: the caller vouches for it.
        unsafe { self.at(place).cast::<T>().write(value) };
    }

    /// Reads a value.
    ///
    /// # Safety
    /// A value of the same type was written at the place, and there is no concurrent writer.
    pub(crate) unsafe fn get<T: Copy>(&self, place: usize) -> T {
        // SAFETY: the caller vouches for it.
        unsafe { self.at(place).cast::<T>().read() }
    }

    /// Writes bytes.
    ///
    /// # Safety
    /// They fit before the end, and there is no concurrent access.
    pub(crate) unsafe fn write(&self, place: usize, bytes: &[u8]) {
        // SAFETY: the caller vouches for it.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.at(place), bytes.len()) };
    }

    /// Bytes that were written.
    ///
    /// # Safety
    /// They were written in one piece, and there is no writer as long as they are borrowed.
    pub(crate) unsafe fn slice(&self, place: usize, len: usize) -> &[u8] {
        // SAFETY: the caller vouches for it.
        unsafe { std::slice::from_raw_parts(self.at(place), len) }
    }
}
