// SPDX-License-Identifier: Apache-2.0

//! The keys of selectors such as `meta`, with names, types, lengths and byte orders (nft's
//! `*_templates`).

use penstock_program::expr::{CtKey, FibResult, MetaKey, RtKey, SocketKey, TunnelKey, XfrmKey};

use crate::datatype::{ByteOrder, DataType};

/// What is known of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyInfo<K> {
    /// The key.
    pub key: K,
    /// As written.
    pub name: &'static str,
    /// What it gives.
    pub value: ValueType,
}

/// What a selector gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueType {
    /// Type of the value; [`DataType::Invalid`] where only the context tells (`ct saddr`).
    pub dtype: DataType,
    /// Bits.
    pub len: u32,
    /// Byte order in the register.
    pub order: ByteOrder,
}

const fn key<K>(
    key: K,
    name: &'static str,
    dtype: DataType,
    len: u32,
    order: ByteOrder,
) -> KeyInfo<K> {
    KeyInfo { key, name, value: ValueType { dtype, len, order } }
}

use ByteOrder::{Big, Host};

/// Keys of `meta`. `broute` and `ibrhwaddr` are of later releases than nft 1.0.6.
pub static META: &[KeyInfo<MetaKey>] = &[
    key(MetaKey::Len, "length", DataType::Integer, 32, Host),
    key(MetaKey::Protocol, "protocol", DataType::EtherType, 16, Big),
    key(MetaKey::Priority, "priority", DataType::Classid, 32, Host),
    key(MetaKey::Mark, "mark", DataType::Mark, 32, Host),
    key(MetaKey::Iif, "iif", DataType::IfIndex, 32, Host),
    key(MetaKey::Oif, "oif", DataType::IfIndex, 32, Host),
    key(MetaKey::IifName, "iifname", DataType::IfName, 128, Host),
    key(MetaKey::OifName, "oifname", DataType::IfName, 128, Host),
    key(MetaKey::IifType, "iiftype", DataType::ArpHrd, 16, Host),
    key(MetaKey::OifType, "oiftype", DataType::ArpHrd, 16, Host),
    key(MetaKey::SkUid, "skuid", DataType::Uid, 32, Host),
    key(MetaKey::SkGid, "skgid", DataType::Gid, 32, Host),
    key(MetaKey::NfTrace, "nftrace", DataType::Integer, 1, Host),
    key(MetaKey::RtClassid, "rtclassid", DataType::Realm, 32, Host),
    key(MetaKey::SecMark, "secmark", DataType::Integer, 32, Host),
    key(MetaKey::NfProto, "nfproto", DataType::NfProto, 8, Host),
    key(MetaKey::L4Proto, "l4proto", DataType::InetProtocol, 8, Host),
    key(MetaKey::BriIifName, "ibrname", DataType::IfName, 128, Host),
    key(MetaKey::BriOifName, "obrname", DataType::IfName, 128, Host),
    key(MetaKey::PktType, "pkttype", DataType::PktType, 8, Host),
    key(MetaKey::Cpu, "cpu", DataType::Integer, 32, Host),
    key(MetaKey::IifGroup, "iifgroup", DataType::DevGroup, 32, Host),
    key(MetaKey::OifGroup, "oifgroup", DataType::DevGroup, 32, Host),
    key(MetaKey::Cgroup, "cgroup", DataType::Integer, 32, Host),
    key(MetaKey::Prandom, "random", DataType::Integer, 32, Big),
    key(MetaKey::SecPath, "ipsec", DataType::Boolean, 8, Host),
    key(MetaKey::IifKind, "iifkind", DataType::IfName, 128, Host),
    key(MetaKey::OifKind, "oifkind", DataType::IfName, 128, Host),
    key(MetaKey::BriIifPvid, "ibrpvid", DataType::Integer, 16, Host),
    key(MetaKey::BriIifVproto, "ibrvproto", DataType::EtherType, 16, Big),
    key(MetaKey::TimeNs, "time", DataType::TimeDate, 64, Host),
    key(MetaKey::TimeDay, "day", DataType::TimeDay, 8, Host),
    key(MetaKey::TimeHour, "hour", DataType::TimeHour, 32, Host),
    key(MetaKey::Sdif, "sdif", DataType::IfIndex, 32, Host),
    key(MetaKey::SdifName, "sdifname", DataType::IfName, 128, Host),
    key(MetaKey::BriBroute, "broute", DataType::Integer, 1, Host),
    key(MetaKey::BriIifHwAddr, "ibrhwaddr", DataType::EtherAddr, 48, Big),
];

