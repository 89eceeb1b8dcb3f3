// SPDX-License-Identifier: Apache-2.0

//! Scenarios by chance: rulesets and frames that are made for each other, so that rules hit.

use fastrand::Rng;
use penstock_testkit::Chance;

use crate::frame::{Frame, bare, ethernet};
use crate::net::{CLIENT, DMZ, GATEWAY, LAN, NET, SERVER, SYN_OPTIONS, WAN, net_with_rules};
use crate::scenario::Scenario;

/// What a scenario is about.
#[derive(Clone, Copy, PartialEq)]
pub enum Kind {
    /// Chains at ingress and egress of devices.
    Devices,
    /// Chains of ip, ip6 and inet on the way through the router.
    Forwarding,
}

/// The scenario of a seed.
pub fn scenario(seed: u64) -> Scenario {
    let mut rng = Rng::with_seed(seed);
    let kind = if rng.u8(..3) == 0 { Kind::Forwarding } else { Kind::Devices };
    let limits = kind == Kind::Devices && rng.u8(..3) == 0;
    let mut g = Generator {
        limits,
        rng,
        kind,
        sets: String::new(),
        set_count: 0,
        subchains: vec![],
        number: 0,
    };
    let rules = g.ruleset();
    let name =
        format!("random_{}_{seed}", if kind == Kind::Devices { "devices" } else { "forwarding" });
    let net =
        if kind == Kind::Forwarding && g.one_in(2) { net_with_rules() } else { NET.to_owned() };
    let mut s = Scenario::new(&name, &net, &rules);
    let count = g.rng.usize(20..60);
    for _ in 0..count {
        let (source, bytes) = g.frame();
        s.frames.push((source, bytes));
    }
    s
}

const PORTS: [u16; 10] = [1, 2, 9, 22, 53, 68, 80, 443, 8080, 65535];
const NEAR4: [&str; 2] = ["198.18.0.10", "198.18.0.11"];
const FAR4: [&str; 9] = [
    "198.19.0.2",
    "198.19.0.3",
    "198.18.5.20",
    "198.18.200.7",
    "198.18.128.9",
    "198.18.0.1",
    "198.19.0.1",
    "198.18.66.1",
    "198.19.77.7",
];
const FAR6: [&str; 6] = [
    "2001:db8:2::2",
    "2001:db8:5::20",
    "2001:db8:200::7",
    "2001:db8:1::1",
    "2001:db8:66::1",
    "2001:db8:777::7",
];

/// Layers that a rule may speak of.
#[derive(Clone, Copy, PartialEq)]
enum L3 {
    Any,
    Ip4,
    Ip6,
    Arp,
}

#[derive(Clone, Copy, PartialEq)]
enum L4 {
    Any,
    Tcp,
    Udp,
    Icmp,
    Other,
}

/// Values of a field.
#[derive(Clone, Copy)]
enum Values {
    /// Any of these, and near them.
    Of(&'static [u32]),
    Bits(u8),
    Near4,
    Far4,
    Near6,
    Far6,
    Mac,
    /// Symbols: no arithmetic.
    Words(&'static [&'static str]),
}

struct Field {
    text: &'static str,
    l3: L3,
    l4: L4,
    values: Values,
}

impl Field {
    /// Whether its type has a name: nft 1.0.6 cannot list concatenations and maps of others.
    fn has_type(&self) -> bool {
        let address = matches!(
            self.values,
            Values::Near4 | Values::Far4 | Values::Near6 | Values::Far6 | Values::Mac
        );
        let named = [
            "th sport",
            "th dport",
            "meta mark",
            "meta l4proto",
            "ip protocol",
            "icmp type",
            "icmpv6 type",
        ];
        let port = self.text.ends_with(" sport") || self.text.ends_with(" dport");
        address || port || named.contains(&self.text)
    }
}

const fn field(text: &'static str, l3: L3, l4: L4, values: Values) -> Field {
    Field { text, l3, l4, values }
}

const PORT_VALUES: Values = Values::Of(&[1, 2, 9, 22, 53, 68, 80, 443, 8080, 65535]);

