// SPDX-License-Identifier: Apache-2.0

//! Programs that listen to all frames of devices, by their packet sockets
//! (`net/packet/diag.c`, packet(7)).

use std::io;

use crate::message::Message;
use crate::socket::Socket;

/// `SOCK_DIAG_BY_FAMILY`
const BY_FAMILY: u16 = 20;
/// `PACKET_SHOW_INFO`, `PACKET_SHOW_MCLIST` and `PACKET_SHOW_RING_CFG`.
const WANTED: u32 = 1 | 2 | 4;
/// Bytes of `struct packet_diag_msg`.
const HEAD: usize = 16;
/// Attributes of an answer: `PACKET_DIAG_INFO`, `_MCLIST`, `_RX_RING`.
const INFO: u16 = 0;
const MEMBERSHIPS: u16 = 1;
const RX_RING: u16 = 2;
/// Bytes of `struct packet_diag_mclist`, and where its type is.
const MEMBERSHIP: usize = 44;
const MEMBERSHIP_TYPE: usize = 8;

/// A packet socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketSocket {
    /// Index of its device; 0 for all.
    pub device: u32,
    /// `ETH_P_*` that it is given, in host order; 0 for none.
    pub protocol: u16,
    /// It has a ring to receive into, as libpcap makes one.
    pub has_ring: bool,
    /// It keeps devices promiscuous.
    pub is_promiscuous: bool,
}

impl PacketSocket {
    /// Whether it belongs to a program that watches the traffic of devices, as tcpdump does.
    /// Programs that speak a protocol of their own (clients of DHCP, LLDP) also ask for all
    /// frames, but have neither a ring nor promiscuous devices.
    pub fn watches(&self) -> bool {
        i32::from(self.protocol) == libc::ETH_P_ALL && (self.has_ring || self.is_promiscuous)
    }

    fn of(message: &Message) -> Option<Self> {
        let [_, _, low, high, ..] = *message.head::<HEAD>()?;
        let attributes = message.attributes(HEAD);
        let is_promiscuous = |membership: &[u8]| {
            let kind = membership.get(MEMBERSHIP_TYPE..)?.first_chunk()?;
            Some(i32::from(u16::from_ne_bytes(*kind)) == libc::PACKET_MR_PROMISC)
        };
        let memberships = attributes.get(MEMBERSHIPS).unwrap_or_default();
        Some(PacketSocket {
            device: attributes.u32(INFO)?,
            protocol: u16::from_ne_bytes([low, high]),
            has_ring: attributes.get(RX_RING).is_some(),
            is_promiscuous: memberships
                .chunks_exact(MEMBERSHIP)
                .any(|membership| is_promiscuous(membership) == Some(true)),
        })
    }
}

/// Lists packet sockets.
#[derive(Debug)]
pub struct PacketSockets(Socket);

impl PacketSockets {
    /// Those of the network namespace of the thread.
    ///
    /// # Errors
    /// Those of netlink(7); `EPROTONOSUPPORT` without SOCK_DIAG in the kernel.
    pub fn open() -> io::Result<Self> {
        Socket::open(libc::NETLINK_SOCK_DIAG, 0).map(PacketSockets)
    }

    /// All that there are now.
    ///
    /// # Errors
    /// Those of netlink(7); `ENOENT` without PACKET_DIAG in the kernel.
    pub fn list(&mut self) -> io::Result<Vec<PacketSocket>> {
        // struct packet_diag_req: family, protocol, padding, inode, what is wanted, cookie
        let mut request = [0; 20];
        request[0] = libc::AF_PACKET as u8;
        request[8..12].copy_from_slice(&WANTED.to_ne_bytes());
        let all = self.0.dump(BY_FAMILY, &request)?;
        Ok(all.iter().filter_map(PacketSocket::of).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::put;

    /// What the kernel says of a socket.
    fn answer(protocol: u16, memberships: &[u16], ring: bool) -> Message {
        let mut body = vec![libc::AF_PACKET as u8, 3];
        body.extend(protocol.to_ne_bytes());
        body.resize(HEAD, 0);
        put(&mut body, INFO, &[7u32.to_ne_bytes(), [0; 4]].concat());
        let mut all = Vec::new();
        for kind in memberships {
            let mut membership = vec![0; MEMBERSHIP];
            membership[MEMBERSHIP_TYPE..MEMBERSHIP_TYPE + 2].copy_from_slice(&kind.to_ne_bytes());
            all.extend(membership);
        }
        put(&mut body, MEMBERSHIPS, &all);
        if ring {
            put(&mut body, RX_RING, &[0; 28]);
        }
        Message { kind: BY_FAMILY, flags: 0, sequence: 1, body }
    }

    #[test]
    fn those_who_watch_all_traffic_are_told_from_those_who_speak_a_protocol() {
        const MULTICAST: u16 = 0;
        const PROMISCUOUS: u16 = 1;
        for (who, protocol, memberships, ring, watches) in [
            ("tcpdump", 3, &[PROMISCUOUS][..], true, true),
            ("tcpdump -p", 3, &[], true, true),
            ("a program that reads without a ring", 3, &[MULTICAST, PROMISCUOUS], false, true),
            ("dhclient", 3, &[], false, false),
            ("lldpd", 3, &[MULTICAST], false, false),
            ("arping", 0x0806, &[], false, false),
            ("a sender", 0, &[], false, false),
        ] {
            let socket = PacketSocket::of(&answer(protocol, memberships, ring)).expect(who);
            assert_eq!((socket.device, socket.watches()), (7, watches), "{who}");
        }
    }
}
