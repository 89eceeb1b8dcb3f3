// SPDX-License-Identifier: Apache-2.0

//! A thread that waits in a system call: its memory and its descriptors.
//!
//! Nothing that a thread says is trusted: addresses and lengths are read as the kernel would read
//! them, with errors where it has errors. Each function here may wait for the thread's own file
//! systems (a page of a FUSE file, userfaultfd), so none is called with a lock held.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::{Arc, OnceLock};

use crate::notify::{Call, Gone, Listener};
use crate::rights;
use crate::sys::{Errno, check, owned};

/// Most parts of a message (`UIO_MAXIOV`).
pub(crate) const MOST_PARTS: u64 = 1024;
/// `PIDFD_THREAD` (`linux/pidfd.h`, Linux 6.9).
const PIDFD_THREAD: i32 = libc::O_EXCL;

/// A part of a buffer in the thread's memory: address and length.
pub(crate) type Part = (u64, u64);

/// What stays as it is while a thread lives.
#[derive(Clone)]
pub(crate) struct Known {
    /// `/proc/TID`: names below it are those of this thread, however often its number is used. They
    /// are not there any more after it has ended.
    folder: Arc<OwnedFd>,
    /// `pidfd_open(2)`.
    process: Arc<OnceLock<OwnedFd>>,
}

/// How a program uses its sockets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Habits {
    /// It decides on packets, by libnetfilter_queue: it sends a verdict for each, and waits for no
    /// answer. A program that has libnftables as well reads answers right after it has sent.
    pub decides: bool,
    /// It understands datagrams with several messages, which the kernel sends for dumps and for
    /// logged packets alone: by libnetfilter_queue, libnetfilter_conntrack or libnetfilter_log.
    pub reads_several: bool,
}

/// A thread that waits in a system call.
pub(crate) struct Task {
    known: Known,
    thread: u32,
    memory: Option<File>,
}

impl Task {
    /// The caller of a call, if it is a thread that is known; otherwise all that is asked of it
    /// fails.
    pub(crate) fn of(known: Known, call: &Call) -> Self {
        Task { known, thread: call.thread, memory: None }
    }

    /// What can be used for later calls of the thread.
    pub(crate) fn known(&self) -> Known {
        self.known.clone()
    }

    /// The caller of a call.
    ///
    /// # Errors
    /// The call has ended.
    pub(crate) fn new(proc: &impl AsRawFd, listener: &Listener, call: &Call) -> Result<Self, Gone> {
        let name = CString::new(call.thread.to_string()).map_err(|_| Gone)?;
        // SAFETY: a string with its end.
        let folder = owned(unsafe {
            let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC;
            libc::openat(proc.as_raw_fd(), name.as_ptr(), flags)
        } as _)
        .map_err(|_| Gone)?;
        // Only now it is certain that the folder is the caller's.
        if !listener.is_waiting(call) {
            return Err(Gone);
        }
        let known = Known { folder: Arc::new(folder), process: Arc::default() };
        Ok(Task::of(known, call))
    }

    fn open(&self, name: &str, flags: i32) -> io::Result<File> {
        let name = CString::new(name)?;
        // SAFETY: a string with its end.
        let fd = unsafe {
            libc::openat(self.known.folder.as_raw_fd(), name.as_ptr(), flags | libc::O_CLOEXEC)
        };
        owned(fd.into()).map(File::from)
    }

    /// The text that a symbolic link below the folder stands for.
    fn link(&self, name: &str) -> Option<String> {
        let name = CString::new(name).ok()?;
        let mut text = [0u8; 64];
        // SAFETY: a string with its end; room for as many bytes as is said.
        let len = unsafe {
            libc::readlinkat(
                self.known.folder.as_raw_fd(),
                name.as_ptr(),
                text.as_mut_ptr().cast(),
                text.len(),
            )
        };
        let len = usize::try_from(len).ok()?;
        Some(String::from_utf8_lossy(text.get(..len)?).into_owned())
    }

    /// The inode of the socket that a descriptor is, `None` for anything else. Unlike `stat(2)`
    /// this does not ask the file's file system.
    pub(crate) fn socket_inode(&self, fd: i32) -> Option<u64> {
        self.link(&format!("fd/{fd}"))?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    }

    /// Whether a number is free for a descriptor.
    pub(crate) fn is_free(&self, fd: u32) -> bool {
        self.link(&format!("fd/{fd}")).is_none()
    }

    /// The name of the thread's network namespace, `net:[INODE]`.
    pub(crate) fn network_namespace(&self) -> Option<String> {
        self.link("ns/net")
    }

