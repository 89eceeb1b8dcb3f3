// SPDX-License-Identifier: Apache-2.0

//! Bridges that snoop memberships: IGMP, MLD, multicast routers, and who gets frames to groups.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use crate::frame::{Frame, Mac, checksum, ethernet};
use crate::scenario::Scenario;

/// Stations, each at the port of its number.
pub const STATIONS: [Mac; 3] =
    [[2, 0, 0, 0, 0x0c, 1], [2, 0, 0, 0, 0x0c, 2], [2, 0, 0, 0, 0x0c, 3]];
pub const BRIDGE: Mac = [2, 0, 0, 0, 0x0a, 0];
pub const ALL_HOSTS: &str = "224.0.0.1";
pub const ALL_NODES: &str = "ff02::1";
/// The general query's group.
pub const ANY: &str = "0.0.0.0";
pub const ANY6: &str = "::";

/// Versions of IGMP, and the messages of each.
pub const QUERY: u8 = 0x11;
pub const REPORT_V1: u8 = 0x12;
pub const REPORT: u8 = 0x16;
pub const LEAVE: u8 = 0x17;
pub const REPORT_V3: u8 = 0x22;
pub const QUERY6: u8 = 130;
pub const REPORT6: u8 = 131;
pub const DONE6: u8 = 132;
pub const REPORT6_V2: u8 = 143;

/// Types of group records.
pub const IS_EX: u8 = 2;
pub const TO_IN: u8 = 3;
pub const ALLOW: u8 = 5;

/// Four ports, with words about the bridge, and more lines.
pub fn net(words: &str, lines: &str) -> String {
    let mut net = format!(
        "link add name br0 address 02:00:00:00:0a:00 type bridge stp_state 0 forward_delay 0 {words}\n"
    );
    for (n, port) in ["one", "two", "three", "four"].iter().enumerate() {
        net += &format!(
            "link add name {port} address 02:00:00:00:0a:0{} type veth\nlink set {port} addrgenmode none master br0 up\n",
            n + 1
        );
    }
    net + "link set br0 up\naddr add 198.18.0.1/24 dev br0\naddr add 2001:db8:1::1/64 dev br0 nodad\n"
        + lines
}

/// Counters where the bridge decides, and no messages of the host's own, which only the kernel
/// sends.
pub const RULES: &str = "table bridge t {
	chain up { type filter hook input priority 0; iifname one counter; iifname two counter; iifname three counter; ip protocol igmp counter; ip6 nexthdr 0 counter; counter; }
	chain through { type filter hook forward priority 0; oifname one counter; oifname two counter; oifname three counter; oifname four counter; }
	chain out { type filter hook output priority 0; counter; }
}
table inet quiet {
	chain output {
		type filter hook output priority 0;
		meta l4proto igmp drop
		icmpv6 type { mld-listener-query, mld-listener-report, mld-listener-done, mld2-listener-report } drop
	}
}
";

fn on(name: &str, words: &str, lines: &str) -> Scenario {
    Scenario::new(&format!("snooping_{name}"), &net(words, lines), RULES).at_once()
}

/// A host on the bridge that has no IPv6, and so is in no groups of its own that count.
fn without_ipv6(scenario: Scenario) -> Scenario {
    let net = scenario
        .net
        .replace("link set br0 up", "link set br0 mtu 1200 up")
        .replace("addr add 2001:db8:1::1/64 dev br0 nodad\n", "");
    Scenario { net, ..scenario }
}

/// The link address of a group.
pub fn mac4(group: &str) -> Mac {
    let [_, b, c, d] = group.parse::<Ipv4Addr>().expect("an address").octets();
    [1, 0, 0x5e, b & 0x7f, c, d]
}

pub fn mac6(group: &str) -> Mac {
    let octets = group.parse::<Ipv6Addr>().expect("an address").octets();
    [0x33, 0x33, octets[12], octets[13], octets[14], octets[15]]
}

fn octets4(address: &str) -> [u8; 4] {
    address.parse::<Ipv4Addr>().expect("an address").octets()
}

