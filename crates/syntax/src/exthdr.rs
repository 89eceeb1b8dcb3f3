// SPDX-License-Identifier: Apache-2.0

//! Extension headers, options and chunks (nft's `struct exthdr_desc`): IPv6 extension headers, TCP
//! and IPv4 options, SCTP chunks.

use penstock_program::expr::ExthdrOp;

use crate::datatype::{ByteOrder, DataType};
use crate::proto::{IcmpField, Template};

/// An extension header, option or chunk.
#[derive(Debug)]
pub struct ExthdrDesc {
    /// As written.
    pub name: &'static str,
    /// Number on the wire.
    pub kind: u8,
    /// What walks to it.
    pub op: ExthdrOp,
    /// Fields, offsets in bits from its start.
    pub templates: &'static [Template],
}

impl PartialEq for ExthdrDesc {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for ExthdrDesc {}

impl ExthdrDesc {
    /// The field of that name.
    pub fn template(&self, name: &str) -> Option<&'static Template> {
        self.templates.iter().find(|t| t.name == name)
    }

    /// The field on exactly these bits.
    pub fn template_at(&self, offset: u32, len: u32) -> Option<&'static Template> {
        self.templates.iter().find(|t| t.offset == offset && t.len == len)
    }
}

const fn field(name: &'static str, dtype: DataType, offset: u32, len: u32) -> Template {
    Template { name, dtype, offset, len, order: ByteOrder::Big, meta: None, icmp: IcmpField::Any }
}

const fn bits(name: &'static str, dtype: DataType, offset: u32, len: u32) -> Template {
    Template { name, dtype, offset, len, order: ByteOrder::Host, meta: None, icmp: IcmpField::Any }
}

/// An IPv6 extension header by name: `hbh`, `rt`, `rt0`, `rt2`, `srh`, `frag`, `dst`, `mh`.
pub fn ipv6(name: &str) -> Option<&'static ExthdrDesc> {
    IPV6.iter().find(|d| d.name == name)
}

/// A TCP option by name, the grammar's other spellings (`mss`, `sack-permitted`, `sack0`) included.
pub fn tcp_option(name: &str) -> Option<&'static ExthdrDesc> {
    let name = match name {
        "mss" => "maxseg",
        "sack-permitted" => "sack-perm",
        "sack0" => "sack",
        other => other,
    };
    TCP_OPTIONS.iter().find(|d| d.name == name)
}

/// The TCP option of a number. `sack` stands for all of its blocks.
pub fn tcp_option_by_kind(kind: u8) -> Option<&'static ExthdrDesc> {
    TCP_OPTIONS.iter().find(|d| d.kind == kind)
}

/// An IPv4 option by name.
pub fn ipv4_option(name: &str) -> Option<&'static ExthdrDesc> {
    IPV4_OPTIONS.iter().find(|d| d.name == name)
}

/// An SCTP chunk by name.
pub fn sctp_chunk(name: &str) -> Option<&'static ExthdrDesc> {
    SCTP_CHUNKS.iter().find(|d| d.name == name)
}

/// The header, option or chunk and its field that a VM expression's numbers stand for. Offset and
/// length in bits. A routing header is found by the field: several share number 43.
pub fn find_field(
    op: ExthdrOp,
    kind: u8,
    offset: u32,
    len: u32,
) -> Option<(&'static ExthdrDesc, &'static Template)> {
    table(op)
        .iter()
        .filter(|d| d.kind == kind)
        .find_map(|desc| desc.template_at(offset, len).map(|field| (desc, field)))
}

/// The header, option or chunk of a number (the first of those that share it).
pub fn find_kind(op: ExthdrOp, kind: u8) -> Option<&'static ExthdrDesc> {
    table(op).iter().find(|d| d.kind == kind)
}

fn table(op: ExthdrOp) -> &'static [ExthdrDesc] {
    match op {
        ExthdrOp::Ipv6 => IPV6,
        ExthdrOp::TcpOpt => TCP_OPTIONS,
        ExthdrOp::Ipv4Opt => IPV4_OPTIONS,
        ExthdrOp::Sctp => SCTP_CHUNKS,
        ExthdrOp::Dccp => &[],
    }
}

