// SPDX-License-Identifier: Apache-2.0

//! What programs ask of the host's sockets.

use std::net::IpAddr;

/// Which sockets a lookup finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketKind {
    /// Connected ones, and TCP connections that are being opened or in TIME_WAIT.
    Established,
    /// Those that listen (TCP) or are not connected (UDP).
    Listener,
    /// Established ones first, then listeners.
    Any,
}

/// A lookup of a local socket. Ports are in host order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketQuery {
    /// Which.
    pub kind: SocketKind,
    /// TCP (6) or UDP (17).
    pub protocol: u8,
    /// The other end.
    pub source: (IpAddr, u16),
    /// The host's end.
    pub destination: (IpAddr, u16),
    /// Interface that the packet came in by: sockets bound to another one do not count.
    pub device: u32,
}

/// A local socket (`struct sock`), as rules see it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LocalSocket {
    /// Its number, not 0: what [`Meta::socket`](penstock_packet::Meta::socket) holds for packets
    /// that belong to it.
    pub id: u32,
    /// `IP_TRANSPARENT`.
    pub transparent: bool,
    /// `SO_MARK`; `None` where there is no full socket (a connection being opened, or in
    /// TIME_WAIT).
    pub mark: Option<u32>,
    /// Bound to no address, of a full socket.
    pub wildcard: bool,
    /// A connection in TIME_WAIT.
    pub time_wait: bool,
}
