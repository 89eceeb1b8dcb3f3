// SPDX-License-Identifier: Apache-2.0

//! Tables of symbolic constants. Where a value has several names the first one is listed.

use crate::datatype::DataType;

/// How `describe` shows the values of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// `0x…`
    Hexadecimal,
    /// Right aligned.
    Decimal,
}

/// A table of symbols.
#[derive(Debug)]
pub struct Symbols {
    /// For `describe`.
    pub base: Base,
    /// Names and values (as numbers, whatever the byte order of the type).
    pub list: &'static [(&'static str, u32)],
}

impl Symbols {
    /// The value of a name.
    pub fn value(&self, name: &str) -> Option<u32> {
        self.list.iter().find(|(n, _)| *n == name).map(|(_, v)| *v)
    }

    /// The name of a value.
    pub fn name(&self, value: u128) -> Option<&'static str> {
        self.list.iter().find(|(_, v)| u128::from(*v) == value).map(|(n, _)| *n)
    }
}

/// The table of a type, if it has a fixed one. Marks, realms, device groups and labels come from
/// the system.
pub fn of(dtype: DataType) -> Option<&'static Symbols> {
    Some(match dtype {
        DataType::NfProto => &NFPROTO,
        DataType::EtherType => &ETHERTYPE,
        DataType::ArpOp => &ARP_OP,
        DataType::IcmpType => &ICMP_TYPE,
        DataType::TcpFlag => &TCP_FLAG,
        DataType::DccpPktType => &DCCP_TYPE,
        DataType::MhType => &MH_TYPE,
        DataType::ArpHrd => &ARPHRD,
        DataType::CtState => &CT_STATE,
        DataType::CtDir => &CT_DIR,
        DataType::CtStatus => &CT_STATUS,
        DataType::Icmp6Type => &ICMP6_TYPE,
        DataType::PktType => &PKTTYPE,
        DataType::IcmpCode => &ICMP_CODE,
        DataType::Icmpv6Code => &ICMPV6_CODE,
        DataType::IcmpxCode => &ICMPX_CODE,
        DataType::Dscp => &DSCP,
        DataType::Ecn => &ECN,
        DataType::FibAddr => &FIB_ADDR,
        DataType::Boolean => &BOOLEAN,
        DataType::CtEventBit => &CT_EVENT,
        DataType::IgmpType => &IGMP_TYPE,
        DataType::MptcpSubtype => &MPTCP_SUBTYPE,
        DataType::TimeDay => &DAY,
        DataType::Invalid
        | DataType::Verdict
        | DataType::Bitmask
        | DataType::Integer
        | DataType::RawInteger
        | DataType::String
        | DataType::LlAddr
        | DataType::IpAddr
        | DataType::Ip6Addr
        | DataType::EtherAddr
        | DataType::InetProtocol
        | DataType::InetService
        | DataType::Time
        | DataType::Mark
        | DataType::IfIndex
        | DataType::Realm
        | DataType::Classid
        | DataType::Uid
        | DataType::Gid
        | DataType::CtLabel
        | DataType::DevGroup
        | DataType::IfName
        | DataType::TimeDate
        | DataType::TimeHour
        | DataType::Cgroupv2 => return None,
    })
}

