// SPDX-License-Identifier: Apache-2.0

//! What tunnels remember next to their configuration.

use std::collections::HashMap;

/// What tunnels remember next to their configuration.
#[derive(Debug, Default)]
pub(crate) struct Tunnels {
    /// Tunnels that the current packet has entered.
    pub(crate) depth: u32,
    /// ICMP errors that came about outer packets, by index of the device: how many are still to be
    /// told on, and when the last one came (`tunnel->err_count`, `err_time`).
    pub(crate) errors: HashMap<u32, (u32, u64)>,
}