const FIELDS: &[Field] = &[
    field("ip saddr", L3::Ip4, L4::Any, Values::Near4),
    field("ip daddr", L3::Ip4, L4::Any, Values::Far4),
    field("ip ttl", L3::Ip4, L4::Any, Values::Of(&[1, 2, 3, 63, 64, 255])),
    field("ip length", L3::Ip4, L4::Any, Values::Of(&[20, 28, 40, 60, 100, 500])),
    field("ip id", L3::Ip4, L4::Any, Values::Of(&[1, 2, 3, 4, 5])),
    field("ip frag-off", L3::Ip4, L4::Any, Values::Of(&[0, 0x4000, 0x2000, 3])),
    field("ip hdrlength", L3::Ip4, L4::Any, Values::Of(&[5, 6, 7])),
    field("ip dscp", L3::Ip4, L4::Any, Values::Of(&[0, 8, 46])),
    field("ip protocol", L3::Ip4, L4::Any, Values::Of(&[1, 6, 17, 50, 132])),
    field("ip6 saddr", L3::Ip6, L4::Any, Values::Near6),
    field("ip6 daddr", L3::Ip6, L4::Any, Values::Far6),
    field("ip6 hoplimit", L3::Ip6, L4::Any, Values::Of(&[1, 2, 63, 64, 255])),
    field("ip6 length", L3::Ip6, L4::Any, Values::Of(&[0, 8, 20, 40, 500])),
    field("ip6 nexthdr", L3::Ip6, L4::Any, Values::Of(&[0, 6, 17, 44, 58, 60])),
    field("ip6 flowlabel", L3::Ip6, L4::Any, Values::Of(&[0, 0x12345])),
    field("frag id", L3::Ip6, L4::Any, Values::Of(&[1, 2, 3])),
    field("hbh hdrlength", L3::Ip6, L4::Any, Values::Of(&[0, 1])),
    field("dst nexthdr", L3::Ip6, L4::Any, Values::Of(&[6, 17])),
    field("tcp sport", L3::Any, L4::Tcp, PORT_VALUES),
    field("tcp dport", L3::Any, L4::Tcp, PORT_VALUES),
    field("tcp flags", L3::Any, L4::Tcp, Values::Of(&[2, 0x10, 0x12, 0x18, 0x11, 4])),
    field("tcp window", L3::Any, L4::Tcp, Values::Of(&[0x2000, 0])),
    field("tcp doff", L3::Any, L4::Tcp, Values::Of(&[5, 6, 10])),
    field("tcp sequence", L3::Any, L4::Tcp, Values::Of(&[1, 2, 99])),
    field("tcp option maxseg size", L3::Any, L4::Tcp, Values::Of(&[1460, 1400, 500])),
    field("tcp option window count", L3::Any, L4::Tcp, Values::Of(&[7, 3])),
    field("udp sport", L3::Any, L4::Udp, PORT_VALUES),
    field("udp dport", L3::Any, L4::Udp, PORT_VALUES),
    field("udp length", L3::Any, L4::Udp, Values::Of(&[8, 16, 20, 100])),
    field("udp checksum", L3::Any, L4::Udp, Values::Of(&[0, 1])),
    field("icmp type", L3::Ip4, L4::Icmp, Values::Of(&[0, 3, 8, 11])),
    field("icmp code", L3::Ip4, L4::Icmp, Values::Of(&[0, 1, 4])),
    field("icmp sequence", L3::Ip4, L4::Icmp, Values::Of(&[1, 2])),
    field("icmpv6 type", L3::Ip6, L4::Icmp, Values::Of(&[1, 2, 128, 129])),
    field("icmpv6 code", L3::Ip6, L4::Icmp, Values::Of(&[0, 4])),
    field("sctp dport", L3::Any, L4::Other, PORT_VALUES),
    field("th dport", L3::Any, L4::Any, PORT_VALUES),
    field("th sport", L3::Any, L4::Any, PORT_VALUES),
    field("meta length", L3::Any, L4::Any, Values::Of(&[20, 28, 40, 48, 60, 100, 500])),
    field("meta l4proto", L3::Any, L4::Any, Values::Of(&[1, 6, 17, 58, 132])),
    field("meta mark", L3::Any, L4::Any, Values::Of(&[0, 1, 2, 3])),
    field(
        "meta pkttype",
        L3::Any,
        L4::Any,
        Values::Words(&["host", "broadcast", "multicast", "other"]),
    ),
    field("ether saddr", L3::Any, L4::Any, Values::Mac),
    field("ether daddr", L3::Any, L4::Any, Values::Mac),
    field("arp operation", L3::Arp, L4::Any, Values::Of(&[1, 2])),
    field("arp saddr ip", L3::Arp, L4::Any, Values::Near4),
    field("@nh,0,8", L3::Any, L4::Any, Values::Of(&[0x45, 0x46, 0x60])),
    field("@nh,64,16", L3::Any, L4::Any, Values::Bits(16)),
    field("@th,0,16", L3::Any, L4::Any, PORT_VALUES),
    field("@th,32,32", L3::Any, L4::Any, Values::Bits(32)),
];

