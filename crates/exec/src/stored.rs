// SPDX-License-Identifier: Apache-2.0

//! A state file as what requests read and change.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use penstock_conntrack::Conntrack;
use penstock_ipset::{Refused as IpSetRefused, Reply, Request};
use penstock_nfnetlink::{Backend, Connections, IpSetTable, Process, Refused, Show};
use penstock_ruleset::needs;
use penstock_ruleset::reset::Reset;
use penstock_ruleset::{Blame, Errno, Error, Generation, Transaction};
use penstock_state::file::{self, Locked, Version};
use penstock_state::unwritten::{self, Unwritten};
use penstock_state::{Broken, State};

use crate::connections;

/// Why a state file cannot be used.
#[derive(Debug)]
pub enum CannotOpen {
    /// It cannot be read.
    Read(io::Error),
    /// It is no state.
    Broken(Broken),
}

impl fmt::Display for CannotOpen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CannotOpen::Read(e) => write!(f, "cannot be read: {e}"),
            CannotOpen::Broken(e) => write!(f, "cannot be restored: {e}"),
        }
    }
}

impl std::error::Error for CannotOpen {}

impl CannotOpen {
    /// What programs are told.
    fn errno(&self) -> Errno {
        match self {
            CannotOpen::Read(e) => errno_of(e),
            CannotOpen::Broken(_) => Errno::Eio,
        }
    }
}

/// The number of an error of the system.
fn errno_of(error: &io::Error) -> Errno {
    match error.raw_os_error() {
        Some(libc::EPERM) => Errno::Eperm,
        Some(libc::EACCES) => Errno::Eacces,
        Some(libc::ENOMEM) => Errno::Enomem,
        Some(libc::ENOSPC | libc::EDQUOT) => Errno::Enospc,
        Some(libc::EROFS) => Errno::Erofs,
        Some(libc::ENFILE | libc::EMFILE) => Errno::Enfile,
        _ => Errno::Eio,
    }
}

/// Nanoseconds since the epoch.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64)
}

/// A ruleset in a state file. It keeps what it has read, and reads again when the file is another
/// one.
#[derive(Debug)]
pub struct Stored {
    /// Absolute: the supervisor's folder is not the caller's.
    path: PathBuf,
    /// The file that `state` was read from; `None` if `state` must not be used.
    version: Option<Version>,
    state: State,
    /// The connections of `state`, once a request has asked for any.
    table: Option<Conntrack>,
    /// The connections of `state` as text.
    saved: Arc<str>,
    locked: Option<Locked>,
    writing: Writing,
    /// Nanoseconds since the epoch.
    now: u64,
}

/// When connections and sets of ipset are written.
///
/// The file is written whole, so writing it for each of many connections in a row would take time
/// that grows with the square of their number. A change is written at once, but not before ten times
/// as long as the last writing took has passed since then. As long as there are changes that are not
/// written the file is locked and marked: other processes wait, and find them. They are lost if the
/// supervisor is killed.
#[derive(Debug, Default)]
struct Writing {
    /// When it may be written again.
    next: Option<Instant>,
    /// There are changes that are not written.
    waits: Option<Unwritten>,
    /// The table has changed since it was last written.
    connections: bool,
    /// Why they could not be written: the next request that changes anything is refused with it.
    failed: Option<Errno>,
}

/// The longest time that a change is not written.
const WAIT_MAX: Duration = Duration::from_secs(1);

impl Stored {
    /// A state file by its path; there need not be one yet.
    ///
    /// # Errors
    /// The file is there and cannot be used.
    pub fn open(path: &Path) -> Result<Self, CannotOpen> {
        let path = std::path::absolute(path).map_err(CannotOpen::Read)?;
        let mut stored = Stored {
            path,
            version: None,
            state: State::default(),
            table: None,
            saved: "".into(),
            locked: None,
            writing: Writing::default(),
            now: 0,
        };
        unwritten::settled(&stored.path).map_err(CannotOpen::Read)?;
        stored.refresh()?;
        // The supervisor closes all descriptors that were open before.
        if let Some(version) = &mut stored.version {
            version.close();
        }
        Ok(stored)
    }