/// Keys of `ct`. The address keys without a family have no length before the context gives one.
pub static CT: &[KeyInfo<CtKey>] = &[
    key(CtKey::State, "state", DataType::CtState, 32, Host),
    key(CtKey::Direction, "direction", DataType::CtDir, 8, Host),
    key(CtKey::Status, "status", DataType::CtStatus, 32, Host),
    key(CtKey::Mark, "mark", DataType::Mark, 32, Host),
    key(CtKey::Expiration, "expiration", DataType::Time, 32, Host),
    key(CtKey::Helper, "helper", DataType::String, 128, Host),
    key(CtKey::L3Protocol, "l3proto", DataType::NfProto, 8, Host),
    key(CtKey::Src, "saddr", DataType::Invalid, 0, Big),
    key(CtKey::Dst, "daddr", DataType::Invalid, 0, Big),
    key(CtKey::Protocol, "protocol", DataType::InetProtocol, 8, Big),
    key(CtKey::ProtoSrc, "proto-src", DataType::Invalid, 16, Big),
    key(CtKey::ProtoDst, "proto-dst", DataType::Invalid, 16, Big),
    key(CtKey::Labels, "label", DataType::CtLabel, 128, Host),
    key(CtKey::Bytes, "bytes", DataType::Integer, 64, Host),
    key(CtKey::Pkts, "packets", DataType::Integer, 64, Host),
    key(CtKey::AvgPkt, "avgpkt", DataType::Integer, 64, Host),
    key(CtKey::Zone, "zone", DataType::Integer, 16, Host),
    key(CtKey::EventMask, "event", DataType::CtEventBit, 32, Host),
    key(CtKey::SrcIp, "ip saddr", DataType::IpAddr, 32, Big),
    key(CtKey::DstIp, "ip daddr", DataType::IpAddr, 32, Big),
    key(CtKey::SrcIp6, "ip6 saddr", DataType::Ip6Addr, 128, Big),
    key(CtKey::DstIp6, "ip6 daddr", DataType::Ip6Addr, 128, Big),
    key(CtKey::SecMark, "secmark", DataType::Integer, 32, Host),
    key(CtKey::Id, "id", DataType::Integer, 32, Big),
];

/// Keys of `rt`.
pub static RT: &[KeyInfo<RtKey>] = &[
    key(RtKey::Classid, "classid", DataType::Realm, 32, Host),
    key(RtKey::Nexthop4, "ip nexthop", DataType::IpAddr, 32, Big),
    key(RtKey::Nexthop6, "ip6 nexthop", DataType::Ip6Addr, 128, Big),
    key(RtKey::TcpMss, "mtu", DataType::Integer, 16, Host),
    key(RtKey::Xfrm, "ipsec", DataType::Boolean, 8, Host),
];

/// Keys of `socket`.
pub static SOCKET: &[KeyInfo<SocketKey>] = &[
    key(SocketKey::Transparent, "transparent", DataType::Integer, 8, Host),
    key(SocketKey::Mark, "mark", DataType::Mark, 32, Host),
    key(SocketKey::Wildcard, "wildcard", DataType::Integer, 8, Host),
    key(SocketKey::Cgroupv2, "cgroupv2", DataType::Cgroupv2, 64, Host),
];

/// Results of `fib`.
pub static FIB: &[KeyInfo<FibResult>] = &[
    key(FibResult::Oif, "oif", DataType::IfIndex, 32, Host),
    key(FibResult::OifName, "oifname", DataType::String, 128, Host),
    key(FibResult::AddrType, "type", DataType::FibAddr, 32, Host),
];

/// Keys of `ipsec`.
pub static XFRM: &[KeyInfo<XfrmKey>] = &[
    key(XfrmKey::DaddrIp4, "ip daddr", DataType::IpAddr, 32, Big),
    key(XfrmKey::DaddrIp6, "ip6 daddr", DataType::Ip6Addr, 128, Big),
    key(XfrmKey::SaddrIp4, "ip saddr", DataType::IpAddr, 32, Big),
    key(XfrmKey::SaddrIp6, "ip6 saddr", DataType::Ip6Addr, 128, Big),
    key(XfrmKey::Reqid, "reqid", DataType::Integer, 32, Host),
    key(XfrmKey::Spi, "spi", DataType::Integer, 32, Big),
];

/// Keys of `tunnel`.
pub static TUNNEL: &[KeyInfo<TunnelKey>] = &[
    key(TunnelKey::Path, "path", DataType::Boolean, 8, Host),
    key(TunnelKey::Id, "id", DataType::Integer, 32, Host),
];

/// Flags of a `fib` expression, in the order they are listed. Bit 32, presence, is not written
/// here.
pub static FIB_FLAGS: &[(u32, &str)] =
    &[(1, "saddr"), (2, "daddr"), (4, "mark"), (8, "iif"), (16, "oif")];

/// The words of these flags, in the order they are listed.
pub fn fib_flags(flags: u32) -> impl Iterator<Item = &'static str> {
    FIB_FLAGS.iter().filter(move |(bit, _)| flags & bit != 0).map(|(_, word)| *word)
}

/// Names by which keys of `meta` are known besides their own.
const META_ALIASES: &[(&str, MetaKey)] = &[
    ("ibriport", MetaKey::BriIifName),
    ("obriport", MetaKey::BriOifName),
    ("secpath", MetaKey::SecPath),
];

