// SPDX-License-Identifier: Apache-2.0

//! Scenarios of what rules remember, by chance: sets and maps that rules fill, elements that carry
//! counters, limits and quotas, objects by maps, marks and labels of connections, verdict maps,
//! hashes and generated numbers; now and then time passes, and elements with it.

use std::time::Duration;

use fastrand::Rng;
use penstock_testkit::Chance;

use super::nat::{Side, net};
use crate::frame::ethernet;
use crate::scenario::Scenario;
use crate::sift::sift;

/// The scenario of a seed.
pub fn scenario(seed: u64) -> Scenario {
    let mut rng = Rng::with_seed(seed);
    let timed = rng.one_in(8);
    let mut g = Generator { rng, timed };
    let rules = sift(g.ruleset());
    let mut s = Scenario::new(&format!("random_dynamic_{seed}"), &net(), &rules).at_once();
    let count = g.rng.usize(30..90);
    for n in 0..count {
        s.frames.push(g.frame());
        if timed && n == count / 2 {
            s = s.wait(PAUSE);
        }
    }
    s
}

/// Longer than elements live here that do not stay, and than the kernel takes to sweep up after
/// them.
const PAUSE: Duration = Duration::from_secs(5);

/// What a chain remembers by: an expression, the type of its key, and constants of it.
const KEYS: &[(&str, &str, &[&str])] = &[
    ("ip saddr", "ipv4_addr", &["198.18.0.10", "198.19.0.2", "198.18.5.20"]),
    ("ip daddr", "ipv4_addr", &["198.19.0.2", "198.18.5.20", "198.19.0.3"]),
    ("th dport", "inet_service", &["53", "80", "4000", "5300"]),
    ("th sport", "inet_service", &["53", "80", "4000", "5300"]),
    ("ip6 saddr", "ipv6_addr", &["2001:db8:1::10", "2001:db8:2::2", "2001:db8:5::20"]),
    ("meta mark", "mark", &["0", "1", "2", "3"]),
    ("meta l4proto", "inet_proto", &["tcp", "udp", "icmp"]),
    ("iifname", "ifname", &["\"lan\"", "\"wan\"", "\"dmz\""]),
    ("ether saddr", "ether_addr", &["02:00:00:00:01:10", "02:00:00:00:02:02"]),
];

/// What an element may carry.
const CARRIED: &[&str] = &[
    "counter",
    "counter",
    "limit rate 2/hour",
    "limit rate over 1/day burst 3 packets",
    "limit rate 120 bytes/hour",
    "limit rate over 100 bytes/day burst 90 bytes",
    "quota 100 bytes",
    "quota over 150 bytes",
];

/// Objects, and what a rule says to use them.
const OBJECTS: &[(&str, &str)] = &[
    ("counter", "{ }"),
    ("counter", "{ packets 5 bytes 7 }"),
    ("quota", "{ over 200 bytes }"),
    ("quota", "{ 300 bytes used 10 bytes }"),
    ("limit", "{ rate 2/hour burst 3 packets }"),
    ("limit", "{ rate over 3/day }"),
];

const STATEMENTS: &[&str] = &[
    "meta mark set 1",
    "meta mark set 2",
    "meta mark set meta mark + 1",
    "meta mark set jhash ip saddr . ip daddr mod 4 seed 0xbeef",
    "meta mark set jhash th dport mod 3 seed 0x5 offset 1",
    "meta mark set jhash ip6 saddr . th sport mod 5 seed 0x7",
    "meta mark set numgen inc mod 3",
    "meta mark set numgen inc mod 2 offset 2",
    "meta mark set meta mark xor 3",
    "meta mark set meta mark << 1",
    "meta mark set th dport map { 53 : 1, 80 : 2 }",
    "meta mark set ip saddr . th dport map { 198.18.0.10 . 53 : 1, 198.18.0.0/24 . 80-4000 : 3 }",
    "meta mark set numgen inc mod 4 map { 0 : 3, 1-2 : 1 }",
    "ct mark set meta mark",
    "meta mark set ct mark",
    "ct mark set ct mark or 1",
    "ct label set 5",
    "ct label set 7",
    "ct zone set 3",
    "ct original zone set 4",
    "meta priority set 1:2",
    "meta priority set root",
    "ip dscp set af11",
    "ip dscp set ip saddr map { 198.18.0.10 : ef, 198.18.5.20 : cs1 }",
    "notrack",
    "limit rate 5/hour burst 2 packets",
    "limit rate over 2/hour",
    "quota 400 bytes",
    "quota over 300 bytes",
];

