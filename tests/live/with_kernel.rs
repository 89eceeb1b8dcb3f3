// SPDX-License-Identifier: Apache-2.0

//! Rulesets of which the kernel's nf_tables runs what has no BPF code (`penstock attach
//! --with-kernel`): against the same rulesets in nf_tables alone.

use crate::attach::{answers, listing, serve, traffic};
use crate::net::{Net, sh};

/// Rulesets, with a word about each.
const RULESETS: [(&str, &str); 5] = [
    (
        "a firewall of a host with reject, and address translation",
        "table inet t {
           set ports { type inet_service; elements = { 53, 9000 }; }
           chain input { type filter hook input priority 0; policy drop;
             ct state established counter accept
             meta l4proto { icmp, icmpv6 } accept
             udp dport @ports counter accept
             udp dport 5000 counter reject
             counter
           }
           chain forward { type filter hook forward priority 0;
             udp dport @ports counter
             udp dport 9001 counter drop
           }
           chain output { type filter hook output priority 0; meta l4proto udp counter; }
         }
         table ip n {
           map to { type inet_service : ipv4_addr; elements = { 9002 : 198.18.1.2 }; }
           chain pre { type nat hook prerouting priority dstnat;
             ip daddr 198.18.0.1 counter dnat to udp dport map @to
           }
           chain post { type nat hook postrouting priority srcnat; oifname r1 counter masquerade; }
         }",
    ),
    (
        "chains that share what packets change",
        "table inet t {
           counter every { packets 7 bytes 700 }
           quota few { over 20 kbytes }
           set seen { type ipv4_addr . inet_service; flags dynamic,timeout; timeout 1h; size 100; }
           chain pre { type filter hook prerouting priority -150;
             udp dport 1-10000 counter name every
           }
           chain input { type filter hook input priority 0;
             ip protocol udp add @seen { ip saddr . udp dport counter } counter name every
             udp dport 5000 reject
           }
           chain forward { type filter hook forward priority 0;
             ip saddr . udp dport @seen counter
             udp dport 9001 quota name few counter drop
           }
           chain post { type filter hook postrouting priority 0; udp dport 9001 counter; }
         }",
    ),
    (
        "a chain that both halves call, with and without state",
        "table inet t {
           chain plain { udp dport 53 accept; }
           chain counting { udp dport 9000 counter accept; }
           chain a { type filter hook forward priority 0; jump plain; udp dport 9001 counter drop; }
           chain b { type filter hook input priority 0; jump plain; udp dport 9001 reject; }
           chain c { type filter hook output priority 0; jump counting; }
           chain d { type filter hook prerouting priority 5; jump counting; udp dport 9002 notrack; }
         }",
    ),
    (
        "chains of one device before and after one without code",
        "table netdev e {
           chain first { type filter hook ingress device r0 priority -10; udp dport 53 counter; }
           chain second { type filter hook ingress device r0 priority 0;
             ip protocol udp udp dport 9000 ip ttl set 3 counter
             udp dport 5000 counter drop
           }
           chain third { type filter hook ingress device r0 priority 10; ip ttl 3 counter; udp dport 5000-9000 counter; }
           chain out { type filter hook egress device r0 priority 0; udp sport 53 counter; }
           chain later { type filter hook egress device r0 priority 10; udp sport 53 ip dscp set 1 counter; }
           chain last { type filter hook egress device r0 priority 20; udp sport 53 ip dscp 1 counter; }
         }",
    ),
    (
        "sets of all kinds, chains without a name, limits and maps",
        "table inet t {
           set ranges { type ipv4_addr; flags interval; elements = { 198.18.0.0-198.18.0.9, 198.18.0.10, 198.18.1.0/24 }; }
           set pairs { type ipv4_addr . inet_service; flags interval; elements = { 198.18.0.0/24 . 9000-9001 }; }
           set counted { type inet_service; counter; elements = { 53, 5000 comment \"five\" }; }
           map verdicts { type inet_service : verdict; elements = { 9001 : jump seen, 9002 : drop }; }
           chain seen { counter; }
           chain forward { type filter hook forward priority 0;
             ip saddr @ranges counter
             ip saddr . udp dport @pairs counter comment \"pairs\"
             udp dport @counted counter
             udp dport vmap @verdicts
             udp dport { 53, 5000-5001, 5002 } jump { counter; udp dport 53 counter return; }
             udp dport 9000 limit rate 1/hour burst 4 packets counter accept
             udp dport 9000 counter drop
             udp dport 1 reject
           }
         }",
    ),
];

