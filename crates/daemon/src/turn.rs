//! One after the other: a dataplane of a network namespace begins when the one before is over, its guardian included.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use crate::log;
use crate::takeover::record;

/// The permission to take devices and to give them back. It goes with the last process that has it: a guardian keeps it until
/// it has given back what it guards.
#[derive(Debug)]
pub(crate) struct Turn(#[expect(dead_code, reason = "keeps the lock")] Option<File>);

/// The file of this network namespace that is locked.
fn open() -> io::Result<File> {
    let path = record::path()?.with_extension("lock");
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    File::options().create(true).truncate(false).write(true).open(path)
}

impl Turn {
    /// Waits for it. Where no lock can be made, as without a `/run` that may be written, nobody waits. The error is a sentence.
    pub(crate) fn wait() -> Result<Turn, String> {
        /// How long an earlier one may take to give its devices back.
        const PATIENCE: Duration = Duration::from_secs(20);
        const PAUSE: Duration = Duration::from_millis(10);
        let file = match open() {
            Ok(file) => file,
            Err(e) => {
                log(format_args!("nobody waits for a dataplane that gives its devices back: {e}"));
                return Ok(Turn(None));
            }
        };
        let begun = Instant::now();
        loop {
            // SAFETY: no pointers.
            if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
                return Ok(Turn(Some(file)));
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::WouldBlock {
                return Err(format!("the lock of this network namespace: {error}"));
            }
            if begun.elapsed() >= PATIENCE {
                return Err("an earlier dataplane still gives its devices back".into());
            }
            std::thread::sleep(PAUSE);
        }
    }
}
