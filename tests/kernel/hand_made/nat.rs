// SPDX-License-Identifier: Apache-2.0

//! Address and port translation: flows of packets in both directions through NAT chains.

use super::on;
use crate::frame::{Frame, bare, ethernet};
use crate::net::{LAN, dmz, lan, net_with_rules, out4, out6, own4, own6, wan, zoo};
use crate::scenario::Scenario;

/// Frames from several places, in order.
fn story(mut scenario: Scenario, frames: &[(&str, Frame)]) -> Scenario {
    scenario.frames.extend(frames.iter().map(|(source, f)| ((*source).to_owned(), f.bytes())));
    scenario
}

/// A NAT chain of a table, the lines counted before they bind, and chains that see packets before
/// and after.
fn nat(name: &str, family: &str, hook: &str, lines: &str) -> Scenario {
    let rules: String = lines
        .lines()
        .map(str::trim)
        .filter(|l| !l.is_empty())
        .map(|l| format!("\t\tcounter {l}\n"))
        .collect();
    on(
        name,
        &format!(
            "table {family} t {{\n\tchain n {{\n\t\ttype nat hook {hook} priority 0;\n{rules}\t\tcounter\n\t}}\n}}\n{WITNESSES}"
        ),
    )
}

/// What other chains see of addresses, at each hook before and after NAT.
const WITNESSES: &str = "\
table inet witness {
	chain a {
		type filter hook prerouting priority -110;
		ip saddr 198.18.0.0/24 counter
		ip daddr 198.18.0.0/24 counter
		ip6 saddr 2001:db8:1::/64 counter
		ip6 daddr 2001:db8:1::/64 counter
	}
	chain b {
		type filter hook prerouting priority -90;
		ip saddr 198.18.0.0/24 counter
		ip daddr 198.18.0.0/24 counter
		ip daddr 198.18.5.0/24 counter
		ip6 daddr 2001:db8:1::/64 counter
		ip6 daddr 2001:db8:5::/64 counter
	}
	chain c {
		type filter hook forward priority 0;
		ip saddr 198.18.0.0/24 counter
		ip daddr 198.18.0.0/24 counter
		ip saddr 198.18.5.0/24 counter
		ip daddr 198.18.5.0/24 counter
		ip6 saddr 2001:db8:1::/64 counter
		ip6 daddr 2001:db8:1::/64 counter
		th dport 53 counter
	}
	chain d {
		type filter hook postrouting priority 90;
		ip saddr 198.18.0.0/24 counter
		ip6 saddr 2001:db8:1::/64 counter
	}
	chain e {
		type filter hook postrouting priority 110;
		ip saddr 198.18.0.0/24 counter
		ip saddr 198.19.0.0/24 counter
		ip6 saddr 2001:db8:1::/64 counter
		ip6 saddr 2001:db8:2::/64 counter
		udp checksum 0 counter
	}
	chain f {
		type filter hook input priority 90;
		counter
		ip saddr 198.18.0.0/24 counter
	}
	chain g {
		type filter hook input priority 110;
		ip saddr 198.18.0.0/24 counter
		th dport 8080 counter
	}
}
";

fn answer4() -> Frame {
    wan().ip4("198.19.0.2", "198.19.0.1")
}

fn answer6() -> Frame {
    wan().ip6("2001:db8:2::2", "2001:db8:2::1")
}

/// TCP with sequence and acknowledgement numbers.
fn tcp(f: Frame, ports: (u16, u16), flags: u8, seq: u32, ack: u32) -> Frame {
    f.tcp(ports.0, ports.1).set(4, &seq.to_be_bytes()).set(8, &ack.to_be_bytes()).flags(flags)
}

/// A connection from beginning to end: what the client's side and what the server's side sends.
fn conversation(
    there: &dyn Fn() -> Frame,
    back: &dyn Fn() -> Frame,
    client: u16,
    server: u16,
    seen: (u16, u16),
) -> Vec<(&'static str, Frame)> {
    let (to, from) = ((client, server), (seen.1, seen.0));
    vec![
        ("lan", tcp(there(), to, 2, 100, 0)),
        ("wan", tcp(back(), from, 0x12, 500, 101)),
        ("lan", tcp(there(), to, 0x10, 101, 501)),
        ("lan", tcp(there(), to, 0x18, 101, 501).data(b"GET / HTTP/1.0\r\n")),
        ("wan", tcp(back(), from, 0x10, 501, 117)),
        ("wan", tcp(back(), from, 0x18, 501, 117).data(b"HTTP/1.0 200 OK\r\n\r\nhello")),
        ("wan", tcp(back(), from, 0x11, 525, 117)),
        ("lan", tcp(there(), to, 0x11, 117, 526)),
        ("wan", tcp(back(), from, 0x10, 526, 118)),
    ]
}

/// An ICMP error about what a frame has after its link header, or the beginning of it.
fn about(error: Frame, frame: &Frame, len: usize) -> Frame {
    let bytes = frame.bytes();
    let quoted = &bytes[14..];
    error.data(&quoted[..quoted.len().min(len)])
}

pub fn all() -> Vec<Scenario> {
    [source(), destination(), here(), clashes(), errors(), chains(), local(), families(), helpers()]
        .concat()
}

