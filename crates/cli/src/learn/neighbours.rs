// SPDX-License-Identifier: Apache-2.0

//! Neighbours of a network that is known, as its captures show them.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::IpAddr;

use penstock_net::{Mac, Network};

use super::Learned;
use super::seen::{Seen, is_one};
use crate::input::{Captures, neighbour, route};

/// Lines that add the neighbours that captures show and `net` does not have.
///
/// # Errors
/// A capture cannot be read, or does not say what device its frames are of.
pub fn neighbours(captures: &Captures, net: &Network) -> Result<Learned, String> {
    let seen = Seen::of(captures, Some(net))?;
    let mut found: BTreeMap<(u32, IpAddr), BTreeMap<Mac, (bool, u64)>> = BTreeMap::new();
    for device in &seen.devices {
        // The run itself says that there is no such device.
        let Some(link) = net.link_by_name(&device.name) else { continue };
        for (number, vlan) in &device.vlans {
            let link = match number {
                0 => Some(link),
                number => net.links().iter().find(|l| {
                    l.vlan().is_some_and(|vlan| (vlan.lower, vlan.id) == (link.index, *number))
                }),
            };
            let Some(link) = link else { continue };
            let mut add = |address: IpAddr, mac: Mac, is_claimed: bool, frames: u64| {
                if mac == link.mac || mac.is_group() || !is_one(address) {
                    return;
                }
                let hop = match is_claimed {
                    true => Some(address),
                    false => next_hop(net, link.index, address),
                };
                if let Some(hop) = hop.filter(|hop| neighbour(net, link.index, *hop).is_none()) {
                    let told = found.entry((link.index, hop)).or_default().entry(mac).or_default();
                    told.0 |= is_claimed;
                    told.1 += frames;
                }
            };
            for (address, mac) in &vlan.claims {
                add(*address, *mac, true, 0);
            }
            for ((mac, address), source) in &vlan.sources {
                add(*address, *mac, false, source.frames);
            }
            for ((from, to, address), frames) in &vlan.destinations {
                if let (true, Some(to)) = (*from == link.mac, to) {
                    add(*address, *to, false, *frames);
                }
            }
        }
    }
    let (mut lines, mut notes) = (String::new(), Vec::new());
    for ((device, address), macs) in found {
        let name = net.link(device).map_or("", |link| &link.name);
        let most = macs.iter().max_by_key(|(_, told)| **told);
        let Some((mac, _)) = most else { continue };
        // Writing to a String does not fail.
        let _ = writeln!(lines, "neigh add {address} lladdr {mac} dev {name} nud permanent");
        if macs.len() > 1 {
            notes.push(format!(
                "{address} on {name} is seen with {} link addresses, most often with {mac}",
                macs.len()
            ));
        }
    }
    Ok(Learned { lines, notes })
}

/// The neighbour on a device that packets for an address go to; `None` if they do not leave there.
fn next_hop(net: &Network, device: u32, address: IpAddr) -> Option<IpAddr> {
    let hit = route(net, address, Some(device)).filter(|hit| hit.nexthop.oif == device)?;
    Some(hit.nexthop.gateway.unwrap_or(address))
}
