// SPDX-License-Identifier: Apache-2.0

//! Bridges: the device, its ports, VLANs, and the forwarding entries that the configuration makes.

use std::collections::BTreeMap;

use penstock_wire::ethernet::Mac;

use crate::multicast::{CENTISECOND, MulticastRouter, Snooping};

/// `BR_GROUPFWD_RESTRICTED`: the spanning tree, pause frames and aggregation are never forwarded.
pub(crate) const GROUP_FORWARD_RESTRICTED: u16 = 0b111;

/// A bridge device (`struct net_bridge`). There is no spanning tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bridge {
    /// Nanoseconds after which a learned address is forgotten; 0 for a bridge that learns nothing.
    pub ageing: u64,
    /// Frames are separated by VLANs.
    pub vlan_filtering: bool,
    /// Tags that name the VLAN: 0x8100 or 0x88a8.
    pub vlan_protocol: u16,
    /// VLAN of ports without their own configuration, 0 for none.
    pub default_pvid: u16,
    /// VLANs of the device itself.
    pub vlans: Vlans,
    /// Which of the addresses 01:80:c2:00:00:0X are forwarded.
    pub group_forward: u16,
    /// Addresses that are learned at most, 0 for as many as there is room for.
    pub learned_limit: u32,
    /// Addresses are learned from link-local frames, too.
    pub learn_link_local: bool,
    /// How multicast memberships are learned.
    pub snooping: Snooping,
    /// IPv4 packets pass the hooks of IP (`nf_call_iptables`).
    pub call_ip: bool,
    /// IPv6 packets pass the hooks of IP (`nf_call_ip6tables`).
    pub call_ip6: bool,
    /// Indices of the ports in the order in which frames are flooded: the last that was added comes
    /// first.
    pub ports: Vec<u32>,
    /// The MTU was set, and does not follow the ports.
    pub(crate) mtu_set: bool,
}

impl Default for Bridge {
    fn default() -> Self {
        Bridge {
            ageing: 30_000 * CENTISECOND,
            vlan_filtering: false,
            vlan_protocol: 0x8100,
            default_pvid: 1,
            vlans: Vlans::with_pvid(1),
            group_forward: 0,
            learned_limit: 0,
            learn_link_local: true,
            snooping: Snooping::default(),
            call_ip: false,
            call_ip6: false,
            ports: Vec::new(),
            mtu_set: false,
        }
    }
}

/// What makes a device a port of a bridge (`struct net_bridge_port`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BridgePort {
    /// Index of the bridge.
    pub bridge: u32,
    /// Frames may leave by the port that they came by.
    pub hairpin: bool,
    /// Frames from isolated ports do not leave by isolated ports.
    pub isolated: bool,
    /// Addresses are learned.
    pub learning: bool,
    /// Frames only from addresses that are known at this port.
    pub locked: bool,
    /// Takes frames to unknown addresses.
    pub flood: bool,
    /// Takes frames to groups that are not forwarded by membership.
    pub mcast_flood: bool,
    /// Whether there is a multicast router.
    pub mcast_router: MulticastRouter,
    /// A leave ends a membership at once, since there is one host only.
    pub fast_leave: bool,
    /// Takes broadcasts.
    pub bcast_flood: bool,
    /// Which of the addresses 01:80:c2:00:00:0X are forwarded from here.
    pub group_forward: u16,
    /// Its VLANs.
    pub vlans: Vlans,
}

impl BridgePort {
    /// A port as it is when it has just been added.
    pub fn new(bridge: u32, default_pvid: u16) -> Self {
        BridgePort {
            bridge,
            hairpin: false,
            isolated: false,
            learning: true,
            locked: false,
            flood: true,
            mcast_flood: true,
            mcast_router: MulticastRouter::Learned,
            fast_leave: false,
            bcast_flood: true,
            group_forward: 0,
            vlans: Vlans::with_pvid(default_pvid),
        }
    }
}

/// VLANs of a port, or of the bridge device (`struct net_bridge_vlan_group`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vlans {
    /// The VLAN of untagged frames, 0 for none: they are dropped.
    pub pvid: u16,
    /// Those it is in, and whether frames leave without a tag.
    members: BTreeMap<u16, bool>,
}

impl Vlans {
    /// One VLAN for untagged frames, or none for 0.
    pub(crate) fn with_pvid(pvid: u16) -> Self {
        let members = if pvid == 0 { BTreeMap::new() } else { BTreeMap::from([(pvid, true)]) };
        Vlans { pvid, members }
    }

    /// Whether frames of a VLAN leave without a tag; `None` if it is not among these.
    #[inline]
    pub fn untagged(&self, vid: u16) -> Option<bool> {
        self.members.get(&vid).copied()
    }

    /// All of them, in ascending order.
    pub fn ids(&self) -> impl Iterator<Item = u16> + '_ {
        self.members.keys().copied()
    }

    /// Adds a VLAN, or changes how it is a member (`nbp_vlan_add()`).
    pub fn add(&mut self, vid: u16, pvid: bool, untagged: bool) {
        self.members.insert(vid, untagged);
        if pvid {
            self.pvid = vid;
        } else if self.pvid == vid {
            self.pvid = 0;
        }
    }

    /// `false` if it was not there.
    pub(crate) fn delete(&mut self, vid: u16) -> bool {
        if self.pvid == vid {
            self.pvid = 0;
        }
        self.members.remove(&vid).is_some()
    }

    /// Whether a VLAN is there just as a default one is (`vlan_default_pvid()`).
    fn is_default(&self, vid: u16) -> bool {
        self.pvid == vid && self.untagged(vid) == Some(true)
    }

    /// Another default takes the place of the one before, unless either was touched by hand
    /// (`__br_vlan_set_default_pvid()`).
    pub(crate) fn change_default(&mut self, old: u16, new: u16) {
        if new == 0 {
            if self.is_default(old) {
                self.delete(old);
            }
            return;
        }
        if old != 0 && !self.is_default(old) || self.untagged(new).is_some() {
            return;
        }
        self.add(new, true, true);
        if old != 0 {
            self.delete(old);
        }
    }
}

/// An entry of a forwarding table that the configuration makes (`struct net_bridge_fdb_entry`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FdbEntry {
    /// Index of the bridge.
    pub bridge: u32,
    /// Address.
    pub mac: Mac,
    /// VLAN, 0 without filtering.
    pub vid: u16,
    /// Index of the port, 0 for the bridge device itself.
    pub port: u32,
    /// An address of the host: frames to it go up.
    pub local: bool,
    /// It stays for ever.
    pub is_static: bool,
    /// It stays at its port even if it is seen at another.
    pub sticky: bool,
}