    /// The thread's network namespace.
    pub(crate) fn open_network_namespace(&self) -> io::Result<OwnedFd> {
        self.open("ns/net", libc::O_RDONLY).map(OwnedFd::from)
    }

    /// The thread's name (`/proc/PID/comm`), without the newline.
    pub(crate) fn name(&self) -> String {
        let mut name = [0u8; 64];
        let read = self.open("comm", libc::O_RDONLY).and_then(|mut file| file.read(&mut name));
        let name = name.get(..read.unwrap_or(0)).unwrap_or_default();
        String::from_utf8_lossy(name.strip_suffix(b"\n").unwrap_or(name)).into_owned()
    }

    /// A line of `/proc/TID/status`.
    fn status(&self, key: &str) -> Option<String> {
        let mut text = String::new();
        self.open("status", libc::O_RDONLY).ok()?.read_to_string(&mut text).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
        Some(line.trim().to_owned())
    }

    /// How the thread's program uses its sockets, as the libraries say that it has.
    pub(crate) fn habits(&self) -> Habits {
        /// Bytes of a list of mappings that are looked at.
        const MOST: u64 = 1 << 20;
        let mut maps = String::new();
        let file = self.open("maps", libc::O_RDONLY);
        let read = file.and_then(|file| file.take(MOST).read_to_string(&mut maps));
        let has = |library| read.is_ok() && maps.contains(library);
        let decides = has("/libnetfilter_queue.so") && !has("/libnftables.so");
        let others = has("/libnetfilter_conntrack.so") || has("/libnetfilter_log.so");
        Habits { decides, reads_several: decides || others }
    }

    /// The thread's process, as the process itself sees its number.
    pub(crate) fn own_process_id(&self) -> Option<u32> {
        self.status("NStgid")?.split_whitespace().next_back()?.parse().ok()
    }

    /// Whether the thread may administer a network namespace: it has `CAP_NET_ADMIN` in one of the
    /// user namespaces that own it (capabilities(7), `ns_capable()`). If the supervisor itself has
    /// not, its user may.
    pub(crate) fn may_administer(&self, listener: &Listener, call: &Call, owners: &[u64]) -> bool {
        let own = || self.link("ns/user")?.strip_prefix("user:[")?.strip_suffix(']')?.parse().ok();
        if rights::administers(self.thread) && own().is_some_and(|own| owners.contains(&own)) {
            // Only now it is certain that the capabilities are the caller's.
            return listener.is_waiting(call);
        }
        if rights::administers(0) {
            return false;
        }
        // Real, effective, saved, of the file system.
        let user = self.status("Uid");
        let user = user.and_then(|ids| ids.split_whitespace().nth(1)?.parse::<u32>().ok());
        // SAFETY: no pointers.
        user == Some(unsafe { libc::geteuid() })
    }

