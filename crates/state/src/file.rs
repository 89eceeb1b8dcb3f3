// SPDX-License-Identifier: Apache-2.0

//! State files that several processes read and change.
//!
//! A change replaces the file, so a reader needs no lock: it finds the file before the change or
//! the one after it. Who changes it holds a lock (flock(2)) from reading to replacing, and may hold
//! it for many changes: [`unwritten`](crate::unwritten).

use std::fs::{File, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use penstock_files::Access;

use crate::{Broken, State};

/// A state file that no other process changes while this lives.
#[derive(Debug)]
pub struct Locked {
    path: PathBuf,
    file: File,
}

impl Locked {
    /// Waits for the lock of a file. Makes a file with an empty state if there is none, at a time
    /// in nanoseconds since the epoch.
    ///
    /// # Errors
    /// Those of open(2), flock(2) and [`penstock_files::create_new`].
    pub fn create(path: &Path, now: u64) -> io::Result<Self> {
        loop {
            if let Some(locked) = Locked::open(path)? {
                return Ok(locked);
            }
            match penstock_files::create_new(path, &State::default().to_bytes(now), Access::Owner) {
                Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
                made => made?,
            }
        }
    }

    /// Waits for the lock of a file; `None` if there is none.
    ///
    /// # Errors
    /// Those of open(2) and flock(2).
    pub fn open(path: &Path) -> io::Result<Option<Self>> {
        loop {
            let Some(file) = open(path)? else { return Ok(None) };
            file.lock()?;
            if Some(identity(&file.metadata()?)) == identity_at(path)? {
                return Ok(Some(Locked { path: path.to_owned(), file }));
            }
            // The process that had the lock has put another file in place of this one.
        }
    }

    /// Whether the file still has its name: others may have removed it.
    ///
    /// # Errors
    /// Those of stat(2).
    pub fn is_there(&self) -> io::Result<bool> {
        Ok(Some(identity(&self.file.metadata()?)) == identity_at(&self.path)?)
    }

    /// The file's bytes.
    ///
    /// # Errors
    /// Those of [`penstock_files::read`].
    pub fn read(&self) -> io::Result<Vec<u8>> {
        // What is locked is read by its name, so that it can be read more than once.
        penstock_files::read(&self.path)
    }

    /// Puts other bytes in its place. The lock is on a file without a name then, so this is the
    /// last thing to do with it.
    ///
    /// # Errors
    /// Those of [`penstock_files::replace`]; the file is as before.
    pub fn replace(self, bytes: &[u8]) -> io::Result<Version> {
        let new = penstock_files::replace_opened(&self.path, bytes, Access::Owner)?;
        let version = Version::of(new);
        drop(self.file);
        version
    }
}

/// A state file as a process has read it, to notice when another one has replaced it.
#[derive(Debug)]
pub struct Version {
    /// Kept open, so that no other file gets the same inode.
    _file: Option<File>,
    identity: Option<Identity>,
}

/// Device, inode, size, and time of the last change in seconds and nanoseconds.
type Identity = (u64, u64, u64, i64, i64);

fn identity(of: &Metadata) -> Identity {
    (of.dev(), of.ino(), of.size(), of.mtime(), of.mtime_nsec())
}

/// The identity of what has a path's name; `None` if there is nothing.
fn identity_at(path: &Path) -> io::Result<Option<Identity>> {
    match std::fs::metadata(path) {
        Ok(data) => Ok(Some(identity(&data))),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

impl Version {
    fn of(file: File) -> io::Result<Version> {
        let identity = Some(identity(&file.metadata()?));
        Ok(Version { _file: Some(file), identity })
    }

    /// Closes its descriptor. Another file that gets the same inode is told by its time only then.
    pub fn close(&mut self) {
        self._file = None;
    }

    /// Whether this is still what a path leads to.
    ///
    /// # Errors
    /// Those of stat(2); that there is no file is none.
    pub fn is_current(&self, path: &Path) -> io::Result<bool> {
        Ok(self.identity == identity_at(path)?)
    }
}

/// Reads a file with the version that was read, at a time in nanoseconds since the epoch. Where
/// there is no file the state is empty.
///
/// # Errors
/// Those of [`penstock_files::read`]; the second one is of a file that is no state.
pub fn read(path: &Path, now: u64) -> io::Result<(Version, Result<State, Broken>)> {
    let Some(file) = open(path)? else {
        return Ok((Version { _file: None, identity: None }, Ok(State::default())));
    };
    let bytes = penstock_files::read_opened(&file)?;
    Ok((Version::of(file)?, State::from_bytes_at(&bytes, now)))
}

/// Opens a file for reading; `None` if there is none.
pub(crate) fn open(path: &Path) -> io::Result<Option<File>> {
    // Opening a pipe must not block.
    match File::options().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path) {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        opened => opened.map(Some),
    }
}
