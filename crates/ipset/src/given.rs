// SPDX-License-Identifier: Apache-2.0

//! What requests say of sets and elements, attribute by attribute.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// `IPSET_FLAG_BEFORE`
pub const BEFORE: u32 = 1;
/// `IPSET_FLAG_PHYSDEV`
pub const PHYSDEV: u32 = 1 << 1;
/// `IPSET_FLAG_NOMATCH`
pub const NOMATCH: u32 = 1 << 2;
/// `IPSET_FLAG_WITH_COUNTERS`
pub const WITH_COUNTERS: u32 = 1 << 3;
/// `IPSET_FLAG_WITH_COMMENT`
pub const WITH_COMMENT: u32 = 1 << 4;
/// `IPSET_FLAG_WITH_FORCEADD`
pub const WITH_FORCEADD: u32 = 1 << 5;
/// `IPSET_FLAG_WITH_SKBINFO`
pub const WITH_SKBINFO: u32 = 1 << 6;
/// `IPSET_FLAG_IFACE_WILDCARD`
pub const IFACE_WILDCARD: u32 = 1 << 7;

/// What a request says of a new set (`IPSET_CMD_CREATE`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GivenSet {
    /// First address of a range, or any address of a network.
    pub ip: Option<IpAddr>,
    /// Last address of a range.
    pub ip_to: Option<IpAddr>,
    /// Length of the network's prefix.
    pub cidr: Option<u8>,
    /// First port of a range.
    pub port: Option<u16>,
    /// Last port of a range.
    pub port_to: Option<u16>,
    /// Seconds that elements live.
    pub timeout: Option<u32>,
    /// [`WITH_COUNTERS`] and others.
    pub flags: u32,
    /// Bits of marks that count.
    pub markmask: Option<u32>,
    /// Bits of addresses that count.
    pub bitmask: Option<IpAddr>,
    /// Leading bits of addresses that count.
    pub netmask: Option<u8>,
    /// Seed of the hash.
    pub initval: Option<u32>,
    /// Buckets.
    pub hashsize: Option<u32>,
    /// Most elements.
    pub maxelem: Option<u32>,
    /// Most elements of a bucket.
    pub bucketsize: Option<u8>,
    /// Size of a list.
    pub size: Option<u32>,
}

/// What a request says of elements (`IPSET_CMD_ADD`, `IPSET_CMD_DEL`, `IPSET_CMD_TEST`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Given {
    /// Address.
    pub ip: Option<IpAddr>,
    /// Last address of a range.
    pub ip_to: Option<IpAddr>,
    /// Length of the prefix.
    pub cidr: Option<u8>,
    /// Second address.
    pub ip2: Option<IpAddr>,
    /// Last second address of a range.
    pub ip2_to: Option<IpAddr>,
    /// Length of the second prefix.
    pub cidr2: Option<u8>,
    /// Port.
    pub port: Option<u16>,
    /// Last port of a range.
    pub port_to: Option<u16>,
    /// Protocol of IP.
    pub protocol: Option<u8>,
    /// Packet mark.
    pub mark: Option<u32>,
    /// Link address.
    pub mac: Option<[u8; 6]>,
    /// Name of a device.
    pub iface: Option<Box<str>>,
    /// Name of a set.
    pub name: Option<Box<str>>,
    /// The set in a list that [`BEFORE`], or its absence, speaks of.
    pub nameref: Option<Box<str>>,
    /// [`BEFORE`] and others.
    pub flags: u32,
    /// What else is said.
    pub extensions: GivenExtensions,
}

/// What a request says of what elements carry. What is missing is as it was, or zero.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GivenExtensions {
    /// Seconds to live, 0 for no end; the set's without it.
    pub timeout: Option<u32>,
    /// Packets.
    pub packets: Option<u64>,
    /// Bytes.
    pub bytes: Option<u64>,
    /// Comment.
    pub comment: Option<Box<str>>,
    /// Mark, and its mask in the lower half.
    pub skbmark: Option<u64>,
    /// Priority.
    pub skbprio: Option<u32>,
    /// Queue of the device.
    pub skbqueue: Option<u16>,
}
