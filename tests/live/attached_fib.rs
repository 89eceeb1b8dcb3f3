// SPDX-License-Identifier: Apache-2.0

//! `fib` of attached rules, while the kernel's nf_tables has the same rules at the same places: both
//! see the same packets, and count the same.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use crate::net::Net;

/// Routes that answer differently, besides those of addresses.
const ROUTES: &str = "
    ip route add 198.18.40.0/24 nexthop via 198.18.0.2 nexthop via 198.18.1.2
    ip route add blackhole 198.18.41.0/24
    ip route add unreachable 198.18.42.0/24
    ip route add prohibit 198.18.43.0/24
    ip route add local 198.18.44.0/24 dev lo
    ip route add broadcast 198.18.45.0/24 dev r1
    ip route add 198.18.46.0/24 via 198.18.1.2
    ip route add throw 198.18.7.0/24
    ip route add 198.19.0.0/16 via 198.18.0.2
    ip -6 route add 2001:db8:40::/48 via 2001:db8:1::2
    ip -6 route add blackhole 2001:db8:41::/48
    ip -6 route add unreachable 2001:db8:42::/48
    ip -6 route add prohibit 2001:db8:43::/48
    ip -6 route add local 2001:db8:44::/48 dev lo
    ip -6 route add 2001:db9::/32 via 2001:db8::2
    ip -6 neigh add 2001:db8::3 lladdr 02:00:00:00:00:55 dev r0 nud permanent
    ip -6 neigh add fe80::1 lladdr 02:00:00:00:00:55 dev r0 nud permanent
    ip -6 neigh add fe80::2 lladdr 02:00:00:00:00:55 dev r0 nud permanent
    ip -6 neigh add fe80::55 lladdr 02:00:00:00:00:55 dev r0 nud permanent";

const KINDS: &str =
    "{ unspec, unicast, local, broadcast, anycast, multicast, blackhole, unreachable, prohibit }";

/// A chain at each hook, with all that `fib` may be asked there: an element of a set counts for each
/// answer.
fn rules(devices: &str) -> String {
    let (mut sets, mut chains, mut number) = (String::new(), String::new(), 0);
    let received = ["saddr", "daddr", "saddr . iif", "daddr . iif"];
    for (hook, at) in [
        ("ingress", "ingress device r0 priority 0"),
        ("prerouting", "prerouting priority 0"),
        ("input", "input priority 0"),
        ("forward", "forward priority 0"),
        ("output", "output priority 0"),
        ("postrouting", "postrouting priority 0"),
    ] {
        if (hook == "ingress") != (devices == "netdev") {
            continue;
        }
        writeln!(chains, "chain {hook} {{ type filter hook {at};").unwrap();
        if hook == "ingress" {
            // XDP does not see copies of what the host sends to all.
            writeln!(chains, "ip saddr 198.18.0.1 ip daddr 198.18.0.255 return").unwrap();
        }
        let sent = ["saddr", "daddr", "saddr . oif", "daddr . oif"];
        let arrives = !["output", "postrouting"].contains(&hook);
        let keys = if arrives { received } else { sent };
        for key in keys {
            let mut rule = |kind: &str, result: &str, elements: &str| {
                number += 1;
                writeln!(sets, "set s{number} {{ type {kind}; counter; elements = {elements}; }}")
                    .unwrap();
                writeln!(chains, "fib {key} {result} @s{number}").unwrap();
            };
            rule("fib_addrtype", "type", KINDS);
            if arrives {
                rule("iface_index", "oif", "{ lo, r0, r1 }");
                for name in ["lo", "r0", "r1"] {
                    writeln!(chains, "fib {key} oifname {name} counter").unwrap();
                }
                writeln!(chains, "fib {key} oif missing counter").unwrap();
                writeln!(chains, "fib {key} oif exists counter").unwrap();
            }
        }
        chains += "counter\n}\n";
    }
    format!("table {devices} t {{\n{sets}{chains}}}\n")
}

/// What a listing counts, by where it stands: the set or chain, the element or rule, and for rules
/// that read alike, which of them.
type Counts = BTreeMap<String, [u64; 2]>;

fn counted(listing: &str) -> Counts {
    let (mut counts, mut place) = (Counts::new(), "");
    for line in listing.lines().map(str::trim) {
        if line.starts_with("set ") || line.starts_with("chain ") {
            place = line;
        }
        for part in line.split(',') {
            let Some((what, numbers)) = part.split_once("counter packets ") else { continue };
            let number = |word: &str| word.parse().expect("a counter is a number");
            let words: Vec<_> = numbers.split_whitespace().collect();
            let what = what.trim_start_matches("elements = {").trim();
            let mut alike = (1..).map(|n| format!("{place} {what} {n}"));
            let key = alike.find(|key| !counts.contains_key(key)).expect("endless");
            counts.insert(key, [number(words[0]), number(words[2])]);
        }
    }
    counts
}

