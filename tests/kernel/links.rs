// SPDX-License-Identifier: Apache-2.0

//! Links of the present namespace: what they leave to hardware, and when they are ready.

use std::ffi::{CStr, CString, c_char};
use std::io;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

/// How long wires have until they carry frames, and other links, some of which never do.
const WIRES: Duration = Duration::from_secs(10);
const OTHERS: Duration = Duration::from_millis(150);

/// The calls of ethtool(8) that set checksums of what is sent, segmentation by TCP and in general,
/// and receive offload (`linux/ethtool.h`).
const OFFLOADS: [u32; 4] = [0x17, 0x1f, 0x24, 0x2c];

/// `struct ethtool_value`
#[repr(C)]
struct Value {
    command: u32,
    data: u32,
}

/// Makes a device leave nothing to hardware: frames are whole, and no larger than its MTU.
pub fn no_offload(device: &str) -> io::Result<()> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0")?;
    for command in OFFLOADS {
        let mut value = Value { command, data: 0 };
        let mut request = named(device)?;
        request.ifr_ifru.ifru_data = (&raw mut value).cast::<c_char>();
        // SAFETY: the request names a device, and its data are a live structure of the form that
        // these commands take.
        if unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL, &raw mut request) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Waits until the links that are up carry frames: the kernel switches a link's queue on some time
/// after its other end is up.
pub fn wait_until_ready(wires: &[String]) -> io::Result<()> {
    let begun = Instant::now();
    loop {
        let waiting = not_ready()?;
        let patience = if wires.iter().any(|w| waiting.contains(w)) { WIRES } else { OTHERS };
        if waiting.is_empty() || begun.elapsed() > patience {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Links that are up and do not carry frames.
fn not_ready() -> io::Result<Vec<String>> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0")?;
    let mut waiting = vec![];
    for name in names()? {
        let mut request = named(&name)?;
        // SAFETY: the request names a device; the kernel fills in its flags, which are then valid.
        let flags = unsafe {
            if libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFFLAGS, &raw mut request) != 0 {
                return Err(io::Error::last_os_error());
            }
            i32::from(request.ifr_ifru.ifru_flags)
        };
        if flags & libc::IFF_UP != 0 && flags & libc::IFF_RUNNING == 0 {
            waiting.push(name);
        }
    }
    Ok(waiting)
}

/// The names of all links.
fn names() -> io::Result<Vec<String>> {
    let mut names = vec![];
    // SAFETY: the list ends with an entry without a name, its names are C strings, and it is freed
    // once, after its last use.
    unsafe {
        let list = libc::if_nameindex();
        if list.is_null() {
            return Err(io::Error::last_os_error());
        }
        let mut entry = list;
        while !(*entry).if_name.is_null() {
            names.push(CStr::from_ptr((*entry).if_name).to_string_lossy().into_owned());
            entry = entry.add(1);
        }
        libc::if_freenameindex(list);
    }
    Ok(names)
}

/// A request about a device.
fn named(device: &str) -> io::Result<libc::ifreq> {
    let name = CString::new(device)?;
    // SAFETY: a zeroed request is valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let bytes = name.as_bytes();
    if bytes.len() >= request.ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(bytes) {
        *to = *from as c_char;
    }
    Ok(request)
}
