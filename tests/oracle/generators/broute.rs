// SPDX-License-Identifier: Apache-2.0

//! Bridges of which rules take frames to be routed (`meta broute set 1`), by chance. nft 1.0.6 does
//! not know the key: both sides get the rule from a program that writes its netlink message, and
//! the kernel's goes before nft would list it.

use fastrand::Rng;
use penstock_testkit::Chance;

use crate::random::bridge;
use crate::scenario::Scenario;

/// Adds `meta mark 7 meta broute set 1` to the chain `routing` of the table `bridge broute`.
const PROGRAM: &str = include_str!("broute.py");

const MATCHES: [&str; 8] = [
    "",
    "iifname one",
    "meta protocol ip",
    "ip daddr 198.18.0.1",
    "udp dport 53",
    "ether daddr 02:00:00:00:0a:00",
    "ether type arp",
    "meta pkttype host",
];

/// The scenario of a seed: one of bridges with marks and that chain, before or after others.
pub fn scenario(seed: u64) -> Scenario {
    let mut s = bridge::scenario(seed);
    s.name = format!("random_broute_{seed}");
    let mut rng = Rng::with_seed(!seed);
    let (mark, route) = (rng.pick(&[-310, -20]), rng.pick(&[-300, -10, 250]));
    let lines: String = (0..rng.usize(1..4))
        .map(|_| format!("\t\t{} counter meta mark set 7\n", rng.pick(&MATCHES)))
        .collect();
    s.rules += &format!(
        "table bridge broute {{
	chain routing {{
		type filter hook prerouting priority {route};
	}}
}}
table bridge around {{
	chain marking {{
		type filter hook prerouting priority {mark};
{lines}	}}
	chain final {{
		type filter hook prerouting priority 300;
		counter
	}}
}}
table inet t {{
	chain pre {{
		type filter hook prerouting priority 0;
		counter
		iifname one counter
		iifname br0 counter
	}}
	chain in {{
		type filter hook input priority 0;
		iifname one counter
		iifname br0 counter
	}}
}}
"
    );
    s.unlisted = "delete table bridge broute".into();
    s.commands(&format!("/usr/bin/python3 - <<'END'\n{PROGRAM}END\n"))
}
