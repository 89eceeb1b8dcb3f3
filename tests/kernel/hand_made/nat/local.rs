// SPDX-License-Identifier: Apache-2.0

//! The host's own packets.

use super::{answer4, nat, story, tcp};
use crate::frame::bare;
use crate::net::{dmz, own4, own6};
use crate::scenario::Scenario;

/// A router with its loopback device up.
fn with_loopback(scenario: Scenario) -> Scenario {
    Scenario { net: scenario.net + "link set lo up\n", ..scenario }
}

/// The host's own packets.
pub fn all() -> Vec<Scenario> {
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
