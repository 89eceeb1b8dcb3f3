// SPDX-License-Identifier: Apache-2.0

//! System calls by descriptor of a directory (openat(2) and its kin), which std does not have.

use std::ffi::{CStr, CString, OsStr, OsString};
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use libc::{c_int, mode_t};

/// What fstat(2) tells, as far as it is asked here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Status {
    pub(crate) mode: mode_t,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

impl Status {
    pub(crate) fn is(&self, kind: mode_t) -> bool {
        self.mode & libc::S_IFMT == kind
    }
}

fn c_string(name: &OsStr) -> io::Result<CString> {
    CString::new(name.as_bytes()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))
}

fn checked(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// openat(2), with `O_CLOEXEC`. Without a directory the name is one of the working directory.
pub(crate) fn open(
    directory: Option<BorrowedFd<'_>>,
    name: &OsStr,
    flags: c_int,
    mode: mode_t,
) -> io::Result<OwnedFd> {
    let name = c_string(name)?;
    let directory = directory.map_or(libc::AT_FDCWD, |d| d.as_raw_fd());
    loop {
        // SAFETY: the name ends with NUL and lives through the call.
        let opened = checked(unsafe {
            libc::openat(directory, name.as_ptr(), flags | libc::O_CLOEXEC, mode)
        });
        match opened {
            // SAFETY: the kernel has just created the descriptor, which has no other owner.
            Ok(fd) => return Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}

/// fstat(2).
pub(crate) fn status(fd: BorrowedFd<'_>) -> io::Result<Status> {
    let mut stat = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the pointer is to room for one.
    checked(unsafe { libc::fstat(fd.as_raw_fd(), stat.as_mut_ptr()) })?;
    // SAFETY: the call has succeeded, so all of it is written.
    let stat = unsafe { stat.assume_init() };
    Ok(Status { mode: stat.st_mode, uid: stat.st_uid, gid: stat.st_gid })
}

/// readlinkat(2) of a link that was opened itself (`O_PATH | O_NOFOLLOW`).
pub(crate) fn link_target(link: BorrowedFd<'_>) -> io::Result<OsString> {
    let mut target = vec![0u8; libc::PATH_MAX as usize];
    // SAFETY: the empty name ends with NUL, and the length is the buffer's.
    let len = unsafe {
        libc::readlinkat(link.as_raw_fd(), c"".as_ptr(), target.as_mut_ptr().cast(), target.len())
    };
    let len = usize::try_from(len).map_err(|_| io::Error::last_os_error())?;
    target.truncate(len);
    Ok(OsString::from_vec(target))
}

/// renameat(2) within a directory.
pub(crate) fn rename(directory: BorrowedFd<'_>, old: &OsStr, new: &OsStr) -> io::Result<()> {
    let (old, new) = (c_string(old)?, c_string(new)?);
    let directory = directory.as_raw_fd();
    // SAFETY: both names end with NUL and live through the call.
    checked(unsafe { libc::renameat(directory, old.as_ptr(), directory, new.as_ptr()) }).map(drop)
}

/// unlinkat(2).
pub(crate) fn unlink(directory: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
    let name = c_string(name)?;
    // SAFETY: the name ends with NUL and lives through the call.
    checked(unsafe { libc::unlinkat(directory.as_raw_fd(), name.as_ptr(), 0) }).map(drop)
}

/// linkat(2): gives a file of `O_TMPFILE` a name, or an existing file another one. Fails if the
/// name is taken.
pub(crate) fn link(file: &File, directory: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
    let own: CString = c_string(format!("/proc/self/fd/{}", file.as_raw_fd()).as_ref())?;
    link_path(&own, directory, name)
}

fn link_path(own: &CStr, directory: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
    let name = c_string(name)?;
    let (to, follow) = (directory.as_raw_fd(), libc::AT_SYMLINK_FOLLOW);
    // SAFETY: both names end with NUL and live through the call.
    checked(unsafe { libc::linkat(libc::AT_FDCWD, own.as_ptr(), to, name.as_ptr(), follow) })
        .map(drop)
}

/// geteuid(2) and getegid(2).
pub(crate) fn who() -> (u32, u32) {
    // SAFETY: these calls take nothing and cannot fail.
    unsafe { (libc::geteuid(), libc::getegid()) }
}

/// Random bytes of the system (getrandom(2)).
pub(crate) fn random() -> io::Result<u64> {
    let mut bytes = [0u8; 8];
    // SAFETY: the length is the buffer's. So few bytes come at once or not at all.
    let len = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    match usize::try_from(len) {
        Ok(len) if len == bytes.len() => Ok(u64::from_ne_bytes(bytes)),
        _ => Err(io::Error::last_os_error()),
    }
}
