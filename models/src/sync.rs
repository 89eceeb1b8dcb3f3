// SPDX-License-Identifier: Apache-2.0

//! The product's `sync` modules, in terms of loom or of shuttle.

#[cfg(not(feature = "shuttle"))]
pub use crate::loom_sync::*;
#[cfg(feature = "shuttle")]
pub use crate::shuttle_sync::*;

/// Words of zeros.
pub fn zeros(n: usize) -> Box<[AtomicU64]> {
    (0..n).map(|_| AtomicU64::new(0)).collect()
}

/// Nothing is fetched here.
pub fn prefetch<T>(_what: &T) {}

/// Bytes that two threads read and write by turns: loom sees each access to a word.
pub struct Bytes {
    words: Box<[Word]>,
    bytes: Box<[std::cell::UnsafeCell<u64>]>,
}

// SAFETY: the caller guarantees that there is no concurrent writer, and loom checks that.
unsafe impl Send for Bytes {}
// SAFETY: as above.
unsafe impl Sync for Bytes {}

impl std::fmt::Debug for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Bytes")
    }
}

impl Bytes {
    pub fn new(words: usize) -> Self {
        Bytes {
            words: (0..words).map(|_| Word::new()).collect(),
            bytes: (0..words).map(|_| std::cell::UnsafeCell::new(0)).collect(),
        }
    }

    pub fn len(&self) -> usize {
        self.words.len() * 8
    }

    fn touched(&self, place: usize, len: usize) -> &[Word] {
        let from = place % self.len() / 8;
        &self.words[from..from + len.div_ceil(8)]
    }

    fn at(&self, place: usize) -> *mut u8 {
        self.bytes.as_ptr().cast_mut().cast::<u8>().wrapping_add(place % self.len())
    }

    /// # Safety
    /// As in the product.
    pub unsafe fn put<T: Copy>(&self, place: usize, value: T) {
        self.touched(place, size_of::<T>()).iter().for_each(Word::write);
        // SAFETY: the caller vouches for it.
        unsafe { self.at(place).cast::<T>().write(value) };
    }

    /// # Safety
    /// As in the product.
    pub unsafe fn get<T: Copy>(&self, place: usize) -> T {
        self.touched(place, size_of::<T>()).iter().for_each(Word::read);
        // SAFETY: the caller vouches for it.
        unsafe { self.at(place).cast::<T>().read() }
    }

    /// # Safety
    /// As in the product.
    pub unsafe fn write(&self, place: usize, bytes: &[u8]) {
        self.touched(place, bytes.len()).iter().for_each(Word::write);
        // SAFETY: the caller vouches for it.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.at(place), bytes.len()) };
    }

    /// # Safety
    /// As in the product.
    pub unsafe fn slice(&self, place: usize, len: usize) -> &[u8] {
        self.touched(place, len).iter().for_each(Word::read);
        // SAFETY: the caller vouches for it.
        unsafe { std::slice::from_raw_parts(self.at(place), len) }
    }
}
