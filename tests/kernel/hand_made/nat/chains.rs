// SPDX-License-Identifier: Apache-2.0

//! How several chains decide, and flows that want the same.

use super::super::on;
use super::{WITNESSES, answer4, nat, story};
use crate::net::{dmz, lan, net_with_rules, out4, out6, own4, wan};
use crate::scenario::Scenario;

/// Two flows that want the same.
pub fn clashes() -> Vec<Scenario> {
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

/// More chains than one, and how they decide.
pub fn all() -> Vec<Scenario> {
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