fn octets6(address: &str) -> [u8; 16] {
    address.parse::<Ipv6Addr>().expect("an address").octets()
}

/// An IGMP message of these bytes, with its checksum.
pub fn igmp_bytes(from: u8, to: &str, message: &[u8]) -> Frame {
    let mut message = message.to_vec();
    let sum = checksum(0, &message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let source = STATIONS.get(usize::from(from) - 1).copied().unwrap_or(BRIDGE);
    let address = format!("198.18.0.{}", 10 * from);
    ethernet(mac4(to), source)
        .ip4(&address, to)
        .ttl(1)
        .ip_options(&[0x94, 4, 0, 0])
        .transport(2, &message)
}

/// An IGMP message of version 1 or 2 from a station.
pub fn igmp(from: u8, kind: u8, code: u8, group: &str) -> Frame {
    let to = match (kind, group) {
        (QUERY, ANY) => ALL_HOSTS,
        (LEAVE, _) => "224.0.0.2",
        _ => group,
    };
    igmp_bytes(from, to, &[&[kind, code, 0, 0][..], &octets4(group)].concat())
}

/// A query of version 3.
pub fn query3(from: u8, code: u8, group: &str, sources: &[&str]) -> Frame {
    let to = if group == ANY { ALL_HOSTS } else { group };
    let mut message =
        [&[QUERY, code, 0, 0][..], &octets4(group), &[2, 125, 0, sources.len() as u8]].concat();
    sources.iter().for_each(|source| message.extend(octets4(source)));
    igmp_bytes(from, to, &message)
}

/// A report of version 3: types, groups and sources.
pub fn report3(from: u8, records: &[(u8, &str, &[&str])]) -> Frame {
    let mut message = vec![REPORT_V3, 0, 0, 0, 0, 0, 0, records.len() as u8];
    for (kind, group, sources) in records {
        message.extend([*kind, 0, 0, sources.len() as u8]);
        message.extend(octets4(group));
        sources.iter().for_each(|source| message.extend(octets4(source)));
    }
    igmp_bytes(from, "224.0.0.22", &message)
}

fn station6(from: u8) -> (Mac, String) {
    let source = STATIONS.get(usize::from(from) - 1).copied().unwrap_or(BRIDGE);
    (source, format!("fe80::{from}"))
}

/// ICMPv6 with the option for routers.
pub fn mld_bytes(from: u8, to: &str, kind: u8, rest: u32, more: &[u8]) -> Frame {
    let (source, address) = station6(from);
    ethernet(mac6(to), source)
        .ip6(&address, to)
        .ttl(1)
        .extension(0, &[5, 2, 0, 0, 1, 0])
        .icmp6(kind, 0, rest)
        .data(more)
}

/// An MLD message of version 1 from a station; the delay is in milliseconds.
pub fn mld(from: u8, kind: u8, delay: u16, group: &str) -> Frame {
    let to = match (kind, group) {
        (QUERY6, ANY6) => ALL_NODES,
        (DONE6, _) => "ff02::2",
        _ => group,
    };
    mld_bytes(from, to, kind, u32::from(delay) << 16, &octets6(group))
}

/// A report of version 2: types, groups and numbers of sources.
pub fn report6(from: u8, records: &[(u8, &str, u8)]) -> Frame {
    let mut more = vec![];
    for (kind, group, sources) in records {
        more.extend([*kind, 0, 0, *sources]);
        more.extend(octets6(group));
        (0..*sources).for_each(|n| more.extend(octets6(&format!("2001:db8:1::{n}"))));
    }
    mld_bytes(from, "ff02::16", REPORT6_V2, records.len() as u32, &more)
}

/// Something to a group.
pub fn data(from: u8, group: &str) -> Frame {
    let source = STATIONS.get(usize::from(from) - 1).copied().unwrap_or(BRIDGE);
    if group.contains(':') {
        let (_, address) = station6(from);
        return ethernet(mac6(group), source).ip6(&address, group).udp(1000, 53).data(b"for all");
    }
    let address = format!("198.18.0.{}", 10 * from);
    ethernet(mac4(group), source).ip4(&address, group).udp(1000, 53).data(b"for all of you")
}

/// Neither IPv4 nor IPv6.
fn other(from: u8, to: Mac) -> Frame {
    ethernet(to, STATIONS[usize::from(from) - 1]).ethertype(0x1234).data(b"who speaks this?")
}

pub const PORTS: [&str; 4] = ["host:br0", "one", "two", "three"];

fn sent(mut scenario: Scenario, frames: &[(u8, Frame)]) -> Scenario {
    for (port, frame) in frames {
        scenario = scenario.frame(PORTS[usize::from(*port)], frame);
    }
    scenario
}

/// Somebody at port one asks, and all had the time to answer.
fn asked(scenario: Scenario) -> Scenario {
    sent(scenario, &[(1, igmp(1, QUERY, 2, ANY)), (1, mld(1, QUERY6, 200, ANY6))]).wait(WAIT)
}

/// More than any time that the scenarios set, and less than the kernel's own times.
pub const WAIT: Duration = Duration::from_millis(800);

const A: &str = "239.1.1.1";
const B: &str = "239.1.1.2";
const A6: &str = "ff05::1234";
const B6: &str = "ff02::1:ff00:99";
const LINK_GROUP: Mac = [1, 2, 3, 4, 5, 6];

/// To each group, from port three and from the host: none that the host is in, since only the kernel
/// knows whether it has said so.
fn probes() -> Vec<(u8, Frame)> {
    let mut frames = vec![];
    for group in
        [A, B, A6, B6, "224.0.0.5", ALL_NODES, "ff02::1:ff00:98", "ff0e::77", "239.255.255.250"]
    {
        frames.push((3, data(3, group)));
        frames.push((0, data(4, group)));
    }
    frames.push((3, other(3, LINK_GROUP)));
    frames.push((3, other(3, [1, 2, 3, 4, 5, 7])));
    frames
}

/// Members of all versions, and what they get.
fn joined(scenario: Scenario) -> Scenario {
    let reports = [
        (2, igmp(2, REPORT, 0, A)),
        (2, report6(2, &[(IS_EX, A6, 0)])),
        (3, mld(3, REPORT6, 0, B6)),
        (0, igmp(4, REPORT, 0, B)),
    ];
    sent(sent(scenario, &reports), &probes())
}

fn messages() -> Vec<Scenario> {
    vec![
        sent(joined(sent(on("without_a_querier_floods", "", ""), &probes())), &[]),
        joined(asked(on("groups_go_to_members_and_routers", "", ""))),
        joined(asked(on("off", "mcast_snooping 0", ""))),
        sent(
            asked(on("versions_of_reports", "", "")),
            &[
                (2, igmp(2, REPORT_V1, 0, A)),
                (3, data(3, A)),
                (2, report3(2, &[(IS_EX, B, &[]), (TO_IN, A, &[])])),
                (3, report3(3, &[(ALLOW, "239.1.1.3", &["198.18.9.9", "198.18.9.10"]), (9, "239.1.1.4", &[])])),
                (3, data(3, B)),
                (2, data(2, "239.1.1.3")),
                (2, data(2, "239.1.1.4")),
                (2, report6(2, &[(4, A6, 1), (6, B6, 2), (1, "ff05::77", 1)])),
                (3, data(3, A6)),
                (3, data(3, B6)),
                (3, data(3, "ff05::77")),
            ],
        ),
        sent(
            asked(on("fast_leave", "", "link set two type bridge_slave fastleave on\nbridge link set dev three fastleave off\n")),
            &[
                (2, igmp(2, REPORT, 0, A)),
                (3, igmp(3, REPORT, 0, A)),
                (2, mld(2, REPORT6, 0, A6)),
                (1, data(1, A)),
                (2, igmp(2, LEAVE, 0, A)),
                (3, igmp(3, LEAVE, 0, A)),
                (2, mld(2, DONE6, 0, A6)),
                (1, data(1, A)),
                (1, data(1, A6)),
            ],
        ),
        sent(
            on("routers_by_other_messages", "", ""),
            &[
                (2, ethernet(mac4("224.0.0.13"), STATIONS[1]).ip4("198.18.0.20", "224.0.0.13").transport(103, &[0x20, 0, 0xdf, 0xff])),
                (3, igmp_bytes(3, "224.0.0.106", &[0x30, 20, 0, 0, 0, 0, 0, 0])),
                (2, mld_bytes(2, "ff02::6a", 151, 0x0010_0000, &[])),
            ],
        ),
    ]
    .into_iter()
    .enumerate()
    .map(|(n, s)| if n == 5 { sent(asked(s), &probes()) } else { s })
    .collect()
}

fn settings() -> Vec<Scenario> {
    vec![
        joined(asked(on(
            "routers_by_configuration",
            "",
            "link set one type bridge_slave mcast_router 0\nlink set two type bridge_slave mcast_router 2\n",
        ))),
        joined(asked(on("the_host_is_a_router", "mcast_router 2", ""))),
        joined(asked(on("the_host_is_no_router", "mcast_router 0", ""))),
        joined(asked(on("all_multicast", "", "link set br0 allmulticast on\n"))),
        joined(asked(on("promiscuous", "", "link set br0 promisc on\n"))),
        joined(asked(on("mcast_flood_off", "", "link set two type bridge_slave mcast_flood off\n"))),
        sent(
            joined(asked(on(
                "entries_by_hand",
                "",
                "bridge mdb add dev br0 port two grp 239.1.1.2 permanent
bridge mdb add dev br0 port three grp ff05::1234 permanent
bridge mdb add dev br0 port two grp 01:02:03:04:05:06 permanent
bridge mdb add dev br0 port four grp 239.1.1.1 permanent
bridge mdb add dev br0 port br0 grp 239.1.1.9
bridge mdb add dev br0 port br0 grp 01:02:03:04:05:07 permanent
",
            ))),
            &[(3, data(3, "239.1.1.9")), (2, igmp(2, LEAVE, 0, B)), (3, data(3, B))],
        ),
        sent(
            asked(without_ipv6(on("more_groups_than_there_may_be", "mcast_hash_max 8", ""))),
            &(1..12)
                .flat_map(|n| {
                    let group = format!("239.2.0.{n}");
                    [(2, igmp(2, REPORT, 0, &group)), (3, data(3, &group)), (3, data(3, "239.9.9.9"))]
                })
                .collect::<Vec<_>>(),
        ),
        sent(
            on(
                "vlans",
                "vlan_filtering 1",
                "bridge vlan add dev one vid 10-11
bridge vlan add dev two vid 10-11
bridge vlan add dev three vid 10-11
bridge vlan add dev br0 vid 10 self
bridge mdb add dev br0 port four grp 239.1.1.7 permanent
bridge mdb add dev br0 port three grp 239.1.1.7 permanent vid 11
",
            ),
            &[(1, with_vlan(10, igmp(1, QUERY, 2, ANY))), (1, with_vlan(10, mld(1, QUERY6, 200, ANY6)))],
        )
        .wait(WAIT),
    ]
    .into_iter()
    .map(|s| match s.name.ends_with("_vlans") {
        true => in_vlans(s),
        false => s,
    })
    .collect()
}

fn with_vlan(vid: u16, frame: Frame) -> Frame {
    let bytes = frame.bytes();
    let tag = [&[0x81, 0][..], &vid.to_be_bytes()].concat();
    raw(&[&bytes[..12], &tag, &bytes[12..]].concat())
}

/// A frame of these bytes.
pub fn raw(bytes: &[u8]) -> Frame {
    let mac = |at: usize| -> Mac { bytes[at..at + 6].try_into().expect("six bytes") };
    let kind = u16::from_be_bytes([bytes[12], bytes[13]]);
    ethernet(mac(0), mac(6)).ethertype(kind).data(&bytes[14..])
}

fn in_vlans(scenario: Scenario) -> Scenario {
    let mut frames = vec![
        (2, with_vlan(10, igmp(2, REPORT, 0, A))),
        (3, igmp(3, REPORT, 0, A)),
        (3, with_vlan(11, mld(3, REPORT6, 0, A6))),
    ];
    for vid in [0, 10, 11] {
        for group in [A, A6, "239.1.1.7", "ff02::1:ff00:98"] {
            let frame = data(1, group);
            frames.push((1, if vid == 0 { frame } else { with_vlan(vid, frame) }));
        }
    }
    sent(scenario, &frames)
}

fn times() -> Vec<Scenario> {
    let short =
        "mcast_membership_interval 50 mcast_last_member_interval 20 mcast_last_member_count 2";
    vec![
        sent(
            sent(
                asked(on("members_who_do_not_report_are_forgotten", short, "")),
                &[
                    (2, igmp(2, REPORT, 0, A)),
                    (3, mld(3, REPORT6, 0, A6)),
                    (1, data(1, A)),
                    (1, data(1, A6)),
                ],
            )
            .wait(WAIT),
            &[(1, data(1, A)), (1, data(1, A6))],
        ),
        sent(
            sent(
                asked(on(
                    "queriers_that_do_not_ask_are_forgotten",
                    "mcast_querier_interval 120",
                    "",
                )),
                &[(2, igmp(2, REPORT, 0, A)), (3, data(3, A))],
            )
            .wait(WAIT),
            &[(3, data(3, A)), (1, data(1, B))],
        ),
        sent(
            sent(
                asked(on("a_question_about_a_group_ends_it", "", "")),
                &[
                    (2, igmp(2, REPORT, 0, A)),
                    (3, igmp(3, REPORT, 0, A)),
                    (2, igmp(2, REPORT, 0, B)),
                    (2, mld(2, REPORT6, 0, A6)),
                    (2, mld(2, REPORT6, 0, B6)),
                    (1, igmp(1, QUERY, 2, A)),
                    (3, igmp(3, REPORT, 0, A)),
                    (1, query3(1, 2, B, &["198.18.0.9"])),
                    (1, mld(1, QUERY6, 200, A6)),
                    (1, data(1, A)),
                ],
            )
            .wait(WAIT),
            &[(1, data(1, A)), (1, data(1, B)), (1, data(1, A6)), (1, data(1, B6))],
        ),
        asked(sent(
            on("a_leave_without_a_querier_ends_a_membership", "mcast_last_member_interval 20", ""),
            &[
                (2, igmp(2, REPORT, 0, A)),
                (3, igmp(3, REPORT, 0, A)),
                (2, igmp(2, LEAVE, 0, A)),
                (2, mld(2, REPORT6, 0, A6)),
                (2, mld(2, DONE6, 0, A6)),
            ],
        ))
        .frame("one", &data(1, A))
        .frame("one", &data(1, A6)),
        sent(
            sent(
                on("the_querier_with_the_least_address_counts", "mcast_querier_interval 120", ""),
                &[
                    (2, igmp(2, QUERY, 2, ANY)),
                    (1, igmp(1, QUERY, 2, ANY)),
                    (3, igmp(3, QUERY, 2, ANY)),
                    (0, query3(4, 0, ANY, &[])),
                ],
            )
            .wait(WAIT),
            &probes(),
        ),
        sent(
            sent(
                on("questions_of_old_and_of_the_host", "", ""),
                &[
                    (0, igmp(4, QUERY, 2, ANY)),
                    (3, query3(3, 0x81, A, &[])),
                    (3, mld(3, QUERY6, 0, ANY6)),
                    (0, mld(4, QUERY6, 100, ANY6)),
                    (3, igmp(3, REPORT, 0, A)),
                ],
            )
            .wait(WAIT),
            &probes(),
        ),
    ]
}

/// What a bridge that snoops drops, and what it lets pass.
fn malformed() -> Scenario {
    let group = || ethernet(mac4(A), STATIONS[1]).ip4("198.18.0.20", A);
    let group6 = || ethernet(mac6(A6), STATIONS[1]).ip6("fe80::2", A6);
    let mut frames = vec![
        (2, group().patch(10, &[1, 2]).udp(1, 2)),
        (2, group().length(100).udp(1, 2)),
        (2, group().length(19).udp(1, 2)),
        (2, group().length(20).udp(1, 2)),
        (2, group().patch(0, &[0x46]).udp(1, 2)),
        (2, group().patch(0, &[0x44]).udp(1, 2)),
        (2, group().patch(0, &[0x65]).udp(1, 2)),
        (2, group().udp(1, 2).cut(30)),
        (2, ethernet(mac4(A), STATIONS[1]).ip4("198.18.0.20", "198.18.0.30").udp(1, 2)),
        (2, ethernet(mac4(A), STATIONS[1]).ethertype(0x0800).data(b"x")),
        (2, ethernet(mac6(A6), STATIONS[1]).ethertype(0x86dd).data(b"x")),
        (2, group6().length(0).udp(1, 2)),
        (2, group6().length(100).udp(1, 2)),
        (2, group6().patch(0, &[0x40]).udp(1, 2)),
        (2, group6().extension(0, &[1, 4, 0, 0, 0, 0]).udp(1, 2)),
        (
            2,
            group6()
                .extension(0, &[1, 4, 0, 0, 0, 0])
                .extension(60, &[1, 4, 0, 0, 0, 0])
                .icmp6(128, 0, 7),
        ),
        (2, group6().extension(0, &[1, 4, 0, 0, 0, 0]).fragment6(8, false, 9).data(b"12345678")),
        (2, group6().extension(0, &[1, 4, 0, 0, 0, 0]).protocol(59)),
        (2, group6().extension(0, &[1, 4, 0, 0, 0, 0]).protocol(58).data(b"1234")),
        (2, group6().extension(0, &[1, 4, 0, 0, 0, 0]).protocol(58).data(b"12345678")),
        (2, igmp_bytes(2, A, &[REPORT, 0, 0, 0, 239])),
        (2, igmp_bytes(2, A, &[0x77, 0, 0, 0, 239, 1, 1, 1])),
        (2, group().transport(2, &[REPORT, 0, 1, 2, 239, 1, 1, 1])),
        (2, igmp_bytes(2, "224.0.0.2", &[QUERY, 2, 0, 0, 0, 0, 0, 0])),
        (2, igmp_bytes(2, ALL_HOSTS, &[QUERY, 2, 0, 0, 0, 0, 0, 0, 0, 0])),
        (2, igmp_bytes(2, "224.0.0.22", &[REPORT_V3, 0, 0, 0, 0, 0, 0, 1])),
        (
            2,
            igmp_bytes(
                2,
                "224.0.0.22",
                &[
                    REPORT_V3, 0, 0, 0, 0, 0, 0, 2, 4, 0, 0, 0, 239, 1, 1, 8, 4, 0, 0, 1, 239, 1,
                    1, 9,
                ],
            ),
        ),
        (2, mld_bytes(2, "ff02::2", QUERY6, 100 << 16, &[0; 16])),
        (2, mld_bytes(2, ALL_NODES, QUERY6, 100 << 16, &[0; 18])),
        (2, mld_bytes(2, "ff02::16", REPORT6_V2, 0, &[])),
        (2, mld_bytes(2, "ff02::16", REPORT6_V2, 1, &[4; 16])),
        (2, mld_bytes(2, "ff02::16", REPORT6_V2, 1, &[4; 20])),
        (
            2,
            ethernet(mac6(ALL_NODES), STATIONS[1])
                .ip6("2001:db8:1::2", ALL_NODES)
                .ttl(1)
                .extension(0, &[5, 2, 0, 0, 1, 0])
                .icmp6(QUERY6, 0, 100 << 16)
                .zeros(16),
        ),
        (
            2,
            ethernet(mac6(A6), STATIONS[1])
                .ip6("fe80::2", A6)
                .icmp6(REPORT6, 0, 0)
                .data(&octets6(A6)),
        ),
    ];
    frames.extend(probes());
    frames.extend([(3, data(3, "239.1.1.8")), (3, data(3, "239.1.1.9"))]);
    sent(asked(on("malformed_messages", "", "")), &frames)
}

pub fn all() -> Vec<Scenario> {
    [messages(), settings(), times(), vec![malformed()]].concat()
}