/// IPv6 extension headers.
pub static IPV6: &[ExthdrDesc] = &[
    ExthdrDesc {
        name: "hbh",
        kind: 0,
        op: ExthdrOp::Ipv6,
        templates: &[
            field("nexthdr", DataType::InetProtocol, 0, 8),
            field("hdrlength", DataType::Integer, 8, 8),
        ],
    },
    ExthdrDesc {
        name: "rt",
        kind: 43,
        op: ExthdrOp::Ipv6,
        templates: &[
            field("nexthdr", DataType::InetProtocol, 0, 8),
            field("hdrlength", DataType::Integer, 8, 8),
            field("type", DataType::Integer, 16, 8),
            field("seg-left", DataType::Integer, 24, 8),
        ],
    },
    ExthdrDesc {
        name: "srh",
        kind: 43,
        op: ExthdrOp::Ipv6,
        templates: &[
            field("last-entry", DataType::Integer, 32, 8),
            field("flags", DataType::Integer, 40, 8),
            field("tag", DataType::Integer, 48, 16),
            field("sid[1]", DataType::Ip6Addr, 64, 128),
        ],
    },
    ExthdrDesc {
        name: "rt0",
        kind: 43,
        op: ExthdrOp::Ipv6,
        templates: &[
            field("reserved", DataType::Integer, 32, 32),
            field("addr[1]", DataType::Ip6Addr, 64, 128),
        ],
    },
    ExthdrDesc {
        name: "rt2",
        kind: 43,
        op: ExthdrOp::Ipv6,
        templates: &[
            field("reserved", DataType::Integer, 32, 32),
            field("addr", DataType::Ip6Addr, 64, 128),
        ],
    },
    ExthdrDesc {
        name: "frag",
        kind: 44,
        op: ExthdrOp::Ipv6,
        templates: &[
            field("nexthdr", DataType::InetProtocol, 0, 8),
            field("reserved", DataType::Integer, 8, 8),
            bits("frag-off", DataType::Integer, 16, 13),
            bits("reserved2", DataType::Integer, 29, 2),
            bits("more-fragments", DataType::Integer, 31, 1),
            field("id", DataType::Integer, 32, 32),
        ],
    },
    ExthdrDesc {
        name: "dst",
        kind: 60,
        op: ExthdrOp::Ipv6,
        templates: &[
            field("nexthdr", DataType::InetProtocol, 0, 8),
            field("hdrlength", DataType::Integer, 8, 8),
        ],
    },
    ExthdrDesc {
        name: "mh",
        kind: 135,
        op: ExthdrOp::Ipv6,
        templates: &[
            field("nexthdr", DataType::InetProtocol, 0, 8),
            field("hdrlength", DataType::Integer, 8, 8),
            field("type", DataType::MhType, 16, 8),
            field("reserved", DataType::Integer, 24, 8),
            field("checksum", DataType::Integer, 32, 16),
        ],
    },
];

const KIND: Template = field("kind", DataType::Integer, 0, 8);
const LENGTH: Template = field("length", DataType::Integer, 8, 8);

const fn tcp(name: &'static str, kind: u8, templates: &'static [Template]) -> ExthdrDesc {
    ExthdrDesc { name, kind, op: ExthdrOp::TcpOpt, templates }
}

/// TCP options. `sack1` to `sack3` are later blocks of `sack`.
pub static TCP_OPTIONS: &[ExthdrDesc] = &[
    tcp("eol", 0, &[KIND]),
    tcp("nop", 1, &[KIND]),
    tcp("maxseg", 2, &[KIND, LENGTH, field("size", DataType::Integer, 16, 16)]),
    tcp("window", 3, &[KIND, LENGTH, field("count", DataType::Integer, 16, 8)]),
    tcp("sack-perm", 4, &[KIND, LENGTH]),
    tcp(
        "sack",
        5,
        &[
            KIND,
            LENGTH,
            field("left", DataType::Integer, 16, 32),
            field("right", DataType::Integer, 48, 32),
        ],
    ),
    tcp(
        "sack1",
        5,
        &[field("left", DataType::Integer, 80, 32), field("right", DataType::Integer, 112, 32)],
    ),
    tcp(
        "sack2",
        5,
        &[field("left", DataType::Integer, 144, 32), field("right", DataType::Integer, 176, 32)],
    ),
    tcp(
        "sack3",
        5,
        &[field("left", DataType::Integer, 208, 32), field("right", DataType::Integer, 240, 32)],
    ),
    tcp(
        "timestamp",
        8,
        &[
            KIND,
            LENGTH,
            field("tsval", DataType::Integer, 16, 32),
            field("tsecr", DataType::Integer, 48, 32),
        ],
    ),
    tcp("md5sig", 19, &[KIND, LENGTH]),
    tcp("mptcp", 30, &[KIND, LENGTH, bits("subtype", DataType::MptcpSubtype, 16, 4)]),
    tcp("fastopen", 34, &[KIND, LENGTH]),
];

const fn ip(name: &'static str, kind: u8, templates: &'static [Template]) -> ExthdrDesc {
    ExthdrDesc { name, kind, op: ExthdrOp::Ipv4Opt, templates }
}

