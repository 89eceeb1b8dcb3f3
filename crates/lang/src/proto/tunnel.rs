//! Headers that carry frames or packets again (`vxlan ip saddr …`, newer than nft 1.0.6).

use penstock_program::expr::PayloadBase;

use super::link::ETHER;
use super::network::{IP, IP6};
use super::{Proto, bits, field};
use crate::datatype::DataType;

/// VXLAN (RFC 7348), over UDP.
pub static VXLAN: Proto = Proto {
    name: "vxlan",
    base: PayloadBase::Tunnel,
    templates: &[bits("flags", DataType::Bitmask, 0, 8), field("vni", DataType::Integer, 32, 24)],
    protocol_key: Some(0),
    upper: &[(0, &ETHER)],
    checksum: None,
    pseudo_header: &[],
    len: 64,
};

/// GENEVE (RFC 8926), over UDP.
pub static GENEVE: Proto = Proto {
    name: "geneve",
    base: PayloadBase::Tunnel,
    templates: &[field("type", DataType::EtherType, 16, 16), field("vni", DataType::Integer, 32, 24)],
    protocol_key: Some(0),
    upper: &[(0, &ETHER)],
    checksum: None,
    pseudo_header: &[],
    len: 64,
};

/// GRE (RFC 2784) with a packet inside.
pub static GRE: Proto = Proto {
    name: "gre",
    base: PayloadBase::Transport,
    templates: &[
        bits("flags", DataType::Integer, 0, 5),
        bits("version", DataType::Integer, 13, 3),
        field("protocol", DataType::EtherType, 16, 16),
    ],
    protocol_key: Some(2),
    upper: &[(0x0800, &IP), (0x86dd, &IP6)],
    checksum: None,
    pseudo_header: &[],
    len: 32,
};

/// GRE with a frame inside.
pub static GRETAP: Proto = Proto {
    name: "gretap",
    base: PayloadBase::Transport,
    templates: &[],
    protocol_key: None,
    upper: &[(0, &ETHER)],
    checksum: None,
    pseudo_header: &[],
    len: 32,
};
