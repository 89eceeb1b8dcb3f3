// SPDX-License-Identifier: Apache-2.0

//! Atomic integers and threads of loom.
//!
//! loom takes sequentially consistent accesses for acquire and release ones, and knows such fences.
//! So here an access with that order stands between two fences, which is what it comes to where all
//! accesses to a word have that order.

use std::sync::atomic::Ordering;

pub use loom::hint::spin_loop;
pub use loom::sync::atomic::fence;
pub use loom::sync::{Arc, Mutex};
pub use loom::thread;

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
                access(
                    order,
                    |order| self.0.compare_exchange(current, new, order, failure),
                    Ordering::AcqRel,
                )
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

/// A word with reads and writes visible to loom.
pub struct Word(loom::cell::UnsafeCell<()>);

impl Word {
    pub fn new() -> Self {
        Word(loom::cell::UnsafeCell::new(()))
    }

    pub fn read(&self) {
        self.0.with(|_| ());
    }

    pub fn write(&self) {
        self.0.with_mut(|_| ());
    }
}
