// SPDX-License-Identifier: Apache-2.0

//! MTUs of paths, as ICMP messages to the host tell them: which packets they count for.

use crate::frame::{Frame, bare};
use crate::net::{NET, lan, own4, own6, wan};
use crate::scenario::Scenario;

/// Where packets come through, and what connections are told to send.
const RULES: &str = "\
table inet t {
	chain f { type filter hook forward priority 0; counter; meta length > 1000 counter; }
	chain o { type filter hook output priority 0; counter; icmp code 4 counter; }
	chain p {
		type filter hook postrouting priority 0;
		counter
		meta length > 1000 counter
		tcp flags syn tcp option maxseg size set rt mtu counter
	}
}
";

/// A host beyond the gateway of `wan`.
const FAR4: &str = "198.19.200.9";
const FAR6: &str = "2001:db8:77::9";

/// A router says that an answer of the host to a ping of `far` was too long.
fn told4(far: &str, mtu: u32) -> Frame {
    about(&bare().ip4("198.19.0.1", far).icmp(0, 0, 7).zeros(20), mtu)
}

/// A router says that a packet was too long.
fn about(quoted: &Frame, mtu: u32) -> Frame {
    wan().ip4("198.19.0.2", "198.19.0.1").icmp(3, 4, mtu).data(&quoted.bytes())
}

fn told6(far: &str, mtu: u32) -> Frame {
    let quoted = bare().ip6("2001:db8:2::1", far).icmp6(129, 0, 7).zeros(20).bytes();
    wan().ip6("2001:db8:2::2", "2001:db8:2::1").icmp6(2, 0, mtu).data(&quoted)
}

/// Packets of the host and of others to the far host, with 28 and 48 bytes of headers.
fn packets(mut scenario: Scenario) -> Scenario {
    let syn = [2, 4, 5, 0xb4];
    for len in [400, 900, 1300, 1400] {
        scenario = scenario
            .frame("host", &bare().ip4("198.19.0.1", FAR4).id(3).udp(9, 9).zeros(len))
            .frame("lan", &lan().ip4("198.18.0.10", FAR4).id(4).udp(9, 9).zeros(len))
            .frame("lan", &lan().ip4("198.18.0.10", FAR4).df().udp(9, 9).zeros(len))
            .frame("lan", &lan().ip6("2001:db8:1::10", FAR6).udp(9, 9).zeros(len));
    }
    scenario
        .frame("lan", &lan().ip4("198.18.0.10", FAR4).tcp(9, 9).flags(2).tcp_options(&syn))
        .frame("lan", &lan().ip6("2001:db8:1::10", FAR6).tcp(9, 9).flags(2).tcp_options(&syn))
        // Other paths by the same gateway, and to the gateway itself.
        .frame("lan", &lan().ip4("198.18.0.10", "198.19.200.8").df().udp(9, 9).zeros(1400))
        .frame("lan", &lan().ip6("2001:db8:1::10", "2001:db8:77::8").udp(9, 9).zeros(1400))
        .frame("host", &own4().id(5).udp(9, 9).zeros(1400))
        .frame("host", &own6().udp(9, 9).zeros(1300))
}

/// What is told, and then packets: each kind twice, as a route that was found is remembered.
fn heard(name: &str, net: &str, sysctls: &[(&str, u32)], told: &[Frame]) -> Scenario {
    let mut scenario = Scenario::new(name, &format!("{NET}{net}"), RULES);
    for (name, value) in sysctls {
        scenario = scenario.sysctl(name, *value);
    }
    scenario = packets(scenario);
    for frame in told {
        scenario = scenario.frame("wan", frame);
    }
    packets(packets(scenario))
}

pub fn all() -> Vec<Scenario> {
    let of = |name: &str, told: &[Frame]| heard(name, "", &[], told);
    let with = |name: &str, sysctls: &[(&str, u32)], told: &[Frame]| heard(name, "", sysctls, told);
    let usual = [told4(FAR4, 1000), told6(FAR6, 1320)];
    let echo_request = bare().ip4("198.19.0.1", FAR4).icmp(8, 0, 7).zeros(20);
    let udp = bare().ip4("198.19.0.1", FAR4).udp(9, 9).zeros(20);
    let of_others = bare().ip4("198.18.0.10", FAR4).icmp(0, 0, 7).zeros(20);
    let mut all = vec![
        of("path_mtu_of_nothing", &[]),
        of("path_mtu_counts_for_packets_of_the_host", &usual),
        of("path_mtu_that_grows_is_not_believed", &[told4(FAR4, 1000), told4(FAR4, 1200)]),
        of("path_mtu_that_shrinks", &[told4(FAR4, 1400), told4(FAR4, 1000), told6(FAR6, 1280)]),
        of("path_mtu_below_the_least_holds_everybody", &[told4(FAR4, 300), told6(FAR6, 1000)]),
        of("path_mtu_below_the_least_is_the_last", &[told4(FAR4, 300), told4(FAR4, 560)]),
        of("path_mtu_of_zero", &[told4(FAR4, 0), told6(FAR6, 0)]),
        of("path_mtu_of_more_than_the_device", &[told4(FAR4, 1600), told6(FAR6, 1600)]),
        of(
            "path_mtu_of_packets_that_have_no_socket",
            &[about(&echo_request, 1000), about(&udp, 1000), about(&of_others, 1000)],
        ),
        of(
            "path_mtu_with_a_wrong_checksum",
            &[told4(FAR4, 1000).patch(36, &[9, 9]), told6(FAR6, 1320).patch(56, &[9, 9])],
        ),
        of("path_mtu_of_a_quote_that_is_cut", &[told4(FAR4, 1000).cut(34 + 8 + 27)]),
        with("path_mtu_for_packets_of_others", &[("net.ipv4.ip_forward_use_pmtu", 1)], &usual),
        with("path_mtu_may_be_less", &[("net.ipv4.route.min_pmtu", 200)], &[told4(FAR4, 300)]),
        heard(
            "path_mtu_of_a_locked_route",
            "route add 198.19.200.0/24 via 198.19.0.2 dev wan mtu lock 1200\n\
             route add 2001:db8:77::/48 via 2001:db8:2::2 dev wan mtu lock 1340\n",
            &[],
            &usual,
        ),
        heard(
            "path_mtu_of_a_route_with_less",
            "route add 198.19.200.0/24 via 198.19.0.2 dev wan mtu 1200\n\
             route add 2001:db8:77::/48 via 2001:db8:2::2 dev wan mtu 1340\n",
            &[],
            &[],
        ),
        heard(
            "path_mtu_of_several_next_hops",
            "route add 198.19.200.0/24 nexthop via 198.19.0.2 dev wan nexthop via 198.19.0.2 dev \
             wan\n",
            &[],
            &usual,
        ),
    ];
    for mode in [1, 2, 3] {
        let name = format!("path_mtu_in_mode_{mode}");
        all.push(with(&name, &[("net.ipv4.ip_no_pmtu_disc", mode)], &usual));
    }
    all
}
