// SPDX-License-Identifier: Apache-2.0

//! Packets with a next hop under resolution (`net/core/neighbour.c`).
//!
//! As in the kernel a neighbour keeps some packets, the newest ones, and those that nobody's answer
//! frees are told to their senders. There is a limit on all of them together, so that a scan of a
//! network does not fill the memory.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

use penstock_packet::Packet;

use crate::hooks::Protocol;
use crate::route::Route;

#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) protocol: Protocol,
    pub(crate) packets: VecDeque<(Packet, Route)>,
    pub(crate) since: u64,
    pub(crate) asked: u64,
}

/// All packets that wait, by device and next hop.
#[derive(Debug, Default)]
pub(crate) struct NeighQueue {
    pub(crate) neighbours: HashMap<(u32, IpAddr), Waiting>,
    pub(crate) bytes: usize,
}

impl NeighQueue {
    /// Packets that wait.
    pub(crate) fn count(&self) -> usize {
        self.neighbours.values().map(|waiting| waiting.packets.len()).sum()
    }
}
