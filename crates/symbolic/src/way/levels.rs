// SPDX-License-Identifier: Apache-2.0

//! The devices below a device: a frame passes them with the tags of the VLAN devices above.

use super::{Device, Way};

/// A VLAN tag that says which device above a frame is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Tag {
    /// 0x8100 or 0x88a8.
    pub protocol: u16,
    /// VLAN ID.
    pub id: u16,
    /// The VLAN device, by its index in the network.
    pub link: u32,
}

/// A device that a frame passes, with the tags that it has there.
#[derive(Clone, Debug)]
pub(crate) struct Level<'w> {
    /// The device.
    pub device: &'w Device,
    /// Tags, the outermost first.
    pub tags: Vec<Tag>,
}

impl Way<'_> {
    /// The devices that frames pass that are for a device, or that it sends: the lowest first, the
    /// device itself last.
    pub(crate) fn levels<'w>(&'w self, device: &'w Device) -> Vec<Level<'w>> {
        let mut levels = vec![Level { device, tags: Vec::new() }];
        let mut tags = Vec::new();
        let mut at = device.link;
        while let Some(vlan) = self.network.link(at).and_then(|link| link.vlan()) {
            let Some(lower) = self.device(vlan.lower) else { break };
            tags.insert(0, Tag { protocol: vlan.protocol, id: vlan.id, link: at });
            levels.push(Level { device: lower, tags: tags.clone() });
            at = vlan.lower;
        }
        levels.reverse();
        levels
    }
}
