// SPDX-License-Identifier: Apache-2.0

//! A call of nft on a state file: it reads the state, may change it, and puts it back, while no
//! other process changes the file.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use penstock_system::words;

use crate::file::Locked;
use crate::{Broken, State, same};

/// Why a state file cannot be read or written; in words that follow `Error: `.
#[derive(Debug)]
pub enum Unusable {
    /// It cannot be read.
    Read(PathBuf, io::Error),
    /// It is no state.
    Broken(PathBuf, Broken),
    /// It cannot be written; it is as before.
    Write(PathBuf, io::Error),
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unusable::Read(path, e) => {
                write!(f, "Could not open file \"{}\": {}", path.display(), words(e))
            }
            Unusable::Broken(path, broken) => {
                write!(f, "{} cannot be restored: {broken}", path.display())
            }
            Unusable::Write(path, e) => {
                write!(f, "Could not write file \"{}\": {}", path.display(), words(e))
            }
        }
    }
}

impl std::error::Error for Unusable {}

/// A state that was read from its file, which is locked.
#[derive(Debug)]
pub struct Held {
    /// As it was read, or as the call has changed it.
    pub state: State,
    path: PathBuf,
    /// The bytes that were read.
    read: Vec<u8>,
    /// `None` where there is no file, and none is made.
    locked: Option<Locked>,
}

impl Held {
    /// Waits for the lock of a file and reads it, at a time in nanoseconds since the epoch. If
    /// there is no file one is made, unless the call only checks.
    ///
    /// # Errors
    /// [`Unusable::Read`] and [`Unusable::Broken`].
    pub fn take(path: &Path, only_checks: bool, now: u64) -> Result<Held, Unusable> {
        let wrong = |e| Unusable::Read(path.to_owned(), e);
        let locked = match only_checks {
            true => Locked::open(path),
            false => Locked::create(path, now).map(Some),
        };
        let locked = locked.map_err(wrong)?;
        let mut held =
            Held { state: State::default(), path: path.to_owned(), read: Vec::new(), locked };
        if let Some(file) = &held.locked {
            held.read = file.read().map_err(wrong)?;
            held.state = State::from_bytes_at(&held.read, now)
                .map_err(|broken| Unusable::Broken(path.to_owned(), broken))?;
        }
        Ok(held)
    }

    /// Puts the state in the place of the file, at a time in nanoseconds since the epoch, unless it
    /// is the same; other processes may change the file then.
    ///
    /// # Errors
    /// [`Unusable::Write`].
    pub fn put(self, now: u64) -> Result<(), Unusable> {
        let Held { state, path, read, locked } = self;
        let bytes = state.to_bytes(now);
        match locked {
            Some(locked) if !same(&bytes, &read) => {
                locked.replace(&bytes).map(drop).map_err(|e| Unusable::Write(path, e))
            }
            _ => Ok(()),
        }
    }
}
