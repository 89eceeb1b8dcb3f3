// SPDX-License-Identifier: Apache-2.0

//! Operands of `ct`: the packet's connection (`NFTA_CT_*`, `net/netfilter/nft_ct.c`).

use serde::{Deserialize, Serialize};
use std::fmt;

use crate::Family;

/// `enum nft_ct_keys`, in its order. Integers are in host order unless said otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[repr(u8)]
pub enum CtKey {
    /// `NF_CT_STATE_*` bit, 4.
    State = 0,
    /// [`CtDir`] of the packet, 1.
    Direction,
    /// `IPS_*` bits, 4.
    Status,
    /// Mark, 4.
    Mark,
    /// Security mark, 4.
    SecMark,
    /// Milliseconds to live, 4.
    Expiration,
    /// Name of the helper, 16.
    Helper,
    /// `NFPROTO_*`, 1.
    L3Protocol,
    /// Source address of a direction, 4 or 16 as the table's family has it.
    Src,
    /// Destination address of a direction, 4 or 16 as the table's family has it.
    Dst,
    /// Transport protocol of a direction, 1.
    Protocol,
    /// Source port in network order, 2.
    ProtoSrc,
    /// Destination port in network order, 2.
    ProtoDst,
    /// 128 label bits, 16.
    Labels,
    /// Packets, 8.
    Pkts,
    /// Bytes, 8.
    Bytes,
    /// Bytes per packet, 8.
    AvgPkt,
    /// Zone, 2.
    Zone,
    /// Events that are reported, 4.
    EventMask,
    /// IPv4 source of a direction, 4.
    SrcIp,
    /// IPv4 destination of a direction, 4.
    DstIp,
    /// IPv6 source of a direction, 16.
    SrcIp6,
    /// IPv6 destination of a direction, 16.
    DstIp6,
    /// Identifier of the entry, 4.
    Id,
}

impl CtKey {
    /// Whether rules can set it (`nft_ct_set_init()`).
    pub fn can_be_set(self) -> bool {
        use CtKey::*;
        matches!(self, Mark | SecMark | Labels | Zone | EventMask | Helper)
    }

    /// Whether it says something else of either direction (`nft_ct_get_init()`).
    pub fn needs_direction(self) -> bool {
        use CtKey::*;
        matches!(self, Src | Dst | SrcIp | DstIp | SrcIp6 | DstIp6 | ProtoSrc | ProtoDst)
    }

    /// Bytes in the register, in a table of this family.
    pub fn width(self, family: Family) -> u32 {
        use CtKey::*;
        match self {
            State | Status | Mark | SecMark | Expiration | EventMask | SrcIp | DstIp | Id => 4,
            Direction | L3Protocol | Protocol => 1,
            Helper | Labels | SrcIp6 | DstIp6 => 16,
            Src | Dst if family == Family::Ip => 4,
            Src | Dst => 16,
            ProtoSrc | ProtoDst | Zone => 2,
            Pkts | Bytes | AvgPkt => 8,
        }
    }
}

impl fmt::Display for CtKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use CtKey::*;
        f.write_str(match self {
            State => "state",
            Direction => "direction",
            Status => "status",
            Mark => "mark",
            SecMark => "secmark",
            Expiration => "expiration",
            Helper => "helper",
            L3Protocol => "l3protocol",
            Src => "src",
            Dst => "dst",
            Protocol => "protocol",
            ProtoSrc => "proto_src",
            ProtoDst => "proto_dst",
            Labels => "label",
            Pkts => "packets",
            Bytes => "bytes",
            AvgPkt => "avgpkt",
            Zone => "zone",
            EventMask => "event",
            SrcIp => "src_ip",
            DstIp => "dst_ip",
            SrcIp6 => "src_ip6",
            DstIp6 => "dst_ip6",
            // libnftnl 1.2.4 has no word for it.
            Id => "unknown",
        })
    }
}

/// `IP_CT_DIR_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum CtDir {
    /// As the first packet.
    Original = 0,
    /// As the answers.
    Reply = 1,
}

impl fmt::Display for CtDir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CtDir::Original => "original",
            CtDir::Reply => "reply",
        })
    }
}
