//! What devices can do with XDP (`Documentation/netlink/specs/netdev.yaml`).

use std::io;

use crate::message::Attributes;
use crate::socket::Socket;

/// The family of families, its question for all of them, and attributes of the answers.
const CONTROL: u16 = 0x10;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;

/// The question for devices, and attributes of the answers.
const GET_DEVICE: u8 = 1;
const INDEX: u16 = 1;
const XDP_FEATURES: u16 = 3;

/// Bytes of `struct genlmsghdr`.
const HEAD: usize = 4;

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
        let families = socket.dump(CONTROL, &[GET_FAMILY, 1, 0, 0])?;
        let family = families.iter().map(|message| message.attributes(HEAD)).find_map(|attributes| {
            let is = attributes.text(FAMILY_NAME) == Some("netdev");
            attributes.u16(FAMILY_ID).filter(|_| is)
        });
        let family = family.ok_or_else(|| io::Error::from_raw_os_error(libc::ENOENT))?;
        Ok(XdpSocket { socket, family })
    }

    /// Indexes of devices by which frames can be sent from XDP now. For some that depends on others: a veth needs a peer that
    /// polls.
    ///
    /// # Errors
    /// Those of netlink.
    pub fn senders(&mut self) -> io::Result<Vec<u32>> {
        let devices = self.socket.dump(self.family, &[GET_DEVICE, 1, 0, 0])?;
        let sender = |attributes: Attributes<'_>| {
            let features = attributes.get(XDP_FEATURES)?.first_chunk().map(|b| u64::from_ne_bytes(*b))?;
            attributes.u32(INDEX).filter(|_| features & SENDS != 0)
        };
        Ok(devices.iter().filter_map(|message| sender(message.attributes(HEAD))).collect())
    }
}
