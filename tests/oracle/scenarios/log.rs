// SPDX-License-Identifier: Apache-2.0

//! Log groups: what listeners are told of packets at every hook.

use std::time::Duration;

use super::sent;
use crate::frame::Frame;
use crate::net::{NET, dmz, lan, out4, out6, own4, own6, zoo};
use crate::scenario::Scenario;

/// All of them.
pub fn all() -> Vec<Scenario> {
    let mut all = vec![];
    for (name, log) in [
        ("plain", "log group 5"),
        ("prefix", "log prefix \"a packet: \" group 5"),
        ("snaplen", "log group 5 snaplen 30 queue-threshold 1"),
        ("threshold", "log group 5 queue-threshold 4"),
        ("marked", "meta mark set 7 meta priority set 1:2 log prefix \"marked\" group 5"),
    ] {
        // What does not reach its threshold comes after a second.
        all.push(on(name, &rules(log)).wait(Duration::from_millis(1300)));
    }
    all.push(on("tracked", &rules("ct state new log group 5")));
    let two =
        rules("log group 5").replace("log group 5 counter\n", "log group 5 counter log group 6\n");
    all.push(on("two_groups", &two).log_group(6));
    let frames: Vec<_> = zoo().into_iter().map(|f| ("lan", f)).collect();
    all.push(sent(scenario("all_kinds", &rules("log group 5")), &frames));
    let tagged = |f: Frame| ("lan", f);
    all.push(sent(
        scenario("tags", DEVICES),
        &[
            tagged(lan().vlan(7).ip4("198.18.0.10", "198.19.0.2").udp(1, 2)),
            tagged(lan().tag(0x88a8, 9).vlan(7).ip4("198.18.0.10", "198.19.0.2").udp(1, 2)),
            tagged(out4().udp(1, 2)),
            ("dmz", dmz().ip4("198.18.5.20", "198.18.0.10").udp(1, 2).data(b"text")),
        ],
    ));
    all
}

const DEVICES: &str = "table netdev t {
	chain in {
		type filter hook ingress device lan priority 0;
		log prefix \"in\" group 5 counter
	}
	chain out {
		type filter hook egress device wan priority 0;
		log prefix \"out\" group 5 counter
	}
	chain back {
		type filter hook egress device lan priority 0;
		log prefix \"back\" group 5 counter
	}
}
";

fn scenario(name: &str, rules: &str) -> Scenario {
    Scenario::new(&format!("log_group_{name}"), NET, rules).at_once().log_group(5)
}

fn on(name: &str, rules: &str) -> Scenario {
    let frames = [
        ("lan", out4().udp(4000, 53).data(b"through")),
        ("lan", out6().udp(4000, 53).data(b"through")),
        ("lan", lan().ip4("198.18.0.10", "198.18.0.1").udp(4000, 53).data(b"here")),
        ("lan", lan().ip6("2001:db8:1::10", "2001:db8:1::1").tcp(4000, 53)),
        ("host", own4().udp(53, 4000).data(b"of the host")),
        ("host", own6().udp(53, 4000).data(b"of the host")),
        ("lan", out4().ttl(1).udp(4000, 53).data(b"over")),
    ];
    sent(scenario(name, rules), &frames)
}

/// Rules that log at every hook.
fn rules(log: &str) -> String {
    let hooks = ["prerouting", "input", "forward", "output", "postrouting"];
    let chains: String = hooks
        .iter()
        .map(|hook| {
            format!(
                "\tchain {hook} {{\n\t\ttype filter hook {hook} priority 5;\n\t\t{log} \
                 counter\n\t}}\n"
            )
        })
        .collect();
    format!("table inet t {{\n{chains}}}\n")
}
