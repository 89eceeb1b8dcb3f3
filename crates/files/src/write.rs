// SPDX-License-Identifier: Apache-2.0

//! Writing.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};

use crate::dir_entry::{DirEntry, dir_entry};
use crate::sys;

/// Who may read what is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Only the caller: mode 0600.
    Owner,
    /// Whom the caller's umask(2) lets: mode 0666 without it.
    Umask,
}

impl Access {
    fn mode(self) -> libc::mode_t {
        match self {
            Access::Owner => 0o600,
            Access::Umask => 0o666,
        }
    }
}

/// Puts bytes in the place of a file, all or nothing, and on the disk.
///
/// # Errors
///
/// Those of open(2), write(2), fsync(2) and rename(2); `PermissionDenied` for a symbolic link that
/// others can have made; `InvalidInput` if something stands there that is no regular file. What was
/// there is as it was then.
pub fn replace(path: &Path, bytes: &[u8], access: Access) -> io::Result<()> {
    replace_opened(path, bytes, access).map(drop)
}

/// Does what [`replace`] does, and gives the file that has the path's name now.
///
/// # Errors
///
/// As of [`replace`].
pub fn replace_opened(path: &Path, bytes: &[u8], access: Access) -> io::Result<File> {
    let place = regular(path)?;
    let directory = place.directory.as_fd();
    let (mut file, name) = unnamed(directory, &place.name, access)?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    put(&file, name, &place, written)?;
    // The new name is to last, too.
    let directory =
        sys::open(Some(directory), OsStr::new("."), libc::O_RDONLY | libc::O_DIRECTORY, 0)?;
    File::from(directory).sync_all()?;
    Ok(file)
}

/// Tries whether [`replace`] would do, a full disk included, and leaves everything as it is.
///
/// # Errors
///
/// As of [`replace`].
pub fn can_replace(path: &Path) -> io::Result<()> {
    /// A full disk shows only when something is written.
    const SOME: [u8; 4096] = [0; 4096];
    let place = regular(path)?;
    let directory = place.directory.as_fd();
    let (mut file, name) = unnamed(directory, &place.name, Access::Owner)?;
    let written = file.write_all(&SOME).and_then(|()| file.sync_all());
    match name {
        Some(name) => written.and(sys::unlink(directory, &name)),
        None => written,
    }
}

/// Replaces the target by an empty file to be written step by step. An existing target that is no
/// regular file (a terminal, `/dev/null`, a pipe) is opened as it is, if it belongs to root or the
/// caller.
///
/// # Errors
///
/// Those of open(2) and rename(2); `PermissionDenied` for a symbolic link or a pipe that others may
/// have made.
pub fn create(path: &Path, access: Access) -> io::Result<File> {
    if is_own_descriptor(path) {
        return File::options().write(true).open(path);
    }
    let place = dir_entry(path)?;
    if let Some((there, status)) = &place.there
        && !status.is(libc::S_IFREG)
    {
        if ![0, sys::who().0].contains(&status.uid) {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "owned by another user, and no regular file",
            ));
        }
        let name = format!("/proc/self/fd/{}", there.as_raw_fd());
        return Ok(sys::open(None, name.as_ref(), libc::O_WRONLY | libc::O_NOCTTY, 0)?.into());
    }
    let (file, name) = named(place.directory.as_fd(), &place.name, access)?;
    put(&file, Some(name), &place, Ok(()))?;
    Ok(file)
}

/// Opens a regular file to be written to at its end; makes one where nothing is.
///
/// # Errors
///
/// Those of open(2); `PermissionDenied` for a symbolic link that others can have made, or a file of
/// another user; `InvalidInput` if something stands there that is no regular file.
pub fn append(path: &Path, access: Access) -> io::Result<File> {
    let place = regular(path)?;
    if let Some((_, status)) = &place.there
        && ![0, sys::who().0].contains(&status.uid)
    {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "owned by another user"));
    }
    let flags = libc::O_WRONLY | libc::O_APPEND | libc::O_CREAT | libc::O_NOFOLLOW;
    let file = sys::open(Some(place.directory.as_fd()), &place.name, flags, access.mode())?;
    Ok(file.into())
}

/// Gives a file beside another, which has its name and an end, another end.
///
/// # Errors
///
/// Those of rename(2), and `PermissionDenied` for a symbolic link that others can have made.
pub fn rename_end(path: &Path, from: &str, to: &str) -> io::Result<()> {
    let place = dir_entry(path)?;
    let with = |end: &str| {
        let mut name = place.name.clone();
        name.push(end);
        name
    };
    sys::rename(place.directory.as_fd(), &with(from), &with(to))
}

