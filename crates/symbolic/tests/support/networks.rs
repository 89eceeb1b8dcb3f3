// SPDX-License-Identifier: Apache-2.0

//! Random networks, and rulesets for what is in them.

use fastrand::Rng;

/// Lines for `ip -batch`, and settings of devices.
pub fn network(rng: &mut Rng) -> (String, Vec<(String, u32)>) {
    let mut lines = String::from("link set lo up\n");
    lines.push_str(
        "link add name trunk address 02:00:00:00:00:09 type veth\nlink set trunk arp off up\n\
         link add link trunk name outer type vlan protocol 802.1ad id 7\nlink set outer arp off up\n",
    );
    let vlans = [
        "link trunk name lan type vlan id 10 ingress-qos-map 1:7 5:3 egress-qos-map 7:2",
        "link trunk name lan type vlan id 10",
        "link outer name dmz type vlan id 10",
        "link outer name lan type vlan id 300 egress-qos-map 0:5",
    ];
    let mut vlans: Vec<String> =
        vlans.into_iter().filter(|_| rng.u8(..3) == 0).map(str::to_owned).collect();
    let bridge = rng.bool().then(|| bridge(rng));
    if let Some(Bridge { before, lan, .. }) = &bridge {
        lines.push_str(before);
        vlans.retain(|vlan| !vlan.contains("name lan "));
        vlans.push(lan.clone());
    }
    for (number, name) in (1..).zip(["lan", "dmz", "wan"]) {
        let vlan = vlans.iter().find(|vlan| vlan.contains(&format!("name {name} ")));
        let add = match vlan {
            Some(vlan) => vlan.clone(),
            None => format!("name {name} type veth"),
        };
        lines.push_str(&format!(
            "link add {add}\nlink set {name} address 02:00:00:00:00:0{number}\n\
             link set {name} arp off\nlink set {name} up\n\
             addr add 198.18.{number}.1/24 dev {name}\n\
             addr add 2001:db8:{number}::1/64 dev {name} nodad\n"
        ));
    }
    if let Some(Bridge { after, .. }) = &bridge {
        lines.push_str(after);
    }
    let usual = [
        "route add default via 198.18.3.254",
        "route add default via 2001:db8:3::fe dev wan",
        "route add 198.19.0.0/16 via 198.18.2.7",
        "route add 198.19.2.0/24 dev lan",
        "route add blackhole 198.19.3.0/24",
        "route add unreachable 198.19.4.0/24",
        "route add prohibit 198.19.5.0/24",
        "route add throw 198.19.6.0/24",
        "route add 2001:db8:aaaa::/48 via 2001:db8:2::7 dev dmz",
        "route add blackhole 2001:db8:bbbb::/48",
        "route add 198.19.7.0/24 nexthop via 198.18.1.9 nexthop via 198.18.2.9",
        "addr add 198.18.77.1/24 dev wan",
        "addr add 2001:db8:77::1/64 dev wan nodad",
        "route add 198.19.8.0/24 tos 0x10 via 198.18.1.9",
    ];
    let policy = [
        "route add default via 198.18.1.99 table 7\nrule add fwmark 7 table 7",
        "rule add from 198.18.1.0/25 blackhole",
        "rule add iif dmz to 198.19.0.0/16 prohibit",
        "route add 198.19.9.0/24 dev dmz table 9\nrule add ipproto udp dport 80 table 9",
        "rule add not from 198.18.0.0/15 to 198.19.1.0/24 unreachable",
        "rule add priority 5 fwmark 7/15 goto 100\nrule add priority 50 unreachable\n\
         rule add priority 100 nop",
        "-6 route add default via 2001:db8:1::99 dev lan table 7\n-6 rule add fwmark 7 table 7",
        "rule add tos 0x10 table 7",
    ];
    for line in usual.iter().filter(|_| rng.bool()) {
        lines.push_str(line);
        lines.push('\n');
    }
    if rng.u8(..3) == 0 {
        for line in policy.iter().filter(|_| rng.u8(..3) == 0) {
            lines.push_str(line);
            lines.push('\n');
        }
    }
    let mut settings = Vec::new();
    for name in ["lan", "dmz", "wan"] {
        for (key, values) in [("rp_filter", 3), ("forwarding", 2), ("accept_local", 2)] {
            if rng.u8(..8) == 0 {
                settings.push((format!("net.ipv4.conf.{name}.{key}"), rng.u32(..values)));
            }
        }
        if rng.u8(..12) == 0 {
            settings.push((format!("net.ipv6.conf.{name}.forwarding"), rng.u32(..2)));
        }
    }
    (lines, settings)
}

