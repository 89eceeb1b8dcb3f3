// SPDX-License-Identifier: Apache-2.0

//! Flows through sessions of PPPoE and a flowtable, on a wire and in a VLAN, with and without
//! translation.

use fastrand::Rng;
use penstock_testkit::Chance;

use super::flow_rules::rules;
use super::talk::{ANY, Inside, Likes, Place, talks};
use crate::frame::Mac;
use crate::scenario::Scenario;

/// `lan` and `wan` are wires, `office` a VLAN of `lan`, `metro` of `wan`; `line` is a session on
/// `wan`, `second` one in `metro`.
const NET: &str = "\
link add name lan address 02:00:00:00:01:01 mtu 1500 type veth
link add name wan address 02:00:00:00:02:01 mtu 1500 type veth
link set lan addrgenmode none up
link set wan addrgenmode none up
link add link lan name office type vlan id 10
link add link wan name metro type vlan id 30
link set office addrgenmode none up
link set metro addrgenmode none up
link add line mtu 1492 type pppoe dev wan session 7 peer 02:00:00:00:02:02
link add second mtu 1492 type pppoe dev metro session 8 peer 02:00:00:00:02:03
link set line addrgenmode none up
link set second addrgenmode none up
";

const LAN: Mac = [2, 0, 0, 0, 1, 1];
const WAN: Mac = [2, 0, 0, 0, 2, 1];

const fn near(device: &'static str, tags: &'static [(u16, u16)], number: u8) -> Place {
    let station = [2, 0, 0, 0, number, 0x10];
    let inside = Inside::Nothing;
    Place { device, wire: "lan", tags, router: LAN, station, inside, number, likes: ANY }
}

const fn session(
    device: &'static str,
    tags: &'static [(u16, u16)],
    number: u8,
    id: u16,
    station: Mac,
) -> Place {
    let likes = Likes { mtu: 1492, ..ANY };
    let inside = Inside::Session(id);
    Place { device, wire: "wan", tags, router: WAN, station, inside, number, likes }
}

static PLACES: [Place; 4] = [
    near("lan", &[], 1),
    near("office", &[(0x8100, 10)], 10),
    session("line", &[], 70, 7, [2, 0, 0, 0, 2, 2]),
    session("second", &[(0x8100, 30)], 80, 8, [2, 0, 0, 0, 2, 3]),
];

/// What the flowtable has.
const WIRES: [&str; 5] =
    ["lan, wan", "lan, wan", "lan, line", "lan, wan, office, metro, line", "office, wan"];

/// The scenario of a seed.
pub fn scenario(seed: u64) -> Scenario {
    let mut rng = Rng::with_seed(seed);
    let translated = rng.pick(&["", "line", "second"]);
    let devices = ["line", "second", "lan", "office", "wan", "metro"];
    let rules = rules(&mut rng, &devices, &WIRES, translated);
    let net = NET.to_owned() + &PLACES.iter().map(Place::addresses).collect::<String>();
    let s = Scenario::new(&format!("random_pppoe_flow_{seed}"), &net, &rules).at_once();
    let s = talks(s, &mut rng, &PLACES, translated, None);
    if rng.one_in(3) { s.sysctl("net.netfilter.nf_conntrack_acct", 1) } else { s }
}
