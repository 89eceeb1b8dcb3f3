// SPDX-License-Identifier: Apache-2.0

//! `penstock feed`: ExaBGP or GoBGP on R, which has a session with ExaBGP on A; lists and decisions
//! from a small server.

mod routes;
mod sources;
mod speakers;

use crate::net::Net;

/// Rules that forward everything.
const RULES: &str = "table inet filter {
	chain forward {
		type filter hook forward priority filter; policy accept;
	}
	set blocked4 {
		type ipv4_addr
		flags interval, timeout
	}
	set blocked6 {
		type ipv6_addr
		flags interval, timeout
	}
	chain blocked {
		type filter hook prerouting priority raw; policy accept;
		ip daddr @blocked4 counter drop
		ip6 daddr @blocked6 counter drop
	}
}
";

/// Where the ruleset runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Runs {
    /// In the dataplane.
    Up,
    /// In the kernel, as BPF programs.
    Attached,
}

/// A network whose router has the rules.
fn begin(runs: Runs) -> Option<Net> {
    let mut net = Net::new()?;
    let rules = net.directory.join("rules.nft");
    std::fs::write(&rules, RULES).unwrap();
    start(&mut net, runs);
    Some(net)
}

fn start(net: &mut Net, runs: Runs) {
    let rules = net.directory.join("rules.nft");
    match runs {
        Runs::Up => net.up(&format!("r0 r1 --rules {}", rules.display())),
        Runs::Attached => net.attach(&format!("--rules {}", rules.display())),
    }
}

/// Whether B answers A.
fn passes(net: &Net, address: &str) -> bool {
    net.run(&net.a, &format!("ping -c 1 -W 1 {address}")).0
}

/// What nft lists.
fn listed(net: &Net, what: &str) -> String {
    net.run(&net.r, &format!("$PENSTOCK nft list {what}")).1
}

/// Packets that the first counter after some words has counted.
fn packets_after(text: &str, words: &str) -> u64 {
    let after = text.split(words).nth(1).unwrap_or_default();
    let number = after.split("counter packets ").nth(1).unwrap_or_default();
    number.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or_default()
}
