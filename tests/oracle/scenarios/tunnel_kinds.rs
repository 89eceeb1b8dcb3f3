// SPDX-License-Identifier: Apache-2.0

//! Tunnels that are less usual: with a group or everybody at the other end, 6rd, tunnels that are
//! changed, and `sit` devices in flowtables.

use std::time::Duration;

use super::sent;
use super::tunnel::{NET, RULES, lan, wan};
use crate::frame::{Frame, Mac, bare, ethernet};
use crate::scenario::Scenario;

const GATEWAY: Mac = [2, 0, 0, 0, 2, 2];

/// All of them.
pub fn all() -> Vec<Scenario> {
    [groups(), groups6(), sixrd(), changed(), flows()].concat()
}

/// A router with a tunnel of these lines, which leads to the stations of the other end.
fn scenario(name: &str, lines: &str) -> Scenario {
    let net = format!(
        "{NET}{lines}\nlink set far addrgenmode none up\nroute add 198.18.77.0/24 dev far\nroute \
         add 2001:db8:77::/64 dev far\n"
    );
    Scenario::new(&format!("tunnel_{name}"), &net, RULES)
}

fn four() -> Frame {
    lan().ip4("198.18.0.10", "198.18.77.7")
}

fn six() -> Frame {
    lan().ip6("2001:db8:1::10", "2001:db8:77::7")
}

/// Packets to the tunnel.
fn there() -> Vec<(&'static str, Frame)> {
    vec![
        ("lan", four().udp(1000, 53).data(b"question")),
        ("lan", four().df().udp(1000, 53).zeros(1460)),
        ("lan", four().ttl(2).tos(0xb9).udp(1000, 53)),
        ("lan", six().udp(1000, 53).data(b"question")),
        ("host", bare().ip4("198.19.0.1", "198.18.77.7").udp(9, 9).data(b"own")),
    ]
}

fn back4() -> Vec<u8> {
    bare().ip4("198.18.77.7", "198.18.0.10").udp(53, 1000).data(b"answer").bytes()
}

fn back6() -> Vec<u8> {
    bare().ip6("2001:db8:77::7", "2001:db8:1::10").udp(53, 1000).data(b"answer").bytes()
}

/// Over IPv4: groups that the host is a member of, and is not, and everybody.
fn groups() -> Vec<Scenario> {
    let mut all = vec![];
    for (name, device, group, mac) in [
        ("ipip_group", "ipip local 198.19.0.1 remote GROUP", "239.1.1.1", [1, 0, 0x5e, 1, 1, 1]),
        (
            "ipip_all_hosts",
            "ipip local 198.19.0.1 remote GROUP",
            "224.0.0.1",
            [1, 0, 0x5e, 0, 0, 1],
        ),
        ("ipip_group_ttl", "ipip remote GROUP dev wan ttl 3", "224.0.0.1", [1, 0, 0x5e, 0, 0, 1]),
        ("ipip_everybody", "ipip local 198.19.0.1 remote GROUP", "255.255.255.255", [255; 6]),
        ("ipip_subnet", "ipip local 198.19.0.1 remote GROUP", "198.19.0.255", [255; 6]),
        ("sit_group", "sit local 198.19.0.1 remote GROUP", "239.1.1.1", [1, 0, 0x5e, 1, 1, 1]),
        ("sit_all_hosts", "sit mode any remote GROUP dev wan", "224.0.0.1", [1, 0, 0x5e, 0, 0, 1]),
        ("sit_subnet", "sit local 198.19.0.1 remote GROUP", "198.19.0.255", [255; 6]),
        (
            "ipip_from_group",
            "ipip local GROUP remote 198.18.99.1",
            "224.0.0.1",
            [1, 0, 0x5e, 0, 0, 1],
        ),
    ] {
        let to_group = || ethernet(mac, GATEWAY).ip4("198.18.99.1", group);
        let to_host = || wan().ip4("198.18.99.1", "198.19.0.1");
        let lines = format!("link add far type {}", device.replace("GROUP", group));
        let back = [
            ("wan", to_group().protocol(4).data(&back4())),
            ("wan", to_group().protocol(41).data(&back6())),
            ("wan", to_host().protocol(4).data(&back4())),
            ("wan", to_host().protocol(41).data(&back6())),
        ];
        all.push(sent(sent(scenario(name, &lines), &there()), &back));
    }
    // The host itself hears what it says to groups that it is a member of.
    let own = |group: &str| ("host", bare().ip4("198.19.0.1", group).udp(9, 9).data(b"own"));
    let line = "link add far type ipip remote 198.18.99.1\nroute add 224.0.0.0/4 dev wan";
    all.push(sent(scenario("none_to_groups", line), &[own("239.1.1.1"), own("224.0.0.1")]));
    all
}

