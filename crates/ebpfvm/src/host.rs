// SPDX-License-Identifier: Apache-2.0

//! What a program learns of the world apart from its context and maps.

use std::net::IpAddr;

use crate::connection::{ConnectionFound, ConnectionQuery};
use crate::routing::{NetDevice, NoRoute, RouteFound, RouteQuery};

/// The world of a program. Time and randomness come from here, so that runs can be repeated.
pub trait Host {
    /// Nanoseconds since the machine began (`CLOCK_MONOTONIC`).
    fn now(&mut self) -> u64;

    /// A random number.
    fn random(&mut self) -> u32;

    /// A line of `bpf_trace_printk()`, without the newline at its end.
    fn trace(&mut self, line: &str) {
        let _ = line;
    }

    /// A device by its index. A host without a network has none.
    fn device(&mut self, index: u32) -> Option<NetDevice> {
        let _ = index;
        None
    }

    /// The route of a packet.
    ///
    /// # Errors
    /// Why there is none.
    fn route(&mut self, query: &RouteQuery) -> Result<RouteFound, NoRoute> {
        let _ = query;
        Err(NoRoute::NotForwarded)
    }

    /// A connection by one of its tuples.
    fn connection(&mut self, query: &ConnectionQuery) -> Option<ConnectionFound> {
        let _ = query;
        None
    }

    /// The link address of a neighbour on a device, if it is known.
    fn neighbour(&mut self, device: u32, address: IpAddr) -> Option<[u8; 6]> {
        let _ = (device, address);
        None
    }
}

/// A host where no time passes and nothing is random, for tests.
#[derive(Clone, Copy, Debug, Default)]
pub struct Still;

impl Host for Still {
    fn now(&mut self) -> u64 {
        0
    }

    fn random(&mut self) -> u32 {
        0
    }
}
