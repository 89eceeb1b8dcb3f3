// SPDX-License-Identifier: Apache-2.0

//! Sockets that do not wait, their options and addresses.

use std::io;
use std::mem::size_of;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

fn check(result: i32) -> io::Result<i32> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// A whole number as the value of a socket's option.
pub(super) fn set(socket: &impl AsRawFd, level: i32, option: i32, value: i32) -> io::Result<()> {
    set_value(socket, level, option, &value)
}

/// `T` is plain data.
pub(super) fn set_value<T: Copy>(
    socket: &impl AsRawFd,
    level: i32,
    option: i32,
    value: &T,
) -> io::Result<()> {
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the value lives through the call, which reads so many bytes of it.
    let done = unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, option, std::ptr::from_ref(value).cast(), len)
    };
    check(done).map(drop)
}

/// A socket of IPv4 or IPv6, of a kind such as `SOCK_DGRAM`.
pub(super) fn open(v4: bool, kind: i32) -> io::Result<OwnedFd> {
    let family = if v4 { libc::AF_INET } else { libc::AF_INET6 };
    // SAFETY: no pointers.
    let fd =
        check(unsafe { libc::socket(family, kind | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, 0) })?;
    // SAFETY: a new descriptor without another owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The call that takes an address of a socket.
type TakesAddress =
    unsafe extern "C" fn(i32, *const libc::sockaddr, libc::socklen_t) -> libc::c_int;

/// Gives a socket its own address.
pub(super) fn bind(socket: &impl AsRawFd, address: SocketAddr) -> io::Result<()> {
    with_address(socket, address, libc::bind)
}

/// Begins to connect a socket. Its end is that it can be written to.
pub(super) fn connect(socket: &impl AsRawFd, address: SocketAddr) -> io::Result<()> {
    match with_address(socket, address, libc::connect) {
        Err(e) if e.raw_os_error() == Some(libc::EINPROGRESS) => Ok(()),
        other => other,
    }
}

fn with_address(socket: &impl AsRawFd, address: SocketAddr, call: TakesAddress) -> io::Result<()> {
    match address {
        SocketAddr::V4(address) => {
            let address = libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: address.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(address.ip().octets()) },
                sin_zero: [0; 8],
            };
            give(socket, &address, call)
        }
        SocketAddr::V6(address) => {
            let address = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: address.port().to_be(),
                sin6_flowinfo: 0,
                sin6_addr: libc::in6_addr { s6_addr: address.ip().octets() },
                sin6_scope_id: address.scope_id(),
            };
            give(socket, &address, call)
        }
    }
}

/// `T` is an address of the socket's family.
fn give<T>(socket: &impl AsRawFd, address: &T, call: TakesAddress) -> io::Result<()> {
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the address lives through the call, which reads so many bytes of it.
    let done = unsafe { call(socket.as_raw_fd(), std::ptr::from_ref(address).cast(), len) };
    check(done).map(drop)
}
