// SPDX-License-Identifier: Apache-2.0

//! What happens to connections and expectations, event by event: marks, labels, zones, timeouts by
//! policies, and which events a rule asks for.

use std::time::Duration;

use super::sent;
use crate::frame::Frame;
use crate::net::{NET, out4, out6, wan};
use crate::scenario::Scenario;

/// All of them.
pub fn all() -> Vec<Scenario> {
    [plain(), expectations(), timeouts()].concat()
}

/// A packet of the server.
pub fn back4() -> Frame {
    wan().ip4("198.19.0.2", "198.18.0.10")
}

fn back6() -> Frame {
    wan().ip6("2001:db8:2::2", "2001:db8:1::10")
}

/// A TCP segment of the client (0) or the server (1) of a connection to a port.
fn segment(
    from: usize,
    port: u16,
    flags: u8,
    seq: u32,
    ack: u32,
    text: &[u8],
) -> (&'static str, Frame) {
    let (source, frame) = match from {
        0 => ("lan", out4().tcp(40000, port)),
        _ => ("wan", back4().tcp(port, 40000)),
    };
    let frame = frame.flags(flags).set(4, &seq.to_be_bytes()).set(8, &ack.to_be_bytes());
    (source, frame.set(14, &[0x20, 0]).data(text))
}

/// A TCP connection to a port in which each end says things, and how it ends.
pub fn talk(
    port: u16,
    speech: &[(usize, &[u8])],
    end: &[(usize, u8)],
) -> Vec<(&'static str, Frame)> {
    let mut next = [1001u32, 5001];
    let mut frames = vec![
        segment(0, port, 2, 1000, 0, b""),
        segment(1, port, 0x12, 5000, 1001, b""),
        segment(0, port, 0x10, 1001, 5001, b""),
    ];
    for &(from, text) in speech {
        frames.push(segment(from, port, 0x18, next[from], next[1 - from], text));
        next[from] += text.len() as u32;
    }
    for &(from, flags) in end {
        frames.push(segment(from, port, flags, next[from], next[1 - from], b""));
        next[from] += u32::from(flags & 1 != 0);
    }
    frames
}

const CLOSE: [(usize, u8); 4] = [(0, 0x11), (1, 0x10), (1, 0x11), (0, 0x10)];

/// A scenario in which events are listened to.
pub fn on(name: &str, rules: &str) -> Scenario {
    Scenario::new(&format!("events_{name}"), NET, rules).at_once().events()
}

// ---- connections ----

/// Counts states of connections.
pub const STATES: &str = "		ct state new counter
		ct state established counter
		ct state related counter
		ct state invalid counter
";

fn forward(lines: &str) -> String {
    format!(
        "table inet t {{\n\tchain f {{\n\t\ttype filter hook forward priority 0;\n{STATES}{lines}\n\t}}\n}}\n"
    )
}

fn plain() -> Vec<Scenario> {
    let tcp = talk(80, &[(0, b"GET /"), (1, b"200")], &CLOSE);
    let reset = talk(80, &[(0, b"GET /")], &[(1, 4), (0, 0x10)]);
    let udp = vec![
        ("lan", out4().udp(4000, 53).data(b"question")),
        ("wan", back4().udp(53, 4000).data(b"an answer")),
        ("lan", out4().udp(4000, 53).data(b"question")),
        ("lan", out6().udp(4000, 53).data(b"question")),
        ("wan", back6().udp(53, 4000).data(b"an answer")),
        ("lan", out4().icmp(8, 0, 0x10001).zeros(8)),
        ("wan", back4().icmp(0, 0, 0x10001).zeros(8)),
        ("lan", out4().transport(47, &[0x20, 1, 0x88, 0x0b, 0, 4, 0, 9]).zeros(4)),
        ("lan", out4().protocol(253).data(b"unknown")),
        ("lan", out4().transport(33, &[0, 80, 0x1f, 0x90, 3, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 9])),
        ("wan", back4().icmp(3, 3, 0).data(&out4().udp(4000, 53).data(b"question").bytes()[14..])),
    ];
    // DCCP has no ports since Linux 6.16 (docs/differences.md).
    let udp_alone: Vec<_> =
        udp.iter().enumerate().filter(|(n, _)| *n != 9).map(|(_, f)| f.clone()).collect();
    let mut all = vec![
        sent(on("tcp", &forward("")), &tcp),
        sent(on("tcp_reset", &forward("")), &reset),
        sent(on("other_protocols", &forward("")), &udp_alone),
        sent(on("dropped", &forward("\t\tdrop")), &udp_alone),
        sent(on("counted", &forward("")).sysctl("net.netfilter.nf_conntrack_acct", 1), &tcp),
        sent(on("tcp_begun_again", &forward("")), &[&tcp[..], &tcp].concat()),
        sent(on("reset_begun_again", &forward("")), &[&reset[..], &tcp].concat()),
    ];
    for (name, lines) in [
        ("marks", "\t\tct mark set 7"),
        ("marks_of_packets", "\t\tmeta mark set 5\n\t\tct mark set meta mark or 1"),
        ("marks_later", "\t\tct state established ct mark set ct mark or 2"),
        ("labels", "\t\tct label set 5"),
        ("destroy_alone", "\t\tct event set destroy"),
        ("zone", "\t\tct zone 3 counter"),
    ] {
        all.push(sent(on(name, &forward(lines)), &tcp));
        all.push(sent(on(&format!("{name}_udp"), &forward(lines)), &udp[..5]));
    }
    let zones = forward("").replace(
        "table inet t {",
        "table inet t {\n\tchain raw {\n\t\ttype filter hook prerouting priority raw;\n\t\tct zone set 4\n\t}",
    );
    all.push(sent(on("zones", &zones), &udp_alone));
    all
}

