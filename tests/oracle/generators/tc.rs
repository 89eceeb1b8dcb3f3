// SPDX-License-Identifier: Apache-2.0

//! Traffic control by chance: filters of all kinds with their actions before the ingress chain of
//! one device and after the egress chains of two others, chains that set what filters read and read
//! what filters set, and frames that some of it fits.

use fastrand::Rng;
use penstock_testkit::Chance;

use crate::frame::Frame;
use crate::net::{CLIENT, LAN, NET, SERVER, lan};
use crate::scenario::Scenario;

/// Where filters are: where frames come in, and where most leave.
const PLACES: [(&str, &str); 3] = [("lan", "ingress"), ("wan", "egress"), ("dmz", "egress")];

const PORTS: [u16; 5] = [53, 80, 443, 1000, 4000];

/// The scenario of a seed.
pub fn scenario(seed: u64) -> Scenario {
    let mut g = Generator(Rng::with_seed(seed));
    let lines = g.lines();
    let rules = g.ruleset(&lines);
    let mut s = Scenario::new(&format!("random_tc_{seed}"), NET, &rules).at_once().tc(&lines);
    for _ in 0..g.0.usize(20..60) {
        let frame = g.frame();
        s = s.frame("lan", &frame);
    }
    s
}

struct Generator(Rng);

impl Chance for Generator {
    fn rng(&mut self) -> &mut Rng {
        &mut self.0
    }
}

impl Generator {
    // ---- rules ----

    /// Where filters push tags, a frame may have two at ingress, and kernels differ in whether rules
    /// there look into both (docs/testing.md): no rule looks into any.
    fn ruleset(&mut self, lines: &str) -> String {
        let pushed = lines.contains("vlan push");
        let mut text = String::from("table netdev n {\n");
        for (device, hook) in [
            ("lan", "ingress"),
            ("wan", "egress"),
            ("dmz", "egress"),
            ("dmz", "ingress"),
            ("lan", "egress"),
        ] {
            text += &format!(
                "\tchain {device}_{hook} {{\n\t\ttype filter hook {hook} device {device} priority \
                 0;\n\t\tcounter\n"
            );
            for _ in 0..self.0.usize(2..6) {
                text += &format!("\t\t{}\n", self.rule(pushed && hook == "ingress"));
            }
            text += "\t}\n";
        }
        text += "}\ntable inet t {\n\tchain forward {\n\t\ttype filter hook forward priority 0;\n";
        for _ in 0..self.0.usize(3..8) {
            text += &format!("\t\t{}\n", self.rule(false));
        }
        text + "\t}\n}\n"
    }

    fn rule(&mut self, blind: bool) -> String {
        let port = self.pick(&PORTS);
        let mark = self.0.u32(0..4);
        let kinds = if blind { 2..5 } else { 0..7 };
        let matching = match self.0.u32(kinds) {
            0 => format!("udp dport {port}"),
            1 => format!("tcp dport {port}"),
            2 | 3 => format!("meta mark {mark}"),
            4 => format!("meta priority {}", self.pick(&["1:2", "0:7", "none"])),
            5 => "meta protocol ip6".into(),
            _ => "meta l4proto { icmp, ipv6-icmp }".into(),
        };
        let last = match self.0.u32(..5) {
            0 => format!(" meta mark set {}", self.0.u32(0..4)),
            1 => format!(" meta priority set {}", self.pick(&["1:2", "0:7"])),
            _ => String::new(),
        };
        format!("{matching} counter{last}")
    }

    // ---- traffic control ----

    fn lines(&mut self) -> String {
        let mut text = String::new();
        for (device, hook) in PLACES {
            text += &format!("qdisc add dev {device} clsact\n");
            for n in 0..self.0.usize(1..6) {
                let line = self.filter(device);
                text += &format!("filter add dev {device} {hook} prio {} {line}\n", 10 * n + 10);
            }
        }
        text
    }

