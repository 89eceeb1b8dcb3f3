// SPDX-License-Identifier: Apache-2.0

//! `bridge mdb add`: memberships by hand (`br_mdb_add()`).

use std::net::IpAddr;

use crate::bridge::Vlans;
use crate::config::Config;
use crate::lines::{Words, address, unknown};
use crate::multicast::{GroupAddress, MdbEntry};

type Done = Result<(), String>;

/// A group that an entry can be about (`is_valid_mdb_entry()`).
fn group(text: &str) -> Result<GroupAddress, String> {
    let invalid = |why: &str| Err(format!("Invalid argument: {text} is {why}"));
    match address(text) {
        Some(IpAddr::V4(a)) if !a.is_multicast() => invalid("not the address of a group"),
        Some(IpAddr::V4(a)) if a.octets()[..3] == [224, 0, 0] => {
            invalid("a group of the link, which all ports get")
        }
        Some(IpAddr::V4(a)) => Ok(GroupAddress::V4(a)),
        Some(IpAddr::V6(a)) if !a.is_multicast() => invalid("not the address of a group"),
        Some(IpAddr::V6(a)) if u128::from(a) == 0xff02 << 112 | 1 => {
            invalid("the group of all nodes, which all ports get")
        }
        Some(IpAddr::V6(a)) => Ok(GroupAddress::V6(a)),
        None => match text.parse::<crate::Mac>() {
            Ok(mac) if !mac.is_group() => invalid("not the address of a group"),
            Ok(mac) => Ok(GroupAddress::Link(mac)),
            Err(_) => Err(format!("\"{text}\" is not an address")),
        },
    }
}

/// What follows `bridge mdb add`.
pub(crate) fn add(config: &mut Config, w: &mut Words<'_>) -> Done {
    let (mut dev, mut port, mut of) = (None, None, None);
    let (mut vid, mut permanent) = (0, false);
    while let Some(word) = w.next() {
        match word {
            "dev" => dev = Some(config.link(w.value()?)?.index),
            "port" => port = Some(config.link(w.value()?)?.index),
            "grp" => of = Some(group(w.value()?)?),
            "vid" => {
                vid = w.number()?;
                if vid > 4094 {
                    return Err(format!("{vid} is not a VLAN id"));
                }
            }
            "permanent" => permanent = true,
            "temp" => permanent = false,
            "src" | "filter_mode" | "source_list" | "proto" | "dst" | "dst_port" | "vni"
            | "src_vni" | "via" => {
                return Err(format!("\"{word}\" is not supported: sources are not looked at"));
            }
            other => return Err(unknown(other)),
        }
    }
    let (Some(dev), Some(port), Some(group)) = (dev, port, of) else {
        return Err(
            "\"bridge mdb add\" needs \"dev BRIDGE\", \"port DEVICE\" and \"grp GROUP\"".into()
        );
    };
    let port = if port == dev { 0 } else { port };
    config.add_mdb(MdbEntry { bridge: dev, port, vid, group, permanent })
}

impl Config {
    /// Whether the kernel takes such an entry now; the VLANs that it is for
    /// (`rtnl_net_br_mdb_add()`, `br_mdb_add_group()`).
    fn check_mdb(&self, entry: &MdbEntry) -> Result<Vec<u16>, String> {
        let invalid = |why: &str| Err(format!("Invalid argument: {why}"));
        let Some((link, bridge)) =
            self.by_index(entry.bridge).and_then(|link| Some((link, link.bridge()?)))
        else {
            return Err("Operation not supported: the device is no bridge".into());
        };
        if !link.up {
            return invalid("the bridge is not up");
        }
        if !bridge.snooping.on {
            return invalid("the bridge does not snoop memberships");
        }
        let of_link = matches!(entry.group, GroupAddress::Link(_));
        if of_link && !entry.permanent {
            return invalid("an entry with a link address is \"permanent\"");
        }
        let vlans: &Vlans = match entry.port {
            0 if !of_link && entry.permanent => {
                return invalid("memberships of the host are not \"permanent\"");
            }
            0 => &bridge.vlans,
            index => {
                let port = self.by_index(index);
                let of_bridge = port.and_then(|link| Some((link, link.port.as_ref()?)));
                match of_bridge.filter(|(_, port)| port.bridge == entry.bridge) {
                    None => return invalid("the device is no port of the bridge"),
                    Some((link, _)) if !link.up && !entry.permanent => {
                        return invalid("the port is not up, and the entry not \"permanent\"");
                    }
                    Some((_, port)) => &port.vlans,
                }
            }
        };
        Ok(match (bridge.vlan_filtering, entry.vid) {
            (true, 0) => vlans.ids().collect(),
            (true, vid) if vlans.untagged(vid).is_none() => {
                return invalid(&format!("VLAN {vid} is not configured"));
            }
            (_, vid) => vec![vid],
        })
    }

    /// `bridge mdb add`: without a VLAN on a bridge that filters, for all that the port is in.
    pub(crate) fn add_mdb(&mut self, entry: MdbEntry) -> Done {
        for vid in self.check_mdb(&entry)? {
            let same = |e: &MdbEntry| {
                (e.bridge, e.port, e.vid, e.group) == (entry.bridge, entry.port, vid, entry.group)
            };
            if self.mdb.iter().any(same) {
                return Err("File exists".into());
            }
            self.mdb.push(MdbEntry { vid, ..entry });
        }
        Ok(())
    }
}