// ---- objects ----

fn expectations() -> Vec<Scenario> {
    let rules = |object: &str| {
        format!(
            "table ip t {{
	ct expectation e {{
		{object}
	}}
	chain f {{
		type filter hook forward priority 0;
{STATES}		ct state new tcp dport 21 counter ct expectation set e
	}}
}}
"
        )
    };
    let frames = [
        &talk(21, &[(0, b"hello")], &[])[..],
        &[
            ("wan", back4().tcp(77, 4000)),
            ("wan", back4().tcp(78, 4000)),
            ("lan", out4().tcp(79, 4000)),
            ("lan", out4().udp(79, 4000)),
        ],
    ]
    .concat();
    vec![
        sent(
            on("expectation", &rules("protocol tcp; dport 4000; timeout 10s; size 2; l3proto ip")),
            &frames,
        ),
        sent(
            on(
                "expectation_udp",
                &rules("protocol udp; dport 4000; timeout 10s; size 1; l3proto ip"),
            ),
            &frames,
        ),
    ]
}

// ---- timeouts ----

/// Policies with short times, packets before and after them.
fn timeouts() -> Vec<Scenario> {
    let rules = |object: &str, matching: &str| {
        format!(
            "table ip t {{
	ct timeout p {{
		{object}
		l3proto ip
	}}
	chain raw {{
		type filter hook prerouting priority raw;
		{matching} counter ct timeout set \"p\"
	}}
	chain f {{
		type filter hook forward priority 0;
{STATES}	}}
}}
"
        )
    };
    let pause = |s: Scenario, ms: u64| s.wait(Duration::from_millis(ms));
    let udp = |n: usize| match n {
        0 => ("lan", out4().udp(4000, 53).data(b"question")),
        _ => ("wan", back4().udp(53, 4000).data(b"an answer")),
    };
    let policy =
        rules("protocol udp;\n\t\tpolicy = { unreplied : 2, replied : 4 }", "udp dport 53");
    let other = rules("protocol udp;\n\t\tpolicy = { unreplied : 2, replied : 4 }", "udp dport 54");
    let tcp = rules(
        "protocol tcp;\n\t\tpolicy = { syn_sent : 1, syn_recv : 2, established : 3, close : 1, fin_wait : 2 }",
        "tcp dport 80",
    );
    let whole = talk(80, &[(0, b"GET /")], &[(1, 4)]);
    let opening = &whole[..3];
    let mut all = vec![];
    // A second or so on both sides of an end: clocks need not agree better.
    for (name, ms) in [("before", 1000), ("after", 3200)] {
        let s = sent(on(&format!("timeout_unreplied_{name}"), &policy), &[udp(0)]);
        all.push(sent(pause(s, ms), &[udp(1), udp(0)]));
        let s = sent(on(&format!("timeout_syn_{name}"), &tcp), &opening[..1]);
        all.push(sent(pause(s, ms - 700), &opening[1..]));
    }
    for (name, ms) in [("before", 2500), ("after", 5200)] {
        let s = sent(on(&format!("timeout_replied_{name}"), &policy), &[udp(0), udp(1)]);
        all.push(sent(pause(s, ms), &[udp(1), udp(0)]));
    }
    for (name, ms) in [("before", 1800), ("after", 4300)] {
        let s = sent(on(&format!("timeout_established_{name}"), &tcp), opening);
        all.push(sent(pause(s, ms), &[segment(0, 80, 0x18, 1001, 5001, b"GET /")]));
    }
    all.push(sent(on("timeout_of_another", &other), &[udp(0), udp(1), udp(0)]));
    all.push(sent(on("timeout_close", &tcp), &whole));
    all
}
