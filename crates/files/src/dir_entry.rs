// SPDX-License-Identifier: Apache-2.0

//! Where a path leads: a directory that is open, and a name in it that is no symbolic link.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path};

use crate::sys::{self, Status};

/// Most symbolic links on a way (`MAXSYMLINKS`).
const LINKS_MAX: usize = 40;

/// A name in a directory.
#[derive(Debug)]
pub(crate) struct DirEntry {
    /// Opened with `O_PATH`.
    pub(crate) directory: OwnedFd,
    /// What the path is called there.
    pub(crate) name: OsString,
    /// What is there by this name, opened with `O_PATH`.
    pub(crate) there: Option<(OwnedFd, Status)>,
}

/// Whether only root and the caller can have made a link in this directory, or put another one in
/// its place.
fn is_trusted(directory: Status, link: Status, (uid, gid): (u32, u32)) -> bool {
    let own = |of: Status| of.uid == 0 || of.uid == uid;
    let group = directory.mode & libc::S_IWGRP != 0
        && directory.gid != 0
        && (uid == 0 || directory.gid != gid);
    let others = directory.mode & libc::S_IWOTH != 0;
    let sticky = directory.mode & libc::S_ISVTX != 0;
    own(link) && own(directory) && (sticky || !group && !others)
}

fn components(path: &Path) -> impl DoubleEndedIterator<Item = OsString> {
    path.components().filter_map(|component| match component {
        Component::CurDir | Component::Prefix(_) => None,
        other => Some(other.as_os_str().to_owned()),
    })
}

fn directory(at: Option<&OwnedFd>, name: &OsStr) -> io::Result<OwnedFd> {
    sys::open(at.map(|d| d.as_fd()), name, libc::O_PATH | libc::O_DIRECTORY | libc::O_NOFOLLOW, 0)
}

/// Walks along a path. Symbolic links are followed only as the crate says.
///
/// # Errors
///
/// `EPERM` for a link that others can have made, `EISDIR` if the path is a directory, and those of
/// open(2).
pub(crate) fn dir_entry(path: &Path) -> io::Result<DirEntry> {
    let os = io::Error::from_raw_os_error;
    let who = sys::who();
    let mut waiting: VecDeque<OsString> = components(path).collect();
    // A slash at the end asks for a directory.
    if path.as_os_str().as_encoded_bytes().ends_with(b"/") {
        return Err(os(libc::EISDIR));
    }
    let mut at = directory(None, OsStr::new("."))?;
    let mut links = 0;
    while let Some(name) = waiting.pop_front() {
        if name == "/" {
            at = directory(None, OsStr::new("/"))?;
            continue;
        }
        if name == ".." {
            at = directory(Some(&at), &name)?;
            continue;
        }
        let last = waiting.is_empty();
        let there = match sys::open(Some(at.as_fd()), &name, libc::O_PATH | libc::O_NOFOLLOW, 0) {
            Ok(there) => there,
            Err(e) if e.kind() == io::ErrorKind::NotFound && last => {
                return Ok(DirEntry { directory: at, name, there: None });
            }
            Err(e) => return Err(e),
        };
        let status = sys::status(there.as_fd())?;
        if status.is(libc::S_IFLNK) {
            links += 1;
            if links > LINKS_MAX {
                return Err(os(libc::ELOOP));
            }
            if !is_trusted(sys::status(at.as_fd())?, status, who) {
                let name = name.to_string_lossy();
                let what = format!("`{name}` is a symbolic link that another user may have made");
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, what));
            }
            let target = sys::link_target(there.as_fd())?;
            for component in components(Path::new(&target)).rev() {
                waiting.push_front(component);
            }
        } else if status.is(libc::S_IFDIR) {
            at = there;
        } else if last {
            return Ok(DirEntry { directory: at, name, there: Some((there, status)) });
        } else {
            return Err(os(libc::ENOTDIR));
        }
    }
    Err(os(libc::EISDIR))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbolic_links_are_followed_only_in_directories_that_others_cannot_write() {
        let status = |mode, uid, gid| Status { mode, uid, gid };
        // Directory: mode, user, group; the link's user; the caller; whether it is followed.
        for ((mode, uid, gid), link, caller, followed) in [
            ((0o755, 0, 0), 0, (0, 0), true),
            ((0o755, 0, 0), 7, (0, 0), false),
            ((0o755, 7, 7), 0, (0, 0), false),
            ((0o755, 7, 7), 7, (0, 0), false),
            ((0o777, 0, 0), 0, (0, 0), false),
            ((0o1777, 0, 0), 0, (0, 0), true),
            ((0o1777, 0, 0), 7, (0, 0), false),
            ((0o775, 0, 0), 0, (0, 0), true),
            ((0o775, 0, 7), 0, (0, 0), false),
            ((0o755, 0, 0), 0, (7, 7), true),
            ((0o755, 7, 7), 7, (7, 7), true),
            ((0o775, 7, 7), 7, (7, 7), true),
            ((0o755, 8, 8), 7, (7, 7), false),
            ((0o1777, 0, 0), 8, (7, 7), false),
        ] {
            let directory = status(libc::S_IFDIR | mode, uid, gid);
            let answer = is_trusted(directory, status(libc::S_IFLNK | 0o777, link, 0), caller);
            assert_eq!(
                answer, followed,
                "{mode:o} of {uid}:{gid}, link of {link}, caller {caller:?}"
            );
        }
    }
}