struct Generator {
    rng: Rng,
    kind: Kind,
    /// Named sets of the present table.
    sets: String,
    set_count: u32,
    subchains: Vec<String>,
    number: u32,
    /// Rules may limit; then nothing is done that the host answers.
    limits: bool,
}

impl Chance for Generator {
    fn rng(&mut self) -> &mut Rng {
        &mut self.rng
    }
}

impl Generator {
    fn ruleset(&mut self) -> String {
        let mut text = String::new();
        match self.kind {
            Kind::Devices => {
                text += &self.table(
                    "netdev",
                    "n",
                    &[("ingress", "lan"), ("ingress", "lan"), ("egress", "wan"), ("egress", "dmz")],
                );
                if self.one_in(3) {
                    text += &self.table(
                        "netdev",
                        "m",
                        &[("ingress", "wan"), ("egress", "lan"), ("ingress", "dmz")],
                    );
                }
                if self.one_in(4) {
                    text += &self.table("inet", "f", &[("forward", "")]);
                }
                if self.one_in(6) {
                    text += &self.table("arp", "a", &[("input", "")]);
                }
            }
            Kind::Forwarding => {
                let hooks = [
                    ("prerouting", ""),
                    ("input", ""),
                    ("forward", ""),
                    ("forward", ""),
                    ("output", ""),
                    ("postrouting", ""),
                ];
                for (family, name) in [("inet", "i"), ("ip", "v4"), ("ip6", "v6")] {
                    if family == "inet" || self.one_in(2) {
                        text += &self.table(family, name, &hooks);
                    }
                }
            }
        }
        text
    }

    fn table(&mut self, family: &str, name: &str, hooks: &[(&str, &str)]) -> String {
        self.sets.clear();
        self.subchains.clear();
        let mut chains = String::new();
        for i in 0..self.rng.u32(0..4) {
            let rules = self.rules(family, "", 1..4);
            let chain = format!("sub{i}");
            chains += &format!("\tchain {chain} {{\n{rules}\t}}\n");
            self.subchains.push(chain);
        }
        for (i, (hook, device)) in hooks.iter().enumerate() {
            if self.one_in(4) && i > 0 {
                continue;
            }
            let priority = self.pick(&[-10, 0, 0, 0, 5]);
            let policy = if self.one_in(6) && *hook != "output" { "drop" } else { "accept" };
            let on = if device.is_empty() { String::new() } else { format!(" device {device}") };
            let rules = self.rules(family, hook, 2..9);
            chains += &format!(
                "\tchain {hook}{i} {{\n\t\ttype filter hook {hook}{on} priority {priority}; policy {policy};\n{rules}\t}}\n"
            );
        }
        format!("table {family} {name} {{\n{}{chains}}}\n", self.sets)
    }

    fn rules(&mut self, family: &str, hook: &str, count: std::ops::Range<u32>) -> String {
        (0..self.rng.u32(count)).map(|_| format!("\t\t{}\n", self.rule(family, hook))).collect()
    }

    /// nft puts some matches that others imply at the head of the rule and some before them,
    /// depending on its version: a match that comes first is no longer implied.
    fn rule(&mut self, family: &str, hook: &str) -> String {
        let (l3, rule) = self.body(family, hook);
        let mut head = vec![];
        let link = rule.contains("ether ") && matches!(family, "netdev" | "inet");
        let extensions = ["frag ", "hbh ", "dst ", "exthdr "].iter().any(|w| rule.contains(w));
        if link {
            head.push("iiftype ether");
        }
        match (family, l3) {
            ("netdev", L3::Ip4) if link => head.push("meta protocol ip"),
            ("netdev", L3::Ip6) if link || extensions => head.push("meta protocol ip6"),
            ("inet", L3::Ip4) if link => head.push("meta nfproto ipv4"),
            ("inet", L3::Ip6) if link || extensions => head.push("meta nfproto ipv6"),
            _ => {}
        }
        head.push(&rule);
        head.join(" ")
    }

