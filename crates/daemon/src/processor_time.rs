// SPDX-License-Identifier: Apache-2.0

//! The processor time of the calling thread.

use std::time::Duration;

/// Processor time that the calling thread has used (`CLOCK_THREAD_CPUTIME_ID`). It does not pass
/// while the process is stopped or other programs have the processors.
pub(crate) fn of_this_thread() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec, which is alive.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}
