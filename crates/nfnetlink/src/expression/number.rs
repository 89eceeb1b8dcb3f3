// SPDX-License-Identifier: Apache-2.0

//! Enumerations of expressions by the kernel's numbers.

use penstock_program::expr::{
    BoolOp, ByteorderOp, ChecksumType, CmpOp, CtDir, CtKey, DynsetOp, ExthdrOp, FibResult,
    LimitType, MetaKey, NatType, NumgenMode, ObjectType, PayloadBase, RejectType, RtKey, SocketKey,
    TunnelKey, XfrmKey,
};
use penstock_ruleset::Errno;

use crate::message::Failure;

/// An enumeration with consecutive numbers.
pub trait Numbered: Copy + PartialEq + 'static {
    /// All values, by ascending number.
    const ALL: &'static [Self];
    /// Number of the first one.
    const FIRST: u32;
    /// What the kernel says of other numbers.
    const UNKNOWN: Errno;

    /// The kernel's number.
    fn number(self) -> u32 {
        Self::FIRST + Self::ALL.iter().position(|x| *x == self).unwrap_or(0) as u32
    }

    /// The value with a number.
    ///
    /// # Errors
    /// The kernel's for a number that no value has.
    fn from_number(number: u32) -> Result<Self, Failure> {
        let index = number.checked_sub(Self::FIRST).and_then(|n| usize::try_from(n).ok());
        index.and_then(|n| Self::ALL.get(n)).copied().ok_or(Self::UNKNOWN.into())
    }
}

macro_rules! numbered {
    ($($name:ident $first:literal $unknown:ident: $($value:ident)*;)*) => {$(
        impl Numbered for $name {
            const ALL: &'static [Self] = &[$($name::$value),*];
            const FIRST: u32 = $first;
            const UNKNOWN: Errno = Errno::$unknown;
        }
    )*};
}

numbered! {
    BoolOp 3 Eopnotsupp: And Or Xor;
    ByteorderOp 0 Einval: Ntoh Hton;
    ChecksumType 0 Eopnotsupp: None Inet Sctp;
    CmpOp 0 Einval: Eq Neq Lt Lte Gt Gte;
    CtDir 0 Einval: Original Reply;
    CtKey 0 Eopnotsupp: State Direction Status Mark SecMark Expiration Helper L3Protocol Src Dst
        Protocol ProtoSrc ProtoDst Labels Pkts Bytes AvgPkt Zone EventMask SrcIp DstIp SrcIp6
        DstIp6 Id;
    DynsetOp 0 Eopnotsupp: Add Update Delete;
    ExthdrOp 0 Eopnotsupp: Ipv6 TcpOpt Ipv4Opt Sctp Dccp;
    FibResult 1 Einval: Oif OifName AddrType;
    LimitType 0 Eopnotsupp: Packets Bytes;
    NatType 0 Einval: Snat Dnat;
    NumgenMode 0 Einval: Inc Random;
    ObjectType 1 Eopnotsupp: Counter Quota CtHelper Limit Connlimit Tunnel CtTimeout SecMark
        CtExpect Synproxy;
    PayloadBase 0 Eopnotsupp: Link Network Transport Inner Tunnel;
    RejectType 0 Einval: IcmpUnreach TcpRst IcmpxUnreach;
    RtKey 0 Eopnotsupp: Classid Nexthop4 Nexthop6 TcpMss Xfrm;
    SocketKey 0 Eopnotsupp: Transparent Mark Wildcard Cgroupv2;
    TunnelKey 0 Eopnotsupp: Path Id;
    XfrmKey 1 Einval: DaddrIp4 DaddrIp6 SaddrIp4 SaddrIp6 Reqid Spi;
}

impl Numbered for MetaKey {
    const ALL: &'static [Self] = &MetaKey::ALL;
    const FIRST: u32 = 0;
    const UNKNOWN: Errno = Errno::Eopnotsupp;
}
