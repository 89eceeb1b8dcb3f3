// SPDX-License-Identifier: Apache-2.0

//! One after the other: a dataplane of a network namespace begins when the one before is over, its
//! guardian included.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use crate::control::{RUNS_ALREADY, is_served};
use crate::rundir::{self, RunDir};

/// The permission to take and return devices: a lock on a file that only the owner of the run
/// directory can open. It goes with the last process that has it: a guardian keeps it until it has
/// returned its devices.
#[derive(Debug)]
pub(crate) struct NamespaceLock(
    #[expect(dead_code, reason = "the lock is held as long as it is open")] File,
);

/// Name of the file of this network namespace that is locked.
fn name() -> io::Result<String> {
    rundir::name("lock")
}

/// Whether the file is still the one that others would lock.
fn is_there(directory: &RunDir, name: &str, file: &File) -> bool {
    let (own, there) = (file.metadata(), directory.metadata(name));
    own.is_ok_and(|own| {
        there.is_ok_and(|there| (own.dev(), own.ino()) == (there.dev(), there.ino()))
    })
}

/// Removes the file, at the end of the process that has locked it: also a guardian.
pub(crate) fn remove() {
    if let (Ok(directory), Ok(name)) = (RunDir::get(), name()) {
        directory.remove(&name);
    }
}

impl NamespaceLock {
    /// Waits for it. The error is a sentence.
    pub(crate) fn wait() -> Result<NamespaceLock, String> {
        /// How long an earlier one may take to give its devices back.
        const PATIENCE: Duration = Duration::from_secs(20);
        const PAUSE: Duration = Duration::from_millis(10);
        let wrong = |e: io::Error| format!("the lock of this network namespace: {e}");
        let (directory, name) = (RunDir::get()?, name().map_err(wrong)?);
        let mut file = directory.open_private(&name).map_err(wrong)?;
        let begun = Instant::now();
        loop {
            // SAFETY: no pointers.
            if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
                if is_there(directory, &name, &file) {
                    return Ok(NamespaceLock(file));
                }
                // The process that had the lock has removed the file at its end.
                file = directory.open_private(&name).map_err(wrong)?;
                continue;
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::WouldBlock {
                return Err(wrong(error));
            }
            // One that has begun at the same moment, and was first.
            if is_served() {
                return Err(RUNS_ALREADY.into());
            }
            if begun.elapsed() >= PATIENCE {
                return Err("an earlier dataplane still gives its devices back".into());
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Removes the file after all devices are returned. Without this the file stays, which does no
    /// harm.
    pub(crate) fn end(self) {
        remove();
    }
}
