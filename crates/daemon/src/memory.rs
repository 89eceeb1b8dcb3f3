// SPDX-License-Identifier: Apache-2.0

//! The C library's allocator (mallopt(3)), as a process wants it that runs for months.

/// Sets it up. Said once, before there are other threads.
pub(crate) fn set_up() {
    /// Arenas. Each keeps what its fullest moment took, and no thread that does packets allocates.
    /// With a number of its own the library does not read that of processors from a file either,
    /// which a thread may want to do that may not open files.
    const ARENAS: libc::c_int = 4;
    /// Bytes from which on an allocation is a mapping of its own, which goes back to the system:
    /// texts of all connections, rulesets on their way to the evaluator. By itself the library
    /// takes more and more of them from its arenas.
    const MAPPED: libc::c_int = 1 << 20;
    /// Bytes that an arena may keep at its end.
    const KEPT: libc::c_int = 8 << 20;
    for (what, value) in [
        (libc::M_ARENA_MAX, ARENAS),
        (libc::M_MMAP_THRESHOLD, MAPPED),
        (libc::M_TRIM_THRESHOLD, KEPT),
    ] {
        // SAFETY: no pointers.
        unsafe { libc::mallopt(what, value) };
    }
}
