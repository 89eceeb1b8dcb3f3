// SPDX-License-Identifier: Apache-2.0

//! Packets that the host is to receive on its loopback device: answers to what it sent itself.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use super::sys;

/// Raw sockets for packets with their headers.
#[derive(Debug)]
pub struct LocalTx {
    v4: OwnedFd,
    /// Missing where there is no IPv6.
    v6: Option<OwnedFd>,
}

impl LocalTx {
    /// In the network namespace of the thread.
    pub fn open() -> io::Result<Self> {
        let v4 = sys::socket(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_RAW)?;
        let v6 = sys::socket(libc::AF_INET6, libc::SOCK_RAW, libc::IPPROTO_RAW).ok();
        Ok(LocalTx { v4, v6 })
    }

    /// Sends an IP packet, from its header on, to the address in it. Whether it was taken.
    pub fn send(&self, packet: &[u8]) -> bool {
        match packet.first().map(|b| b >> 4) {
            Some(4) => {
                let Some(to) = packet.get(16..).and_then(|p| p.first_chunk::<4>()) else {
                    return false;
                };
                // SAFETY: all zeroes are a valid address.
                let mut address: libc::sockaddr_in = unsafe { std::mem::zeroed() };
                address.sin_family = libc::AF_INET as u16;
                address.sin_addr.s_addr = u32::from_ne_bytes(*to);
                send(&self.v4, packet, &address)
            }
            Some(6) => {
                let Some(to) = packet.get(24..).and_then(|p| p.first_chunk::<16>()) else {
                    return false;
                };
                // SAFETY: all zeroes are a valid address.
                let mut address: libc::sockaddr_in6 = unsafe { std::mem::zeroed() };
                address.sin6_family = libc::AF_INET6 as u16;
                address.sin6_addr.s6_addr = *to;
                self.v6.as_ref().is_some_and(|v6| send(v6, packet, &address))
            }
            _ => false,
        }
    }
}

fn send<T>(fd: &OwnedFd, packet: &[u8], to: &T) -> bool {
    let (flags, len) = (libc::MSG_DONTWAIT, size_of::<T>() as libc::socklen_t);
    // SAFETY: packet and address live through the call and are that long.
    let sent = unsafe {
        libc::sendto(
            fd.as_raw_fd(),
            packet.as_ptr().cast(),
            packet.len(),
            flags,
            (&raw const *to).cast(),
            len,
        )
    };
    sent >= 0
}
