// SPDX-License-Identifier: Apache-2.0

//! The system calls that devices need, with errors as [`io::Error`].

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;

/// What a call gave, or its error.
pub(crate) fn check(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// A socket that is closed on exec and does not block.
pub(crate) fn socket(domain: i32, kind: i32, protocol: i32) -> io::Result<OwnedFd> {
    let kind = kind | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: no pointers.
    let fd = check(unsafe { libc::socket(domain, kind, protocol) }.into())?;
    // SAFETY: a new descriptor without another owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

/// Sets an option of a socket to a value that has no padding and no pointers the kernel would keep.
pub(crate) fn set<T: Copy>(fd: &OwnedFd, level: i32, name: i32, value: &T) -> io::Result<()> {
    let len = size_of::<T>() as libc::socklen_t;
    check(
        // SAFETY: `value` is `len` bytes long and lives through the call.
        unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, (&raw const *value).cast(), len) }
            .into(),
    )?;
    Ok(())
}

/// An option of a socket that is a number.
pub(crate) fn get<T: Copy + Default>(fd: &OwnedFd, level: i32, name: i32) -> io::Result<T> {
    let (mut value, mut len) = (T::default(), size_of::<T>() as libc::socklen_t);
    let (to, fd) = ((&raw mut value).cast(), fd.as_raw_fd());
    // SAFETY: both live through the call, and `value` is `len` bytes long; its type is a number, so
    // all bits are valid.
    check(unsafe { libc::getsockopt(fd, level, name, to, &raw mut len) }.into())?;
    Ok(value)
}

/// Keeps everything from a socket, or no longer.
pub(crate) fn receive_nothing(fd: &OwnedFd, on: bool) -> io::Result<()> {
    if !on {
        return set(fd, libc::SOL_SOCKET, libc::SO_DETACH_FILTER, &0i32);
    }
    const RETURN: u16 = 0x06;
    let mut nothing = libc::sock_filter { code: RETURN, jt: 0, jf: 0, k: 0 };
    let program = libc::sock_fprog { len: 1, filter: &raw mut nothing };
    // The kernel copies the program.
    set(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

/// Binds a socket to an address of its family.
pub(crate) fn bind<T: Copy>(fd: &OwnedFd, address: &T) -> io::Result<()> {
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: `address` is `len` bytes long and lives through the call.
    check(unsafe { libc::bind(fd.as_raw_fd(), (&raw const *address).cast(), len) }.into())?;
    Ok(())
}

/// Bytes that a call reads.
pub(crate) fn part(bytes: &[u8]) -> libc::iovec {
    libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() }
}

/// The index of a device of the network namespace.
pub fn interface_index(name: &str) -> io::Result<u32> {
    let name = std::ffi::CString::new(name)?;
    // SAFETY: a string with its terminating zero, which lives through the call.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(io::Error::last_os_error()),
        index => Ok(index),
    }
}

/// Memory shared with the kernel. Unmapped when it is dropped.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the memory belongs to the owner of the mapping, on any thread.
unsafe impl Send for Mapping {}
// SAFETY: a shared mapping gives out its address only; who reads or writes there says why it may.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `len` bytes of a descriptor at `offset`.
    pub(crate) fn of(fd: &OwnedFd, len: usize, offset: i64) -> io::Result<Self> {
        Self::map(len, libc::MAP_SHARED | libc::MAP_POPULATE, fd.as_raw_fd(), offset)
    }

    /// Anonymous memory, whole pages, zeroed.
    pub(crate) fn anonymous(len: usize) -> io::Result<Self> {
        Self::map(len, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE, -1, 0)
    }

    /// Anonymous memory, whole pages, zeroed. Pages become memory when they are used.
    pub(crate) fn reserved(len: usize) -> io::Result<Self> {
        Self::map(len, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE, -1, 0)
    }

    fn map(len: usize, flags: i32, fd: RawFd, offset: i64) -> io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses touches no memory that is in
        // use.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), len, protection, flags, fd, offset) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        match NonNull::new(start.cast()) {
            Some(start) => Ok(Mapping { start, len }),
            None => Err(io::ErrorKind::OutOfMemory.into()),
        }
    }

    /// Where it begins.
    pub(crate) fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Its length in bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this is what was mapped, and nothing borrowed from it outlives it.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// Takes the error that a socket has to tell.
pub(crate) fn take_error(fd: BorrowedFd<'_>) {
    let (mut error, mut len) = (0i32, size_of::<i32>() as libc::socklen_t);
    let (to, fd) = ((&raw mut error).cast(), fd.as_raw_fd());
    // SAFETY: both live through the call, and `error` is `len` bytes long.
    unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_ERROR, to, &raw mut len) };
}

/// Waits until one of the descriptors can be read, at most so many milliseconds. `ready` is set for
/// those that can. Returns how many; an interruption counts as none.
pub fn wait(fds: &[BorrowedFd<'_>], ready: &mut Vec<bool>, milliseconds: i32) -> io::Result<usize> {
    let mut polled: Vec<libc::pollfd> = fds
        .iter()
        .map(|fd| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 })
        .collect();
    // SAFETY: an array of that many entries which lives through the call.
    let result =
        unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, milliseconds) };
    ready.clear();
    ready.extend(polled.iter().map(|p| p.revents != 0));
    match check(result.into()) {
        Ok(n) => Ok(n as usize),
        Err(e) if e.kind() == io::ErrorKind::Interrupted => {
            ready.iter_mut().for_each(|r| *r = false);
            Ok(0)
        }
        Err(e) => Err(e),
    }
}
