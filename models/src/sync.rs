//! The product's `sync` modules in terms of loom.
//!
//! loom takes sequentially consistent accesses for acquire and release ones, and knows such fences. So here an access with
//! that order stands between two fences, which is what it comes to where all accesses to a word have that order.

use std::sync::atomic::Ordering;

pub use loom::hint::spin_loop;
pub use loom::sync::Mutex;
pub use loom::sync::atomic::fence;

/// An access with an order, between fences if it is sequentially consistent.
fn access<T>(order: Ordering, access: impl FnOnce(Ordering) -> T, weaker: Ordering) -> T {
    if order != Ordering::SeqCst {
        return access(order);
    }
    fence(Ordering::SeqCst);
    let value = access(weaker);
    fence(Ordering::SeqCst);
    value
}

macro_rules! atomic {
    ($name:ident, $value:ty) => {
        /// The integer of that name in `std::sync::atomic`.
        #[derive(Debug, Default)]
        pub struct $name(loom::sync::atomic::$name);

        impl $name {
            pub fn new(value: $value) -> Self {
                $name(loom::sync::atomic::$name::new(value))
            }

            pub fn load(&self, order: Ordering) -> $value {
                access(order, |order| self.0.load(order), Ordering::Acquire)
            }

            pub fn store(&self, value: $value, order: Ordering) {
                access(order, |order| self.0.store(value, order), Ordering::Release)
            }

            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                access(order, |order| self.0.swap(value, order), Ordering::AcqRel)
            }

            pub fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                order: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                let failure = if failure == Ordering::SeqCst { Ordering::Acquire } else { failure };
                access(order, |order| self.0.compare_exchange(current, new, order, failure), Ordering::AcqRel)
            }

            pub fn compare_exchange_weak(
                &self,
                current: $value,
                new: $value,
                order: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.compare_exchange(current, new, order, failure)
            }

            pub fn fetch_update(
                &self,
                order: Ordering,
                load: Ordering,
                mut update: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                let mut seen = self.load(load);
                while let Some(new) = update(seen) {
                    match self.compare_exchange(seen, new, order, load) {
                        Ok(before) => return Ok(before),
                        Err(other) => seen = other,
                    }
                }
                Err(seen)
            }
        }
    };
}

macro_rules! number {
    ($name:ident, $value:ty) => {
        atomic!($name, $value);

        impl $name {
            pub fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                access(order, |order| self.0.fetch_add(value, order), Ordering::AcqRel)
            }

            pub fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                access(order, |order| self.0.fetch_sub(value, order), Ordering::AcqRel)
            }

            pub fn fetch_min(&self, value: $value, order: Ordering) -> $value {
                access(order, |order| self.0.fetch_min(value, order), Ordering::AcqRel)
            }
        }
    };
}

atomic!(AtomicBool, bool);
number!(AtomicU32, u32);
number!(AtomicU64, u64);
number!(AtomicUsize, usize);

/// Words of zeros.
pub fn zeros(n: usize) -> Box<[AtomicU64]> {
    (0..n).map(|_| AtomicU64::new(0)).collect()
}

/// Nothing is fetched here.
pub fn prefetch<T>(_what: &T) {}

/// Bytes that two threads read and write by turns: loom is told of each word that is touched.
pub struct Bytes {
    words: Box<[loom::cell::UnsafeCell<()>]>,
    bytes: Box<[std::cell::UnsafeCell<u64>]>,
}

// SAFETY: whoever reads or writes vouches for it that nobody else writes at the same time, and loom looks whether that is so.
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
            words: (0..words).map(|_| loom::cell::UnsafeCell::new(())).collect(),
            bytes: (0..words).map(|_| std::cell::UnsafeCell::new(0)).collect(),
        }
    }

    pub fn len(&self) -> usize {
        self.words.len() * 8
    }

    fn touched(&self, place: usize, len: usize) -> &[loom::cell::UnsafeCell<()>] {
        let from = place % self.len() / 8;
        &self.words[from..from + len.div_ceil(8)]
    }

    fn at(&self, place: usize) -> *mut u8 {
        self.bytes.as_ptr().cast_mut().cast::<u8>().wrapping_add(place % self.len())
    }

    /// # Safety
    /// As in the product.
    pub unsafe fn put<T: Copy>(&self, place: usize, value: T) {
        self.touched(place, size_of::<T>()).iter().for_each(|word| word.with_mut(|_| ()));
        // SAFETY: the caller vouches for it.
        unsafe { self.at(place).cast::<T>().write(value) };
    }

    /// # Safety
    /// As in the product.
    pub unsafe fn get<T: Copy>(&self, place: usize) -> T {
        self.touched(place, size_of::<T>()).iter().for_each(|word| word.with(|_| ()));
        // SAFETY: the caller vouches for it.
        unsafe { self.at(place).cast::<T>().read() }
    }

    /// # Safety
    /// As in the product.
    pub unsafe fn write(&self, place: usize, bytes: &[u8]) {
        self.touched(place, bytes.len()).iter().for_each(|word| word.with_mut(|_| ()));
        // SAFETY: the caller vouches for it.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.at(place), bytes.len()) };
    }

    /// # Safety
    /// As in the product.
    pub unsafe fn slice(&self, place: usize, len: usize) -> &[u8] {
        self.touched(place, len).iter().for_each(|word| word.with(|_| ()));
        // SAFETY: the caller vouches for it.
        unsafe { std::slice::from_raw_parts(self.at(place), len) }
    }
}