    /// The file's path, absolute.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The connections as the file has them.
    pub(crate) fn saved_connections(&self) -> Arc<str> {
        self.saved.clone()
    }

    /// Reads the newest file, unless it is the one that was read last.
    pub(crate) fn refresh(&mut self) -> Result<(), CannotOpen> {
        self.now = now();
        let current = self.version.as_ref().map(|version| version.is_current(&self.path));
        if current.transpose().map_err(CannotOpen::Read)? == Some(true) {
            return Ok(());
        }
        self.version = None;
        self.table = None;
        let (version, state) = file::read(&self.path, self.now).map_err(CannotOpen::Read)?;
        self.state = state.map_err(CannotOpen::Broken)?;
        self.saved = self.state.connections.as_str().into();
        self.version = Some(version);
        Ok(())
    }

    /// Gets ready for a request; keeps other processes from changing the file if it changes.
    ///
    /// # Errors
    /// The file cannot be used, or not be made; earlier changes could not be written.
    pub(crate) fn begin_request(&mut self, changes: bool) -> Result<(), Errno> {
        if changes && let Some(errno) = self.writing.failed.take() {
            return Err(errno);
        }
        if self.writing.waits.is_some() {
            // Nobody else has changed it.
            self.now = now();
            return Ok(());
        }
        if changes {
            self.locked = Some(Locked::create(&self.path, now()).map_err(|e| errno_of(&e))?);
        } else {
            unwritten::settled(&self.path).map_err(|e| errno_of(&e))?;
        }
        self.refresh().map_err(|e| {
            self.locked = None;
            e.errno()
        })
    }

    /// Lets other processes change the file, unless there are changes that are not written.
    pub(crate) fn end_request(&mut self) {
        if self.writing.waits.is_none() {
            self.locked = None;
        }
    }

    /// A socket is closed: what it owns goes. If the file cannot be written its tables stay, and only
    /// `penstock nft --state` can delete them.
    pub(crate) fn close(&mut self, port: u32) {
        // What the file has now is not asked: nobody else can have made the tables.
        if !penstock_nfnetlink::owns(port, &self.generation()) {
            return;
        }
        if self.begin_request(true).is_ok() {
            let _ = penstock_nfnetlink::close(port, self);
            self.end_request();
        }
    }

