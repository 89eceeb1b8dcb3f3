// SPDX-License-Identifier: Apache-2.0

//! Whether the kernel puts packets of a flow together when they arrive by a device (generic receive
//! offload, `ethtool -K DEV gro`).

use std::io;
use std::os::fd::AsRawFd;

use super::sys::{check, socket};

const SIOCETHTOOL: libc::Ioctl = 0x8946;
const GET: u32 = 0x2b;
const SET: u32 = 0x2c;

/// `struct ethtool_value`.
#[repr(C)]
struct Value {
    command: u32,
    data: u32,
}

/// `struct ifreq` with an address in it.
#[repr(C)]
struct Request {
    name: [libc::c_char; libc::IF_NAMESIZE],
    value: *mut Value,
    rest: [usize; 2],
}

fn call(device: u32, command: u32, data: u32) -> io::Result<u32> {
    let mut value = Value { command, data };
    let mut request = Request { name: [0; libc::IF_NAMESIZE], value: &raw mut value, rest: [0; 2] };
    // SAFETY: room for the longest name.
    if unsafe { libc::if_indextoname(device, request.name.as_mut_ptr()) }.is_null() {
        return Err(io::Error::last_os_error());
    }
    let socket = socket(libc::AF_LOCAL, libc::SOCK_DGRAM, 0)?;
    // SAFETY: the request, and the value that it points to, live through the call.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &raw mut request) }.into())?;
    Ok(value.data)
}

/// Whether it does.
///
/// # Errors
/// Those of ioctl(2).
pub fn gro(device: u32) -> io::Result<bool> {
    call(device, GET, 0).map(|data| data != 0)
}

/// Has it do so, or not.
///
/// # Errors
/// Those of ioctl(2): `EPERM` without `CAP_NET_ADMIN`.
pub fn set_gro(device: u32, on: bool) -> io::Result<()> {
    call(device, SET, on.into()).map(drop)
}
