// SPDX-License-Identifier: Apache-2.0

//! The extensions that Linux 6.18 has, and where it takes them: families, revisions, tables, hooks
//! and protocols (`struct xt_match` and `struct xt_target` in `net/netfilter/xt_*.c`,
//! `net/ipv4/netfilter`, `net/ipv6/netfilter`, `net/bridge/netfilter`).

use crate::Family;
use crate::hook::{Hook, Hooks};

/// Families that have an extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    /// All (`NFPROTO_UNSPEC`).
    All,
    Ip,
    Ip6,
    /// IPv4 and IPv6.
    Both,
    Bridge,
    Arp,
}

impl Of {
    fn has(self, family: Family) -> bool {
        match self {
            Of::All => true,
            Of::Ip => family == Family::Ip,
            Of::Ip6 => family == Family::Ip6,
            Of::Both => matches!(family, Family::Ip | Family::Ip6),
            Of::Bridge => family == Family::Bridge,
            Of::Arp => family == Family::Arp,
        }
    }
}

/// An extension.
#[derive(Clone, Copy, Debug)]
pub(super) struct Registered {
    name: &'static str,
    of: Of,
    revisions: &'static [u32],
    /// Names of tables; none for all.
    pub tables: &'static [&'static str],
    /// Hooks of base chains.
    pub hooks: Hooks,
    /// The rule's protocol has to be one of these, not inverted; none for any.
    pub protocols: &'static [u16],
}

const fn row(name: &'static str, of: Of, revisions: &'static [u32]) -> Registered {
    Registered { name, of, revisions, tables: &[], hooks: Hooks::ANY, protocols: &[] }
}

impl Registered {
    const fn tables(self, tables: &'static [&'static str]) -> Registered {
        Registered { tables, ..self }
    }

    const fn hooks(self, hooks: &[Hook]) -> Registered {
        Registered { hooks: Hooks::of(hooks), ..self }
    }

    /// Whether it needs a chain of type nat (`nft_compat_chain_validate_dependency()`).
    pub(super) fn translates(&self, family: Family) -> bool {
        self.tables == NAT && family != Family::Bridge
    }

    const fn protocols(self, protocols: &'static [u16]) -> Registered {
        Registered { protocols, ..self }
    }
}

/// A protocol of IP that a rule asks for.
const ICMP: u16 = 1;
const TCP: u16 = 6;
const UDP: u16 = 17;
const DCCP: u16 = 33;
const ESP: u16 = 50;
const AH: u16 = 51;
const ICMPV6: u16 = 58;
const IPCOMP: u16 = 108;
const SCTP: u16 = 132;
const MH: u16 = 135;
const UDPLITE: u16 = 136;
/// The same of a rule of a bridge.
const ETH_IP: u16 = 0x0800;
const ETH_ARP: u16 = 0x0806;
const ETH_RARP: u16 = 0x8035;
const ETH_VLAN: u16 = 0x8100;
const ETH_IPV6: u16 = 0x86dd;

const NAT: &[&str] = &["nat"];
const RAW: &[&str] = &["raw"];
const MANGLE: &[&str] = &["mangle"];
const PREROUTING: &[Hook] = &[Hook::Prerouting];
const DESTINATION: &[Hook] = &[Hook::Prerouting, Hook::Output];
const SOURCE: &[Hook] = &[Hook::Input, Hook::Postrouting];
const BEFORE_OUTPUT: &[Hook] = &[Hook::Prerouting, Hook::Input, Hook::Forward];
const AFTER_INPUT: &[Hook] = &[Hook::Forward, Hook::Output, Hook::Postrouting];

