// SPDX-License-Identifier: Apache-2.0

//! Source NAT and masquerading.

use super::{answer4, answer6, conversation, nat, story};
use crate::frame::Frame;
use crate::net::{dmz, lan, out4, out6, wan, zoo};
use crate::scenario::Scenario;

/// Source NAT and masquerading.
pub fn all() -> Vec<Scenario> {
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
        super::super::from(
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

/// Linux 6.17 gave up tracking it.
fn is_dccp(f: &Frame) -> bool {
    let b = f.bytes();
    b[14] >> 4 == 4 && b[23] == 33
}
