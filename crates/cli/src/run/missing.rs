// SPDX-License-Identifier: Apache-2.0

//! Frames that the network file has no place for, and the lines that give them one.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use penstock_net::{Link, Mac};
use penstock_packet::Packet;
use penstock_wire::ethernet;

/// Addresses that are told apart at most, of each kind.
const KEPT: usize = 1024;
/// Addresses that are named at most, of each kind.
const NAMED: usize = 5;

/// What was dropped since the network does not have its addresses.
#[derive(Default)]
pub struct Missing {
    /// Frames for other hosts, by the device that they came in by and their destination.
    others: Counts<(String, Mac)>,
    /// Packets for neighbours without a link address, by their device.
    neighbours: Counts<(String, IpAddr)>,
}

/// Numbers by an address.
struct Counts<K> {
    kept: BTreeMap<K, u64>,
    /// What is beyond those that are kept.
    more: u64,
}

impl<K> Default for Counts<K> {
    fn default() -> Self {
        Counts { kept: BTreeMap::new(), more: 0 }
    }
}

impl<K: Ord> Counts<K> {
    fn add(&mut self, key: K) {
        let is_full = self.kept.len() >= KEPT;
        match self.kept.get_mut(&key) {
            Some(count) => *count += 1,
            None if is_full => self.more += 1,
            None => drop(self.kept.insert(key, 1)),
        }
    }

    /// The most frequent first.
    fn in_order(&self) -> Vec<(&K, u64)> {
        let mut all: Vec<_> = self.kept.iter().map(|(key, count)| (key, *count)).collect();
        all.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        all
    }

    fn total(&self) -> u64 {
        self.kept.values().sum::<u64>() + self.more
    }
}

impl Missing {
    /// A frame that came in by a device was for another host.
    pub fn other_host(&mut self, device: &Link, packet: &Packet) {
        if let Some(header) = ethernet::Header::new(packet.link()) {
            self.others.add((device.name.to_string(), header.dst()));
        }
    }

    /// The link address of a neighbour on a device is unknown, for a packet.
    pub fn neighbour(&mut self, device: &Link, address: IpAddr) {
        self.neighbours.add((device.name.to_string(), address));
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = self.others.total();
        if total != 0 {
            writeln!(
                f,
                "note: {total} frames are for other hosts; if they are for this one, the network \
                 needs"
            )?;
            let all = self.others.in_order();
            for ((device, mac), count) in all.iter().take(NAMED) {
                writeln!(f, "    link set dev {device} address {mac}  # {count} frames")?;
            }
            more(f, all.len())?;
        }
        let total = self.neighbours.total();
        if total != 0 {
            writeln!(
                f,
                "note: {total} packets are for neighbours without a link address; the network \
                 needs (--learn-neighbours takes what the captures show)"
            )?;
            let all = self.neighbours.in_order();
            for ((device, address), count) in all.iter().take(NAMED) {
                writeln!(
                    f,
                    "    neigh add {address} lladdr ADDRESS dev {device} nud permanent  # {count} \
                     packets"
                )?;
            }
            more(f, all.len())?;
        }
        Ok(())
    }
}

/// Says how many are not named.
fn more(f: &mut fmt::Formatter<'_>, count: usize) -> fmt::Result {
    match count.checked_sub(NAMED) {
        None | Some(0) => Ok(()),
        Some(more) => writeln!(f, "    and {more} more"),
    }
}
