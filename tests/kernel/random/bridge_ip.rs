// SPDX-License-Identifier: Apache-2.0

//! Scenarios of bridges on which packets pass the hooks of IP, by chance: chains of inet and bridge
//! tables at all hooks around each other, connections, translations to stations on the bridge, to
//! the host and beyond, answers, fragments, tags, and packets that are none.
//!
//! No packet is routed out where it came in, since the kernel would then tell its sender.

use std::fmt::Write as _;

use fastrand::Rng;
use penstock_testkit::Chance;

use crate::frame::{Frame, Mac, ethernet};
use crate::hand_made::bridge::{BRIDGE, FAR, NET, OUT};
use crate::scenario::Scenario;

/// Stations on the bridge: port, link address, addresses.
const STATIONS: [(&str, Mac, &str, &str); 3] = [
    ("one", [2, 0, 0, 0, 0x0c, 1], "198.18.0.10", "2001:db8:1::10"),
    ("two", [2, 0, 0, 0, 0x0c, 2], "198.18.0.20", "2001:db8:1::20"),
    ("three", [2, 0, 0, 0, 0x0c, 3], "198.18.0.30", "2001:db8:1::30"),
];

/// The neighbours that the bridge's net does not have yet.
const NEIGHBOURS: &str = "\
neigh add 198.18.0.30 lladdr 02:00:00:00:0c:03 dev br0 nud permanent
neigh add 2001:db8:1::20 lladdr 02:00:00:00:0c:02 dev br0 nud permanent
neigh add 2001:db8:1::30 lladdr 02:00:00:00:0c:03 dev br0 nud permanent
";

const PORTS: [u16; 4] = [53, 80, 1000, 2000];

/// The scenario of a seed.
pub fn scenario(seed: u64) -> Scenario {
    let mut g = Generator { rng: Rng::with_seed(seed), id: 0, whole: true };
    let mut net = format!("{NET}{NEIGHBOURS}");
    for (line, often) in [
        ("link set br0 promisc on\n", 8),
        ("link set one type bridge_slave hairpin on\n", 6),
        ("link set three type bridge_slave isolated on\n", 8),
        ("link set two mtu 1300\n", 6),
    ] {
        if g.one_in(often) {
            net += line;
            g.whole &= !line.contains("promisc");
        }
    }
    // One of them alone is a setting of the bridge.
    let of_bridge = g.one_in(4);
    if of_bridge {
        net += "link set br0 type bridge nf_call_iptables 1\n";
    }
    let rules = g.ruleset();
    let mut s = Scenario::new(&format!("random_ip_on_bridge_{seed}"), &net, &rules).at_once();
    for (name, often) in [("call-iptables", 7), ("call-ip6tables", 7), ("filter-vlan-tagged", 3)] {
        let on = g.rng.u32(..8) < often && !(of_bridge && name == "call-iptables");
        s = s.sysctl(&format!("net.bridge.bridge-nf-{name}"), on.into());
    }
    // The bridge knows the stations from the beginning.
    for (port, from, own, _) in STATIONS {
        let frame = ethernet([0xff; 6], from).arp(1, from, own, [0; 6], own);
        s = s.frame(port, &frame);
    }
    for _ in 0..g.rng.usize(40..90) {
        for (source, frame) in g.frames() {
            s = s.frame(source, &frame);
        }
    }
    s
}

struct Generator {
    rng: Rng,
    /// The last identification of fragments.
    id: u16,
    /// Fragments reach one port only: the kernel cuts the copies of what reaches several anew.
    whole: bool,
}

impl Chance for Generator {
    fn rng(&mut self) -> &mut Rng {
        &mut self.rng
    }
}

impl Generator {
    // ---- rules ----

    fn ruleset(&mut self) -> String {
        let mut text = String::from("table inet t {\n");
        for (hook, priorities) in [
            ("prerouting", &[-350, -150, -50, 0, 50][..]),
            ("input", &[-10, 0, 50]),
            ("forward", &[-10, 0, 10]),
            ("output", &[0]),
            ("postrouting", &[-10, 50, 200]),
        ] {
            for n in 0..self.rng.usize(..3) {
                let priority = self.pick(priorities);
                let _ = write!(
                    text,
                    "\tchain {hook}{n} {{\n\t\ttype filter hook {hook} priority {priority};\n\
                     \t\tcounter\n"
                );
                for _ in 0..self.rng.usize(2..8) {
                    let rule = self.rule(hook);
                    let _ = writeln!(text, "\t\t{rule}");
                }
                text += "\t}\n";
            }
        }
        if self.rng.bool() {
            text += &self.translations();
        }
        text += "}\ntable bridge b {\n";
        for (hook, priorities) in [
            ("prerouting", &[-300, -1, 1, 200][..]),
            ("input", &[-1, 1, 200]),
            ("forward", &[-200, -1, 1, 50]),
            ("postrouting", &[-10, 300]),
        ] {
            if self.rng.bool() {
                let priority = self.pick(priorities);
                let _ = write!(
                    text,
                    "\tchain {hook} {{\n\t\ttype filter hook {hook} priority {priority};\n\
                     \t\tcounter\n"
                );
                for _ in 0..self.rng.usize(1..6) {
                    let rule = self.rule_of_bridge();
                    let _ = writeln!(text, "\t\t{rule}");
                }
                text += "\t}\n";
            }
        }
        text + "}\n"
    }

