// SPDX-License-Identifier: Apache-2.0

//! Rulesets that the kernel runs as BPF programs: against the same rulesets in its nf_tables.

use crate::net::Net;

/// Rulesets, with a word about each.
const RULESETS: [(&str, &str); 5] = [
    (
        "ingress and egress of devices",
        "table netdev t {
           set ports { type inet_service; elements = { 9000, 9001 }; }
           map bad { type ipv4_addr . inet_service : verdict; counter;
             elements = { 198.18.1.2 . 9001 : drop, 198.18.0.1 . 53 : jump seen } }
           counter every { }
           chain seen { counter; }
           chain in { type filter hook ingress device r0 priority 0; policy accept;
             meta l4proto udp counter name every
             ip protocol udp ip daddr . udp dport vmap @bad
             udp dport @ports counter
             ip6 daddr 2001:db8:1::/64 udp dport 9002 counter drop
             ether saddr 02:00:00:00:0a:00 udp length > 200 counter
             meta iifname r0 udp dport 5000-9000 counter
           }
           chain late { type filter hook ingress device r0 priority 10; udp dport 53 counter; }
           chain out { type filter hook egress devices = { r0, r1 } priority 0;
             udp dport 53 counter
             udp sport 9000 meta oifname r0 counter drop
             meta oifname r1 meta length > 1000 udp dport 9000 counter
           }
         }",
    ),
    (
        "an inet table at all hooks of IP",
        "table inet t {
           set known { type inet_service; flags interval; elements = { 53, 5000-5999, 9000-9001 }; }
           chain pre { type filter hook prerouting priority -150; udp dport 1-10000 counter; }
           chain input { type filter hook input priority 0;
             iifname r0 udp dport 9001 counter drop
             udp dport @known counter accept
             udp dport 9002 counter
           }
           chain forward { type filter hook forward priority 0; policy accept;
             iifname r0 oifname r1 jump there
             iifname r1 oifname r0 jump back
             udp sport 53 counter
           }
           chain there {
             udp dport 5000 meta nfproto ipv4 counter drop
             udp dport 5000 meta nfproto ipv6 counter return
             meta mark 0 udp dport 9000 counter
             udp dport { 53, 9000 } counter accept
             udp dport 9001 goto end
             counter
           }
           chain back { udp sport 9002 meta length < 100 counter drop; }
           chain end { counter; }
           chain output { type filter hook output priority 0; udp sport 9000 oifname r0 counter; }
           chain post { type filter hook postrouting priority 100; meta l4proto udp counter; }
         }",
    ),
    (
        "tables of both families, at several priorities of a hook",
        "table ip t {
           chain early { type filter hook prerouting priority raw; udp dport 53 counter accept; ip frag-off & 0x1fff != 0 counter; }
           chain later { type filter hook prerouting priority mangle; udp dport 53 counter; }
           chain same { type filter hook forward priority 5; policy drop;
             ip saddr . ip daddr { 198.18.0.2 . 198.18.1.2 } udp dport != 9001 counter accept
             ip saddr 198.18.1.0/24 counter accept
             icmp type echo-request counter accept
             ip protocol udp counter
           }
         }
         table ip6 t {
           chain early { type filter hook prerouting priority raw; udp dport 53 counter accept; ip6 nexthdr 44 counter; }
           chain same { type filter hook forward priority 5;
             ip6 saddr 2001:db8::/64 ip6 daddr 2001:db8:1::2 udp dport vmap { 53 : accept, 9000 : drop, 9002 : accept }
             ip6 nexthdr udp counter
             icmpv6 type echo-request counter drop
           }
         }
         table inet u {
           chain same { type filter hook forward priority 5; udp dport 9002 counter; }
         }",
    ),
    (
        "connections",
        "table inet t {
           chain forward { type filter hook forward priority 0; policy drop;
             ct state invalid counter drop
             ct state established udp sport 9000 counter accept
             ct state established,related counter accept
             iifname r0 udp dport { 53, 9000, 9001 } ct state new counter accept
             meta l4proto udp counter
             meta l4proto { icmp, icmpv6 } accept
           }
           chain input { type filter hook input priority 0;
             ct state new udp dport 9002 counter drop
             ct state established udp dport 53 counter
           }
         }",
    ),
    (
        "counters, marks and random numbers as objects and keys",
        "table inet t {
           counter a { packets 7 bytes 700 }
           map counts { type inet_service : counter; elements = { 53 : a, 9000 : a } }
           chain forward { type filter hook forward priority 0;
             counter name udp dport map @counts
             udp dport 5000 counter packets 3 bytes 300
             numgen random mod 1 == 0 udp dport 5000 counter
             jhash udp dport mod 2 == 0 counter
             @th,16,16 9000 counter
           }
         }",
    ),
];

/// What A asks of B and of R.
const ASKED: &str = "198.18.1.2 198.18.0.1 2001:db8:1::2 2001:db8::1";

/// Echoes datagrams on B and R.
fn serve(net: &mut Net) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/live/attached.py");
    // Rules read the transport header of a later fragment of IPv6 in its network header, where flow
    // labels are.
    for namespace in [&net.a, &net.b, &net.r] {
        net.ok(namespace, "sysctl -qw net.ipv6.auto_flowlabels=0");
    }
    for end in ['b', 'r'] {
        net.spawn_in(end, &format!("python3 {script} serve"));
    }
    for address in ASKED.split(' ') {
        net.until("the servers are there", |net| {
            let asked = net.ok(&net.a, &format!("python3 {script} ask {address}"));
            asked.lines().all(|line| line.ends_with(" 12"))
        });
    }
}

/// Sends the traffic; what was answered.
fn traffic(net: &Net) -> String {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/live/attached.py");
    net.ok(&net.a, &format!("python3 {script} ask {ASKED}"))
}

#[test]
fn an_attached_ruleset_does_what_nf_tables_does_with_it() {
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
        let answered = traffic(&net);
        let listed = kernel(&net, "list ruleset");
        kernel(&net, "flush ruleset");
        net.ok(&net.r, "conntrack -F 2>/dev/null || true");
        net.attach(&format!("--rules {}", file.display()));
        let attached = traffic(&net);
        let shown = net.ok(&net.r, "$PENSTOCK nft list ruleset");
        net.detach();
        assert_eq!(attached, answered, "{about}");
        assert_eq!(shown, listed, "{about}");
    }
}
