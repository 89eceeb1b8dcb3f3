// SPDX-License-Identifier: Apache-2.0

//! VLAN devices on wires, stacked, and in flowtables.

use std::time::Duration;

use super::sent;
use crate::frame::{Frame, Mac, ethernet};
use crate::scenario::Scenario;

/// `lan` and `wan` are wires; `office` is VLAN 10 of `lan`, `guests` VLAN 20, `metro` 802.1ad 30 of
/// `wan`, `line` VLAN 40 of `metro`.
const NET: &str = "\
link add name lan address 02:00:00:00:01:01 mtu 1500 type veth
link add name wan address 02:00:00:00:02:01 mtu 1500 type veth
link set lan addrgenmode none up
link set wan addrgenmode none up
link add link lan name office type vlan id 10
link add link lan name guests type vlan id 20 egress-qos-map 0:1 5:6 ingress-qos-map 3:5
link add link wan name metro type vlan protocol 802.1ad id 30
link add link metro name line type vlan id 40
link set office addrgenmode none up
link set guests addrgenmode none up
link set metro addrgenmode none up
link set line addrgenmode none up
addr add 198.18.0.1/24 dev lan
addr add 198.18.10.1/24 dev office
addr add 198.18.20.1/24 dev guests
addr add 198.19.0.1/24 dev wan
addr add 198.19.40.1/24 dev line
addr add 2001:db8:10::1/64 dev office nodad
addr add 2001:db8:40::1/64 dev line nodad
neigh add 198.18.0.10 lladdr 02:00:00:00:01:10 dev lan nud permanent
neigh add 198.18.10.10 lladdr 02:00:00:00:01:11 dev office nud permanent
neigh add 198.18.20.10 lladdr 02:00:00:00:01:12 dev guests nud permanent
neigh add 198.19.0.2 lladdr 02:00:00:00:02:02 dev wan nud permanent
neigh add 198.19.40.2 lladdr 02:00:00:00:02:03 dev line nud permanent
neigh add 2001:db8:10::10 lladdr 02:00:00:00:01:11 dev office nud permanent
neigh add 2001:db8:40::2 lladdr 02:00:00:00:02:03 dev line nud permanent
";

const LAN: Mac = [2, 0, 0, 0, 1, 1];
const WAN: Mac = [2, 0, 0, 0, 2, 1];
const CLIENT: Mac = [2, 0, 0, 0, 1, 0x11];
const SERVER: Mac = [2, 0, 0, 0, 2, 3];

/// All of them.
pub fn all() -> Vec<Scenario> {
    let on = |name: &str, rules: &str| Scenario::new(&format!("vlan_{name}"), NET, rules);
    let flow = "\t\tflow add @f\n";
    let with = |devices: &str| {
        rules(flow).replacen(
            "{\n",
            &format!(
                "{{\n\tflowtable f {{ hook ingress priority 0; devices = {{ {devices} }}; \
                 counter; }}\n"
            ),
            1,
        )
    };
    let mut all = vec![
        sent(on("devices", &rules("")), &frames()),
        sent(on("priorities", &rules("\t\tmeta priority set 0:5\n")), &frames()),
        sent(on("metadata", METADATA), &frames()),
        sent(on("rules_of_the_wire", WIRE), &of_one_tag_on_lan()),
    ];
    for (name, devices) in [
        ("flow_of_wires", "lan, wan"),
        ("flow_of_devices", "office, line"),
        ("flow_of_all", "lan, wan, office, line"),
        ("flow_of_one_wire", "lan"),
    ] {
        let mut scenario = on(name, &with(devices)).at_once();
        for _ in 0..4 {
            scenario = sent(scenario, &talk(0)).wait(Duration::from_millis(1));
        }
        // Bits of priority and the bit that allows dropping are not the flow's.
        for bits in [0x2000, 0x1000] {
            scenario = sent(scenario, &talk(bits)).wait(Duration::from_millis(1));
        }
        all.push(scenario);
    }
    all
}

fn rules(forward: &str) -> String {
    let counters: String = ["lan", "wan", "office", "guests", "metro", "line"]
        .iter()
        .map(|d| format!("\t\tiifname {d} counter\n\t\toifname {d} counter\n"))
        .collect();
    format!(
        "table inet t {{\n\tchain pre {{\n\t\ttype filter hook prerouting priority -300;\n{}\t}}\n\
         \tchain forward {{\n\t\ttype filter hook forward priority 0;\n{counters}{forward}\t}}\n\
         \tchain post {{\n\t\ttype filter hook postrouting priority 0;\n{}\t}}\n}}\n",
        counters
            .lines()
            .filter(|l| l.contains("iif"))
            .map(|l| format!("{l}\n"))
            .collect::<String>(),
        counters
            .lines()
            .filter(|l| l.contains("oif"))
            .map(|l| format!("{l}\n"))
            .collect::<String>(),
    )
}