/// Lines about a bridge.
struct Bridge {
    /// Before the device `lan`.
    before: String,
    /// What makes it.
    lan: String,
    /// After that.
    after: String,
}

/// A bridge with three ports, one of them a VLAN device: `lan` itself, or a VLAN device on it.
fn bridge(rng: &mut Rng) -> Bridge {
    let is_lan = rng.bool();
    let name = if is_lan { "lan" } else { "br0" };
    let filtering = rng.bool();
    let mut before = String::from(
        "link add name pa address 02:00:00:00:00:0a type veth\n\
         link add name pb address 02:00:00:00:00:0b type veth\n\
         link add link trunk name pc address 02:00:00:00:00:0c type vlan id 30 ingress-qos-map 2:4\n",
    );
    for port in ["pa", "pb", "pc"] {
        before.push_str(&format!("link set {port} arp off up\n"));
    }
    let protocol = if filtering && rng.u8(..4) == 0 { "802.1ad" } else { "802.1q" };
    let kind = format!(
        "bridge vlan_filtering {} vlan_protocol {protocol} mcast_snooping {}",
        u8::from(filtering),
        rng.u8(..2)
    );
    let lan = match is_lan {
        true => format!("name lan type {kind}"),
        false => {
            before.push_str(&format!(
                "link add name br0 type {kind}\nlink set br0 address 02:00:00:00:00:0f\n\
                 link set br0 arp off up\n"
            ));
            format!("link br0 name lan type vlan protocol {protocol} id 10 egress-qos-map 7:3")
        }
    };
    let mut after = String::new();
    for port in ["pa", "pb", "pc"] {
        if rng.u8(..6) > 0 {
            after.push_str(&format!("link set {port} master {name}\n"));
        }
    }
    let all = after.clone();
    let ports = ["pa", "pb", "pc"].into_iter().filter(|port| all.contains(port));
    if filtering {
        after.push_str(&format!("bridge vlan add dev {name} vid 10 self\n"));
        if rng.u8(..4) == 0 {
            after.push_str(&format!("bridge vlan add dev {name} vid 11 self untagged\n"));
        }
    }
    for port in ports {
        if filtering {
            let vlans = [
                "vid 10",
                "vid 10 pvid untagged",
                "vid 10 untagged",
                "vid 11 pvid",
                "vid 20-25",
                "vid 22-30 untagged",
            ];
            for vlan in vlans.iter().filter(|_| rng.u8(..3) == 0) {
                after.push_str(&format!("bridge vlan add dev {port} {vlan}\n"));
            }
        }
        let flags = [
            "hairpin on",
            "isolated on",
            "learning off",
            "flood off",
            "mcast_flood off",
            "bcast_flood off",
            "learning off flood off mcast_flood off bcast_flood off",
        ];
        for flag in flags.iter().filter(|_| rng.u8(..10) == 0) {
            after.push_str(&format!("bridge link set dev {port} {flag}\n"));
        }
        if rng.u8(..10) == 0 {
            after.push_str(&format!(
                "bridge link set dev {port} locked on\n\
                 bridge fdb replace 02:00:00:00:00:99 dev {port} master static\n"
            ));
        }
        for entry in ["02:00:00:00:00:55", "02:00:00:00:00:56"] {
            let kind = ["static", "static sticky", "dynamic", "local"][rng.usize(..4)];
            if rng.u8(..4) == 0 {
                after.push_str(&format!("bridge fdb replace {entry} dev {port} master {kind}\n"));
            }
        }
    }
    if rng.u8(..6) == 0 && all.contains("pb") {
        after.push_str("link add link pb name own type vlan id 24\nlink set own arp off up\n");
    }
    Bridge { before, lan, after }
}

