// SPDX-License-Identifier: Apache-2.0

//! Hears of files that come into a folder (inotify(7)).

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A folder that is watched.
#[derive(Debug)]
pub(crate) struct Watch(OwnedFd);

impl Watch {
    /// Watches the folder of a file, which need not be there itself.
    ///
    /// # Errors
    /// Those of inotify_init(2) and inotify_add_watch(2).
    pub(crate) fn folder_of(file: &Path) -> io::Result<Self> {
        // A symbolic link may lead to another folder.
        let file = std::fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
        let folder = CString::new(file.parent().unwrap_or(Path::new("/")).as_os_str().as_bytes())?;
        // SAFETY: no pointers.
        let fd = unsafe { libc::inotify_init1(libc::IN_CLOEXEC | libc::IN_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call above made it.
        let watch = Watch(unsafe { OwnedFd::from_raw_fd(fd) });
        // Replaced, written in place, or removed.
        let events = libc::IN_MOVED_TO | libc::IN_CLOSE_WRITE | libc::IN_DELETE;
        // SAFETY: a string with its end.
        match unsafe { libc::inotify_add_watch(fd, folder.as_ptr(), events) } {
            0.. => Ok(watch),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Takes what was heard: which file it was does not matter.
    pub(crate) fn drain(&self) {
        let mut events = [0u8; 4096];
        // SAFETY: room for as many bytes as is said, which the call fills.
        while unsafe {
            libc::read(self.0.as_raw_fd(), events.as_mut_ptr().cast(), events.len()) > 0
        } {}
    }

    /// Readable when something was heard.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
