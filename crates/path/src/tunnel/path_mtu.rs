// SPDX-License-Identifier: Apache-2.0

//! What ICMP said about the MTU of paths that outer packets take (`__ip_rt_update_pmtu()`,
//! `__ip6_rt_update_pmtu()`).

use std::collections::HashMap;

use crate::settings::SECOND;

/// How long it counts (`net.ipv4.route.mtu_expires`, `net.ipv6.route.mtu_expires`).
const TIME: u64 = 600 * SECOND;
/// Paths kept at most; then all are forgotten, which the kernel does one by one.
const PATHS: usize = 4096;

/// By destination; IPv4 ones are mapped.
#[derive(Debug, Default)]
pub(super) struct PathMtus {
    paths: HashMap<u128, (u32, u64)>,
}

impl PathMtus {
    /// A path has this MTU, from `now` on for ten minutes. Gives whether that was not known.
    pub(super) fn learn(&mut self, destination: u128, mtu: u32, now: u64) -> bool {
        if self.paths.len() >= PATHS && !self.paths.contains_key(&destination) {
            self.paths.clear();
        }
        let before = self.paths.insert(destination, (mtu, now.saturating_add(TIME)));
        before.is_none_or(|(known, until)| known != mtu || until <= now)
    }

    /// The MTU of a path where one was learned.
    pub(super) fn get(&self, destination: u128, now: u64) -> Option<u32> {
        if self.paths.is_empty() {
            return None;
        }
        self.paths.get(&destination).filter(|(_, until)| now < *until).map(|(mtu, _)| *mtu)
    }
}
