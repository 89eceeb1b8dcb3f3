// SPDX-License-Identifier: Apache-2.0

//! Tagged packets on a bridge at the hooks of IP, with a VLAN device on the bridge
//! (`bridge-nf-pass-vlan-input-dev`).

use super::sent;
use crate::frame::{Frame, Mac, ethernet};
use crate::hand_made::bridge::{BRIDGE, FAR, NET, OUT};
use crate::scenario::Scenario;

/// `inner` is VLAN 7 of the bridge, `idle` VLAN 9, which is not up. Of VLAN 8 there is no device.
const DEVICES: &str = "\
link add link br0 name inner type vlan id 7
link add link br0 name idle type vlan id 9
link set inner addrgenmode none up
link set idle addrgenmode none
addr add 198.18.7.1/24 dev inner
addr add 2001:db8:7::1/64 dev inner nodad
neigh add 198.18.7.10 lladdr 02:00:00:00:0c:01 dev inner nud permanent
neigh add 198.18.7.20 lladdr 02:00:00:00:0c:02 dev inner nud permanent
neigh add 2001:db8:7::20 lladdr 02:00:00:00:0c:02 dev inner nud permanent
";

const A: Mac = [2, 0, 0, 0, 0x0c, 1];
const B: Mac = [2, 0, 0, 0, 0x0c, 2];
const C: Mac = [2, 0, 0, 0, 0x0c, 3];
const ALL: Mac = [0xff; 6];

fn rules() -> String {
    let mut text = String::from("table inet t {\n");
    for hook in ["prerouting", "input", "forward", "output", "postrouting"] {
        text += &format!("\tchain {hook} {{\n\t\ttype filter hook {hook} priority 0;\n");
        for device in ["br0", "inner", "idle", "one", "two", "out"] {
            if hook != "output" && hook != "postrouting" {
                text += &format!("\t\tiifname {device} counter\n");
            }
            if hook != "prerouting" && hook != "input" {
                text += &format!("\t\toifname {device} counter\n");
            }
        }
        text += "\t\tct state new counter\n\t\tct state established counter\n\t\tmeta pkttype host \
                 counter\n";
        if hook == "forward" {
            text += "\t\tudp dport 99 counter reject\n";
        }
        text += "\t}\n";
    }
    text + "}\n"
}

/// Destinations are translated to a station, to the host, and beyond it.
const TURNED: &str = "\tchain turn {
		type nat hook prerouting priority -100;
		ip daddr 198.18.7.99 counter dnat ip to 198.18.7.20
		udp dport 53 counter redirect
		tcp dport 80 counter dnat ip to 198.19.0.2
		ip6 daddr 2001:db8:7::99 counter dnat ip6 to 2001:db8:7::20
	}
	chain hide {
		type nat hook postrouting priority 100;
		tcp dport 22 counter masquerade
	}
}
";

fn tagged(to: Mac, from: Mac, id: u16) -> Frame {
    ethernet(to, from).vlan(id)
}

fn talk() -> Vec<(&'static str, Frame)> {
    let a = |to: Mac, id: u16, address: &str| tagged(to, A, id).ip4("198.18.7.10", address);
    vec![
        ("two", ethernet(ALL, B).arp(1, B, "198.18.0.20", [0; 6], "198.18.0.10")),
        ("two", tagged(ALL, B, 7).arp(1, B, "198.18.7.20", [0; 6], "198.18.7.10")),
        ("one", a(B, 7, "198.18.7.20").udp(1000, 54)),
        ("two", tagged(A, B, 7).ip4("198.18.7.20", "198.18.7.10").udp(54, 1000)),
        ("one", a(B, 8, "198.18.7.20").udp(1000, 55)),
        ("one", a(B, 9, "198.18.7.20").udp(1000, 55)),
        ("one", a(B, 7 | 0x6000, "198.18.7.20").udp(1000, 56)),
        ("one", tagged(B, A, 0).ip4("198.18.7.10", "198.18.7.20").udp(1000, 57)),
        ("one", ethernet(B, A).ip4("198.18.0.10", "198.18.0.20").udp(1000, 57)),
        ("one", ethernet(B, A).tag(0x88a8, 7).ip4("198.18.7.10", "198.18.7.20").udp(1000, 58)),
        ("one", ethernet(B, A).tag(0x88a8, 3).vlan(7).ip4("198.18.7.10", "198.18.7.20").udp(1, 2)),
        ("one", a(ALL, 7, "198.18.7.255").udp(1000, 67)),
        ("one", a(BRIDGE, 7, "198.18.7.1").udp(1000, 60)),
        ("one", a(BRIDGE, 8, "198.18.7.1").udp(1000, 60)),
        ("one", a(BRIDGE, 7, "198.19.0.2").udp(1000, 61)),
        ("out", ethernet(OUT, FAR).ip4("198.19.0.2", "198.18.7.10").udp(61, 1000)),
        ("one", a(B, 7, "198.18.7.20").udp(1000, 99)),
        ("one", a(B, 7, "198.18.7.20").ttl(1).udp(1000, 62)),
        ("one", a(C, 7, "198.18.7.99").udp(1000, 63)),
        ("two", tagged(A, B, 7).ip4("198.18.7.20", "198.18.7.10").udp(63, 1000)),
        ("one", a(C, 8, "198.18.7.99").udp(1001, 63)),
        ("one", a(B, 7, "198.18.7.20").udp(1000, 53)),
        ("one", a(B, 8, "198.18.7.20").udp(1002, 53)),
        ("one", a(B, 7, "198.18.7.20").tcp(1000, 80)),
        ("out", ethernet(OUT, FAR).ip4("198.19.0.2", "198.18.7.10").tcp(80, 1000).flags(0x12)),
        ("one", a(B, 7, "198.18.7.20").tcp(1000, 22)),
        ("one", tagged(B, A, 7).ip6("2001:db8:7::10", "2001:db8:7::20").udp(1000, 53)),
        ("one", tagged(C, A, 7).ip6("2001:db8:7::10", "2001:db8:7::99").udp(1000, 54)),
        ("one", a(B, 7, "198.18.7.20").fragment(0, true).id(7).udp(1, 2).length(616).zeros(592)),
        ("one", a(B, 7, "198.18.7.20").fragment(75, false).id(7).protocol(17).zeros(16)),
    ]
}

/// All of them.
pub fn all() -> Vec<Scenario> {
    let mut all = vec![];
    let own = rules();
    let turned = format!("{}{TURNED}", own.strip_suffix("}\n").unwrap_or(&own));
    for (name, passes, rules) in [
        ("not_passed", 0, rules()),
        ("passed", 1, rules()),
        ("not_passed_translated", 0, turned.clone()),
        ("passed_translated", 1, turned),
    ] {
        let mut s =
            Scenario::new(&format!("bridge_vlan_{name}"), &format!("{NET}{DEVICES}"), &rules);
        for (setting, value) in [
            ("call-iptables", 1),
            ("call-ip6tables", 1),
            ("filter-vlan-tagged", 1),
            ("pass-vlan-input-dev", passes),
        ] {
            s = s.sysctl(&format!("net.bridge.bridge-nf-{setting}"), value);
        }
        all.push(sent(s.at_once(), &talk()));
    }
    all
}
