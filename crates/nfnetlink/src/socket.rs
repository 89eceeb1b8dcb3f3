// SPDX-License-Identifier: Apache-2.0

//! What a socket receives: answers to its requests, and notifications.

use crate::message::AckOptions;

/// A datagram for the members of a multicast group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notification {
    /// The group (`NFNLGRP_*`).
    pub group: u32,
    /// The messages.
    pub datagram: Vec<u8>,
}

/// What comes of a datagram.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    /// For all members of groups, the sender included, before its answers: for each client of the
    /// same backend, those that [`Client::wants`](crate::Client::wants).
    pub before: Vec<Notification>,
    /// For the sender, in this order.
    pub datagrams: Vec<Vec<u8>>,
    /// For the members of groups, the sender left aside: for each other client of the same backend,
    /// those that [`Client::wants`](crate::Client::wants).
    pub notifications: Vec<Notification>,
}

/// What a batch needs to know of its socket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Socket {
    /// Port id.
    pub(crate) port: u32,
    /// How errors are reported to it.
    pub(crate) acks: AckOptions,
    /// Whether another client is a member of a group.
    pub(crate) listened: bool,
}
