// SPDX-License-Identifier: Apache-2.0

//! A flow as listings and events show it.

use penstock_conntrack::Outline;
use penstock_flowtable::{Arrival, Xmit};
use penstock_ruleset::Family;

/// A flow as listings and events show it.
#[derive(Clone, Copy)]
pub struct ListedFlow<'a> {
    /// Family of the ruleset's table that its flowtable is in.
    pub family: Family,
    /// Its name.
    pub table: &'a str,
    /// The flowtable's.
    pub flowtable: &'a str,
    /// Its connection's.
    pub outline: Outline,
    /// When it was added, nanoseconds since the epoch.
    pub added: u64,
    /// When its latest packet went, nanoseconds since the epoch.
    pub used: u64,
    /// A FIN or a reset went.
    pub closing: bool,
    /// A device runs it too.
    pub hardware: bool,
    /// Packets and bytes from the network header on, of the original and of the reply direction.
    pub packets: [(u64, u64); 2],
    /// Where each direction arrives.
    pub arrivals: [&'a Arrival; 2],
    /// How each direction leaves.
    pub xmits: [&'a Xmit; 2],
}
