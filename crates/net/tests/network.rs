// SPDX-License-Identifier: Apache-2.0

//! Networks from `ip -batch` text: what routes lead where, and what is refused with which words.

use std::net::{Ipv4Addr, Ipv6Addr};

use penstock_net::{Flow4, Flow6, Network, NoRoute, RouteType};

const ROUTER: &str = "
# two wires and a VLAN
link add wan address 02:00:00:00:00:01 mtu 1400 type veth peer name far
link add name lan type dummy   # alike
link add link wan name wan.7 type vlan id 7
link set far up
link set lo up
link set wan addrgenmode none
link set wan up arp off
link set lan up
link set wan.7 up
addr add 198.18.0.1/24 brd + dev wan
addr add 198.18.0.2/24 dev wan
addr add 198.18.7.1/24 dev wan.7
addr add 2001:db8::1/64 dev wan nodad
addr add 2001:db8:1::1/64 dev lan nodad
addr add 198.19.0.1 peer 198.19.0.2/32 dev lan
route add default via 198.18.0.9
route add unreachable 198.18.64.0/18
route add blackhole 198.18.64.0/24
route add prohibit 198.18.65.0/24
route add 198.18.66.0/24 via 198.18.7.9 mtu lock 1000 src 198.18.7.1 realm 1/2
route add 198.18.66.128/25 dev lan metric 20
route add 198.18.66.128/25 dev wan metric 10
route add 198.18.67.0/24 nexthop via 198.18.0.9 weight 3 nexthop via 198.18.7.9 dev wan.7
route add default via 2001:db8::9
route add unreachable 2001:db8:2::/48
route add 2001:db8:2:1::/64 via 2001:db8:1::9 metric 5
rule add fwmark 0x10/0xf0 lookup 100
rule add from 198.18.7.0/24 to 198.18.200.0/24 pref 500 prohibit
-6 rule add fwmark 5 lookup 101
route add throw 198.18.100.0/24 table 100
route add 198.18.0.0/16 dev lan table 100
route add 2001:db8:9::/48 dev lan table 101
neigh add 198.18.0.9 lladdr 02:00:00:00:00:09 dev wan nud permanent
neigh add 2001:db8::9 lladdr 02:00:00:00:00:09 dev wan
";

fn v4(a: &str) -> u32 {
    a.parse::<Ipv4Addr>().unwrap().into()
}

fn v6(a: &str) -> u128 {
    a.parse::<Ipv6Addr>().unwrap().into()
}

fn describe(net: &Network, found: Result<penstock_net::Hit<'_>, NoRoute>) -> String {
    match found {
        Ok(hit) => {
            let via = hit.nexthop.gateway.map(|g| format!(" via {g}")).unwrap_or_default();
            format!("{:?}{via} dev {}", hit.route.kind, net.name_of(hit.nexthop.oif))
        }
        Err(why) => format!("{why:?}"),
    }
}

#[test]
fn ipv4_packets_go_where_the_kernel_sends_them() {
    let net = Network::from_batch("net.ip", ROUTER).unwrap();
    let cases: &[(&str, u32, &str)] = &[
        ("198.18.0.1", 0, "Local dev wan"),
        ("198.18.0.2", 0, "Local dev wan"),
        ("198.18.0.255", 0, "Broadcast dev wan"),
        ("198.18.0.0", 0, "Unicast dev wan"),
        ("198.18.0.77", 0, "Unicast dev wan"),
        ("198.18.7.77", 0, "Unicast dev wan.7"),
        ("198.19.0.1", 0, "Local dev lan"),
        ("198.19.0.2", 0, "Unicast dev lan"),
        ("198.19.0.3", 0, "Unicast via 198.18.0.9 dev wan"),
        ("198.18.127.1", 0, "Unreachable"),
        ("198.18.64.1", 0, "Blackhole"),
        ("198.18.65.1", 0, "Prohibit"),
        ("198.18.66.1", 0, "Unicast via 198.18.7.9 dev wan.7"),
        ("198.18.66.129", 0, "Unicast dev wan"),
        ("127.0.0.1", 0, "Local dev lo"),
        ("198.18.99.1", 0x12, "Unicast dev lan"),
        ("198.18.100.1", 0x12, "Unreachable"),
        ("198.18.0.1", 0x10, "Local dev wan"),
        ("198.18.99.1", 0x20, "Unreachable"),
    ];
    for (to, mark, want) in cases {
        let flow = Flow4 { daddr: v4(to), mark: *mark, ..Flow4::default() };
        assert_eq!(describe(&net, net.route4(&flow)), *want, "{to} mark {mark:#x}");
    }
    let from = Flow4 { saddr: v4("198.18.7.5"), daddr: v4("198.18.200.1"), ..Flow4::default() };
    assert_eq!(describe(&net, net.route4(&from)), "Prohibit");
    let by_lan = Flow4 { daddr: v4("198.18.66.129"), oif: 3, ..Flow4::default() };
    assert_eq!(describe(&net, net.route4(&by_lan)), "Unicast dev lan");
    let hit = net.route4(&Flow4 { daddr: v4("198.18.66.1"), ..Flow4::default() }).unwrap();
    assert_eq!((hit.route.mtu, hit.route.mtu_locked, hit.realm), (1000, true, 0x1_0002));
    assert_eq!(Ipv4Addr::from(net.source_of4(&hit)), Ipv4Addr::new(198, 18, 7, 1));
}