/// Source NAT and masquerading.
fn source() -> Vec<Scenario> {
    let udp = |n: u16| out4().udp(n, 53).data(b"query");
    let echo = |id: u32| out4().icmp(8, 0, id << 16 | 1).data(b"ping");
    let masquerade = "oifname wan masquerade";
    vec![
        story(
            nat("nat_snat_udp", "ip", "postrouting", "oifname wan snat to 198.19.0.1"),
            &[
                ("lan", udp(1000)),
                ("wan", answer4().udp(53, 1000).data(b"answer")),
                ("lan", udp(1000)),
                ("wan", answer4().udp(53, 1000).patch(6, &[0, 0]).data(b"answer")),
                ("wan", answer4().udp(53, 1001)),
                ("lan", lan().ip4("198.18.0.11", "198.18.5.20").udp(7, 8)),
                ("lan", out4().udp(1002, 53).patch(6, &[0, 0]).data(b"no checksum")),
                ("wan", answer4().udp(53, 1002)),
            ],
        ),
        story(
            nat(
                "nat_snat_elsewhere",
                "ip",
                "postrouting",
                "ip saddr 198.18.0.10 snat to 198.19.0.3",
            ),
            &[
                ("lan", udp(1000)),
                ("wan", wan().ip4("198.19.0.2", "198.19.0.3").udp(53, 1000)),
                ("lan", echo(7)),
                (
                    "wan",
                    wan().ip4("198.19.0.2", "198.19.0.3").icmp(0, 0, 7 << 16 | 1).data(b"ping"),
                ),
            ],
        ),
        story(
            nat("nat_masquerade_tcp", "ip", "postrouting", masquerade),
            &conversation(&out4, &answer4, 40000, 80, (40000, 80)),
        ),
        story(
            nat("nat_masquerade_tcp6", "ip6", "postrouting", masquerade),
            &conversation(&out6, &answer6, 40000, 80, (40000, 80)),
        ),
        story(
            nat("nat_masquerade_many_protocols", "inet", "postrouting", masquerade),
            &[
                ("lan", echo(7)),
                ("wan", answer4().icmp(0, 0, 7 << 16 | 1).data(b"ping")),
                ("wan", answer4().icmp(0, 0, 8 << 16 | 1).data(b"ping")),
                ("lan", out6().icmp6(128, 0, 7 << 16 | 1).data(b"ping")),
                ("wan", answer6().icmp6(129, 0, 7 << 16 | 1).data(b"ping")),
                ("lan", out4().udplite(7, 9).data(b"lite")),
                ("wan", answer4().udplite(9, 7).data(b"lite")),
                ("lan", out6().udplite(7, 9).data(b"lite")),
                ("wan", answer6().udplite(9, 7).data(b"lite")),
                ("lan", out4().protocol(253).data(b"unassigned")),
                ("wan", answer4().protocol(253).data(b"unassigned")),
                ("lan", out6().protocol(253).data(b"unassigned")),
                ("lan", out4().transport(50, &[0, 0, 1, 0, 0, 0, 0, 5, 1, 2, 3, 4, 5, 6, 7, 8])),
                ("wan", answer4().transport(50, &[0, 0, 1, 9, 0, 0, 0, 5, 1, 2, 3, 4, 5, 6, 7, 8])),
                ("lan", out4().transport(47, &[0x20, 0, 8, 0, 0, 0, 0, 77, 1, 2, 3, 4])),
                ("wan", answer4().transport(47, &[0x20, 0, 8, 0, 0, 0, 0, 78, 1, 2, 3, 4])),
                ("lan", out6().extension(60, &[0; 6]).udp(1002, 1003)),
                ("lan", out6().extension(0, &[0; 6]).extension(60, &[0; 6]).tcp(1006, 1007)),
                ("lan", out6().udp(53, 5000).zeros(600)),
                ("lan", out4().ip_options(&[0x94, 4, 0, 0]).udp(1, 2)),
                ("lan", out4().udp(3, 4).data(b"odd")),
            ],
        ),
        super::from(
            nat("nat_masquerade_zoo", "inet", "postrouting", "masquerade"),
            "lan",
            &zoo().into_iter().filter(|f| !is_fragment(f) && !is_dccp(f)).collect::<Vec<_>>(),
        ),
        story(
            nat(
                "nat_masquerade_to_port",
                "ip",
                "postrouting",
                "meta l4proto udp masquerade to :2000",
            ),
            &[
                ("lan", udp(1000)),
                ("wan", answer4().udp(53, 2000)),
                ("lan", out4().tcp(1000, 80)),
                ("lan", udp(1000)),
            ],
        ),
        story(
            nat(
                "nat_snat_random",
                "ip",
                "postrouting",
                "udp sport 1000 snat to 198.19.0.1 random\nudp sport 1001 snat to 198.19.0.1 fully-random\nudp sport 1002 snat to 198.19.0.1:30000-40000 random\nudp sport 1003 masquerade random",
            ),
            &[
                ("lan", udp(1000)),
                ("lan", udp(1001)),
                ("lan", udp(1002)),
                ("lan", udp(1003)),
                ("lan", udp(1000)),
            ],
        ),
        story(
            nat(
                "nat_snat_address_range",
                "ip",
                "postrouting",
                "ip daddr 198.19.0.3 snat to 198.19.4.0-198.19.4.200 persistent\nsnat to 198.19.4.0-198.19.4.200",
            ),
            &(0..12u8)
                .map(|n| {
                    let to = ["198.19.0.2", "198.19.0.3", "198.19.77.7"][usize::from(n % 3)];
                    (
                        "lan",
                        lan()
                            .ip4_bytes(
                                [198, 18, 0, 10 + n / 3],
                                to.parse::<std::net::Ipv4Addr>().unwrap().octets(),
                            )
                            .udp(1000, 53),
                    )
                })
                .collect::<Vec<_>>(),
        ),
        story(
            nat(
                "nat_snat_address_range6",
                "ip6",
                "postrouting",
                "udp dport 54 snat to 2001:db8:44::-2001:db8:44:5:ffff:: persistent\nsnat to 2001:db8:44::-2001:db8:44::ff",
            ),
            &(0..8u16)
                .map(|n| {
                    let to = ["2001:db8:2::2", "2001:db8:777::7"][usize::from(n % 2)];
                    ("lan", lan().ip6("2001:db8:1::10", to).udp(1000 + n, 53 + n % 3 / 2))
                })
                .collect::<Vec<_>>(),
        ),
        story(
            nat(
                "nat_snat_prefix",
                "ip",
                "postrouting",
                "snat prefix to ip saddr map { 198.18.0.0/24 : 198.19.7.0/24, 198.18.5.0/24 : 198.19.8.0/24 }",
            ),
            &[
                ("lan", udp(1000)),
                ("lan", lan().ip4("198.18.0.11", "198.19.0.2").udp(1000, 53)),
                ("wan", wan().ip4("198.19.0.2", "198.19.7.10").udp(53, 1000)),
                ("wan", wan().ip4("198.19.0.2", "198.19.7.11").udp(53, 1000)),
                ("dmz", dmz().ip4("198.18.5.20", "198.19.0.2").udp(1000, 53)),
            ],
        ),
        story(
            nat(
                "nat_snat_map",
                "ip",
                "postrouting",
                "oifname wan snat to ip saddr map { 198.18.0.10 : 198.19.0.1, 198.18.0.11 : 198.19.0.3 }\nsnat ip to ip saddr . udp sport map { 198.18.5.20 . 7 : 198.19.0.1 . 77 }",
            ),
            &[
                ("lan", udp(1000)),
                ("lan", lan().ip4("198.18.0.11", "198.19.0.2").udp(1000, 53)),
                ("wan", wan().ip4("198.19.0.2", "198.19.0.3").udp(53, 1000)),
                ("dmz", dmz().ip4("198.18.5.20", "198.19.0.2").udp(7, 53)),
                ("wan", answer4().udp(53, 77)),
            ],
        ),
    ]
}

