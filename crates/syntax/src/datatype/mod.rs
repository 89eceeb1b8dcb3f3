// SPDX-License-Identifier: Apache-2.0

//! Data types: names, sizes, byte order, symbols, parsing and printing of constants (nft's
//! `struct datatype`).
//!
//! - [`symbols`]: the tables of symbolic constants;
//! - [`parse`](mod@parse): a word to a value, with nft's words where it is none;
//! - [`print`](mod@print): a value to canonical text;
//! - [`time`]: durations, dates, hours;
//! - [`Base`]: what operators go by.

use std::sync::Arc;

mod base;
pub mod parse;
pub mod print;
pub mod symbols;
pub mod time;

pub use base::Base;
pub use parse::{Constant, parse};
pub use print::{Format, print};

/// Byte order of a value in a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum ByteOrder {
    /// Not known yet.
    #[default]
    Invalid,
    /// The host's (little endian in registers).
    Host,
    /// Network order.
    Big,
}

/// A basic type; the number is the kernel-visible id (`enum datatypes` of nft), used in sets'
/// `key_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
#[repr(u32)]
#[allow(missing_docs)]
pub enum DataType {
    #[default]
    Invalid = 0,
    Verdict,
    NfProto,
    Bitmask,
    Integer,
    String,
    LlAddr,
    IpAddr,
    Ip6Addr,
    EtherAddr,
    EtherType,
    ArpOp,
    InetProtocol,
    InetService,
    IcmpType,
    TcpFlag,
    DccpPktType,
    MhType,
    Time,
    Mark,
    IfIndex,
    ArpHrd,
    Realm,
    Classid,
    Uid,
    Gid,
    CtState,
    CtDir,
    CtStatus,
    Icmp6Type,
    CtLabel,
    PktType,
    IcmpCode,
    Icmpv6Code,
    IcmpxCode,
    DevGroup,
    Dscp,
    Ecn,
    FibAddr,
    Boolean,
    CtEventBit,
    IfName,
    IgmpType,
    TimeDate,
    TimeHour,
    TimeDay,
    Cgroupv2,
    /// Bytes of a packet by offset and length: integers that are listed in hexadecimal. To the
    /// outside they are [`DataType::Integer`].
    RawInteger,
    /// Subtypes of MPTCP options: integers with names. To the outside they are
    /// [`DataType::Integer`].
    MptcpSubtype,
}

/// Bits that each field of a concatenation takes in a set's type number.
pub const CONCAT_BITS: u32 = 6;

/// What is fixed for a type: nft's name and description for it, bits (0 where it varies), byte
/// order, and the type it is a special case of.
struct Info {
    name: &'static str,
    description: &'static str,
    size: u32,
    order: ByteOrder,
    base: Option<DataType>,
}

impl DataType {
    /// All of them, in order of their numbers.
    pub const ALL: [DataType; 47] = {
        use DataType::*;
        [
            Invalid,
            Verdict,
            NfProto,
            Bitmask,
            Integer,
            String,
            LlAddr,
            IpAddr,
            Ip6Addr,
            EtherAddr,
            EtherType,
            ArpOp,
            InetProtocol,
            InetService,
            IcmpType,
            TcpFlag,
            DccpPktType,
            MhType,
            Time,
            Mark,
            IfIndex,
            ArpHrd,
            Realm,
            Classid,
            Uid,
            Gid,
            CtState,
            CtDir,
            CtStatus,
            Icmp6Type,
            CtLabel,
            PktType,
            IcmpCode,
            Icmpv6Code,
            IcmpxCode,
            DevGroup,
            Dscp,
            Ecn,
            FibAddr,
            Boolean,
            CtEventBit,
            IfName,
            IgmpType,
            TimeDate,
            TimeHour,
            TimeDay,
            Cgroupv2,
        ]
    };