/// The tables of the kernel's nf_tables that are neither the tracker's nor of others.
fn tables(net: &Net) -> Vec<String> {
    let all = net.ok(&net.r, "nft list tables");
    let own = all.lines().filter(|line| !line.contains("penstock-tracking"));
    own.map(str::to_owned).collect()
}

fn penstock_nft(net: &Net, line: &str) -> String {
    net.ok(&net.r, &format!("$PENSTOCK nft '{line}'"))
}

#[test]
fn both_halves_do_what_nf_tables_does_alone() {
    let Some(mut net) = Net::new() else { return };
    if !net.has("nft") {
        return;
    }
    serve(&mut net);
    let file = net.directory.join("rules.nft");
    let kernel = |net: &Net, command: &str| net.ok(&net.r, &format!("nft {command}"));
    for (about, rules) in RULESETS {
        std::fs::write(&file, rules).unwrap();
        net.ok(&net.r, "conntrack -F 2>/dev/null || true");
        kernel(&net, &format!("-f {}", file.display()));
        let answers = traffic(&net);
        let listed = kernel(&net, "list ruleset");
        kernel(&net, "flush ruleset");
        net.ok(&net.r, "conntrack -F 2>/dev/null || true");
        net.attach(&format!("--rules {} --with-kernel", file.display()));
        assert!(!tables(&net).is_empty(), "{about}");
        let attached = traffic(&net);
        let shown = penstock_nft(&net, "list ruleset");
        let state = net.ok(&net.r, "$PENSTOCK show");
        net.detach();
        assert_eq!(attached, answers, "{about}\n{state}");
        assert_eq!(listing(&shown), listing(&listed), "{about}\n{state}");
        assert_eq!(tables(&net), [""; 0], "{about}");
    }
}

/// Programs at `output` and `forward`, nf_tables at `input`.
const HALVES: &str = "
    table inet t {
      set dropped { type inet_service; elements = { 9000 }; }
      set seen { type ipv4_addr; flags dynamic,timeout; timeout 1h; size 100; }
      counter asked { }
      quota budget { 1 mbytes }
      chain f { type filter hook forward priority 0; udp dport @dropped counter drop; }
      chain i { type filter hook input priority 0;
        ip saddr @seen counter
        udp dport 53 add @seen { ip saddr counter } counter name asked quota name budget
        udp dport @dropped counter reject
      }
    }";

fn attach_halves(net: &mut Net, args: &str) {
    let file = net.directory.join("rules.nft");
    std::fs::write(&file, HALVES).unwrap();
    net.attach(&format!("--rules {} --with-kernel {args}", file.display()));
}

/// Which ports of a host answer A.
fn ports(net: &Net, host: &str) -> [bool; 4] {
    let said = answers(net, host);
    [53, 5000, 9000, 9001].map(|port| said.contains(&format!("{host} {port} 12\n")))
}

const HOST: &str = "198.18.0.1";
const BEHIND: &str = "198.18.1.2";

/// Packets and bytes, or what is used, in a listing.
fn number(text: &str, word: &str) -> u64 {
    let at = text.find(word).unwrap_or_else(|| panic!("{word}: {text}")) + word.len();
    text[at..].split([' ', '\n']).next().unwrap().parse().unwrap()
}

