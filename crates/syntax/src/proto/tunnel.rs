// SPDX-License-Identifier: Apache-2.0

//! Headers that carry frames or packets again (`vxlan ip saddr …`, newer than nft 1.0.6).

use penstock_program::expr::PayloadBase;
use penstock_ruleset::Family;

use super::{Proto, bits, field};
use crate::datatype::DataType;

/// VXLAN (RFC 7348), over UDP.
pub static VXLAN: Proto = Proto {
    name: "vxlan",
    base: PayloadBase::Tunnel,
    templates: &[bits("flags", DataType::Bitmask, 0, 8), field("vni", DataType::Integer, 32, 24)],
    protocol_key: None,
    upper: &[],
    checksum: None,
    pseudo_header: &[],
    len: 64,
};

/// GENEVE (RFC 8926), over UDP.
pub static GENEVE: Proto = Proto {
    name: "geneve",
    base: PayloadBase::Tunnel,
    templates: &[
        field("type", DataType::EtherType, 16, 16),
        field("vni", DataType::Integer, 32, 24),
    ],
    protocol_key: None,
    upper: &[],
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
    protocol_key: None,
    upper: &[],
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
    upper: &[],
    checksum: None,
    pseudo_header: &[],
    len: 32,
};

/// `NFT_INNER_HDRSIZE`: the size of the tunnel's header is given.
const HDRSIZE: u32 = 1;
/// `NFT_INNER_LL`: there is a link header inside.
const LINK: u32 = 2;
/// `NFT_INNER_NH`: there is a network header inside.
const NETWORK: u32 = 4;
/// `NFT_INNER_TH`: there is a transport header inside.
const TRANSPORT: u32 = 8;

/// How a tunnel is encoded for the kernel: the fields of [`penstock_program::expr::Inner`].
struct Layout {
    tunnel: &'static Proto,
    kind: u32,
    hdrsize: u32,
    flags: u32,
}

/// Types 1 and 2 mean something to the kernel (`enum nft_inner_type`), those above are nft's own.
static LAYOUTS: &[Layout] = &[
    Layout { tunnel: &VXLAN, kind: 1, hdrsize: 8, flags: HDRSIZE | LINK | NETWORK | TRANSPORT },
    Layout { tunnel: &GENEVE, kind: 2, hdrsize: 8, flags: HDRSIZE | LINK | NETWORK | TRANSPORT },
    Layout { tunnel: &GRE, kind: 3, hdrsize: 4, flags: NETWORK | TRANSPORT },
    Layout { tunnel: &GRETAP, kind: 4, hdrsize: 4, flags: LINK | NETWORK | TRANSPORT },
];

/// Whether packets inside of such a header can be matched.
pub fn is_tunnel(proto: &Proto) -> bool {
    LAYOUTS.iter().any(|l| l.tunnel == proto)
}

/// Type, size of the header in bytes, and flags, as `inner` has them; `None` if it is no tunnel.
pub fn layout(tunnel: &Proto) -> Option<(u32, u32, u32)> {
    LAYOUTS.iter().find(|l| l.tunnel == tunnel).map(|l| (l.kind, l.hdrsize, l.flags))
}

/// The tunnel of a type of `inner`.
pub fn of_kind(kind: u32) -> Option<&'static Proto> {
    LAYOUTS.iter().find(|l| l.kind == kind).map(|l| l.tunnel)
}

/// Whether a tunnel carries frames rather than packets.
pub fn has_link(tunnel: &Proto) -> bool {
    LAYOUTS.iter().any(|l| l.tunnel == tunnel && l.flags & LINK != 0)
}

/// The family with the dependency rules that hold inside: bridge for frames, netdev for packets.
pub fn family_inside(tunnel: &Proto) -> Family {
    if has_link(tunnel) { Family::Bridge } else { Family::Netdev }
}