const MATCHES: &[&str] = &[
    "",
    "",
    "meta mark 0",
    "meta mark 1",
    "meta mark { 2, 3 }",
    "meta mark & 1 == 1",
    "meta l4proto udp",
    "meta l4proto { tcp, icmp }",
    "th dport 53",
    "th dport { 80, 4000-5300 }",
    "ip saddr 198.18.0.0/24",
    "ip6 saddr 2001:db8:1::/64",
    "iifname lan",
    "iifname != \"w*\"",
    "ct mark 1",
    "ct mark != 0",
    "ct label 5",
    "ct label { 5, 7 }",
    "ct label != 7",
    "ct zone 3",
    "ct state established",
    "ct state new",
    "ct state untracked",
    "ct packets > 1",
    "ct original bytes > 60",
    "ct reply packets 0",
    "ct avgpkt < 40",
    "meta priority 1:2",
    "meta priority != 0:0",
    "ip dscp af11",
    "numgen inc mod 3 1",
    "numgen inc mod 4 { 0, 2-3 }",
    "numgen inc mod 5 offset 7 < 9",
    "jhash ip saddr mod 2 seed 0x1 0",
    "jhash ip saddr . th dport mod 6 seed 0xdead offset 3 { 3, 5-7 }",
    "fib saddr type unicast",
    "fib daddr . iif type local",
    "fib saddr . iif oif exists",
    "fib saddr oifname wan",
    "rt mtu > 1400",
    "socket transparent 1",
    "meta length 28-60",
    "meta iifgroup default",
    "meta iiftype ether",
    "meta cpu >= 0",
    "meta skuid 0",
    "meta rtclassid 0",
    "meta ipsec missing",
    "meta random >= 0",
    "meta day { 0-6 }",
];

struct Generator {
    rng: Rng,
    /// Time passes, once.
    timed: bool,
}

impl Chance for Generator {
    fn rng(&mut self) -> &mut Rng {
        &mut self.rng
    }
}

/// Sets, maps and objects of a table, with a rule's part for each that they are there for.
#[derive(Default)]
struct Kept {
    text: String,
    uses: Vec<String>,
}

impl Generator {
    fn ruleset(&mut self) -> String {
        let family = self.pick(&["inet", "inet", "inet", "ip"]);
        let mut kept = Kept::default();
        for n in 0..self.rng.u32(2..7) {
            self.keep(&mut kept, family, n);
        }
        let mut chains = String::new();
        for n in 0..3 {
            // Deep: each calls the next.
            let mut rules = self.rules(family, "", &kept, 1..3);
            if n < 2 && self.one_in(2) {
                rules += &format!("\t\t{} sub{}\n", self.pick(&["jump", "goto"]), n + 1);
            }
            chains = format!("\tchain sub{n} {{\n{rules}\t}}\n") + &chains;
        }
        for hook in ["prerouting", "input", "forward", "postrouting", "output"] {
            if hook == "output" || !(hook == "forward" || self.one_in(2)) {
                continue;
            }
            let priority = match hook {
                "prerouting" => self.pick(&["raw", "mangle", "-190"]),
                _ => self.pick(&["0", "-5", "100"]),
            };
            let rules = self.rules(family, hook, &kept, 4..14);
            chains += &format!(
                "\tchain {hook} {{\n\t\ttype filter hook {hook} priority {priority};\n{rules}\t}}\n"
            );
        }
        format!("table {family} t {{\n{}{chains}}}\n", kept.text)
    }

