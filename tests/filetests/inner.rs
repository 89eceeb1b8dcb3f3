// SPDX-License-Identifier: Apache-2.0

//! Random matches of what tunnels carry: the kernel, given the programs, and our engines must count
//! the same packets.

use penstock_net::Network;

use crate::Engines;
use crate::computed::differ;
use crate::language;

/// Rules and packets of a test.
const RULES: usize = 12;
const PACKETS: usize = 24;

/// A kind of tunnel: what a rule says of it, and what of a packet makes it one.
struct Tunnel {
    name: &'static str,
    before: &'static str,
    outer: &'static [&'static str],
    own: &'static [&'static str],
    /// It carries frames.
    frames: bool,
}

const TUNNELS: [Tunnel; 4] = [
    Tunnel {
        name: "vxlan",
        before: "udp dport 4789 ",
        outer: &["udp 1000 > 4789 / vxlan 10"],
        own: &["vni 10", "vni 11", "flags 8"],
        frames: true,
    },
    Tunnel {
        name: "geneve",
        before: "udp dport 6081 ",
        outer: &[
            "udp 1000 > 6081 / geneve 7",
            "udp 1000 > 6081 / geneve 7 option 1 2 00000000",
            "udp 1000 > 6081 / geneve 7 option 1 2 0000000000000000",
        ],
        own: &["vni 7", "vni 8"],
        frames: true,
    },
    Tunnel {
        name: "gre",
        before: "",
        outer: &["gre", "gre key 1", "gre key 1 seq 2"],
        own: &[],
        frames: false,
    },
    Tunnel { name: "gretap", before: "", outer: &["gre", "gre key 7"], own: &[], frames: true },
];

/// What rules ask of the packet inside.
const MATCHES: &[&str] = &[
    "ip saddr 198.19.0.9",
    "ip daddr 198.19.0.0/29",
    "ip ttl < 20",
    "ip dscp ef",
    "ip protocol udp",
    "ip6 saddr 2001:db8::1",
    "ip6 hoplimit 64",
    "ip6 nexthdr tcp",
    "tcp dport 80",
    "tcp flags syn",
    "udp sport 1000",
    "udp dport 50-100",
    "icmp type echo-request",
    "icmpv6 type echo-request",
    "meta l4proto tcp",
    "meta protocol ip6",
];

/// And of the frame, where a tunnel carries some.
const OF_FRAMES: &[&str] = &[
    "ether saddr 02:00:00:00:00:11",
    "ether daddr 02:00:00:00:00:12",
    "ether type ip",
    "vlan id 5",
    "arp operation request",
];

/// Which headers the packets of a test have. They are the same for all: Linux 6.18 takes the places
/// of headers in one packet for those in the next, if that is in the same memory.
struct Shape {
    tunnel: &'static Tunnel,
    six_outside: bool,
    /// Number of the tunnel's own headers.
    outer: usize,
    tagged: bool,
    six: bool,
    /// What the packet inside is.
    last: u8,
}

struct Maker {
    rng: fastrand::Rng,
    net: Network,
}

