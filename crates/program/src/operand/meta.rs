// SPDX-License-Identifier: Apache-2.0

//! Operands of `meta`: a packet's metadata (`NFTA_META_*`, `net/netfilter/nft_meta.c`).

use serde::{Deserialize, Serialize};
use std::fmt;

/// `enum nft_meta_keys`, in its order. Integers are in host order unless said otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[repr(u8)]
pub enum MetaKey {
    /// Packet length in bytes, 4.
    Len = 0,
    /// Ethertype in network order, 2.
    Protocol,
    /// Traffic control class, 4.
    Priority,
    /// Packet mark, 4.
    Mark,
    /// Index of the interface of arrival, 4.
    Iif,
    /// Index of the interface on the way out, 4.
    Oif,
    /// Name of the interface of arrival, 16 padded with zeros.
    IifName,
    /// Name of the interface on the way out, 16 padded with zeros.
    OifName,
    /// `ARPHRD_*` of the interface of arrival, 2.
    IifType,
    /// `ARPHRD_*` of the interface on the way out, 2.
    OifType,
    /// User of the sending socket, 4.
    SkUid,
    /// Group of the sending socket, 4.
    SkGid,
    /// Whether the packet is traced, 1.
    NfTrace,
    /// Routing realm, 4.
    RtClassid,
    /// Security mark, 4.
    SecMark,
    /// `NFPROTO_*` of the hook, 1.
    NfProto,
    /// Transport protocol, 1.
    L4Proto,
    /// Name of the bridge of the port of arrival, 16.
    BriIifName,
    /// Name of the bridge of the port on the way out, 16.
    BriOifName,
    /// `PACKET_*`, 1.
    PktType,
    /// Processor number, 4.
    Cpu,
    /// Device group of the interface of arrival, 4.
    IifGroup,
    /// Device group of the interface on the way out, 4.
    OifGroup,
    /// cgroup v1 class of the sending socket, 4.
    Cgroup,
    /// A pseudo-random number, 4.
    Prandom,
    /// Whether the packet came through IPsec, 1.
    SecPath,
    /// Kind of the interface of arrival (`vlan`, `veth`…), 16.
    IifKind,
    /// Kind of the interface on the way out, 16.
    OifKind,
    /// VLAN id of the bridge port of arrival, 2.
    BriIifPvid,
    /// VLAN protocol of the bridge in network order, 2.
    BriIifVproto,
    /// Nanoseconds since the epoch, 8.
    TimeNs,
    /// Day of the week, Sunday is 0, 1.
    TimeDay,
    /// Second of the day (UTC), 4.
    TimeHour,
    /// Index of the slave interface of arrival in a VRF, 4.
    Sdif,
    /// Name of the slave interface of arrival in a VRF, 16.
    SdifName,
    /// Whether the bridge is to route the frame, 1.
    BriBroute,
    /// Link address of the bridge, 6.
    BriIifHwAddr,
}

impl MetaKey {
    /// All keys, in the order of their numbers.
    pub const ALL: [MetaKey; 37] = {
        use MetaKey::*;
        [
            Len,
            Protocol,
            Priority,
            Mark,
            Iif,
            Oif,
            IifName,
            OifName,
            IifType,
            OifType,
            SkUid,
            SkGid,
            NfTrace,
            RtClassid,
            SecMark,
            NfProto,
            L4Proto,
            BriIifName,
            BriOifName,
            PktType,
            Cpu,
            IifGroup,
            OifGroup,
            Cgroup,
            Prandom,
            SecPath,
            IifKind,
            OifKind,
            BriIifPvid,
            BriIifVproto,
            TimeNs,
            TimeDay,
            TimeHour,
            Sdif,
            SdifName,
            BriBroute,
            BriIifHwAddr,
        ]
    };

    /// Whether rules can set it.
    pub fn can_be_set(self) -> bool {
        use MetaKey::*;
        matches!(self, Mark | Priority | SecMark | NfTrace | PktType | BriBroute)
    }

    /// Whether the register holds a number in the host's byte order.
    pub fn is_in_host_order(self) -> bool {
        use MetaKey::*;
        match self {
            Len | Priority | Mark | Iif | Oif | SkUid | SkGid | RtClassid | SecMark | Cpu
            | IifGroup | OifGroup | Cgroup | Prandom | TimeHour | Sdif | IifType | OifType
            | BriIifPvid | TimeNs => true,
            NfTrace | NfProto | L4Proto | PktType | SecPath | TimeDay | BriBroute | Protocol
            | BriIifVproto | IifName | OifName | BriIifName | BriOifName | IifKind | OifKind
            | SdifName | BriIifHwAddr => false,
        }
    }

    /// Bytes in the register.
    pub fn width(self) -> u32 {
        use MetaKey::*;
        match self {
            Len | Priority | Mark | Iif | Oif | SkUid | SkGid | RtClassid | SecMark | Cpu
            | IifGroup | OifGroup | Cgroup | Prandom | TimeHour | Sdif => 4,
            Protocol | IifType | OifType | BriIifPvid | BriIifVproto => 2,
            NfTrace | NfProto | L4Proto | PktType | SecPath | TimeDay | BriBroute => 1,
            IifName | OifName | BriIifName | BriOifName | IifKind | OifKind | SdifName => 16,
            TimeNs => 8,
            BriIifHwAddr => 6,
        }
    }
}

impl fmt::Display for MetaKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use MetaKey::*;
        f.write_str(match self {
            Len => "len",
            Protocol => "protocol",
            Priority => "priority",
            Mark => "mark",
            Iif => "iif",
            Oif => "oif",
            IifName => "iifname",
            OifName => "oifname",
            IifType => "iiftype",
            OifType => "oiftype",
            SkUid => "skuid",
            SkGid => "skgid",
            NfTrace => "nftrace",
            RtClassid => "rtclassid",
            SecMark => "secmark",
            NfProto => "nfproto",
            L4Proto => "l4proto",
            BriIifName => "bri_iifname",
            BriOifName => "bri_oifname",
            PktType => "pkttype",
            Cpu => "cpu",
            IifGroup => "iifgroup",
            OifGroup => "oifgroup",
            Cgroup => "cgroup",
            Prandom => "prandom",
            SecPath => "secpath",
            IifKind => "iifkind",
            OifKind => "oifkind",
            BriIifPvid => "bri_iifpvid",
            BriIifVproto => "bri_iifvproto",
            TimeNs => "time",
            TimeDay => "day",
            TimeHour => "hour",
            Sdif => "sdif",
            SdifName => "sdifname",
            BriBroute => "broute",
            BriIifHwAddr => "ibrhwaddr",
        })
    }
}
