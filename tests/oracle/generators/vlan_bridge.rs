// SPDX-License-Identifier: Apache-2.0

//! Bridges that filter VLANs, with connections and answers of their own: ports with VLANs by
//! chance, tagged and untagged stations, the host in a VLAN, and rules of the bridge family that
//! read the bridge, track, and reject.
//!
//! No packet leaves the host where it came in, since the kernel would then tell its sender.

use fastrand::Rng;
use penstock_testkit::Chance;

use crate::frame::{Frame, Mac, bare, ethernet};
use crate::scenario::Scenario;

/// `one`, `two` and `three` are ports of `br0`; `br0.10` is the host in VLAN 10.
const NET: &str = "\
link add name one address 02:00:00:00:0a:01 type veth
link add name two address 02:00:00:00:0a:02 type veth
link add name three address 02:00:00:00:0a:03 type veth
link add name br0 address 02:00:00:00:0a:00 type bridge stp_state 0 forward_delay 0 mcast_snooping 0 \
vlan_filtering 1
link set one addrgenmode none master br0 up
link set two addrgenmode none master br0 up
link set three addrgenmode none master br0 up
link set br0 addrgenmode none up
link add link br0 name br0.10 type vlan id 10
link set br0.10 addrgenmode none up
addr add 198.18.1.1/24 dev br0
addr add 198.18.10.1/24 dev br0.10
addr add 2001:db8:1::1/64 dev br0 nodad
addr add 2001:db8:10::1/64 dev br0.10 nodad
neigh add 198.18.1.10 lladdr 02:00:00:00:0c:01 dev br0 nud permanent
neigh add 198.18.10.20 lladdr 02:00:00:00:0c:02 dev br0.10 nud permanent
neigh add 2001:db8:1::10 lladdr 02:00:00:00:0c:01 dev br0 nud permanent
neigh add 2001:db8:10::20 lladdr 02:00:00:00:0c:02 dev br0.10 nud permanent
";

const BRIDGE: Mac = [2, 0, 0, 0, 0x0a, 0];

fn station(n: u8) -> Mac {
    [2, 0, 0, 0, 0x0c, n]
}

/// The scenario of a seed.
pub fn scenario(seed: u64) -> Scenario {
    let mut rng = Rng::with_seed(seed);
    let net = format!("{NET}{}", vlans(&mut rng));
    let rules = rules(&mut rng);
    let mut s = Scenario::new(&format!("random_vlan_bridge_{seed}"), &net, &rules).at_once();
    for _ in 0..rng.usize(30..70) {
        let (source, frame) = frame(&mut rng);
        s = s.frame(source, &frame);
    }
    s
}

fn vlans(rng: &mut Rng) -> String {
    let mut lines = String::new();
    for port in ["one", "two", "three", "br0"] {
        let own = if port == "br0" { " self" } else { "" };
        for vid in [10, 20] {
            let words = rng.pick(&["", "", " untagged", " pvid", " pvid untagged"]);
            if port == "br0" && vid == 10 {
                lines += "bridge vlan add dev br0 vid 10 self\n";
            } else if rng.one_in(3) {
                lines += &format!("bridge vlan add dev {port} vid {vid}{words}{own}\n");
            }
        }
        if rng.one_in(6) {
            lines += &format!("bridge vlan del dev {port} vid 1{own}\n");
        }
    }
    lines
}

