// SPDX-License-Identifier: Apache-2.0

//! Bridges on which packets pass the hooks of IP (br_netfilter).

use super::bridge::{BRIDGE, FAR, NET, OUT};
use crate::frame::{Frame, Mac, ethernet};
use crate::scenario::Scenario;

const A: Mac = [2, 0, 0, 0, 0x0c, 1];
const B: Mac = [2, 0, 0, 0, 0x0c, 2];
const C: Mac = [2, 0, 0, 0, 0x0c, 3];
const ALL: Mac = [0xff; 6];

/// Chains of IP around those of the bridge: which devices rules see, and whom packets are for.
const EVERYWHERE: &str = "table inet t {
	chain pre {
		type filter hook prerouting priority -300;
		iifname br0 counter
		iifname one counter
		meta pkttype other counter
		meta pkttype host counter
		meta pkttype broadcast counter
	}
	chain in {
		type filter hook input priority 0;
		counter
		iifname br0 ct state new counter
	}
	chain thru {
		type filter hook forward priority 0;
		iifname br0 oifname br0 counter
		iifname br0 oifname out counter
		ct state new counter
		ct state established counter
		tcp dport 81 counter reject with tcp reset
		udp dport 81 counter reject
		meta pkttype host counter
	}
	chain out {
		type filter hook output priority 0;
		counter
	}
	chain post {
		type filter hook postrouting priority 0;
		iifname br0 counter
		oifname br0 counter
	}
}
table bridge b {
	chain early {
		type filter hook prerouting priority -1;
		meta pkttype other counter
		counter
	}
	chain late {
		type filter hook prerouting priority 1;
		meta pkttype other counter
		meta mark 9 counter
		counter
	}
	chain thru {
		type filter hook forward priority -1;
		iifname one oifname two counter
		counter
	}
	chain after {
		type filter hook forward priority 1;
		iifname one oifname two counter
		counter
	}
	chain post {
		type filter hook postrouting priority 300;
		oifname two counter
		counter
	}
}
";

/// Destinations are translated to a station, to the host, and beyond it.
const TURNED: &str = "table inet t {
	chain turn {
		type nat hook prerouting priority -100;
		ip daddr 198.18.0.99 counter dnat ip to 198.18.0.20
		udp dport 53 counter redirect
		tcp dport 80 counter dnat ip to 198.19.0.2
		ip6 daddr 2001:db8:1::99 counter dnat ip6 to 2001:db8:2::2
	}
	chain hide {
		type nat hook postrouting priority 100;
		oifname br0 tcp dport 22 counter masquerade
	}
	chain thru {
		type filter hook forward priority 0;
		ct status dnat counter
		counter
	}
}
";

fn four(to: Mac, address: &str) -> Frame {
    ethernet(to, A).ip4("198.18.0.10", address)
}

/// Stations speak to each other, to the host, and through it.
fn talk() -> Vec<(&'static str, Frame)> {
    let b = "198.18.0.20";
    let answer = || ethernet(A, B).ip4("198.18.0.20", "198.18.0.10");
    vec![
        ("one", four(B, b).udp(1000, 53)),
        ("two", answer().udp(53, 1000)),
        ("one", four(B, b).udp(1000, 53)),
        ("one", four(B, b).tcp(1000, 81)),
        ("one", four(B, b).udp(1000, 81)),
        ("one", four(ALL, "198.18.0.255").udp(1000, 67)),
        ("one", four(BRIDGE, "198.18.0.1").udp(1000, 53)),
        ("one", four(BRIDGE, "198.18.0.1").tcp(1000, 81)),
        ("one", four(BRIDGE, "198.19.0.2").udp(1000, 53)),
        ("out", ethernet(OUT, FAR).ip4("198.19.0.2", "198.18.0.10").udp(53, 1000)),
        ("one", four(B, b).patch(10, &[1, 2]).udp(1000, 54)),
        ("one", four(B, b).ip_options(&[1, 1, 1, 0]).udp(1000, 55)),
        ("one", four(B, b).ttl(0).udp(1000, 56)),
        ("one", four(B, b).udp(1000, 57).zeros(30).cut(50)),
        ("one", ethernet(B, A).vlan(7).ip4("198.18.0.10", b).udp(1000, 58)),
        ("one", ethernet(B, A).ip6("2001:db8:1::10", "2001:db8:1::20").udp(1000, 53)),
        ("one", ethernet(B, A).ip6("2001:db8:1::10", "2001:db8:1::20").tcp(1000, 81)),
        ("one", ethernet(ALL, A).arp(1, A, "198.18.0.10", [0; 6], b)),
        (
            "three",
            ethernet(A, C).ip4("198.18.0.30", "198.18.0.10").fragment(3, false).id(9).zeros(8),
        ),
    ]
}

