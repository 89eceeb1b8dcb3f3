// SPDX-License-Identifier: Apache-2.0

//! Structures of the kernel that programs read by their fields. Where the fields are is ours:
//! objects are relocated against these tables (CO-RE), and other accesses are refused.

/// What a field is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// A number without or with a sign.
    Unsigned,
    /// One with a sign.
    Signed,
    /// Letters.
    Text,
    /// The address of a structure.
    Pointer(&'static str),
    /// Bits of a number: the first one, counted from the lowest, and how many.
    Bits(u8, u8),
}

/// A field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// Where it begins, in bytes.
    pub at: u32,
    /// Bytes.
    pub size: u32,
    /// What it is.
    pub kind: FieldKind,
}

/// A structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Struct {
    /// Its name.
    pub name: &'static str,
    /// Bytes.
    pub size: u32,
    /// Its fields.
    pub fields: &'static [Field],
    /// Whether its fields are where they are in the kernel's user interface, so that programs need
    /// not be relocated.
    pub fixed: bool,
}

impl Struct {
    /// A field by its name.
    pub fn field(&self, name: &str) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// Whether an access is to one field.
    pub(crate) fn has(&self, at: u32, size: u32) -> bool {
        self.fields.iter().any(|field| at >= field.at && at + size <= field.at + field.size)
    }
}

const fn field(name: &'static str, at: u32, size: u32, kind: FieldKind) -> Field {
    Field { name, at, size, kind }
}

use FieldKind::{Pointer, Unsigned};

/// The context of netfilter programs (`include/net/netfilter/nf_bpf_link.h`).
pub const NF_CONTEXT: Struct = Struct {
    name: "bpf_nf_ctx",
    size: 16,
    fields: &[
        field("state", 0, 8, Pointer("nf_hook_state")),
        field("skb", 8, 8, Pointer("sk_buff")),
    ],
    fixed: true,
};

/// Fields of structures of the kernel that contexts are written to.
pub(crate) mod field {
    use super::Field;
    use super::FieldKind::{Bits, Pointer, Signed, Text, Unsigned};
    use super::field;

    pub(crate) const HOOK: Field = field("hook", 0, 1, Unsigned);
    pub(crate) const PF: Field = field("pf", 1, 1, Unsigned);
    pub(crate) const IN: Field = field("in", 8, 8, Pointer("net_device"));
    pub(crate) const OUT: Field = field("out", 16, 8, Pointer("net_device"));
    pub(crate) const SK: Field = field("sk", 24, 8, Pointer("sock"));
    pub(crate) const NET: Field = field("net", 32, 8, Pointer("net"));

    pub(crate) const DEV: Field = field("dev", 0, 8, Pointer("net_device"));
    pub(crate) const LEN: Field = field("len", 8, 4, Unsigned);
    pub(crate) const DATA_LEN: Field = field("data_len", 12, 4, Unsigned);
    pub(crate) const MARK: Field = field("mark", 16, 4, Unsigned);
    pub(crate) const PRIORITY: Field = field("priority", 20, 4, Unsigned);
    pub(crate) const SKB_IIF: Field = field("skb_iif", 24, 4, Signed);
    pub(crate) const HASH: Field = field("hash", 28, 4, Unsigned);
    pub(crate) const PROTOCOL: Field = field("protocol", 32, 2, Unsigned);
    pub(crate) const QUEUE_MAPPING: Field = field("queue_mapping", 34, 2, Unsigned);
    pub(crate) const PKT_TYPE: Field = field("pkt_type", 36, 1, Bits(0, 3));

    pub(crate) const IFINDEX: Field = field("ifindex", 0, 4, Signed);
    pub(crate) const MTU: Field = field("mtu", 4, 4, Unsigned);
    pub(crate) const TYPE: Field = field("type", 8, 2, Unsigned);
    pub(crate) const NAME: Field = field("name", 16, 16, Text);
}

/// Where a packet is (`include/linux/netfilter.h`).
pub const HOOK_STATE: Struct = Struct {
    name: "nf_hook_state",
    size: 48,
    fields: &[field::HOOK, field::PF, field::IN, field::OUT, field::SK, field::NET],
    fixed: false,
};

/// A packet (`include/linux/skbuff.h`).
pub const SK_BUFF: Struct = Struct {
    name: "sk_buff",
    size: 64,
    fields: &[
        field::DEV,
        field::LEN,
        field::DATA_LEN,
        field::MARK,
        field::PRIORITY,
        field::SKB_IIF,
        field::HASH,
        field::PROTOCOL,
        field::QUEUE_MAPPING,
        field::PKT_TYPE,
    ],
    fixed: false,
};

/// A device (`include/linux/netdevice.h`).
pub const NET_DEVICE: Struct = Struct {
    name: "net_device",
    size: 32,
    fields: &[field::IFINDEX, field::MTU, field::TYPE, field::NAME],
    fixed: false,
};

