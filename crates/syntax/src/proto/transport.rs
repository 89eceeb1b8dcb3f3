// SPDX-License-Identifier: Apache-2.0

//! Transport headers, and what else counts as one.

use penstock_program::expr::{ChecksumType, PayloadBase};

use super::{IcmpField, Proto, Template, bits, field, icmp};
use crate::datatype::DataType;

/// ICMP.
pub static ICMP: Proto = Proto {
    name: "icmp",
    base: PayloadBase::Transport,
    templates: &[
        field("type", DataType::IcmpType, 0, 8),
        field("code", DataType::IcmpCode, 8, 8),
        field("checksum", DataType::Integer, 16, 16),
        icmp("id", 32, 16, IcmpField::Echo),
        icmp("sequence", 48, 16, IcmpField::Echo),
        icmp("gateway", 32, 32, IcmpField::Address),
        icmp("mtu", 48, 16, IcmpField::Mtu),
    ],
    protocol_key: None,
    upper: &[],
    checksum: Some((2, ChecksumType::Inet)),
    pseudo_header: &[],
    len: 64,
};

/// ICMPv6.
pub static ICMPV6: Proto = Proto {
    name: "icmpv6",
    base: PayloadBase::Transport,
    templates: &[
        field("type", DataType::Icmp6Type, 0, 8),
        field("code", DataType::Icmpv6Code, 8, 8),
        field("checksum", DataType::Integer, 16, 16),
        icmp("parameter-problem", 32, 32, IcmpField::PointerParameter6),
        icmp("mtu", 32, 32, IcmpField::Mtu6),
        icmp("id", 32, 16, IcmpField::Echo6),
        icmp("sequence", 48, 16, IcmpField::Echo6),
        icmp("max-delay", 32, 16, IcmpField::MaxDelay6),
        Template { dtype: DataType::Ip6Addr, ..icmp("taddr", 64, 128, IcmpField::Target6) },
        Template { dtype: DataType::Ip6Addr, ..icmp("daddr", 192, 128, IcmpField::Redirect6) },
    ],
    protocol_key: None,
    upper: &[],
    checksum: Some((2, ChecksumType::Inet)),
    pseudo_header: &[],
    len: 64,
};

/// IGMP.
pub static IGMP: Proto = Proto {
    name: "igmp",
    base: PayloadBase::Transport,
    templates: &[
        field("type", DataType::IgmpType, 0, 8),
        field("checksum", DataType::Integer, 16, 16),
        field("mrt", DataType::Integer, 8, 8),
        field("group", DataType::Integer, 32, 32),
    ],
    protocol_key: None,
    upper: &[],
    checksum: Some((2, ChecksumType::Inet)),
    pseudo_header: &[],
    len: 64,
};

/// TCP.
pub static TCP: Proto = Proto {
    name: "tcp",
    base: PayloadBase::Transport,
    templates: &[
        field("sport", DataType::InetService, 0, 16),
        field("dport", DataType::InetService, 16, 16),
        field("sequence", DataType::Integer, 32, 32),
        field("ackseq", DataType::Integer, 64, 32),
        bits("doff", DataType::Integer, 96, 4),
        bits("reserved", DataType::Integer, 100, 4),
        bits("flags", DataType::TcpFlag, 104, 8),
        field("window", DataType::Integer, 112, 16),
        field("checksum", DataType::Integer, 128, 16),
        field("urgptr", DataType::Integer, 144, 16),
    ],
    protocol_key: None,
    upper: &[],
    checksum: Some((16, ChecksumType::Inet)),
    pseudo_header: &[],
    len: 160,
};

/// UDP.
pub static UDP: Proto = Proto {
    name: "udp",
    base: PayloadBase::Transport,
    templates: &[
        field("sport", DataType::InetService, 0, 16),
        field("dport", DataType::InetService, 16, 16),
        field("length", DataType::Integer, 32, 16),
        field("checksum", DataType::Integer, 48, 16),
    ],
    protocol_key: None,
    upper: &[],
    checksum: Some((6, ChecksumType::Inet)),
    pseudo_header: &[],
    len: 64,
};