#[test]
fn ipv4_routes_lead_over_gateways_of_ipv6() {
    let text = format!("{ROUTER}\nroute add 198.18.70.0/24 via inet6 2001:db8::9\n");
    let net = Network::from_batch("net.ip", &text).unwrap();
    let hit = net.route4(&Flow4 { daddr: v4("198.18.70.7"), ..Flow4::default() });
    assert_eq!(describe(&net, hit), "Unicast via 2001:db8::9 dev wan");
    for (line, message) in [
        ("route add 198.18.70.0/24 via inet6 2001:db8:77::9", "No route to host"),
        ("route add 198.18.70.0/24 via inet6 2001:db8::1", "Gateway can not be a local address"),
        (
            "route add 2001:db8:70::/48 via 198.18.0.9",
            "an IPv6 route cannot go over an IPv4 gateway",
        ),
    ] {
        let error =
            Network::from_batch("net.ip", &format!("{ROUTER}\n{line}\n")).unwrap_err().to_string();
        assert!(error.contains(message), "{line}: {error}");
    }
}

#[test]
fn flows_spread_over_nexthops_by_weight() {
    let net = Network::from_batch("net.ip", ROUTER).unwrap();
    let by_wan = (0..1000u32)
        .filter(|i| {
            let flow = Flow4 { saddr: i * 77, daddr: v4("198.18.67.1"), ..Flow4::default() };
            net.route4(&flow).unwrap().nexthop.oif == 2
        })
        .count();
    assert!((650..850).contains(&by_wan), "{by_wan}");
}

#[test]
fn ipv6_packets_go_where_the_kernel_sends_them() {
    let net = Network::from_batch("net.ip", ROUTER).unwrap();
    let cases: &[(&str, u32, &str)] = &[
        ("2001:db8::1", 0, "Local dev wan"),
        ("2001:db8::", 0, "Anycast dev wan"),
        ("2001:db8::5", 0, "Unicast dev wan"),
        ("2001:db8:1::", 0, "Anycast dev lan"),
        ("2001:db8:2::1", 0, "Unreachable"),
        ("2001:db8:2:1::1", 0, "Unicast via 2001:db8:1::9 dev lan"),
        ("2001:db8:ffff::1", 0, "Unicast via 2001:db8::9 dev wan"),
        ("2001:db8:9::1", 5, "Unicast dev lan"),
        ("::1", 0, "Local dev lo"),
        ("fe80::70:73ff:fe00:3", 0, "Local dev lan"),
    ];
    for (to, mark, want) in cases {
        let flow = Flow6 { daddr: v6(to), mark: *mark, ..Flow6::default() };
        assert_eq!(describe(&net, net.route6(&flow)), *want, "{to} mark {mark:#x}");
    }
    for (dev, want) in [(2, "Multicast dev wan"), (3, "Multicast dev lan"), (99, "None")] {
        let flow = Flow6 { daddr: v6("ff02::1"), oif: dev, strict: true, ..Flow6::default() };
        assert_eq!(describe(&net, net.route6(&flow)), want);
    }
}

