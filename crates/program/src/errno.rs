// SPDX-License-Identifier: Apache-2.0

//! The error numbers of nf_tables and of state files (`include/uapi/asm-generic/errno*.h`).

use serde::{Deserialize, Serialize};

/// The error numbers that nf_tables gives, and those of files that rulesets are kept in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(i32)]
pub enum Errno {
    /// Operation not permitted.
    Eperm = 1,
    /// No such file or directory.
    Enoent = 2,
    /// Argument list too long.
    E2big = 7,
    /// Cannot allocate memory.
    Enomem = 12,
    /// Device or resource busy.
    Ebusy = 16,
    /// File exists.
    Eexist = 17,
    /// No such device: nobody has what is asked of.
    Enodev = 19,
    /// Invalid argument.
    Einval = 22,
    /// Too many open files in system.
    Enfile = 23,
    /// Too many links.
    Emlink = 31,
    /// File too large.
    Efbig = 27,
    /// Numerical result out of range.
    Erange = 34,
    /// File name too long.
    Enametoolong = 36,
    /// Too many levels of symbolic links.
    Eloop = 40,
    /// No data available: a register is read that was not written.
    Enodata = 61,
    /// Protocol error.
    Eproto = 71,
    /// Interrupted system call should be restarted: another batch was committed meanwhile.
    Erestart = 85,
    /// Value too large for defined data type.
    Eoverflow = 75,
    /// Directory not empty.
    Enotempty = 39,
    /// Operation not supported.
    Eopnotsupp = 95,
    /// Operation is not supported, by a number that the C library has no text for
    /// (`include/linux/errno.h`).
    Enotsupp = 524,
    /// Address family not supported by protocol.
    Eafnosupport = 97,
    /// Operation already in progress: a connection is expected in another class.
    Ealready = 114,
    /// Input/output error: a file.
    Eio = 5,
    /// Permission denied: a file.
    Eacces = 13,
    /// No space left on device: a file.
    Enospc = 28,
    /// Read-only file system: a file.
    Erofs = 30,
}

impl Errno {
    /// The C library's text.
    pub fn text(self) -> &'static str {
        match self {
            Errno::Eperm => "Operation not permitted",
            Errno::Enoent => "No such file or directory",
            Errno::E2big => "Argument list too long",
            Errno::Enomem => "Cannot allocate memory",
            Errno::Ebusy => "Device or resource busy",
            Errno::Eexist => "File exists",
            Errno::Enodev => "No such device",
            Errno::Einval => "Invalid argument",
            Errno::Enfile => "Too many open files in system",
            Errno::Emlink => "Too many links",
            Errno::Erange => "Numerical result out of range",
            Errno::Enametoolong => "File name too long",
            Errno::Eloop => "Too many levels of symbolic links",
            Errno::Eproto => "Protocol error",
            Errno::Enodata => "No data available",
            Errno::Efbig => "File too large",
            Errno::Erestart => "Interrupted system call should be restarted",
            Errno::Eoverflow => "Value too large for defined data type",
            Errno::Enotempty => "Directory not empty",
            Errno::Eopnotsupp => "Operation not supported",
            Errno::Enotsupp => "Unknown error 524",
            Errno::Eafnosupport => "Address family not supported by protocol",
            Errno::Ealready => "Operation already in progress",
            Errno::Eio => "Input/output error",
            Errno::Eacces => "Permission denied",
            Errno::Enospc => "No space left on device",
            Errno::Erofs => "Read-only file system",
        }
    }
}
