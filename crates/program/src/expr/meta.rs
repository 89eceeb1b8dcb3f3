// SPDX-License-Identifier: Apache-2.0

//! `meta`: what travels beside the packet's bytes (`NFTA_META_*`, `net/netfilter/nft_meta.c`).

use serde::{Deserialize, Serialize};
use std::fmt;

use super::{Expression, Use, Width};
use crate::hook::{Hook, Hooks};
use crate::link::{self, LinkReason, Linking};
use crate::op::Op;
use crate::verify::{self, Reason};
use crate::{Errno, Family, Register};

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

/// Loads a key; breaks where the packet does not have it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Meta {
    /// `NFTA_META_KEY`.
    pub key: MetaKey,
    /// `NFTA_META_DREG`.
    pub dreg: Register,
}

impl fmt::Display for Meta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "meta load {} => {}", self.key, self.dreg)
    }
}

impl Expression for Meta {
    fn name(&self) -> &'static str {
        "meta"
    }

    fn uses<'a>(&'a self, _: Family, visit: &mut dyn FnMut(Use<'a>)) {
        visit(Use::Write(self.dreg, Width::Bytes(self.key.width())));
    }

    fn verify(&self) -> Result<(), Reason> {
        let only_set = matches!(self.key, MetaKey::NfTrace | MetaKey::BriBroute);
        verify::refuse(only_set, Reason::Key)
    }

    fn available(&self, family: Family) -> Result<(), Errno> {
        match self.key {
            MetaKey::BriIifName
            | MetaKey::BriOifName
            | MetaKey::BriIifPvid
            | MetaKey::BriIifVproto
            | MetaKey::BriBroute
            | MetaKey::BriIifHwAddr
                if family != Family::Bridge =>
            {
                Err(Errno::Eopnotsupp)
            }
            _ => Ok(()),
        }
    }

    fn hooks(&self, family: Family) -> Hooks {
        match self.key {
            MetaKey::SecPath => match family {
                Family::Netdev => Hooks::of(&[Hook::Ingress]),
                Family::Ip | Family::Ip6 | Family::Inet => {
                    Hooks::of(&[Hook::Prerouting, Hook::Input, Hook::Forward])
                }
                Family::Arp | Family::Bridge => Hooks::NONE,
            },
            MetaKey::Sdif | MetaKey::SdifName if family.is_ip() => {
                Hooks::of(&[Hook::Input, Hook::Forward])
            }
            MetaKey::Sdif | MetaKey::SdifName => Hooks::NONE,
            _ => Hooks::ANY,
        }
    }

    fn only_matches(&self) -> bool {
        true
    }

    fn link(&self, _: &Linking<'_>) -> Result<Op, LinkReason> {
        Ok(Op::Meta { key: self.key, dst: link::slot(self.dreg, self.key.width())? })
    }
}

/// Sets a key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MetaSet {
    /// `NFTA_META_KEY`: mark, priority, packet type, nftrace, secmark or broute.
    pub key: MetaKey,
    /// `NFTA_META_SREG`.
    pub sreg: Register,
}

impl fmt::Display for MetaSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "meta set {} with {}", self.key, self.sreg)
    }
}

impl Expression for MetaSet {
    fn name(&self) -> &'static str {
        "meta"
    }

    fn uses<'a>(&'a self, _: Family, visit: &mut dyn FnMut(Use<'a>)) {
        visit(Use::Read(self.sreg, Width::Bytes(self.key.width())));
    }

    fn verify(&self) -> Result<(), Reason> {
        verify::refuse(!self.key.can_be_set(), Reason::Key)
    }

    fn available(&self, family: Family) -> Result<(), Errno> {
        let bridge = self.key != MetaKey::BriBroute || family == Family::Bridge;
        if self.key.can_be_set() && bridge { Ok(()) } else { Err(Errno::Eopnotsupp) }
    }

    fn hooks(&self, family: Family) -> Hooks {
        match self.key {
            MetaKey::PktType => match family {
                Family::Netdev => Hooks::of(&[Hook::Ingress]),
                Family::Bridge | Family::Ip | Family::Ip6 | Family::Inet => {
                    Hooks::of(&[Hook::Prerouting])
                }
                Family::Arp => Hooks::NONE,
            },
            MetaKey::BriBroute => Hooks::of(&[Hook::Prerouting]),
            _ => Hooks::ANY,
        }
    }

    fn only_matches(&self) -> bool {
        false
    }

    fn link(&self, _: &Linking<'_>) -> Result<Op, LinkReason> {
        if !self.key.can_be_set() {
            return Err(LinkReason::Malformed("a meta key that cannot be set"));
        }
        Ok(Op::MetaSet { key: self.key, src: link::slot(self.sreg, self.key.width())? })
    }
}