    fn filter(&mut self, device: &str) -> String {
        let four = self.0.bool();
        let protocol = if four { "ip" } else { "ipv6" };
        let kind = match self.0.u32(..10) {
            0 => "protocol all matchall".into(),
            1 | 2 => {
                let mask = self.pick(&["", "/0x1", "/0x3"]);
                format!("protocol all handle {}{mask} fw", self.0.u32(1..4))
            }
            3 | 4 => format!("protocol {protocol} u32 {}", self.words(four)),
            _ => self.flower(protocol, four),
        };
        format!("{kind} {}", self.actions(device))
    }

    /// Matches of u32.
    fn words(&mut self, four: bool) -> String {
        let port = self.pick(&PORTS);
        let (ip, one) = if four { ("ip", "udp") } else { ("ip6", "tcp") };
        (0..self.0.usize(1..3))
            .map(|_| match self.0.u32(..8) {
                0 => format!("match {ip} dport {port} 0xffff "),
                1 => format!("match {ip} sport {} 0xfff0 ", port & 0xfff0),
                2 => format!("match {ip} protocol {} 0xff ", self.pick(&[6, 17, 1])),
                3 => "match u8 0x40 0xf0 at 0 ".into(),
                4 => format!("match mark {} 0x3 ", self.0.u32(0..4)),
                5 => format!("match {one} dst {port} 0xffff "),
                6 if four => "match ip dst 198.19.0.0/16 ".into(),
                6 => "match ip6 dst 2001:db8:2::/48 ".into(),
                _ => format!("match u16 {:#x} 0xffff at -2 ", if four { 0x800 } else { 0x86dd }),
            })
            .collect()
    }

    fn flower(&mut self, protocol: &str, four: bool) -> String {
        if self.one_in(12) {
            let field =
                self.pick(&["arp_op request", "arp_tip 198.18.0.1", "arp_sip 198.18.0.0/24"]);
            return format!("protocol arp flower {field}");
        }
        if self.one_in(8) {
            let field = self.pick(&["vlan_id 7", "vlan_prio 3", "vlan_id 7 vlan_ethtype ip"]);
            return format!("protocol 802.1Q flower {field}");
        }
        let l4 = self.pick(&["tcp", "udp", if four { "icmp" } else { "icmpv6" }, ""]);
        let mut text = format!("protocol {protocol} flower ");
        if !l4.is_empty() {
            text += &format!("ip_proto {l4} ");
        }
        for _ in 0..self.0.usize(0..3) {
            let field = match self.0.u32(..7) {
                0 if four => "src_ip 198.18.0.10/31".into(),
                0 => "src_ip 2001:db8:1::/64".into(),
                1 if four => "dst_ip 198.19.0.2".into(),
                1 => "dst_ip 2001:db8::/32".into(),
                2 => "ip_tos 0x10/0xfc".into(),
                3 => "ip_ttl 63".into(),
                4 => self
                    .pick(&["ip_flags frag", "ip_flags nofrag", "ip_flags frag/firstfrag"])
                    .into(),
                5 => format!("dst_mac {}", self.pick(&["02:00:00:00:01:01", "02:00:00:00:02:02"])),
                _ => continue,
            };
            // A word is given once.
            let word = field.split(' ').next().unwrap_or_default().to_owned();
            if !text.contains(&word) {
                text += &format!("{field} ");
            }
        }
        match l4 {
            "tcp" | "udp" if self.0.bool() => {
                text += &match self.0.u32(..4) {
                    0 => "dst_port 50-100 ".to_owned(),
                    1 => format!("src_port {} ", self.pick(&PORTS)),
                    _ => format!("dst_port {} ", self.pick(&PORTS)),
                };
            }
            "tcp" => text += self.pick(&["tcp_flags 0x2/0x17 ", "tcp_flags 0x10/0x10 "]),
            "icmp" | "icmpv6" if self.0.bool() => text += self.pick(&["type 8 ", "type 128 "]),
            _ => {}
        }
        text
    }

