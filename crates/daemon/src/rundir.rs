// SPDX-License-Identifier: Apache-2.0

//! The run directory: lock, sockets and record of the dataplane of each network namespace.
//!
//! | directory | mode | has |
//! | --- | --- | --- |
//! | `/run/penstock` | 0700 | `COOKIE.lock`, `COOKIE.sock`, `COOKIE.ports`, `COOKIE.pins` |
//! | `/run/penstock-read` | 0755 | `COOKIE.sock`, for those who may only look (`--allow-read`) |
//!
//! Where `/run` cannot be written, as for a user in its own namespace, both are in
//! `$XDG_RUNTIME_DIR`. Only the owner enters the first, so nobody else can hold the lock, take the
//! place of a socket, or read what is recorded. Files are named by the cookie of the network
//! namespace, which no other one gets as long as the machine runs: numbers of inodes are given
//! again.
//!
//! A directory is opened once, without following a symbolic link, and looked at through its
//! descriptor. All files are reached by way of that descriptor (`/proc/self/fd`), so they are in
//! the directory that was looked at, whatever becomes of its name.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::log;

/// Where the run directories of root are.
const RUN: &str = "/run";
/// The directory that only its owner enters.
const PRIVATE: &str = "penstock";
/// The directory that everybody enters.
const PUBLIC: &str = "penstock-read";
/// Larger files are not ours.
const LONGEST: u64 = 64 << 20;

/// A directory of files that only its owner writes.
#[derive(Debug)]
pub(crate) struct RunDir {
    path: PathBuf,
    directory: File,
}

/// Who may enter a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Its owner.
    Owner,
    /// Everybody; only its owner writes.
    All,
}

impl Access {
    fn name(self) -> &'static str {
        match self {
            Access::Owner => PRIVATE,
            Access::All => PUBLIC,
        }
    }

    fn mode(self) -> u32 {
        match self {
            Access::Owner => 0o700,
            Access::All => 0o755,
        }
    }
}

/// The user that this process acts as.
pub(crate) fn user() -> u32 {
    // SAFETY: no pointers, and it cannot fail.
    unsafe { libc::geteuid() }
}

/// `SO_NETNS_COOKIE` of the network namespace (Linux 5.14).
pub(crate) fn cookie() -> io::Result<u64> {
    // Queried once: restricted system calls allow no new sockets of that kind.
    static COOKIE: OnceLock<u64> = OnceLock::new();
    if let Some(cookie) = COOKIE.get() {
        return Ok(*cookie);
    }
    let cookie = cookie_of_thread()?;
    Ok(*COOKIE.get_or_init(|| cookie))
}

/// The cookie of the calling thread's network namespace.
fn cookie_of_thread() -> io::Result<u64> {
    const SO_NETNS_COOKIE: libc::c_int = 71;
    let socket = UnixDatagram::unbound()?;
    let (mut cookie, mut len) = (0u64, size_of::<u64>() as libc::socklen_t);
    // SAFETY: both live through the call, and the cookie is `len` bytes long.
    let result = unsafe {
        let to = (&raw mut cookie).cast();
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, SO_NETNS_COOKIE, to, &raw mut len)
    };
    if result == 0 { Ok(cookie) } else { Err(io::Error::last_os_error()) }
}

/// The cookie of another network namespace. It takes `CAP_SYS_ADMIN` there (setns(2)).
fn cookie_of(namespace: BorrowedFd<'_>) -> io::Result<u64> {
    std::thread::scope(|scope| {
        let found = std::thread::Builder::new().spawn_scoped(scope, || {
            // SAFETY: no pointers. This thread alone changes its namespace, and ends after it.
            match unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) } {
                0 => cookie_of_thread(),
                _ => Err(io::Error::last_os_error()),
            }
        })?;
        found.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
    })
}

/// The name of a file of this network namespace.
pub(crate) fn name(extension: &str) -> io::Result<String> {
    Ok(format!("{}.{extension}", cookie()?))
}

/// The name of a file of another network namespace.
///
/// # Errors
/// Those of setns(2).
pub(crate) fn name_in(namespace: BorrowedFd<'_>, extension: &str) -> io::Result<String> {
    Ok(format!("{}.{extension}", cookie_of(namespace)?))
}