fn is_fragment(f: &Frame) -> bool {
    let b = f.bytes();
    b[14] >> 4 == 4 && (b[20] & 0x3f != 0 || b[21] != 0) || b[14] >> 4 == 6 && b[20] == 44
}

/// A router that has neighbours at all addresses of a range.
fn with_more_servers(scenario: Scenario) -> Scenario {
    let neighbours: String = (21..24)
        .map(|n| {
            format!("neigh add 198.18.5.{n} lladdr 02:00:00:00:05:{n} dev dmz nud permanent\n")
        })
        .collect();
    Scenario { net: scenario.net + &neighbours, ..scenario }
}

/// Linux 6.17 gave up tracking it.
fn is_dccp(f: &Frame) -> bool {
    let b = f.bytes();
    b[14] >> 4 == 4 && b[23] == 33
}

/// Destination NAT.
fn destination() -> Vec<Scenario> {
    let syn = |port: u16| tcp(answer4(), (5000, port), 2, 1, 0);
    let server = || dmz().ip4("198.18.5.20", "198.19.0.2");
    vec![
        story(
            nat(
                "nat_dnat_tcp",
                "ip",
                "prerouting",
                "tcp dport 80 dnat to 198.18.5.20:8080\ntcp dport 81 dnat to 198.18.5.20",
            ),
            &[
                ("wan", syn(80)),
                ("dmz", tcp(server(), (8080, 5000), 0x12, 9, 2)),
                ("wan", tcp(answer4(), (5000, 80), 0x10, 2, 10)),
                ("wan", syn(81)),
                ("dmz", tcp(server(), (81, 5000), 0x12, 9, 2)),
                ("wan", syn(82)),
                ("dmz", tcp(server(), (8080, 5001), 0x12, 9, 2)),
                ("dmz", tcp(server(), (8080, 5000), 0x14, 10, 2)),
            ],
        ),
        story(
            nat(
                "nat_dnat_port_range",
                "ip",
                "prerouting",
                "udp dport 80 dnat to 198.18.5.20:9000-9010\nudp dport 9005 dnat to 198.18.5.20:9000-9010\nudp dport 81 dnat to :9020\nudp dport 82 dnat to 198.18.5.20:9000-9001 random",
            ),
            &[
                ("wan", answer4().udp(5000, 80)),
                ("wan", answer4().udp(5001, 80)),
                ("dmz", server().udp(9000, 5000)),
                ("wan", answer4().udp(5000, 9005)),
                ("dmz", server().udp(9005, 5000)),
                ("wan", answer4().udp(5000, 81)),
                ("lan", lan().ip4("198.18.0.10", "198.18.5.20").udp(5000, 81)),
            ],
        ),
        story(
            with_more_servers(nat(
                "nat_dnat_address_range",
                "ip",
                "prerouting",
                "dnat to 198.18.5.20-198.18.5.23",
            )),
            &[
                ("wan", answer4().udp(5000, 80)),
                ("lan", out4().udp(5000, 80)),
                ("lan", lan().ip4("198.18.0.11", "198.19.0.2").udp(5000, 80)),
                ("lan", out4().udp(5000, 81)),
            ],
        ),
        story(
            nat(
                "nat_dnat_map",
                "ip",
                "prerouting",
                "dnat to tcp dport map { 80 : 198.18.5.20, 81 : 198.18.0.10 }\ndnat to udp dport map { 80 : 198.18.5.20 . 8080, 81 : 198.18.0.10 . 8081 }",
            ),
            &[
                ("wan", syn(80)),
                ("wan", syn(81)),
                ("wan", answer4().udp(5000, 80)),
                ("wan", answer4().udp(5000, 81)),
                ("lan", lan().ip4("198.18.0.10", "198.19.0.2").udp(8081, 5000)),
                ("wan", answer4().udp(5000, 82)),
            ],
        ),
        story(
            nat(
                "nat_dnat_prefix",
                "ip",
                "prerouting",
                "iifname wan dnat prefix to ip daddr map { 198.19.5.0/24 : 198.18.5.0/24 }",
            ),
            &[
                ("wan", wan().ip4("198.19.0.2", "198.19.5.20").udp(5000, 80)),
                ("dmz", server().udp(80, 5000)),
                ("dmz", server().udp(80, 5001)),
            ],
        ),
        story(
            nat("nat_dnat_icmp_and_others", "ip", "prerouting", "iifname wan dnat to 198.18.5.20"),
            &[
                ("wan", answer4().icmp(8, 0, 7 << 16 | 1).data(b"ping")),
                ("dmz", server().icmp(0, 0, 7 << 16 | 1).data(b"ping")),
                ("wan", answer4().protocol(253).data(b"unassigned")),
                ("dmz", server().protocol(253).data(b"unassigned")),
                ("wan", answer4().udp(5000, 80).patch(6, &[0, 0]).data(b"odd")),
                ("dmz", server().udp(80, 5000).patch(6, &[0, 0])),
                (
                    "wan",
                    answer4()
                        .transport(47, &[0x30, 1, 0x88, 0x0b, 0, 4, 0, 9, 0, 0, 0, 1, 1, 2, 3, 4]),
                ),
                (
                    "wan",
                    answer4().transport(
                        132,
                        &[
                            0, 80, 0x1f, 0x90, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 20, 0, 0, 0, 1, 0,
                            0, 1, 0, 0, 1, 0, 1, 0, 0, 0, 5,
                        ],
                    ),
                ),
            ],
        ),
        story(
            nat(
                "nat_dnat_to_the_same_place",
                "ip",
                "prerouting",
                "ip daddr 198.19.0.2 dnat to 198.19.0.2\nip daddr 198.19.0.1 dnat to 198.18.0.10",
            ),
            &[
                ("lan", out4().udp(1, 2)),
                ("wan", wan().ip4("198.19.0.2", "198.18.0.10").udp(2, 1)),
                ("wan", answer4().udp(9, 9)),
            ],
        ),
        story(
            on(
                "nat_hairpin",
                &format!(
                    "table ip t {{\n\tchain pre {{\n\t\ttype nat hook prerouting priority dstnat;\n\t\tip daddr 198.19.0.1 tcp dport 80 counter dnat to 198.18.0.11\n\t}}\n\tchain post {{\n\t\ttype nat hook postrouting priority srcnat;\n\t\tiifname lan oifname lan counter masquerade\n\t\toifname wan counter masquerade\n\t}}\n}}\n{WITNESSES}"
                ),
            ),
            &[
                ("lan", tcp(lan().ip4("198.18.0.10", "198.19.0.1"), (5000, 80), 2, 1, 0)),
                (
                    "lan",
                    tcp(
                        ethernet(LAN, [2, 0, 0, 0, 1, 0x11]).ip4("198.18.0.11", "198.18.0.1"),
                        (80, 5000),
                        0x12,
                        7,
                        2,
                    ),
                ),
                ("lan", tcp(lan().ip4("198.18.0.10", "198.19.0.1"), (5000, 80), 0x10, 2, 8)),
                ("wan", tcp(answer4(), (6000, 80), 2, 1, 0)),
                ("lan", tcp(lan().ip4("198.18.0.11", "198.19.0.2"), (80, 6000), 0x12, 7, 2)),
            ],
        ),
    ]
}

