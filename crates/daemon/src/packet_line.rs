// SPDX-License-Identifier: Apache-2.0

//! Packets on their way from workers to programs with netfilter sockets.

use penstock_conntrack::Flow;
use penstock_dataplane::Passage;
use penstock_io::queue;
use penstock_nfnetlink::LoggedPacket;

/// A packet of a queue for a program.
#[derive(Debug)]
pub(crate) struct Given {
    /// Port id of its socket.
    pub(crate) port: u32,
    pub(crate) packet: Box<queue::Packet>,
    /// The packet's connection, if the program wants to know it, and how the packet belongs to it
    /// (`enum ip_conntrack_info`).
    pub(crate) connection: Option<(Box<Flow>, u8)>,
    /// It is a super-packet.
    pub(crate) gso: bool,
    /// Where it is.
    pub(crate) passage: Passage,
    /// The tag that was taken out of its link header: its protocol, and priority and VLAN id.
    pub(crate) vlan: Option<[u16; 2]>,
}

/// A packet that a rule has logged, for a program.
#[derive(Debug)]
pub(crate) struct Logged {
    /// Port id of its socket.
    pub(crate) port: u32,
    pub(crate) packet: Box<LoggedPacket>,
    /// How many packets the rule wants in a datagram at most, 0 for any number.
    pub(crate) threshold: u16,
}

/// A packet for a program.
#[derive(Debug)]
pub(crate) enum Packet {
    /// Of a queue.
    Queued(Given),
    /// Of a group.
    Logged(Logged),
}
