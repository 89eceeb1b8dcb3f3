// SPDX-License-Identifier: Apache-2.0

//! What programs read of a packet's route.

/// What is read of the route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum RtField {
    /// The realm.
    Classid,
    /// The next hop, or the destination without one, of the hook's family.
    Nexthop,
    /// Whether IPsec policy transforms the packet.
    Ipsec,
}

impl RtField {
    /// Bytes, where it depends on no family: the next hop has those of IPv6.
    pub(super) fn len(self, v6: bool) -> u8 {
        match self {
            RtField::Classid => 4,
            RtField::Nexthop => {
                if v6 {
                    16
                } else {
                    4
                }
            }
            RtField::Ipsec => 1,
        }
    }
}