const TYPE: Template = field("type", DataType::Integer, 0, 8);

const ROUTE: &[Template] = &[
    TYPE,
    LENGTH,
    field("ptr", DataType::Integer, 16, 8),
    field("addr", DataType::Integer, 24, 32),
];

/// IPv4 options.
pub static IPV4_OPTIONS: &[ExthdrDesc] = &[
    ip("lsrr", 131, ROUTE),
    ip("rr", 7, ROUTE),
    ip("ssrr", 137, ROUTE),
    ip("ra", 148, &[TYPE, LENGTH, field("value", DataType::Integer, 16, 16)]),
];

const fn sctp(name: &'static str, kind: u8, templates: &'static [Template]) -> ExthdrDesc {
    ExthdrDesc { name, kind, op: ExthdrOp::Sctp, templates }
}

const FLAGS: Template = field("flags", DataType::Integer, 8, 8);
const CHUNK_LENGTH: Template = field("length", DataType::Integer, 16, 16);

const INIT: &[Template] = &[
    TYPE,
    FLAGS,
    CHUNK_LENGTH,
    field("init-tag", DataType::Integer, 32, 32),
    field("a-rwnd", DataType::Integer, 64, 32),
    field("num-outbound-streams", DataType::Integer, 96, 16),
    field("num-inbound-streams", DataType::Integer, 112, 16),
    field("initial-tsn", DataType::Integer, 128, 32),
];
const PLAIN: &[Template] = &[TYPE, FLAGS, CHUNK_LENGTH];
const LOWEST_TSN: &[Template] =
    &[TYPE, FLAGS, CHUNK_LENGTH, field("lowest-tsn", DataType::Integer, 32, 32)];
const SEQNO: &[Template] = &[TYPE, FLAGS, CHUNK_LENGTH, field("seqno", DataType::Integer, 32, 32)];

/// SCTP chunks.
pub static SCTP_CHUNKS: &[ExthdrDesc] = &[
    sctp(
        "data",
        0,
        &[
            TYPE,
            FLAGS,
            CHUNK_LENGTH,
            field("tsn", DataType::Integer, 32, 32),
            field("stream", DataType::Integer, 64, 16),
            field("ssn", DataType::Integer, 80, 16),
            field("ppid", DataType::Integer, 96, 32),
        ],
    ),
    sctp("init", 1, INIT),
    sctp("init-ack", 2, INIT),
    sctp(
        "sack",
        3,
        &[
            TYPE,
            FLAGS,
            CHUNK_LENGTH,
            field("cum-tsn-ack", DataType::Integer, 32, 32),
            field("a-rwnd", DataType::Integer, 64, 32),
            field("num-gap-ack-blocks", DataType::Integer, 96, 16),
            field("num-dup-tsns", DataType::Integer, 112, 16),
        ],
    ),
    sctp("heartbeat", 4, PLAIN),
    sctp("heartbeat-ack", 5, PLAIN),
    sctp("abort", 6, PLAIN),
    sctp(
        "shutdown",
        7,
        &[TYPE, FLAGS, CHUNK_LENGTH, field("cum-tsn-ack", DataType::Integer, 32, 32)],
    ),
    sctp("shutdown-ack", 8, PLAIN),
    sctp("error", 9, PLAIN),
    sctp("cookie-echo", 10, PLAIN),
    sctp("cookie-ack", 11, PLAIN),
    sctp("ecne", 12, LOWEST_TSN),
    sctp("cwr", 13, LOWEST_TSN),
    sctp("shutdown-complete", 14, PLAIN),
    sctp("asconf-ack", 0x80, SEQNO),
    sctp(
        "forward-tsn",
        0xc0,
        &[TYPE, FLAGS, CHUNK_LENGTH, field("new-cum-tsn", DataType::Integer, 32, 32)],
    ),
    sctp("asconf", 0xc1, SEQNO),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn option_numbers_map_back_to_names() {
        for (op, kind, offset, len, name, field) in [
            (ExthdrOp::TcpOpt, 5, 80, 32, "sack1", "left"),
            (ExthdrOp::TcpOpt, 5, 48, 32, "sack", "right"),
            (ExthdrOp::Ipv6, 43, 64, 128, "srh", "sid[1]"),
            (ExthdrOp::Ipv6, 44, 31, 1, "frag", "more-fragments"),
            (ExthdrOp::Sctp, 3, 96, 16, "sack", "num-gap-ack-blocks"),
            (ExthdrOp::Ipv4Opt, 148, 16, 16, "ra", "value"),
        ] {
            let (desc, template) = find_field(op, kind, offset, len).expect(name);
            assert_eq!((desc.name, template.name), (name, field));
        }
    }
}