    fn body(&mut self, family: &str, hook: &str) -> (L3, String) {
        let l3 = match family {
            "ip" => L3::Ip4,
            "ip6" => L3::Ip6,
            "arp" => L3::Arp,
            _ => self.pick(&[L3::Any, L3::Any, L3::Ip4, L3::Ip6]),
        };
        let l4 = if l3 == L3::Arp {
            L4::Any
        } else {
            self.pick(&[L4::Any, L4::Tcp, L4::Udp, L4::Icmp, L4::Other])
        };
        let mut parts: Vec<String> = vec![];
        let mut used = vec![];
        for _ in 0..self.rng.u32(0..4) {
            if let Some(f) = self.choose(hook, l3, l4, &mut used) {
                parts.push(self.matching(f));
            }
        }
        if family != "arp" && self.one_in(5) {
            parts.push(self.special(family, hook, l3, l4));
        }
        if l3 != L3::Arp && self.one_in(8) {
            let (a, b) =
                (self.choose(hook, l3, l4, &mut used), self.choose(hook, l3, l4, &mut used));
            if let (Some(a), Some(b)) = (a, b)
                && a.has_type()
                && b.has_type()
            {
                parts.push(self.concatenation(a, b));
            }
        }
        if self.one_in(12) {
            parts.push(self.stateful());
        }
        if l3 != L3::Arp
            && self.one_in(12)
            && let Some(f) = self.choose(hook, l3, l4, &mut used)
            && f.has_type()
        {
            parts.push(self.marking(f));
        }
        if l3 != L3::Arp && self.one_in(4) {
            parts.extend(self.change(family, hook, l3, l4));
        }
        parts.retain(|p| !p.is_empty());
        parts.push("counter".into());
        if self.one_in(10)
            && let Some(f) = self.choose(hook, l3, l4, &mut used)
        {
            parts.push(self.verdict_map(f));
            return (l3, parts.join(" "));
        }
        let verdict = self.verdict(family, hook, l3, l4);
        parts.push(verdict);
        (l3, parts.join(" ").trim_end().to_owned())
    }