    fn rule(&mut self, hook: &str) -> String {
        const MATCHES: [&str; 24] = [
            "",
            "iifname br0",
            "iifname one",
            "oifname br0",
            "oifname two",
            "meta pkttype host",
            "meta pkttype other",
            "meta pkttype { broadcast, multicast }",
            "ct state new",
            "ct state established",
            "ct state invalid",
            "ct status dnat",
            "ip saddr 198.18.0.10",
            "ip daddr 198.18.0.20",
            "ip6 saddr 2001:db8:1::10",
            "ip6 daddr 2001:db8:1::20",
            "udp dport 53",
            "udp sport 53",
            "tcp dport 80",
            "meta l4proto icmp",
            "meta mark 7",
            "meta length > 100",
            "ip frag-off & 0x3fff != 0",
            "exthdr frag exists",
        ];
        let tests = self.pick(&MATCHES);
        let does = match self.rng.u32(..16) {
            0 => "meta mark set 7",
            1 => "accept",
            2 if self.rng.bool() => "drop",
            3 if !tests.contains("ip6") => "ip ttl set 9",
            4 if hook == "prerouting" && !tests.contains("ip6") => {
                self.pick(&["ip daddr set 198.18.0.20", "ip daddr set 198.19.0.2"])
            }
            5 if matches!(hook, "input" | "forward") => self.pick(&[
                "meta l4proto tcp reject with tcp reset",
                "meta nfproto ipv4 reject",
                "meta nfproto ipv6 reject",
            ]),
            6 if hook == "prerouting" => "meta pkttype set host",
            _ => "",
        };
        match does.split_once(" reject") {
            Some((more, how)) => {
                let tests = self.pick(&["", "iifname br0", "ct state new", "meta mark 7"]);
                format!("{tests} {more} counter reject{how}")
            }
            None => format!("{tests} counter {does}"),
        }
    }

    fn rule_of_bridge(&mut self) -> String {
        const MATCHES: [&str; 9] = [
            "",
            "iifname one",
            "oifname two",
            "meta pkttype host",
            "meta pkttype other",
            "ip daddr 198.18.0.20",
            "udp dport 53",
            "meta mark 7",
            "ether daddr 02:00:00:00:0c:02",
        ];
        let tests = self.pick(&MATCHES);
        let does = self.pick(&["", "", "", "", "meta mark set 7", "accept", "drop"]);
        format!("{tests} counter {does}")
    }

    fn translations(&mut self) -> String {
        let mut text =
            String::from("\tchain turn {\n\t\ttype nat hook prerouting priority -100;\n");
        for _ in 0..self.rng.usize(1..4) {
            let port = self.pick(&PORTS);
            let rule = match self.rng.u32(..6) {
                0 => "ip daddr 198.18.0.99 counter dnat ip to 198.18.0.20".into(),
                1 => {
                    format!("ip daddr 198.18.0.20 udp dport {port} counter dnat ip to 198.18.0.30")
                }
                2 => format!("ip daddr 198.18.0.20 tcp dport {port} counter dnat ip to 198.19.0.2"),
                3 => format!("udp dport {port} counter redirect"),
                4 => "ip6 daddr 2001:db8:1::99 counter dnat ip6 to 2001:db8:1::20".into(),
                _ => format!("tcp dport {port} counter dnat ip6 to 2001:db8:2::2"),
            };
            let _ = writeln!(text, "\t\t{rule}");
        }
        text += "\t}\n\tchain hide {\n\t\ttype nat hook postrouting priority 100;\n";
        for _ in 0..self.rng.usize(1..3) {
            let rule = self.pick(&[
                "ip saddr 198.18.0.10 udp dport 53 counter snat ip to 198.18.0.77",
                "oifname br0 tcp dport 80 counter masquerade",
                "ip6 saddr 2001:db8:1::10 udp dport 53 counter snat ip6 to 2001:db8:1::77",
                "ct state new counter",
            ]);
            let _ = writeln!(text, "\t\t{rule}");
        }
        text + "\t}\n"
    }

