// SPDX-License-Identifier: Apache-2.0

//! VLAN devices (`net/8021q`).

use super::{ForwardPath, Kind, Output};

/// A VLAN device: 802.1Q or 802.1ad on another link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vlan {
    /// Index of the link below.
    pub lower: u32,
    /// 0x8100 or 0x88a8.
    pub protocol: u16,
    /// 0 to 4095.
    pub id: u16,
    /// Priority code point of a received tag to packet priority; absent ones give 0.
    pub ingress_qos: Vec<(u8, u32)>,
    /// Packet priority to priority code point of the tag; absent ones give 0.
    pub egress_qos: Vec<(u32, u8)>,
}

impl Kind for Vlan {
    #[inline]
    fn name(&self) -> &str {
        "vlan"
    }

    #[inline]
    fn output(&self) -> Output<'_> {
        Output::Vlan(self)
    }

    #[inline]
    fn forward_path(&self) -> ForwardPath<'_> {
        // Otherwise the tag's priority depends on the packet's.
        if self.egress_qos.is_empty() {
            ForwardPath::Vlan { id: self.id, protocol: self.protocol, lower: self.lower }
        } else {
            ForwardPath::None
        }
    }

    fn lower(&self) -> Option<u32> {
        Some(self.lower)
    }
}