/// Redirection to this host.
fn here() -> Vec<Scenario> {
    vec![
        story(
            nat(
                "nat_redirect",
                "ip",
                "prerouting",
                "tcp dport 80 redirect to :8080\nudp dport 53 redirect\nudp dport 54 redirect to :100-110",
            ),
            &[
                ("lan", out4().tcp(5000, 80)),
                ("lan", out4().udp(5000, 53)),
                ("lan", out4().udp(5000, 54)),
                ("lan", out4().udp(5000, 55)),
                ("dmz", dmz().ip4("198.18.5.20", "198.19.0.2").udp(5000, 53)),
                ("lan", lan().ip4("198.18.0.10", "198.18.0.1").udp(5000, 53)),
                ("lan", out4().icmp(8, 0, 5)),
            ],
        ),
        story(
            nat(
                "nat_redirect6",
                "ip6",
                "prerouting",
                "tcp dport 80 redirect to :8080\nudp dport 53 redirect\nicmpv6 type echo-request redirect",
            ),
            &[
                ("lan", out6().tcp(5000, 80)),
                ("lan", out6().udp(5000, 53)),
                ("lan", out6().icmp6(128, 0, 5)),
                ("lan", lan().ip6("2001:db8:1::10", "2001:db8:2::1").udp(5000, 53)),
            ],
        ),
        story(
            nat(
                "nat_input_snat",
                "ip",
                "input",
                "udp sport 1000 snat to 198.18.0.77\nudp sport 1001 snat to 198.18.0.77:9",
            ),
            &[
                ("lan", lan().ip4("198.18.0.10", "198.18.0.1").udp(1000, 53)),
                ("lan", lan().ip4("198.18.0.10", "198.18.0.1").udp(1001, 53)),
                ("lan", lan().ip4("198.18.0.10", "198.18.0.1").udp(1002, 53)),
                ("lan", lan().ip4("198.18.0.10", "198.18.0.1").udp(1000, 53)),
            ],
        ),
    ]
}

/// Two flows that want the same.
fn clashes() -> Vec<Scenario> {
    let other = || lan().ip4("198.18.0.11", "198.19.0.2");
    vec![
        story(
            nat(
                "nat_clash_one_port_left",
                "ip",
                "postrouting",
                "udp dport 53 snat to 198.19.0.1:4000-4001\nicmp type echo-request snat to 198.19.0.1",
            ),
            &[
                ("lan", out4().udp(4000, 53)),
                ("lan", other().udp(4000, 53)),
                ("wan", answer4().udp(53, 4000)),
                ("wan", answer4().udp(53, 4001)),
                ("lan", other().udp(4000, 53)),
                // No port is left: dropped at confirmation.
                ("lan", lan().ip4("198.18.0.12", "198.19.0.2").udp(4000, 53)),
                // Another server.
                ("lan", lan().ip4("198.18.0.12", "198.19.77.7").udp(4001, 53)),
                ("lan", lan().ip4("198.18.0.12", "198.19.77.7").udp(4002, 53)),
            ],
        ),
        story(
            nat("nat_clash_random_ports", "inet", "postrouting", "masquerade"),
            &[
                ("lan", out4().udp(4000, 53)),
                ("lan", other().udp(4000, 53)),
                ("lan", other().udp(4000, 53)),
                ("lan", out4().tcp(300, 80)),
                ("lan", other().tcp(300, 80)),
                ("lan", out4().tcp(700, 80)),
                ("lan", other().tcp(700, 80)),
                ("lan", out4().icmp(8, 0, 7 << 16 | 1)),
                ("lan", other().icmp(8, 0, 7 << 16 | 1)),
                ("lan", other().icmp(8, 0, 7 << 16 | 2)),
                ("lan", out6().udp(4000, 53)),
                ("lan", lan().ip6("2001:db8:1::11", "2001:db8:2::2").udp(4000, 53)),
                // The source keeps its mapping towards another server.
                ("lan", lan().ip4("198.18.0.11", "198.19.77.7").udp(4000, 53)),
            ],
        ),
        story(
            nat("nat_clash_with_the_host", "ip", "postrouting", "iifname lan masquerade"),
            &[
                ("lan", out4().udp(4000, 53)),
                // The host's own flow of the same port has to yield although nothing translates it.
                ("host", own4().udp(4000, 53)),
                ("wan", answer4().udp(53, 4000)),
                ("host", own4().udp(4001, 53)),
                ("lan", out4().udp(4001, 53)),
            ],
        ),
        story(
            nat(
                "nat_dnat_clash",
                "ip",
                "prerouting",
                "udp dport 80 dnat to 198.18.5.20:9000-9001\nudp dport 81 dnat to 198.18.5.20:9000",
            ),
            &[
                ("wan", answer4().udp(5000, 80)),
                ("wan", wan().ip4("198.19.0.2", "198.19.0.3").udp(5000, 80)),
                ("wan", wan().ip4("198.19.0.2", "198.19.77.8").udp(5000, 81)),
                ("dmz", dmz().ip4("198.18.5.20", "198.19.0.2").udp(9000, 5000)),
                ("dmz", dmz().ip4("198.18.5.20", "198.19.0.2").udp(9001, 5000)),
            ],
        ),
    ]
}

