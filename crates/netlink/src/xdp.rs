// SPDX-License-Identifier: Apache-2.0

//! What devices can do with XDP (`Documentation/netlink/specs/netdev.yaml`).

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use crate::message::Attributes;
use crate::socket::Socket;

/// The family of families, its question for all of them, and attributes of the answers.
const CONTROL: u16 = 0x10;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
const GROUPS: u16 = 7;
const GROUP_NAME: u16 = 1;
const GROUP_ID: u16 = 2;

/// The question for devices, and attributes of the answers.
const GET_DEVICE: u8 = 1;
const INDEX: u16 = 1;
const XDP_FEATURES: u16 = 3;

/// Bytes of `struct genlmsghdr`.
const HEAD: usize = 4;

/// `NETDEV_XDP_ACT_BASIC`.
const RUNS: u64 = 1 << 0;
/// `NETDEV_XDP_ACT_NDO_XMIT`.
const SENDS: u64 = 1 << 2;

/// A socket to the kernel's devices.
#[derive(Debug)]
pub struct XdpSocket {
    socket: Socket,
    family: u16,
}

impl XdpSocket {
    /// A socket in the network namespace of the thread.
    ///
    /// # Errors
    /// Those of netlink; `ENOENT` before Linux 6.3.
    pub fn new() -> io::Result<Self> {
        let mut socket = Socket::open(libc::NETLINK_GENERIC, 0)?;
        let family = of_family(&mut socket, |attributes| attributes.u16(FAMILY_ID))?;
        Ok(XdpSocket { socket, family })
    }

    /// Indexes of devices by which frames can be sent from XDP now. For some that depends on
    /// others: a veth needs a peer that polls.
    ///
    /// # Errors
    /// Those of netlink.
    pub fn senders(&mut self) -> io::Result<Vec<u32>> {
        self.able(SENDS)
    }

    /// Indexes of devices whose driver runs XDP programs.
    ///
    /// # Errors
    /// Those of netlink.
    pub fn runners(&mut self) -> io::Result<Vec<u32>> {
        self.able(RUNS)
    }

    /// Indexes of devices that have a feature.
    fn able(&mut self, feature: u64) -> io::Result<Vec<u32>> {
        let devices = self.socket.dump(self.family, &[GET_DEVICE, 1, 0, 0])?;
        let able = |attributes: Attributes<'_>| {
            let features =
                attributes.get(XDP_FEATURES)?.first_chunk().map(|b| u64::from_ne_bytes(*b))?;
            attributes.u32(INDEX).filter(|_| features & feature != 0)
        };
        Ok(devices.iter().filter_map(|message| able(message.attributes(HEAD))).collect())
    }
}

/// What the family of devices is, of those that there are.
fn of_family<T>(socket: &mut Socket, read: impl Fn(Attributes<'_>) -> Option<T>) -> io::Result<T> {
    let families = socket.dump(CONTROL, &[GET_FAMILY, 1, 0, 0])?;
    let mut families = families.iter().map(|message| message.attributes(HEAD));
    let family = families.find(|attributes| attributes.text(FAMILY_NAME) == Some("netdev"));
    family.and_then(read).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOENT))
}

/// Is told when devices can do something else with XDP than before.
#[derive(Debug)]
pub struct XdpMonitor(Socket);

impl XdpMonitor {
    /// In the network namespace of the thread.
    ///
    /// # Errors
    /// Those of netlink; `ENOENT` before Linux 6.3.
    pub fn new() -> io::Result<Self> {
        let group = of_family(&mut Socket::open(libc::NETLINK_GENERIC, 0)?, |attributes| {
            let mut groups = attributes.inside(GROUPS)?.map(|(_, group)| Attributes::nested(group));
            groups.find(|group| group.text(GROUP_NAME) == Some("mgmt"))?.u32(GROUP_ID)
        })?;
        let socket = Socket::open(libc::NETLINK_GENERIC, libc::SOCK_NONBLOCK)?;
        socket.set(libc::SOL_NETLINK, libc::NETLINK_ADD_MEMBERSHIP, group as i32)?;
        Ok(XdpMonitor(socket))
    }

    /// Whether there were changes since the last time.
    ///
    /// # Errors
    /// Those of netlink.
    pub fn have_changed(&mut self) -> io::Result<bool> {
        self.0.was_told()
    }
}

impl AsFd for XdpMonitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
