// SPDX-License-Identifier: Apache-2.0

//! `physdev` of iptables: the ports of a bridge on which packets pass the hooks of IP.

use super::{available, restore};
use crate::frame::{Frame, Mac, ethernet};
use crate::hand_made::bridge::{BRIDGE, FAR, NET, OUT};
use crate::scenario::Scenario;

const LINES: &str = "\
-m physdev --physdev-in one
-m physdev ! --physdev-in one
-m physdev --physdev-in t+
-m physdev --physdev-in br0
-m physdev --physdev-is-in
-m physdev ! --physdev-is-in
-m physdev --physdev-is-bridged
-m physdev ! --physdev-is-bridged
-m physdev --physdev-in one ! --physdev-is-bridged
-m physdev ! --physdev-in two --physdev-is-in
";

const OUT_LINES: &str = "\
-m physdev --physdev-out two
-m physdev ! --physdev-out two
-m physdev --physdev-out t+
-m physdev --physdev-is-out
-m physdev ! --physdev-is-out
-m physdev --physdev-in one --physdev-out two
-m physdev --physdev-is-in --physdev-is-out
-o br0 -m physdev ! --physdev-is-out
";

const A: Mac = [2, 0, 0, 0, 0x0c, 1];
const B: Mac = [2, 0, 0, 0, 0x0c, 2];
const C: Mac = [2, 0, 0, 0, 0x0c, 3];

/// Packets on the bridge, to the host, through it both ways, and to all.
fn frames() -> Vec<(&'static str, Frame)> {
    vec![
        ("one", ethernet(B, A).ip4("198.18.0.10", "198.18.0.20").udp(1, 53)),
        ("two", ethernet(A, B).ip4("198.18.0.20", "198.18.0.10").udp(53, 1)),
        ("one", ethernet(B, A).ip4("198.18.0.10", "198.18.0.20").udp(1, 53)),
        ("three", ethernet(A, C).ip4("198.18.0.30", "198.18.0.10").tcp(1, 80)),
        ("one", ethernet(C, A).ip4("198.18.0.10", "198.18.0.30").tcp(80, 1).flags(0x12)),
        ("one", ethernet(BRIDGE, A).ip4("198.18.0.10", "198.18.0.1").udp(1, 53)),
        ("one", ethernet(BRIDGE, A).ip4("198.18.0.10", "198.19.0.2").udp(1, 53)),
        ("two", ethernet(BRIDGE, B).ip4("198.18.0.20", "198.19.0.2").udp(1, 53)),
        ("out", ethernet(OUT, FAR).ip4("198.19.0.2", "198.18.0.10").udp(53, 1)),
        ("one", ethernet([0xff; 6], A).ip4("198.18.0.10", "198.18.0.255").udp(1, 53)),
        ("one", ethernet(B, A).ip6("2001:db8:1::10", "2001:db8:1::20").udp(1, 53)),
        ("one", ethernet(BRIDGE, A).ip6("2001:db8:1::10", "2001:db8:2::2").udp(1, 53)),
        ("one", ethernet(B, A).vlan(7).ip4("198.18.0.10", "198.18.0.20").udp(1, 53)),
    ]
}

/// With the hooks of IP on the bridge, and without.
pub fn all() -> Vec<Scenario> {
    if !available() {
        return vec![];
    }
    let mut rules = vec![];
    for (table, chain, leaves) in [
        ("mangle", "PREROUTING", false),
        ("mangle", "INPUT", false),
        ("mangle", "FORWARD", true),
        ("mangle", "POSTROUTING", true),
        ("filter", "FORWARD", true),
        ("filter", "INPUT", false),
    ] {
        let lines = LINES.lines().chain(OUT_LINES.lines().filter(|_| leaves));
        rules.extend(lines.map(|line| (table, chain, line)));
    }
    let commands = restore(false, &rules) + &restore(true, &rules);
    let scenario = |on: u32| {
        let name = format!("extension_physdev_{}", if on == 0 { "off" } else { "on" });
        let mut scenario = Scenario::new(&name, NET, "").commands(&commands).at_once();
        for name in ["iptables", "ip6tables"] {
            scenario = scenario.sysctl(&format!("net.bridge.bridge-nf-call-{name}"), on);
        }
        for (source, frame) in frames() {
            scenario = scenario.frame(source, &frame);
        }
        scenario
    };
    vec![scenario(0), scenario(1)]
}