    /// When changes have to be written; `None` if there are none.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.writing.next.filter(|_| self.writing.waits.is_some())
    }

    /// Writes the changes that are not written yet. They go with a file that was removed.
    pub(crate) fn flush(&mut self) {
        if self.writing.waits.is_none() {
            return;
        }
        let there = self.locked.as_ref().is_some_and(|locked| locked.is_there().unwrap_or(true));
        let written = if there { self.write().map_err(|error| error.errno) } else { Ok(()) };
        if !there || written.is_err() {
            // What was read does not hold any more.
            (self.version, self.table, self.locked) = (None, None, None);
            self.writing =
                Writing { next: self.writing.next, failed: written.err(), ..Writing::default() };
        }
    }

    /// Takes the lock for one more change of the same request.
    ///
    /// # Errors
    /// `EBUSY` if another process was quicker.
    fn lock_again(&mut self) -> Result<(), Errno> {
        if self.locked.is_none() {
            self.locked = Some(Locked::create(&self.path, now()).map_err(|e| errno_of(&e))?);
            let current = self.version.as_ref().map(|version| version.is_current(&self.path));
            if !matches!(current, Some(Ok(true))) {
                self.locked = None;
                return Err(Errno::Ebusy);
            }
        }
        Ok(())
    }

    /// Keeps changed connections.
    fn write_connections(&mut self) -> Result<(), Error> {
        self.writing.connections = true;
        self.write_later()
    }

    /// Keeps changed connections and sets of ipset: in the file, now or a little later.
    fn write_later(&mut self) -> Result<(), Error> {
        if self.writing.waits.is_some() {
            return Ok(());
        }
        if self.writing.next.is_some_and(|next| Instant::now() < next) {
            // Without a mark, for which the file must be writable, readers would not wait.
            self.writing.waits = Unwritten::mark(&self.path).ok();
        }
        match self.writing.waits {
            Some(_) => Ok(()),
            None => self.write(),
        }
    }

    /// Puts the state in the place of the file.
    fn write(&mut self) -> Result<(), Error> {
        self.version = None;
        // Without a lock nothing may be written: a batch without an end is not committed.
        let Some(locked) = self.locked.take() else {
            return Err(Error::new(Errno::Eperm, Blame::Whole));
        };
        let begun = Instant::now();
        let connections = std::mem::take(&mut self.writing.connections);
        if let Some(table) = self.table.as_ref().filter(|_| connections) {
            self.state.connections = connections::saved(table);
            self.saved = self.state.connections.as_str().into();
        }
        let written = locked.replace(&self.state.to_bytes(self.now));
        self.writing.waits = None;
        let ended = Instant::now();
        self.writing.next = Some(ended + ((ended - begun) * 10).min(WAIT_MAX));
        self.version = Some(written.map_err(|e| Error::new(errno_of(&e), Blame::Whole))?);
        Ok(())
    }
}

impl Backend for Stored {
    fn now(&self) -> u64 {
        self.now
    }

    fn generation(&self) -> Arc<Generation> {
        self.state.ruleset.generation()
    }

    fn begin(&mut self) -> Transaction {
        self.state.ruleset.begin_at(self.now)
    }

    fn commit(&mut self, mut batch: Transaction, _: &Process) -> Result<(), Refused> {
        batch.settle();
        let before = self.state.ruleset.generation().id;
        self.state.ruleset.commit(batch)?;
        if self.state.ruleset.generation().id != before {
            self.write()?;
        }
        Ok(())
    }

    fn observe(&mut self, _: &[Reset], show: &mut Show<'_>) -> Result<(), Error> {
        let generation = self.state.ruleset.generation();
        let resets = show(&generation);
        if resets.is_empty() {
            return Ok(());
        }
        resets.iter().for_each(|what| generation.reset(what, self.now));
        self.write()
    }

    fn connections(&mut self) -> Option<&mut dyn Connections> {
        let generation = self.state.ruleset.generation();
        let needs = needs::of(&generation);
        let helpers = generation.globals.connection_helpers();
        let saved = &self.state.connections;
        let table = self.table.get_or_insert_with(|| connections::load(saved, helpers.clone()));
        table.set_helpers(helpers);
        table.want_labels(needs.labels);
        Some(table)
    }

    fn ip_sets(&mut self) -> Option<&mut dyn IpSetTable> {
        Some(self)
    }

    fn keep_ip_sets(&mut self) -> Result<(), Errno> {
        let kept = self.lock_again().and_then(|()| self.write_later().map_err(|error| error.errno));
        if kept.is_err() {
            // What was read does not hold any more.
            self.version = None;
        }
        kept
    }

    fn keep_connections(&mut self) -> Result<(), Errno> {
        if self.table.is_none() {
            return Ok(());
        }
        let kept =
            self.lock_again().and_then(|()| self.write_connections().map_err(|error| error.errno));
        if kept.is_err() {
            // What was read does not hold any more.
            self.version = None;
            self.table = None;
        }
        kept
    }
}

impl IpSetTable for Stored {
    fn ask(&mut self, request: Request) -> Result<Reply, IpSetRefused> {
        self.state.ruleset.ask_ip_sets(&request, self.now)
    }
}
