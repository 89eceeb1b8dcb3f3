// SPDX-License-Identifier: Apache-2.0

//! Chains at ingress of which the leading rules are programs, and nf_tables runs the rest.

use crate::attach::{listing, serve, traffic};
use crate::net::Net;

/// The first four rules of `in` count and drop; the fifth changes packets.
const RULES: &str = "table netdev e {
	set bad {
		type ipv4_addr
		flags interval
		elements = { 198.18.66.0/24 }
	}
	chain early {
		type filter hook ingress device \"r0\" priority -5; policy accept;
		udp dport 53 counter
	}
	chain in {
		type filter hook ingress devices = { r0, r1 } priority 0; policy accept;
		udp dport 5000 counter drop
		ip saddr @bad counter drop
		udp dport 9000 limit rate 1/hour burst 4 packets counter
		udp dport vmap { 9001 : drop, 9002 : continue } counter
		ip protocol udp udp dport 9000 ip ttl set 9 counter
		udp dport 9002 counter drop
		meta l4proto udp counter
	}
	chain late {
		type filter hook ingress device \"r0\" priority 5; policy accept;
		udp dport 5000-9002 counter
		ip ttl 9 counter
	}
}
";

fn attached(net: &mut Net, rules: &str) {
    let file = net.directory.join("rules.nft");
    std::fs::write(&file, rules).unwrap();
    net.attach(&format!("--rules {} --with-kernel", file.display()));
}

#[test]
fn leading_rules_of_a_chain_in_nf_tables_are_programs() {
    let Some(mut net) = Net::new() else { return };
    if !net.has("nft") {
        return;
    }
    serve(&mut net);
    let file = net.directory.join("rules.nft");
    std::fs::write(&file, RULES).unwrap();
    net.ok(&net.r, &format!("nft -f {}", file.display()));
    let answers = traffic(&net);
    let listed = net.ok(&net.r, "nft list ruleset; nft flush ruleset");
    attached(&mut net, RULES);
    assert_eq!(traffic(&net), answers);
    let shown = net.ok(&net.r, "$PENSTOCK nft list ruleset");
    assert_eq!(listing(&shown), listing(&listed));

    let nft = |net: &Net, line: &str| net.ok(&net.r, &format!("$PENSTOCK nft '{line}'"));
    let places = net.ok(&net.r, "$PENSTOCK show");
    for line in
        ["netdev e early, netdev e in (its first 4 rules)\n", "chain netdev e in from handle "]
    {
        assert!(places.contains(line), "{places}");
    }
    let there = |net: &Net| net.ok(&net.r, "nft list chain netdev e in");
    assert!(!there(&net).contains("5000") && there(&net).contains("ttl set"), "{}", there(&net));

    // What comes before them brings all of them to nf_tables, with what they have counted.
    nft(&net, "insert rule netdev e in udp dport 1 accept");
    assert!(there(&net).contains("5000"), "{}", there(&net));
    let places = net.ok(&net.r, "$PENSTOCK show");
    assert!(!places.contains("its first"), "{places}");
    let without_first = |text: &str| -> Vec<String> {
        text.lines().filter(|line| !line.contains("dport 1 accept")).map(str::to_owned).collect()
    };
    assert_eq!(without_first(&nft(&net, "list ruleset")), without_first(&shown));
    traffic(&net);
    let dropped = |text: &str| -> u64 {
        let line = text.lines().find(|line| line.contains("dport 5000 counter")).unwrap();
        line.split("packets ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap()
    };
    let later = nft(&net, "list chain netdev e in");
    assert_eq!(dropped(&later), 2 * dropped(&shown), "{later}");

    // They stay there.
    nft(&net, "flush chain netdev e early; reset rules");
    assert!(there(&net).contains("5000"), "{}", there(&net));
    net.detach();
    assert!(!net.ok(&net.r, "nft list ruleset").contains("table"), "nothing stays");
}
