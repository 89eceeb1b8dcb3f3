// SPDX-License-Identifier: Apache-2.0

//! The types of sets, with what `struct ip_set_type` says of them in Linux 6.18.

use serde::{Deserialize, Serialize};

/// Address family of a set's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Family {
    /// None, or both (`NFPROTO_UNSPEC`).
    Any = 0,
    /// IPv4 (`NFPROTO_IPV4`).
    V4 = 2,
    /// IPv6 (`NFPROTO_IPV6`).
    V6 = 10,
}

impl Family {
    /// By its number (`NFPROTO_*`).
    pub fn from_number(number: u8) -> Option<Self> {
        match number {
            0 => Some(Family::Any),
            2 => Some(Family::V4),
            10 => Some(Family::V6),
            _ => None,
        }
    }

    /// Bytes of an address.
    pub(crate) fn address_len(self) -> usize {
        if self == Family::V6 { 16 } else { 4 }
    }

    /// Bits of an address.
    pub(crate) fn bits(self) -> u8 {
        self.address_len() as u8 * 8
    }
}

/// What one dimension of an element is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dimension {
    /// An address.
    Ip,
    /// A network, or an address as one of full length.
    Net,
    /// A protocol and a port; in bitmaps a port alone.
    Port,
    /// A link address.
    Mac,
    /// A packet mark.
    Mark,
    /// The name of a device.
    Iface,
}

use Dimension::{Iface, Ip, Mac, Mark, Net, Port};

/// A type of sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "named as the types are")]
pub enum Kind {
    BitmapIp,
    BitmapIpMac,
    BitmapPort,
    HashIp,
    HashMac,
    HashIpMac,
    HashIpMark,
    HashIpPort,
    HashIpPortIp,
    HashIpPortNet,
    HashNet,
    HashNetPort,
    HashNetIface,
    HashNetNet,
    HashNetPortNet,
    ListSet,
}

/// A row of [`ALL`]: the type, its name, its newest revision, its dimensions.
type Row = (Kind, &'static str, u8, &'static [Dimension]);

const ALL: [Row; 16] = [
    (Kind::BitmapIp, "bitmap:ip", 3, &[Ip]),
    (Kind::BitmapIpMac, "bitmap:ip,mac", 3, &[Ip, Mac]),
    (Kind::BitmapPort, "bitmap:port", 3, &[Port]),
    (Kind::HashIp, "hash:ip", 6, &[Ip]),
    (Kind::HashMac, "hash:mac", 1, &[Mac]),
    (Kind::HashIpMac, "hash:ip,mac", 1, &[Ip, Mac]),
    (Kind::HashIpMark, "hash:ip,mark", 3, &[Ip, Mark]),
    (Kind::HashIpPort, "hash:ip,port", 7, &[Ip, Port]),
    (Kind::HashIpPortIp, "hash:ip,port,ip", 6, &[Ip, Port, Ip]),
    (Kind::HashIpPortNet, "hash:ip,port,net", 8, &[Ip, Port, Net]),
    (Kind::HashNet, "hash:net", 7, &[Net]),
    (Kind::HashNetPort, "hash:net,port", 8, &[Net, Port]),
    (Kind::HashNetIface, "hash:net,iface", 8, &[Net, Iface]),
    (Kind::HashNetNet, "hash:net,net", 4, &[Net, Net]),
    (Kind::HashNetPortNet, "hash:net,port,net", 3, &[Net, Port, Net]),
    (Kind::ListSet, "list:set", 3, &[]),
];

impl Kind {
    fn row(self) -> &'static Row {
        ALL.iter().find(|row| row.0 == self).unwrap_or(&ALL[0])
    }

    /// By its name.
    pub fn from_name(name: &str) -> Option<Self> {
        ALL.iter().find(|row| row.1 == name).map(|row| row.0)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// Its newest revision; the oldest one is 0.
    pub fn newest_revision(self) -> u8 {
        self.row().2
    }

    /// Its dimensions, in order.
    pub fn dimensions(self) -> &'static [Dimension] {
        self.row().3
    }

    /// Dimensions that a rule has to name, at least: one of a list.
    pub(crate) fn least_dimensions(self) -> usize {
        self.dimensions().len().max(1)
    }

    /// It is kept as bits of a range.
    pub(crate) fn is_bitmap(self) -> bool {
        matches!(self, Kind::BitmapIp | Kind::BitmapIpMac | Kind::BitmapPort)
    }

    /// Elements with `nomatch` are taken.
    pub(crate) fn has_nets(self) -> bool {
        self.dimensions().contains(&Net)
    }

    /// Which family its sets have, if that is not to be chosen.
    fn family(self) -> Option<Family> {
        match self {
            Kind::BitmapIp | Kind::BitmapIpMac => Some(Family::V4),
            Kind::BitmapPort | Kind::HashMac | Kind::ListSet => Some(Family::Any),
            _ => None,
        }
    }

    /// Whether there is the type in a family, as requests name it (`find_set_type()`): types of no
    /// family are found by all.
    pub fn is_in(self, family: Family) -> bool {
        match self.family() {
            Some(Family::Any) | None => true,
            Some(own) => own == family,
        }
    }

    /// The family of a new set that a request names a family for: `None` if the type has no sets of
    /// it.
    pub(crate) fn family_of_new(self, given: Family) -> Option<Family> {
        match self.family() {
            Some(own) => Some(own),
            None => (given != Family::Any).then_some(given),
        }
    }

    /// The family that listings of types tell (`struct ip_set_type::family`).
    pub fn told_family(self) -> Family {
        self.family().unwrap_or(Family::Any)
    }

    /// Whether two sets may be exchanged: they have elements of the same dimensions
    /// (`struct ip_set_type::features`).
    pub(crate) fn is_like(self, other: Kind) -> bool {
        let features = |kind: Kind| {
            let with_ip = |d: &Dimension| if *d == Net { Ip } else { *d };
            (kind.dimensions().iter().map(with_ip).collect::<Vec<_>>(), kind.has_nets())
        };
        (self == Kind::ListSet) == (other == Kind::ListSet) && features(self) == features(other)
    }
}
