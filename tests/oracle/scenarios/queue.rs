// SPDX-License-Identifier: Apache-2.0

//! Packets that a program answers for: every verdict, other bytes, marks, and what the program is
//! told of each packet.

use super::sent;
use crate::frame::{Frame, ethernet};
use crate::net::{LAN, NET, lan, out4, out6, own4, wan};
use crate::scenario::Scenario;
use crate::services::{Change, Queue, Reply, Verdict};

/// All of them.
pub fn all() -> Vec<Scenario> {
    let accept = Reply::new(Verdict::Accept);
    let each = |replies: &[Reply]| Queue::new(3, replies);
    let cycle = [
        accept,
        Reply::new(Verdict::Drop),
        Reply::new(Verdict::Stop),
        accept.mark(5),
        accept.change(Change::Byte(30, 0x41)),
        accept.change(Change::Byte(1, 0x10)),
        accept.change(Change::Longer(9)).mark(6),
        accept.change(Change::Shorter(3)),
    ];
    let mut all = vec![];
    // A packet that skips the rest of `input` is not seen any more.
    let others: Vec<_> = cycle.into_iter().filter(|r| r.verdict != Verdict::Stop).collect();
    for hook in ["prerouting", "forward", "postrouting", "input", "output"] {
        let replies = if hook == "input" { &others[..] } else { &cycle };
        let source = if hook == "output" { "host" } else { "lan" };
        let frames = match hook {
            "input" => here(),
            "output" => own(),
            _ => through(),
        };
        let frames: Vec<_> = frames.into_iter().map(|f| (source, f)).collect();
        all.push(sent(on(&format!("verdicts_{hook}"), &rules(hook)).queue(each(replies)), &frames));
    }
    let frames: Vec<_> = through().into_iter().map(|f| ("lan", f)).collect();
    let again = Reply::new(Verdict::Repeat);
    let to = |number, bypass| Reply::new(Verdict::Queue(number, bypass));
    all.extend([
        sent(on("nobody", &rules("forward")), &frames),
        sent(on("nobody_bypass", &rules("forward").replace("to 3", "flags bypass to 3")), &frames),
        sent(
            on("again", &once()).queue(each(&[again.mark(1), accept, again.mark(2), accept])),
            &frames[..2],
        ),
        sent(
            on("to_another", &rules("forward"))
                .queue(each(&[to(4, false), to(5, false), to(5, true), to(4, true)]))
                .queue(Queue::new(4, &[accept.mark(9), Reply::new(Verdict::Drop)])),
            &frames[..4],
        ),
        sent(
            on("cut_copies", &rules("forward")).queue(Queue { copy: 30, ..each(&[accept]) }),
            &frames[..4],
        ),
        sent(
            on("several_at_once", &rules("forward")).queue(Queue { window: 3, ..each(&cycle) }),
            &frames,
        ),
        sent(on("tracked", &tracked()).queue(each(&[accept])), &conversation()),
        sent(
            on("tracked_changed", &tracked())
                .queue(each(&[accept.change(Change::Byte(30, 0x41)).mark(7)])),
            &conversation(),
        ),
        sent(on("tracked_dropped", &tracked()).queue(each(&cycle[..2])), &conversation()),
        sent(
            on("by_fanout", &rules("forward").replace("to 3", "flags fanout to 3-6"))
                .queue(each(&[accept])),
            &frames,
        ),
        sent(
            on("by_map", &by_map()).queue(each(&[accept])).queue(Queue::new(4, &[accept.mark(4)])),
            &frames,
        ),
    ]);
    for fail_open in [false, true] {
        // The copies of a packet come while it waits.
        let one = Queue { fail_open, length: 1, ..each(&[accept]) };
        let name = if fail_open { "full_fail_open" } else { "full" };
        // The kernel copies no link header.
        let unknown = || ethernet(LAN, [0; 6]).ip4("198.18.0.10", "198.19.0.2");
        let frames = [("lan", unknown().udp(1, 53)), ("lan", unknown().udp(1, 53).data(b"x"))];
        all.push(sent(on(name, DUPLICATED).queue(one), &frames));
    }
    all.push(sent(
        on("fragments_and_errors", &rules("forward")).queue(each(&[accept])),
        &[
            ("lan", out4().fragment(0, true).id(9).udp(4000, 53).length(40).zeros(16)),
            ("lan", out4().fragment(3, false).id(9).protocol(17).zeros(16)),
            ("lan", out4().ttl(1).udp(4000, 53).data(b"last")),
            ("lan", out4().df().udp(4000, 53).zeros(1472)),
            (
                "wan",
                wan()
                    .ip4("198.19.0.2", "198.18.0.10")
                    .icmp(3, 3, 0)
                    .data(&lan().ip4("198.18.0.10", "198.19.0.2").udp(4000, 53).bytes()[14..]),
            ),
        ],
    ));
    all
}