/// Over IPv6.
fn groups6() -> Vec<Scenario> {
    let all_nodes = [0x33, 0x33, 0, 0, 0, 1];
    let mut all = vec![];
    for (name, device) in [
        ("ip6tnl_group", "local 2001:db8:2::1 remote ff0e::7"),
        ("ip6tnl_group_of_link", "local 2001:db8:2::1 remote ff02::7"),
        ("ip6tnl_group_of_its_link", "local 2001:db8:2::1 remote ff02::7 dev wan"),
        ("ip6tnl_from_group", "local ff02::1 remote 2001:db8:99::1 dev wan"),
    ] {
        let lines = format!("link add far type ip6tnl mode any {device}");
        let to_group = || ethernet(all_nodes, GATEWAY).ip6("2001:db8:99::1", "ff02::1");
        let to_host = || wan().ip6("2001:db8:99::1", "2001:db8:2::1");
        let back = [
            ("wan", to_group().protocol(4).data(&back4())),
            ("wan", to_group().protocol(41).data(&back6())),
            ("wan", to_host().protocol(41).data(&back6())),
        ];
        all.push(sent(sent(scenario(name, &lines), &there()), &back));
    }
    all
}

/// Other ends are found by the addresses of a network: with all of an IPv4 address in them, and with
/// a part.
fn sixrd() -> Vec<Scenario> {
    const WHOLE: &str = "link add far type sit local 198.19.0.1 6rd-prefix 2001:db8::/32";
    const PART: &str = "link add far type sit local 198.19.0.1 6rd-prefix 2001:db8:c000::/36 \
                        6rd-relay_prefix 198.18.0.0/15";
    let by_change = "link add far type sit local 198.19.0.1\ntunnel 6rd dev far 6rd-prefix \
                     2001:db8:c000::/36 6rd-relay_prefix 198.18.0.0/15";
    let mut all = vec![];
    // 198.18.99.1, 198.18.99.7 and 198.19.0.1 in the network.
    let in_part = ["2001:db8:c318:800::7", "2001:db8:c318:3800::7", "2001:db8:c800:800::1"];
    for (name, lines, [other, beside, own]) in [
        (
            "sit_6rd",
            WHOLE,
            ["2001:db8:c612:6301::7", "2001:db8:c612:6307::7", "2001:db8:c613:1::1"],
        ),
        ("sit_6rd_relay", PART, in_part),
        ("sit_6rd_later", by_change, in_part),
    ] {
        let mut s = scenario(name, lines);
        s.net += &format!("addr add {own}/48 dev far nodad\nroute add 2001:db8::/31 dev far\n");
        let out = || lan().ip6("2001:db8:1::10", other).udp(1000, 53);
        let from = |source: &str, to: &str| {
            let inner = bare().ip6(source, to).udp(53, 1000).data(b"answer");
            ("wan", wan().ip4("198.18.99.1", "198.19.0.1").protocol(41).data(&inner.bytes()))
        };
        let frames = [
            ("lan", out().data(b"question")),
            ("lan", out().zeros(1440)),
            ("lan", lan().ip6("2001:db8:1::10", "2001:db9::7").udp(1000, 53)),
            // The kernel takes the route of the first packet (docs/differences.md).
            ("lan", lan().ip6("2001:db8:1::10", beside).udp(1000, 53)),
            from(other, "2001:db8:1::10"),
            from(other, own),
            from("2001:db8:c612:6302::7", own),
            from("2001:db8:1::99", own),
            from("2001:db8:77::7", "2001:db8:1::10"),
        ];
        s = sent(s, &frames);
        all.push(s);
    }
    all
}

