// SPDX-License-Identifier: Apache-2.0

//! The extensions that run, by name and revision.

use std::ops::RangeInclusive;

use super::{
    Given, Lowering, bridge, change, connection, frame, host, ip_sets, ipv6, metadata, named, nat,
    network, outside, remembered, transport, verdict,
};
use crate::Family;

/// An extension.
pub struct Row {
    /// A target; else a match.
    pub target: bool,
    /// Its name.
    pub name: &'static str,
    /// Its revisions.
    pub revs: RangeInclusive<u32>,
    /// Bytes of its structure, without padding at its end.
    pub len: usize,
    /// Lowers it.
    pub lower: fn(&Given<'_>) -> Lowering,
}

/// The extension of a name and revision in tables of a family.
pub fn find(target: bool, name: &str, rev: u32, family: Family) -> Option<&'static Row> {
    let (own, both): (&[Row], &[Row]) = match family {
        Family::Ip => (IPV4, ALL),
        Family::Ip6 => (IPV6, ALL),
        Family::Bridge => (BRIDGE, &[]),
        Family::Arp => (ARP, &[]),
        Family::Inet | Family::Netdev => return None,
    };
    own.iter()
        .chain(both)
        .find(|row| row.target == target && row.name == name && row.revs.contains(&rev))
}

