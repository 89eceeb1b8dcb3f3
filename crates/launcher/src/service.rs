// SPDX-License-Identifier: Apache-2.0

//! What answers instead of the kernel.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Instant;

/// The number of a socket, which no other socket ever gets.
pub type SocketId = u64;

/// The thread that sends a datagram, as it is while it sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sender {
    /// Thread id, in the supervisor's pid namespace; 0 where the datagram came without a trapped
    /// call.
    pub thread: u32,
    /// Name as in `/proc/PID/comm`; empty where the datagram came without a trapped call.
    pub name: String,
    /// Whether it may administer the socket's network namespace: it has `CAP_NET_ADMIN` in a user
    /// namespace that owns it, or the supervisor has not and is of the same user. The kernel wants
    /// that of who opened the socket ([`Service::open`]) and of who sends. True where the datagram
    /// came without a trapped call.
    pub may_change: bool,
}

/// A datagram that a program sends.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The thread that sends it.
    pub sender: &'a Sender,
    /// The messages.
    pub datagram: &'a [u8],
    /// Groups that sockets are members of, the sender included, group 1 in the lowest bit: nobody
    /// else is told of notifications.
    pub listened: u32,
}

/// A datagram for the members of a multicast group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notification {
    /// The group (`NFNLGRP_*`), from 1.
    pub group: u32,
    /// The messages. Without any it says that members have missed some: their next receive returns
    /// `ENOBUFS`.
    pub datagram: Vec<u8>,
}

/// What comes of a datagram.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    /// For all sockets that are members of the groups, the sender included, before its answers.
    pub before: Vec<Notification>,
    /// For the sender, in this order.
    pub datagrams: Vec<Vec<u8>>,
    /// For all other sockets that are members of the groups.
    pub notifications: Vec<Notification>,
}

/// What a set of ipset is looked for by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpSetKey<'a> {
    /// Its name.
    Name(&'a str),
    /// Its number.
    Index(u16),
}

/// A set of ipset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundIpSet {
    /// Its number, if it was looked for by name.
    pub index: u16,
    /// `NFPROTO_*` of its elements, if it was looked for by name.
    pub family: u8,
    /// Its name, if it was looked for by number.
    pub name: String,
}

/// What answers instead of the kernel. All calls come from one thread at a time, and clients wait
/// while one runs.
pub trait Service: Send {
    /// Comes first, in the supervisor's process. Returns a descriptor that is readable when there
    /// may be something to tell that no datagram has caused.
    ///
    /// # Errors
    /// Why it cannot answer; the command is not started.
    fn start(&mut self) -> io::Result<Option<BorrowedFd<'_>>> {
        Ok(None)
    }

    /// Looks for something to tell: the descriptor of [`Service::start`] is readable, or sockets
    /// have joined or left groups. `listened` are the groups that have members, group 1 in the
    /// lowest bit.
    fn look(&mut self, listened: u32) -> Vec<Notification> {
        let _ = listened;
        Vec::new()
    }

    /// When it next has something to do of itself ([`Service::wake`]), if at all.
    fn due(&self) -> Option<Instant> {
        None
    }

    /// The time of [`Service::due`] has come.
    fn wake(&mut self) {}

    /// No program is left: nothing else is called after this.
    fn end(&mut self) {}

    /// Programs have sent no more for the moment: what a request has left for later is done.
    fn settle(&mut self) {}

    /// Takes datagrams for single sockets, which no request of theirs is answered by. Comes after
    /// [`Service::look`] and [`Service::receive`]. An empty one says that the socket has missed some:
    /// its next receive returns `ENOBUFS`.
    fn take_direct(&mut self) -> Vec<(SocketId, Vec<u8>)> {
        Vec::new()
    }

    /// A program opens a socket in another network namespace than the launcher's. Returns what
    /// answers there, which is started and told of sockets as this service is; `None` for the
    /// kernel. Port ids and groups are those of a namespace.
    fn elsewhere(&mut self, namespace: OwnedFd) -> Option<Box<dyn Service>> {
        let _ = namespace;
        None
    }

    /// Whether [`Sender::name`] is needed for a datagram.
    fn wants_name(&self, datagram: &[u8]) -> bool {
        let _ = datagram;
        true
    }

    /// A program has opened a socket. `may_change` is about it as [`Sender::may_change`] is about
    /// who sends; otherwise what is asked for may change nothing.
    fn open(&mut self, socket: SocketId, may_change: bool);

    /// A socket has a port id, as `getsockname(2)` gives it: this comes before its first datagram.
    fn bind(&mut self, socket: SocketId, port: u32);

    /// A program sets an option of level `SOL_NETLINK` that changes what is answered:
    /// `NETLINK_CAP_ACK` (10), `NETLINK_EXT_ACK` (11) or `NETLINK_GET_STRICT_CHK` (12).
    fn set_option(&mut self, socket: SocketId, option: i32, on: bool);

    /// A program receives into a buffer of so many bytes. The kernel makes datagrams of dumps as
    /// long as the longest buffer so far.
    fn receives_into(&mut self, socket: SocketId, bytes: usize);

    /// A program that may change anything looks for a set of ipset with `getsockopt(2)`; `None` if
    /// there is none.
    fn ip_set(&mut self, key: IpSetKey<'_>) -> Option<FoundIpSet> {
        let _ = key;
        None
    }

    /// A program sends a datagram. It finds all answers when its call returns.
    fn receive(&mut self, socket: SocketId, request: &Request<'_>) -> Answers;

    /// The last descriptor of a socket is closed (`NETLINK_URELEASE`). Resulting notifications go
    /// to the members of groups; datagrams for the sender are dropped.
    fn close(&mut self, socket: SocketId) -> Answers;
}