/// ICMP errors about translated flows, in both directions.
fn errors() -> Vec<Scenario> {
    let seen = || wan().ip4("198.19.0.1", "198.19.0.2").udp(1000, 53).data(b"query");
    let seen_tcp = || wan().ip4("198.19.0.1", "198.19.0.2").tcp(1001, 80);
    let router = || wan().ip4("198.19.0.77", "198.19.0.1");
    let seen6 = || wan().ip6("2001:db8:2::1", "2001:db8:2::2").udp(1000, 53).data(b"query");
    let router6 = || wan().ip6("2001:db8:2::77", "2001:db8:2::1");
    let server = || dmz().ip4("198.18.5.20", "198.19.0.2");
    vec![
        story(
            nat("nat_error_about_masqueraded", "ip", "postrouting", "oifname wan masquerade"),
            &[
                ("lan", out4().udp(1000, 53).data(b"query")),
                ("wan", about(router().icmp(3, 1, 0), &seen(), 100)),
                ("wan", about(answer4().icmp(3, 3, 0), &seen(), 28)),
                ("wan", about(router().icmp(3, 4, 1200), &seen(), 100)),
                ("wan", about(router().icmp(11, 0, 0), &seen(), 27)),
                ("wan", about(router().icmp(3, 1, 0), &seen(), 100).patch(0, &[0])),
                ("lan", out4().tcp(1001, 80)),
                ("wan", about(router().icmp(3, 1, 0), &seen_tcp(), 100)),
                ("wan", about(router().icmp(3, 1, 0), &seen_tcp(), 28)),
                ("wan", about(router().icmp(5, 1, 0xc613_0003), &seen_tcp(), 100)),
                (
                    "wan",
                    about(
                        router().icmp(3, 1, 0),
                        &wan().ip4("198.19.0.1", "198.19.0.2").udp(1009, 53),
                        100,
                    ),
                ),
                ("lan", out4().icmp(8, 0, 7 << 16 | 1)),
                (
                    "wan",
                    about(
                        router().icmp(11, 0, 0),
                        &wan().ip4("198.19.0.1", "198.19.0.2").icmp(8, 0, 7 << 16 | 1),
                        100,
                    ),
                ),
                // The client refuses an answer.
                ("wan", answer4().udp(53, 1000).data(b"answer")),
                (
                    "lan",
                    about(
                        out4().icmp(3, 3, 0),
                        &wan().ip4("198.19.0.2", "198.18.0.10").udp(53, 1000).data(b"answer"),
                        100,
                    ),
                ),
                (
                    "lan",
                    about(
                        lan().ip4("198.18.0.11", "198.19.0.2").icmp(3, 1, 0),
                        &wan().ip4("198.19.0.2", "198.18.0.10").udp(53, 1000).data(b"answer"),
                        28,
                    ),
                ),
            ],
        ),
        story(
            nat("nat_error_about_masqueraded6", "ip6", "postrouting", "oifname wan masquerade"),
            &[
                ("lan", out6().udp(1000, 53).data(b"query")),
                ("wan", about(router6().icmp6(1, 0, 0), &seen6(), 100)),
                ("wan", about(router6().icmp6(2, 0, 1280), &seen6(), 48)),
                ("wan", about(router6().icmp6(3, 0, 0), &seen6(), 47)),
                ("wan", about(router6().icmp6(1, 0, 0), &seen6(), 100).patch(0, &[0])),
                ("lan", out6().icmp6(128, 0, 7 << 16 | 1)),
                (
                    "wan",
                    about(
                        router6().icmp6(1, 3, 0),
                        &wan().ip6("2001:db8:2::1", "2001:db8:2::2").icmp6(128, 0, 7 << 16 | 1),
                        100,
                    ),
                ),
                ("wan", answer6().udp(53, 1000)),
                (
                    "lan",
                    about(
                        out6().icmp6(1, 4, 0),
                        &wan().ip6("2001:db8:2::2", "2001:db8:1::10").udp(53, 1000),
                        100,
                    ),
                ),
            ],
        ),
        story(
            nat(
                "nat_error_about_dnat",
                "ip",
                "prerouting",
                "udp dport 80 dnat to 198.18.5.20:8080",
            ),
            &[
                ("wan", answer4().udp(5000, 80).data(b"request")),
                (
                    "dmz",
                    about(
                        server().icmp(3, 3, 0),
                        &wan().ip4("198.19.0.2", "198.18.5.20").udp(5000, 8080).data(b"request"),
                        100,
                    ),
                ),
                (
                    "dmz",
                    about(
                        dmz().ip4("198.18.5.99", "198.19.0.2").icmp(11, 0, 0),
                        &wan().ip4("198.19.0.2", "198.18.5.20").udp(5000, 8080).data(b"request"),
                        28,
                    ),
                ),
                ("dmz", server().udp(8080, 5000)),
                (
                    "wan",
                    about(
                        answer4().icmp(3, 3, 0),
                        &wan().ip4("198.19.0.1", "198.19.0.2").udp(80, 5000),
                        100,
                    ),
                ),
            ],
        ),
        story(
            nat(
                "nat_error_of_the_router_itself",
                "inet",
                "prerouting",
                "udp dport 80 dnat ip to 198.18.5.20:8080\nudp dport 80 dnat ip6 to [2001:db8:5::20]:8080\nudp dport 81 dnat ip to 198.18.64.1\nudp dport 82 dnat ip to 198.18.5.20",
            ),
            &[
                ("wan", answer4().ttl(1).udp(5000, 80).data(b"request")),
                ("wan", answer6().ttl(1).udp(5000, 80).data(b"request")),
                ("wan", answer4().udp(5000, 81).data(b"request")),
                ("wan", answer4().df().udp(5000, 82).zeros(1400)),
                ("lan", out4().ttl(1).udp(5000, 83)),
            ],
        ),
        story(
            nat("nat_error_about_what_goes_out", "ip", "postrouting", "oifname wan masquerade"),
            &[
                ("lan", out4().ttl(1).udp(5000, 83)),
                ("lan", lan().ip4("198.18.0.10", "198.18.64.1").udp(1, 2)),
            ],
        ),
    ]
}

