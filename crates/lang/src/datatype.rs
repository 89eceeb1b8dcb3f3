//! Data types: names, sizes, byte order, symbols, parsing and printing of constants (nft's `struct datatype`).

use std::sync::Arc;

/// A basic type; the number is the kernel-visible id (`enum datatypes` of nft), used in sets' `key_type`.
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
