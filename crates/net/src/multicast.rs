// SPDX-License-Identifier: Apache-2.0

//! Groups that a bridge forwards by membership: settings, and entries that are added by hand
//! (`net/bridge/br_multicast.c`, `br_mdb.c`).

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use penstock_wire::ethernet::Mac;

/// Nanoseconds of a hundredth of a second, in which bridges count (`USER_HZ`).
pub(crate) const CENTISECOND: u64 = 10_000_000;

/// Whether something is a multicast router, and so gets what is for any group
/// (`MDB_RTR_TYPE_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MulticastRouter {
    /// It is none.
    Never,
    /// It is one for a while after a query, or another message of a router.
    #[default]
    Learned,
    /// It is one.
    Always,
}

impl MulticastRouter {
    /// By its number in `mcast_router`; `None` for the others.
    pub fn from_number(number: u8) -> Option<Self> {
        match number {
            0 => Some(MulticastRouter::Never),
            1 => Some(MulticastRouter::Learned),
            2 => Some(MulticastRouter::Always),
            _ => None,
        }
    }
}

/// How a bridge snoops memberships (`struct net_bridge_mcast`). Times are in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snooping {
    /// It does.
    pub on: bool,
    /// Whether the host is a multicast router.
    pub router: MulticastRouter,
    /// Groups at most; one more ends the snooping.
    pub hash_max: u32,
    /// Queries that a querier sends after a leave.
    pub last_member_count: u32,
    /// Time between them.
    pub last_member_interval: u64,
    /// How long a report counts.
    pub membership_interval: u64,
    /// How long a query counts.
    pub querier_interval: u64,
}

impl Default for Snooping {
    fn default() -> Self {
        Snooping {
            on: true,
            router: MulticastRouter::Learned,
            hash_max: 4096,
            last_member_count: 2,
            last_member_interval: 100 * CENTISECOND,
            membership_interval: 26_000 * CENTISECOND,
            querier_interval: 25_500 * CENTISECOND,
        }
    }
}

/// Address of a group (`struct br_ip`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GroupAddress {
    /// IPv4.
    V4(Ipv4Addr),
    /// IPv6.
    V6(Ipv6Addr),
    /// A link address, for frames that are neither IPv4 nor IPv6.
    Link(Mac),
}

impl fmt::Display for GroupAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GroupAddress::V4(address) => address.fmt(f),
            GroupAddress::V6(address) => address.fmt(f),
            GroupAddress::Link(address) => address.fmt(f),
        }
    }
}

/// A membership that the configuration makes (`struct br_mdb_entry`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MdbEntry {
    /// Index of the bridge.
    pub bridge: u32,
    /// Index of the port, 0 for the host.
    pub port: u32,
    /// VLAN, 0 without filtering.
    pub vid: u16,
    /// The group.
    pub group: GroupAddress,
    /// It stays for ever; others stay as long as a report counts.
    pub permanent: bool,
}