/// More chains than one, and how they decide.
fn chains() -> Vec<Scenario> {
    let post = |name: &str, priority: i32, rules: &str| {
        format!(
            "\tchain {name} {{\n\t\ttype nat hook postrouting priority {priority};\n\t\t{rules}\n\t}}\n"
        )
    };
    let table = |chains: &[String]| format!("table ip t {{\n{}}}\n{WITNESSES}", chains.concat());
    let two = [
        ("lan", out4().udp(1000, 53)),
        ("wan", answer4().udp(53, 1000)),
        ("lan", lan().ip4("198.18.0.11", "198.19.0.2").udp(1001, 53)),
        ("lan", out4().udp(1000, 53)),
    ];
    vec![
        story(on("nat_chains_in_order", &table(&[post("late", 200, "counter snat to 198.19.0.3"), post("early", -100, "ip saddr 198.18.0.10 counter masquerade")])), &two),
        story(on("nat_chains_accept_goes_on", &table(&[post("early", 0, "counter accept"), post("late", 10, "counter masquerade")])), &two),
        story(on("nat_chains_drop", &table(&[post("early", 0, "ip saddr 198.18.0.11 counter drop"), post("late", 10, "counter masquerade")])), &two),
        story(on("nat_chain_policy_drop", &table(&["\tchain early {\n\t\ttype nat hook postrouting priority 0; policy drop;\n\t\tip saddr 198.18.0.10 counter masquerade\n\t}\n".to_owned()])), &two),
        story(on("nat_chain_empty", &table(&[post("empty", 0, "counter")])), &two),
        story(
            on("nat_chain_jumps", &table(&["\tchain sub {\n\t\tip saddr 198.18.0.10 counter masquerade\n\t\tcounter return\n\t}\n".to_owned(), post("base", 0, "counter jump sub\n\t\tcounter snat to 198.19.0.3")])),
            &two,
        ),
        story(
            on(
                "nat_untracked",
                &format!("table ip raw {{\n\tchain pre {{\n\t\ttype filter hook prerouting priority raw;\n\t\tudp dport 54 counter notrack\n\t}}\n}}\n{}", table(&[post("base", 0, "counter masquerade")])),
            ),
            &[("lan", out4().udp(1000, 53)), ("lan", out4().udp(1000, 54)), ("lan", out4().udp(1000, 54)), ("wan", answer4().udp(53, 1000))],
        ),
        story(
            nat("nat_invalid_is_left_alone", "ip", "postrouting", "oifname wan masquerade"),
            &[
                ("lan", out4().tcp(1000, 80).flags(4)),
                ("lan", out4().tcp(1000, 80).flags(0)),
                ("lan", out4().tcp(1000, 80).flags(3)),
                ("lan", out4().tcp(1000, 80).flags(0x12)),
                ("lan", out4().tcp(1000, 80).patch(16, &[1, 2])),
                ("lan", out4().udp(1000, 53).patch(6, &[1, 2])),
                ("lan", out4().icmp(0, 0, 5)),
                ("lan", out4().icmp(42, 0, 5)),
                ("lan", out4().tcp(1001, 80).flags(0x10)),
            ],
        ),
        story(
            nat("nat_rules_before_change_the_packet", "ip", "postrouting", "udp sport 1000 ip ttl set 9 masquerade\nmeta mark set 7 masquerade"),
            &two,
        ),
        {
            let rules = format!(
                "table ip m {{\n\tchain pre {{\n\t\ttype filter hook prerouting priority mangle;\n\t\tip ttl 33 counter meta mark set 1\n\t}}\n}}\n{}",
                table(&[post("base", 0, "counter masquerade")])
            );
            story(
                Scenario { net: net_with_rules(), ..on("nat_masquerade_by_another_device", &rules) },
                &[
                    ("lan", out4().udp(1000, 53)),
                    ("lan", out4().ttl(33).udp(1000, 53)),
                    ("lan", out4().ttl(33).udp(1000, 53)),
                    ("lan", out4().udp(1000, 53)),
                    ("wan", answer4().udp(53, 1000)),
                ],
            )
        },
        {
            let rules = format!(
                "table ip m {{\n\tchain f {{\n\t\ttype filter hook forward priority 0;\n\t\tudp dport 53 counter ip saddr set 198.18.0.99\n\t\tudp dport 54 counter udp sport set 77\n\t}}\n}}\n{}",
                table(&[post("base", 0, "counter masquerade")])
            );
            story(
                on("nat_of_what_rules_rewrote", &rules),
                &[
                    ("lan", out4().udp(1000, 53)),
                    ("lan", out4().udp(1000, 53)),
                    ("lan", out4().udp(1000, 54)),
                    ("wan", answer4().udp(53, 1000)),
                    ("wan", answer4().udp(54, 1000)),
                ],
            )
        },
    ]
}

/// A router with its loopback device up.
fn with_loopback(scenario: Scenario) -> Scenario {
    Scenario { net: scenario.net + "link set lo up\n", ..scenario }
}