/// The `meta` key of that name, old names included.
pub fn meta_by_name(name: &str) -> Option<&'static KeyInfo<MetaKey>> {
    if let Some((_, key)) = META_ALIASES.iter().find(|(alias, _)| *alias == name) {
        return Some(meta(*key));
    }
    META.iter().find(|k| k.name == name)
}

/// What `unexpected …, known keys are …` lists: the keys of nft 1.0.6.
pub fn meta_names() -> String {
    let names: Vec<_> = META
        .iter()
        .filter(|k| !matches!(k.key, MetaKey::BriBroute | MetaKey::BriIifHwAddr))
        .map(|k| k.name)
        .collect();
    names.join(", ")
}

/// Whether a `meta` key may be written without `meta`.
pub fn meta_may_be_unqualified(key: MetaKey) -> bool {
    match key {
        MetaKey::Mark
        | MetaKey::Iif
        | MetaKey::Oif
        | MetaKey::IifName
        | MetaKey::OifName
        | MetaKey::IifType
        | MetaKey::OifType
        | MetaKey::SkUid
        | MetaKey::SkGid
        | MetaKey::NfTrace
        | MetaKey::RtClassid
        | MetaKey::BriIifName
        | MetaKey::BriOifName
        | MetaKey::PktType
        | MetaKey::Cpu
        | MetaKey::IifGroup
        | MetaKey::OifGroup
        | MetaKey::Cgroup
        | MetaKey::SecPath
        | MetaKey::TimeNs
        | MetaKey::TimeDay
        | MetaKey::TimeHour => true,
        MetaKey::Len
        | MetaKey::Protocol
        | MetaKey::Priority
        | MetaKey::SecMark
        | MetaKey::NfProto
        | MetaKey::L4Proto
        | MetaKey::Prandom
        | MetaKey::IifKind
        | MetaKey::OifKind
        | MetaKey::BriIifPvid
        | MetaKey::BriIifVproto
        | MetaKey::Sdif
        | MetaKey::SdifName
        | MetaKey::BriBroute
        | MetaKey::BriIifHwAddr => false,
    }
}

/// Whether a `meta` key is listed without `meta`.
pub fn meta_is_listed_unqualified(key: MetaKey) -> bool {
    matches!(
        key,
        MetaKey::Iif
            | MetaKey::Oif
            | MetaKey::IifName
            | MetaKey::OifName
            | MetaKey::IifGroup
            | MetaKey::OifGroup
    )
}

macro_rules! lookup {
    ($($(#[$doc:meta])* $name:ident($key:ident) in $table:ident;)*) => {
        $(
            $(#[$doc])*
            pub fn $name(key: $key) -> &'static KeyInfo<$key> {
                // Every key has a row, as the test below checks; the first stands in to stay total.
                $table.iter().find(|k| k.key == key).unwrap_or(&$table[0])
            }
        )*
    };
}

lookup! {
    /// The row of a `meta` key.
    meta(MetaKey) in META;
    /// The row of a `ct` key.
    ct(CtKey) in CT;
    /// The row of an `rt` key.
    rt(RtKey) in RT;
    /// The row of a `socket` key.
    socket(SocketKey) in SOCKET;
    /// The row of a `fib` result.
    fib(FibResult) in FIB;
    /// The row of an `ipsec` key.
    xfrm(XfrmKey) in XFRM;
    /// The row of a `tunnel` key.
    tunnel(TunnelKey) in TUNNEL;
}

/// The `ct` key of that name; addresses with a family are two words.
pub fn ct_by_name(name: &str) -> Option<&'static KeyInfo<CtKey>> {
    CT.iter().find(|k| k.name == name)
}

/// Whether a `ct` key may be given a direction.
pub fn ct_has_direction(key: CtKey) -> bool {
    match key {
        CtKey::L3Protocol
        | CtKey::Src
        | CtKey::Dst
        | CtKey::Protocol
        | CtKey::ProtoSrc
        | CtKey::ProtoDst
        | CtKey::Bytes
        | CtKey::Pkts
        | CtKey::AvgPkt
        | CtKey::Zone
        | CtKey::SrcIp
        | CtKey::DstIp
        | CtKey::SrcIp6
        | CtKey::DstIp6 => true,
        CtKey::State
        | CtKey::Direction
        | CtKey::Status
        | CtKey::Mark
        | CtKey::SecMark
        | CtKey::Expiration
        | CtKey::Helper
        | CtKey::Labels
        | CtKey::EventMask
        | CtKey::Id => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_has_its_row() {
        for (i, info) in META.iter().enumerate() {
            assert_eq!(info.key as usize, i, "{}", info.name);
        }
        let mut ct: Vec<u8> = CT.iter().map(|k| k.key as u8).collect();
        ct.sort_unstable();
        assert_eq!(ct, (0..=CtKey::Id as u8).collect::<Vec<_>>());
        assert_eq!(meta_by_name("secpath").map(|k| k.key), Some(MetaKey::SecPath));
        assert_eq!(meta_by_name("broute").map(|k| k.key), Some(MetaKey::BriBroute));
    }
}
