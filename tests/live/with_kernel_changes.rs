// SPDX-License-Identifier: Apache-2.0

//! Random changes of what nf_tables runs under `penstock attach --with-kernel`: after each, the
//! kernel has the rules, sets, elements and counters that the ruleset has.

use std::collections::BTreeMap;

use crate::net::Net;

/// All of it runs in nf_tables: nothing else may stand where its base chains stand.
const BEGIN: &str = "
    table inet t {
      counter a { }
      counter b { }
      set s { type ipv4_addr; flags interval; elements = { 198.18.0.0/25 }; }
      set p { type ipv4_addr . inet_service; }
      set d { type ipv4_addr; flags dynamic,timeout; timeout 1h; size 100; }
      map v { type inet_service : verdict; }
      chain x { counter; }
      chain y { icmp type echo-request counter name b; }
      chain i { type filter hook input priority 0;
        ip saddr @s counter name a
        ip saddr . tcp dport @p counter
        tcp dport vmap @v
        icmp type echo-request add @d { ip saddr counter }
        tcp dport 1 reject
      }
      chain o { type filter hook output priority 0; tcp dport 2 reject; icmp type echo-reply counter; }
    }";

const RULES: [&str; 12] = [
    "counter",
    "ip protocol icmp counter",
    "icmp type echo-request counter jump x",
    "icmp type { echo-request, echo-reply } counter",
    "ip saddr @s counter name b",
    "ip saddr @s jump y",
    "tcp dport { 1-5, 7, 9-11 } counter comment \"some\"",
    "tcp dport vmap { 5 : drop, 6 : jump x }",
    "tcp dport vmap @v",
    "ip saddr . tcp dport @p counter accept",
    "icmp type echo-request update @d { ip saddr counter }",
    "quota over 1 mbytes counter drop",
];

/// One change, as nft takes it.
fn change(chance: &mut fastrand::Rng, handles: &[(String, u64)]) -> String {
    let of = |chance: &mut fastrand::Rng, all: &[&str]| all[chance.usize(..all.len())].to_owned();
    let chain = of(chance, &["i", "i", "o", "x", "y", "z"]);
    let rule = of(chance, &RULES);
    let known = (!handles.is_empty()).then(|| &handles[chance.usize(..handles.len())]);
    let (of_handle, handle) = known.map_or(("i", 0), |(chain, handle)| (chain, *handle));
    let octet = chance.u8(..30);
    let port = chance.u8(..9);
    match chance.u32(..20) {
        0..=3 => format!("add rule inet t {chain} {rule}"),
        4 | 5 => format!("insert rule inet t {chain} {rule}"),
        6 => format!("add rule inet t {of_handle} position {handle} {rule}"),
        7 => format!("insert rule inet t {of_handle} position {handle} {rule}"),
        8 => format!("replace rule inet t {of_handle} handle {handle} {rule}"),
        9 | 10 => format!("delete rule inet t {of_handle} handle {handle}"),
        11 => format!("add element inet t s {{ 198.18.1.{octet}-198.18.1.{} }}", octet + port),
        12 => format!("delete element inet t s {{ 198.18.1.{octet}-198.18.1.{} }}", octet + port),
        13 => format!("add element inet t p {{ 198.18.0.2 . {port} }}"),
        14 => format!("delete element inet t p {{ 198.18.0.2 . {port} }}"),
        15 => format!("add element inet t v {{ {port} : jump y }}"),
        16 => format!("delete element inet t v {{ {port} }}"),
        17 => format!("add element inet t d {{ 198.18.0.{octet} timeout {}h }}", 2 + port),
        18 => format!("delete element inet t d {{ 198.18.0.{octet} }}"),
        _ => of(
            chance,
            &[
                "add chain inet t z",
                "delete chain inet t z",
                "flush chain inet t z",
                "flush set inet t p",
                "reset counter inet t a",
                "add set inet t w { type inet_service; }; add rule inet t i udp dport @w counter",
            ],
        ),
    }
}