/// Packets whose destination is translated, and answers.
fn turned() -> Vec<(&'static str, Frame)> {
    let from = |to: &str| ethernet(A, B).ip4(to, "198.18.0.10");
    vec![
        ("two", ethernet(ALL, B).arp(1, B, "198.18.0.20", [0; 6], "198.18.0.10")),
        ("one", four(C, "198.18.0.99").udp(1000, 99)),
        ("two", from("198.18.0.20").udp(99, 1000)),
        ("one", four(C, "198.18.0.99").udp(1000, 99)),
        ("one", four(B, "198.18.0.20").udp(1000, 53)),
        ("one", four(B, "198.18.0.20").tcp(1000, 80)),
        ("out", ethernet(OUT, FAR).ip4("198.19.0.2", "198.18.0.10").tcp(80, 1000).flags(0x12)),
        ("one", four(B, "198.18.0.20").tcp(1000, 22)),
        ("two", ethernet(BRIDGE, B).ip4("198.18.0.20", "198.18.0.1").tcp(22, 1000).flags(0x12)),
        ("one", ethernet(C, A).ip6("2001:db8:1::10", "2001:db8:1::99").udp(1000, 54)),
    ]
}

/// Fragments of one packet to a station that is known.
fn fragments() -> Vec<(&'static str, Frame)> {
    let part = |offset, more| four(B, "198.18.0.20").fragment(offset, more).id(7);
    let six = |offset, more| {
        ethernet(B, A).ip6("2001:db8:1::10", "2001:db8:1::20").fragment6(offset, more, 7)
    };
    vec![
        ("two", ethernet(ALL, B).arp(1, B, "198.18.0.20", [0; 6], "198.18.0.10")),
        ("one", part(0, true).udp(1000, 53).length(616).zeros(592)),
        ("one", part(75, false).protocol(17).zeros(16)),
        ("one", six(0, true).udp(1000, 53).length(616).zeros(592)),
        ("one", six(75, false).protocol(17).zeros(16)),
        ("one", four(BRIDGE, "198.19.0.2").fragment(0, true).id(8).udp(1, 2).length(24).zeros(8)),
        ("one", four(BRIDGE, "198.19.0.2").fragment(2, false).id(8).protocol(17).zeros(8)),
    ]
}

fn on(name: &str, lines: &str, rules: &str, frames: Vec<(&str, Frame)>) -> Scenario {
    let name = format!("ip_on_bridge_{name}");
    let mut scenario = Scenario::new(&name, &format!("{NET}{lines}"), rules).at_once();
    for called in ["iptables", "ip6tables"] {
        scenario = scenario.sysctl(&format!("net.bridge.bridge-nf-call-{called}"), 1);
    }
    for (source, frame) in frames {
        scenario = scenario.frame(source, &frame);
    }
    scenario
}

pub fn all() -> Vec<Scenario> {
    let tagged = "net.bridge.bridge-nf-filter-vlan-tagged";
    let forwarding = "net.ipv4.conf.br0.forwarding";
    let of_bridge = "link set br0 type bridge nf_call_iptables 1 nf_call_ip6tables 1\n";
    let mut of_one = on("set_on_the_bridge", of_bridge, EVERYWHERE, talk());
    of_one.sysctls.clear();
    vec![
        on("hooks", "", EVERYWHERE, talk()),
        of_one,
        on("hooks_promiscuous", "link set br0 promisc on\n", EVERYWHERE, talk()),
        on("hooks_of_tagged_packets", "", EVERYWHERE, talk()).sysctl(tagged, 1),
        on("translated", "", TURNED, turned()),
        on("translated_without_forwarding", "", TURNED, turned()).sysctl(forwarding, 0),
        on(
            "fragments",
            "",
            "table inet t {\n\tchain c {\n\t\ttype filter hook forward priority 0;\n\t\tct state new counter\n\t\tmeta length > 600 counter\n\t}\n}\n",
            fragments(),
        ),
        on("fragments_without_connections", "", EVERYWHERE, fragments()),
        on(
            "small_port",
            "link set two mtu 1280\n",
            EVERYWHERE,
            vec![
                ("two", ethernet(ALL, B).arp(1, B, "198.18.0.20", [0; 6], "198.18.0.10")),
                ("one", four(B, "198.18.0.20").udp(1000, 53).zeros(1300)),
                ("one", four(B, "198.18.0.20").df().udp(1000, 53).zeros(1300)),
                (
                    "one",
                    ethernet(B, A).ip6("2001:db8:1::10", "2001:db8:1::20").udp(1, 2).zeros(1300),
                ),
            ],
        ),
    ]
}
