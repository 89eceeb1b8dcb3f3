// SPDX-License-Identifier: Apache-2.0

//! Flows through tunnels and a flowtable: IPIP and IPv6 tunnels, on a wire and in a VLAN, with and
//! without translation.
//!
//! Packets into a tunnel are such that what the kernel's flowtable copies to the outer header is
//! what the tunnel says (docs/differences.md). There are no flows through 6in4: the kernel's
//! flowtable does not look through it.

use fastrand::Rng;
use penstock_testkit::Chance;

use super::flow_rules::rules;
use super::talk::{ANY, Inside, Likes, Place, talks};
use crate::frame::Mac;
use crate::scenario::Scenario;

/// `lan` and `wan` are wires, `office` a VLAN of `lan`, `metro` of `wan`.
const NET: &str = "\
link add name lan address 02:00:00:00:01:01 mtu 1500 type veth
link add name wan address 02:00:00:00:02:01 mtu 1500 type veth
link set lan addrgenmode none up
link set wan addrgenmode none up
link add link lan name office type vlan id 10
link add link wan name metro type vlan id 30
link set office addrgenmode none up
link set metro addrgenmode none up
";

const LAN: Mac = [2, 0, 0, 0, 1, 1];
const WAN: Mac = [2, 0, 0, 0, 2, 1];
const GATEWAY: Mac = [2, 0, 0, 0, 2, 2];
const METRO: &[(u16, u16)] = &[(0x8100, 30)];

const fn near(device: &'static str, tags: &'static [(u16, u16)], number: u8) -> Place {
    let station = [2, 0, 0, 0, number, 0x10];
    let inside = Inside::Nothing;
    Place { device, wire: "lan", tags, router: LAN, station, inside, number, likes: ANY }
}

/// The places of a router with a tunnel, whose packets have these tags.
const fn places(inside: Inside, tags: &'static [(u16, u16)], likes: Likes) -> [Place; 3] {
    let (router, station) = (WAN, GATEWAY);
    let far =
        Place { device: "far", wire: "wan", tags, router, station, inside, number: 77, likes };
    [near("lan", &[], 1), near("office", &[(0x8100, 10)], 10), far]
}

const FOUR: Inside = Inside::Tunnel { far: "198.19.99.1", near: "198.19.0.1" };
const SIX: Inside = Inside::Tunnel { far: "2001:db8:ff99::1", near: "2001:db8:ff00::1" };
const DF: Likes = Likes { six: Some(false), df: Some(true), tos: Some(0), mtu: 1480, ..ANY };
const NEAR: Likes = Likes { tos: Some(0x10), ttl: Some(10), ..DF };
const CUT: Likes = Likes { df: None, ..DF };
const HOPS: Likes = Likes { six: Some(true), ttl: Some(65), mtu: 1460, ..ANY };

/// What the flowtable has.
const WIRES: [&str; 6] =
    ["lan, wan", "lan, wan", "lan, metro", "office, metro", "lan, wan, office, metro", "lan"];

/// A tunnel as ip-link(8) names it, and the places of its router.
struct Kind {
    device: &'static str,
    places: &'static [Place],
}

static KINDS: [Kind; 6] = [
    Kind { device: "ipip local 198.19.0.1 remote 198.19.99.1", places: &places(FOUR, &[], DF) },
    Kind { device: "ipip local 198.19.0.1 remote 198.19.99.1", places: &places(FOUR, METRO, DF) },
    Kind {
        device: "ipip local 198.19.0.1 remote 198.19.99.1 ttl 9 tos 0x10",
        places: &places(FOUR, &[], NEAR),
    },
    Kind {
        device: "ipip local 198.19.0.1 remote 198.19.99.1 nopmtudisc",
        places: &places(FOUR, &[], CUT),
    },
    Kind {
        device: "ip6tnl mode ip6ip6 local 2001:db8:ff00::1 remote 2001:db8:ff99::1 encaplimit none \
                 hoplimit 64",
        places: &places(SIX, &[], HOPS),
    },
    Kind {
        device: "ip6tnl mode any local 2001:db8:ff00::1 remote 2001:db8:ff99::1 encaplimit none \
                 hoplimit 64",
        places: &places(SIX, METRO, HOPS),
    },
];

fn net(kind: &Kind) -> String {
    let under = if kind.places[2].tags.is_empty() { "wan" } else { "metro" };
    let addresses: String = kind.places.iter().map(Place::addresses).collect();
    format!(
        "{NET}addr add 198.19.0.1/24 dev {under}\naddr add 2001:db8:ff00::1/64 dev {under} nodad\n\
         neigh add 198.19.0.2 lladdr 02:00:00:00:02:02 dev {under} nud permanent\nneigh add \
         2001:db8:ff00::2 lladdr 02:00:00:00:02:02 dev {under} nud permanent\nroute add \
         198.19.99.0/24 via 198.19.0.2 dev {under}\nroute add 2001:db8:ff99::/64 via \
         2001:db8:ff00::2 dev {under}\nlink add far type {}\nlink set far addrgenmode none \
         up\n{addresses}",
        kind.device
    )
}

/// The scenario of a seed.
pub fn scenario(seed: u64) -> Scenario {
    let mut rng = Rng::with_seed(seed);
    let kind = &KINDS[rng.usize(..KINDS.len())];
    let translated = rng.pick(&["", "", "far", "lan"]);
    let devices = ["far", "lan", "office", "wan", "metro"];
    let rules = rules(&mut rng, &devices, &WIRES, translated);
    let s = Scenario::new(&format!("random_tunnel_flow_{seed}"), &net(kind), &rules).at_once();
    let s = talks(s, &mut rng, kind.places, translated, None);
    if rng.one_in(3) { s.sysctl("net.netfilter.nf_conntrack_acct", 1) } else { s }
}