/// What both have counted, at a moment when no packet came: answers that were due, and what nobody
/// took, are through.
fn both(net: &Net) -> [Counts; 2] {
    let list = |line: &str| net.ok(&net.r, line);
    let count = || list("nft list ruleset; cat /proc/net/snmp /proc/net/snmp6");
    let listings = RefCell::new([String::new(), String::new()]);
    net.until("the packets are through", |_| {
        let before = count();
        std::thread::sleep(std::time::Duration::from_millis(200));
        let lists = ["nft list ruleset", "$PENSTOCK nft list ruleset"].map(list);
        listings.replace(lists);
        before == count()
    });
    listings.into_inner().map(|listing| {
        // The program's own table, which asks for connections.
        assert!(!listing.contains("penstock"));
        counted(&listing)
    })
}

/// What was counted after `before` was.
fn since(before: &Counts, now: &Counts) -> Counts {
    let grown = now.iter().map(|(key, [packets, bytes])| {
        let [p, b] = before.get(key).copied().unwrap_or_default();
        (key.clone(), [packets - p, bytes - b])
    });
    grown.collect()
}

/// Packets come, and both count the same.
fn agree(net: &Net, seed: u32) -> Result<(), String> {
    let in_r = |line: &str| net.ok(&net.r, line);
    let before = both(net);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/live/attached_fib.py");
    let mac = in_r("cat /sys/class/net/r0/address");
    net.ok(&net.a, &format!("python3 {script} send a0 {} {seed} 1500", mac.trim()));
    in_r(&format!("python3 {script} own"));
    net.ok(&net.a, &format!("python3 {script} talk 198.18.0.1 198.18.1.1 2001:db8::1"));
    let after = both(net);
    let [kernel, attached] = [0, 1].map(|side| since(&before[side], &after[side]));
    let answers = kernel.values().filter(|[packets, _]| *packets > 0).count();
    assert!(answers > 50, "{answers} answers");
    if kernel == attached {
        return Ok(());
    }
    let mut differences = String::new();
    for key in kernel.keys().chain(attached.keys()).collect::<BTreeSet<_>>() {
        let [kernel, attached] = [kernel.get(key), attached.get(key)];
        if kernel != attached {
            writeln!(differences, "{key}: kernel {kernel:?}, attached {attached:?}").unwrap();
        }
    }
    Err(differences)
}

/// They agree, perhaps not at once: what has changed is followed a moment later.
fn agree_soon(net: &Net, about: &str) {
    let mut last = String::new();
    for seed in 0..8 {
        match agree(net, seed) {
            Ok(()) => return,
            Err(e) => last = e,
        }
    }
    panic!("{about}: {last}");
}

#[test]
fn fib_of_attached_rules_is_that_of_nf_tables() {
    let Some(mut net) = Net::new() else { return };
    if !net.has("nft") || !net.has("python3") {
        return;
    }
    for line in ROUTES.trim().lines() {
        net.ok(&net.r, line);
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/live/attached_fib.py");
    net.spawn_in('r', &format!("python3 {script} serve"));
    let file = net.directory.join("rules.nft");
    let name = file.display().to_string();
    for (family, place) in [("netdev", "r0=xdp"), ("netdev", "r0=tcx"), ("inet", "")] {
        std::fs::write(&file, format!("flush ruleset\n{}", rules(family))).unwrap();
        net.attach(&format!("--rules {name} {place}"));
        net.ok(&net.r, &format!("nft -f {name}"));
        agree_soon(&net, &format!("{family} {place}"));
        // What changes of routes and addresses is followed.
        if place == "r0=xdp" {
            net.detach();
            continue;
        }
        for change in [
            "ip route del 198.18.46.0/24; ip route add 198.18.46.0/24 via 198.18.0.2",
            "ip addr add 198.18.0.3/24 dev r1; ip -6 addr add 2001:db8::3/64 dev r1 nodad",
            "ip route add default via 198.18.1.2; ip -6 route add default via 2001:db8:1::2",
        ] {
            net.ok(&net.r, change);
            agree_soon(&net, change);
        }
        net.ok(
            &net.r,
            "ip route del default; ip -6 route del default; ip addr del 198.18.0.3/24 dev r1
             ip -6 addr del 2001:db8::3/64 dev r1; ip route del 198.18.46.0/24
             ip route add 198.18.46.0/24 via 198.18.1.2; nft flush ruleset",
        );
        net.detach();
    }
}