    fn key(&mut self, family: &str) -> (&'static str, &'static str, &'static [&'static str]) {
        loop {
            let key = self.pick(KEYS);
            if !(family == "ip" && key.0.starts_with("ip6")) {
                return key;
            }
        }
    }

    fn keep(&mut self, kept: &mut Kept, family: &str, n: u32) {
        let (key, kind, constants) = self.key(family);
        let (second, second_kind, _) = self.key(family);
        let (key, kind) = match self.one_in(4) && second != key {
            true => (format!("{key} . {second}"), format!("{kind} . {second_kind}")),
            false => (key.to_owned(), kind.to_owned()),
        };
        let single = !key.contains(" . ");
        let size = self.pick(&[1, 2, 3, 8, 100]);
        let short = if self.timed { "3s" } else { "3h" };
        let timeout = self.pick(&["", "", "1h", short, "2h"]);
        let timing = match timeout {
            "" => String::new(),
            t => format!(" timeout {t};"),
        };
        let flags = if timeout.is_empty() { "dynamic" } else { "dynamic,timeout" };
        let own = if timeout.is_empty() || self.one_in(2) {
            String::new()
        } else {
            format!(" timeout {}", self.pick(&[short, "1h"]))
        };
        match self.rng.u8(..9) {
            0..3 => {
                let carried = if self.one_in(3) { "" } else { self.pick(CARRIED) };
                kept.text +=
                    &format!("\tset s{n} {{ type {kind}; flags {flags}; size {size};{timing} }}\n");
                kept.uses.push(format!(
                    "{} @s{n} {{ {key}{own} {carried} }}",
                    self.pick(&["add", "update"])
                ));
                kept.uses.push(format!("{key} @s{n}"));
                kept.uses.push(format!("{key} != @s{n}"));
                kept.uses.push(format!("delete @s{n} {{ {key} }}"));
            }
            3 => {
                let carried = self.pick(CARRIED);
                kept.text += &format!(
                    "\tset s{n} {{ type {kind}; flags {flags}; size {size};{timing} {}; }}\n",
                    self.pick(&["counter", carried, carried])
                );
                kept.uses.push(format!("{} @s{n} {{ {key}{own} }}", self.pick(&["add", "update"])));
                kept.uses.push(format!("{key} @s{n}"));
            }
            // Under a longer key, nft puts something else into a map.
            4 if single || !(kind.contains("ipv6_addr") || kind.contains("ifname")) => {
                kept.text += &format!(
                    "\tmap m{n} {{ type {kind} : mark; flags {flags}; size {size};{timing} }}\n"
                );
                let value = self.pick(&["meta mark", "1", "0x3", "ct mark"]);
                kept.uses.push(format!(
                    "{} @m{n} {{ {key}{own} : {value} }}",
                    self.pick(&["add", "update"])
                ));
                kept.uses.push(format!("meta mark set {key} map @m{n}"));
                kept.uses.push(format!("delete @m{n} {{ {key} : {value} }}"));
            }
            5 if single => {
                let ranges = kind == "inet_service" || kind == "ipv4_addr";
                let flags = if ranges && self.one_in(2) { " flags interval;" } else { "" };
                let verdicts = ["accept", "drop", "continue", "return", "jump sub2", "goto sub1"];
                let mut elements: Vec<String> =
                    constants.iter().map(|c| format!("{c} : {}", self.pick(&verdicts))).collect();
                if self.one_in(3) {
                    elements.push(format!("* : {}", self.pick(&["drop", "jump sub2"])));
                }
                let flags =
                    if elements.len() > constants.len() { " flags interval;" } else { flags };
                kept.text += &format!(
                    "\tmap m{n} {{ type {kind} : verdict;{flags} elements = {{ {} }} }}\n",
                    elements.join(", ")
                );
                kept.uses.push(format!("{key} vmap @m{n}"));
            }
            6 | 7 if single => {
                let (object, definition) = self.pick(OBJECTS);
                kept.text +=
                    &format!("\t{object} o{n} {definition}\n\t{object} p{n} {definition}\n");
                let elements: Vec<String> = constants
                    .iter()
                    .map(|c| format!("{c} : \"{}{n}\"", self.pick(&["o", "p"])))
                    .collect();
                kept.text += &format!(
                    "\tmap m{n} {{ type {kind} : {object}; elements = {{ {} }} }}\n",
                    elements.join(", ")
                );
                kept.uses.push(format!("{object} name {key} map @m{n}"));
                kept.uses.push(format!("{object} name \"o{n}\""));
            }
            _ => {
                let carried = self.pick(CARRIED);
                kept.uses.push(format!("meter k{n} size {size} {{ {key} {carried} }}"));
            }
        }
    }

    fn rules(
        &mut self,
        family: &str,
        hook: &str,
        kept: &Kept,
        count: std::ops::Range<u32>,
    ) -> String {
        (0..self.rng.u32(count))
            .map(|_| format!("\t\t{}\n", self.rule(family, hook, kept)))
            .collect()
    }

    fn rule(&mut self, family: &str, hook: &str, kept: &Kept) -> String {
        let mut parts: Vec<String> = vec![self.matching(family, hook).into()];
        if !kept.uses.is_empty() && self.one_in(2) {
            parts.push(kept.uses[self.rng.usize(..kept.uses.len())].clone());
        }
        if self.one_in(3) {
            parts.push(self.statement(hook).into());
        }
        let ends = parts.iter().any(|p| p.contains(" vmap "));
        parts.push("counter".into());
        if ends {
            // A verdict ends the rule.
            let last = parts.len() - 1;
            let at = parts.iter().position(|p| p.contains(" vmap ")).unwrap_or(last);
            let map = parts.remove(at);
            parts.push(map);
        } else if self.one_in(6) {
            let sub = self.pick(&["jump sub0", "goto sub0", "jump sub1"]);
            let verdict = match hook {
                "" => self.pick(&["accept", "drop", "return", "continue"]),
                "forward" => self.pick(&[
                    "accept",
                    "drop",
                    "return",
                    sub,
                    sub,
                    "reject",
                    "reject with icmpx admin-prohibited",
                    "meta l4proto tcp reject with tcp reset",
                ]),
                _ => self.pick(&["accept", "drop", "return", sub, sub]),
            };
            parts.push(verdict.into());
        }
        parts.retain(|p| !p.is_empty());
        parts.join(" ")
    }

    fn matching(&mut self, family: &str, hook: &str) -> &'static str {
        loop {
            let m = self.pick(MATCHES);
            let six = family == "ip" && m.contains("ip6");
            let fib = m.starts_with("fib") && hook != "prerouting";
            let route = m.starts_with("rt ") && !matches!(hook, "forward" | "postrouting");
            let socket = m.starts_with("socket") && !matches!(hook, "prerouting" | "input");
            if !(six || fib || route || socket) {
                return m;
            }
        }
    }

    fn statement(&mut self, hook: &str) -> &'static str {
        loop {
            let s = self.pick(STATEMENTS);
            let early = s == "notrack" || s.contains(" zone ");
            if !(early && hook != "prerouting") {
                return s;
            }
        }
    }

    fn frame(&mut self) -> (String, Vec<u8>) {
        let six = self.one_in(4);
        let (from, to) = self.pick(&[
            (Side::Lan, Side::Wan),
            (Side::Lan, Side::Wan),
            (Side::Lan, Side::Dmz),
            (Side::Wan, Side::Lan),
            (Side::Wan, Side::Dmz),
            (Side::Dmz, Side::Lan),
            (Side::Lan, Side::Host),
            (Side::Wan, Side::Host),
        ]);
        let (mac, own) = from.macs();
        let f = ethernet(mac, own);
        let (source, destination) = (self.pick(from.addresses(six)), self.pick(to.addresses(six)));
        let f = if six { f.ip6(source, destination) } else { f.ip4(source, destination) };
        let f = if !six && self.one_in(4) { f.tos(self.pick(&[0x28, 0xb8, 0x20])) } else { f };
        let (sport, dport) = (self.pick(&[4000, 5300, 53]), self.pick(&[53, 80, 4000, 5300]));
        let f = match self.rng.u8(..8) {
            0 | 1 => f.tcp(sport, dport),
            2 if six => f.icmp6(128, 0, 0x0007_0001),
            2 => f.icmp(8, 0, 0x0007_0001),
            _ => f.udp(sport, dport),
        };
        (from.device().into(), f.zeros(self.pick(&[0, 0, 3, 20, 90])).bytes())
    }
}
