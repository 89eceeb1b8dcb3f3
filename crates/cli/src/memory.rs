// SPDX-License-Identifier: Apache-2.0

//! Large pieces of memory in large pages: tables that packets are looked up in are many megabytes,
//! and with small pages most of a look-up is the search for the page.

use std::alloc::{GlobalAlloc, Layout, System};

/// The system's allocator, which is told to use large pages where they pay (`madvise(2)`,
/// `MADV_HUGEPAGE`).
pub struct LargePages;

/// From so many bytes on: a large page on x86-64.
const LARGE: usize = 2 << 20;

/// Asks for large pages; what is there stays as it is, and a system without them does nothing.
#[inline]
fn advise(start: *mut u8, len: usize) {
    if len >= LARGE && !start.is_null() {
        advise_large(start, len);
    }
}

#[cold]
fn advise_large(start: *mut u8, len: usize) {
    const PAGE: usize = 4096;
    let skipped = start.addr().next_multiple_of(PAGE) - start.addr();
    // SAFETY: the pages lie inside of an allocation of `len` bytes, which is more than what is
    // skipped, and the advice changes nothing that is in them.
    unsafe {
        libc::madvise(start.add(skipped).cast(), (len - skipped) / PAGE * PAGE, libc::MADV_HUGEPAGE)
    };
}

// SAFETY: everything is done by the system's allocator; what it gives is handed on as it is.
unsafe impl GlobalAlloc for LargePages {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps what this trait asks for, which is what the system's allocator
        // asks for.
        let start = unsafe { System.alloc(layout) };
        advise(start, layout.size());
        start
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        let start = unsafe { System.alloc_zeroed(layout) };
        advise(start, layout.size());
        start
    }

    unsafe fn realloc(&self, old: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above.
        let start = unsafe { System.realloc(old, layout, size) };
        advise(start, size);
        start
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(start, layout) }
    }
}

#[cfg(test)]
mod tests {
    /// Flags of the piece of memory that holds an address (`VmFlags` of `/proc/PID/smaps`).
    fn flags(address: usize) -> Option<String> {
        let smaps = std::fs::read_to_string("/proc/self/smaps").ok()?;
        let mut inside = false;
        for line in smaps.lines() {
            let range = line.split_once(' ').and_then(|(range, _)| range.split_once('-'));
            if let Some((from, to)) = range
                && let (Ok(from), Ok(to)) =
                    (usize::from_str_radix(from, 16), usize::from_str_radix(to, 16))
            {
                inside = (from..to).contains(&address);
            } else if let Some(flags) = line.strip_prefix("VmFlags:").filter(|_| inside) {
                return Some(flags.to_owned());
            }
        }
        None
    }

    #[test]
    fn only_large_pieces_ask_for_large_pages_and_keep_what_is_in_them() {
        if !std::path::Path::new("/sys/kernel/mm/transparent_hugepage").exists() {
            return;
        }
        let mut grown: Vec<u32> = Vec::new();
        grown.extend(0..6 << 20);
        let zeroed = vec![0u8; 9 << 20];
        assert!(grown.iter().copied().eq(0..6 << 20) && zeroed.iter().all(|b| *b == 0));
        for middle in [grown[3 << 20..].as_ptr().addr(), zeroed[5 << 20..].as_ptr().addr()] {
            let flags = flags(middle).expect("memory that is in use");
            assert!(flags.split(' ').any(|flag| flag == "hg"), "{flags}");
        }
    }
}