    /// One action or two, the last of which says what comes then.
    fn actions(&mut self, device: &str) -> String {
        let first = match self.0.u32(..3) {
            0 => format!("action skbedit mark {} pipe ", self.0.u32(0..4)),
            1 => format!("action skbedit priority {} pipe ", self.pick(&["1:2", "0:7"])),
            _ => String::new(),
        };
        // Frames go on to devices that have no filters for what comes so, for an end.
        let beyond = match device {
            "lan" => "wan",
            "wan" => "dmz",
            _ => "lan",
        };
        let last = match self.0.u32(..14) {
            0 => "action drop".into(),
            1 => "action ok".into(),
            2 | 3 => "action continue".into(),
            4 => "action gact pipe".into(),
            5 => format!("action mirred egress redirect dev {beyond}"),
            6 | 7 => format!("action mirred egress mirror dev {beyond}"),
            8 => format!("action mirred egress mirror dev {beyond} continue"),
            9 => "action mirred ingress redirect dev dmz".into(),
            10 => "action mirred ingress mirror dev dmz pipe action continue".into(),
            11 => format!("action skbedit mark {} continue", self.0.u32(0..4)),
            12 => self
                .pick(&[
                    "action vlan push id 7 priority 3",
                    "action vlan push protocol 802.1ad id 9 continue",
                    "action vlan pop",
                    "action vlan modify id 9 priority 1 continue",
                ])
                .into(),
            // A rate so low, and a burst so large, that no time of a scenario matters; tc counts at
            // most 274 seconds of a burst.
            _ => format!(
                "action police rate 40bit burst {} conform-exceed {}",
                self.pick(&["300", "700", "1000"]),
                self.pick(&[
                    "drop/continue",
                    "drop/pipe action continue",
                    "continue/ok",
                    "pipe/drop"
                ])
            ),
        };
        first + &last
    }

    // ---- frames ----

    fn frame(&mut self) -> Frame {
        let four = self.0.bool();
        let mut frame = lan();
        if self.one_in(10) {
            let tci = self.pick(&[7, 7 | 3 << 13, 8]);
            frame = frame.tag(self.pick(&[0x8100, 0x8100, 0x88a8]), tci);
        } else if self.one_in(15) {
            let who = self.pick(&["198.18.0.1", "198.18.0.77"]);
            return frame.arp(self.pick(&[1, 2]), CLIENT, "198.18.0.10", LAN, who);
        } else if self.one_in(15) {
            frame = crate::frame::ethernet(SERVER, CLIENT);
        }
        frame = match (four, self.0.u32(..4)) {
            (true, 0) => frame.ip4("198.18.0.11", "198.18.5.20"),
            (true, 1) => frame.ip4("198.18.0.11", "198.19.0.3"),
            (true, _) => frame.ip4("198.18.0.10", "198.19.0.2"),
            (false, 0) => frame.ip6("2001:db8:1::10", "2001:db8:5::20"),
            (false, _) => frame.ip6("2001:db8:1::10", "2001:db8:2::2"),
        };
        if four {
            frame = frame.id(self.0.u16(..));
        }
        frame = match self.0.u32(..8) {
            0 => frame.ttl(self.pick(&[1, 63, 64])),
            1 if four => frame.tos(self.pick(&[0x10, 0x12, 0xb8])),
            1 => frame.set(0, &[0x61, 0]),
            2 if four => frame.fragment(0, true),
            2 => frame.fragment6(0, true, 5),
            // Data at whose place others have ports is read as ports by some kernels only.
            3 if four => return frame.fragment(2, self.0.bool()).protocol(17).zeros(40),
            3 => return frame.fragment6(2, self.0.bool(), 5).protocol(17).zeros(40),
            _ => frame,
        };
        let ports = (self.pick(&PORTS), self.pick(&PORTS));
        match self.0.u32(..5) {
            0 | 1 => frame.udp(ports.0, ports.1).zeros(self.0.usize(8..200)),
            2 | 3 => frame.tcp(ports.0, ports.1).flags(self.pick(&[2, 0x10, 0x12, 4])),
            _ if four => frame.icmp(8, 0, 5).zeros(16),
            _ => frame.icmp6(128, 0, 5).zeros(16),
        }
    }
}