/// The host's own packets.
fn local() -> Vec<Scenario> {
    vec![
        story(
            with_loopback(nat(
                "nat_output_dnat",
                "ip",
                "output",
                "tcp dport 80 dnat to 198.18.5.20:8080\nudp dport 53 dnat to 198.18.5.20\nudp dport 54 redirect to :8080",
            )),
            &[
                ("host", tcp(own4(), (5000, 80), 2, 1, 0)),
                ("dmz", tcp(dmz().ip4("198.18.5.20", "198.19.0.1"), (8080, 5000), 0x12, 7, 2)),
                ("host", tcp(own4(), (5000, 80), 0x10, 2, 8)),
                ("host", own4().udp(5000, 53)),
                ("host", own4().udp(5000, 53)),
                ("host", own4().udp(5000, 54)),
                ("host", own4().udp(5000, 55)),
            ],
        ),
        story(
            with_loopback(nat(
                "nat_output_dnat6",
                "ip6",
                "output",
                "udp dport 53 dnat to 2001:db8:5::20\nudp dport 54 redirect to :8080",
            )),
            &[
                ("host", own6().udp(5000, 53)),
                ("dmz", dmz().ip6("2001:db8:5::20", "2001:db8:2::1").udp(53, 5000)),
                ("host", own6().udp(5000, 54)),
                ("host", own6().udp(5000, 55)),
            ],
        ),
        story(
            nat(
                "nat_own_packets_masqueraded",
                "ip",
                "postrouting",
                "oifname { wan, dmz } masquerade",
            ),
            &[
                ("host", bare().ip4("198.18.0.1", "198.19.0.2").udp(5000, 53)),
                ("wan", answer4().udp(53, 5000)),
                ("host", bare().ip4("198.18.0.1", "198.18.5.20").udp(5000, 53)),
                ("host", bare().ip4("198.18.0.1", "198.18.0.10").udp(5000, 53)),
            ],
        ),
    ]
}

/// Tables of both families.
fn families() -> Vec<Scenario> {
    vec![
        story(
            nat(
                "nat_inet_snat",
                "inet",
                "postrouting",
                "oifname wan snat ip to 198.19.0.3\noifname wan snat ip6 to 2001:db8:2::3\noifname dmz masquerade",
            ),
            &[
                ("lan", out4().udp(1000, 53)),
                ("wan", wan().ip4("198.19.0.2", "198.19.0.3").udp(53, 1000)),
                ("lan", out6().udp(1000, 53)),
                ("wan", wan().ip6("2001:db8:2::2", "2001:db8:2::3").udp(53, 1000)),
                ("lan", lan().ip4("198.18.0.10", "198.18.5.20").udp(1000, 53)),
                ("lan", lan().ip6("2001:db8:1::10", "2001:db8:5::20").udp(1000, 53)),
                ("dmz", dmz().ip6("2001:db8:5::20", "2001:db8:5::1").udp(53, 1000)),
            ],
        ),
        story(
            nat(
                "nat_inet_dnat",
                "inet",
                "prerouting",
                "tcp dport 80 dnat ip to 198.18.5.20:8080\ntcp dport 80 dnat ip6 to [2001:db8:5::20]:8080\nudp dport 53 redirect to :5353\nudp dport 80 dnat to :8080",
            ),
            &[
                ("wan", answer4().tcp(5000, 80)),
                ("wan", answer6().tcp(5000, 80)),
                ("dmz", dmz().ip6("2001:db8:5::20", "2001:db8:2::2").tcp(8080, 5000).flags(0x12)),
                ("lan", out4().udp(5000, 53)),
                ("lan", out6().udp(5000, 53)),
                ("lan", out4().udp(5000, 80)),
                ("lan", out6().udp(5000, 80)),
            ],
        ),
        story(
            on(
                "nat_ip_and_inet_together",
                &format!(
                    "table ip a {{\n\tchain n {{\n\t\ttype nat hook postrouting priority 10;\n\t\tcounter masquerade\n\t}}\n}}\ntable inet b {{\n\tchain n {{\n\t\ttype nat hook postrouting priority 5;\n\t\tudp sport 1000 counter snat ip to 198.19.0.3\n\t\tcounter\n\t}}\n}}\n{WITNESSES}"
                ),
            ),
            &[
                ("lan", out4().udp(1000, 53)),
                ("lan", out4().udp(1001, 53)),
                ("lan", out6().udp(1001, 53)),
            ],
        ),
        story(
            nat("nat_of_one_family_only", "ip6", "postrouting", "masquerade"),
            &[
                ("lan", out4().udp(1000, 53)),
                ("lan", out6().udp(1000, 53)),
                ("wan", answer6().udp(53, 1000)),
            ],
        ),
    ]
}

