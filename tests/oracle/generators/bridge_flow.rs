// SPDX-License-Identifier: Apache-2.0

//! Flows over a bridge that filters VLANs, or does not, and a flowtable of its ports: the bridge
//! itself and VLANs on it on one side, a wire and a VLAN on the other, with and without
//! translation.

use fastrand::Rng;
use penstock_testkit::Chance;

use super::flow_rules::rules;
use super::talk::{ANY, Inside, Place, talks};
use crate::frame::Mac;
use crate::scenario::Scenario;

/// `one` and `two` are ports of `br0`; `wan` is a wire.
const NET: &str = "\
link add name one address 02:00:00:00:0a:01 type veth
link add name two address 02:00:00:00:0a:02 type veth
link add name wan address 02:00:00:00:02:01 mtu 1500 type veth
link add name br0 address 02:00:00:00:0a:00 type bridge stp_state 0 forward_delay 0 mcast_snooping 0 \
vlan_filtering FILTERS
link set one addrgenmode none master br0 up
link set two addrgenmode none master br0 up
link set br0 addrgenmode none up
link set wan addrgenmode none up
link add link br0 name br0.10 type vlan id 10
link add link wan name metro type vlan id 30
link set br0.10 addrgenmode none up
link set metro addrgenmode none up
";

/// Tagged on one port, untagged on the other.
const VLANS: &str = "\
bridge vlan add dev br0 vid 10 self
bridge vlan add dev one vid 10
bridge vlan add dev br0 vid 20 self
bridge vlan add dev two vid 20 pvid untagged
link add link br0 name br0.20 type vlan id 20
link set br0.20 addrgenmode none up
";

const BRIDGE: Mac = [2, 0, 0, 0, 0x0a, 0];
const WAN: Mac = [2, 0, 0, 0, 2, 1];

const fn place(
    device: &'static str,
    wire: &'static str,
    tags: &'static [(u16, u16)],
    number: u8,
) -> Place {
    let station = [2, 0, 0, 0, number, 0x10];
    let router = if wire.len() == "wan".len() && wire.as_bytes()[0] == b'w' { WAN } else { BRIDGE };
    Place { device, wire, tags, router, station, inside: Inside::Nothing, number, likes: ANY }
}

static PLAIN: [Place; 4] = [
    place("br0", "one", &[], 1),
    place("br0.10", "two", &[(0x8100, 10)], 10),
    place("wan", "wan", &[], 2),
    place("metro", "wan", &[(0x8100, 30)], 30),
];

static FILTERED: [Place; 5] = [
    place("br0", "one", &[], 1),
    place("br0.10", "one", &[(0x8100, 10)], 10),
    place("br0.20", "two", &[], 20),
    place("wan", "wan", &[], 2),
    place("metro", "wan", &[(0x8100, 30)], 30),
];

/// What the flowtable has.
const WIRES: [&str; 5] =
    ["one, two, wan", "one, two, wan", "one, wan", "br0, wan", "one, two, wan, metro"];

/// The scenario of a seed.
pub fn scenario(seed: u64) -> Scenario {
    let mut rng = Rng::with_seed(seed);
    let filters = rng.bool();
    let places: &'static [Place] = if filters { &FILTERED } else { &PLAIN };
    let net = format!(
        "{}{}{}",
        NET.replace("FILTERS", if filters { "1" } else { "0" }),
        if filters { VLANS } else { "" },
        places.iter().map(Place::addresses).collect::<String>()
    );
    let translated = rng.pick(&["", "wan", "metro", "br0.10"]);
    let devices: Vec<&str> = places.iter().map(|p| p.device).chain(["one", "two"]).collect();
    let rules = rules(&mut rng, &devices, &WIRES, translated);
    let s = Scenario::new(&format!("random_bridge_flow_{seed}"), &net, &rules).at_once();
    let s = talks(s, &mut rng, places, translated, None);
    if rng.one_in(3) { s.sysctl("net.netfilter.nf_conntrack_acct", 1) } else { s }
}