/// Matches.
const MATCHES: &[Registered] = &[
    row("802_3", Of::Bridge, &[0]),
    row("addrtype", Of::All, &[1]),
    row("addrtype", Of::Ip, &[0]),
    row("ah", Of::Ip, &[0]).protocols(&[AH]),
    row("ah", Of::Ip6, &[0]),
    row("among", Of::Bridge, &[0]),
    row("arp", Of::Bridge, &[0]).protocols(&[ETH_ARP, ETH_RARP]),
    row("bpf", Of::All, &[0, 1]),
    row("cgroup", Of::All, &[0, 1, 2]),
    row("cluster", Of::All, &[0]),
    row("comment", Of::All, &[0]),
    row("connbytes", Of::All, &[0]),
    row("connlabel", Of::All, &[0]),
    row("connlimit", Of::All, &[1]),
    row("connmark", Of::All, &[1]),
    row("conntrack", Of::All, &[1, 2, 3]),
    row("cpu", Of::All, &[0]),
    row("dccp", Of::Both, &[0]).protocols(&[DCCP]),
    row("devgroup", Of::All, &[0]),
    row("dscp", Of::Both, &[0]),
    row("dst", Of::Ip6, &[0]),
    row("ecn", Of::Both, &[0]),
    row("esp", Of::Both, &[0]).protocols(&[ESP]),
    row("eui64", Of::Ip6, &[0]).hooks(BEFORE_OUTPUT),
    row("frag", Of::Ip6, &[0]),
    row("hashlimit", Of::Both, &[1, 2, 3]),
    row("hbh", Of::Ip6, &[0]),
    row("helper", Of::All, &[0]),
    row("hl", Of::Ip6, &[0]),
    row("icmp", Of::Ip, &[0]).protocols(&[ICMP]),
    row("icmp6", Of::Ip6, &[0]).protocols(&[ICMPV6]),
    row("ip", Of::Bridge, &[0]).protocols(&[ETH_IP]),
    row("ip6", Of::Bridge, &[0]).protocols(&[ETH_IPV6]),
    row("ipcomp", Of::Both, &[0]).protocols(&[IPCOMP]),
    row("iprange", Of::Both, &[1]),
    row("ipv6header", Of::Ip6, &[0]),
    row("ipvs", Of::All, &[0]),
    row("l2tp", Of::Both, &[0]),
    row("length", Of::Both, &[0]),
    row("limit", Of::All, &[0]),
    row("mac", Of::Both, &[0]).hooks(BEFORE_OUTPUT),
    row("mark", Of::All, &[1]),
    row("mark_m", Of::Bridge, &[0]),
    row("mh", Of::Ip6, &[0]).protocols(&[MH]),
    row("multiport", Of::Both, &[1]).protocols(&[TCP, UDP, UDPLITE, SCTP, DCCP]),
    row("nfacct", Of::All, &[0, 1]),
    row("osf", Of::Ip, &[0]).protocols(&[TCP]).hooks(BEFORE_OUTPUT),
    row("owner", Of::Both, &[1]).hooks(&[Hook::Output, Hook::Postrouting]),
    row("physdev", Of::Both, &[0]),
    row("pkttype", Of::All, &[0]),
    row("policy", Of::Both, &[0]),
    row("quota", Of::All, &[0]),
    row("rateest", Of::All, &[0]),
    row("realm", Of::All, &[0]).hooks(&[
        Hook::Input,
        Hook::Forward,
        Hook::Output,
        Hook::Postrouting,
    ]),
    row("recent", Of::Both, &[0, 1]),
    row("rpfilter", Of::Both, &[0]).tables(&["mangle", "raw"]).hooks(PREROUTING),
    row("rt", Of::Ip6, &[0]),
    row("sctp", Of::Both, &[0]).protocols(&[SCTP]),
    row("set", Of::All, &[0, 1, 2, 3, 4]),
    row("socket", Of::Ip, &[0]).hooks(&[Hook::Prerouting, Hook::Input]),
    row("socket", Of::Both, &[1, 2, 3]).hooks(&[Hook::Prerouting, Hook::Input]),
    row("srh", Of::Ip6, &[0, 1]),
    row("state", Of::All, &[0]),
    row("statistic", Of::All, &[0]),
    row("stp", Of::Bridge, &[0]),
    row("string", Of::All, &[1]),
    row("tcp", Of::Both, &[0]).protocols(&[TCP]),
    row("tcpmss", Of::Both, &[0]).protocols(&[TCP]),
    row("time", Of::All, &[0]),
    row("tos", Of::Both, &[1]),
    row("ttl", Of::Ip, &[0]),
    row("u32", Of::All, &[0]),
    row("udp", Of::Both, &[0]).protocols(&[UDP]),
    row("udplite", Of::Both, &[0]).protocols(&[UDPLITE]),
    row("vlan", Of::Bridge, &[0]).protocols(&[ETH_VLAN]),
];