macro_rules! symbols {
    ($($(#[$doc:meta])* $name:ident: $base:ident = $($symbol:literal $value:expr),+;)*) => {
        $($(#[$doc])* pub static $name: Symbols =
            Symbols { base: Base::$base, list: &[$(($symbol, $value)),+] };)*
    };
}

symbols! {
    /// `NFPROTO_*`.
    NFPROTO: Decimal = "ipv4" 2, "ipv6" 10;
    /// `ETH_P_*`.
    ETHERTYPE: Hexadecimal =
        "ip" 0x0800, "arp" 0x0806, "ip6" 0x86dd, "8021q" 0x8100, "8021ad" 0x88a8, "vlan" 0x8100;
    /// `ARPOP_*`.
    ARP_OP: Hexadecimal = "request" 1, "reply" 2, "rrequest" 3, "rreply" 4, "inrequest" 8, "inreply" 9, "nak" 10;
    /// ICMP message types.
    ICMP_TYPE: Decimal =
        "echo-reply" 0, "destination-unreachable" 3, "source-quench" 4, "redirect" 5, "echo-request" 8,
        "router-advertisement" 9, "router-solicitation" 10, "time-exceeded" 11, "parameter-problem" 12,
        "timestamp-request" 13, "timestamp-reply" 14, "info-request" 15, "info-reply" 16,
        "address-mask-request" 17, "address-mask-reply" 18;
    /// TCP flags.
    TCP_FLAG: Hexadecimal =
        "fin" 0x01, "syn" 0x02, "rst" 0x04, "psh" 0x08, "ack" 0x10, "urg" 0x20, "ecn" 0x40, "cwr" 0x80;
    /// DCCP packet types.
    DCCP_TYPE: Hexadecimal =
        "request" 0, "response" 1, "data" 2, "ack" 3, "dataack" 4, "closereq" 5, "close" 6, "reset" 7, "sync" 8,
        "syncack" 9;
    /// Mobility header types.
    MH_TYPE: Decimal =
        "binding-refresh-request" 0, "home-test-init" 1, "careof-test-init" 2, "home-test" 3, "careof-test" 4,
        "binding-update" 5, "binding-acknowledgement" 6, "binding-error" 7, "fast-binding-update" 8,
        "fast-binding-acknowledgement" 9, "fast-binding-advertisement" 10, "experimental-mobility-header" 11,
        "home-agent-switch-message" 12;
    /// `ARPHRD_*`.
    ARPHRD: Hexadecimal =
        "ether" 1, "ppp" 512, "ipip" 768, "ipip6" 769, "loopback" 772, "sit" 776, "ipgre" 778;
    /// Bits of `ct state`.
    CT_STATE: Hexadecimal = "invalid" 1, "new" 8, "established" 2, "related" 4, "untracked" 64;
    /// `IP_CT_DIR_*`.
    CT_DIR: Decimal = "original" 0, "reply" 1;
    /// Bits of `ct status`.
    CT_STATUS: Hexadecimal =
        "expected" 1, "seen-reply" 2, "assured" 4, "confirmed" 8, "snat" 16, "dnat" 32, "dying" 512;
    /// Bits of `ct event`.
    CT_EVENT: Hexadecimal =
        "new" 0x1, "related" 0x2, "destroy" 0x4, "reply" 0x8, "assured" 0x10, "protoinfo" 0x20, "helper" 0x40,
        "mark" 0x80, "seqadj" 0x100, "secmark" 0x200, "label" 0x400;
    /// ICMPv6 message types.
    ICMP6_TYPE: Decimal =
        "destination-unreachable" 1, "packet-too-big" 2, "time-exceeded" 3, "parameter-problem" 4,
        "echo-request" 128, "echo-reply" 129, "mld-listener-query" 130, "mld-listener-report" 131,
        "mld-listener-done" 132, "mld-listener-reduction" 132, "nd-router-solicit" 133, "nd-router-advert" 134,
        "nd-neighbor-solicit" 135, "nd-neighbor-advert" 136, "nd-redirect" 137, "router-renumbering" 138,
        "ind-neighbor-solicit" 141, "ind-neighbor-advert" 142, "mld2-listener-report" 143;
    /// `PACKET_*`.
    PKTTYPE: Decimal = "host" 0, "unicast" 0, "broadcast" 1, "multicast" 2, "other" 3;
    /// Codes of ICMP destination unreachable.
    ICMP_CODE: Decimal =
        "net-unreachable" 0, "host-unreachable" 1, "prot-unreachable" 2, "port-unreachable" 3, "net-prohibited" 9,
        "host-prohibited" 10, "admin-prohibited" 13, "frag-needed" 4;
    /// Codes of ICMPv6 destination unreachable.
    ICMPV6_CODE: Decimal =
        "no-route" 0, "admin-prohibited" 1, "addr-unreachable" 3, "port-unreachable" 4, "policy-fail" 5,
        "reject-route" 6;
    /// `NFT_REJECT_ICMPX_*`.
    ICMPX_CODE: Decimal = "port-unreachable" 1, "admin-prohibited" 3, "no-route" 0, "host-unreachable" 2;
    /// Code points of RFC 2474, 2597, 3246, 5865, 8622.
    DSCP: Hexadecimal =
        "cs0" 0x00, "cs1" 0x08, "cs2" 0x10, "cs3" 0x18, "cs4" 0x20, "cs5" 0x28, "cs6" 0x30, "cs7" 0x38,
        "df" 0x00, "be" 0x00, "lephb" 0x01, "af11" 0x0a, "af12" 0x0c, "af13" 0x0e, "af21" 0x12, "af22" 0x14,
        "af23" 0x16, "af31" 0x1a, "af32" 0x1c, "af33" 0x1e, "af41" 0x22, "af42" 0x24, "af43" 0x26, "va" 0x2c,
        "ef" 0x2e;
    /// Code points of RFC 3168.
    ECN: Hexadecimal = "not-ect" 0, "ect1" 1, "ect0" 2, "ce" 3;
    /// `RTN_*`.
    FIB_ADDR: Decimal =
        "unspec" 0, "unicast" 1, "local" 2, "broadcast" 3, "anycast" 4, "multicast" 5, "blackhole" 6,
        "unreachable" 7, "prohibit" 8;
    /// Presence.
    BOOLEAN: Decimal = "exists" 1, "missing" 0;
    /// IGMP message types.
    IGMP_TYPE: Decimal =
        "membership-query" 17, "membership-report-v1" 18, "membership-report-v2" 22, "membership-report-v3" 34,
        "leave-group" 23;
    /// RFC 8684.
    MPTCP_SUBTYPE: Decimal =
        "mp-capable" 0, "mp-join" 1, "dss" 2, "add-addr" 3, "remove-addr" 4, "mp-prio" 5, "mp-fail" 6,
        "mp-fastclose" 7, "mp-tcprst" 8;
    /// Sunday is 0.
    DAY: Decimal =
        "Sunday" 0, "Monday" 1, "Tuesday" 2, "Wednesday" 3, "Thursday" 4, "Friday" 5, "Saturday" 6;
    /// Levels of the `log` statement; 8 is not one of syslog's.
    LOG_LEVEL: Decimal =
        "emerg" 0, "alert" 1, "crit" 2, "err" 3, "warn" 4, "notice" 5, "info" 6, "debug" 7, "audit" 8;
}
