// SPDX-License-Identifier: Apache-2.0

//! The C library's allocator (mallopt(3)), set up for a process that runs for months. That of musl
//! has no settings.

/// Sets it up. Called once, before other threads start.
#[cfg(not(target_env = "gnu"))]
pub(crate) fn set_up() {}

/// Sets it up. Called once, before other threads start.
#[cfg(target_env = "gnu")]
pub(crate) fn set_up() {
    /// Number of arenas. Each keeps its peak size, and no packet thread allocates. With a fixed
    /// number the library does not read the number of processors from a file, which a thread
    /// without the right to open files might do.
    const ARENAS: libc::c_int = 4;
    /// Bytes from which on an allocation is a separate mapping, which goes back to the system:
    /// texts of all connections, rulesets on their way to the evaluator. By default the library
    /// serves more and more of them from its arenas.
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