fn on(name: &str, rules: &str) -> Scenario {
    Scenario::new(&format!("queue_{name}"), NET, rules).at_once()
}

/// Rules that count what comes before, and what is left for later chains.
fn rules(hook: &str) -> String {
    format!(
        "table inet t {{
	chain before {{
		type filter hook {hook} priority -10;
		meta mark set 2 counter
	}}
	chain queued {{
		type filter hook {hook} priority 0;
		counter
		meta l4proto {{ udp, tcp }} counter queue to 3
		counter
	}}
	chain after {{
		type filter hook {hook} priority 10;
		counter
		meta mark 2 counter
		meta mark 5 counter
		meta mark 6 counter
		ip dscp 4 counter
		udp length > 20 counter
	}}
	chain post {{
		type filter hook postrouting priority 20;
		counter
		meta mark 5 counter
	}}
}}
"
    )
}

/// Rules that queue a packet again unless it has a mark.
fn once() -> String {
    rules("forward").replace("meta mark set 2 counter", "counter").replace(
        "meta l4proto { udp, tcp } counter queue to 3",
        "meta mark 2 counter accept\n\t\tcounter queue to 3",
    )
}

/// Rules that choose the queue by the port.
fn by_map() -> String {
    rules("forward").replace(
        "meta l4proto { udp, tcp } counter queue to 3",
        "counter queue to udp dport map { 53 : 3, 54 : 4 }",
    )
}

/// Rules that track connections.
fn tracked() -> String {
    rules("forward").replace(
        "\t\tmeta mark 5 counter\n\t\tmeta mark 6 counter\n",
        "\t\tct state new counter\n\t\tct state established counter ct mark set 3\n\t\tct mark 3 \
         counter\n",
    )
}

/// Each packet leaves twice, and is queued where it leaves.
const DUPLICATED: &str = "table ip t {
	chain pre {
		type filter hook prerouting priority 0;
		udp dport 53 counter dup to 198.19.0.3 device \"wan\"
	}
	chain post {
		type filter hook postrouting priority 0;
		oifname wan counter queue to 3
	}
	chain last {
		type filter hook postrouting priority 1;
		oifname wan counter
	}
}
";

fn through() -> Vec<Frame> {
    vec![
        out4().udp(4000, 53).data(b"one word"),
        out4().udp(4000, 54).data(b"two words"),
        out4().tos(0x10).udp(4001, 53).data(b"three"),
        out6().udp(4000, 53).data(b"four words"),
        out4().udp(4000, 53).data(b"five words"),
        out4().tcp(4000, 80).data(b"six"),
        out4().udp(4000, 53).data(b"seven words"),
        out4().udp(4000, 53).data(b"eight words"),
        out6().udp(4000, 53).data(b"nine words"),
        out4().icmp(8, 0, 1).data(b"never"),
    ]
}

fn here() -> Vec<Frame> {
    let to = || lan().ip4("198.18.0.10", "198.18.0.1");
    (0..10).map(|n| to().id(n).udp(4000, 53).data(b"for the host")).collect()
}

fn own() -> Vec<Frame> {
    (1..11).map(|n| own4().id(n).udp(4000, 53).data(b"of the host")).collect()
}

fn conversation() -> Vec<(&'static str, Frame)> {
    let back = || wan().ip4("198.19.0.2", "198.18.0.10");
    vec![
        ("lan", out4().udp(4000, 53).data(b"question")),
        ("wan", back().udp(53, 4000).data(b"an answer")),
        ("lan", out4().udp(4000, 53).data(b"question 2")),
        ("wan", back().udp(53, 4000).data(b"an answer 2")),
    ]
}