/// The blocks of a listing of a table, by their first lines; elements and times are put in order.
fn blocks(listing: &str) -> BTreeMap<String, Vec<String>> {
    let mut blocks = BTreeMap::new();
    let mut block: Option<(String, Vec<String>)> = None;
    for line in listing.lines() {
        match (line.strip_prefix('\t'), &mut block) {
            (Some(inside), None) if inside.ends_with('{') => {
                block = Some((inside.to_owned(), Vec::new()));
            }
            (Some("}"), Some(_)) => blocks.extend(block.take()),
            (Some(inside), Some((_, lines))) => lines.push(inside.trim().to_owned()),
            _ => {}
        }
    }
    for lines in blocks.values_mut() {
        let at = lines.iter().position(|line| line.starts_with("elements ="));
        let Some(at) = at else { continue };
        let text = lines.split_off(at).join(" ");
        let mut elements: Vec<_> = text.split(['{', ',', '}']).map(str::trim).collect();
        let timed = elements.iter_mut().map(|element| match element.split_once(" expires ") {
            Some((before, after)) => {
                let rest = after.split_once(' ').map_or("", |(_, rest)| rest);
                format!("{before} {rest}").trim().to_owned()
            }
            None => (*element).to_owned(),
        });
        let mut timed: Vec<_> = timed.collect();
        timed.sort();
        lines.extend(timed);
    }
    blocks
}

#[test]
fn nf_tables_has_what_the_ruleset_has_after_any_change() {
    let Some(mut net) = Net::new() else { return };
    if !net.has("nft") {
        return;
    }
    let file = net.directory.join("rules.nft");
    std::fs::write(&file, BEGIN).unwrap();
    net.attach(&format!("--rules {} --with-kernel", file.display()));
    let mut chance = fastrand::Rng::with_seed(penstock_testkit::seed());
    let mut changed = 0;
    for round in 0..penstock_testkit::rounds(120) {
        let listed = net.ok(&net.r, "$PENSTOCK nft -a list table inet t");
        let mut chain = String::new();
        let mut handles = Vec::new();
        for line in listed.lines().map(str::trim) {
            if let Some(rest) = line.strip_prefix("chain ") {
                chain = rest.split(' ').next().unwrap().to_owned();
            } else if let Some((_, handle)) = line.split_once("# handle ")
                && !line.contains('{')
                    | line.contains("vmap {")
                    | line.contains("dport {")
                    | line.contains("type {")
                    | line.contains("@d {")
            {
                handles.push((chain.clone(), handle.trim().parse().unwrap()));
            }
        }
        let count = chance.usize(1..5);
        let lines: Vec<_> = (0..count).map(|_| change(&mut chance, &handles)).collect();
        std::fs::write(&file, lines.join("\n")).unwrap();
        changed += usize::from(net.run(&net.r, &format!("$PENSTOCK nft -f {}", file.display())).0);
        if round % 4 == 0 {
            net.ok(&net.a, "ping -q -c 1 -W 1 198.18.0.1 > /dev/null || true");
        }
        // Packets of IPv6 may come between both listings.
        let mut tries = 10;
        let (ours, kernel_by_name) = loop {
            let ours = net.ok(&net.r, "$PENSTOCK nft list table inet t");
            let kernel_by_name = blocks(&net.ok(&net.r, "nft list table inet t"));
            let mut ours_by_name = blocks(&ours);
            // What no base chain needs is not there.
            ours_by_name.retain(|name, _| kernel_by_name.contains_key(name));
            if ours_by_name == kernel_by_name || tries == 0 {
                break (ours_by_name, kernel_by_name);
            }
            tries -= 1;
        };
        assert_eq!(ours, kernel_by_name, "after {lines:#?}\n{}", net.log());
        for needed in ["chain i {", "chain o {"] {
            assert!(kernel_by_name.contains_key(needed), "{kernel_by_name:#?}");
        }
    }
    println!("{changed} changes were made");
    assert!(changed > 20, "{changed}");
    net.detach();
}
