// SPDX-License-Identifier: Apache-2.0

//! Notifications of system calls (seccomp_unotify(2)).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};

use libc::{c_ulong, seccomp_notif, seccomp_notif_addfd, seccomp_notif_resp};

use crate::sys::{Errno, check};

/// Bytes that are kept for structures of kernels that have longer ones.
const ROOM: usize = 512;

/// `SECCOMP_IOCTL_NOTIF_SET_FLAGS` (`linux/seccomp.h`, Linux 6.6).
const SET_FLAGS: c_ulong = 0x4008_2104;
/// `SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP`
const SYNC_WAKE_UP: c_ulong = 1;

/// A system call that waits for its answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    /// The kernel's number for the notification.
    pub id: u64,
    /// Thread id of the caller, 0 if it is in a pid namespace that is not below the supervisor's.
    pub thread: u32,
    /// Number of the system call.
    pub number: libc::c_long,
    /// Arguments, as in the registers.
    pub arguments: [u64; 6],
}

impl Call {
    /// An argument that the kernel reads as `int`.
    pub(crate) fn int(&self, argument: usize) -> i32 {
        self.arguments[argument] as i32
    }
}

/// What a call returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The value.
    Value(i64),
    /// The error.
    Error(Errno),
    /// What the kernel does with it.
    Continue,
}

/// The call has ended in the meantime, by a signal or with its thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gone;

/// The listener of a filter.
#[derive(Debug)]
pub(crate) struct Listener(OwnedFd);

impl AsRawFd for Listener {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl Listener {
    /// Takes the descriptor that seccomp(2) gave for the filter.
    ///
    /// # Errors
    /// The kernel is too old to insert descriptors and answer at once (Linux 5.14), or has longer
    /// structures than are expected.
    pub(crate) fn new(fd: OwnedFd) -> io::Result<Self> {
        let mut sizes =
            libc::seccomp_notif_sizes { seccomp_notif: 0, seccomp_notif_resp: 0, seccomp_data: 0 };
        // SAFETY: the structure lives through the call, which fills it.
        check(unsafe {
            libc::syscall(libc::SYS_seccomp, libc::SECCOMP_GET_NOTIF_SIZES, 0, &raw mut sizes)
        })?;
        if usize::from(sizes.seccomp_notif.max(sizes.seccomp_notif_resp)) > ROOM {
            return Err(io::Error::other("the kernel's seccomp notifications are too long"));
        }
        let listener = Listener(fd);
        let probe = seccomp_notif_addfd {
            id: u64::MAX,
            flags: libc::SECCOMP_ADDFD_FLAG_SEND as u32,
            srcfd: listener.as_raw_fd() as u32,
            newfd: 0,
            newfd_flags: 0,
        };
        // SAFETY: the structure lives through the call, which only reads it.
        match unsafe { listener.ioctl(libc::SECCOMP_IOCTL_NOTIF_ADDFD as c_ulong, &probe) } {
            Err(e) if e.raw_os_error() == Some(libc::ENOENT) => {}
            _ => return Err(io::Error::other("the kernel is older than Linux 5.14")),
        }
        // Either the program runs or the supervisor: they take turns on one processor. Kernels
        // before Linux 6.6 wake the other one on any.
        // SAFETY: a number, and no pointer.
        unsafe { libc::ioctl(listener.as_raw_fd(), SET_FLAGS as _, SYNC_WAKE_UP) };
        Ok(listener)
    }

    /// # Safety
    /// The structure is the one that the request reads and writes.
    unsafe fn ioctl<T>(&self, request: c_ulong, data: &T) -> io::Result<i64> {
        // SAFETY: as the caller says.
        check(
            unsafe { libc::ioctl(self.as_raw_fd(), request as _, std::ptr::from_ref(data)) }.into(),
        )
    }

    /// The next call, `None` if it has ended before it was read.
    pub(crate) fn receive(&self) -> io::Result<Option<Call>> {
        #[repr(C, align(8))]
        struct Room([u8; ROOM]);
        // The kernel refuses one that is not zero.
        let mut room = Room([0; ROOM]);
        let request = libc::SECCOMP_IOCTL_NOTIF_RECV as c_ulong;
        // SAFETY: the room is as long as the kernel's structure at least, and lives through the
        // call, which fills it.
        let result = unsafe { libc::ioctl(self.as_raw_fd(), request as _, &raw mut room) };
        if let Err(e) = check(result.into()) {
            return match e.raw_os_error() {
                Some(libc::ENOENT | libc::EINTR) => Ok(None),
                _ => Err(e),
            };
        }
        // SAFETY: the room begins with that structure, which has no padding and is integers only.
        let seen = unsafe { std::ptr::read((&raw const room).cast::<seccomp_notif>()) };
        Ok(Some(Call {
            id: seen.id,
            thread: seen.pid,
            number: seen.data.nr.into(),
            arguments: seen.data.args,
        }))
    }

    /// Whether the call still waits. What was read of the caller before is the caller's only if so.
    pub(crate) fn is_waiting(&self, call: &Call) -> bool {
        // SAFETY: the number lives through the call, which only reads it.
        unsafe { self.ioctl(libc::SECCOMP_IOCTL_NOTIF_ID_VALID as c_ulong, &call.id) }.is_ok()
    }

    /// Ends a call.
    pub(crate) fn answer(&self, call: &Call, outcome: Outcome) -> Result<(), Gone> {
        #[repr(C, align(8))]
        struct Room(seccomp_notif_resp, [u8; ROOM]);
        let (val, error, flags) = match outcome {
            Outcome::Value(value) => (value, 0, 0),
            Outcome::Error(errno) => (0, -errno, 0),
            Outcome::Continue => (0, 0, libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32),
        };
        let room = Room(seccomp_notif_resp { id: call.id, val, error, flags }, [0; ROOM]);
        // SAFETY: the room is as long as the kernel's structure at least, and lives through the
        // call, which only reads it.
        unsafe { self.ioctl(libc::SECCOMP_IOCTL_NOTIF_SEND as c_ulong, &room) }
            .map(|_| ())
            .map_err(|_| Gone)
    }

    /// Ends a call with a descriptor: a copy of `file` at a number in the caller. What the caller
    /// has at that number is closed.
    ///
    /// # Errors
    /// `ENOENT`: the call has ended. `EBADF`: the number is beyond the caller's `RLIMIT_NOFILE`.
    pub(crate) fn answer_with_descriptor(
        &self,
        call: &Call,
        file: BorrowedFd<'_>,
        number: u32,
        close_on_exec: bool,
    ) -> io::Result<()> {
        let insert = seccomp_notif_addfd {
            id: call.id,
            flags: (libc::SECCOMP_ADDFD_FLAG_SETFD | libc::SECCOMP_ADDFD_FLAG_SEND) as u32,
            srcfd: file.as_raw_fd() as u32,
            newfd: number,
            newfd_flags: if close_on_exec { libc::O_CLOEXEC as u32 } else { 0 },
        };
        // SAFETY: the structure lives through the call, which only reads it.
        unsafe { self.ioctl(libc::SECCOMP_IOCTL_NOTIF_ADDFD as c_ulong, &insert) }.map(|_| ())
    }
}