fn rules(rng: &mut Rng) -> String {
    const MATCHES: [&str; 22] = [
        "",
        "iifname one",
        "oifname two",
        "meta ibrname br0",
        "meta ibrpvid 10",
        "meta ibrpvid 1",
        "meta ibrvproto 8021q",
        "meta pkttype broadcast",
        "vlan id 10",
        "vlan pcp 3",
        "ether type vlan",
        "ether type ip",
        "meta protocol ip",
        "meta protocol ip6",
        "ip saddr 198.18.10.20",
        "ip daddr 198.18.1.1",
        "udp dport 53",
        "meta l4proto tcp",
        "ct state new",
        "ct state established",
        "ct state untracked",
        "ct mark 7",
    ];
    let mut out = String::from("table bridge t {\n");
    for n in 0..rng.usize(2..7) {
        let hook = rng.pick(&["prerouting", "input", "forward", "output", "postrouting"]);
        let priority = rng.i32(-190..300);
        out += &format!("\tchain c{n} {{\n\t\ttype filter hook {hook} priority {priority};\n");
        for _ in 0..rng.usize(2..7) {
            let by_port = ["iifname one", "oifname two", "meta pkttype broadcast", ""];
            let (tests, does) = match rng.u8(..10) {
                // An answer needs a packet of IP, and these hooks.
                0 if matches!(hook, "prerouting" | "input") => (
                    rng.pick(&["udp dport 53", "ip saddr 198.18.10.20", "meta protocol ip"]),
                    rng.pick(&["counter reject", "counter reject with icmpx admin-prohibited"]),
                ),
                1 if matches!(hook, "prerouting" | "input") => {
                    ("tcp dport 80", "counter reject with tcp reset")
                }
                2 => ("ct state new", "counter ct mark set 7"),
                3 => (rng.pick(&by_port), "counter drop"),
                4 => (rng.pick(&MATCHES), "counter meta mark set 9"),
                _ => (rng.pick(&MATCHES), "counter"),
            };
            out += &format!("\t\t{tests} {does}\n");
        }
        out += "\t}\n";
    }
    out + "}\n"
}

fn frame(rng: &mut Rng) -> (&'static str, Frame) {
    let source = rng.pick(&["one", "one", "two", "two", "three", "three", "host"]);
    let (sport, dport) = (rng.u16(1..4), rng.pick(&[53u16, 80]));
    if source == "host" {
        let (from, to) =
            rng.pick(&[("198.18.1.1", "198.18.1.10"), ("198.18.10.1", "198.18.10.20")]);
        return (source, bare().ip4(from, to).udp(dport, sport));
    }
    let from = station(rng.u8(1..4));
    let to = match rng.u8(..10) {
        0 => [0xff; 6],
        1 | 2 => BRIDGE,
        _ => station(rng.u8(1..5)),
    };
    let mut frame = ethernet(to, from);
    if rng.bool() {
        let bits = if rng.one_in(4) { 0x6000 } else { 0 };
        frame = frame.vlan(bits | rng.pick(&[0, 1, 10, 10, 20, 20, 30]));
    }
    if to == BRIDGE {
        // What is for the host is in its networks.
        let ends = [("198.18.1.10", "198.18.1.1"), ("198.18.10.20", "198.18.10.1")];
        let (a, b) = rng.pick(&ends);
        return (source, frame.ip4(a, b).udp(sport, dport).zeros(20));
    }
    let ends = rng.pick(&[("198.18.1.10", "198.18.1.20"), ("198.18.1.20", "198.18.1.10")]);
    let six = rng.pick(&[("2001:db8:1::10", "2001:db8:1::20")]);
    let frame = match rng.u8(..8) {
        0 => frame.arp(1, from, ends.0, [0; 6], ends.1),
        1 | 2 => frame.ip6(six.0, six.1).udp(sport, dport).zeros(10),
        3 => frame
            .ip4(ends.0, ends.1)
            .tcp(1000 + sport, dport)
            .flags(2)
            .set(4, &100u32.to_be_bytes())
            .set(14, &[0x40, 0])
            .zeros(20),
        4 => frame.ip4(ends.0, ends.1).icmp(8, 0, 0x1234_0001).zeros(30),
        5 => frame.ip4(ends.0, ends.1).udp(dport, sport).zeros(20),
        _ => frame.ip4(ends.0, ends.1).udp(sport, dport).zeros(20),
    };
    (source, frame)
}
