// SPDX-License-Identifier: Apache-2.0

//! Bridges: three ports, the host on the bridge, and a wire next to it.

use super::from;
use crate::frame::{Frame, Mac, bare, ethernet};
use crate::scenario::Scenario;

/// `one`, `two` and `three` are ports of `br0`; `out` is its own wire.
pub const NET: &str = "\
link add name one address 02:00:00:00:0a:01 type veth
link add name two address 02:00:00:00:0a:02 type veth
link add name three address 02:00:00:00:0a:03 type veth
link add name out address 02:00:00:00:0b:01 type veth
link add name br0 address 02:00:00:00:0a:00 type bridge stp_state 0 forward_delay 0 mcast_snooping 0
link set one addrgenmode none master br0 up
link set two addrgenmode none master br0 up
link set three addrgenmode none master br0 up
link set out addrgenmode none up
link set br0 addrgenmode none up
addr add 198.18.0.1/24 dev br0
addr add 198.19.0.1/24 dev out
addr add 2001:db8:1::1/64 dev br0 nodad
addr add 2001:db8:2::1/64 dev out nodad
neigh add 198.18.0.10 lladdr 02:00:00:00:0c:01 dev br0 nud permanent
neigh add 198.18.0.20 lladdr 02:00:00:00:0c:02 dev br0 nud permanent
neigh add 198.19.0.2 lladdr 02:00:00:00:0d:01 dev out nud permanent
neigh add 2001:db8:1::10 lladdr 02:00:00:00:0c:01 dev br0 nud permanent
neigh add 2001:db8:2::2 lladdr 02:00:00:00:0d:01 dev out nud permanent
";

pub const BRIDGE: Mac = [2, 0, 0, 0, 0x0a, 0];
const PORT_TWO: Mac = [2, 0, 0, 0, 0x0a, 2];
pub const OUT: Mac = [2, 0, 0, 0, 0x0b, 1];
/// Stations behind the ports.
const A: Mac = [2, 0, 0, 0, 0x0c, 1];
const B: Mac = [2, 0, 0, 0, 0x0c, 2];
const C: Mac = [2, 0, 0, 0, 0x0c, 3];
/// The station behind the wire.
pub const FAR: Mac = [2, 0, 0, 0, 0x0d, 1];
const ALL: Mac = [0xff; 6];
const GROUP: Mac = [1, 0, 0x5e, 1, 2, 3];

/// Chains at all hooks of a bridge; their rules count every relevant field.
fn everywhere() -> String {
    let mut text = String::from("table bridge t {\n");
    for (hook, name) in [
        ("prerouting", "a"),
        ("input", "b"),
        ("forward", "c"),
        ("output", "d"),
        ("postrouting", "e"),
    ] {
        text += &format!("\tchain {name} {{\n\t\ttype filter hook {hook} priority 0;\n");
        for device in ["one", "two", "three", "br0", "out", "\"\""] {
            if device != "\"\"" {
                text += &format!("\t\tiifname {device} counter\n\t\toifname {device} counter\n");
            }
        }
        for rule in [
            "",
            "iif 0",
            "oif 0",
            "meta pkttype host",
            "meta pkttype other",
            "meta pkttype broadcast",
            "meta pkttype multicast",
            "meta length 46-60",
            "meta protocol ip",
            "meta protocol arp",
            "meta protocol vlan",
            "ether type ip",
            "ether type vlan",
            "vlan id 7",
            "ip saddr 198.18.0.10",
            "ip6 saddr 2001:db8:1::10",
            "udp dport 53",
            "tcp dport 80",
            "icmp type echo-request",
            "arp operation request",
            "ether saddr 02:00:00:00:0c:01",
            "ether daddr ff:ff:ff:ff:ff:ff",
            "meta l4proto udp",
            "@ll,0,48 0x020000000a00",
            "@nh,0,8 0x45",
        ] {
            text += &format!("\t\t{rule} counter\n");
        }
        text += "\t}\n";
    }
    text + "}\n"
}

fn on(name: &str, rules: &str) -> Scenario {
    Scenario::new(&format!("bridge_{name}"), NET, rules)
}

/// A scenario with additional lines of `net.ip`.
fn with(name: &str, lines: &str, rules: &str) -> Scenario {
    Scenario::new(&format!("bridge_{name}"), &format!("{NET}{lines}"), rules)
}

fn sent(mut scenario: Scenario, frames: &[(&str, Frame)]) -> Scenario {
    for (source, frame) in frames {
        scenario = scenario.frame(source, frame);
    }
    scenario
}