#[test]
fn changes_reach_both_halves_and_keep_what_has_counted() {
    let Some(mut net) = Net::new() else { return };
    serve(&mut net);
    attach_halves(&mut net, "");
    let shown = net.ok(&net.r, "$PENSTOCK show");
    let (programs, kernel) = shown.split_once("runs in nf_tables").unwrap();
    assert!(programs.contains("inet t f") && !programs.contains("inet t i"), "{shown}");
    let line = "chain inet t i at hook ip input at priority 0: `reject` has no BPF code";
    assert!(kernel.contains(line), "{shown}");
    let json = net.ok(&net.r, "$PENSTOCK show --json");
    assert!(json.contains("\"in_nf_tables\":[{\"what\":\"chain inet t i\""), "{json}");

    assert_eq!(ports(&net, HOST), [true, true, false, true]);
    assert_eq!(ports(&net, BEHIND), [true, true, false, true]);
    penstock_nft(
        &net,
        "add element inet t dropped { 9001 }; delete element inet t dropped { 9000 }",
    );
    assert_eq!(ports(&net, HOST), [true, true, true, false]);
    assert_eq!(ports(&net, BEHIND), [true, true, true, false]);

    // Rules come and go in nf_tables, each to its place.
    let before = number(&penstock_nft(&net, "list counter inet t asked"), "packets ");
    penstock_nft(&net, "insert rule inet t i udp dport 5000 counter drop");
    let rules = net.ok(&net.r, "$PENSTOCK nft -a list chain inet t i");
    let handle =
        number(rules.lines().find(|line| line.contains("@seen counter")).unwrap(), "handle ");
    penstock_nft(&net, &format!("add rule inet t i position {handle} udp dport 5001 counter"));
    penstock_nft(
        &net,
        &format!("replace rule inet t i handle {handle} ip saddr @seen counter accept"),
    );
    let kernel = net.ok(&net.r, "nft list chain inet t i");
    let order =
        ["5000", "@seen", "5001", "add @seen", "@dropped"].map(|word| kernel.find(word).unwrap());
    assert!(order.is_sorted(), "{kernel}");
    assert_eq!(ports(&net, BEHIND), [true, true, true, false]);
    let flat = |text: String| {
        let rules = text.lines().filter(|line| line.contains("udp") || line.contains("@"));
        rules.map(|line| line.trim().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(
        flat(penstock_nft(&net, "list chain inet t i")),
        flat(net.ok(&net.r, "nft list chain inet t i"))
    );

    // What is reset begins anew in the kernel.
    assert_eq!(number(&penstock_nft(&net, "reset counter inet t asked"), "packets "), before);
    assert_eq!(number(&penstock_nft(&net, "list counter inet t asked"), "packets "), 0);
    assert_eq!(number(&net.ok(&net.r, "nft list counter inet t asked"), "packets "), 0);
    assert!(penstock_nft(&net, "list quota inet t budget").contains("used "));
    penstock_nft(&net, "reset quota inet t budget");
    for listed in [
        penstock_nft(&net, "list quota inet t budget"),
        net.ok(&net.r, "nft list quota inet t budget"),
    ] {
        assert!(!listed.contains("used "), "{listed}");
    }

    // Packets and clients change a set.
    let seen = |net: &Net| penstock_nft(net, "list set inet t seen");
    assert!(seen(&net).contains("198.18.0.2 "), "{}", seen(&net));
    let kernel = |net: &Net| net.ok(&net.r, "nft list set inet t seen");
    penstock_nft(&net, "delete element inet t seen { 198.18.0.2 }");
    assert!(!seen(&net).contains("198.18.0.2 ") && !kernel(&net).contains("198.18.0.2 "));
    penstock_nft(
        &net,
        "add element inet t seen { 198.18.0.77 timeout 1s, 198.18.0.78 counter packets 5 bytes 50 }",
    );
    assert!(kernel(&net).contains("198.18.0.78 counter packets 5 bytes 50"), "{}", kernel(&net));
    net.until("the element expires", |net| !seen(net).contains("198.18.0.77"));
    assert!(seen(&net).contains("198.18.0.78 counter packets 5 bytes 50"), "{}", seen(&net));
    penstock_nft(&net, "flush set inet t seen");
    assert!(!kernel(&net).contains("198.18.0.78"), "{}", kernel(&net));

    // A change that nobody confirms is taken back in both halves.
    net.ok(&net.r, "$PENSTOCK nft --confirm 1 'flush ruleset' || true");
    net.until("the ruleset is back", |net| tables(net) == ["table inet t"]);
    assert_eq!(ports(&net, BEHIND), [true, true, true, false]);
    net.detach();
    assert_eq!(tables(&net), [""; 0]);
    assert_eq!(ports(&net, HOST), [true; 4]);
}

#[test]
fn a_change_that_one_half_refuses_changes_neither() {
    let Some(mut net) = Net::new() else { return };
    serve(&mut net);
    attach_halves(&mut net, "");
    let r = net.r.clone();
    net.ok(&r, "nft add table ip other");
    for (line, message) in [
        // nf_tables has a table of that name which is not ours.
        (
            "add rule inet t f udp dport 9001 drop; \
             add element inet t seen { 198.18.0.99 }; \
             add table ip other; add chain ip other n { type nat hook prerouting priority 0; }",
            "table ip other is in nf_tables already, and is not of this ruleset",
        ),
        // It has no connection at ingress, and this chain cannot be a program.
        (
            "add rule inet t f udp dport 9001 drop; \
             add chain inet t n { type filter hook ingress device r0 priority 0; }; \
             add rule inet t n ct state new ip ttl set 3",
            "it asks for connections, which nf_tables does not have at ingress",
        ),
    ] {
        for option in ["", "-c "] {
            let (ok, said) = net.run(&r, &format!("$PENSTOCK nft {option}'{line}'"));
            assert!(!ok && said.contains(message), "{line}: {said}");
        }
        assert_eq!(ports(&net, BEHIND), [true, true, false, true], "{line}");
        assert_eq!(ports(&net, HOST), [true, true, false, true], "{line}");
        assert_eq!(tables(&net), ["table inet t", "table ip other"], "{line}");
        assert!(!penstock_nft(&net, "list set inet t seen").contains("198.18.0.99"), "{line}");
    }
    // Nobody else changes the tables by accident.
    let (ok, said) = net.run(&r, "nft flush chain inet t i");
    assert!(!ok && said.contains("Operation not permitted"), "{said}");
    net.ok(&r, "nft flush ruleset");
    assert_eq!(ports(&net, HOST), [true, true, false, true]);
    // The file is read again, also where chains go from one half to the other.
    let file = net.directory.join("rules.nft");
    std::fs::write(
        &file,
        format!("flush ruleset\n{}", HALVES.replace("counter drop", "counter reject")),
    )
    .unwrap();
    sh(&format!("kill -HUP {}", net.pid()));
    net.until("the chain is in nf_tables", |net| {
        net.ok(&net.r, "nft list ruleset").contains("chain f {")
    });
    assert_eq!(ports(&net, BEHIND), [true, true, false, true]);
    assert!(penstock_nft(&net, "list chain inet t f").contains("reject"));
    std::fs::write(
        &file,
        "flush ruleset; table inet u { chain o { type filter hook output priority 0; counter; }; }",
    )
    .unwrap();
    sh(&format!("kill -HUP {}", net.pid()));
    net.until("nothing is in nf_tables", |net| tables(net).is_empty());
    assert_eq!(ports(&net, HOST), [true; 4]);
    net.detach();
}

#[test]
fn nothing_stays_in_nf_tables_but_what_is_to_stay() {
    let Some(mut net) = Net::new() else { return };
    serve(&mut net);
    attach_halves(&mut net, "");
    assert_eq!(tables(&net), ["table inet t"]);
    net.kill_both();
    net.until("the tables go with the process", |net| {
        net.ok(&net.r, "nft list tables").trim().is_empty()
    });
    assert!(!net.run(&net.r, "nft list hooks").1.contains("bpf"));
    net.ok(&net.r, "$PENSTOCK detach --if-attached");

    let directory = net.directory.join("bpf");
    std::fs::create_dir(&directory).unwrap();
    sh(&format!("mount -t bpf bpf {}", directory.display()));
    let persist = format!("--persist {}", directory.display());
    attach_halves(&mut net, &persist);
    let kept = [true, true, false, true];
    assert_eq!([ports(&net, HOST), ports(&net, BEHIND)], [kept; 2]);
    net.kill_both();
    assert_eq!([ports(&net, HOST), ports(&net, BEHIND)], [kept; 2]);
    assert_eq!(tables(&net), ["table inet t"]);
    // The next process goes on, with another ruleset.
    let file = net.directory.join("rules.nft");
    std::fs::write(
        &file,
        "table inet t {
           chain i { type filter hook input priority 0; udp dport 9001 reject; }
           chain f { type filter hook forward priority 0; udp dport 9001 drop; }
         }
         table ip n { chain p { type nat hook postrouting priority srcnat; masquerade; }; }",
    )
    .unwrap();
    net.attach(&format!("--rules {} --with-kernel {persist}", file.display()));
    let other = [true, true, true, false];
    assert_eq!([ports(&net, HOST), ports(&net, BEHIND)], [other; 2]);
    assert_eq!(tables(&net), ["table inet t", "table ip n"]);
    net.kill_both();
    assert_eq!([ports(&net, HOST), ports(&net, BEHIND)], [other; 2]);
    // One without nf_tables takes its tables away.
    std::fs::write(
        &file,
        "table inet t { chain f { type filter hook forward priority 0; udp dport 53 drop; }; }",
    )
    .unwrap();
    net.attach(&format!("--rules {} {persist}", file.display()));
    assert_eq!(ports(&net, BEHIND), [false, true, true, true]);
    assert_eq!(tables(&net), [""; 0]);
    net.detach();
    attach_halves(&mut net, &persist);
    net.kill_both();
    net.ok(&net.r, "$PENSTOCK detach");
    assert_eq!([ports(&net, HOST), ports(&net, BEHIND)], [[true; 4]; 2]);
    assert_eq!(tables(&net), [""; 0]);
    attach_halves(&mut net, &persist);
    net.detach();
    assert_eq!(tables(&net), [""; 0]);
    let names = std::fs::read_dir(&directory).unwrap().map(|e| e.unwrap().file_name());
    let left: Vec<_> = names.filter(|n| n.to_string_lossy().contains("penstock")).collect();
    assert!(left.is_empty(), "{left:?}");
    sh(&format!("umount {}", directory.display()));
}
