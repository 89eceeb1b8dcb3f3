// SPDX-License-Identifier: Apache-2.0

//! What threads share, by one name: the models of `models/` put other types in its place, which try
//! all orders in which threads may see the memory.

pub(crate) use std::hint::spin_loop;
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, fence};

/// Words of zeros, without touching them.
pub fn zeros(n: usize) -> Box<[AtomicU64]> {
    const { assert!(align_of::<AtomicU64>() == align_of::<u64>()) };
    let words = vec![0u64; n].into_boxed_slice();
    // SAFETY: an `AtomicU64` has the size and the values of a `u64`, and the alignment, as asserted
    // above; the memory has one owner before and after.
    unsafe { Box::from_raw(Box::into_raw(words) as *mut [AtomicU64]) }
}
