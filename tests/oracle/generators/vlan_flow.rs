// SPDX-License-Identifier: Apache-2.0

//! Flows between wires and VLAN devices, most of them through a flowtable: of any of the devices,
//! with and without translation, TCP that opens, speaks and ends, tags with priorities, and packets
//! in between that a flowtable leaves to the rules.

use fastrand::Rng;
use penstock_testkit::Chance;

use super::talk::{ANY, Inside, Place, talks};
use crate::frame::Mac;
use crate::scenario::Scenario;

/// `lan` and `wan` are wires; `office` and `guests` are VLANs of `lan`, `metro` an 802.1ad VLAN of
/// `wan`, and `line` a VLAN of `metro`.
const NET: &str = "\
link add name lan address 02:00:00:00:01:01 mtu 1500 type veth
link add name wan address 02:00:00:00:02:01 mtu 1500 type veth
link set lan addrgenmode none up
link set wan addrgenmode none up
link add link lan name office type vlan id 10
link add link lan name guests type vlan id 20
link add link wan name metro type vlan protocol 802.1ad id 30
link add link metro name line type vlan id 40
link set office addrgenmode none up
link set guests addrgenmode none up
link set metro addrgenmode none up
link set line addrgenmode none up
";

const LAN: Mac = [2, 0, 0, 0, 1, 1];
const WAN: Mac = [2, 0, 0, 0, 2, 1];

const fn place(
    device: &'static str,
    wire: (&'static str, Mac),
    tags: &'static [(u16, u16)],
    number: u8,
) -> Place {
    let station = [2, 0, 0, 0, number, 0x10];
    let (wire, router) = wire;
    Place { device, wire, tags, router, station, inside: Inside::Nothing, number, likes: ANY }
}

static PLACES: [Place; 5] = [
    place("lan", ("lan", LAN), &[], 1),
    place("office", ("lan", LAN), &[(0x8100, 10)], 10),
    place("guests", ("lan", LAN), &[(0x8100, 20)], 20),
    place("wan", ("wan", WAN), &[], 2),
    place("line", ("wan", WAN), &[(0x88a8, 30), (0x8100, 40)], 40),
];

fn net() -> String {
    NET.to_owned() + &PLACES.iter().map(Place::addresses).collect::<String>()
}

/// The scenario of a seed.
pub fn scenario(seed: u64) -> Scenario {
    let mut rng = Rng::with_seed(seed);
    let translated = rng.pick(&["", "", "line", "wan", "office"]);
    let rules = rules(&mut rng, translated);
    let s = Scenario::new(&format!("random_vlan_flow_{seed}"), &net(), &rules).at_once();
    let s = talks(s, &mut rng, &PLACES, translated, None);
    // What TCP was not tracked through counts from another moment on.
    if rng.one_in(3) { s.sysctl("net.netfilter.nf_conntrack_acct", 1) } else { s }
}

fn rules(rng: &mut Rng, translated: &str) -> String {
    let some = rng.pick(&["lan, wan", "lan, wan", "office, line", "lan, wan, office, line", "lan"]);
    let all = "lan, wan, office, guests, line, metro";
    let devices = rng.pick(&[some, some, all]);
    let counter = rng.pick(&["", " counter;"]);
    let add = rng.pick(&[
        "flow add @f",
        "flow add @f",
        "ct state established flow add @f",
        "iifname { lan, office } flow add @f",
        "meta l4proto tcp flow add @f",
    ]);
    let masquerade = match translated {
        "" => String::new(),
        device => format!(
            "\tchain post {{\n\t\ttype nat hook postrouting priority 100;\n\t\toifname {device} \
             masquerade\n\t}}\n"
        ),
    };
    let counters: String = ["lan", "office", "guests", "wan", "line"]
        .iter()
        .map(|d| format!("\t\tiifname {d} counter\n\t\toifname {d} counter\n"))
        .collect();
    format!(
        "table inet t {{\n\tflowtable f {{ hook ingress priority 0; devices = {{ {devices} \
         }};{counter} }}\n\tchain forward {{\n\t\ttype filter hook forward priority \
         0;\n{counters}\t\tct state new counter\n\t\tct state established counter\n\t\tct state \
         invalid counter\n\t\t{add}\n\t}}\n{masquerade}}}\n"
    )
}
