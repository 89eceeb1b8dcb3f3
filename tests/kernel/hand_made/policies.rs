// SPDX-License-Identifier: Apache-2.0

//! Policies of IPsec where no packet needs to be encrypted: which are asked, in which order, with
//! which addresses.

use super::from;
use crate::frame::{Frame, bare};
use crate::net::{NET, lan, out4, out6, own4, own6, wan};
use crate::scenario::Scenario;

/// What every hook sees.
const RULES: &str = "\
table inet t {
	chain a {
		type filter hook prerouting priority 0;
		meta l4proto { tcp, udp } counter
	}
	chain f {
		type filter hook forward priority 0;
		meta l4proto { tcp, udp } counter
		rt ipsec exists counter
		meta secpath exists counter
	}
	chain o {
		type filter hook output priority 0;
		meta l4proto { tcp, udp } counter
		meta l4proto icmp counter
	}
	chain p {
		type filter hook postrouting priority 0;
		meta l4proto { tcp, udp } counter
	}
}
";

fn policies(name: &str, lines: &str, rules: &str) -> Scenario {
    let lines: String = lines
        .lines()
        .map(str::trim)
        .filter(|l| !l.is_empty())
        .map(|l| format!("xfrm policy {l}\n"))
        .collect();
    Scenario::new(name, &format!("{NET}{lines}"), &format!("{RULES}{rules}")).saved()
}

/// Packets of all kinds from one side to the other.
fn packets() -> Vec<Frame> {
    vec![
        out4().udp(1000, 53).data(b"a"),
        out4().udp(1000, 54).data(b"a"),
        out4().tcp(1000, 80).flags(2),
        out4().tcp(1000, 53).flags(2),
        out4().icmp(8, 0, 1).data(b"ping"),
        out4().icmp(13, 0, 1).zeros(12),
        lan().ip4("198.18.0.11", "198.19.0.2").udp(1000, 53).data(b"a"),
        lan().ip4("198.18.0.10", "198.18.5.20").udp(1000, 53).data(b"a"),
        out4().fragment(0, true).udp(1000, 53).zeros(24),
        out4().fragment(4, false).protocol(17).zeros(16),
        out4().transport(47, &[0x20, 0, 8, 0, 0, 1, 0, 2]).data(b"gre"),
        out6().udp(1000, 53).data(b"a"),
        out6().tcp(1000, 80).flags(2),
        out6().icmp6(128, 0, 1).data(b"ping"),
        out6().extension(60, &[0; 6]).udp(1000, 53).data(b"a"),
    ]
}

fn from_lan(scenario: Scenario) -> Scenario {
    from(scenario, "lan", &packets())
}