/// Opens a directory as it is, without following a symbolic link in its place.
fn open_directory(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW).open(path)
}

/// Whether others than root and the user of this process cannot write a directory.
fn is_ours(found: &Metadata) -> bool {
    (found.uid() == 0 || found.uid() == user()) && found.mode() & 0o022 == 0
}

/// The directories that run directories are in: that of root first, then the user's own.
fn parents() -> Vec<PathBuf> {
    let own = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    // What others may write in could be taken away and replaced.
    let own =
        own.filter(|own| own.is_absolute() && fs::metadata(own).is_ok_and(|found| is_ours(&found)));
    [PathBuf::from(RUN)].into_iter().chain(own).collect()
}

/// The directories where a dataplane may be listening, for a client: owned by root or by the own
/// user, and not writable by others.
pub(crate) fn places(access: Access) -> impl Iterator<Item = PathBuf> {
    let all = parents().into_iter().map(move |parent| parent.join(access.name()));
    all.filter(|path| {
        fs::symlink_metadata(path).is_ok_and(|found| found.is_dir() && is_ours(&found))
    })
}

impl RunDir {
    /// The private one, created if needed. It stays the same for the life of the process and its
    /// forks.
    ///
    /// # Errors
    /// A sentence: there is no place for it, or it belongs to another user.
    pub(crate) fn get() -> Result<&'static RunDir, String> {
        static OPENED: OnceLock<RunDir> = OnceLock::new();
        if let Some(opened) = OPENED.get() {
            return Ok(opened);
        }
        let opened = Self::make(Access::Owner)?;
        Ok(OPENED.get_or_init(|| opened))
    }

    /// The directory, made if need be.
    ///
    /// # Errors
    /// As for [`RunDir::get`].
    pub(crate) fn make(access: Access) -> Result<RunDir, String> {
        let mut refused = String::new();
        for parent in parents() {
            let path = parent.join(access.name());
            match Self::make_at(&path, access) {
                Ok(made) => return Ok(made),
                // The next place may do.
                Err(e) if is_refusal(&e) => {
                    refused = format!("{}: {e}", path.display());
                }
                Err(e) => return Err(format!("{}: {e}", path.display())),
            }
        }
        Err(format!("{refused}; without root, XDG_RUNTIME_DIR has to name a directory of your own"))
    }

    fn make_at(path: &Path, access: Access) -> io::Result<RunDir> {
        match DirBuilder::new().mode(access.mode()).create(path) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
            _ => {}
        }
        let directory = open_directory(path)?;
        let found = directory.metadata()?;
        if found.uid() != user() {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                format!("this directory is user {}'s, not the own one", found.uid()),
            ));
        }
        if found.mode() & 0o7777 != access.mode() {
            log(format_args!(
                "{}: its mode was {:04o}, and is {:04o} now",
                path.display(),
                found.mode() & 0o7777,
                access.mode()
            ));
            directory.set_permissions(Permissions::from_mode(access.mode()))?;
        }
        Ok(RunDir { path: path.to_owned(), directory })
    }

    /// The path of a file by which others find it.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The path of a file by which this process reaches it.
    fn inside(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}/{name}", self.directory.as_raw_fd()))
    }

    /// Opens a file that only the owner can have a descriptor of: one that others could have opened
    /// is replaced.
    pub(crate) fn open_private(&self, name: &str) -> io::Result<File> {
        let path = self.inside(name);
        let mut how = File::options();
        how.create(true).truncate(false).write(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
        let file = how.open(&path)?;
        let found = file.metadata()?;
        if found.is_file() && found.uid() == user() && found.mode() & 0o177 == 0 {
            return Ok(file);
        }
        fs::remove_file(&path)?;
        how.create_new(true).open(&path)
    }

    /// What a file is, if it is there.
    pub(crate) fn metadata(&self, name: &str) -> io::Result<Metadata> {
        fs::symlink_metadata(self.inside(name))
    }

    /// Reads a regular file.
    pub(crate) fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
        let file = File::options().read(true).custom_flags(flags).open(self.inside(name))?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "not a regular file"));
        }
        let mut bytes = Vec::new();
        file.take(LONGEST).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Puts bytes in the place of a file, all or nothing.
    pub(crate) fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let (path, beside) = (self.inside(name), self.inside(&format!("{name}.new")));
        // One that a killed process has left.
        let _ = fs::remove_file(&beside);
        let write = || {
            let mut how = File::options();
            let mut file = how.write(true).create_new(true).mode(0o600).open(&beside)?;
            file.write_all(bytes)?;
            fs::rename(&beside, &path)
        };
        write().inspect_err(|_| drop(fs::remove_file(&beside)))
    }

    /// Gives a file that mode.
    pub(crate) fn set_mode(&self, name: &str, mode: u32) -> io::Result<()> {
        fs::set_permissions(self.inside(name), Permissions::from_mode(mode))
    }

    /// Removes a file, if it is there.
    pub(crate) fn remove(&self, name: &str) {
        let _ = fs::remove_file(self.inside(name));
    }
}