fn udp(to: Mac, source: Mac) -> Frame {
    ethernet(to, source).ip4("198.18.0.10", "198.18.0.20").udp(1000, 53).data(b"who is where")
}

/// Stations speak to each other, until all are known.
fn talk() -> Vec<(&'static str, Frame)> {
    vec![
        ("one", udp(B, A)),
        ("two", udp(A, B)),
        ("one", udp(B, A)),
        ("three", udp(A, C)),
        ("three", udp(C, A)),
        ("two", udp(A, B)),
        ("one", udp(A, A)),
        ("one", udp(ALL, A)),
        ("two", udp(GROUP, B)),
        ("one", udp(BRIDGE, A)),
        ("one", udp(PORT_TWO, A)),
        ("two", udp(B, GROUP)),
        ("two", udp(B, [0; 6])),
        ("two", udp(A, BRIDGE)),
    ]
}

/// All that can come by a port.
fn zoo() -> Vec<(&'static str, Frame)> {
    let a = || ethernet(B, A);
    let mut frames = talk();
    frames.extend([
        ("one", a().ip6("2001:db8:1::10", "2001:db8:1::20").udp(1000, 53)),
        ("one", a().ip4("198.18.0.10", "198.18.0.20").tcp(1000, 80)),
        ("one", a().ip4("198.18.0.10", "198.18.0.20").icmp(8, 0, 1).zeros(20)),
        ("one", a().ip4("198.18.0.10", "198.18.0.20").ttl(0).udp(1, 53)),
        ("one", a().ip4("198.18.0.10", "198.18.0.20").udp(1, 53).zeros(900)),
        ("one", a().ip4("198.18.0.10", "198.18.0.20").ip_options(&[1, 1, 1, 0]).udp(1, 53)),
        ("one", a().ip4("198.18.0.10", "198.18.0.20").udp(1, 53).zeros(4).cut(40)),
        (
            "one",
            a().ip4("198.18.0.10", "198.18.0.20")
                .fragment(0, true)
                .id(9)
                .udp(1, 53)
                .length(24)
                .zeros(8),
        ),
        (
            "one",
            a().ip4("198.18.0.10", "198.18.0.20").fragment(2, false).id(9).protocol(17).zeros(8),
        ),
        ("one", a().vlan(7).ip4("198.18.0.10", "198.18.0.20").udp(1, 53)),
        ("one", a().vlan(0x6000).ip4("198.18.0.10", "198.18.0.20").udp(1, 53)),
        ("one", a().tag(0x88a8, 9).vlan(7).ip4("198.18.0.10", "198.18.0.20").udp(1, 53)),
        ("one", ethernet(ALL, A).vlan(7).arp(1, A, "198.18.0.10", [0; 6], "198.18.0.20")),
        ("one", ethernet(ALL, A).arp(1, A, "198.18.0.10", [0; 6], "198.18.0.20")),
        ("two", ethernet(A, B).arp(2, B, "198.18.0.20", A, "198.18.0.10")),
        ("one", a().ethertype(0x1234).data(b"nobody knows this one")),
        ("one", a().ethertype(0x0800).data(b"x")),
        ("one", ethernet(ALL, A).ip4("198.18.0.10", "198.18.0.255").udp(1, 53)),
        ("one", ethernet([0x33, 0x33, 0, 0, 0, 1], A).ip6("2001:db8:1::10", "ff02::1").udp(1, 53)),
        ("one", ethernet(BRIDGE, A).ip4("198.18.0.10", "198.18.0.1").udp(1, 53)),
        ("one", ethernet(BRIDGE, A).ip4("198.18.0.10", "198.19.0.2").udp(1, 53)),
        ("one", ethernet(BRIDGE, A).ip6("2001:db8:1::10", "2001:db8:2::2").udp(1, 53)),
        ("out", ethernet(OUT, FAR).ip4("198.19.0.2", "198.18.0.10").udp(53, 1)),
        ("out", ethernet(OUT, FAR).ip4("198.19.0.2", "198.18.0.20").udp(53, 1)),
        ("out", ethernet(OUT, FAR).ip6("2001:db8:2::2", "2001:db8:1::10").udp(53, 1)),
        ("host", bare().ip4("198.18.0.1", "198.18.0.10").udp(53, 1)),
    ]);
    for last in 0..16 {
        let to = [1, 0x80, 0xc2, 0, 0, last];
        frames.push(("one", ethernet(to, C).ethertype(0x88cc).data(b"to the nearest of bridges")));
        frames.push(("two", ethernet(C, B).ethertype(0x1234).data(b"was it learned?")));
    }
    frames
}