/// What came in prefers its link, and does not ask for it.
#[test]
fn rules_do_not_see_the_link_of_arrival_as_the_one_asked_for() {
    let rules = "-6 rule add oif lan pref 50 prohibit\n-6 rule add iif wan pref 51 blackhole\n";
    let net = Network::from_batch("net.ip", &format!("{ROUTER}{rules}")).unwrap();
    let (wan, lan) = (2, 3);
    for (iif, oif, want) in [
        (1, 0, "Unicast via 2001:db8::9 dev wan"),
        (1, lan, "Prohibit"),
        (lan, lan, "Unicast via 2001:db8::9 dev wan"),
        (wan, wan, "Blackhole"),
    ] {
        let flow = Flow6 { daddr: v6("2001:db8:ffff::1"), iif, oif, ..Flow6::default() };
        assert_eq!(describe(&net, net.route6(&flow)), want, "{iif} {oif}");
    }
}

#[test]
fn addresses_are_classified_for_this_host() {
    let net = Network::from_batch("net.ip", ROUTER).unwrap();
    for (address, link, want) in [
        ("198.18.0.1", None, RouteType::Local),
        ("198.18.0.1", Some(2), RouteType::Local),
        ("198.18.0.1", Some(3), RouteType::Unicast),
        ("198.18.0.255", Some(2), RouteType::Broadcast),
        ("224.0.0.1", None, RouteType::Multicast),
        ("0.0.0.0", None, RouteType::Broadcast),
        ("198.18.64.1", None, RouteType::Unicast),
    ] {
        assert_eq!(net.kind4(v4(address), link), want, "{address}");
    }
    assert!(net.own6(v6("2001:db8::1"), Some(2)) && !net.own6(v6("2001:db8::1"), Some(3)));
    let joined = |group| net.link(2).unwrap().joined6(v6(group));
    assert!(
        joined("ff02::1")
            && joined("ff05::2")
            && joined("ff02::1:ff00:1")
            && joined("ff02::1:ff00:0")
    );
    assert!(!joined("ff02::1:ff00:2") && !joined("ff0e::1"));
}

#[test]
fn sources_are_chosen_as_the_kernel_does() {
    let net = Network::from_batch("net.ip", ROUTER).unwrap();
    let all = penstock_net::Scope::UNIVERSE;
    assert_eq!(net.source4(2, v4("198.18.0.9"), all), v4("198.18.0.1"));
    assert_eq!(net.source4(4, 0, all), v4("198.18.7.1"));
    assert_eq!(net.source6(2, v6("2001:db8:1::9")), Some(v6("2001:db8::1")));
    assert_eq!(net.source6(3, v6("2001:db8:ffff::9")), Some(v6("2001:db8:1::1")));
    assert_eq!(net.source6(3, v6("fe80::9")), Some(v6("fe80::70:73ff:fe00:3")));
}

#[test]
fn redirected_packets_go_to_an_address_of_the_scope_of_their_destination() {
    let text = "link add lan address 02:00:00:00:00:01 type veth\nlink set lan up\n\
         addr add 2001:db8::1/64 dev lan nodad\naddr add 2001:db8::2/64 dev lan nodad\n\
         addr add fec0::1/64 dev lan nodad";
    let net = Network::from_batch("net.ip", text).unwrap();
    let lan = net.link_by_name("lan").unwrap();
    assert_eq!(net.redirect4(lan.index), None);
    for (to, want) in [
        ("2001:db8::9", "2001:db8::2"),
        ("fec0::9", "fec0::1"),
        ("fe80::9", "fe80::ff:fe00:1"),
        ("ff05::9", "fec0::1"),
        ("ff12::9", "fe80::ff:fe00:1"),
        ("ff0e::9", "2001:db8::2"),
    ] {
        assert_eq!(net.redirect6(lan.index, v6(to)), Some(v6(want)), "{to}");
    }
}

#[test]
fn a_link_that_goes_down_takes_its_routes_along() {
    let text = format!("{ROUTER}\nlink set wan down");
    let net = Network::from_batch("net.ip", &text).unwrap();
    let to = |a| describe(&net, net.route4(&Flow4 { daddr: v4(a), ..Flow4::default() }));
    assert_eq!(to("198.18.0.77"), "None");
    assert_eq!(to("198.18.7.77"), "None", "the VLAN above went down with it");
    assert_eq!(to("198.18.0.1"), "Local dev wan", "the address is still ours");
    assert!(!net.own6(v6("2001:db8::1"), None));
}

