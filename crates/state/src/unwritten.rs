// SPDX-License-Identifier: Apache-2.0

//! Who changes a state file often holds its lock for a while, and writes it now and then. This is a
//! mark on the file until then, for readers: a lock on its first byte (fcntl(2), `F_OFD_SETLK`).

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::path::Path;

/// A state file that does not have all changes yet, as long as this lives.
#[derive(Debug)]
pub struct Unwritten(#[allow(dead_code)] File);

impl Unwritten {
    /// Marks a file, which the caller has locked.
    ///
    /// # Errors
    /// Those of open(2) and fcntl(2); `EAGAIN` if others wait for it at the moment.
    pub fn mark(path: &Path) -> io::Result<Self> {
        let file = File::options().read(true).write(true).open(path)?;
        lock(&file, libc::F_OFD_SETLK, libc::F_WRLCK)?;
        Ok(Unwritten(file))
    }
}

/// Waits until all changes of a file are in the file that has its name. It does not matter who
/// holds the file's lock.
///
/// # Errors
/// Those of open(2) and fcntl(2).
pub fn settled(path: &Path) -> io::Result<()> {
    let Some(file) = crate::file::open(path)? else { return Ok(()) };
    loop {
        match lock(&file, libc::F_OFD_SETLKW, libc::F_RDLCK) {
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

fn lock(file: &File, command: libc::c_int, kind: libc::c_int) -> io::Result<()> {
    // SAFETY: a structure of numbers, for which zeros are values.
    let mut range: libc::flock = unsafe { std::mem::zeroed() };
    (range.l_type, range.l_whence, range.l_len) = (kind as _, libc::SEEK_SET as _, 1);
    // SAFETY: the structure lives through the call, which only reads it.
    match unsafe { libc::fcntl(file.as_raw_fd(), command, &raw const range) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_reader_waits_for_what_is_not_written() {
        let name = format!("penstock-unwritten-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, b"").expect("a file can be made");
        settled(&path).expect("nobody marks it");
        let mark = Unwritten::mark(&path).expect("it can be marked");
        let (tell, hear) = channel();
        std::thread::scope(|scope| {
            let waits = || tell.send(settled(&path).is_ok());
            scope.spawn(waits);
            assert!(hear.recv_timeout(Duration::from_millis(50)).is_err());
            drop(mark);
            assert_eq!(hear.recv(), Ok(true));
        });
        std::fs::remove_file(&path).expect("it is there");
        settled(&path).expect("no file has no changes");
    }
}
