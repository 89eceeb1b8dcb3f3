// SPDX-License-Identifier: Apache-2.0

//! Destination NAT, to other hosts and to this one.

use super::super::on;
use super::{WITNESSES, answer4, nat, story, tcp};
use crate::frame::ethernet;
use crate::net::{LAN, dmz, lan, out4, out6, wan};
use crate::scenario::Scenario;

pub fn all() -> Vec<Scenario> {
    [elsewhere(), here()].concat()
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

/// Destination NAT.
fn elsewhere() -> Vec<Scenario> {
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
