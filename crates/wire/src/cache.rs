// SPDX-License-Identifier: Apache-2.0

//! Memory that will be needed soon, fetched into the cache.

/// Asks the processor to fetch the cache line of `what`; costs nothing where there is no such
/// instruction.
#[inline(always)]
pub fn prefetch<T>(what: &T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing that the program can see and never faults; the pointer comes
    // from a reference.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(
            std::ptr::from_ref(what).cast(),
        );
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = what;
}
