// SPDX-License-Identifier: Apache-2.0

//! What the kernel makes of the configuration of bridges (`net/bridge/br_if.c`, `br_vlan.c`,
//! `br_fdb.c`).

use crate::bridge::{Bridge, BridgePort, FdbEntry};
use crate::config::Config;
use crate::kind::Kind;
use crate::{Link, Mac};

/// VLANs that a command names: from the first to the last.
pub(crate) type Range = std::ops::RangeInclusive<u16>;

impl Config {
    /// The bridge with this index, for changes.
    pub(crate) fn bridge_mut(&mut self, index: u32) -> Option<&mut Bridge> {
        self.link_mut(index)?.bridge_mut()
    }

    /// The port that this device is, for changes.
    pub(crate) fn port_mut(&mut self, index: u32) -> Option<&mut BridgePort> {
        self.link_mut(index)?.port.as_mut()
    }

    /// Whether `upper` stands on `lower`, through any number of devices.
    fn is_above(&self, upper: u32, lower: u32) -> bool {
        let mut todo = vec![upper];
        let mut seen = vec![];
        while let Some(index) = todo.pop() {
            if index == lower {
                return true;
            }
            if seen.contains(&index) {
                continue;
            }
            seen.push(index);
            let Some(link) = self.by_index(index) else { continue };
            todo.extend(link.kind.lower());
            todo.extend(link.bridge().into_iter().flat_map(|b| b.ports.iter().copied()));
        }
        false
    }

    /// `link set DEV master BRIDGE` (`br_add_if()`).
    pub(crate) fn attach(&mut self, index: u32, bridge: u32) -> Result<(), String> {
        let Some(default_pvid) =
            self.by_index(bridge).and_then(Link::bridge).map(|b| b.default_pvid)
        else {
            return Err("Operation not supported: the master is no bridge".into());
        };
        let Some(link) = self.by_index(index) else { return Ok(()) };
        if link.is_loopback() {
            return Err("Invalid argument: the loopback device cannot be a port".into());
        }
        if !link.has_link_header() {
            return Err("Invalid argument: the device is not Ethernet".into());
        }
        if link.bridge().is_some() {
            return Err("Can not enslave a bridge to a bridge".into());
        }
        if link.port.as_ref().is_some_and(|p| p.bridge == bridge) {
            return Ok(());
        }
        if self.is_above(index, bridge) {
            return Err(
                "Too many levels of symbolic links: the device stands on that bridge".into()
            );
        }
        self.detach(index);
        if let Some(link) = self.link_mut(index) {
            link.port = Some(BridgePort::new(bridge, default_pvid));
        }
        if let Some(b) = self.bridge_mut(bridge) {
            b.ports.insert(0, index);
        }
        self.follow_ports(bridge);
        self.carrier(bridge);
        Ok(())
    }

    /// `link set DEV nomaster` (`br_del_if()`).
    pub(crate) fn detach(&mut self, index: u32) {
        let Some(port) = self.link_mut(index).and_then(|l| l.port.take()) else { return };
        if let Some(b) = self.bridge_mut(port.bridge) {
            b.ports.retain(|p| *p != index);
        }
        self.fdb.retain(|e| e.port != index);
        self.mdb.retain(|e| e.port != index);
        self.follow_ports(port.bridge);
    }

    /// The address of a bridge is the least of its ports' and its MTU the smallest, unless they
    /// were set (`br_stp_recalculate_bridge_id()`, `br_mtu_auto_adjust()`).
    pub(crate) fn follow_ports(&mut self, bridge: u32) {
        let Some(link) = self.by_index(bridge) else { return };
        let Some(b) = link.bridge() else { return };
        let ports = || b.ports.iter().filter_map(|p| self.by_index(*p));
        let mac = ports().map(|l| l.mac).min_by_key(|m| m.0).filter(|_| link.mac_inherited);
        let mtu = ports().map(|l| l.mtu).min().filter(|_| !b.mtu_set);
        if let Some(mac) = mac {
            self.inherit_mac(bridge, mac);
        }
        if let Some(mtu) = mtu {
            self.change_mtu(bridge, mtu);
        }
    }

    /// The address of a device and of the VLAN devices on it that follow.
    fn inherit_mac(&mut self, index: u32, mac: Mac) {
        if let Some(l) = self.link_mut(index) {
            l.mac = mac;
        }
        for upper in self.uppers(index) {
            if let Some(l) = self.link_mut(upper).filter(|l| l.mac_inherited) {
                l.mac = mac;
            }
        }
    }

    /// Whether a bridge has a port that is up: without one it has no carrier.
    pub(crate) fn has_carrier(&self, bridge: u32) -> bool {
        let ports = self.by_index(bridge).and_then(Link::bridge).map_or(&[][..], |b| &b.ports);
        ports.iter().any(|p| self.by_index(*p).is_some_and(|l| l.up))
    }