/// Targets.
const TARGETS: &[Registered] = &[
    row("AUDIT", Of::All, &[0]),
    row("CHECKSUM", Of::All, &[0]).tables(MANGLE),
    row("CLASSIFY", Of::All, &[0]).hooks(AFTER_INPUT),
    row("CONNMARK", Of::All, &[1, 2]),
    row("CONNSECMARK", Of::All, &[0]).tables(&["mangle", "security"]),
    row("CT", Of::All, &[0, 1, 2]).tables(RAW),
    row("DNAT", Of::Ip, &[0]).tables(NAT).hooks(DESTINATION),
    row("DNAT", Of::Both, &[1]).tables(NAT).hooks(DESTINATION),
    row("DNAT", Of::All, &[2]).tables(NAT).hooks(DESTINATION),
    row("DNPT", Of::Ip6, &[0]).tables(MANGLE).hooks(DESTINATION),
    row("DSCP", Of::Both, &[0]).tables(MANGLE),
    row("ECN", Of::Ip, &[0]).tables(MANGLE),
    row("HL", Of::Ip6, &[0]).tables(MANGLE),
    row("HMARK", Of::Both, &[0]),
    row("IDLETIMER", Of::All, &[0, 1]),
    row("LED", Of::All, &[0]),
    row("LOG", Of::Both, &[0]),
    row("MARK", Of::All, &[2]),
    row("MASQUERADE", Of::Both, &[0]).tables(NAT).hooks(&[Hook::Postrouting]),
    row("NETMAP", Of::Both, &[0]).tables(NAT).hooks(&[
        Hook::Prerouting,
        Hook::Input,
        Hook::Output,
        Hook::Postrouting,
    ]),
    row("NFLOG", Of::All, &[0]),
    row("NFQUEUE", Of::All, &[0, 1, 2, 3]),
    row("NOTRACK", Of::All, &[0]).tables(RAW),
    row("RATEEST", Of::All, &[0]),
    row("REDIRECT", Of::Both, &[0]).tables(NAT).hooks(DESTINATION),
    row("REJECT", Of::Both, &[0]).tables(&["filter"]).hooks(&[
        Hook::Input,
        Hook::Forward,
        Hook::Output,
    ]),
    row("SECMARK", Of::All, &[0, 1]).tables(&["mangle", "security"]),
    row("SET", Of::All, &[0, 1, 2, 3]),
    row("SNAT", Of::Ip, &[0]).tables(NAT).hooks(SOURCE),
    row("SNAT", Of::Both, &[1]).tables(NAT).hooks(SOURCE),
    row("SNAT", Of::All, &[2]).tables(NAT).hooks(SOURCE),
    row("SNPT", Of::Ip6, &[0]).tables(MANGLE).hooks(SOURCE),
    row("SYNPROXY", Of::Both, &[0]).protocols(&[TCP]).hooks(&[Hook::Input, Hook::Forward]),
    row("TCPMSS", Of::Both, &[0]).protocols(&[TCP]),
    row("TCPOPTSTRIP", Of::Both, &[0]).tables(MANGLE).protocols(&[TCP]),
    row("TEE", Of::Both, &[1]),
    row("TOS", Of::Both, &[1]).tables(MANGLE),
    row("TPROXY", Of::Ip, &[0]).tables(MANGLE).hooks(PREROUTING).protocols(&[TCP, UDP]),
    row("TPROXY", Of::Both, &[1]).tables(MANGLE).hooks(PREROUTING).protocols(&[TCP, UDP]),
    row("TRACE", Of::All, &[0]).tables(RAW),
    row("TTL", Of::Ip, &[0]).tables(MANGLE),
    row("arpreply", Of::Bridge, &[0]).tables(NAT).hooks(PREROUTING).protocols(&[ETH_ARP]),
    row("dnat", Of::Bridge, &[0]).tables(&["nat", "broute"]).hooks(DESTINATION),
    row("log", Of::Bridge, &[0]),
    row("mangle", Of::Arp, &[0]),
    row("mark", Of::Bridge, &[0]),
    row("nflog", Of::Bridge, &[0]),
    row("redirect", Of::Bridge, &[0]).tables(&["nat", "broute"]).hooks(PREROUTING),
    row("snat", Of::Bridge, &[0]).tables(NAT).hooks(&[Hook::Postrouting]),
];

fn named(target: bool, name: &str, family: Family) -> impl Iterator<Item = &'static Registered> {
    let all = if target { TARGETS } else { MATCHES };
    all.iter().filter(move |row| row.name == name && row.of.has(family))
}

/// An extension in a revision.
pub(super) fn find(
    target: bool,
    name: &str,
    rev: u32,
    family: Family,
) -> Option<&'static Registered> {
    named(target, name, family).find(|row| row.revisions.contains(&rev))
}

/// The revisions of an extension that a family has.
pub fn revisions(target: bool, name: &str, family: Family) -> impl Iterator<Item = u32> {
    named(target, name, family).flat_map(|row| row.revisions.iter().copied())
}

/// Names of those that one of the families has.
#[cfg(test)]
pub(super) fn names(target: bool, families: &[Family]) -> impl Iterator<Item = &'static str> {
    let all = if target { TARGETS } else { MATCHES };
    all.iter().filter(|row| families.iter().any(|f| row.of.has(*f))).map(|row| row.name)
}