    fn info(self) -> Info {
        use ByteOrder::{Big, Host, Invalid as Unknown};
        let integer = Some(DataType::Integer);
        let bitmask = Some(DataType::Bitmask);
        let (name, description, size, order, base) = match self {
            DataType::Invalid => ("invalid", "invalid", 0, Unknown, None),
            DataType::Verdict => ("verdict", "netfilter verdict", 0, Unknown, None),
            DataType::NfProto => ("nf_proto", "netfilter protocol", 8, Host, integer),
            DataType::Bitmask => ("bitmask", "bitmask", 0, Unknown, integer),
            DataType::Integer => ("integer", "integer", 0, Unknown, None),
            DataType::String => ("string", "string", 0, Host, None),
            DataType::LlAddr => ("ll_addr", "link layer address", 0, Big, integer),
            DataType::IpAddr => ("ipv4_addr", "IPv4 address", 32, Big, integer),
            DataType::Ip6Addr => ("ipv6_addr", "IPv6 address", 128, Big, integer),
            DataType::EtherAddr => {
                ("ether_addr", "Ethernet address", 48, Big, Some(DataType::LlAddr))
            }
            DataType::EtherType => ("ether_type", "Ethernet protocol", 16, Big, integer),
            DataType::ArpOp => ("arp_op", "ARP operation", 16, Big, integer),
            DataType::InetProtocol => ("inet_proto", "Internet protocol", 8, Big, integer),
            DataType::InetService => ("inet_service", "internet network service", 16, Big, integer),
            DataType::IcmpType => ("icmp_type", "ICMP type", 8, Big, integer),
            DataType::TcpFlag => ("tcp_flag", "TCP flag", 8, Host, bitmask),
            DataType::DccpPktType => ("dccp_pkttype", "DCCP packet type", 4, Big, integer),
            DataType::MhType => ("mh_type", "Mobility Header Type", 8, Big, integer),
            DataType::Time => ("time", "relative time", 32, Host, integer),
            DataType::Mark => ("mark", "packet mark", 32, Host, integer),
            DataType::IfIndex => ("iface_index", "network interface index", 32, Host, integer),
            DataType::ArpHrd => ("iface_type", "network interface type", 16, Host, integer),
            DataType::Realm => ("realm", "routing realm", 32, Host, integer),
            DataType::Classid => ("classid", "TC classid", 32, Host, integer),
            DataType::Uid => ("uid", "user ID", 32, Host, integer),
            DataType::Gid => ("gid", "group ID", 32, Host, integer),
            DataType::CtState => ("ct_state", "conntrack state", 32, Host, bitmask),
            DataType::CtDir => ("ct_dir", "conntrack direction", 8, Host, integer),
            DataType::CtStatus => ("ct_status", "conntrack status", 32, Host, bitmask),
            DataType::Icmp6Type => ("icmpv6_type", "ICMPv6 type", 8, Big, integer),
            DataType::CtLabel => ("ct_label", "conntrack label", 128, Host, bitmask),
            DataType::PktType => ("pkt_type", "packet type", 8, Host, integer),
            DataType::IcmpCode => ("icmp_code", "icmp code", 8, Big, integer),
            DataType::Icmpv6Code => ("icmpv6_code", "icmpv6 code", 8, Big, integer),
            DataType::IcmpxCode => ("icmpx_code", "icmpx code", 8, Big, integer),
            DataType::DevGroup => ("devgroup", "devgroup name", 32, Host, integer),
            DataType::Dscp => ("dscp", "Differentiated Services Code Point", 6, Big, integer),
            DataType::Ecn => ("ecn", "Explicit Congestion Notification", 2, Big, integer),
            DataType::FibAddr => ("fib_addrtype", "fib address type", 32, Host, integer),
            DataType::Boolean => ("boolean", "boolean type", 1, Host, integer),
            DataType::CtEventBit => ("ct_event", "conntrack event bits", 32, Host, bitmask),
            DataType::IfName => {
                ("ifname", "network interface name", 128, Host, Some(DataType::String))
            }
            DataType::IgmpType => ("igmp_type", "IGMP type", 8, Big, integer),
            DataType::TimeDate => ("time", "Relative time of packet reception", 64, Host, integer),
            DataType::TimeHour => ("hour", "Hour of day of packet reception", 32, Host, integer),
            DataType::TimeDay => ("day", "Day of week of packet reception", 8, Host, integer),
            DataType::Cgroupv2 => ("cgroupsv2", "cgroupsv2 path", 64, Host, integer),
            DataType::RawInteger => ("integer", "integer", 0, Unknown, integer),
            DataType::MptcpSubtype => ("integer", "mptcp option subtype", 4, Unknown, integer),
        };
        Info { name, description, size, order, base }
    }

