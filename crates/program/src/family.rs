// SPDX-License-Identifier: Apache-2.0

//! Address families of tables.

use serde::{Deserialize, Serialize};

/// `NFPROTO_IPV4`.
pub const NFPROTO_IPV4: u8 = Family::Ip as u8;
/// `NFPROTO_IPV6`.
pub const NFPROTO_IPV6: u8 = Family::Ip6 as u8;

/// Address family of a table (`NFPROTO_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[repr(u8)]
pub enum Family {
    /// IPv4 and IPv6 in one table.
    Inet = 1,
    /// IPv4.
    Ip = 2,
    /// ARP.
    Arp = 3,
    /// Frames on a device.
    Netdev = 5,
    /// Frames on a bridge.
    Bridge = 7,
    /// IPv6.
    Ip6 = 10,
}

impl Family {
    /// As nft writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Family::Inet => "inet",
            Family::Ip => "ip",
            Family::Arp => "arp",
            Family::Netdev => "netdev",
            Family::Bridge => "bridge",
            Family::Ip6 => "ip6",
        }
    }

    /// The family that nft writes so.
    pub fn from_name(name: &str) -> Option<Family> {
        let all =
            [Family::Ip, Family::Ip6, Family::Inet, Family::Arp, Family::Bridge, Family::Netdev];
        all.into_iter().find(|family| family.name() == name)
    }

    /// The family with a number (`NFPROTO_*`), if there is one that tables can have.
    pub const fn from_number(number: u8) -> Option<Family> {
        Some(match number {
            1 => Family::Inet,
            2 => Family::Ip,
            3 => Family::Arp,
            5 => Family::Netdev,
            7 => Family::Bridge,
            10 => Family::Ip6,
            _ => return None,
        })
    }

    /// Whether its tables see IP packets at the hooks of IP.
    pub const fn is_ip(self) -> bool {
        match self {
            Family::Ip | Family::Ip6 | Family::Inet => true,
            Family::Arp | Family::Bridge | Family::Netdev => false,
        }
    }
}