/// UDP-Lite. nft leaves its checksum alone on writes.
pub static UDPLITE: Proto = Proto {
    name: "udplite",
    base: PayloadBase::Transport,
    templates: &[
        field("sport", DataType::InetService, 0, 16),
        field("dport", DataType::InetService, 16, 16),
        field("csumcov", DataType::Integer, 32, 16),
        field("checksum", DataType::Integer, 48, 16),
    ],
    protocol_key: None,
    upper: &[],
    checksum: None,
    pseudo_header: &[],
    len: 64,
};

/// DCCP.
pub static DCCP: Proto = Proto {
    name: "dccp",
    base: PayloadBase::Transport,
    templates: &[
        field("sport", DataType::InetService, 0, 16),
        field("dport", DataType::InetService, 16, 16),
        bits("type", DataType::DccpPktType, 67, 4),
    ],
    protocol_key: None,
    upper: &[],
    checksum: None,
    pseudo_header: &[],
    len: 96,
};

/// SCTP.
pub static SCTP: Proto = Proto {
    name: "sctp",
    base: PayloadBase::Transport,
    templates: &[
        field("sport", DataType::InetService, 0, 16),
        field("dport", DataType::InetService, 16, 16),
        field("vtag", DataType::Integer, 32, 32),
        field("checksum", DataType::Integer, 64, 32),
    ],
    protocol_key: None,
    upper: &[],
    checksum: Some((8, ChecksumType::Sctp)),
    pseudo_header: &[],
    len: 96,
};

/// IPsec authentication header.
pub static AH: Proto = Proto {
    name: "ah",
    base: PayloadBase::Transport,
    templates: &[
        field("nexthdr", DataType::InetProtocol, 0, 8),
        field("hdrlength", DataType::Integer, 8, 8),
        field("reserved", DataType::Integer, 16, 16),
        field("spi", DataType::Integer, 32, 32),
        field("sequence", DataType::Integer, 64, 32),
    ],
    protocol_key: Some(0),
    upper: &[
        (50, &ESP),
        (51, &AH),
        (108, &COMP),
        (17, &UDP),
        (136, &UDPLITE),
        (6, &TCP),
        (33, &DCCP),
        (132, &SCTP),
    ],
    checksum: None,
    pseudo_header: &[],
    len: 96,
};

/// IPsec encapsulating security payload.
pub static ESP: Proto = Proto {
    name: "esp",
    base: PayloadBase::Transport,
    templates: &[
        field("spi", DataType::Integer, 0, 32),
        field("sequence", DataType::Integer, 32, 32),
    ],
    protocol_key: None,
    upper: &[],
    checksum: None,
    pseudo_header: &[],
    len: 64,
};

/// IP payload compression.
pub static COMP: Proto = Proto {
    name: "comp",
    base: PayloadBase::Transport,
    templates: &[
        field("nexthdr", DataType::InetProtocol, 0, 8),
        field("flags", DataType::Bitmask, 8, 8),
        field("cpi", DataType::Integer, 16, 16),
    ],
    protocol_key: Some(0),
    upper: &[
        (50, &ESP),
        (51, &AH),
        (108, &COMP),
        (17, &UDP),
        (136, &UDPLITE),
        (6, &TCP),
        (33, &DCCP),
        (132, &SCTP),
    ],
    checksum: None,
    pseudo_header: &[],
    len: 32,
};

/// Any transport header with ports.
pub static TH: Proto = Proto {
    name: "th",
    base: PayloadBase::Transport,
    templates: &[
        field("sport", DataType::InetService, 0, 16),
        field("dport", DataType::InetService, 16, 16),
    ],
    protocol_key: None,
    upper: &[],
    checksum: None,
    pseudo_header: &[],
    len: 32,
};