impl Maker {
    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.rng.usize(..of.len())]
    }

    /// A rule that is taken: not everything can be asked of everything.
    fn rule(&mut self, tunnel: &Tunnel) -> String {
        loop {
            let mut text = tunnel.before.to_owned();
            for _ in 0..self.rng.usize(1..3) {
                let asked = match self.rng.u8(..6) {
                    0 if !tunnel.own.is_empty() => self.one(tunnel.own),
                    1 | 2 if tunnel.frames => self.one(OF_FRAMES),
                    _ => self.one(MATCHES),
                };
                text += &format!("{} {asked} ", tunnel.name);
            }
            let rule = format!("{text}counter");
            let table = format!("table netdev t {{ chain c {{ {rule}; }}; }}");
            if language::load_runnable(&table, &self.net, 0).is_ok() {
                return rule;
            }
        }
    }

    /// The headers of a test's packets.
    fn shape(&mut self) -> Shape {
        let tunnel = &TUNNELS[self.rng.usize(..TUNNELS.len())];
        Shape {
            tunnel,
            six_outside: self.rng.u8(..3) == 0,
            outer: self.rng.usize(..tunnel.outer.len()),
            tagged: self.rng.u8(..4) == 0,
            six: self.rng.bool(),
            last: self.rng.u8(..4),
        }
    }

    fn packet(&mut self, shape: &Shape) -> String {
        let outer = match shape.six_outside {
            true => "ip6 2001:db8:1::10 > 2001:db8:2::2",
            false => "ip 198.18.0.10 > 198.19.0.2",
        };
        let own = shape.tunnel.outer[shape.outer];
        let own = match self.rng.bool() {
            true => own.to_owned(),
            false => own.replace("vxlan 10", "vxlan 11").replace("geneve 7", "geneve 8"),
        };
        let mut text = format!("packet {outer} / {own}");
        if shape.tunnel.frames {
            let from = self.one(&["02:00:00:00:00:11", "02:00:00:00:00:13"]);
            text += &format!(" / ether {from} > 02:00:00:00:00:12");
            if shape.tagged {
                text += &format!(" / vlan {}", self.one(&["5", "6"]));
            }
            if shape.last == 3 && shape.tagged {
                return text + " / arp request 02:00:00:00:00:11 198.19.0.9 > 198.19.0.8";
            }
        }
        let ports = format!("{} > {}", self.one(&["1", "1000"]), self.one(&["22", "80", "443"]));
        let ttl = self.one(&["5", "64"]);
        text += &match shape.six {
            true => {
                let from = self.one(&["2001:db8::1", "2001:db8::3"]);
                format!(" / ip6 {from} > 2001:db8::2 ttl {ttl}")
            }
            false => {
                let (from, tos) = (self.one(&["9", "3"]), self.one(&["0", "184"]));
                let to = self.rng.u8(5..10);
                format!(" / ip 198.19.0.{from} > 198.19.0.{to} ttl {ttl} tos {tos}")
            }
        };
        let flags = self.one(&["syn", "rst"]);
        text + &match (shape.last, shape.six) {
            (0, false) => format!(" / icmp {} 0", self.one(&["0", "8"])),
            (0, true) => format!(" / icmp6 {} 0", self.one(&["128", "129"])),
            (1, _) => format!(" / udp {ports}"),
            _ => format!(" / tcp {ports} {flags}"),
        }
    }

    /// A test as it would stand in a file.
    fn test(&mut self) -> String {
        let mut text = String::from("hook netdev ingress lan\ntest random\n");
        let shape = self.shape();
        for _ in 0..RULES {
            text += &format!("rule {}\n", self.rule(shape.tunnel));
        }
        for _ in 0..PACKETS {
            text += &format!("{}\n", self.packet(&shape));
        }
        text + "counters\n"
    }
}

/// Whether the engines give another result than the kernel, again and again: what it takes from
/// packets of another test is only in the memory of the first ones.
fn always_differ(engines: &mut Engines, text: &str) -> Result<Option<bool>, String> {
    for _ in 0..3 {
        match differ(engines, text)? {
            Some(true) => {}
            end => return Ok(end),
        }
    }
    Ok(Some(true))
}

/// Runs them if the kernel is there; returns how many rules there were, and how many tests differ.
pub fn compare(engines: &mut Engines) -> (usize, usize) {
    let (mut rules, mut wrong) = (0, 0);
    let first = penstock_testkit::seed();
    for seed in first..first + penstock_testkit::rounds(6) as u64 {
        let Ok(net) = Network::from_batch("net.ip", crate::NET) else { continue };
        let text = Maker { rng: fastrand::Rng::with_seed(seed), net }.test();
        match always_differ(engines, &text) {
            Ok(None) => return (rules, wrong),
            Ok(Some(false)) => rules += RULES,
            Ok(Some(true)) => {
                wrong += 1;
                println!("FAILED PENSTOCK_SEED={seed}: another result in the kernel\n{text}");
            }
            Err(e) => {
                wrong += 1;
                println!("FAILED PENSTOCK_SEED={seed}: {e}\n{text}");
            }
        }
    }
    (rules, wrong)
}