    /// A port came up, or was added: with the first, IPv6 begins on the bridge.
    pub(crate) fn carrier(&mut self, bridge: u32) {
        if self.by_index(bridge).is_some_and(|l| l.up && l.mtu >= 1280)
            && self.has_carrier(bridge)
            && let Some(address) = self.start6(bridge)
        {
            self.routes_of6(bridge, &address);
        }
    }

    /// Another default VLAN (`__br_vlan_set_default_pvid()`).
    pub(crate) fn set_default_pvid(&mut self, bridge: u32, pvid: u16) {
        let Some(b) = self.bridge_mut(bridge) else { return };
        let old = std::mem::replace(&mut b.default_pvid, pvid);
        if old == pvid {
            return;
        }
        b.vlans.change_default(old, pvid);
        for port in b.ports.clone() {
            if let Some(p) = self.port_mut(port) {
                p.vlans.change_default(old, pvid);
            }
        }
    }

    /// `bridge vlan add`, `bridge vlan del`: on a port, or with `own` on the bridge device itself.
    pub(crate) fn change_vlans(
        &mut self,
        device: u32,
        range: Range,
        own: bool,
        change: Option<(bool, bool)>,
    ) -> Result<(), String> {
        let vlans = if own {
            self.bridge_mut(device).map(|b| &mut b.vlans).ok_or("\"self\" needs a bridge")?
        } else {
            self.port_mut(device)
                .map(|p| &mut p.vlans)
                .ok_or("the device is no port of a bridge")?
        };
        for vid in range.clone() {
            match change {
                Some((pvid, untagged)) => vlans.add(vid, pvid, untagged),
                None if vlans.delete(vid) => {}
                None => return Err(format!("No such file or directory: VLAN {vid} is not there")),
            }
        }
        if change.is_none() {
            let owner = if own { 0 } else { device };
            self.fdb.retain(|e| e.port != owner || !range.contains(&e.vid));
        }
        Ok(())
    }

    /// `bridge fdb add` (`fdb_add_entry()`): without a VLAN, for none and for all that the port is
    /// in.
    pub(crate) fn add_fdb(&mut self, entry: FdbEntry, replace: bool) -> Result<(), String> {
        let vlans = match entry.port {
            0 => self.by_index(entry.bridge).and_then(Link::bridge).map(|b| &b.vlans),
            port => self.by_index(port).and_then(|l| l.port.as_ref()).map(|p| &p.vlans),
        };
        let Some(vlans) = vlans else { return Err("the device is no port of a bridge".into()) };
        let vids = match entry.vid {
            0 => [0].into_iter().chain(vlans.ids()).collect(),
            vid if vlans.untagged(vid).is_some() => vec![vid],
            vid => {
                return Err(format!("Invalid argument: VLAN {vid} is not configured on the port"));
            }
        };
        for vid in vids {
            let same = |e: &FdbEntry| (e.bridge, e.mac, e.vid) == (entry.bridge, entry.mac, vid);
            match self.fdb.iter().position(same) {
                Some(_) if !replace => return Err("File exists".into()),
                Some(at) => self.fdb[at] = FdbEntry { vid, ..entry },
                None => self.fdb.push(FdbEntry { vid, ..entry }),
            }
        }
        Ok(())
    }

    /// All entries that the configuration makes: those added, and the addresses of ports and
    /// bridges, which are the host's (`fdb_add_local()`). If ports have the same address, the entry
    /// belongs to the first one.
    pub(crate) fn all_fdb(&self) -> Vec<FdbEntry> {
        let mut all: Vec<FdbEntry> = Vec::new();
        let mut add = |entry: FdbEntry| {
            if !all.iter().any(|e| (e.bridge, e.mac, e.vid) == (entry.bridge, entry.mac, entry.vid))
            {
                all.push(entry);
            }
        };
        for link in &self.links {
            let Some(bridge) = link.bridge() else { continue };
            let local = |mac, vid, port| FdbEntry {
                bridge: link.index,
                mac,
                vid,
                port,
                local: true,
                is_static: true,
                sticky: false,
            };
            for index in bridge.ports.iter().rev() {
                let Some(port) = self.by_index(*index) else { continue };
                let vids = port.port.iter().flat_map(|p| p.vlans.ids());
                [0].into_iter().chain(vids).for_each(|vid| add(local(port.mac, vid, *index)));
            }
            [0].into_iter().chain(bridge.vlans.ids()).for_each(|vid| add(local(link.mac, vid, 0)));
        }
        self.fdb.iter().copied().for_each(add);
        all
    }
}