    /// A copy of a descriptor of the thread. To be dropped soon: it hides that the program has
    /// closed its own.
    ///
    /// # Errors
    /// `EBADF`: there is none. `EPERM`: the supervisor may not look into the process.
    pub(crate) fn borrow(
        &self,
        listener: &Listener,
        call: &Call,
        fd: i32,
    ) -> Result<OwnedFd, Errno> {
        let open = |process: u32, flags: i32| {
            // SAFETY: no pointers.
            owned(unsafe { libc::syscall(libc::SYS_pidfd_open, process, flags) })
        };
        let opened = || {
            let process = open(self.thread, PIDFD_THREAD).or_else(|_| {
                let process = self.status("Tgid").and_then(|id| id.parse().ok());
                open(process.ok_or(io::ErrorKind::NotFound)?, 0)
            });
            process.ok().filter(|_| listener.is_waiting(call)).ok_or(libc::EBADF)
        };
        let process = match self.known.process.get() {
            Some(process) => process,
            None => {
                let process = opened()?;
                self.known.process.get_or_init(|| process)
            }
        };
        // SAFETY: no pointers.
        owned(unsafe { libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), fd, 0) })
            .map_err(|e| crate::sys::errno(&e))
    }

    fn memory(&mut self) -> Result<&File, Errno> {
        if self.memory.is_none() {
            let memory = self.open("mem", libc::O_RDWR).map_err(|e| match e.raw_os_error() {
                Some(libc::EACCES | libc::EPERM) => libc::EPERM,
                _ => libc::EFAULT,
            })?;
            self.memory = Some(memory);
        }
        self.memory.as_ref().ok_or(libc::EFAULT)
    }

    /// Fills a buffer from the thread's memory. `EFAULT` as the kernel has it.
    pub(crate) fn read(&mut self, address: u64, to: &mut [u8]) -> Result<(), Errno> {
        if to.is_empty() {
            return Ok(());
        }
        self.memory()?.read_exact_at(to, untagged(address)).map_err(|_| libc::EFAULT)
    }

    /// Writes into the thread's memory.
    pub(crate) fn write(&mut self, address: u64, from: &[u8]) -> Result<(), Errno> {
        if from.is_empty() {
            return Ok(());
        }
        self.memory()?.write_all_at(from, untagged(address)).map_err(|_| libc::EFAULT)
    }

    /// A structure of integers.
    pub(crate) fn read_value<T: Plain>(&mut self, address: u64) -> Result<T, Errno> {
        let mut value = MaybeUninit::<T>::zeroed();
        // SAFETY: the bytes of the value, which are all initialised.
        let bytes = unsafe {
            std::slice::from_raw_parts_mut(value.as_mut_ptr().cast::<u8>(), size_of::<T>())
        };
        self.read(address, bytes)?;
        // SAFETY: any bytes are a value of such a type.
        Ok(unsafe { value.assume_init() })
    }

    /// Writes a structure of integers.
    pub(crate) fn write_value<T: Plain>(&mut self, address: u64, value: &T) -> Result<(), Errno> {
        // SAFETY: the bytes of the value, which has no padding.
        let bytes = unsafe {
            std::slice::from_raw_parts(std::ptr::from_ref(value).cast::<u8>(), size_of::<T>())
        };
        self.write(address, bytes)
    }

    /// The parts of a vector (`struct iovec`), and their length together.
    ///
    /// # Errors
    /// `EMSGSIZE`: more parts than the kernel takes. `EINVAL`: they are too long.
    pub(crate) fn parts(&mut self, address: u64, count: u64) -> Result<(Vec<Part>, u64), Errno> {
        if count > MOST_PARTS {
            return Err(libc::EMSGSIZE);
        }
        let mut bytes = vec![0; count as usize * 16];
        self.read(address, &mut bytes)?;
        let word = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().unwrap_or_default());
        let parts: Vec<Part> =
            bytes.chunks_exact(16).map(|part| (word(&part[..8]), word(&part[8..]))).collect();
        let mut sum = 0u64;
        for (_, len) in &parts {
            sum =
                sum.checked_add(*len).filter(|sum| *sum <= i64::MAX as u64).ok_or(libc::EINVAL)?;
        }
        Ok((parts, sum))
    }

    /// Reads a vector's parts one after the other.
    ///
    /// # Errors
    /// `EMSGSIZE`: longer than `most` bytes.
    pub(crate) fn gather(
        &mut self,
        parts: &[Part],
        len: u64,
        most: usize,
    ) -> Result<Vec<u8>, Errno> {
        let len = usize::try_from(len).ok().filter(|len| *len <= most).ok_or(libc::EMSGSIZE)?;
        let mut bytes = vec![0; len];
        let mut rest = &mut bytes[..];
        for (address, len) in parts {
            let (now, after) = rest.split_at_mut((*len as usize).min(rest.len()));
            self.read(*address, now)?;
            rest = after;
        }
        Ok(bytes)
    }

    /// Writes as much as the parts of a vector have room for.
    pub(crate) fn scatter(&mut self, parts: &[Part], mut bytes: &[u8]) -> Result<(), Errno> {
        for (address, len) in parts {
            let (now, after) =
                bytes.split_at(usize::try_from(*len).unwrap_or(usize::MAX).min(bytes.len()));
            self.write(*address, now)?;
            bytes = after;
        }
        Ok(())
    }
}

/// Types that any bytes are a value of, and that have no padding.
///
/// # Safety
/// As the first sentence says.
pub(crate) unsafe trait Plain: Copy {}
// SAFETY: integers.
unsafe impl Plain for i32 {}
// SAFETY: integers.
unsafe impl Plain for u32 {}
// SAFETY: integers.
unsafe impl Plain for u64 {}

/// An address without the tag that AArch64 ignores.
fn untagged(address: u64) -> u64 {
    if cfg!(target_arch = "aarch64") { address & ((1 << 56) - 1) } else { address }
}

/// A duplicate of `/proc` that no mount hides later.
pub(crate) fn open_proc() -> io::Result<OwnedFd> {
    // SAFETY: a string with its end.
    let fd = check(
        unsafe {
            libc::open(c"/proc".as_ptr(), libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC)
        }
        .into(),
    )?;
    // SAFETY: the call above made it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}