/// Where the parts of a connection are.
pub(crate) mod connection {
    pub(crate) const LEN: usize = 96;
    pub(crate) const STATUS: usize = 0;
    pub(crate) const MARK: usize = 8;
    pub(crate) const ZONE: usize = 12;
    /// The tuples of both directions, and what is in them.
    pub(crate) const TUPLES: [usize; 2] = [16, 56];
    pub(crate) const SOURCE: usize = 0;
    pub(crate) const SPORT: usize = 16;
    pub(crate) const FAMILY: usize = 18;
    pub(crate) const DESTINATION: usize = 20;
    pub(crate) const DPORT: usize = 36;
    pub(crate) const PROTOCOL: usize = 38;
    pub(crate) const DIRECTION: usize = 39;
}

macro_rules! tuple_field {
    ($direction:literal, $name:literal, $at:expr, $size:literal) => {
        field(
            concat!("tuplehash[", $direction, "].tuple.", $name),
            (connection::TUPLES[$direction] + $at) as u32,
            $size,
            Unsigned,
        )
    };
}

macro_rules! connection_fields {
    ($($direction:literal)*) => {
        &[
            field("status", connection::STATUS as u32, 8, Unsigned),
            field("mark", connection::MARK as u32, 4, Unsigned),
            field("zone.id", connection::ZONE as u32, 2, Unsigned),
            $(
                tuple_field!($direction, "src.u3.all", connection::SOURCE, 16),
                tuple_field!($direction, "src.u3.ip", connection::SOURCE, 4),
                tuple_field!($direction, "src.u3.ip6", connection::SOURCE, 16),
                tuple_field!($direction, "src.u3.in6.in6_u.u6_addr32", connection::SOURCE, 16),
                tuple_field!($direction, "src.u.all", connection::SPORT, 2),
                tuple_field!($direction, "src.u.tcp.port", connection::SPORT, 2),
                tuple_field!($direction, "src.u.udp.port", connection::SPORT, 2),
                tuple_field!($direction, "src.l3num", connection::FAMILY, 2),
                tuple_field!($direction, "dst.u3.all", connection::DESTINATION, 16),
                tuple_field!($direction, "dst.u3.ip", connection::DESTINATION, 4),
                tuple_field!($direction, "dst.u3.ip6", connection::DESTINATION, 16),
                tuple_field!($direction, "dst.u3.in6.in6_u.u6_addr32", connection::DESTINATION, 16),
                tuple_field!($direction, "dst.u.all", connection::DPORT, 2),
                tuple_field!($direction, "dst.u.tcp.port", connection::DPORT, 2),
                tuple_field!($direction, "dst.u.udp.port", connection::DPORT, 2),
                tuple_field!($direction, "dst.protonum", connection::PROTOCOL, 1),
                tuple_field!($direction, "dst.dir", connection::DIRECTION, 1),
            )*
        ]
    };
}

/// A connection (`include/net/netfilter/nf_conntrack.h`). Addresses and ports of its tuples have
/// the order of the network.
pub const NF_CONN: Struct = Struct {
    name: "nf_conn",
    size: connection::LEN as u32,
    fields: connection_fields! { 0 1 },
    fixed: false,
};

/// `struct xdp_md` of `<linux/bpf.h>`.
pub const XDP_MD: Struct = Struct {
    name: "xdp_md",
    size: 24,
    fields: &[
        field("data", 0, 4, Unsigned),
        field("data_end", 4, 4, Unsigned),
        field("data_meta", 8, 4, Unsigned),
        field("ingress_ifindex", 12, 4, Unsigned),
        field("rx_queue_index", 16, 4, Unsigned),
        field("egress_ifindex", 20, 4, Unsigned),
    ],
    fixed: true,
};

/// `struct __sk_buff` of `<linux/bpf.h>`.
pub const UAPI_SK_BUFF: Struct = Struct {
    name: "__sk_buff",
    size: 192,
    fields: &[
        field("len", 0, 4, Unsigned),
        field("pkt_type", 4, 4, Unsigned),
        field("mark", 8, 4, Unsigned),
        field("queue_mapping", 12, 4, Unsigned),
        field("protocol", 16, 4, Unsigned),
        field("vlan_present", 20, 4, Unsigned),
        field("vlan_tci", 24, 4, Unsigned),
        field("vlan_proto", 28, 4, Unsigned),
        field("priority", 32, 4, Unsigned),
        field("ingress_ifindex", 36, 4, Unsigned),
        field("ifindex", 40, 4, Unsigned),
        field("tc_index", 44, 4, Unsigned),
        field("cb", 48, 20, Unsigned),
        field("hash", 68, 4, Unsigned),
        field("tc_classid", 72, 4, Unsigned),
        field("data", 76, 4, Unsigned),
        field("data_end", 80, 4, Unsigned),
        field("napi_id", 84, 4, Unsigned),
        field("data_meta", 140, 4, Unsigned),
        field("tstamp", 152, 8, Unsigned),
        field("wire_len", 160, 4, Unsigned),
        field("gso_segs", 164, 4, Unsigned),
        field("gso_size", 176, 4, Unsigned),
        field("hwtstamp", 184, 8, Unsigned),
    ],
    fixed: true,
};

/// All of them.
pub const ALL: [&Struct; 7] =
    [&NF_CONTEXT, &HOOK_STATE, &SK_BUFF, &NET_DEVICE, &NF_CONN, &XDP_MD, &UAPI_SK_BUFF];

/// A structure by its name.
pub fn find(name: &str) -> Option<&'static Struct> {
    ALL.into_iter().find(|s| s.name == name)
}