    // ---- frames ----

    fn frames(&mut self) -> Vec<(&'static str, Frame)> {
        let (port, from, own4, own6) = self.pick(&STATIONS);
        let (_, to, other4, other6) = self.pick(&STATIONS);
        if port != "one" && from == to && !self.one_in(10) {
            return vec![];
        }
        let ports = (self.pick(&PORTS), self.pick(&PORTS));
        match self.rng.u32(..24) {
            0 => {
                let frame = ethernet(OUT, FAR).ip4("198.19.0.2", self.pick(&[own4, "198.18.0.1"]));
                return vec![("out", frame.udp(ports.0, ports.1).data(b"from beyond"))];
            }
            1 => {
                let frame = ethernet(OUT, FAR).ip6("2001:db8:2::2", "2001:db8:1::10");
                return vec![("out", frame.tcp(ports.0, ports.1))];
            }
            2 => {
                let frame = ethernet([0xff; 6], from).arp(1, from, own4, [0; 6], other4);
                return vec![(port, frame)];
            }
            3 => return vec![(port, ethernet(to, from).ethertype(0x1234).data(b"unknown"))],
            _ => {}
        }
        let four = self.rng.u32(..5) != 0;
        let (mac, four_to, six_to) = match self.rng.u32(..12) {
            0 => ([0xff; 6], "198.18.0.255", "ff02::1"),
            1 => ([1, 0, 0x5e, 1, 2, 3], "239.1.2.3", "ff02::5"),
            2 => (BRIDGE, "198.18.0.1", "2001:db8:1::1"),
            3 => (BRIDGE, "198.19.0.2", "2001:db8:2::2"),
            4 => (self.pick(&[to, BRIDGE]), "198.18.0.99", "2001:db8:1::99"),
            _ => (to, other4, other6),
        };
        // Nobody knows who that is where nothing is translated.
        let mac = if mac == BRIDGE && four_to.ends_with(".99") { to } else { mac };
        let mut head = ethernet(mac, from);
        if self.one_in(10) {
            head = head.vlan(self.pick(&[7u16, 0x6000]));
        }
        let frame = match four {
            true => head.ip4(own4, four_to),
            false => head.ip6(own6, six_to),
        };
        if self.one_in(8) && self.whole && mac[0] & 1 == 0 {
            return self.fragments(port, &frame, four, ports);
        }
        let frame = match self.rng.u32(..10) {
            0 if four => frame.ip_options(&[1, 1, 1, 0]),
            0 => frame.extension(60, &[1, 4, 0, 0, 0, 0]),
            1 if four => frame.ttl(self.pick(&[0, 1])),
            1 => frame.extension(0, self.pick(&[&[1, 4, 0, 0, 0, 0][..], &[5, 2, 0, 0, 1, 0]])),
            2 if four => frame.df(),
            3 if four && self.one_in(3) => frame.patch(2, &[0, 200]),
            _ => frame,
        };
        let frame = match self.rng.u32(..6) {
            0 | 1 => frame.tcp(ports.0, ports.1).flags(self.pick(&[2, 0x12, 0x10, 4])),
            2 if four => frame.icmp(8, 0, 5).zeros(8),
            2 => frame.icmp6(128, 0, 5).zeros(8),
            _ => frame.udp(ports.0, ports.1).zeros(self.rng.usize(..100)),
        };
        let frame = if self.one_in(30) { frame.cut(self.rng.usize(14..40)) } else { frame };
        vec![(port, frame)]
    }

    /// A packet in two or three pieces, in any order.
    fn fragments(
        &mut self,
        port: &'static str,
        head: &Frame,
        four: bool,
        ports: (u16, u16),
    ) -> Vec<(&'static str, Frame)> {
        self.id += 1;
        let id = self.id;
        let cut = |offset: u16, more: bool| match four {
            true => head.clone().fragment(offset, more).id(id),
            false => head.clone().fragment6(offset, more, id.into()),
        };
        let middle = self.rng.u16(2..120);
        let length = 8 * middle + 16;
        let first = cut(0, true).udp(ports.0, ports.1).length(length);
        let first = first.zeros(usize::from(8 * middle) - 8);
        let last = cut(middle, false).protocol(17).zeros(16);
        let mut all = vec![(port, first), (port, last)];
        if self.rng.bool() {
            all.swap(0, 1);
        }
        if self.one_in(6) {
            all.pop();
        }
        all
    }
}
