// SPDX-License-Identifier: Apache-2.0

//! Memory for many flows.

/// From where on it is worth it, in bytes: a few large pages.
const LEAST: usize = 8 << 20;

/// Asks the system for large pages where a vector has room: with a million flows each packet finds
/// its flow in another page. Nothing else changes, and nothing happens where the system has none.
pub(crate) fn in_large_pages<T>(v: &Vec<T>) {
    let bytes = v.capacity().saturating_mul(size_of::<T>());
    if bytes < LEAST {
        return;
    }
    #[cfg(target_os = "linux")]
    // SAFETY: the range is within what the vector has allocated, from the first page that begins in
    // it; advice on how to back it changes none of its bytes.
    unsafe {
        const PAGE: usize = 4096;
        let start = v.as_ptr().cast::<u8>();
        let skip = start.align_offset(PAGE);
        if skip < bytes {
            libc::madvise(start.add(skip).cast_mut().cast(), bytes - skip, libc::MADV_HUGEPAGE);
        }
    }
}
