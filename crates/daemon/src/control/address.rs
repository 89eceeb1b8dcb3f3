// SPDX-License-Identifier: Apache-2.0

//! Where the dataplane of a network namespace listens, and how clients find it.
//!
//! | socket | who connects |
//! | --- | --- |
//! | `/run/penstock/COOKIE.sock` | root, or the user of the dataplane: nobody else enters the directory |
//! | `/run/penstock-read/COOKIE.sock` | with `--allow-read` everybody, to look |
//!
//! So others never wait in the same queue as root. [`rundir`](crate::rundir) says where the
//! directories are without root.

use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::net::{UnixListener, UnixStream};

use penstock_lang::session::NOT_PERMITTED;

use crate::rundir::{self, Access, RunDir};

const EXTENSION: &str = "sock";

/// The error for a second dataplane.
pub(crate) const RUNS_ALREADY: &str = "a dataplane is running in this network namespace already";

/// The sockets of a dataplane.
#[derive(Debug)]
pub(crate) struct Listeners {
    /// For those who may do everything.
    pub(crate) private: UnixListener,
    /// For those who may look.
    pub(crate) public: Option<UnixListener>,
}

/// Binds the sockets of this network namespace. Those of a dataplane that died are replaced: the
/// caller has the lock of the namespace ([`crate::namespace_lock`]), so no other dataplane is
/// there.
///
/// # Errors
/// A sentence.
pub(crate) fn listen(readers: bool) -> Result<Listeners, String> {
    remove();
    let private = bind(RunDir::get()?, 0o600)?;
    let public = readers.then(listen_for_readers).transpose()?;
    Ok(Listeners { private, public })
}

/// Binds the socket for those who may look.
///
/// # Errors
/// A sentence.
pub(crate) fn listen_for_readers() -> Result<UnixListener, String> {
    bind(&RunDir::make(Access::All)?, 0o666)
}

fn bind(directory: &RunDir, mode: u32) -> Result<UnixListener, String> {
    let bound = || {
        let name = rundir::name(EXTENSION)?;
        directory.remove(&name);
        let listener = UnixListener::bind(directory.path(&name))?;
        directory.set_mode(&name, mode)?;
        Ok(listener)
    };
    bound().map_err(|e: io::Error| format!("the control socket: {e}"))
}

/// Removes the sockets of this network namespace, at the end of the dataplane that has the lock.
pub(crate) fn remove() {
    if let (Ok(name), Ok(directory)) = (rundir::name(EXTENSION), RunDir::get()) {
        directory.remove(&name);
    }
    remove_public();
}

/// Removes the socket for those who may look.
pub(crate) fn remove_public() {
    let Ok(name) = rundir::name(EXTENSION) else { return };
    for directory in rundir::places(Access::All) {
        // Only the owner can, and that may be another user.
        let _ = std::fs::remove_file(directory.join(&name));
    }
}

/// Whether a dataplane of this user answers.
pub(crate) fn is_served() -> bool {
    let path = rundir::name(EXTENSION)
        .ok()
        .zip(RunDir::get().ok())
        .map(|(name, directory)| directory.path(&name));
    path.is_some_and(|path| UnixStream::connect(path).is_ok())
}

/// Connects to the dataplane of this network namespace, or of another one, with all rights if the
/// user has them, else read-only; says which of both. `None` if no dataplane listens.
///
/// # Errors
/// The user may not see whether a dataplane listens, or the connection fails.
pub(crate) fn connect(namespace: Option<BorrowedFd<'_>>) -> io::Result<Option<(UnixStream, bool)>> {
    let name = match namespace {
        None => rundir::name(EXTENSION)?,
        Some(namespace) => rundir::name_in(namespace, EXTENSION)?,
    };
    let mut denied = false;
    let private = rundir::places(Access::Owner).map(|path| (path, true));
    let public = rundir::places(Access::All).map(|path| (path, false));
    for (path, all) in private.chain(public) {
        match UnixStream::connect(path.join(&name)) {
            Ok(stream) => return Ok(Some((stream, all))),
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => denied = true,
            // One that died has left its socket.
            Err(e)
                if matches!(
                    e.kind(),
                    io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound
                ) => {}
            Err(e) => return Err(e),
        }
    }
    match denied {
        true => Err(io::Error::new(io::ErrorKind::PermissionDenied, NOT_PERMITTED)),
        false => Ok(None),
    }
}
