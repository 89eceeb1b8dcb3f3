// SPDX-License-Identifier: Apache-2.0

//! Flows that end: by silence, after which their connections have the rest of their time or none,
//! by the end of a connection, and by one that is opened again.

use std::time::Duration;

use fastrand::Rng;
use penstock_testkit::Chance;

use super::flow_rules::rules;
use super::talk::{ANY, Inside, Place, talks};
use crate::frame::{Mac, ethernet};
use crate::scenario::Scenario;

const NET: &str = "\
link add name lan address 02:00:00:00:01:01 mtu 1500 type veth
link add name wan address 02:00:00:00:02:01 mtu 1500 type veth
link set lan addrgenmode none up
link set wan addrgenmode none up
";

const fn place(wire: &'static str, router: Mac, number: u8) -> Place {
    let station = [2, 0, 0, 0, number, 0x10];
    let inside = Inside::Nothing;
    Place { device: wire, wire, tags: &[], router, station, inside, number, likes: ANY }
}

static PLACES: [Place; 2] =
    [place("lan", [2, 0, 0, 0, 1, 1], 1), place("wan", [2, 0, 0, 0, 2, 1], 2)];

/// Flows end two seconds after their last packet, or up to a second later in the kernel; what is
/// left of the time of their connections is over after another five seconds, or not at all.
const SETTINGS: [(&str, u32); 4] = [
    ("net.netfilter.nf_flowtable_udp_timeout", 2),
    ("net.netfilter.nf_flowtable_tcp_timeout", 2),
    ("net.netfilter.nf_conntrack_udp_timeout", 7),
    ("net.netfilter.nf_conntrack_udp_timeout_stream", 7),
];

/// The scenario of a seed.
pub fn scenario(seed: u64) -> Scenario {
    let mut rng = Rng::with_seed(seed);
    let translated = rng.pick(&["", "", "wan"]);
    let wires = ["lan, wan"];
    let rules = rules(&mut rng, &["lan", "wan"], &wires, translated);
    let net = NET.to_owned() + &PLACES.iter().map(Place::addresses).collect::<String>();
    let mut s = Scenario::new(&format!("random_flow_end_{seed}"), &net, &rules).at_once();
    for (name, value) in SETTINGS {
        s = s.sysctl(name, value);
    }
    let pause = rng.pick(&[4500, 4500, 9500]);
    let s = talks(s, &mut rng, &PLACES, translated, Some(Duration::from_millis(pause)));
    // The program's clock is that of frames: this one ends a pause.
    let s = s.frame("lan", &ethernet([0xff; 6], PLACES[0].station).ethertype(0x9000).zeros(46));
    if rng.one_in(3) { s.sysctl("net.netfilter.nf_conntrack_acct", 1) } else { s }
}
