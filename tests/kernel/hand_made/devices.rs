// SPDX-License-Identifier: Apache-2.0

//! Settings of devices (`net.ipv4.conf`, `net.ipv6.conf`): which packets each lets continue.

use crate::frame::{Frame, bare, ethernet};
use crate::net::{LAN, NET, WAN};
use crate::scenario::Scenario;

/// Where packets come through.
const RULES: &str = "\
table inet t {
	chain p { type filter hook prerouting priority 0; udp dport 1-99 counter; }
	chain i { type filter hook input priority 0; udp dport 1-99 counter; }
	chain f { type filter hook forward priority 0; udp dport 1-99 counter; iif lan counter; }
}
";

/// IPv4 sources: on the link, behind a gateway, of another link, of this host, without a route, of
/// the loopback network.
const SOURCES: [&str; 7] = [
    "198.18.0.10",
    "198.18.200.1",
    "198.19.0.2",
    "198.18.5.1",
    "198.18.64.1",
    "127.0.0.5",
    "198.18.129.9",
];

fn lan4(source: &str, destination: &str) -> Frame {
    ethernet(LAN, [2, 0, 0, 0, 1, 0x10]).ip4(source, destination)
}

/// What meets the settings: each twice, as a route that was found is remembered.
fn journeys(name: &str, sysctls: &[(&str, u32)]) -> Scenario {
    let mut scenario = Scenario::new(name, NET, RULES);
    for (name, value) in sysctls {
        scenario = scenario.sysctl(name, *value);
    }
    let to_all = [2, 0, 0, 0, 1, 0x10];
    for port in [1, 2] {
        for source in SOURCES {
            // Without packets that cause ICMP errors: their rate depends on earlier errors of the
            // kernel.
            for destination in ["198.19.0.2", "198.18.0.1", "198.18.0.255", "127.0.0.1"] {
                let frame = lan4(source, destination).udp(9, port);
                scenario = scenario.frame("lan", &frame);
            }
        }
        let wan = ethernet(WAN, [2, 0, 0, 0, 2, 2]);
        scenario = scenario
            .frame("wan", &wan.ip4("198.18.0.10", "198.18.5.20").udp(9, port))
            .frame(
                "lan",
                &ethernet([0xff; 6], to_all).ip4("198.18.0.10", "198.19.0.2").udp(9, port),
            )
            .frame(
                "lan",
                &ethernet([0xff; 6], to_all).ip4("198.18.0.10", "198.18.0.1").udp(9, port),
            )
            .frame(
                "lan",
                &ethernet([0xff; 6], to_all).ip6("2001:db8:1::10", "2001:db8:1::1").udp(9, port),
            )
            .frame(
                "lan",
                &ethernet(LAN, to_all)
                    .ip6("2001:db8:1::10", "2001:db8:2::2")
                    .udp(9, port)
                    .zeros(1400),
            )
            .frame(
                "lan",
                &ethernet(LAN, to_all).ip6("2001:db8:1::10", "2001:db8:1::1").udp(9, port),
            )
            .frame(
                "lan",
                &ethernet(LAN, to_all).ip6("2001:db8:1::10", "2001:db8:64::1").udp(9, port),
            )
            .frame("host", &bare().ip4("198.18.0.1", "198.18.0.10").udp(9, port));
    }
    scenario
}

pub fn all() -> Vec<Scenario> {
    let of = |name: &str, sysctls: &[(&str, u32)]| journeys(name, sysctls);
    vec![
        of("device_settings_untouched", &[]),
        of("rp_filter_strict", &[("net.ipv4.conf.lan.rp_filter", 1)]),
        of("rp_filter_loose", &[("net.ipv4.conf.lan.rp_filter", 2)]),
        of(
            "rp_filter_of_all_is_the_greater",
            &[("net.ipv4.conf.all.rp_filter", 2), ("net.ipv4.conf.lan.rp_filter", 1)],
        ),
        of("rp_filter_of_all_counts_everywhere", &[("net.ipv4.conf.all.rp_filter", 1)]),
        of("accept_local", &[("net.ipv4.conf.lan.accept_local", 1)]),
        of(
            "accept_local_under_rp_filter",
            &[("net.ipv4.conf.all.accept_local", 1), ("net.ipv4.conf.lan.rp_filter", 1)],
        ),
        of("route_localnet", &[("net.ipv4.conf.lan.route_localnet", 1)]),
        of("a_device_that_does_not_forward", &[("net.ipv4.conf.lan.forwarding", 0)]),
        of(
            "no_redirects",
            &[("net.ipv4.conf.all.send_redirects", 0), ("net.ipv4.conf.lan.send_redirects", 0)],
        )
        .frame("lan", &lan4("198.18.0.10", "198.18.0.11").udp(9, 3)),
        of(
            "unicast_in_multicast_is_dropped",
            &[
                ("net.ipv4.conf.lan.drop_unicast_in_l2_multicast", 1),
                ("net.ipv6.conf.lan.drop_unicast_in_l2_multicast", 1),
            ],
        ),
        of("hop_limit_of_a_device", &[("net.ipv6.conf.lan.hop_limit", 7)]),
        of("ipv6_mtu_of_a_device", &[("net.ipv6.conf.wan.mtu", 1300)]),
        of("default_ttl_is_of_ipv4_alone", &[("net.ipv4.ip_default_ttl", 9)]),
    ]
}
