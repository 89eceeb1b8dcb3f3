// SPDX-License-Identifier: Apache-2.0

//! What answers or takes packets for others: synproxy, tproxy, and which system a SYN comes from.

use super::sent;
use crate::net::{NET, SYN_OPTIONS, lan, out4, out6, wan};
use crate::scenario::Scenario;

/// All of them.
pub fn all() -> Vec<Scenario> {
    [fingerprints(), transparent(), synproxy()].concat()
}

// ---- osf ----

/// SYNs of systems that the fingerprints know, of others, and what is no SYN.
fn fingerprints() -> Vec<Scenario> {
    let rules = "table inet t {
	chain pre {
		type filter hook prerouting priority 0;
		osf name \"Linux\" counter
		osf name \"Windows\" counter
		osf name \"unknown\" counter
		osf ttl loose name \"Linux\" counter
		osf ttl skip name \"Linux\" counter
		osf version \"Linux:3.0\" counter
		osf version \"Linux:2.6\" counter
		osf ttl skip version \"Windows:XP\" counter
		osf name { \"FreeBSD\", \"OpenBSD\", \"MacOS\" } counter
		osf name vmap { \"Linux\" : continue, \"NetBSD\" : drop }
		counter
	}
}
";
    let syn = |ttl: u8, window: u16, options: &[u8]| {
        let f = lan().ip4("198.18.0.10", "198.19.0.2").df().ttl(ttl).tcp(4000, 80);
        f.set(14, &window.to_be_bytes()).tcp_options(options)
    };
    let windows = [2, 4, 5, 0xb4, 1, 1, 4, 2];
    let frames = vec![
        syn(64, 5840, &SYN_OPTIONS),
        syn(64, 14600, &SYN_OPTIONS),
        syn(63, 5840, &SYN_OPTIONS),
        syn(20, 5840, &SYN_OPTIONS),
        syn(128, 65535, &windows),
        syn(127, 8192, &windows),
        syn(64, 65535, &[2, 4, 5, 0xb4]),
        syn(64, 1024, &[2, 4, 5, 0xb4]),
        syn(64, 5840, &[]),
        syn(64, 5840, &SYN_OPTIONS[..12]),
        syn(64, 5840, &SYN_OPTIONS).flags(0x12),
        syn(64, 5840, &SYN_OPTIONS).cut(40),
        out4().udp(1, 2),
    ];
    let frames: Vec<_> = frames.into_iter().map(|f| ("lan", f)).collect();
    let scenario = |name| Scenario::new(name, NET, rules).at_once();
    vec![sent(scenario("osf_known").fingerprints(), &frames)]
}

// ---- tproxy ----

const TPROXY: &str = "table inet t {
	chain pre {
		type filter hook prerouting priority mangle;
		meta l4proto tcp socket transparent 1 counter
		meta l4proto udp socket wildcard 0 counter
		udp dport 53 tproxy ip to 198.18.0.1:5300 counter
		udp dport 54 tproxy ip to :5300 counter
		udp dport 55 tproxy ip to 198.18.0.1:5301 counter
		tcp dport 80 tproxy ip to 198.18.0.1:8080 meta mark set 1 counter
		tcp dport 81 tproxy ip to :8081 counter
		udp dport 53 tproxy ip6 to [2001:db8:1::1]:5300 counter
		tcp dport 80 tproxy ip6 to :8080 counter
		counter
	}
	chain in {
		type filter hook input priority 0;
		counter
		udp dport 53 counter
		tcp dport 80 counter
		socket transparent 1 counter
		socket mark 7 counter
		socket wildcard 1 counter
	}
	chain thru {
		type filter hook forward priority 0;
		counter
		udp dport { 53, 54, 55 } counter
		tcp dport { 80, 81 } counter
	}
}
";

