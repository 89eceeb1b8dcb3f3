// SPDX-License-Identifier: Apache-2.0

//! Scenarios of bridges by chance: ports with options, stations that move, groups, tags, packets
//! for the host and through it, and rules at all hooks of the bridge family.
//!
//! No packet leaves the host where it came in, since the kernel would then tell its sender.

use fastrand::Rng;
use penstock_testkit::Chance;

use crate::frame::{Frame, Mac, bare, ethernet};
use crate::hand_made::bridge::{BRIDGE, FAR, NET, OUT};
use crate::scenario::Scenario;

/// The scenario of a seed. Many frames, since what a bridge knows makes each scenario need a router
/// of its own.
pub fn scenario(seed: u64) -> Scenario {
    let mut rng = Rng::with_seed(seed);
    let net = format!("{NET}{}", options(&mut rng));
    let mut s = Scenario::new(&format!("random_bridge_{seed}"), &net, &ruleset(&mut rng));
    for _ in 0..rng.usize(60..120) {
        let (source, frame) = frame(&mut rng);
        s = s.frame(source, &frame);
    }
    s
}

fn options(rng: &mut Rng) -> String {
    let mut lines = String::new();
    for port in ["one", "two", "three"] {
        for option in ["hairpin", "isolated", "learning", "flood", "mcast_flood", "bcast_flood"] {
            if rng.u8(..8) == 0 {
                let on = if matches!(option, "hairpin" | "isolated") { "on" } else { "off" };
                lines += &format!("link set {port} type bridge_slave {option} {on}\n");
            }
        }
        if rng.u8(..6) == 0 {
            lines += &format!(
                "bridge fdb add {} dev {port} master static\n",
                text(station(rng.u8(..4)))
            );
        }
    }
    if rng.u8(..8) == 0 {
        lines += "link set br0 promisc on\n";
    }
    if rng.u8(..8) == 0 {
        lines += "link set br0 type bridge group_fwd_mask 0x4028\n";
    }
    // An address can be added to one port only.
    let mut seen = vec![];
    let new = |line: &&str| {
        let what: String = line.split(" dev ").next().unwrap_or_default().into();
        let first = !what.starts_with("bridge fdb") || !seen.contains(&what);
        seen.push(what);
        first
    };
    lines.lines().filter(new).map(|l| format!("{l}\n")).collect()
}

fn station(n: u8) -> Mac {
    [2, 0, 0, 0, 0x0c, n]
}

fn text(mac: Mac) -> String {
    mac.map(|b| format!("{b:02x}")).join(":")
}

fn ruleset(rng: &mut Rng) -> String {
    const MATCHES: [&str; 20] = [
        "",
        "iifname one",
        "iifname two",
        "oifname two",
        "oifname three",
        "meta pkttype host",
        "meta pkttype other",
        "meta mark 7",
        "ether saddr 02:00:00:00:0c:01",
        "ether daddr 02:00:00:00:0c:02",
        "ether type arp",
        "ether type vlan",
        "vlan id 7",
        "meta protocol ip",
        "ip saddr 198.18.0.10",
        "ip daddr 198.18.0.1",
        "udp dport 53",
        "meta l4proto tcp",
        "arp operation request",
        "meta length 28",
    ];
    const DOES: [&str; 8] = [
        "counter",
        "counter",
        "counter accept",
        "counter drop",
        "counter meta mark set 7",
        "counter ether daddr set 02:00:00:00:0c:03",
        "ip ttl set 9 counter",
        "counter ether saddr set 02:00:00:00:0c:01",
    ];
    let mut out = String::from("table bridge t {\n");
    for n in 0..rng.usize(2..8) {
        let hook = rng.pick(&["prerouting", "input", "forward", "output", "postrouting"]);
        let policy = if rng.u8(..8) == 0 { "drop" } else { "accept" };
        let priority = rng.i32(-300..300);
        out += &format!(
            "\tchain c{n} {{\n\t\ttype filter hook {hook} priority {priority}; policy {policy};\n"
        );
        for _ in 0..rng.usize(1..6) {
            let tests = rng.pick(&MATCHES);
            // What is ARP has no TTL.
            let other = tests.contains("arp") || tests.contains("ether type");
            let does = rng.pick(if other { &DOES[..6] } else { &DOES });
            let kind = rng.pick(&["meta pkttype set host", "meta pkttype set other", "counter"]);
            out += &format!("\t\t{tests} {does}\n");
            if hook == "prerouting" && rng.bool() {
                out += &format!("\t\t{} {kind} counter\n", rng.pick(&MATCHES))
                    .replace("counter counter", "counter");
            }
        }
        out += "\t}\n";
    }
    out + "}\n"
}

fn frame(rng: &mut Rng) -> (&'static str, Frame) {
    let source =
        rng.pick(&["one", "one", "two", "two", "three", "three", "out", "host", "host:br0"]);
    let (sport, dport) = (rng.u16(1..3), rng.pick(&[53u16, 80]));
    match source {
        "host" => {
            let to = rng.pick(&["198.18.0.10", "198.18.0.20"]);
            return (source, bare().ip4("198.18.0.1", to).udp(sport, dport));
        }
        "out" => {
            let to = rng.pick(&["198.18.0.10", "198.18.0.20", "198.18.0.1"]);
            return (source, ethernet(OUT, FAR).ip4("198.19.0.2", to).udp(sport, dport));
        }
        _ => {}
    }
    let from = if source == "host:br0" { BRIDGE } else { station(rng.u8(..4)) };
    let to = match rng.u8(..16) {
        0 => [0xff; 6],
        1 => [1, 0, 0x5e, 1, 2, 3],
        2 => [0x33, 0x33, 0, 0, 0, 9],
        3 => [1, 0x80, 0xc2, 0, 0, rng.u8(..16)],
        4 | 5 => BRIDGE,
        6 => [2, 0, 0, 0, 0x0a, rng.u8(1..4)],
        _ => station(rng.u8(..5)),
    };
    let mut frame = ethernet(to, from);
    if source != "host:br0" && rng.u8(..6) == 0 {
        frame = frame.vlan(rng.pick(&[7u16, 0x6000, 0x2007]));
    }
    let (a, b) = ("198.18.0.10", rng.pick(&["198.18.0.1", "198.19.0.2"]));
    let frame = match rng.u8(..10) {
        0 => frame.arp(1, from, a, [0; 6], "198.18.0.20"),
        1 => frame
            .ip6("2001:db8:1::10", rng.pick(&["2001:db8:1::1", "2001:db8:2::2"]))
            .udp(sport, dport),
        2 => frame.ip4(a, b).tcp(sport, dport),
        3 => frame.ip4(a, b).patch(2, &[0, 200]).udp(sport, dport),
        4 => frame.ethertype(0x1234).data(b"unknown"),
        5 => frame.ip4(a, b).ttl(rng.u8(..3)).udp(sport, dport),
        _ => frame.ip4(a, b).udp(sport, dport),
    };
    (source, frame)
}
