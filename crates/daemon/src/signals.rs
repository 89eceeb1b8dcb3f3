// SPDX-License-Identifier: Apache-2.0

//! Signals, waited for by one thread.

use std::time::Duration;

/// The signals that are waited for; blocked, so that all threads leave them to that.
pub(crate) struct Signals(libc::sigset_t);

impl Signals {
    pub(crate) fn block() -> Self {
        // SAFETY: the set lives through the calls, which fill it and then read it.
        unsafe {
            let mut set = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGCHLD] {
                libc::sigaddset(&raw mut set, signal);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
            Signals(set)
        }
    }

    /// The next one, if there is one in that time.
    pub(crate) fn wait(&self, time: Duration) -> Option<i32> {
        let time =
            libc::timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() };
        // SAFETY: set and time live through the call; only the signal's number is requested.
        let signal =
            unsafe { libc::sigtimedwait(&raw const self.0, std::ptr::null_mut(), &raw const time) };
        (signal > 0).then_some(signal)
    }
}