    /// A field that goes with the layers, each at most once in a rule.
    fn choose(
        &mut self,
        hook: &str,
        l3: L3,
        l4: L4,
        used: &mut Vec<usize>,
    ) -> Option<&'static Field> {
        for _ in 0..20 {
            let i = self.rng.usize(..FIELDS.len());
            let f = &FIELDS[i];
            let fits3 = f.l3 == L3::Any && l3 != L3::Arp || f.l3 == l3;
            let fits4 = f.l4 == L4::Any || f.l4 == l4;
            // Where the rule fixes the layer already, naming it again in other words is an error of
            // nft. The identification of what the host sends itself is a matter of chance.
            let chance = f.text == "ip id"
                && !matches!(hook, "ingress" | "prerouting" | "input" | "forward");
            let again = (l4 != L4::Any
                && matches!(
                    f.text,
                    "th dport" | "th sport" | "meta l4proto" | "ip protocol" | "ip6 nexthdr"
                ))
                || (matches!(
                    f.text,
                    "meta l4proto" | "ip protocol" | "ip6 nexthdr" | "th dport" | "th sport"
                ) && used.iter().any(|&u| {
                    matches!(
                        FIELDS[u].text,
                        "meta l4proto" | "ip protocol" | "ip6 nexthdr" | "th dport" | "th sport"
                    )
                }));
            if fits3 && fits4 && !again && !chance && !used.contains(&i) {
                used.push(i);
                return Some(f);
            }
        }
        None
    }

    fn value(&mut self, values: Values) -> String {
        match values {
            Values::Of(list) => self.pick(list).to_string(),
            Values::Bits(n) => {
                let v = self.rng.u64(..1 << n);
                let mask = self.pick(&[0xffff_ffff, 0xff, 0xff00, 3]);
                (v & mask).to_string()
            }
            Values::Near4 | Values::Near6 | Values::Far4 | Values::Far6 => {
                let near = matches!(values, Values::Near4 | Values::Near6);
                let four = matches!(values, Values::Near4 | Values::Far4);
                match (four, near != self.one_in(3)) {
                    (true, true) => self.pick(&NEAR4).to_owned(),
                    (true, false) => self.pick(&FAR4).to_owned(),
                    (false, true) => "2001:db8:1::10".to_owned(),
                    (false, false) => self.pick(&FAR6).to_owned(),
                }
            }
            Values::Mac => {
                let [a, b, c, d, e, f] = self.pick(&[CLIENT, LAN, GATEWAY, SERVER, WAN, [0xff; 6]]);
                format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}")
            }
            Values::Words(list) => self.pick(list).to_owned(),
        }
    }

    /// Distinct values, in order where they have one.
    fn several(&mut self, values: Values) -> Vec<String> {
        let mut list: Vec<String> = (0..self.rng.usize(1..5)).map(|_| self.value(values)).collect();
        list.sort_by_key(|v| (v.parse::<u64>().unwrap_or(0), v.clone()));
        list.dedup();
        list
    }

    fn matching(&mut self, f: &Field) -> String {
        let numeric = matches!(f.values, Values::Of(_) | Values::Bits(_));
        let raw = f.text.starts_with('@');
        let address =
            matches!(f.values, Values::Near4 | Values::Far4 | Values::Near6 | Values::Far6);
        let v = self.value(f.values);
        match self.rng.u8(..10) {
            0 | 1 => format!("{} != {v}", f.text),
            2 if numeric => format!("{} {} {v}", f.text, self.pick(&["<", "<=", ">", ">="])),
            3 if numeric => {
                let w = self.value(f.values);
                let (a, b): (u64, u64) = (v.parse().unwrap_or(0), w.parse().unwrap_or(0));
                if a == b {
                    format!("{} {v}", f.text)
                } else {
                    format!("{} {}{}-{}", f.text, self.pick(&["", "!= "]), a.min(b), a.max(b))
                }
            }
            4 if numeric => {
                let narrow = matches!(f.text, "ip hdrlength" | "tcp doff" | "ip dscp");
                let mask = if narrow {
                    self.pick(&[1u32, 2, 3, 6, 8])
                } else {
                    self.pick(&[1, 3, 0xf, 0x10, 0x12, 0xf0])
                };
                let value: u32 = v.parse::<u64>().unwrap_or(0) as u32 & mask;
                format!("{} & {mask} {} {value}", f.text, self.pick(&["==", "!="]))
            }
            5 if address => {
                let four = matches!(f.values, Values::Near4 | Values::Far4);
                let len =
                    if four { self.pick(&[15, 16, 24, 31]) } else { self.pick(&[32, 48, 64, 120]) };
                format!("{} {}{v}/{len}", f.text, self.pick(&["", "!= "]))
            }
            6 | 7 => {
                let list = self.several(f.values);
                format!("{} {}{{ {} }}", f.text, self.pick(&["", "!= "]), list.join(", "))
            }
            8 if !raw => {
                let list = self.several(f.values);
                self.set_count += 1;
                let name = format!("s{}", self.set_count);
                let typeof_ = f.text;
                self.sets += &format!(
                    "\tset {name} {{\n\t\ttypeof {typeof_}\n\t\telements = {{ {} }}\n\t}}\n",
                    list.join(", ")
                );
                format!("{} {}@{name}", f.text, self.pick(&["", "!= "]))
            }
            _ => format!("{} {v}", f.text),
        }
    }

    /// What is no header field.
    fn special(&mut self, family: &str, hook: &str, l3: L3, l4: L4) -> String {
        let mut list = vec![
            "exthdr frag exists",
            "tcp option sack-perm exists",
            "tcp option maxseg missing",
            "numgen inc mod 3 1",
        ];
        match l3 {
            L3::Ip4 => list.extend([
                "ip option ra exists",
                "fib saddr type unicast",
                "fib daddr type local",
                "ip saddr . ip daddr { 198.18.0.10 . 198.19.0.2, 198.18.0.11 . 198.18.5.20 }",
            ]),
            L3::Ip6 => list.extend([
                "exthdr hbh exists",
                "fib daddr type { local, unicast }",
                "ip6 saddr . ip6 nexthdr { 2001:db8:1::10 . 6, 2001:db8:1::10 . 17 }",
            ]),
            _ => {}
        }
        // What each hook knows.
        if family != "netdev" {
            if matches!(hook, "prerouting" | "input" | "forward") {
                list.extend(["iifname lan", "iifname { wan, dmz }", "iif lan"]);
            }
            if matches!(hook, "forward" | "output" | "postrouting") {
                list.extend(["oifname wan", "oifname != dmz", "oif { wan, lan }", "rt mtu 1500"]);
            }
        } else {
            list.extend(["vlan id 10", "vlan pcp 3", "ether type vlan", "iifname lan"]);
            if l3 != L3::Any {
                list.retain(|t| !t.starts_with("vlan") && !t.starts_with("ether type"));
            }
        }
        if l3 == L3::Any && l4 == L4::Any && family != "arp" {
            list.extend(["meta protocol ip", "meta protocol { ip6, arp }"]);
        }
        let text = self.pick(&list);
        let fib = text.starts_with("fib");
        let l3_word = text.starts_with("exthdr") || text.starts_with("ip option");
        // fib is not for egress; what a subchain is called from is unknown.
        if fib && (hook.is_empty() || hook == "egress") || l3_word && l3 == L3::Any {
            return String::new();
        }
        if text.starts_with("exthdr") && l3 == L3::Ip4
            || text.starts_with("tcp option") && l3 == L3::Arp
        {
            return String::new();
        }
        if text.starts_with("tcp option") {
            // It has its own protocol, which may not be that of the rule's other matches.
            return String::new();
        }
        text.to_owned()
    }

    fn stateful(&mut self) -> String {
        let devices = self.limits;
        let list: &[&str] = if devices {
            &[
                "limit rate 3/hour burst 4 packets",
                "limit rate over 2/day",
                "quota 200 bytes",
                "quota over 300 bytes",
                "limit rate 200 bytes/hour",
            ]
        } else {
            &["quota 200 bytes", "quota over 300 bytes", "quota 5 kbytes"]
        };
        self.pick(list).to_owned()
    }

    fn change(&mut self, family: &str, _hook: &str, l3: L3, l4: L4) -> Vec<String> {
        let mut list: Vec<&str> =
            vec!["meta mark set 1", "meta mark set meta mark | 2", "meta mark set 3"];
        match l3 {
            L3::Ip4 => list.extend([
                "ip dscp set 8",
                "ip ttl set 9",
                "ip id set 77",
                "ip saddr set 198.18.0.11",
                "ip ecn set 1",
            ]),
            L3::Ip6 => list.extend([
                "ip6 dscp set 8",
                "ip6 hoplimit set 9",
                "ip6 flowlabel set 5",
                "ip6 saddr set 2001:db8:777::1",
            ]),
            _ => {}
        }
        match l4 {
            L4::Tcp => list.extend([
                "tcp dport set 99",
                "tcp option maxseg size set 900",
                "tcp window set 5",
                "tcp flags set 18",
            ]),
            L4::Udp => list.extend(["udp dport set 99", "udp sport set 53", "udp checksum set 0"]),
            L4::Icmp if l3 == L3::Ip4 => list.push("icmp sequence set 5"),
            L4::Icmp if l3 == L3::Ip6 => list.push("icmpv6 sequence set 5"),
            L4::Other => list.push("sctp dport set 99"),
            _ => {}
        }
        if family == "netdev" {
            list.push("ether saddr set 02:11:11:11:11:11");
        }
        (0..self.rng.usize(1..3)).map(|_| self.pick(&list).to_owned()).collect()
    }

    fn verdict(&mut self, family: &str, hook: &str, l3: L3, l4: L4) -> String {
        match self.rng.u8(..14) {
            0 | 1 => "accept".into(),
            2 | 3 => "drop".into(),
            4 if !hook.is_empty() && !self.subchains.is_empty() => {
                format!("{} {}", self.pick(&["jump", "goto"]), self.subchain())
            }
            5 => "return".into(),
            6 if family == "netdev" && matches!(hook, "ingress" | "egress") => {
                let verb = self.pick(&["fwd", "dup"]);
                format!("{verb} to {}", self.pick(&["wan", "dmz", "lan"]))
            }
            7 if !self.limits && matches!(hook, "forward" | "input") && family != "arp" => {
                let reset = l4 == L4::Tcp && self.one_in(2);
                match (family, l3, reset) {
                    (_, _, true) => "reject with tcp reset".into(),
                    ("inet", L3::Any, _) => format!(
                        "reject with icmpx {}",
                        self.pick(&[
                            "port-unreachable",
                            "admin-prohibited",
                            "no-route",
                            "host-unreachable"
                        ])
                    ),
                    (_, L3::Ip4, _) => format!(
                        "reject with icmp {}",
                        self.pick(&["net-unreachable", "host-prohibited", "prot-unreachable"])
                    ),
                    (_, L3::Ip6, _) => format!(
                        "reject with icmpv6 {}",
                        self.pick(&["no-route", "addr-unreachable", "policy-fail"])
                    ),
                    _ => "reject".into(),
                }
            }
            8 => "continue".into(),
            _ => String::new(),
        }
    }

    /// Two fields at once, in an anonymous set or a named one; with ranges now and then.
    fn concatenation(&mut self, a: &Field, b: &Field) -> String {
        let ranges = self.one_in(3);
        let mut elements = vec![];
        for _ in 0..self.rng.usize(1..5) {
            let (mut x, y) = (self.value(a.values), self.value(b.values));
            if let (true, Values::Of(_), Ok(n)) = (ranges, a.values, x.parse::<u64>()) {
                x = format!("{n}-{}", n + self.rng.u64(1..3));
            }
            elements.push(format!("{x} . {y}"));
        }
        elements.sort();
        elements.dedup();
        // Ranges must not meet.
        if ranges {
            elements.truncate(1);
        }
        let (a, b) = (a.text, b.text);
        let not = self.pick(&["", "", "!= "]);
        if a.starts_with('@') || b.starts_with('@') || self.rng.bool() {
            return format!("{a} . {b} {not}{{ {} }}", elements.join(", "));
        }
        self.set_count += 1;
        let name = format!("s{}", self.set_count);
        let flags = if ranges { "\n\t\tflags interval" } else { "" };
        let elements = elements.join(", ");
        self.sets += &format!(
            "\tset {name} {{\n\t\ttypeof {a} . {b}{flags}\n\t\telements = {{ {elements} }}\n\t}}\n"
        );
        format!("{a} . {b} {not}@{name}")
    }

    /// A mark from a map.
    fn marking(&mut self, f: &Field) -> String {
        let several = self.several(f.values);
        let elements: Vec<String> =
            several.into_iter().map(|v| format!("{v} : {}", self.rng.u32(..4))).collect();
        format!("meta mark set {} map {{ {} }}", f.text, elements.join(", "))
    }

    fn subchain(&mut self) -> String {
        let i = self.rng.usize(..self.subchains.len());
        self.subchains[i].clone()
    }

    fn verdict_map(&mut self, f: &Field) -> String {
        let elements: Vec<String> = self
            .several(f.values)
            .into_iter()
            .map(|v| format!("{v} : {}", self.pick(&["accept", "drop", "continue", "return"])))
            .collect();
        format!("{} vmap {{ {} }}", f.text, elements.join(", "))
    }

    fn port(&mut self) -> u16 {
        self.pick(&PORTS)
    }

    /// A frame and the device where it comes in.
    fn frame(&mut self) -> (String, Vec<u8>) {
        self.number += 1;
        if self.one_in(16) {
            return self.own();
        }
        let (device, mut f) = match self.rng.u8(..6) {
            0 => ("wan", ethernet(WAN, GATEWAY)),
            1 => ("dmz", ethernet(DMZ, SERVER)),
            _ => ("lan", ethernet(LAN, CLIENT)),
        };
        if self.one_in(15) {
            let (source, to) = match device {
                "wan" => (GATEWAY, "198.19.0.1"),
                "dmz" => (SERVER, "198.18.5.1"),
                _ => (CLIENT, "198.18.0.1"),
            };
            let f = ethernet([0xff; 6], source).arp(
                self.rng.u16(1..3),
                source,
                "198.18.0.10",
                [0; 6],
                to,
            );
            return (device.into(), f.bytes());
        }
        if self.one_in(12) {
            let destination = self.pick(&[[0xff; 6], [1, 0, 0x5e, 0, 0, 1], [2, 9, 9, 9, 9, 9]]);
            f = ethernet(destination, [2, 0, 0, 0, 1, 0x11]);
        }
        if self.kind == Kind::Devices && self.one_in(10) {
            let tci = self.pick(&[10u16, 0x600a, 20, 0]);
            let protocol = self.pick(&[0x8100u16, 0x8100, 0x88a8]);
            f = f.tag(protocol, tci);
        }
        let four = self.rng.bool();
        f = if four {
            let (source, to) = match device {
                "wan" => (
                    self.pick(&["198.19.0.2", "198.19.0.3", "198.19.77.7"]),
                    self.pick(&["198.18.0.10", "198.18.5.20", "198.19.0.1"]),
                ),
                "dmz" => (
                    self.pick(&["198.18.5.20", "198.18.200.7"]),
                    self.pick(&["198.18.0.10", "198.19.0.2", "198.18.5.1"]),
                ),
                _ => (self.pick(&NEAR4), self.pick(&FAR4)),
            };
            f.ip4(source, to).id(self.rng.u16(1..6))
        } else {
            let (source, to) = match device {
                "wan" => (
                    "2001:db8:2::2",
                    self.pick(&["2001:db8:1::10", "2001:db8:5::20", "2001:db8:2::1"]),
                ),
                "dmz" => (
                    self.pick(&["2001:db8:5::20", "2001:db8:200::7"]),
                    self.pick(&["2001:db8:1::10", "2001:db8:2::2"]),
                ),
                _ => ("2001:db8:1::10", self.pick(&FAR6)),
            };
            f.ip6(source, to)
        };
        if self.one_in(4) {
            let least = if self.limits { 2 } else { 1 };
            f = f.ttl(self.pick(&[least, 2, 3, 255]));
        }
        if four {
            if self.one_in(5) {
                f = f.tos(self.pick(&[0x20, 0xb8, 1]));
            }
            if self.one_in(8) {
                f = f.df();
            }
            if self.one_in(10) {
                f = f.ip_options(self.pick(&[
                    &[0x94, 4, 0, 0][..],
                    &[7, 7, 4, 0, 0, 0, 0, 0],
                    &[1, 1, 1, 0],
                ]));
            }
        } else {
            if self.one_in(6) {
                f = f.set(1, &[1, 0x23, 0x45]);
            }
            for _ in 0..2 {
                if self.one_in(8) {
                    f = match self.rng.u8(..3) {
                        0 => f.extension(60, &[0; 6]),
                        1 => f.fragment6(0, true, self.rng.u32(1..4)),
                        _ => f.extension(60, &[1, 4, 0, 0, 0, 0]),
                    };
                }
            }
        }
        // Later fragments have no transport header; those for the host would wait for the rest of
        // them.
        if four && self.one_in(20) && device == "lan" {
            let f = f
                .fragment(self.rng.u16(1..9), self.rng.bool())
                .protocol(self.pick(&[6, 17, 1]))
                .zeros(self.rng.usize(0..40) * 8);
            return (device.into(), self.damaged(f));
        }
        let (sport, dport) = (self.port(), self.port());
        f = match self.rng.u8(..10) {
            0..=3 => {
                let f = f.tcp(sport, dport).flags(self.pick(&[2, 0x10, 0x12, 0x18, 0x11, 4]));
                if self.one_in(2) {
                    f.tcp_options(self.pick(&[
                        &SYN_OPTIONS[..],
                        &[2, 4, 5, 0x78],
                        &[1, 1, 2, 4, 1, 0xf4, 0, 0],
                        &[3, 3, 3, 0],
                    ]))
                } else {
                    f
                }
            }
            4..=6 => f.udp(sport, dport),
            7 if four => {
                f.icmp(self.pick(&[8, 0, 3, 11]), self.pick(&[0, 1, 4]), self.rng.u32(..3))
            }
            7 => f.icmp6(self.pick(&[128, 129, 1, 2]), self.pick(&[0, 4]), self.rng.u32(..3)),
            8 => f.transport(
                132,
                &[&sport.to_be_bytes()[..], &dport.to_be_bytes(), &[0, 0, 0, 7, 1, 2, 3, 4]]
                    .concat(),
            ),
            _ => f.protocol(self.pick(&[50, 89, 253])),
        };
        let len = match self.rng.u8(..8) {
            0 => 0,
            1 => self.rng.usize(400..1200),
            2 if device == "lan" => self.rng.usize(1200..1380),
            _ => self.rng.usize(0..40),
        };
        (device.into(), self.damaged(f.zeros(len)))
    }

    /// What the host sends: packets, or raw frames.
    fn own(&mut self) -> (String, Vec<u8>) {
        let (sport, dport) = (self.port(), self.port());
        let len = self.rng.usize(0..200);
        if self.rng.bool() {
            let f = ethernet(self.pick(&[GATEWAY, [0xff; 6]]), WAN)
                .ip4("198.19.0.1", "198.19.0.2")
                .id(3);
            return ("host:wan".into(), f.udp(sport, dport).zeros(len).bytes());
        }
        let f = match self.rng.u8(..3) {
            0 => bare().ip4("198.19.0.1", self.pick(&["198.19.0.2", "198.19.77.7"])).id(4),
            1 => bare().ip4("198.18.5.1", self.pick(&["198.18.5.20", "198.18.200.7"])).id(5),
            _ => bare().ip6("2001:db8:2::1", "2001:db8:2::2"),
        };
        let f = if self.rng.bool() { f.udp(sport, dport) } else { f.tcp(sport, dport) };
        ("host".into(), f.zeros(len).bytes())
    }

    /// Now and then the frame is cut, or a byte of it is wrong: not in an address, so that it stays
    /// where routes lead.
    fn damaged(&mut self, f: Frame) -> Vec<u8> {
        let mut bytes = f.bytes();
        match self.rng.u8(..16) {
            0 => bytes.truncate(self.rng.usize(14..=bytes.len())),
            1 => {
                let network = if bytes[12..14] == [0x81, 0] || bytes[12..14] == [0x88, 0xa8] {
                    18
                } else {
                    14
                };
                let (start, end) = if bytes[network] >> 4 == 6 { (8, 40) } else { (12, 20) };
                let at = self.rng.usize(network..bytes.len());
                if !(network + start..network + end).contains(&at) {
                    bytes[at] ^= 1 << self.rng.u8(..8);
                }
            }
            _ => {}
        }
        bytes
    }
}
