// SPDX-License-Identifier: Apache-2.0

//! Which drivers run XDP programs, and need not cut super-packets for it.

use std::sync::{Mutex, PoisonError};

use penstock_net::Link;
use penstock_netlink::XdpSocket;

use crate::devices::ports::has_super_packets;

/// What drivers of the namespace can.
#[derive(Debug)]
pub(super) struct Drivers {
    /// `None` if the kernel does not say.
    socket: Option<Mutex<XdpSocket>>,
}

impl Drivers {
    pub(super) fn new() -> Self {
        Drivers { socket: XdpSocket::new().ok().map(Mutex::new) }
    }

    /// Whether the driver of a device runs XDP programs, and packets are as they would be without.
    pub(super) fn run_xdp(&self, link: &Link) -> bool {
        if has_super_packets(&link.name, !link.kind_name().is_empty()) {
            return false;
        }
        let Some(socket) = &self.socket else { return false };
        let runners = socket.lock().unwrap_or_else(PoisonError::into_inner).runners();
        runners.is_ok_and(|runners| runners.contains(&link.index))
    }
}
