// SPDX-License-Identifier: Apache-2.0

//! What a device has of the host's, in a form that can be written down: it comes back when the
//! device that had it is gone, and all that stood there with it.
//!
//! A device is kept with addresses, routes, nexthop objects and permanent neighbours on it, its
//! place in a bridge, and the VLAN devices and tunnels on it, each of them in the same way.

use std::collections::HashMap;
use std::io;

use penstock_net::Vlans;
use serde::{Deserialize, Serialize};

use crate::devconf::{device_settings, set_device_settings};
use crate::link::Device;
use crate::links::{Change, Dumps, Standing, change, set_port};
use crate::message::Message;
use crate::socket::Socket;
use crate::state::State;
use crate::upper::{self, Upper, uppers_of};
use crate::vlans::set_port_vlans;

/// Devices that stand on each other, at most.
const LEVELS: usize = 8;

/// A device and those that stand on it, the lower ones first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    links: Vec<KeptLink>,
}

/// One device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct KeptLink {
    index: u32,
    name: String,
    /// How it is made on which other one, if it stands on one.
    made: Option<(u32, Upper)>,
    mtu: u32,
    up: bool,
    generate: u8,
    queue_len: u32,
    group: u32,
    alias: String,
    bridge: Option<KeptPort>,
    standing: Standing,
    /// Settings by family (IPv6: `true`) and name.
    settings: Vec<(bool, String, u32)>,
}

/// A port of a bridge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct KeptPort {
    bridge: u32,
    settings: Vec<u8>,
    /// The VLAN of untagged frames, and those that it is in, with whether frames leave without a
    /// tag.
    pvid: u16,
    vlans: Vec<(u16, bool)>,
}

impl KeptPort {
    fn of(device: &Device) -> Option<KeptPort> {
        let master = device.master.as_ref().filter(|master| master.kind == "bridge")?;
        let vlans = device.link.port.as_ref().map(|port| &port.vlans);
        Some(KeptPort {
            bridge: master.index,
            settings: device.port_settings.clone(),
            pvid: vlans.map_or(0, |vlans| vlans.pvid),
            vlans: vlans
                .into_iter()
                .flat_map(|v| v.ids().map(|id| (id, v.untagged(id) == Some(true))))
                .collect(),
        })
    }

    fn restore(
        &self,
        socket: &mut Socket,
        state: &State,
        index: u32,
        isolated: bool,
    ) -> io::Result<()> {
        let is_bridge = |d: &&Device| d.link.index == self.bridge && d.link.bridge().is_some();
        if state.devices().iter().find(is_bridge).is_none() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "its bridge is gone"));
        }
        change(socket, index, &[Change::Master(self.bridge)])?;
        set_port(socket, index, &self.settings, Some(isolated))?;
        let mut vlans = Vlans::default();
        self.vlans.iter().for_each(|(id, untagged)| vlans.add(*id, *id == self.pvid, *untagged));
        set_port_vlans(socket, index, &vlans)
    }
}

impl KeptLink {
    fn of(device: &Device, made: Option<(u32, Upper)>, dumps: &Dumps) -> KeptLink {
        let link = &device.link;
        KeptLink {
            index: link.index,
            name: link.name.to_string(),
            made,
            mtu: link.mtu,
            up: link.up,
            generate: device.generate,
            queue_len: device.queue_len,
            group: link.group,
            alias: link.alias.as_deref().unwrap_or_default().to_owned(),
            bridge: KeptPort::of(device),
            standing: Standing::of(dumps, link.index).without_learned(),
            settings: device_settings(&link.name),
        }
    }

    /// Gives a device what this one had of its own.
    fn restore(
        &self,
        socket: &mut Socket,
        state: &State,
        index: u32,
        isolated: bool,
    ) -> io::Result<()> {
        let bridged = match &self.bridge {
            Some(port) => port.restore(socket, state, index, isolated),
            None => Ok(()),
        };
        let mut changes = vec![Change::Mtu(self.mtu)];
        if self.made.is_some() {
            changes.extend([
                Change::Generate(self.generate),
                Change::QueueLen(self.queue_len),
                Change::Group(self.group),
                Change::Alias(&self.alias),
            ]);
        }
        let there = state.devices().iter().find(|device| device.link.index == index);
        set_device_settings(there.map_or(&self.name, |device| &device.link.name), &self.settings);
        changes.push(Change::Up(self.up));
        change(socket, index, &changes).and(bridged)
    }
}

impl Kept {
    /// Reads what devices have, in the order of their indexes given; of one that is not there,
    /// nothing.
    ///
    /// # Errors
    /// Those of netlink.
    pub fn read(socket: &mut Socket, state: &State, indexes: &[u32]) -> io::Result<Vec<Kept>> {
        let (dumps, links) = (Dumps::read(socket)?, upper::links(socket)?);
        Ok(indexes.iter().map(|index| Kept::of(state, &dumps, &links, *index)).collect())
    }

    fn of(state: &State, dumps: &Dumps, links: &[Message], index: u32) -> Kept {
        let device = |index: u32| state.devices().iter().find(|d| d.link.index == index);
        let mut kept = Kept::default();
        let mut level = vec![(index, None)];
        for _ in 0..LEVELS {
            let mut next = Vec::new();
            for (index, made) in level {
                let Some(device) = device(index) else { continue };
                kept.links.push(KeptLink::of(device, made, dumps));
                next.extend(
                    uppers_of(links, index).into_iter().map(|u| (u.index, Some((index, u)))),
                );
            }
            level = next;
        }
        kept
    }

    /// Gives devices, by their indexes, what others had `seconds` ago that are gone. `isolated`
    /// says of a device, by its name, whether it is an isolated port of its bridge. Says what could
    /// not be given.
    ///
    /// # Errors
    /// Those of netlink, where nothing could be given.
    pub fn restore(
        socket: &mut Socket,
        all: &[(&Kept, u32)],
        seconds: u32,
        isolated: &dyn Fn(&str) -> bool,
    ) -> io::Result<Vec<String>> {
        let state = State::read(socket)?;
        let mut indexes: HashMap<u32, u32> = HashMap::new();
        let mut refused = Vec::new();
        for (kept, device) in all {
            for link in &kept.links {
                let index = match &link.made {
                    None => Ok(*device),
                    Some((lower, upper)) => {
                        let lower = indexes.get(lower).copied().unwrap_or(*device);
                        let there = state.devices().iter().find(|d| d.link.index == lower);
                        upper.again(socket, lower, there.map_or([0; 6], |d| d.link.mac.0))
                    }
                };
                let restored = index.and_then(|index| {
                    indexes.insert(link.index, index);
                    link.restore(socket, &state, index, isolated(&link.name))
                });
                refused.extend(restored.err().map(|e| format!("{}: {e}", link.name)));
            }
        }
        let index_of = |index: u32| indexes.get(&index).copied().unwrap_or(index);
        let mut put = || {
            let links = all.iter().flat_map(|(kept, _)| &kept.links);
            let links = links.filter_map(|link| Some((link, *indexes.get(&link.index)?)));
            links
                .flat_map(|(link, to)| {
                    let standing = link.standing.aged(seconds);
                    let all = standing.put_by(socket, to, &index_of, true);
                    all.into_iter().map(|e| format!("{}: {e}", link.name)).collect::<Vec<_>>()
                })
                .collect::<Vec<_>>()
        };
        // What is by several devices finds all of them at the second time.
        let first = put();
        refused.extend(if first.is_empty() { first } else { put() });
        Ok(refused)
    }
}
