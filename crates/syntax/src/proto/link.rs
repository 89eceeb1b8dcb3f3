// SPDX-License-Identifier: Apache-2.0

//! Link headers, and the pseudo headers in their place.

use penstock_program::expr::{MetaKey, PayloadBase};

use super::network::{ARP, IP, IP6};
use super::{Proto, bits, field, meta};
use crate::datatype::{ByteOrder, DataType};

/// Ethernet.
pub static ETHER: Proto = Proto {
    name: "ether",
    base: PayloadBase::Link,
    templates: &[
        meta("protocol", DataType::EtherType, MetaKey::Protocol, 16, ByteOrder::Big),
        field("daddr", DataType::EtherAddr, 0, 48),
        field("saddr", DataType::EtherAddr, 48, 48),
        field("type", DataType::EtherType, 96, 16),
    ],
    protocol_key: Some(3),
    upper: ETHERTYPES,
    checksum: None,
    pseudo_header: &[],
    len: 112,
};

/// 802.1Q and 802.1ad.
pub static VLAN: Proto = Proto {
    name: "vlan",
    base: PayloadBase::Link,
    templates: &[
        meta("protocol", DataType::EtherType, MetaKey::Protocol, 16, ByteOrder::Big),
        bits("pcp", DataType::Integer, 0, 3),
        bits("dei", DataType::Integer, 3, 1),
        bits("cfi", DataType::Integer, 3, 1),
        bits("id", DataType::Integer, 4, 12),
        field("type", DataType::EtherType, 16, 16),
    ],
    protocol_key: Some(5),
    upper: ETHERTYPES,
    checksum: None,
    pseudo_header: &[],
    len: 32,
};

/// Where netdev chains start: `meta protocol` tells the network header.
pub static NETDEV: Proto = Proto {
    name: "netdev",
    base: PayloadBase::Link,
    templates: &[meta("protocol", DataType::EtherType, MetaKey::Protocol, 16, ByteOrder::Big)],
    protocol_key: Some(0),
    upper: ETHERTYPES,
    checksum: None,
    pseudo_header: &[],
    len: 0,
};

/// Where inet chains start: `meta nfproto` tells the network header.
pub static INET: Proto = Proto {
    name: "inet",
    base: PayloadBase::Link,
    templates: &[meta("nfproto", DataType::NfProto, MetaKey::NfProto, 8, ByteOrder::Host)],
    protocol_key: Some(0),
    upper: &[(2, &IP), (10, &IP6)],
    checksum: None,
    pseudo_header: &[],
    len: 0,
};

/// Ethertypes of the headers that nft knows.
static ETHERTYPES: &[(u32, &Proto)] =
    &[(0x0800, &IP), (0x0806, &ARP), (0x86dd, &IP6), (0x8100, &VLAN), (0x88a8, &VLAN)];
