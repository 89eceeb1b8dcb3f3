// SPDX-License-Identifier: Apache-2.0

//! What tunnels remember next to their configuration.

use std::collections::HashMap;

use crate::settings::SECOND;

/// What tunnels remember next to their configuration.
#[derive(Debug, Default)]
pub(crate) struct Tunnels {
    /// Tunnels that the current packet has entered.
    pub(crate) depth: u32,
    /// ICMP errors that came about outer packets, by index of the device: how many are still to be
    /// told on, and when the last one came (`tunnel->err_count`, `err_time`).
    pub(crate) errors: HashMap<u32, (u32, u64)>,
    pub(crate) path_mtus: PathMtus,
}

/// How long it counts (`net.ipv4.route.mtu_expires`, `net.ipv6.route.mtu_expires`).
const TIME: u64 = 600 * SECOND;

/// Paths kept at most; then all are forgotten, which the kernel does one by one.
const PATHS: usize = 4096;

/// By destination; IPv4 ones are mapped.
#[derive(Debug, Default)]
pub(crate) struct PathMtus {
    paths: HashMap<u128, (u32, u64)>,
}

impl PathMtus {
    /// A path has this MTU, from `now` on for ten minutes. Returns whether that was not known.
    pub(crate) fn learn(&mut self, destination: u128, mtu: u32, now: u64) -> bool {
        if self.paths.len() >= PATHS && !self.paths.contains_key(&destination) {
            self.paths.clear();
        }
        let before = self.paths.insert(destination, (mtu, now.saturating_add(TIME)));
        before.is_none_or(|(known, until)| known != mtu || until <= now)
    }

    /// The MTU of a path where one was learned.
    pub(crate) fn get(&self, destination: u128, now: u64) -> Option<u32> {
        if self.paths.is_empty() {
            return None;
        }
        self.paths.get(&destination).filter(|(_, until)| now < *until).map(|(mtu, _)| *mtu)
    }
}
