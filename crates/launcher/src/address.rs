// SPDX-License-Identifier: Apache-2.0

//! Addresses of netlink sockets in programs' memory (`struct sockaddr_nl`, netlink(7)).

use crate::sys::Errno;
use crate::task::Task;

/// Bytes of `struct sockaddr_nl`.
pub(crate) const LEN: usize = 12;

/// An address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Address {
    /// Port id, 0 for the kernel.
    pub port: u32,
    /// Groups 1 to 32, from the lowest bit.
    pub groups: u32,
}

impl Address {
    fn to_bytes(self) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        bytes[..2].copy_from_slice(&(libc::AF_NETLINK as u16).to_ne_bytes());
        bytes[4..8].copy_from_slice(&self.port.to_ne_bytes());
        bytes[8..].copy_from_slice(&self.groups.to_ne_bytes());
        bytes
    }

    /// Reads an address.
    ///
    /// # Errors
    /// `EINVAL`: it is too short or too long, or of another family.
    pub(crate) fn read(task: &mut Task, address: u64, len: i32) -> Result<Self, Errno> {
        /// Bytes of `struct sockaddr_storage`.
        const MOST: i32 = 128;
        if !(LEN as i32..=MOST).contains(&len) {
            return Err(libc::EINVAL);
        }
        let mut bytes = [0; LEN];
        task.read(address, &mut bytes)?;
        let [f0, f1, _, _, p0, p1, p2, p3, g0, g1, g2, g3] = bytes;
        if u16::from_ne_bytes([f0, f1]) != libc::AF_NETLINK as u16 {
            return Err(libc::EINVAL);
        }
        Ok(Address {
            port: u32::from_ne_bytes([p0, p1, p2, p3]),
            groups: u32::from_ne_bytes([g0, g1, g2, g3]),
        })
    }

    /// Writes as much as there is room for, which is `room` bytes.
    pub(crate) fn write(self, task: &mut Task, address: u64, room: i32) -> Result<(), Errno> {
        let room = usize::try_from(room).map_err(|_| libc::EINVAL)?;
        task.write(address, &self.to_bytes()[..room.min(LEN)])
    }

    /// Writes where a system call takes an address and a pointer to its length, which says how much
    /// room there is and gets the length.
    pub(crate) fn write_with_len(
        self,
        task: &mut Task,
        address: u64,
        len: u64,
    ) -> Result<(), Errno> {
        let room: i32 = task.read_value(len)?;
        self.write(task, address, room)?;
        task.write_value(len, &(LEN as i32))
    }
}