pub fn all() -> Vec<Scenario> {
    vec![
        sent(on("learns_and_floods", ""), &talk()),
        sent(on("hooks", &everywhere()), &talk()),
        from(on("hooks_and_all_kinds_of_packets", &everywhere()), "one", &crate::net::zoo()),
        sent(on("hooks_and_all_kinds_of_frames", &everywhere()), &zoo()),
        sent(with("port_down", "link set two down\n", &everywhere()), &zoo()),
        sent(with("down", "link set br0 down\n", &everywhere()), &talk()),
        sent(with("nomaster", "link set two nomaster\n", &everywhere()), &talk()),
        sent(with("promiscuous", "link set br0 promisc on\n", &everywhere()), &zoo()),
        sent(with("hairpin", "link set one type bridge_slave hairpin on\n", &everywhere()), &talk()),
        sent(
            with(
                "isolated",
                "link set one type bridge_slave isolated on\nlink set three type bridge_slave isolated on\n",
                &everywhere(),
            ),
            &zoo(),
        ),
        sent(with("does_not_learn", "link set one type bridge_slave learning off\n", ""), &talk()),
        sent(
            with(
                "does_not_flood",
                "bridge link set dev three flood off\nbridge link set dev two mcast_flood off bcast_flood off\n",
                &everywhere(),
            ),
            &zoo(),
        ),
        sent(
            with(
                "static_entries",
                "bridge fdb add 02:00:00:00:0c:02 dev three master static
bridge fdb add 02:00:00:00:0c:09 dev two master permanent
bridge fdb add 02:00:00:00:0c:08 dev br0 self local
bridge fdb add 02:00:00:00:0c:07 dev two master static
",
                &everywhere(),
            ),
            &[
                ("one", udp(B, A)),
                ("one", udp([2, 0, 0, 0, 0x0c, 9], A)),
                ("one", udp([2, 0, 0, 0, 0x0c, 8], A)),
                ("two", udp(A, B)),
                ("one", udp(B, A)),
                ("three", udp(A, [2, 0, 0, 0, 0x0c, 7])),
                ("one", udp([2, 0, 0, 0, 0x0c, 7], A)),
                ("three", udp(A, [2, 0, 0, 0, 0x0c, 9])),
            ],
        ),
        sent(with("without_ageing_floods", "link set br0 type bridge ageing_time 0\n", ""), &talk()),
        sent(
            sent(with("forgets", "link set br0 type bridge ageing_time 20\n", ""), &[("one", udp(B, A)), ("two", udp(A, B))])
                .at_once()
                .wait(std::time::Duration::from_millis(600)),
            &[("two", udp(A, B)), ("one", udp(B, A))],
        ),
        sent(
            with("group_forward_mask", "link set br0 type bridge group_fwd_mask 0x4008\nlink set one type bridge_slave group_fwd_mask 0x20\n", &everywhere()),
            &zoo(),
        ),
        sent(
            with(
                "without_an_address_takes_the_least_of_its_ports",
                "link add name br1 type bridge stp_state 0 mcast_snooping 0
link set two master br1
link set one master br1
link set br1 addrgenmode none up
addr add 198.18.9.1/24 dev br1
",
                &everywhere(),
            ),
            &[
                ("one", ethernet([2, 0, 0, 0, 0x0a, 1], A).ip4("198.18.9.2", "198.18.9.1").udp(1, 2)),
                ("two", ethernet([2, 0, 0, 0, 0x0a, 1], B).ip4("198.18.9.3", "198.18.9.1").udp(1, 2)),
                ("three", udp(B, C)),
                ("two", udp(A, B)),
            ],
        ),
        sent(
            with("mtu", "link set two mtu 600\n", ""),
            &[
                ("one", ethernet(B, A).ip4("198.18.0.10", "198.18.0.20").udp(1, 53).zeros(576)),
                ("one", ethernet(B, A).ip4("198.18.0.10", "198.18.0.20").udp(1, 53).zeros(577)),
                ("host", bare().ip4("198.18.0.1", "198.18.0.20").udp(53, 1).zeros(572)),
                ("out", ethernet(OUT, FAR).ip4("198.19.0.2", "198.18.0.10").udp(53, 1).zeros(1200)),
            ],
        ),
        sent(on("raw_frames_of_the_host", &everywhere()), &[
            ("one", udp(B, A)),
            ("host:br0", udp(A, BRIDGE)),
            ("host:br0", udp(B, BRIDGE)),
            ("host:br0", udp(BRIDGE, A)),
            ("host:br0", udp(PORT_TWO, A)),
            ("host:br0", ethernet(ALL, BRIDGE).arp(1, BRIDGE, "198.18.0.1", [0; 6], "198.18.0.20")),
            ("host:two", udp(A, B)),
        ]),
        sent(
            on(
                "verdicts_and_order",
                "table bridge t {
	chain early {
		type filter hook prerouting priority -300;
		ether saddr 02:00:00:00:0c:03 counter drop
		counter meta mark set 5
	}
	chain late {
		type filter hook prerouting priority dstnat + 5;
		meta mark 5 counter
		ether daddr 02:00:00:00:0c:02 ip ttl set 9 counter
	}
	chain forward {
		type filter hook forward priority filter; policy drop;
		oifname two counter accept
		iifname two oifname one counter accept
		counter
	}
	chain post {
		type filter hook postrouting priority srcnat;
		meta mark 5 counter
		oifname two ether saddr set 02:00:00:00:0e:0e counter
		ip ttl 9 counter
	}
	chain out {
		type filter hook output priority out;
		counter
		oifname three counter drop
	}
}
table netdev n {
	chain in { type filter hook ingress device one priority 0; counter; }
	chain br { type filter hook ingress device br0 priority 0; counter; ip daddr 198.19.0.2 counter; }
	chain to { type filter hook egress device two priority 0; counter; meta mark 5 counter; }
	chain brout { type filter hook egress device br0 priority 0; counter; }
}
table inet i {
	chain pre { type filter hook prerouting priority 0; iifname br0 counter; counter; }
	chain through { type filter hook forward priority 0; iifname br0 oifname out counter; iifname out oifname br0 counter; meta mark 5 counter; }
	chain post { type filter hook postrouting priority 0; oifname br0 counter; }
}
",
            ),
            &zoo(),
        ),
        // The man page's way to route what would be bridged.
        sent(
            on(
                "route_instead",
                "table bridge t {
	chain pre {
		type filter hook prerouting priority 0;
		ip daddr 198.19.0.2 counter meta pkttype set unicast ether daddr set 02:00:00:00:0a:00
		ip daddr 198.18.0.1 counter meta pkttype set unicast
	}
	chain in { type filter hook input priority 0; counter; }
	chain through { type filter hook forward priority 0; counter; }
}
",
            ),
            &[
                ("one", ethernet(B, A).ip4("198.18.0.10", "198.19.0.2").udp(1, 53)),
                ("one", ethernet(PORT_TWO, A).ip4("198.18.0.10", "198.18.0.1").udp(1, 53)),
                ("one", ethernet(PORT_TWO, A).ip4("198.18.0.20", "198.18.0.1").udp(1, 53)),
                ("one", udp(B, A)),
            ],
        ),
        sent(
            with(
                "vlan_devices",
                "link add link br0 name br0.7 type vlan id 7
link set br0.7 addrgenmode none up
addr add 198.18.7.1/24 dev br0.7
neigh add 198.18.7.2 lladdr 02:00:00:00:0c:01 dev br0.7 nud permanent
link add link three name three.9 type vlan id 9
link set three.9 addrgenmode none up
addr add 198.18.9.1/24 dev three.9
",
                &everywhere(),
            ),
            &[
                ("one", ethernet(BRIDGE, A).vlan(7).ip4("198.18.7.2", "198.18.7.1").udp(1, 2)),
                ("one", ethernet(BRIDGE, A).vlan(8).ip4("198.18.7.2", "198.18.7.1").udp(1, 2)),
                ("three", ethernet([2, 0, 0, 0, 0x0a, 3], C).vlan(9).ip4("198.18.9.2", "198.18.9.1").udp(1, 2)),
                ("host", bare().ip4("198.18.7.1", "198.18.7.2").udp(1, 2)),
            ],
        ),
        from(on("arp_output_sees_no_raw_frames", "table arp t {
	chain i { type filter hook input priority 0; counter; arp operation request counter; }
	chain o { type filter hook output priority 0; counter; }
}
"), "host:br0", &[
            ethernet(ALL, BRIDGE).arp(1, BRIDGE, "198.18.0.1", [0; 6], "198.18.0.20"),
            ethernet(A, BRIDGE).arp(2, BRIDGE, "198.18.0.1", A, "198.18.0.10"),
        ]),
        sent(on("arp_input", "table arp t {
	chain i { type filter hook input priority 0; counter; iifname br0 counter; arp operation request counter; }
	chain o { type filter hook output priority 0; counter; }
}
"), &zoo()),
    ]
}
