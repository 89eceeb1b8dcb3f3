// SPDX-License-Identifier: Apache-2.0

//! Translation of every kind: who answers, and whom it sees. The cases of the kernel's `nft_nat.sh`
//! are among them.

use crate::net::Net;

const WHO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/live/who.py");
/// Where all three answer.
const PORT: u16 = 7000;

/// Starts it on A, R and B.
fn serve(net: &mut Net) {
    for name in ['a', 'r', 'b'] {
        net.spawn_in(name, &format!("python3 {WHO} serve {name} {PORT}"));
    }
    for to in ["198.18.0.1", "198.18.1.2"] {
        let answer = |net: &Net| !ask(net, 'a', &format!("tcp {to} {PORT}")).starts_with("nobody");
        net.until("all are there", answer);
    }
    let answer =
        |net: &Net| !ask(net, 'r', &format!("tcp 198.18.0.2 {PORT}")).starts_with("nobody");
    net.until("all are there", answer);
}

/// What is answered.
fn ask(net: &Net, from: char, what: &str) -> String {
    let namespace = net.namespace(from).to_owned();
    net.ok(&namespace, &format!("python3 {WHO} ask {what}")).trim().to_owned()
}

/// Rules, and for each question who asks it, and how the answer begins.
type Case = (&'static str, &'static str, &'static [(char, &'static str, &'static str)]);

const CASES: &[Case] = &[
    (
        "destination, address and port",
        "table ip t {
           chain p { type nat hook prerouting priority dstnat; ip daddr 198.19.0.1 meta l4proto { tcp, udp } th dport 80 dnat to 198.18.1.2:7000; }
         }",
        &[('a', "tcp 198.19.0.1 80", "b 198.18.0.2 "), ('a', "udp 198.19.0.1 80", "b 198.18.0.2 ")],
    ),
    (
        "destination, port only",
        "table inet t { chain p { type nat hook prerouting priority dstnat; tcp dport 8000 dnat to :7000; }; }",
        &[
            ('a', "tcp 198.18.1.2 8000", "b 198.18.0.2 "),
            ('a', "tcp 2001:db8:1::2 8000", "b 2001:db8::2 "),
            ('b', "tcp 198.18.1.1 8000", "r 198.18.1.2 "),
        ],
    ),
    (
        "destination, IPv6",
        "table ip6 t { chain p { type nat hook prerouting priority dstnat; ip6 daddr 2001:db8:9::9 dnat to 2001:db8:1::2; }; }",
        &[('a', "tcp 2001:db8:9::9 7000", "b 2001:db8::2 "), ('a', "udp 2001:db8:9::9 7000", "b 2001:db8::2 ")],
    ),
    (
        "destinations one after the other",
        "table ip t {
           chain p {
             type nat hook prerouting priority dstnat
             ip daddr 198.19.0.1 dnat to numgen inc mod 2 map { 0 : 198.18.1.2, 1 : 198.18.1.1 }
           }
         }",
        &[
            ('a', "tcp 198.19.0.1 7000", "b "),
            ('a', "tcp 198.19.0.1 7000", "r "),
            ('a', "tcp 198.19.0.1 7000", "b "),
        ],
    ),
    (
        "source, with ports from a range",
        "table ip t { chain p { type nat hook postrouting priority srcnat; oif r1 meta l4proto { tcp, udp } snat to 198.18.1.77:4000-4000; }; }",
        &[('a', "tcp 198.18.1.2 7000", "b 198.18.1.77 4000"), ('a', "udp 198.18.1.2 7000", "b 198.18.1.77 4000")],
    ),
    (
        "masqueraded",
        "table inet t { chain p { type nat hook postrouting priority srcnat; oif r1 masquerade; }; }",
        &[
            ('a', "tcp 198.18.1.2 7000 1234", "b 198.18.1.1 1234"),
            ('a', "udp 198.18.1.2 7000 1234", "b 198.18.1.1 1234"),
            ('a', "tcp 2001:db8:1::2 7000", "b 2001:db8:1::1 "),
            ('b', "tcp 198.18.0.2 7000", "a 198.18.1.2 "),
        ],
    ),
    (
        "masqueraded by random ports",
        "table inet t { chain p { type nat hook postrouting priority srcnat; oif r1 meta l4proto { tcp, udp } masquerade to :5000-5001 fully-random; }; }",
        &[
            ('a', "tcp 198.18.1.2 7000 1234", "b 198.18.1.1 500"),
            ('a', "udp 2001:db8:1::2 7000 1234", "b 2001:db8:1::1 500"),
        ],
    ),
    (
        "redirected to the router",
        "table inet t { chain p { type nat hook prerouting priority dstnat; iif r0 tcp dport 81 redirect to :7000; }; }",
        &[
            ('a', "tcp 198.18.1.2 81", "r 198.18.0.2 "),
            ('a', "tcp 2001:db8:1::2 81", "r 2001:db8::2 "),
            ('b', "tcp 198.18.0.2 81", "nobody"),
        ],
    ),
    (
        "whole prefixes",
        "table ip t { chain p { type nat hook prerouting priority dstnat; dnat ip prefix to ip daddr map { 198.19.7.0/24 : 198.18.1.0/24 }; }; }",
        &[('a', "tcp 198.19.7.2 7000", "b 198.18.0.2 "), ('a', "tcp 198.19.7.1 7000", "r 198.18.0.2 ")],
    ),
    (
        "back to where it comes from",
        "table ip t {
           chain p { type nat hook prerouting priority dstnat; ip daddr 198.18.0.1 tcp dport 90 dnat to 198.18.0.2:7000; }
           chain o { type nat hook postrouting priority srcnat; ip daddr 198.18.0.2 oif r0 masquerade; }
         }",
        &[('a', "tcp 198.18.0.1 90", "a 198.18.0.1 ")],
    ),
    (
        "the router's own",
        "table inet t {
           chain p {
             type nat hook output priority -100
             ip daddr 198.19.0.1 dnat ip to 198.18.1.2
             ip6 daddr 2001:db8:9::9 dnat ip6 to 2001:db8:1::2
             tcp dport 91 dnat to :7000
           }
         }",
        &[
            ('r', "tcp 198.19.0.1 7000", "b 198.18.0.1 "),
            ('r', "udp 198.19.0.1 7000", "b 198.18.0.1 "),
            ('r', "tcp 2001:db8:9::9 7000", "b 2001:db8::1 "),
            ('r', "tcp 198.18.1.2 91", "b 198.18.1.1 "),
        ],
    ),
    (
        "without connections",
        "table ip t {
           chain p {
             type filter hook prerouting priority raw
             ip daddr 198.19.0.1 ip daddr set 198.18.1.2 notrack
             ip saddr 198.18.1.2 ip daddr 198.18.0.2 ip saddr set 198.19.0.1 notrack
           }
         }",
        &[('a', "tcp 198.19.0.1 7000", "b 198.18.0.2 "), ('a', "udp 198.19.0.1 7000", "b 198.18.0.2 ")],
    ),
    (
        "a port of the router's that a client behind it has taken",
        "table ip t { chain p { type nat hook postrouting priority srcnat; oif r1 masquerade; }; }",
        &[('a', "udp 198.18.1.2 7000 7000", "b 198.18.1.1 7000"), ('b', "udp 198.18.1.1 7000 7000", "a ")],
    ),
    (
        "the same, with connections of the router's own left out",
        "table ip t {
           chain n { type filter hook prerouting priority raw; iif r1 udp dport 7000 notrack; }
           chain p { type nat hook postrouting priority srcnat; oif r1 masquerade; }
         }",
        &[('b', "udp 198.18.1.1 7000 7000", "r ")],
    ),
];

#[test]
fn every_kind_of_nat_reaches_its_destination() {
    let Some(mut net) = Net::new() else { return };
    serve(&mut net);
    net.ok(
        &net.r,
        "ip route add 198.19.0.0/16 via 198.18.0.2; ip route add 2001:db8:9::/48 via 2001:db8::2",
    );
    // An address for snat, which must be answered for.
    net.ok(&net.r, "ip addr add 198.18.1.77/24 dev r1");
    net.up("r0 r1");
    for (what, rules, asks) in CASES {
        if asks.iter().any(|(_, question, _)| question.split(' ').count() > 3) {
            // A port may be that of a connection of the case before.
            net.down();
            net.up("r0 r1");
        }
        net.nft(&format!("flush ruleset\n{rules}"));
        for (from, question, expected) in *asks {
            let answer = ask(&net, *from, question);
            assert!(
                answer.starts_with(expected),
                "{what}: {from} asks {question}: {answer}, not {expected}\n{}",
                net.ok(&net.r, "$PENSTOCK show; $PENSTOCK show conntrack")
            );
        }
    }
}