/// What a TCP connection for a helper says: handshake first, each side's segments in order of its
/// numbers.
struct Control {
    client: &'static str,
    server: &'static str,
    there: Box<dyn Fn() -> Frame>,
    back: Box<dyn Fn() -> Frame>,
    ports: (u16, u16),
    sent: (u32, u32),
    frames: Vec<(&'static str, Frame)>,
}

impl Control {
    fn new(
        (client, there): (&'static str, Box<dyn Fn() -> Frame>),
        (server, back): (&'static str, Box<dyn Fn() -> Frame>),
        ports: (u16, u16),
    ) -> Control {
        let swapped = (ports.1, ports.0);
        let frames = vec![
            (client, tcp(there(), ports, 2, 100, 0)),
            (server, tcp(back(), swapped, 0x12, 500, 101)),
            (client, tcp(there(), ports, 0x10, 101, 501)),
        ];
        Control { client, server, there, back, ports, sent: (101, 501), frames }
    }

    /// The client sends text; the server sees it longer by some bytes, and says so.
    fn client(mut self, text: &str, longer: i32) -> Control {
        let (seq, ack) = self.sent;
        self.frames.push((
            self.client,
            tcp((self.there)(), self.ports, 0x18, seq, ack).data(text.as_bytes()),
        ));
        self.sent.0 += text.len() as u32;
        let seen = self.sent.0.wrapping_add_signed(longer);
        let swapped = (self.ports.1, self.ports.0);
        self.frames.push((self.server, tcp((self.back)(), swapped, 0x10, ack, seen)));
        // A selective acknowledgement of data that is not there yet.
        let edges = [seen.wrapping_add(10), seen.wrapping_add(20)].map(u32::to_be_bytes).concat();
        let sack = [&[1, 1, 5, 10][..], &edges].concat();
        let f = tcp((self.back)(), swapped, 0x10, ack, seen).tcp_options(&sack);
        self.frames.push((self.server, f));
        self
    }

    /// The server sends text, the client sees it longer.
    fn server(mut self, text: &str, longer: i32) -> Control {
        let (ack, seq) = self.sent;
        let swapped = (self.ports.1, self.ports.0);
        self.frames
            .push((self.server, tcp((self.back)(), swapped, 0x18, seq, ack).data(text.as_bytes())));
        self.sent.1 += text.len() as u32;
        let seen = self.sent.1.wrapping_add_signed(longer);
        self.frames.push((self.client, tcp((self.there)(), self.ports, 0x10, ack, seen)));
        self
    }

    fn other(mut self, source: &'static str, frame: Frame) -> Control {
        self.frames.push((source, frame));
        self
    }
}

/// Connections that others announce in their text, which is translated with them.
fn helpers() -> Vec<Scenario> {
    let rules = |family: &str, object: &str, port: &str, nat: &str| {
        format!(
            "table {family} t {{
	ct helper h {{
		{object}
	}}
	chain pre {{
		type filter hook prerouting priority 0;
		{port} counter ct helper set \"h\"
	}}
	chain n {{
		type nat hook {nat}
		counter
	}}
	chain seen {{
		type filter hook forward priority 0;
		ct state related counter
		ct state new counter
		ct status expected counter
		ct status snat counter
		ct status dnat counter
	}}
}}
{WITNESSES}"
        )
    };
    let ftp = "type \"ftp\" protocol tcp";
    let masquerade = "postrouting priority 100;\n\t\toifname wan counter masquerade";
    let dnat =
        "prerouting priority -100;\n\t\tiifname wan tcp dport 21 counter dnat to 198.18.5.20";
    let to4 = || -> (&'static str, Box<dyn Fn() -> Frame>) { ("lan", Box::new(out4)) };
    let from4 = || -> (&'static str, Box<dyn Fn() -> Frame>) { ("wan", Box::new(answer4)) };
    let to6 = || -> (&'static str, Box<dyn Fn() -> Frame>) { ("lan", Box::new(out6)) };
    let from6 = || -> (&'static str, Box<dyn Fn() -> Frame>) { ("wan", Box::new(answer6)) };
    let served = || -> (&'static str, Box<dyn Fn() -> Frame>) {
        ("dmz", Box::new(|| dmz().ip4("198.18.5.20", "198.19.0.2")))
    };
    vec![
        story(
            on("nat_ftp_active", &rules("ip", ftp, "tcp dport 21", masquerade)),
            &Control::new(to4(), from4(), (40000, 21))
                .server("220 here\r\n", 0)
                .client("USER me\r\n", 0)
                .server("331 who\r\n", 0)
                .client("PORT 198,18,0,10,200,5\r\n", -1)
                .other("wan", tcp(answer4(), (20, 51205), 2, 7000, 0))
                .other("lan", tcp(out4(), (51205, 20), 0x12, 9000, 7001))
                .other("wan", tcp(answer4(), (20, 51205), 0x10, 7001, 9001))
                .server("200 well\r\n", 0)
                .client("PORT 198,18,0,10,200,6\r\n", -2)
                .client("QUIT\r\n", -2)
                .other("wan", tcp(answer4(), (20, 51206), 2, 7000, 0))
                .other("wan", tcp(answer4(), (20, 51207), 2, 7000, 0))
                .frames,
        ),
        story(
            on("nat_ftp_passive", &rules("ip", ftp, "tcp dport 21", dnat)),
            &Control::new(from4(), served(), (40000, 21))
                .server("220 here\r\n", 0)
                .client("PASV\r\n", 0)
                .server("227 Entering Passive Mode (198,18,5,20,200,5).\r\n", -1)
                .other("wan", tcp(answer4(), (40001, 51205), 2, 7000, 0))
                .other(
                    "dmz",
                    tcp(dmz().ip4("198.18.5.20", "198.19.0.2"), (51205, 40001), 0x12, 9000, 7001),
                )
                .client("EPSV\r\n", 0)
                .server("229 Entering Extended Passive Mode (|||51206|)\r\n", -1)
                .other("wan", tcp(answer4(), (40002, 51206), 2, 7000, 0))
                .other(
                    "dmz",
                    tcp(dmz().ip4("198.18.5.20", "198.19.0.2"), (51206, 40002), 0x12, 9000, 7001),
                )
                .frames,
        ),
        story(
            on("nat_ftp_active6", &rules("ip6", ftp, "tcp dport 21", masquerade)),
            &Control::new(to6(), from6(), (40000, 21))
                .server("220 here\r\n", 0)
                .client("USER me\r\n", 0)
                .client("EPRT |2|2001:db8:1::10|51205|\r\n", 25)
                .other("wan", tcp(answer6(), (20, 51205), 2, 7000, 0))
                .other("lan", tcp(out6(), (51205, 20), 0x12, 9000, 7001))
                .client("QUIT\r\n", 25)
                .frames,
        ),
        story(
            on("nat_irc", &rules("ip", "type \"irc\" protocol tcp", "tcp dport 6667", masquerade)),
            &Control::new(to4(), from4(), (40000, 6667))
                .client("PRIVMSG a :\u{1}DCC CHAT chat 3323068426 51205\u{1}\r\n", 0)
                .other("wan", tcp(wan().ip4("198.19.0.3", "198.19.0.1"), (5000, 51205), 2, 7000, 0))
                .other(
                    "lan",
                    tcp(lan().ip4("198.18.0.10", "198.19.0.3"), (51205, 5000), 0x12, 9000, 7001),
                )
                .frames,
        ),
        story(
            on("nat_tftp", &rules("ip", "type \"tftp\" protocol udp", "udp dport 69", masquerade)),
            &[
                ("lan", out4().udp(40000, 69).data(b"\0\x01file\0octet\0")),
                ("wan", answer4().udp(3000, 40000).data(b"\0\x03\0\x01data")),
                ("lan", out4().udp(40000, 3000).data(b"\0\x04\0\x01")),
                ("wan", answer4().udp(3001, 40000).data(b"\0\x03\0\x01data")),
            ],
        ),
        story(
            on(
                "helper_without_nat",
                &rules("ip", ftp, "tcp dport 21", "postrouting priority 100;"),
            ),
            &Control::new(
                to4(),
                ("wan", Box::new(|| wan().ip4("198.19.0.2", "198.18.0.10"))),
                (40000, 21),
            )
            .server("220 here\r\n", 0)
            .client("USER me\r\n", 0)
            .client("PORT 198,18,0,10,200,5\r\n", 0)
            .other("wan", tcp(wan().ip4("198.19.0.2", "198.18.0.10"), (20, 51205), 2, 7000, 0))
            .other("lan", tcp(out4(), (51205, 20), 0x12, 9000, 7001))
            .frames,
        ),
    ]
}
