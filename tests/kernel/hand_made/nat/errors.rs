// SPDX-License-Identifier: Apache-2.0

//! ICMP errors about translated flows, in both directions.

use super::{about, answer4, answer6, nat, story};
use crate::net::{dmz, lan, out4, out6, wan};
use crate::scenario::Scenario;

/// ICMP errors about translated flows, in both directions.
pub fn all() -> Vec<Scenario> {
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