#[test]
fn local_and_main_are_one_table_until_a_rule_is_added() {
    let lines =
        "link set lo up\nlink add a type veth\nlink set a up\nroute add 127.9.0.0/16 dev a\n";
    let to = |text: &str| {
        let net = Network::from_batch("net.ip", text).unwrap();
        describe(&net, net.route4(&Flow4 { daddr: v4("127.9.0.1"), ..Flow4::default() }))
    };
    assert_eq!(to(lines), "Unicast dev a");
    assert_eq!(to(&format!("{lines}rule add fwmark 1 lookup 9")), "Local dev lo");
}

#[test]
fn bad_lines_are_refused_with_their_number() {
    let up = "link add a type veth\nlink set a up\naddr add 198.18.0.1/24 dev a\n";
    let cases = [
        ("link add a type veth foo", "net.ip:4: unknown word \"foo\""),
        ("foo add", "net.ip:4: unknown word \"foo\""),
        ("link add b type bond", "net.ip:4: link type \"bond\" is not supported yet"),
        ("link add b type nonsense", "net.ip:4: unknown link type \"nonsense\""),
        ("link add a type veth", "net.ip:4: File exists"),
        ("link add link b name b.7 type vlan id 7", "net.ip:4: Cannot find device \"b\""),
        ("link add link a name a.7 type vlan", "net.ip:4: \"type vlan\" needs an \"id\""),
        ("addr add 198.18.0.1/24 dev a", "net.ip:4: Address already assigned."),
        ("addr add 198.18.0.2/33 dev a", "net.ip:4: \"198.18.0.2/33\" is not an address"),
        ("addr add 198.18.0.2/24", "net.ip:4: \"addr add\" needs \"dev DEVICE\""),
        ("route add default via 198.18.9.9", "net.ip:4: Nexthop has invalid gateway."),
        ("route add 198.18.9.1/24 dev a", "net.ip:4: Invalid prefix for given prefix length."),
        (
            "route add 198.18.9.0/24 dev a frob",
            "net.ip:4: either \"to\" is duplicate, or \"frob\" is an unknown word",
        ),
        ("route add 198.18.9.0/24 dev a src 198.18.1.1", "net.ip:4: Invalid prefsrc address"),
        ("route add 2001:db8::/64 via 2001:db8:1::1", "net.ip:4: No route to host"),
        (
            "link set a down\nroute add 198.18.9.0/24 dev a",
            "net.ip:5: Network is down: the device of the route is not up",
        ),
        (
            "neigh add 198.18.0.9 lladdr 2:0:0:0:0 dev a",
            "net.ip:4: \"2:0:0:0:0\" is not a link address",
        ),
        (
            "neigh add 198.18.0.9 lladdr 2:0:0:0:0:9 dev a nud stale",
            "net.ip:4: neighbours are static: \"nud stale\" is not supported",
        ),
        ("rule add fwmark x lookup 5", "net.ip:4: \"x\" is not a mark"),
        ("xfrm state add", "net.ip:4: \"xfrm state\" needs \"dst\""),
        ("addr del 198.18.0.1/24 dev a", "net.ip:4: \"address del\" is not supported yet"),
    ];
    for (line, want) in cases {
        let got = Network::from_batch("net.ip", &format!("{up}{line}\n")).unwrap_err().to_string();
        assert_eq!(got, want, "{line}");
    }
}

#[test]
fn random_lines_do_not_panic() {
    let seed = penstock_testkit::seed();
    let mut rng = fastrand::Rng::with_seed(seed);
    let words: Vec<&str> = ROUTER
        .split_whitespace()
        .chain(["/", "0/0", "-1", "nexthop", "\"", "\\", "::", "0x"])
        .collect();
    for _ in 0..3000 {
        let mut text = String::from(ROUTER);
        for _ in 0..rng.usize(1..12) {
            text.push_str(words[rng.usize(..words.len())]);
            text.push(' ');
        }
        let _ = Network::from_batch("net.ip", &text);
    }
}