    /// As written after `type`.
    pub fn name(self) -> &'static str {
        self.info().name
    }

    /// In words, as diagnostics and `describe` use them.
    pub fn description(self) -> &'static str {
        self.info().description
    }

    /// Bits; 0 where it depends on the expression.
    pub fn size(self) -> u32 {
        self.info().size
    }

    /// Byte order of constants.
    pub fn order(self) -> ByteOrder {
        self.info().order
    }

    /// What it is a special case of.
    pub fn base(self) -> Option<DataType> {
        self.info().base
    }

    /// The type at the end of the chain of bases: what operators and lengths go by (nft's
    /// `expr_basetype`).
    pub fn basetype(self) -> DataType {
        let mut dtype = self;
        while let Some(base) = dtype.base() {
            dtype = base;
        }
        dtype
    }

    /// Whether its values are sets of named bits (`basetype` bitmask; not [`DataType::Bitmask`]
    /// itself).
    pub fn is_bitmask(self) -> bool {
        self.base() == Some(DataType::Bitmask)
    }

    /// Whether its values are text.
    pub fn is_string(self) -> bool {
        self.basetype() == DataType::String
    }

    /// The type that can be written by this name after `type`. Some exist in the language only
    /// through expressions.
    pub fn from_name(name: &str) -> Option<DataType> {
        DataType::ALL.into_iter().find(|d| {
            d.name() == name
                && !matches!(
                    d,
                    DataType::CtLabel
                        | DataType::CtEventBit
                        | DataType::TimeDate
                        | DataType::TimeHour
                        | DataType::TimeDay
                )
        })
    }

    /// By number; those that have none outside by their place in the enumeration.
    pub fn from_id(id: u32) -> Option<DataType> {
        let inside =
            [DataType::RawInteger, DataType::MptcpSubtype].into_iter().find(|d| *d as u32 == id);
        if inside.is_some() {
            return inside;
        }
        DataType::ALL.get(usize::try_from(id).ok()?).copied()
    }

    /// The number.
    pub fn id(self) -> u32 {
        match self {
            DataType::RawInteger | DataType::MptcpSubtype => DataType::Integer as u32,
            other => other as u32,
        }
    }
}

/// The type of an expression: basic, or a concatenation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// Basic.
    Base(DataType),
    /// Field by field; lengths are those of the concatenation's parts.
    Concat(Arc<[DataType]>),
}

impl Default for Type {
    fn default() -> Self {
        Type::Base(DataType::Invalid)
    }
}

impl Type {
    /// The number that a set's `key_type` or `data_type` has: six bits for each field of a
    /// concatenation, the last field lowest.
    pub fn id(&self) -> u32 {
        match self {
            Type::Base(dtype) => dtype.id(),
            Type::Concat(fields) => {
                fields.iter().fold(0u32, |id, field| id.wrapping_shl(CONCAT_BITS) | field.id())
            }
        }
    }

    /// The type of such a number; `None` if a field is unknown.
    pub fn from_id(id: u32) -> Option<Type> {
        if id < 1 << CONCAT_BITS {
            return DataType::from_id(id).map(Type::Base);
        }
        let mut fields = Vec::new();
        let mut rest = id;
        while rest != 0 {
            fields.push(DataType::from_id(rest & ((1 << CONCAT_BITS) - 1))?);
            rest >>= CONCAT_BITS;
        }
        fields.reverse();
        Some(Type::Concat(fields.into()))
    }

    /// As written after `type`: names joined by ` . `.
    pub fn name(&self) -> String {
        match self {
            Type::Base(dtype) => dtype.name().into(),
            Type::Concat(fields) => fields.iter().map(|f| f.name()).collect::<Vec<_>>().join(" . "),
        }
    }

    /// The basic type; [`DataType::Invalid`] for concatenations.
    pub fn base(&self) -> DataType {
        match self {
            Type::Base(dtype) => *dtype,
            Type::Concat(_) => DataType::Invalid,
        }
    }

    /// Fields of a concatenation, or the one type.
    pub fn fields(&self) -> &[DataType] {
        match self {
            Type::Base(dtype) => std::slice::from_ref(dtype),
            Type::Concat(fields) => fields,
        }
    }
}

impl From<DataType> for Type {
    fn from(dtype: DataType) -> Self {
        Type::Base(dtype)
    }
}

#[cfg(test)]
mod tests;