const METADATA: &str = "table inet t {
	chain pre {
		type filter hook prerouting priority 0;
		meta iiftype ether counter
		meta iifkind vlan counter
		meta priority 0:5 counter
		vlan id 10 counter
		meta protocol ip counter
		meta length 37 counter
		ether saddr 02:00:00:00:01:11 counter
		ether type ip counter
		ether type vlan counter
	}
	chain post {
		type filter hook postrouting priority 0;
		meta oifkind vlan counter
		meta oiftype ether counter
	}
}
";

const WIRE: &str = "table netdev n {
	chain lan {
		type filter hook ingress device lan priority 0;
		vlan id 10 counter
		vlan pcp 3 counter
		ether type vlan counter
		ip saddr 198.18.10.10 counter
		ip saddr 198.18.0.10 counter
		meta protocol ip counter
		meta protocol vlan counter
	}
	chain office {
		type filter hook ingress device office priority 0;
		vlan id 10 counter
		ip saddr 198.18.10.10 counter
		ether type ip counter
	}
	chain wan {
		type filter hook egress device wan priority 0;
		ether type 8021ad counter
		vlan id 30 counter
		meta length 37-80 counter
	}
	chain line {
		type filter hook egress device line priority 0;
		ip daddr 198.19.40.2 counter
		vlan id 40 counter
	}
}
";

/// Without the packet in two 802.1Q tags: rules at ingress in Linux 7.3 look into both, in 6.18 into
/// the outer one.
fn of_one_tag_on_lan() -> Vec<(&'static str, Frame)> {
    let two = ethernet(LAN, CLIENT).vlan(10).vlan(10).bytes();
    frames().into_iter().filter(|(_, frame)| !frame.bytes().starts_with(&two)).collect()
}

fn frames() -> Vec<(&'static str, Frame)> {
    let out = |tag: u16| {
        let frame = ethernet(LAN, CLIENT).vlan(tag);
        frame.ip4("198.18.10.10", "198.19.40.2").udp(1000, 53).data(b"question")
    };
    vec![
        ("lan", out(10)),
        ("lan", out(0x600a)),
        ("lan", out(0x100a)),
        ("lan", out(11)),
        ("lan", ethernet(LAN, CLIENT).vlan(0).ip4("198.18.0.10", "198.19.0.2").udp(1, 2)),
        ("lan", ethernet(LAN, CLIENT).vlan(20).ip4("198.18.20.10", "198.18.10.10").udp(1, 2)),
        ("lan", ethernet(LAN, CLIENT).vlan(0x6014).ip4("198.18.20.10", "198.18.10.10").udp(1, 2)),
        ("lan", ethernet(LAN, CLIENT).vlan(10).ip4("198.18.10.10", "198.18.20.10").udp(1, 2)),
        ("lan", ethernet(LAN, CLIENT).vlan(10).ip6("2001:db8:10::10", "2001:db8:40::2").udp(1, 2)),
        ("lan", ethernet(LAN, CLIENT).vlan(10).ip4("198.18.10.10", "198.18.10.1").udp(1, 2)),
        ("lan", ethernet(LAN, CLIENT).tag(0x88a8, 10).ip4("198.18.10.10", "198.19.40.2").udp(1, 2)),
        (
            "lan",
            ethernet(LAN, CLIENT).vlan(10).vlan(10).ip4("198.18.10.10", "198.19.0.2").udp(1, 2),
        ),
        (
            "wan",
            ethernet(WAN, SERVER)
                .tag(0x88a8, 30)
                .vlan(40)
                .ip4("198.19.40.2", "198.18.10.10")
                .udp(53, 1000),
        ),
        (
            "wan",
            ethernet(WAN, SERVER)
                .vlan(30)
                .vlan(40)
                .ip4("198.19.40.2", "198.18.10.10")
                .udp(53, 1000),
        ),
        (
            "wan",
            ethernet(WAN, SERVER).tag(0x88a8, 30).ip4("198.19.40.2", "198.18.10.10").udp(53, 1000),
        ),
        (
            "lan",
            ethernet([2, 0, 0, 0, 9, 9], CLIENT)
                .vlan(10)
                .ip4("198.18.10.10", "198.19.40.2")
                .udp(1, 2),
        ),
        ("host:office", ethernet(CLIENT, LAN).ip4("198.18.10.1", "198.18.10.10").udp(7, 8)),
    ]
}

fn talk(bits: u16) -> Vec<(&'static str, Frame)> {
    let question = ethernet(LAN, CLIENT).vlan(bits | 10);
    let answer = ethernet(WAN, SERVER).tag(0x88a8, bits | 30).vlan(40);
    vec![
        ("lan", question.ip4("198.18.10.10", "198.19.40.2").udp(1000, 53).data(b"question")),
        ("wan", answer.ip4("198.19.40.2", "198.18.10.10").udp(53, 1000).data(b"an answer")),
    ]
}