/// A ruleset for hooks of the way.
pub fn ruleset(rng: &mut Rng) -> String {
    let mut rules = |all: &[&str], most: usize| -> String {
        let count = rng.usize(..=most);
        (0..count).map(|_| format!("{}\n", all[rng.usize(..all.len())])).collect()
    };
    let filter = [
        "iifname \"lan\" accept",
        "iifname \"wan\" drop",
        "ip daddr 198.18.2.0/24 accept",
        "ip daddr 198.18.2.80 udp dport 80 accept",
        "ip saddr 198.18.1.0/24 reject",
        "ip6 daddr 2001:db8:2::/64 drop",
        "udp dport 1024-65535 drop",
        "meta mark 7 accept",
        "ct state new udp dport 53 accept",
        "ip ttl < 3 drop",
        "meta nfproto ipv6 udp dport 22 reject",
    ];
    let out = [
        "oifname \"wan\" ip saddr 198.18.1.0/24 accept",
        "oifname { \"lan\", \"dmz\" } udp dport 80 drop",
        "iifname . oifname { \"lan\" . \"wan\", \"wan\" . \"dmz\" } accept",
        "meta oiftype ether accept",
        "ct original ip daddr 198.18.3.1 accept",
        "ct status dnat accept",
    ];
    let early = [
        "ip saddr 198.18.1.0/24 meta mark set 7",
        "udp dport 53 meta mark set 7",
        "iifname \"dmz\" meta mark set 0x17",
        "ip daddr 198.19.2.2 ip daddr set 198.18.2.2",
        "ip dscp set 4",
        "udp dport 23 notrack",
        "iifname \"wan\" ip saddr 198.18.1.0/24 drop",
        "ip6 hoplimit 1 drop",
    ];
    let dnat = [
        "iifname \"wan\" udp dport 80 dnat ip to 198.18.2.80:8080",
        "ip daddr 198.18.3.1 dnat ip to 198.18.1.5",
        "udp dport 53 redirect",
        "udp dport 22 redirect to :2222",
        "dnat ip to ip daddr map { 198.19.0.1 : 198.18.2.2, 198.19.0.2 : 198.18.1.2 }",
        "ip6 daddr 2001:db8:3::1 dnat ip6 to 2001:db8:2::80",
        "ip daddr 198.19.4.0/24 dnat ip prefix to 198.18.2.0/24",
        "ip daddr 198.19.0.3 dnat ip to 198.18.2.10-198.18.2.20",
    ];
    let snat = [
        "oifname \"wan\" masquerade",
        "oifname \"dmz\" ip saddr 198.18.1.0/24 snat ip to 198.18.2.99",
        "ip6 saddr 2001:db8:1::/64 masquerade",
        "udp dport 8080 snat ip to 198.18.2.100:4000",
        "oifname \"wan\" udp dport 1-9999 snat ip to 198.18.3.10-198.18.3.20:1000-2000",
    ];
    let device = [
        "ip saddr 198.18.1.66 drop",
        "ip daddr 198.18.2.66 drop",
        "udp sport 1 drop",
        "vlan id 10 udp dport 53 drop",
        "vlan id 300 meta mark set 7",
        "vlan pcp 5 drop",
        "vlan type ip udp dport 22 drop",
        "ether type 8021q udp dport 9 drop",
        "meta protocol 8021q counter",
        "meta protocol ip6 udp dport 80 drop",
        "iifname \"lan\" udp dport 80 drop",
        "iifname \"trunk\" vlan id 7 counter",
        "oifname \"outer\" udp dport 443 drop",
        "ether saddr 02:00:00:00:00:01 udp dport 54 drop",
        "meta priority 3 udp dport 53 drop",
        "meta priority set 7",
        "meta pkttype host udp dport 55 drop",
    ];
    let egress = device.map(|rule| rule.replace("iifname", "oifname"));
    let egress: Vec<&str> = egress.iter().map(|rule| &**rule).collect();
    let ingress = ["ether daddr 02:00:00:00:00:01 udp dport 56 drop", "ip dscp set 4"];
    let ingress: Vec<&str> = device.into_iter().chain(ingress).collect();
    let policy = ["accept", "drop"];
    let mut text = String::from("table inet t {\n");
    for (name, hook, all) in [
        ("pre", "filter hook prerouting priority mangle", &early[..]),
        ("raw", "filter hook prerouting priority raw", &early[..]),
        ("to", "nat hook prerouting priority dstnat", &dnat),
        ("late", "filter hook prerouting priority 0", &filter),
        ("input", "filter hook input priority 0", &filter),
        ("inat", "nat hook input priority srcnat", &["snat ip to 198.18.9.9"]),
        ("post", "filter hook postrouting priority 150", &out),
        ("from", "nat hook postrouting priority srcnat", &snat),
        ("output", "filter hook output priority 0", &filter),
        ("turn", "route hook output priority mangle", &early[..]),
        ("onat", "nat hook output priority -100", &dnat[..4]),
    ] {
        let body = rules(all, 3);
        text.push_str(&format!("chain {name} {{\ntype {hook};\n{body}}}\n"));
    }
    let both: Vec<&str> = filter.iter().chain(&out).copied().collect();
    let body = rules(&both, 6);
    text.push_str(&format!(
        "chain forward {{\ntype filter hook forward priority 0; policy drop;\n{body}}}\n"
    ));
    text.push_str("}\ntable netdev d {\n");
    for (hook, name, all) in [
        ("ingress", "lan", &ingress),
        ("ingress", "trunk", &ingress),
        ("ingress", "outer", &ingress),
        ("egress", "dmz", &egress),
        ("egress", "lan", &egress),
        ("egress", "trunk", &egress),
        ("egress", "outer", &egress),
    ] {
        let body = rules(all, 1);
        text.push_str(&format!(
            "chain {hook}_{name} {{\ntype filter hook {hook} device \"{name}\" priority 0;\n{body}}}\n"
        ));
    }
    text.push_str("}\ntable inet i {\n");
    for name in ["trunk", "outer"] {
        let body = rules(&["meta nfproto ipv4 udp dport 57 drop", "ip daddr 198.19.0.1 drop"], 1);
        text.push_str(&format!(
            "chain {name} {{\ntype filter hook ingress device \"{name}\" priority 1;\n{body}}}\n"
        ));
    }
    text.push_str("}\ntable bridge b {\n");
    let bridge = [
        "iifname \"pa\" udp dport 53 drop",
        "oifname \"pb\" udp dport 80 drop",
        "iifname . oifname { \"pa\" . \"pb\", \"pb\" . \"pc\" } accept",
        "meta ibrname \"lan\" udp dport 81 drop",
        "meta obrname \"br0\" udp dport 82 drop",
        "meta ibrpvid 10 udp dport 83 drop",
        "meta ibrvproto 8021ad udp dport 84 drop",
        "vlan id 10 udp dport 22 drop",
        "vlan id 20-24 udp dport 85 drop",
        "vlan pcp 5 meta mark set 7",
        "ether type ip ip saddr 198.18.1.0/24 ip daddr 198.18.2.80 drop",
        "ether type vlan udp dport 86 drop",
        "ip6 daddr 2001:db8:1::/64 counter accept",
        "ct state new udp dport 87 drop",
        "ct state established accept",
        "ct mark set 3",
        "meta pkttype != host udp dport 88 drop",
        "ether daddr 02:00:00:00:00:55 drop",
        "ether daddr 02:00:00:00:00:56 accept",
        "ether saddr 02:00:00:00:00:99 udp dport 89 drop",
        "meta priority 4 udp dport 53 drop",
        "meta mark 7 drop",
        "udp sport 5 reject",
        "meta mark set 7",
        "udp dport 23 notrack",
    ];
    for (name, hook, priority) in [
        ("raw", "prerouting", "-300"),
        ("pre", "prerouting", "0"),
        ("input", "input", "0"),
        ("forward", "forward", "0"),
        ("output", "output", "0"),
        ("early", "output", "-300"),
        ("post", "postrouting", "0"),
    ] {
        let without = |rule: &&&str| {
            let known = match hook {
                "prerouting" | "input" => !rule.contains("oif") && !rule.contains("obr"),
                "forward" => true,
                _ => !["iif", "ibr", "ether daddr", "reject"].iter().any(|w| rule.contains(w)),
            };
            known
                && (hook == "prerouting" || !rule.contains("notrack"))
                && (matches!(hook, "prerouting" | "input") || !rule.contains("reject"))
        };
        let known: Vec<&str> = bridge.iter().filter(without).copied().collect();
        let body = rules(&known, 2);
        text.push_str(&format!(
            "chain {name} {{\ntype filter hook {hook} priority {priority};\n{body}}}\n"
        ));
    }
    text.push_str("}\ntable netdev p {\n");
    for (hook, name) in [("ingress", "pa"), ("egress", "pb"), ("ingress", "br0"), ("egress", "pc")]
    {
        let all = if hook == "ingress" { &ingress } else { &egress };
        let body = rules(all, 1);
        text.push_str(&format!(
            "chain {hook}_{name} {{\ntype filter hook {hook} device \"{name}\" priority 0;\n{body}}}\n"
        ));
    }
    text.push_str("}\n");
    // Chains without rules, and other policies.
    if rng.u8(..3) == 0 {
        text = text.replace("policy drop", &format!("policy {}", policy[0]));
    }
    text
}