pub fn all() -> Vec<Scenario> {
    let tunnel = "tmpl src 198.19.0.1 dst 198.19.0.2 proto esp reqid 1 mode tunnel";
    let masquerade = "table ip n { chain n { type nat hook postrouting priority srcnat; oifname wan masquerade\n}\n}\n";
    let elsewhere = "table ip n { chain n { type nat hook prerouting priority dstnat; ip daddr 198.19.0.2 dnat to 198.18.5.20\n}\n}\n";
    vec![
        from_lan(policies(
            "policies_out",
            "add src 198.18.0.0/24 dst 198.19.0.0/24 proto udp dport 53 dir out action block priority 9
             add src 198.18.0.11 dst 0.0.0.0/0 dir out action allow priority 5
             add src 0.0.0.0/0 dst 0.0.0.0/0 proto icmp type 8 dir out action block
             add src 0.0.0.0/0 dst 0.0.0.0/0 proto gre key 65538 dir out action block
             add src ::/0 dst 2001:db8:2::/64 proto tcp dir out action block
             add src 0.0.0.0/0 dst 0.0.0.0/0 dev dmz dir out action block priority 1",
            "",
        )),
        from_lan(policies(
            "policies_forward",
            "add src 198.18.0.0/24 dst 198.19.0.0/24 proto udp sport 1000 dir fwd action block priority 9
             add src 198.18.0.11 dst 0.0.0.0/0 dir fwd action allow priority 5
             add src 2001:db8:1::/64 dst ::/0 proto udp dport 53 dir fwd action block
             add src 0.0.0.0/0 dst 0.0.0.0/0 proto tcp dport 53 dir in action block",
            "",
        )),
        from_lan(policies(
            "policies_same_priority",
            "add src 198.18.0.0/16 dst 198.19.0.0/16 dir out action allow priority 3
             add src 198.18.0.0/24 dst 198.19.0.0/24 dir out action block priority 3
             add src 2001:db8:1::/64 dst 2001:db8::/32 dir out action block priority 3
             add src 2001:db8::/32 dst 2001:db8:2::/64 dir out action allow priority 3",
            "",
        )),
        from_lan(policies(
            "policies_marks",
            "add src 198.18.0.0/16 dst 198.19.0.0/16 mark 1 mask 3 dir out action block
             add src 2001:db8:1::/64 dst ::/0 mark 2 dir fwd action block",
            "table inet m { chain m { type filter hook prerouting priority -5; udp dport 53 meta mark set 5; tcp dport 80 meta mark set 2\n}\n}\n",
        )),
        from_lan(policies(
            "policies_templates_without_states",
            &format!(
                "add src 198.18.0.0/24 dst 198.19.0.0/24 proto udp dir out {tunnel}
                 add src 198.18.0.0/24 dst 198.19.0.0/24 proto tcp dir out tmpl proto esp reqid 1 mode transport level use
                 add src 2001:db8:1::/64 dst ::/0 proto udp dir fwd {tunnel}
                 add src 2001:db8:1::/64 dst ::/0 proto tcp dir fwd {tunnel} level use"
            ),
            "",
        )),
        from_lan(policies("policies_default", "setdefault fwd block\nadd src 198.18.0.10 dst 198.19.0.2 dir fwd action allow", "")),
        from_lan(policies("policies_default_out", "setdefault out block\nadd src 198.18.0.10 dst 198.19.0.2 dir out action allow", "")),
        from_lan(policies(
            "policies_before_and_after_snat",
            "add src 198.18.0.0/24 dst 198.19.0.2 proto tcp dport 80 dir out action block
             add src 198.19.0.1 dst 198.19.0.2 proto udp dport 54 dir out action block",
            masquerade,
        )),
        from_lan(policies(
            "policies_before_and_after_dnat",
            "add src 0.0.0.0/0 dst 198.19.0.2 proto udp dport 53 dir fwd action block
             add src 0.0.0.0/0 dst 198.18.5.20 proto udp dport 54 dir fwd action block
             add src 0.0.0.0/0 dst 198.19.0.2 proto tcp dport 80 dir out action block
             add src 0.0.0.0/0 dst 198.18.5.20 proto tcp dport 53 dir out action block",
            elsewhere,
        )),
        from(
            policies(
                "policies_of_the_host",
                // A raw socket tells policies neither protocol nor ports.
                "add src 198.19.0.1 dst 198.19.0.2 dir out action block
                 add src 2001:db8:2::1 dst 2001:db8:2::2 dir out action block",
                "",
            ),
            "host",
            &[
                own4().udp(1, 53).data(b"a"),
                bare().ip4("198.19.0.1", "198.19.0.3").udp(1, 53).data(b"a"),
                own6().udp(1, 53).data(b"a"),
                bare().ip4("198.19.0.1", "198.18.0.10").udp(1, 53).data(b"a"),
            ],
        ),
        from(
            policies(
                "policies_about_errors_of_the_host",
                "add src 198.18.0.1 dst 198.18.0.10 proto icmp type 11 dir out action block
                 add src 198.18.0.10 dst 198.19.0.0/24 proto tcp dir fwd action block",
                "",
            ),
            "lan",
            &[
                out4().ttl(1).udp(1000, 53).data(b"a"),
                out4().ttl(1).tcp(1000, 53).flags(2),
                lan().ip4("198.18.0.10", "198.18.64.9").udp(1000, 53).data(b"a"),
                lan().ip4("198.18.0.11", "198.19.0.2").ttl(1).udp(1000, 53).data(b"a"),
            ],
        ),
        from(
            policies("policies_reroute", "add src 198.19.0.1 dst 198.18.5.20 proto udp dport 53 dir out action block", "table ip n { chain n { type nat hook output priority 0; udp dport { 53, 54 } dnat to 198.18.5.20\n}\n}\n"),
            "host",
            &[own4().udp(1, 53).data(b"a"), own4().udp(1, 54).data(b"a")],
        ),
        from(
            policies("policies_towards_the_client", "add src 198.19.0.0/24 dst 198.18.0.10 proto udp dir fwd action block", ""),
            "wan",
            &[
                wan().ip4("198.19.0.2", "198.18.0.10").udp(53, 1000).data(b"a"),
                wan().ip4("198.19.0.2", "198.18.0.11").udp(53, 1000).data(b"a"),
            ],
        ),
    ]
}
