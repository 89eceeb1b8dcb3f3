// SPDX-License-Identifier: Apache-2.0

//! Results of system calls, and constants that the libc crate lacks.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// The number of an error (errno(3)).
pub(crate) type Errno = i32;

/// `NETLINK_*` options of level `SOL_NETLINK` (`linux/netlink.h`).
pub(crate) const SOL_NETLINK: i32 = 270;
pub(crate) const NETLINK_ADD_MEMBERSHIP: i32 = 1;
pub(crate) const NETLINK_DROP_MEMBERSHIP: i32 = 2;
pub(crate) const NETLINK_PKTINFO: i32 = 3;
pub(crate) const NETLINK_BROADCAST_ERROR: i32 = 4;
pub(crate) const NETLINK_NO_ENOBUFS: i32 = 5;
pub(crate) const NETLINK_LISTEN_ALL_NSID: i32 = 8;
pub(crate) const NETLINK_LIST_MEMBERSHIPS: i32 = 9;
pub(crate) const NETLINK_CAP_ACK: i32 = 10;
pub(crate) const NETLINK_EXT_ACK: i32 = 11;
pub(crate) const NETLINK_GET_STRICT_CHK: i32 = 12;

/// `SO_COOKIE` (`asm-generic/socket.h`): a number of a socket that no other one ever gets.
const SO_COOKIE: i32 = 57;

/// A result of a system call that is negative on an error.
pub(crate) fn check(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// A descriptor that a system call made.
pub(crate) fn owned(result: libc::c_long) -> io::Result<OwnedFd> {
    // SAFETY: the kernel made it for the caller alone.
    check(result).map(|fd| unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// The number of an error; `EIO` for one that has none.
pub(crate) fn errno(error: &io::Error) -> Errno {
    error.raw_os_error().unwrap_or(libc::EIO)
}

/// A socket option with a value of a fixed size.
pub(crate) fn socket_option<T: Copy + Default>(
    socket: &impl AsRawFd,
    level: i32,
    name: i32,
) -> io::Result<T> {
    let mut value = T::default();
    let mut len = size_of::<T>() as libc::socklen_t;
    check(
        // SAFETY: value and length live through the call, which writes at most as many bytes as is
        // said; callers use integers, for which any bytes are a value.
        unsafe {
            libc::getsockopt(socket.as_raw_fd(), level, name, (&raw mut value).cast(), &raw mut len)
        }
        .into(),
    )?;
    Ok(value)
}

/// Receives datagrams that are there, one into each room, without waiting. Gives their lengths, in
/// bytes, as far as their rooms go.
pub(crate) fn receive_many(socket: RawFd, rooms: &mut [&mut [u8]]) -> Vec<usize> {
    if rooms.is_empty() {
        return Vec::new();
    }
    let part = |room: &mut &mut [u8]| libc::iovec {
        iov_base: room.as_mut_ptr().cast(),
        iov_len: room.len(),
    };
    let mut parts: Vec<libc::iovec> = rooms.iter_mut().map(part).collect();
    let header = |part: &mut libc::iovec| {
        // SAFETY: a header of zeroes is one without address, parts and control messages.
        let mut header: libc::mmsghdr = unsafe { std::mem::zeroed() };
        header.msg_hdr.msg_iov = part;
        header.msg_hdr.msg_iovlen = 1;
        header
    };
    let mut headers: Vec<libc::mmsghdr> = parts.iter_mut().map(header).collect();
    let (first, many, flags) = (headers.as_mut_ptr(), headers.len() as u32, libc::MSG_DONTWAIT);
    // SAFETY: as many headers as is said, with their parts, which live through the call; it fills the
    // rooms, which are apart from each other, as they are borrowed.
    let got = unsafe { libc::recvmmsg(socket, first, many, flags as _, std::ptr::null_mut()) };
    let filled = headers.iter().take(usize::try_from(got).unwrap_or(0));
    filled.zip(rooms).map(|(header, room)| (header.msg_len as usize).min(room.len())).collect()
}

/// The cookie of a socket. `ENOTSOCK` for what is none.
pub(crate) fn cookie(socket: &impl AsRawFd) -> io::Result<u64> {
    socket_option(socket, libc::SOL_SOCKET, SO_COOKIE)
}

/// The inode of what a descriptor is open on.
pub(crate) fn inode(file: &impl AsRawFd) -> io::Result<u64> {
    let mut stat = std::mem::MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: room for the structure, which the call fills.
    check(unsafe { libc::fstat(file.as_raw_fd(), stat.as_mut_ptr()) }.into())?;
    // SAFETY: integers, which the call has filled.
    Ok(unsafe { stat.assume_init() }.st_ino)
}
