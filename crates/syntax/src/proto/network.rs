// SPDX-License-Identifier: Apache-2.0

//! Network headers.

use penstock_program::expr::{ChecksumType, MetaKey, PayloadBase};

use super::transport::{AH, COMP, DCCP, ESP, ICMP, ICMPV6, IGMP, SCTP, TCP, UDP, UDPLITE};
use super::tunnel::GRE;
use super::{Proto, bits, field, meta};
use crate::datatype::{ByteOrder, DataType};

/// ARP over Ethernet and IPv4.
pub static ARP: Proto = Proto {
    name: "arp",
    base: PayloadBase::Network,
    templates: &[
        field("htype", DataType::Integer, 0, 16),
        field("ptype", DataType::EtherType, 16, 16),
        field("hlen", DataType::Integer, 32, 8),
        field("plen", DataType::Integer, 40, 8),
        field("operation", DataType::ArpOp, 48, 16),
        field("saddr ether", DataType::EtherAddr, 64, 48),
        field("saddr ip", DataType::IpAddr, 112, 32),
        field("daddr ether", DataType::EtherAddr, 144, 48),
        field("daddr ip", DataType::IpAddr, 192, 32),
    ],
    protocol_key: None,
    upper: &[],
    checksum: None,
    pseudo_header: &[],
    len: 224,
};

/// IPv4.
pub static IP: Proto = Proto {
    name: "ip",
    base: PayloadBase::Network,
    templates: &[
        meta("l4proto", DataType::InetProtocol, MetaKey::L4Proto, 8, ByteOrder::Host),
        bits("version", DataType::Integer, 0, 4),
        bits("hdrlength", DataType::Integer, 4, 4),
        bits("dscp", DataType::Dscp, 8, 6),
        bits("ecn", DataType::Ecn, 14, 2),
        field("length", DataType::Integer, 16, 16),
        field("id", DataType::Integer, 32, 16),
        field("frag-off", DataType::Integer, 48, 16),
        field("ttl", DataType::Integer, 64, 8),
        field("protocol", DataType::InetProtocol, 72, 8),
        field("checksum", DataType::Integer, 80, 16),
        field("saddr", DataType::IpAddr, 96, 32),
        field("daddr", DataType::IpAddr, 128, 32),
    ],
    protocol_key: Some(0),
    upper: &[
        (1, &ICMP),
        (2, &IGMP),
        (6, &TCP),
        (17, &UDP),
        (33, &DCCP),
        (50, &ESP),
        (47, &GRE),
        (51, &AH),
        (58, &ICMPV6),
        (108, &COMP),
        (132, &SCTP),
        (136, &UDPLITE),
    ],
    checksum: Some((10, ChecksumType::Inet)),
    pseudo_header: &[5, 9, 11, 12],
    len: 160,
};

/// IPv6.
pub static IP6: Proto = Proto {
    name: "ip6",
    base: PayloadBase::Network,
    templates: &[
        meta("l4proto", DataType::InetProtocol, MetaKey::L4Proto, 8, ByteOrder::Host),
        bits("version", DataType::Integer, 0, 4),
        bits("dscp", DataType::Dscp, 4, 6),
        bits("ecn", DataType::Ecn, 10, 2),
        bits("flowlabel", DataType::Integer, 12, 20),
        field("length", DataType::Integer, 32, 16),
        field("nexthdr", DataType::InetProtocol, 48, 8),
        field("hoplimit", DataType::Integer, 56, 8),
        field("saddr", DataType::Ip6Addr, 64, 128),
        field("daddr", DataType::Ip6Addr, 192, 128),
    ],
    protocol_key: Some(0),
    upper: &[
        (1, &ICMP),
        (2, &IGMP),
        (6, &TCP),
        (17, &UDP),
        (33, &DCCP),
        (50, &ESP),
        (47, &GRE),
        (51, &AH),
        (58, &ICMPV6),
        (108, &COMP),
        (132, &SCTP),
        (136, &UDPLITE),
    ],
    checksum: None,
    pseudo_header: &[5, 6, 8, 9],
    len: 320,
};

/// Where the network protocol does not matter: `meta l4proto` tells the transport header.
pub static INET_SERVICE: Proto = Proto {
    name: "inet-service",
    base: PayloadBase::Network,
    templates: &[meta("l4proto", DataType::InetProtocol, MetaKey::L4Proto, 8, ByteOrder::Host)],
    protocol_key: Some(0),
    upper: &[
        (6, &TCP),
        (17, &UDP),
        (33, &DCCP),
        (132, &SCTP),
        (136, &UDPLITE),
        (1, &ICMP),
        (2, &IGMP),
        (50, &ESP),
        (51, &AH),
        (47, &GRE),
        (58, &ICMPV6),
        (108, &COMP),
    ],
    checksum: None,
    pseudo_header: &[],
    len: 0,
};