/// Tunnels with other settings than they were made with.
fn changed() -> Vec<Scenario> {
    let ipip = "link add far type ipip local 198.19.0.1 remote 198.18.99.2 ttl 7";
    let sit = "link add far type sit local 198.19.0.1 remote 198.18.99.2";
    let ip6tnl = "link add far type ip6tnl mode any local 2001:db8:2::1 remote 2001:db8:99::2";
    let mut all = vec![];
    for (name, lines) in [
        ("ipip_changed", format!("{ipip}\nlink set far type ipip remote 198.18.99.1")),
        (
            "ipip_changed_tos",
            format!("{ipip}\ntunnel change far mode ipip remote 198.18.99.1 tos 0x10"),
        ),
        ("ipip_changed_link", format!("{ipip}\nlink set far type ipip remote 198.18.99.1 dev wan")),
        ("sit_changed", format!("{sit}\nlink set far type sit remote 198.18.99.1 ttl 9")),
        (
            "sit_changed_link",
            format!(
                "link set wan mtu 1450\n{sit}\nlink set wan mtu 1400\nlink set far type sit remote 198.18.99.1 dev wan"
            ),
        ),
        (
            "ip6tnl_changed",
            format!("{ip6tnl}\nlink set far type ip6tnl remote 2001:db8:99::1 encaplimit none"),
        ),
        (
            "ip6tnl_changed_mtu",
            format!("{ip6tnl}\nlink set far mtu 1400 type ip6tnl remote 2001:db8:99::1"),
        ),
    ] {
        let to_host = || wan().ip4("198.18.99.1", "198.19.0.1");
        let over4 = [
            ("wan", to_host().protocol(4).data(&back4())),
            ("wan", to_host().protocol(41).data(&back6())),
            ("wan", wan().ip4("198.18.99.2", "198.19.0.1").protocol(4).data(&back4())),
        ];
        let over6 = [
            ("wan", wan().ip6("2001:db8:99::1", "2001:db8:2::1").protocol(41).data(&back6())),
            ("wan", wan().ip6("2001:db8:99::2", "2001:db8:2::1").protocol(41).data(&back6())),
        ];
        // Without a tunnel of that family the host answers as its modules do.
        let back = if name.starts_with("ip6tnl") { &over6[..] } else { &over4[..] };
        let too_long = [
            ("lan", six().udp(1000, 53).zeros(1352)),
            ("lan", four().df().udp(1000, 53).zeros(1420)),
        ];
        let s = sent(scenario(name, &lines), &there());
        all.push(sent(sent(s, back), &too_long));
    }
    all
}

/// Flows by a `sit` device that is one of the flowtable's.
fn flows() -> Vec<Scenario> {
    let device = "link add far type sit local 198.19.0.1 remote 198.18.99.1";
    let any = "link add far type sit mode any local 198.19.0.1 remote 198.18.99.1 ttl 9";
    let mut all = vec![];
    for (name, lines, devices) in [
        ("sit_flow", device, "lan, far"),
        ("sit_flow_of_all", device, "lan, wan, far"),
        ("sit_flow_of_one", device, "far"),
        ("sit_flow_any", any, "lan, far"),
    ] {
        let table = format!(
            "{{\n\tflowtable f {{ hook ingress priority 0; devices = {{ {devices} }}; counter; }}\n"
        );
        let mut s = scenario(name, lines);
        s.rules = RULES.replacen("{\n", &table, 1).replace(
            "\t\toifname far counter\n\t\tiifname far counter\n",
            "\t\tcounter flow add @f\n",
        );
        s = s.at_once();
        for round in 0..4 {
            let talk = [
                ("lan", six().udp(1000, 53).data(b"question")),
                ("wan", wan().ip4("198.18.99.1", "198.19.0.1").protocol(41).data(&back6())),
                ("lan", six().set(0, &[0x6b, 0x90]).ttl(64 - round).udp(1000, 53).zeros(1300)),
                ("lan", four().tos(0x10).udp(1000, 53).data(b"question")),
                ("wan", wan().ip4("198.18.99.1", "198.19.0.1").protocol(4).data(&back4())),
            ];
            s = sent(s, &talk).wait(Duration::from_millis(1));
        }
        let last = [
            ("lan", six().udp(1000, 53).zeros(1440)),
            ("lan", six().ttl(1).udp(1000, 53)),
            ("lan", six().udp(1000, 53).data(b"question")),
        ];
        all.push(sent(s, &last));
    }
    all
}
