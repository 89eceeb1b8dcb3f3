// SPDX-License-Identifier: Apache-2.0

//! Flows into and out of a tunnel, by flowtables at early ingress.

use std::rc::Rc;

use penstock_dataplane::Settings;
use penstock_testkit::build::{Ethernet, Ipv4, payload};

use crate::frames::{Frames, Later, flow};
use crate::router::{Fate, Router, ruleset};
use crate::{Scale, Variant};

/// Flows.
const FLOWS: u32 = 10_000;

/// Clients and servers, each behind a router.
const NET: &str = "\
link add wan address 02:00:00:00:00:01 type veth
link add lan address 02:00:00:00:00:02 type veth
link set wan up
link set lan up
addr add 198.19.200.1/24 dev wan
addr add 198.18.0.1/24 dev lan
neigh add 198.19.200.7 lladdr 02:00:00:00:00:b7 dev wan
neigh add 198.18.0.7 lladdr 02:00:00:00:00:a7 dev lan
";
const CLIENTS: &str = "route add 198.18.0.0/16 via 198.18.0.7\n";
const SERVERS: &str = "route add 198.19.0.0/24 via 198.19.200.7\n";
/// Clients in an IPIP tunnel to their router.
const CLIENTS_IPIP: &str = "\
link add tunnel type ipip local 198.18.0.1 remote 198.18.0.7
link set tunnel up
route add 198.18.0.0/16 dev tunnel
";
const SERVERS_IPIP: &str = "\
link add tunnel type ipip local 198.19.200.1 remote 198.19.200.7
link set tunnel up
route add 198.19.0.0/24 dev tunnel
";

const RULES: &str = "table ip t {
    flowtable f {
        hook early_ingress priority 0
        devices = { lan, wan }
    }
    chain f {
        type filter hook forward priority 0; policy drop
        flow add @f
        ct state new,established accept
    }
}";

/// A router with all flows of the frames in its flowtable.
fn offloaded(net: &[&str], frames: &Rc<Frames>) -> impl FnMut() + use<> {
    let net = [&[NET], net].concat().concat();
    let mut router = Router::between(&net, Settings::default(), &ruleset(RULES));
    // The second packet of a flow is the first that can be offloaded.
    (0..2).for_each(|_| router.check(frames, Fate::Sent));
    router.sending_fast(frames)
}

/// A frame as it comes out of a tunnel's other end.
pub(crate) fn in_ipip(frame: &[u8]) -> Vec<u8> {
    let packet = frame.get(14..).unwrap_or_default();
    let outer = Ipv4::new("198.18.0.7", "198.18.0.1").protocol(4);
    (Ethernet::new("02:00:00:00:00:a7", "02:00:00:00:00:02") / outer / payload(packet)).build()
}

pub(crate) fn variants(scale: Scale) -> Vec<Variant> {
    let flows = scale.count(FLOWS);
    let plain = Later::hot(flows, |n| flow(n, 9));
    let inside = Later::hot(flows, |n| in_ipip(&flow(n, 9)));
    let variant = |name: &str, net: [&'static str; 2], frames: &Later| {
        let (operations, frames) = (frames.len(), frames.clone());
        Variant::made(name, operations, move || offloaded(&net, &frames))
    };
    vec![
        variant("plain", [CLIENTS, SERVERS], &plain),
        variant("ipip-out", [CLIENTS, SERVERS_IPIP], &plain).against("plain"),
        variant("ipip-in", [CLIENTS_IPIP, SERVERS], &inside).against("plain"),
    ]
}
