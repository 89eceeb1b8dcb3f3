// SPDX-License-Identifier: Apache-2.0

//! The way of a packet through the router: routes, TTL, MTU, fragments, marks and routing rules,
//! delivery.

use super::{from, on};
use crate::frame::Frame;
use crate::net::{NET, dmz, lan, out4, out6, wan};
use crate::scenario::Scenario;

/// Counts on each hook.
const HOOKS: &str = "
table inet t {
	chain pre { type filter hook prerouting priority 0; counter; meta length > 100 counter; }
	chain in { type filter hook input priority 0; counter; meta length > 100 counter; }
	chain thru { type filter hook forward priority 0; counter; meta length > 100 counter; }
	chain out { type filter hook output priority 0; counter; meta length > 100 counter; icmp type time-exceeded counter; icmpv6 type time-exceeded counter; }
	chain post { type filter hook postrouting priority 0; counter; meta length > 100 counter; }
}
table netdev n {
	chain i { type filter hook ingress devices = { lan, wan, dmz } priority 0; counter; meta length > 100 counter; }
	chain e { type filter hook egress device wan priority 0; counter; meta length > 100 counter; }
	chain f { type filter hook egress device lan priority 0; counter; meta length > 100 counter; }
	chain g { type filter hook egress device dmz priority 0; counter; meta length > 100 counter; }
}
";

