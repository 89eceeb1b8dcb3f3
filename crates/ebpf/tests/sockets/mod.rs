// SPDX-License-Identifier: Apache-2.0

//! Packet sockets that send and receive frames with what the kernel knows of them besides: an
//! unfinished checksum, and how a super-packet is to be cut (`PACKET_VNET_HDR`,
//! `struct virtio_net_hdr`).

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Bytes of `struct virtio_net_hdr`.
const HEADER: usize = 10;
/// Bytes of headers at most.
const HEADERS: usize = 200;
/// `VIRTIO_NET_HDR_F_NEEDS_CSUM`
const NEEDS_SUM: u8 = 1;

/// How a super-packet is to be cut: `VIRTIO_NET_HDR_GSO_*`, bytes of headers and of data in each.
#[derive(Clone, Copy, Debug)]
pub struct Cut {
    pub kind: u8,
    pub headers: u16,
    pub size: u16,
}

/// What is left to the device.
#[derive(Clone, Copy, Debug, Default)]
pub struct LeftToDevice {
    /// From where on the checksum is summed, and where it is put, from there.
    pub checksum: Option<(u16, u16)>,
    pub cut: Option<Cut>,
}

/// A socket on a device of the current namespace.
pub struct Socket(OwnedFd);

fn check(result: libc::c_int) -> libc::c_int {
    assert!(result >= 0, "{}", io::Error::last_os_error());
    result
}

impl Socket {
    pub fn new(device: &str) -> Self {
        const PACKET_VNET_HDR: libc::c_int = 15;
        const PACKET_IGNORE_OUTGOING: libc::c_int = 23;
        let name = std::ffi::CString::new(device).unwrap();
        // SAFETY: addresses and options are as long as said, the name is a string that ends, and the
        // descriptor is nobody else's.
        unsafe {
            let fd = check(libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_NONBLOCK, 0));
            let socket = Socket(OwnedFd::from_raw_fd(fd));
            for option in [PACKET_VNET_HDR, PACKET_IGNORE_OUTGOING] {
                let (value, size) = (1 as libc::c_int, size_of::<libc::c_int>() as u32);
                let at = (&raw const value).cast();
                check(libc::setsockopt(fd, libc::SOL_PACKET, option, at, size));
            }
            let mut address: libc::sockaddr_ll = std::mem::zeroed();
            address.sll_family = libc::AF_PACKET as u16;
            address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
            address.sll_ifindex = libc::if_nametoindex(name.as_ptr()) as i32;
            let size = size_of_val(&address) as u32;
            check(libc::bind(fd, (&raw const address).cast(), size));
            socket
        }
    }

    /// Sends a frame; whether the kernel takes it.
    pub fn send(&self, frame: &[u8], left: LeftToDevice) -> bool {
        let mut buffer = vec![0; HEADER];
        if let Some((start, offset)) = left.checksum {
            buffer[0] = NEEDS_SUM;
            buffer[6..8].copy_from_slice(&start.to_ne_bytes());
            buffer[8..10].copy_from_slice(&offset.to_ne_bytes());
        }
        // The kernel has headers in one piece, as drivers leave them.
        let headers = frame.len().min(HEADERS) as u16;
        buffer[2..4].copy_from_slice(&headers.to_ne_bytes());
        if let Some(cut) = left.cut {
            buffer[1] = cut.kind;
            buffer[2..4].copy_from_slice(&cut.headers.to_ne_bytes());
            buffer[4..6].copy_from_slice(&cut.size.to_ne_bytes());
        }
        buffer.extend_from_slice(frame);
        // SAFETY: the buffer is as long as said and only read.
        let sent =
            unsafe { libc::send(self.0.as_raw_fd(), buffer.as_ptr().cast(), buffer.len(), 0) };
        sent == buffer.len() as isize
    }

    /// The next frame as it would be on a wire, within a time; and whether it was a super-packet.
    pub fn receive(&self, milliseconds: i32) -> Option<(Vec<u8>, bool)> {
        let mut buffer = vec![0; 1 << 17];
        let mut poll = libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one structure, and the buffer is as long as said.
        let got = unsafe {
            libc::poll(&raw mut poll, 1, milliseconds);
            libc::recv(poll.fd, buffer.as_mut_ptr().cast(), buffer.len(), 0)
        };
        buffer.truncate(usize::try_from(got).ok()?);
        let mut frame = buffer.split_off(HEADER);
        let number = |at: usize| usize::from(u16::from_ne_bytes([buffer[at], buffer[at + 1]]));
        if buffer[0] & NEEDS_SUM != 0 {
            let (start, at) = (number(6), number(6) + number(8));
            let sum = penstock_wire::checksum::Sum::new().bytes(&frame[start..]).finish();
            frame[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        }
        Some((frame, buffer[1] != 0))
    }
}