/// Whether a directory cannot be made here, though it may be elsewhere.
fn is_refusal(e: &io::Error) -> bool {
    matches!(
        e.kind(),
        io::ErrorKind::PermissionDenied
            | io::ErrorKind::NotFound
            | io::ErrorKind::ReadOnlyFilesystem
    )
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn scratch(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("rundir-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a directory");
        path
    }

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).expect("it is there").mode() & 0o7777
    }

    #[test]
    fn an_existing_run_directory_gets_the_requested_mode() {
        let root = scratch("owner");
        let path = root.join("penstock");
        for access in [Access::Owner, Access::All] {
            RunDir::make_at(&path, access).expect("made");
            assert_eq!(mode(&path), access.mode());
        }
        fs::set_permissions(&path, Permissions::from_mode(0o1777)).expect("a mode");
        let made = RunDir::make_at(&path, Access::Owner).expect("it is ours");
        assert_eq!(mode(&path), 0o700);
        // It stays the directory that it was when another gets its name.
        fs::rename(&path, root.join("moved")).expect("moved");
        fs::create_dir(&path).expect("another");
        made.replace("file", b"text").expect("written");
        assert_eq!(mode(&root.join("moved/file")), 0o600);
        assert_eq!(made.read("file").expect("read"), b"text");
        fs::remove_dir_all(root).expect("removed");
    }

    #[test]
    fn symbolic_links_and_non_files_are_refused() {
        let root = scratch("links");
        let (path, victim) = (root.join("penstock"), root.join("victim"));
        symlink(&root, &path).expect("a link");
        assert!(RunDir::make_at(&path, Access::Owner).is_err());
        fs::remove_file(&path).expect("removed");
        fs::write(&path, "no directory").expect("a file");
        assert!(RunDir::make_at(&path, Access::Owner).is_err());
        fs::remove_file(&path).expect("removed");
        let made = RunDir::make_at(&path, Access::Owner).expect("made");
        fs::write(&victim, "as it was").expect("a file");
        for name in ["file", "file.new"] {
            symlink(&victim, path.join(name)).expect("a link");
        }
        assert!(made.read("file").is_err() && made.open_private("file").is_err());
        made.replace("file", b"text").expect("the links are replaced");
        assert_eq!(made.read("file").expect("read"), b"text");
        assert_eq!(fs::read(&victim).expect("read"), b"as it was");
        fs::create_dir(path.join("directory")).expect("a directory");
        assert!(made.read("directory").is_err() && made.open_private("directory").is_err());
        fs::remove_dir_all(root).expect("removed");
    }

    #[test]
    fn a_file_that_others_could_open_is_replaced() {
        let root = scratch("private");
        let made = RunDir::make_at(&root, Access::Owner).expect("made");
        let inode = |file: &File| file.metadata().expect("a file").ino();
        let first = made.open_private("lock").expect("made");
        assert_eq!(inode(&first), inode(&made.open_private("lock").expect("opened")));
        made.set_mode("lock", 0o644).expect("a mode");
        let second = made.open_private("lock").expect("made anew");
        assert_ne!(inode(&first), inode(&second));
        assert_eq!(mode(&root.join("lock")), 0o600);
        fs::remove_dir_all(root).expect("removed");
    }
}