pub fn all() -> Vec<Scenario> {
    let case = |name: &str, source: &str, frames: &[Frame]| from(on(name, HOOKS), source, frames);
    let to4 = |to: &str| lan().ip4("198.18.0.10", to).udp(1, 9).data(b"hello");
    let to6 = |to: &str| lan().ip6("2001:db8:1::10", to).udp(1, 9).data(b"hello");
    let gateways6 = Scenario {
        net: format!(
            "{NET}\
route add 198.18.130.0/24 via inet6 2001:db8:2::2 dev wan
route add 198.18.131.0/24 via inet6 2001:db8:5::20
route add 198.18.132.0/24 via inet6 2001:db8:2::99 dev wan
"
        ),
        ..on("ipv4_routes_lead_over_ipv6_gateways", HOOKS)
    };
    let mut all = vec![
        from(
            gateways6,
            "lan",
            &[
                to4("198.18.130.1"),
                to4("198.18.130.2"),
                to4("198.18.131.1"),
                // This gateway's link address is unknown.
                to4("198.18.132.1"),
                lan().ip4("198.18.0.10", "198.18.131.1").udp(1, 9).zeros(1400),
                lan().ip4("198.18.0.10", "198.18.130.1").ttl(1).udp(1, 9),
            ],
        ),
        case(
            "longest_prefix_decides",
            "lan",
            &[
                to4("198.19.0.2"),
                to4("198.19.7.7"),
                to4("198.18.128.1"),
                to4("198.18.199.255"),
                to4("198.18.200.1"),
                to4("198.18.201.1"),
                to4("198.18.5.20"),
                to4("192.0.2.1"),
                to6("2001:db8:2::2"),
                to6("2001:db8:99::1"),
                to6("2001:db8:200::1"),
                to6("2001:db8:5::20"),
            ],
        ),
        case(
            // The kernel answers each IPv4 source at most five times in a row.
            "routes_that_refuse_answer_with_icmp",
            "dmz",
            &[
                dmz().ip4("198.18.200.1", "198.18.64.1").udp(1, 9).data(b"hello"),
                dmz().ip4("198.18.200.2", "198.18.65.1").udp(1, 9).data(b"hello"),
                dmz().ip4("198.18.200.3", "198.18.66.1").udp(1, 9).data(b"hello"),
                dmz().ip6("2001:db8:200::7", "2001:db8:64::1").udp(1, 9).data(b"hello"),
                dmz().ip6("2001:db8:200::7", "2001:db8:65::1").udp(1, 9).data(b"hello"),
                dmz().ip6("2001:db8:200::7", "2001:db8:66::1").udp(1, 9).data(b"hello"),
                dmz().ip4("198.18.200.10", "198.18.64.1").icmp(8, 0, 1),
                dmz().ip4("198.18.200.11", "198.18.64.1").icmp(3, 1, 0).data(&[0; 28]),
                dmz().ip4("198.18.200.12", "198.18.64.1").fragment(2, false).protocol(17).zeros(16),
                dmz().ip4("198.18.200.13", "198.18.64.1").udp(1, 9).zeros(1000),
                dmz().ip6("2001:db8:5::20", "2001:db8:64::1").udp(1, 9).zeros(1200),
                dmz().ip6("2001:db8:5::20", "2001:db8:64::1").icmp6(1, 0, 0).zeros(40),
            ],
        ),
        case(
            "errors_are_sent_about_some_types_of_icmp_only",
            "lan",
            &(0..22u8)
                .map(|kind| out4().ttl(1).icmp(kind, 0, 7).zeros(40))
                .chain(
                    [1, 2, 3, 4, 5, 100, 127, 128, 129, 133, 137, 200]
                        .map(|kind| out6().ttl(1).icmp6(kind, 0, 7).zeros(40)),
                )
                .collect::<Vec<_>>(),
        ),
        case(
            "ttl_and_hop_limit_run_out",
            "lan",
            &[
                out4().ttl(2).udp(1, 9),
                out4().ttl(1).udp(1, 9).data(b"who is there"),
                out4().ttl(0).udp(1, 9),
                out4().ttl(1).tcp(1, 9).tcp_options(&[2, 4, 5, 0xb4]),
                out4().ttl(1).icmp(8, 0, 7).zeros(56),
                out4().ttl(1).icmp(0, 0, 7),
                out4().ttl(1).icmp(11, 0, 0).zeros(28),
                out4().ttl(1).udp(1, 9).zeros(1400),
                out4().ttl(1).tos(0x10).df().udp(1, 9),
                out4().ttl(1).fragment(3, true).protocol(17).zeros(8),
                out4().ttl(1).ip_options(&[7, 7, 4, 0, 0, 0, 0, 0]).udp(1, 9),
                lan().ip4("198.18.0.10", "198.18.0.1").ttl(1).udp(1, 9),
                out6().ttl(2).udp(1, 9),
                out6().ttl(1).udp(1, 9).data(b"who is there"),
                out6().ttl(0).udp(1, 9),
                out6().ttl(1).icmp6(128, 0, 7).zeros(56),
                out6().ttl(1).icmp6(3, 0, 0).zeros(48),
                out6().ttl(1).udp(1, 9).zeros(1400),
                out6().ttl(1).extension(60, &[0; 6]).udp(1, 9),
                lan().ip6("2001:db8:1::10", "2001:db8:1::1").ttl(1).udp(1, 9),
                lan().ip6("2001:db8:1::10", "2001:db8:1::1").ttl(0).udp(1, 9),
            ],
        ),
        case(
            "packets_longer_than_the_mtu_are_fragmented_or_refused",
            "lan",
            &[
                lan().ip4("198.18.0.10", "198.18.5.20").id(1).udp(1, 9).zeros(1272),
                lan().ip4("198.18.0.10", "198.18.5.20").id(2).udp(1, 9).zeros(1273),
                lan().ip4("198.18.0.10", "198.18.5.20").id(3).udp(1, 9).zeros(1472),
                lan().ip4("198.18.0.10", "198.18.5.20").id(4).df().udp(1, 9).zeros(1472),
                lan().ip4("198.18.0.10", "198.18.5.20").id(5).df().tcp(1, 9).zeros(1400),
                lan().ip4("198.18.0.10", "198.18.5.20").id(6).df().icmp(8, 0, 1).zeros(1400),
                lan().ip4("198.18.0.10", "198.18.5.20").id(7).df().icmp(3, 3, 0).zeros(1400),
                lan()
                    .ip4("198.18.0.10", "198.18.5.20")
                    .id(8)
                    .ip_options(&[0x94, 4, 0, 0])
                    .udp(1, 9)
                    .zeros(1400),
                lan()
                    .ip4("198.18.0.10", "198.18.5.20")
                    .id(9)
                    .ip_options(&[7, 11, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0])
                    .udp(1, 9)
                    .zeros(1400),
                lan()
                    .ip4("198.18.0.10", "198.18.5.20")
                    .id(10)
                    .fragment(0, true)
                    .protocol(17)
                    .zeros(1480),
                lan()
                    .ip4("198.18.0.10", "198.18.5.20")
                    .id(10)
                    .fragment(185, true)
                    .protocol(17)
                    .zeros(1400),
                lan()
                    .ip4("198.18.0.10", "198.18.5.20")
                    .id(10)
                    .fragment(360, false)
                    .protocol(17)
                    .zeros(1399),
                lan().ip4("198.18.0.10", "198.18.200.1").id(11).udp(1, 9).zeros(1472),
                lan().ip6("2001:db8:1::10", "2001:db8:5::20").udp(1, 9).zeros(1252),
                lan().ip6("2001:db8:1::10", "2001:db8:5::20").udp(1, 9).zeros(1253),
                lan().ip6("2001:db8:1::10", "2001:db8:5::20").tcp(1, 9).zeros(1400),
                lan().ip6("2001:db8:1::10", "2001:db8:5::20").icmp6(1, 0, 0).zeros(1400),
                lan()
                    .ip6("2001:db8:1::10", "2001:db8:5::20")
                    .extension(0, &[0; 6])
                    .udp(1, 9)
                    .zeros(1400),
            ],
        ),
        case(
            "what_is_for_the_host_is_delivered",
            "lan",
            &[
                to4("198.18.0.1"),
                to4("198.19.0.1"),
                to4("198.18.0.255"),
                to4("255.255.255.255"),
                to4("224.0.0.1"),
                to6("2001:db8:1::1"),
                to6("2001:db8:5::1"),
                to6("ff02::1"),
                to6("ff02::2"),
                to6("ff02::1:ff00:1"),
                to6("ff02::99"),
                to6("2001:db8:1::"),
                lan()
                    .ip4("198.18.0.10", "198.18.0.1")
                    .ip_options(&[7, 7, 4, 0, 0, 0, 0, 0])
                    .icmp(8, 0, 1),
                lan().ip6("2001:db8:1::10", "2001:db8:1::1").extension(60, &[0; 6]).udp(1, 9),
            ],
        ),
        case("fragments_for_the_host_are_put_together_before_input", "lan", &{
            let whole = lan().ip4("198.18.0.10", "198.18.0.1").id(700).udp(4, 9).zeros(100).bytes();
            let part = |id: u16, from: usize, to: usize, more: bool| {
                let f = lan().ip4("198.18.0.10", "198.18.0.1").id(id);
                f.fragment((from / 8) as u16, more).protocol(17).data(&whole[34 + from..34 + to])
            };
            [
                part(700, 0, 48, true),
                part(700, 48, 108, false),
                part(701, 48, 108, false),
                part(701, 0, 48, true),
                part(702, 0, 48, true),
                part(702, 0, 48, true),
                part(702, 48, 108, false),
                part(703, 48, 96, true),
                part(703, 96, 108, false),
                part(703, 0, 48, true),
                part(704, 8, 108, false),
            ]
        }),
        case(
            "answers_to_errors_go_where_the_packet_came_from",
            "wan",
            &[
                wan().ip4("198.19.0.2", "198.18.0.10").ttl(1).udp(1, 9),
                wan().ip4("198.19.77.7", "198.18.0.10").ttl(1).udp(1, 9),
                wan().ip4("198.18.0.10", "198.18.5.20").ttl(1).udp(1, 9),
                wan().ip4("198.19.0.2", "198.18.64.1").udp(1, 9),
                wan().ip6("2001:db8:2::2", "2001:db8:1::10").ttl(1).udp(1, 9),
                wan().ip6("2001:db8:abc::2", "2001:db8:1::10").ttl(1).udp(1, 9),
                wan().ip6("2001:db8:1::10", "2001:db8:5::20").ttl(1).udp(1, 9),
            ],
        )
        .at_once(),
    ];
    // A router of its own: the kernel sends redirects ever more seldom to a host that does not heed
    // them.
    all.push(from(
        Scenario::new("who_takes_a_detour_is_told_the_way", &format!("# detours\n{NET}"), HOOKS),
        "lan",
        &[
            lan().ip4("198.18.0.11", "198.18.0.10").udp(1, 9).data(b"neighbour"),
            lan().ip6("2001:db8:1::11", "2001:db8:1::10").udp(1, 9).data(b"neighbour"),
        ],
    ));
    let mut both = on("traffic_crosses_in_the_order_of_its_times", HOOKS);
    for i in 0..20 {
        both = both
            .frame("lan", &out4().id(i).udp(1, i))
            .frame("wan", &wan().ip4("198.19.0.2", "198.18.5.20").id(100 + i).udp(i, 1))
            .frame("dmz", &dmz().ip6("2001:db8:5::20", "2001:db8:1::10").udp(i, 2))
            .frame("dmz", &dmz().ip4("198.18.5.20", "198.19.0.2").id(200 + i).udp(i, 3));
    }
    all.push(both);
    all.push(from(
        Scenario::new(
            "marks_choose_routing_tables",
            &format!(
                "{NET}\
                rule add fwmark 1 lookup 100 pref 100\n\
                rule add fwmark 0x10/0xf0 lookup 101 pref 101\n\
                rule add from 198.18.0.11 lookup 102 pref 102\n\
                rule add iif lan to 198.19.200.0/24 lookup 103 pref 103\n\
                rule add fwmark 7 prohibit pref 104\n\
                route add default via 198.18.5.20 dev dmz table 100\n\
                route add default via 198.19.0.3 dev wan table 101\n\
                route add unreachable default table 102\n\
                route add throw 198.19.200.0/25 table 103\n\
                route add default via 198.18.5.20 dev dmz table 103\n\
                "
            ),
            "
table inet t {
	chain pre {
		type filter hook prerouting priority -150;
		udp dport 1 meta mark set 1 counter
		udp dport 2 meta mark set 0x1f counter
		udp dport 3 meta mark set 0x2f counter
		udp dport 7 meta mark set 7 counter
		udp dport 9 meta mark set udp sport map { 1 : 1, 2 : 0x10 } counter
	}
	chain thru {
		type filter hook forward priority 0;
		oifname dmz counter
		oifname wan counter
		meta mark 1 counter
		meta mark & 0xf0 == 0x10 counter
		rt ip nexthop 198.19.0.3 counter
		fib daddr oif wan counter
		fib daddr . mark oif dmz counter
		fib saddr . mark . iif oif missing counter
	}
	chain post {
		type filter hook postrouting priority 0;
		meta mark set 0 counter
	}
}
",
        ),
        "lan",
        &[
            out4().udp(1, 1),
            out4().udp(1, 2),
            out4().udp(1, 3),
            out4().udp(1, 7),
            out4().udp(1, 8),
            out4().udp(1, 9),
            out4().udp(2, 9),
            out4().udp(3, 9),
            lan().ip4("198.18.0.11", "198.19.0.2").udp(1, 8),
            lan().ip4("198.18.0.11", "198.19.0.2").udp(1, 1),
            lan().ip4("198.18.0.10", "198.19.200.1").udp(1, 8),
            lan().ip4("198.18.0.10", "198.19.200.200").udp(1, 8),
            out6().udp(1, 1),
            out6().udp(1, 2),
        ],
    ));
    all.push(from(
        Scenario::new(
            "routes_with_metrics_and_host_prefixes",
            &format!(
                "{NET}\
                route add 198.19.128.0/24 via 198.19.0.2 dev wan metric 20\n\
                route add 198.19.128.0/24 via 198.18.5.20 dev dmz metric 10\n\
                route add 198.19.129.1/32 via 198.18.5.20 dev dmz\n\
                route add 198.19.129.0/24 dev dmz scope link\n\
                neigh add 198.19.129.9 lladdr 02:00:00:00:05:99 dev dmz nud permanent\n\
                route add 2001:db8:300::/48 via 2001:db8:2::2 dev wan metric 2048\n\
                route add 2001:db8:300::/48 via 2001:db8:5::20 dev dmz metric 512\n\
                route add 198.19.130.0/24 via 198.19.0.2 dev wan mtu 1000\n"
            ),
            HOOKS,
        ),
        "lan",
        &[
            to4("198.19.128.1"),
            to4("198.19.129.1"),
            to4("198.19.129.9"),
            to6("2001:db8:300::1"),
            lan().ip4("198.18.0.10", "198.19.130.1").udp(1, 9).zeros(1100),
            lan().ip4("198.18.0.10", "198.19.130.1").df().udp(1, 9).zeros(1100),
        ],
    ));
    all
}