/// A match.
const fn matching(
    name: &'static str,
    revs: RangeInclusive<u32>,
    len: usize,
    lower: fn(&Given<'_>) -> Lowering,
) -> Row {
    Row { target: false, name, revs, len, lower }
}

/// A target.
const fn target(
    name: &'static str,
    revs: RangeInclusive<u32>,
    len: usize,
    lower: fn(&Given<'_>) -> Lowering,
) -> Row {
    Row { target: true, name, revs, len, lower }
}

/// Those of IPv4 alone.
pub const IPV4: &[Row] = &[
    matching("ah", 0..=0, 9, transport::ah),
    matching("osf", 0..=0, 48, outside::osf),
    target("ECN", 0..=0, 3, change::ecn),
];

/// Those of IPv6 alone.
pub const IPV6: &[Row] = &[
    matching("ah", 0..=0, 14, ipv6::ah),
    matching("dst", 0..=0, 39, ipv6::dst),
    matching("eui64", 0..=0, 0, ipv6::eui64),
    matching("frag", 0..=0, 14, ipv6::frag),
    matching("hbh", 0..=0, 39, ipv6::hbh),
    matching("ipv6header", 0..=0, 3, ipv6::ipv6header),
    matching("mh", 0..=0, 3, ipv6::mh),
    matching("rt", 0..=0, 277, ipv6::rt),
    matching("srh", 0..=0, 10, ipv6::srh),
    matching("srh", 1..=1, 108, ipv6::srh),
    target("DNPT", 0..=0, 34, change::dnpt),
    target("SNPT", 0..=0, 34, change::snpt),
];

/// Those of IPv4 and IPv6, matches first.
pub const ALL: &[Row] = &[
    matching("addrtype", 1..=1, 8, metadata::addrtype),
    matching("bpf", 0..=0, 4, outside::bpf),
    matching("bpf", 1..=1, 8, outside::bpf),
    matching("cluster", 0..=0, 16, outside::cluster),
    matching("comment", 0..=0, 0, |_| Ok(vec![])),
    matching("connbytes", 0..=0, 18, connection::connbytes),
    matching("connlabel", 0..=0, 4, connection::connlabel),
    matching("connlimit", 1..=1, 24, remembered::connlimit),
    matching("connmark", 1..=1, 9, connection::connmark),
    matching("conntrack", 1..=1, 152, connection::conntrack),
    matching("conntrack", 2..=2, 154, connection::conntrack),
    matching("conntrack", 3..=3, 162, connection::conntrack),
    matching("cpu", 0..=0, 8, metadata::cpu),
    matching("dccp", 0..=0, 15, transport::dccp),
    matching("devgroup", 0..=0, 20, metadata::devgroup),
    matching("dscp", 0..=0, 2, network::dscp),
    matching("ecn", 0..=0, 4, transport::ecn),
    matching("esp", 0..=0, 9, transport::esp),
    matching("hashlimit", 1..=1, 46, remembered::hashlimit),
    matching("hashlimit", 2..=2, 294, remembered::hashlimit),
    matching("hashlimit", 3..=3, 298, remembered::hashlimit),
    matching("helper", 0..=0, 34, connection::helper),
    matching("hl", 0..=0, 2, network::ttl),
    matching("icmp", 0..=0, 4, transport::icmp),
    matching("icmp6", 0..=0, 4, transport::icmp),
    matching("ipcomp", 0..=0, 9, transport::ipcomp),
    matching("iprange", 1..=1, 65, network::iprange),
    matching("l2tp", 0..=0, 11, transport::l2tp),
    matching("length", 0..=0, 5, network::length),
    matching("limit", 0..=0, 8, remembered::limit),
    matching("mac", 0..=0, 12, metadata::mac),
    matching("mark", 1..=1, 9, metadata::mark),
    matching("multiport", 1..=1, 48, transport::multiport),
    matching("nfacct", 0..=1, 32, named::nfacct),
    matching("owner", 1..=1, 18, metadata::owner),
    matching("physdev", 0..=0, 66, metadata::physdev),
    matching("pkttype", 0..=0, 8, metadata::pkttype),
    matching("policy", 0..=0, 308, outside::policy),
    matching("quota", 0..=0, 16, metadata::quota),
    matching("rateest", 0..=0, 52, remembered::rateest),
    matching("realm", 0..=0, 9, metadata::realm),
    matching("recent", 0..=0, 211, remembered::recent),
    matching("recent", 1..=1, 228, remembered::recent),
    matching("rpfilter", 0..=0, 1, host::rpfilter),
    matching("sctp", 0..=0, 292, transport::sctp),
    matching("set", 0..=0, 32, ip_sets::set),
    matching("set", 1..=2, 4, ip_sets::set),
    matching("set", 3..=4, 44, ip_sets::set),
    matching("socket", 0..=0, 0, host::socket),
    matching("socket", 1..=3, 1, host::socket),
    matching("state", 0..=0, 4, connection::state),
    matching("statistic", 0..=0, 16, metadata::statistic),
    matching("string", 1..=1, 150, metadata::string),
    matching("tcp", 0..=0, 12, transport::tcp),
    matching("tcpmss", 0..=0, 5, transport::tcpmss),
    matching("time", 0..=0, 22, metadata::time),
    matching("tos", 1..=1, 3, network::tos),
    matching("ttl", 0..=0, 2, network::ttl),
    matching("u32", 0..=0, 1982, metadata::u32),
    matching("udp", 0..=0, 9, transport::udp),
    matching("udplite", 0..=0, 9, transport::udp),
    target("AUDIT", 0..=0, 1, verdict::audit),
    target("CHECKSUM", 0..=0, 1, change::checksum),
    target("CLASSIFY", 0..=0, 4, change::classify),
    target("CONNMARK", 1..=1, 13, change::connmark),
    target("CONNMARK", 2..=2, 15, change::connmark),
    target("CT", 0..=0, 28, change::ct),
    target("CT", 1..=2, 60, change::ct),
    target("DNAT", 0..=0, 20, nat::dnat),
    target("DNAT", 1..=1, 40, nat::dnat),
    target("DNAT", 2..=2, 42, nat::dnat),
    target("DSCP", 0..=0, 1, change::dscp),
    target("HL", 0..=0, 2, change::ttl),
    target("HMARK", 0..=0, 60, outside::hmark),
    target("LOG", 0..=0, 32, verdict::log),
    target("MARK", 2..=2, 8, change::mark),
    target("MASQUERADE", 0..=0, 20, nat::masquerade),
    target("NETMAP", 0..=0, 20, nat::netmap),
    target("NFLOG", 0..=0, 76, verdict::nflog),
    target("NFQUEUE", 0..=0, 2, verdict::nfqueue),
    target("NFQUEUE", 1..=1, 4, verdict::nfqueue),
    target("NFQUEUE", 2..=3, 6, verdict::nfqueue),
    target("NOTRACK", 0..=0, 0, change::notrack),
    target("RATEEST", 0..=0, 18, remembered::rateest_target),
    target("REDIRECT", 0..=0, 20, nat::redirect),
    target("REJECT", 0..=0, 4, verdict::reject),
    target("SET", 0..=0, 64, ip_sets::target),
    target("SET", 1..=1, 8, ip_sets::target),
    target("SET", 2..=2, 16, ip_sets::target),
    target("SET", 3..=3, 20, ip_sets::target),
    target("SNAT", 0..=0, 20, nat::snat),
    target("SNAT", 1..=1, 40, nat::snat),
    target("SNAT", 2..=2, 42, nat::snat),
    target("SYNPROXY", 0..=0, 4, host::synproxy),
    target("TCPMSS", 0..=0, 2, change::tcpmss),
    target("TCPOPTSTRIP", 0..=0, 32, change::tcpoptstrip),
    target("TEE", 1..=1, 32, verdict::tee),
    target("TOS", 1..=1, 2, change::tos),
    target("TPROXY", 0..=0, 14, host::tproxy),
    target("TPROXY", 1..=1, 26, host::tproxy),
    target("TRACE", 0..=0, 0, change::trace),
    target("TTL", 0..=0, 2, change::ttl),
];

/// Those of bridges.
pub const BRIDGE: &[Row] = &[
    matching("802_3", 0..=0, 6, bridge::ieee_802_3),
    matching("arp", 0..=0, 50, bridge::arp),
    matching("comment", 0..=0, 0, |_| Ok(vec![])),
    matching("ip", 0..=0, 28, bridge::ip),
    matching("ip6", 0..=0, 76, bridge::ip6),
    matching("limit", 0..=0, 8, remembered::limit),
    matching("mark_m", 0..=0, 18, bridge::mark),
    matching("pkttype", 0..=0, 8, metadata::pkttype),
    matching("stp", 0..=0, 72, bridge::stp),
    matching("string", 1..=1, 150, metadata::string),
    matching("vlan", 0..=0, 8, bridge::vlan),
    target("AUDIT", 0..=0, 1, verdict::audit),
    target("arpreply", 0..=0, 12, frame::arpreply),
    target("dnat", 0..=0, 12, frame::dnat),
    target("log", 0..=0, 36, frame::log),
    target("mark", 0..=0, 12, frame::mark),
    target("nflog", 0..=0, 76, verdict::nflog),
    target("redirect", 0..=0, 4, frame::redirect),
    target("snat", 0..=0, 12, frame::snat),
];

/// Those of ARP.
pub const ARP: &[Row] = &[
    matching("comment", 0..=0, 0, |_| Ok(vec![])),
    target("CLASSIFY", 0..=0, 4, change::classify),
    target("MARK", 2..=2, 8, change::mark),
    target("mangle", 0..=0, 48, frame::mangle),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::expr::xt::registered;

    /// Rows of a table in `docs/clients.md`: the first of them begins with a word.
    fn rows(first: &str) -> String {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/clients.md");
        let page = std::fs::read_to_string(page).expect("the page about clients");
        let (_, rows) = page.split_once(first).expect(first);
        rows.split_once("\n\n").map_or(rows, |(rows, _)| rows).to_owned()
    }

    /// Names that commas and cells keep apart, without what stands in brackets.
    fn names(cells: &str) -> BTreeSet<String> {
        let mut depth = 0;
        let outside = |c: &char| {
            depth += i32::from(*c == '(') - i32::from(*c == ')');
            depth == 0 && *c != ')'
        };
        let cells: String = cells.chars().filter(outside).collect();
        cells.split([',', '|']).map(|n| n.trim().to_owned()).filter(|n| !n.is_empty()).collect()
    }

    #[test]
    fn the_documented_extensions_are_those_that_run_and_those_that_do_not() {
        let kept = rows("| kept, listed and saved, but not run |");
        let mut not_run: BTreeSet<&str> = kept
            .lines()
            .skip(2)
            .flat_map(|row| {
                let (name, _) = row[1..].split_once('|').unwrap_or_default();
                name.split(',').map(|name| name.trim().trim_matches('`'))
            })
            .collect();
        for (row, is_target) in [("| matches |", false), ("| targets |", true)] {
            let of_kind = [ALL, IPV4, IPV6].into_iter().flatten().filter(|r| r.target == is_target);
            let run: BTreeSet<_> = of_kind.map(|row| row.name.to_owned()).collect();
            let documented = rows(row);
            assert_eq!(names(documented.lines().next().unwrap_or_default()), run, "{row}");
            for name in registered::names(is_target, &[Family::Ip, Family::Ip6]) {
                assert!(run.contains(name) || not_run.remove(name), "{name} is not documented");
            }
        }
        assert!(not_run.is_empty(), "{not_run:?} run, or are none of the kernel's");
    }
}
