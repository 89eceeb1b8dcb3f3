// SPDX-License-Identifier: Apache-2.0

//! Devices of the host without link header: packets for them go to their queue as the stack's own
//! would.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use super::sys::{self, check};

/// Sends packets on a device.
#[derive(Debug)]
pub struct BareTx {
    fd: OwnedFd,
    address: libc::sockaddr_ll,
    mark: u32,
}

impl BareTx {
    /// On the device with this index.
    ///
    /// # Errors
    /// Those of packet(7).
    pub fn open(index: u32) -> io::Result<Self> {
        let fd = sys::socket(libc::AF_PACKET, libc::SOCK_DGRAM, 0)?;
        // SAFETY: all zeroes are a valid address.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_ifindex = index as i32;
        Ok(BareTx { fd, address, mark: 0 })
    }

    /// Sends an IP packet. What the tc stage of the device sees is the mark. Whether the device has
    /// taken it.
    pub fn send(&mut self, packet: &[u8], mark: u32) -> bool {
        let protocol = match packet.first().map(|b| b >> 4) {
            Some(4) => libc::ETH_P_IP,
            Some(6) => libc::ETH_P_IPV6,
            _ => return false,
        };
        if mark != self.mark && sys::set(&self.fd, libc::SOL_SOCKET, libc::SO_MARK, &mark).is_ok() {
            self.mark = mark;
        }
        self.address.sll_protocol = (protocol as u16).to_be();
        let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        // SAFETY: packet and address live through the call and are that long.
        let sent = unsafe {
            libc::sendto(
                self.fd.as_raw_fd(),
                packet.as_ptr().cast(),
                packet.len(),
                libc::MSG_DONTWAIT,
                (&raw const self.address).cast(),
                len,
            )
        };
        check(sent as i64).is_ok()
    }
}
