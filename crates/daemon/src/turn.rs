//! One after the other: a dataplane of a network namespace begins when the one before is over, its guardian included.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::control::RUNS_ALREADY;
use crate::control::protocol::address;
use crate::log;
use crate::takeover::record;

/// The permission to take devices and to give them back. It goes with the last process that has it: a guardian keeps it until
/// it has given back what it guards.
#[derive(Debug)]
pub(crate) struct Turn(Option<File>);

/// The file of this network namespace that is locked.
fn path() -> io::Result<PathBuf> {
    record::path().map(|path| path.with_extension("lock"))
}

/// Whether the file is still the one that others would lock.
fn is_there(file: &File) -> bool {
    let (own, there) = (file.metadata(), path().and_then(fs::metadata));
    own.is_ok_and(|own| there.is_ok_and(|there| (own.dev(), own.ino()) == (there.dev(), there.ino())))
}

/// Removes the file, at the end of whoever has locked it: a guardian has, too.
pub(crate) fn remove() {
    if let Ok(path) = path() {
        let _ = fs::remove_file(path);
    }
}

fn open() -> io::Result<File> {
    let path = path()?;
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
        let mut file = match open() {
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
                if is_there(&file) {
                    return Ok(Turn(Some(file)));
                }
                // Whoever had it has removed the file at its end.
                file = open().map_err(|e| format!("the lock of this network namespace: {e}"))?;
                continue;
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::WouldBlock {
                return Err(format!("the lock of this network namespace: {error}"));
            }
            // One that has begun at the same moment, and was first.
            if address().is_ok_and(|address| UnixStream::connect_addr(&address).is_ok()) {
                return Err(RUNS_ALREADY.into());
            }
            if begun.elapsed() >= PATIENCE {
                return Err("an earlier dataplane still gives its devices back".into());
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// It is over, and all is given back. Without this the file stays, which does no harm.
    pub(crate) fn end(self) {
        if self.0.is_some() {
            remove();
        }
    }
}
