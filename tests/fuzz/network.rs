// SPDX-License-Identifier: Apache-2.0

//! The network that targets run in.

use std::sync::{Arc, OnceLock};

use penstock_dataplane::{Dataplane, Settings};
use penstock_net::Network;

/// When everything happens, nanoseconds since the epoch.
pub const NOW: u64 = 1_700_000_000_000_000_000;

/// A router with everything on it that rules ask about.
pub const NET: &str = "\
link add name lan address 02:00:00:00:01:01 mtu 1500 type veth
link add name wan address 02:00:00:00:02:01 mtu 1500 type veth
link add name dmz address 02:00:00:00:05:01 mtu 1300 type veth
link add link lan name lan.5 type vlan id 5
link set lan up
link set wan up
link set dmz up
link set lan.5 up
link add br0 type bridge vlan_filtering 1
link add one master br0 up type veth
link add two master br0 up type veth
link add link two name two.5 type vlan id 5
link set two type bridge_slave hairpin on
link set two.5 up
link set br0 up
addr add 198.18.6.1/24 dev br0
addr add 198.18.0.1/24 dev lan
addr add 198.18.55.1/24 dev lan.5
addr add 198.19.0.1/24 dev wan
addr add 198.18.5.1/24 dev dmz
addr add 2001:db8:1::1/64 dev lan nodad
addr add 2001:db8:2::1/64 dev wan nodad
addr add 2001:db8:5::1/64 dev dmz nodad
route add default via 198.19.0.2 dev wan
route add 198.18.128.0/17 via 198.19.0.3 dev wan
route add unreachable 198.18.64.0/24
route add blackhole 198.18.66.0/24
route add default via 2001:db8:2::2 dev wan
route add unreachable 2001:db8:64::/48
neigh add 198.18.0.10 lladdr 02:00:00:00:01:10 dev lan nud permanent
neigh add 198.18.5.20 lladdr 02:00:00:00:05:20 dev dmz nud permanent
neigh add 198.19.0.2 lladdr 02:00:00:00:02:02 dev wan nud permanent
neigh add 2001:db8:1::10 lladdr 02:00:00:00:01:10 dev lan nud permanent
neigh add 2001:db8:2::2 lladdr 02:00:00:00:02:02 dev wan nud permanent
";

/// The network of [`NET`].
pub fn net() -> Arc<Network> {
    static NETWORK: OnceLock<Arc<Network>> = OnceLock::new();
    let network =
        || Arc::new(Network::from_batch("net.ip", NET).expect("the network of the targets"));
    NETWORK.get_or_init(network).clone()
}

/// The path in this network, with tables of connections that take no time to make.
pub fn dataplane(mut settings: Settings) -> Dataplane {
    (settings.conntrack.max, settings.conntrack.buckets) = (1024, Some(64));
    let mut dataplane = Dataplane::new(net(), settings);
    // What failed fails again.
    dataplane.seed(7);
    dataplane
}
