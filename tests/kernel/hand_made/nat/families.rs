// SPDX-License-Identifier: Apache-2.0

//! Tables of both families.

use super::super::on;
use super::{WITNESSES, answer4, answer6, nat, story};
use crate::net::{dmz, lan, out4, out6, wan};
use crate::scenario::Scenario;

/// Tables of both families.
pub fn all() -> Vec<Scenario> {
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