/// Packets for sockets that listen elsewhere, and for none.
fn transparent() -> Vec<Scenario> {
    let net = format!(
        "{NET}link set lo up\nroute add local default dev lo table 100\nrule add fwmark 1 lookup \
         100\n"
    );
    let sockets = "\
udp 198.18.0.1:5300 transparent
tcp 198.18.0.1:8080 transparent mark 7
tcp 0.0.0.0:8081 transparent
udp 198.18.0.1:5301
udp [2001:db8:1::1]:5300 transparent
tcp [::]:8080 transparent
";
    let to_mark = TPROXY.replace(" counter\n		tcp", " meta mark set 1 counter\n		tcp");
    let frames: Vec<_> = [
        out4().udp(4000, 53).data(b"query"),
        out4().udp(4000, 54).data(b"query"),
        out4().udp(4000, 55).data(b"query"),
        out4().tcp(4000, 80),
        out4().tcp(4000, 81),
        out4().tcp(4000, 80).flags(0x10),
        out6().udp(4000, 53).data(b"query"),
        out6().tcp(4000, 80),
        lan().ip4("198.18.0.10", "198.18.0.1").tcp(4000, 8080),
        lan().ip4("198.18.0.10", "198.18.0.1").udp(4000, 5300),
        out4().fragment(3, false).id(9).protocol(17).zeros(16),
        out4().udp(4000, 53).cut(38),
    ]
    .into_iter()
    .map(|f| ("lan", f))
    .collect();
    // Lines of `ip -batch` make no rules of IPv6, which would route its packets to the host.
    let four: Vec<_> = frames.iter().filter(|(_, f)| f.bytes()[12] == 8).cloned().collect();
    vec![
        sent(Scenario::new("tproxy_sockets", &net, &to_mark).at_once().sockets(sockets), &four),
        sent(Scenario::new("tproxy_no_socket", &net, &to_mark).at_once(), &frames),
        sent(Scenario::new("tproxy_unrouted", NET, TPROXY).at_once().sockets(sockets), &frames),
    ]
}

// ---- synproxy ----

/// The first packets of connections that a proxy answers. Cookies are of chance: what needs them is
/// in `tests/live`.
fn synproxy() -> Vec<Scenario> {
    let rules = |options: &str| {
        format!(
            "table inet t {{
	chain raw {{
		type filter hook prerouting priority raw;
		tcp dport 80 tcp flags syn notrack counter
	}}
	chain thru {{
		type filter hook forward priority 0;
		ct state invalid counter
		ct state untracked counter
		ct state new counter
		tcp dport 80 ct state invalid,untracked counter synproxy {options}
		counter
		ct state invalid drop
	}}
	chain out {{
		type filter hook output priority 0;
		counter
		tcp flags == syn | ack counter
		ct state untracked counter
	}}
}}
"
        )
    };
    let back = || wan().ip4("198.19.0.2", "198.18.0.10").tcp(80, 4000);
    let frames = vec![
        ("lan", out4().tcp(4000, 80).tcp_options(&SYN_OPTIONS)),
        ("lan", out4().tcp(4001, 80)),
        ("lan", out4().df().tos(0x10).tcp(4002, 80).tcp_options(&[2, 4, 2, 0x18])),
        ("lan", out4().tcp(4003, 80).tcp_options(&[2, 4, 5, 0xb4, 3, 3, 9, 0])),
        ("lan", out4().tcp(4004, 80).flags(0xc2).tcp_options(&SYN_OPTIONS)),
        ("lan", out4().tcp(4005, 80).flags(0x10)),
        ("lan", out4().tcp(4006, 80).flags(0x11)),
        ("lan", out4().tcp(4007, 80).flags(4)),
        ("lan", out4().tcp(4008, 81).tcp_options(&SYN_OPTIONS)),
        ("lan", out6().tcp(4000, 80).tcp_options(&SYN_OPTIONS)),
        ("lan", out6().tcp(4001, 80)),
        ("lan", out6().tcp(4002, 80).flags(0x10)),
        ("wan", back().flags(0x12)),
        ("wan", back().flags(4)),
    ];
    let mut all = vec![];
    for (name, options) in [
        ("plain", ""),
        ("mss", "mss 1000"),
        ("wscale", "wscale 5"),
        ("sack", "sack-perm"),
        ("timestamp", "timestamp"),
        ("all", "mss 1400 wscale 9 timestamp sack-perm"),
    ] {
        let scenario = Scenario::new(&format!("synproxy_{name}"), NET, &rules(options));
        let scenario = scenario.at_once().sysctl("net.netfilter.nf_conntrack_tcp_loose", 0);
        all.push(sent(scenario, &frames));
    }
    all
}