/// Makes a file with these bytes, unless there is something by this name.
///
/// # Errors
///
/// As of [`replace`], and `AlreadyExists`.
pub fn create_new(path: &Path, bytes: &[u8], access: Access) -> io::Result<()> {
    let place = dir_entry(path)?;
    let directory = place.directory.as_fd();
    let (mut file, name) = unnamed(directory, &place.name, access)?;
    let linked = file
        .write_all(bytes)
        .and_then(|()| file.sync_all())
        .and_then(|()| sys::link(&file, directory, &place.name));
    match name {
        Some(name) => linked.and(sys::unlink(directory, &name)),
        None => linked,
    }
}

/// Gives a file another name: its own with an end such as `.broken`. What had that name is gone
/// then. Tells the new name.
///
/// # Errors
///
/// Those of rename(2), and `PermissionDenied` for a symbolic link that others can have made.
pub fn set_aside(path: &Path, end: &str) -> io::Result<PathBuf> {
    let place = dir_entry(path)?;
    let mut name = place.name.clone();
    name.push(end);
    sys::rename(place.directory.as_fd(), &place.name, &name)?;
    let mut aside = path.as_os_str().to_owned();
    aside.push(end);
    Ok(aside.into())
}

/// A place where a regular file is, or nothing.
fn regular(path: &Path) -> io::Result<DirEntry> {
    let place = dir_entry(path)?;
    match &place.there {
        Some((_, status)) if !status.is(libc::S_IFREG) => {
            Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"))
        }
        _ => Ok(place),
    }
}

/// Whether the path is one by which a process names what it has open itself.
fn is_own_descriptor(path: &Path) -> bool {
    ["/dev/stdout", "/dev/stderr"].iter().any(|name| path == Path::new(name))
        || ["/dev/fd/", "/proc/self/fd/"].iter().any(|start| {
            let number = path.to_str().and_then(|path| path.strip_prefix(start));
            number.is_some_and(|n| n.parse::<u32>().is_ok())
        })
}

/// An empty file without a name, which is gone with the process, or with a random name where the
/// file system has none such.
fn unnamed(
    directory: BorrowedFd<'_>,
    beside: &OsStr,
    access: Access,
) -> io::Result<(File, Option<OsString>)> {
    let flags = libc::O_WRONLY | libc::O_TMPFILE;
    match sys::open(Some(directory), OsStr::new("."), flags, access.mode()) {
        Ok(file) => Ok((file.into(), None)),
        Err(e)
            if matches!(e.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EISDIR | libc::ENOENT)) =>
        {
            named(directory, beside, access).map(|(file, name)| (file, Some(name)))
        }
        Err(e) => Err(e),
    }
}

/// An empty file with a random name.
fn named(
    directory: BorrowedFd<'_>,
    beside: &OsStr,
    access: Access,
) -> io::Result<(File, OsString)> {
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW;
    loop {
        let name = random_name(beside)?;
        match sys::open(Some(directory), &name, flags, access.mode()) {
            Ok(file) => return Ok((file.into(), name)),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(e),
        }
    }
}

/// Puts a file by a random name, or one that has none yet, in the place, if it was written; else
/// nothing is left of it.
fn put(
    file: &File,
    name: Option<OsString>,
    place: &DirEntry,
    written: io::Result<()>,
) -> io::Result<()> {
    let directory = place.directory.as_fd();
    let name = match (name, written) {
        (Some(name), Ok(())) => name,
        (Some(name), Err(e)) => {
            // Half of a file is of no use, and takes room where there is little.
            let _ = sys::unlink(directory, &name);
            return Err(e);
        }
        (None, written) => {
            written?;
            linked(file, directory, &place.name)?
        }
    };
    sys::rename(directory, &name, &place.name).inspect_err(|_| drop(sys::unlink(directory, &name)))
}

/// Gives a file without a name a random one.
fn linked(file: &File, directory: BorrowedFd<'_>, beside: &OsStr) -> io::Result<OsString> {
    loop {
        let name = random_name(beside)?;
        match sys::link(file, directory, &name) {
            Ok(()) => return Ok(name),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(e),
        }
    }
}

/// An unpredictable temporary name, derived from the target's.
fn random_name(beside: &OsStr) -> io::Result<OsString> {
    /// `NAME_MAX` without the dots and the number.
    const KEPT: usize = 255 - 18;
    let beside = beside.to_string_lossy();
    let kept =
        (0..=beside.len().min(KEPT)).rev().find(|&end| beside.is_char_boundary(end)).unwrap_or(0);
    Ok(format!(".{}.{:016x}", &beside[..kept], sys::random()?).into())
}
