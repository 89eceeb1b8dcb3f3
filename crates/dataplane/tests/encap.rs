// SPDX-License-Identifier: Apache-2.0

//! Flows with something around their packets: what leaves by a flowtable is what leaves without
//! one.

mod router;

use std::sync::Arc;

use penstock_dataplane::{Dataplane, Frame};
use penstock_lang::names::NoNames;
use penstock_lang::session::{Options, Session};
use penstock_lang::source::{NoFiles, Origin};
use penstock_ruleset::Ruleset;
use penstock_ruleset::link::Linked;
use penstock_testkit::build::{Frame as Layers, *};
use penstock_wire::pppoe;
use router::*;

const WIRES: &str = "
link set lo up
link add wan address 02:00:00:00:00:01 type veth
link add lan address 02:00:00:00:00:02 type veth
link set wan addrgenmode none
link set wan up
link set lan addrgenmode none
link set lan up
addr add 198.18.0.1/24 dev wan
addr add 2001:db8::1/64 dev wan nodad
addr add 198.18.1.1/24 dev lan
addr add 2001:db8:1::1/64 dev lan nodad
neigh add 198.18.0.7 lladdr 02:00:00:00:00:a7 dev wan
neigh add 2001:db8::7 lladdr 02:00:00:00:00:a7 dev wan
neigh add 198.18.1.7 lladdr 02:00:00:00:00:b7 dev lan
neigh add 2001:db8:1::7 lladdr 02:00:00:00:00:b7 dev lan
";

/// A network in which hosts of 198.18.30.0/24 and 2001:db8:30::/48 are behind something, and what
/// stands around packets of theirs that arrive.
struct Case {
    name: &'static str,
    net: &'static str,
    /// From the far host to the router: what is before the packet.
    around: fn(Layers) -> Layers,
    /// IP versions of the packets inside.
    versions: &'static [u8],
    /// Device by which the far host's packets come.
    device: &'static str,
    /// Devices of the flowtable.
    devices: &'static str,
}

fn session(link: Layers, id: u16, inner: Layers) -> Layers {
    let inner = inner.build();
    let protocol = if inner[0] >> 4 == 6 { pppoe::IPV6 } else { pppoe::IPV4 };
    let header = pppoe::Repr { session: id, protocol, payload_len: inner.len() as u16 }.bytes();
    link / payload([&header[..], &inner].concat())
}

fn outer4() -> Ipv4 {
    Ipv4::new("198.18.99.1", "198.18.0.1")
}

fn outer6() -> Ipv6 {
    Ipv6::new("2001:db8:99::1", "2001:db8::1")
}

const CASES: &[Case] = &[
    Case {
        name: "VLAN",
        net: "link add link wan name far type vlan id 5\nlink set far addrgenmode none\n",
        around: |p| from_wan() / Vlan::new(5) / p,
        versions: &[4, 6],
        device: "wan",
        devices: "wan, lan",
    },
    Case {
        name: "VLAN, by its own device",
        net: "link add link wan name far type vlan id 5\nlink set far addrgenmode none\n",
        around: |p| from_wan() / Vlan::new(5) / p,
        versions: &[4, 6],
        device: "wan",
        devices: "far, lan",
    },
    Case {
        name: "QinQ",
        net: "link add link wan name mid type vlan protocol 802.1ad id 5\nlink set mid addrgenmode none\nlink set mid up\n\
              link add link mid name far type vlan id 6\nlink set far addrgenmode none\n",
        around: |p| from_wan() / Vlan::new(5).service() / Vlan::new(6) / p,
        versions: &[4, 6],
        device: "wan",
        devices: "wan, lan",
    },
    Case {
        name: "PPPoE",
        net: "link add far type pppoe dev wan session 9 peer 02:00:00:00:00:a7\n",
        around: |p| session(from_wan().ethertype(0x8864).into(), 9, p),
        versions: &[4, 6],
        device: "wan",
        devices: "wan, lan",
    },
    Case {
        name: "PPPoE in a VLAN",
        net: "link add link wan name mid type vlan id 5\nlink set mid addrgenmode none\nlink set mid up\n\
              link add far type pppoe dev mid session 9 peer 02:00:00:00:00:a7\n",
        around: |p| session(from_wan() / Vlan::new(5).ethertype(0x8864), 9, p),
        versions: &[4, 6],
        device: "wan",
        devices: "wan, lan",
    },
    Case {
        name: "bridge",
        net: "link add far address 02:00:00:00:00:05 type bridge mcast_snooping 0\nlink add port type veth\nlink set port addrgenmode none\nlink set port master far\n\
              link set port up\nbridge fdb add 02:00:00:00:00:a7 dev port master static\n",
        around: |p| Ethernet::new("02:00:00:00:00:a7", "02:00:00:00:00:05") / p,
        versions: &[4, 6],
        device: "port",
        devices: "port, lan",
    },
    Case {
        name: "bridge that tags",
        net: "link add far address 02:00:00:00:00:05 type bridge mcast_snooping 0 vlan_filtering 1\nlink add port type veth\nlink set port addrgenmode none\n\
              link set port master far\nlink set port up\nbridge vlan add dev port vid 1\n\
              bridge fdb add 02:00:00:00:00:a7 dev port master static vlan 1\n",
        around: |p| Ethernet::new("02:00:00:00:00:a7", "02:00:00:00:00:05") / Vlan::new(1) / p,
        versions: &[4, 6],
        device: "port",
        devices: "port, lan",
    },
    Case {
        name: "bridge that untags",
        net: "link add br0 address 02:00:00:00:00:05 type bridge mcast_snooping 0 vlan_filtering 1\nlink set br0 addrgenmode none\nlink add port type veth\n\
              link set port addrgenmode none\nlink set port master br0\nlink set port up\nlink set br0 up\n\
              bridge vlan add dev port vid 5 pvid untagged\nbridge vlan add dev br0 vid 5 self\n\
              bridge fdb add 02:00:00:00:00:a7 dev port master static vlan 5\n\
              link add link br0 name far type vlan id 5\nlink set far addrgenmode none\n",
        around: |p| Ethernet::new("02:00:00:00:00:a7", "02:00:00:00:00:05") / p,
        versions: &[4, 6],
        device: "port",
        devices: "port, lan",
    },
    Case {
        name: "bridge that keeps a tag",
        net: "link add br0 address 02:00:00:00:00:05 type bridge mcast_snooping 0 vlan_filtering 1\nlink set br0 addrgenmode none\nlink add port type veth\n\
              link set port addrgenmode none\nlink set port master br0\nlink set port up\nlink set br0 up\n\
              bridge vlan add dev port vid 5\nbridge vlan add dev br0 vid 5 self\n\
              bridge fdb add 02:00:00:00:00:a7 dev port master static vlan 5\n\
              link add link br0 name far type vlan id 5\nlink set far addrgenmode none\n",
        around: |p| Ethernet::new("02:00:00:00:00:a7", "02:00:00:00:00:05") / Vlan::new(5) / p,
        versions: &[4, 6],
        device: "port",
        devices: "port, lan",
    },
    Case {
        name: "ipip",
        net: "link add far type ipip local 198.18.0.1 remote 198.18.99.1\n",
        around: |p| from_wan() / outer4() / p,
        versions: &[4],
        device: "wan",
        devices: "wan, lan",
    },
    Case {
        name: "ipip with TTL and TOS",
        net: "link add far type ipip local 198.18.0.1 remote 198.18.99.1 ttl 9 tos 0x48\n",
        around: |p| from_wan() / outer4().ttl(7) / p,
        versions: &[4],
        device: "wan",
        devices: "wan, lan",
    },
    Case {
        name: "ipip that inherits",
        net: "link add far type ipip remote 198.18.99.1 tos inherit nopmtudisc\n",
        around: |p| from_wan() / outer4() / p,
        versions: &[4],
        device: "wan",
        devices: "wan, lan",
    },
    Case {
        name: "ipip, by its own device",
        net: "link add far type ipip local 198.18.0.1 remote 198.18.99.1\n",
        around: |p| from_wan() / outer4() / p,
        versions: &[4],
        device: "wan",
        devices: "far, lan",
    },
    Case {
        name: "sit",
        net: "link add far type sit local 198.18.0.1 remote 198.18.99.1\n",
        around: |p| from_wan() / outer4() / p,
        versions: &[4, 6],
        device: "wan",
        devices: "wan, lan",
    },
    Case {
        name: "ip6tnl",
        net: "link add far type ip6tnl local 2001:db8::1 remote 2001:db8:99::1\n",
        around: |p| from_wan() / outer6() / DestOptions::new().option(4, &[4]) / p,
        versions: &[4, 6],
        device: "wan",
        devices: "wan, lan",
    },
    Case {
        name: "ip6tnl without limit",
        net: "link add far type ip6tnl local 2001:db8::1 remote 2001:db8:99::1 encaplimit none hoplimit inherit tclass inherit flowlabel inherit\n",
        around: |p| from_wan() / outer6() / p,
        versions: &[4, 6],
        device: "wan",
        devices: "wan, lan",
    },
    Case {
        name: "ipip in a VLAN",
        net: "link add link wan name mid type vlan id 5\nlink set mid addrgenmode none\nlink set mid up\naddr add 198.18.2.1/24 dev mid\n\
              neigh add 198.18.2.7 lladdr 02:00:00:00:00:a8 dev mid\nroute add 198.18.98.0/24 via 198.18.2.7\n\
              link add far type ipip local 198.18.0.1 remote 198.18.98.1\n",
        around: |p| from_wan() / Vlan::new(5) / Ipv4::new("198.18.98.1", "198.18.0.1") / p,
        versions: &[4],
        device: "wan",
        devices: "wan, lan",
    },
];

impl Case {
    fn network(&self) -> String {
        let Case { net, .. } = self;
        let far = if net.contains("name far")
            || net.contains("type bridge") && net.contains("add far")
        {
            "addr add 198.18.30.1/24 dev far\naddr add 2001:db8:30::1/64 dev far nodad\n\
             neigh add 198.18.30.7 lladdr 02:00:00:00:00:a7 dev far\nneigh add 2001:db8:30::7 lladdr 02:00:00:00:00:a7 dev far\n"
        } else if self.versions == [4] {
            "route add 198.18.30.0/24 dev far\n"
        } else {
            "route add 198.18.30.0/24 dev far\nroute add 2001:db8:30::/64 dev far\n"
        };
        let routes =
            "route add 198.18.99.0/24 via 198.18.0.7\nroute add 2001:db8:99::/48 via 2001:db8::7\n";
        format!("{WIRES}{routes}{net}link set far up\n{far}")
    }

    fn rules(&self, hook: Option<&str>, nat: bool) -> String {
        let (flowtable, add) = match hook {
            Some(hook) => (
                format!(
                    "flowtable f {{ hook {hook} priority 0; devices = {{ {} }}; }}",
                    self.devices
                ),
                "meta l4proto { tcp, udp } flow add @f",
            ),
            None => (String::new(), ""),
        };
        let nat = if nat { "oifname far masquerade" } else { "" };
        format!(
            "table inet t {{ {flowtable}
                chain f {{ type filter hook forward priority 0; {add}; ct state invalid drop; }}
                chain n {{ type nat hook postrouting priority srcnat; {nat}; }}
            }}"
        )
    }

    fn path(&self, hook: Option<&str>, nat: bool) -> Dataplane {
        let mut path = router(&self.network());
        let mut ruleset = Ruleset::default();
        let mut session = Session::new(Options::default(), &NoFiles, &NoNames);
        let text = self.rules(hook, nat).replace("; ;", ";").replace("\n ;", "");
        let outcome = session.run(Origin::CommandLine, text.clone(), &mut ruleset, 0);
        assert!(outcome.ok, "{}\n{text}", outcome.stderr);
        path.set_rules(Arc::new(Linked::new(&ruleset.generation()).unwrap()));
        path
    }

    /// Whether the flowtable has a device on another one in place of the lowest.
    fn by_upper_device(&self) -> bool {
        self.devices.contains("far")
    }

    /// A question and its answer.
    fn exchange(&self, version: u8, n: u16, tos: u8, len: usize) -> [(&'static str, Vec<u8>); 2] {
        let data = || payload(vec![n as u8; len]);
        let (there, back): (Layers, Layers) = if version == 4 {
            let ip = |src: &str, dst: &str| Ipv4::new(src, dst).tos(tos);
            let there = if n.is_multiple_of(2) {
                ip("198.18.1.7", "198.18.30.7").df()
            } else {
                ip("198.18.1.7", "198.18.30.7")
            };
            (
                there / Udp::new(1000, 53) / data(),
                ip("198.18.30.7", "198.18.1.7") / Udp::new(53, 1000) / data(),
            )
        } else {
            let ip = |src: &str, dst: &str| Ipv6::new(src, dst).traffic_class(tos).flow_label(7);
            (
                ip("2001:db8:1::7", "2001:db8:30::7") / Udp::new(1000, 53) / data(),
                ip("2001:db8:30::7", "2001:db8:1::7") / Udp::new(53, 1000) / data(),
            )
        };
        [("lan", (from_lan() / there).build()), (self.device, (self.around)(back).build())]
    }
}

fn send(path: &mut Dataplane, steps: &[(&str, Vec<u8>)], burst: usize) -> Seen {
    let mut seen = Seen::default();
    for steps in steps.chunks(burst) {
        let devices: Vec<u32> = steps
            .iter()
            .map(|(device, _)| path.network().link_by_name(device).unwrap().index)
            .collect();
        let frames = steps.iter().zip(devices);
        path.receive(
            frames.map(|((_, bytes), device)| Frame { device, bytes, time: START }),
            &mut seen,
        );
    }
    seen
}

#[test]
fn encapsulated_flows_leave_as_without_a_flowtable() {
    for case in CASES {
        for &version in case.versions {
            let mut steps = Vec::new();
            for n in 0..6 {
                // ECN of the inner header comes and goes.
                steps.extend(case.exchange(
                    version,
                    n,
                    [0, 0x2a, 3, 0xb9][usize::from(n) % 4],
                    20 + usize::from(n),
                ));
            }
            let plain = send(&mut case.path(None, false), &steps, 1);
            assert_eq!(plain.frames.len(), 12, "{} {version}: {:#?}", case.name, plain.lines);
            for hook in ["ingress", "early_ingress"] {
                let mut path = case.path(Some(hook), false);
                let fast = send(&mut path, &steps, 1);
                let what = format!("{} {version} {hook}", case.name);
                assert_eq!(fast.lines, plain.lines, "{what}");
                assert_eq!(fast.frames, plain.frames, "{what}");
                // As in Linux 7.3, no flow is added if its frames leave by another device than
                // those of the flowtable.
                let want = if case.by_upper_device() { 0 } else { 10 };
                assert_eq!(
                    path.flow_counts().packets,
                    want,
                    "{what}: {:?}",
                    path.flow_refusals().collect::<Vec<_>>()
                );
                let fast = send(&mut case.path(Some(hook), false), &steps, 64);
                let sorted = |seen: &Seen| {
                    let mut frames = seen.frames.clone();
                    frames.sort();
                    frames
                };
                assert_eq!(sorted(&fast).len(), 12, "{what}");
                if !case.name.contains("ip") {
                    assert_eq!(sorted(&fast), sorted(&plain), "{what}");
                }
            }
        }
    }
}

#[test]
fn packets_that_do_not_fit_fall_back_and_are_answered() {
    for case in CASES {
        for &version in case.versions {
            for hook in ["ingress", "early_ingress"] {
                let mut steps: Vec<_> =
                    (0..3).flat_map(|n| case.exchange(version, n, 0, 20)).collect();
                for len in [1300, 1390, 1400, 1410, 1420, 1432, 1440, 1444, 1452, 1460, 1464, 1472]
                {
                    let [there, back] = case.exchange(version, 2, 0, len);
                    steps.push(there);
                    let header = back.1.len() - len;
                    if header + len <= 1514 {
                        steps.push(back);
                    }
                }
                let plain = send(&mut case.path(None, false), &steps, 1);
                let mut path = case.path(Some(hook), false);
                let fast = send(&mut path, &steps, 1);
                assert_eq!(fast.lines, plain.lines, "{} {version} {hook}", case.name);
                assert_eq!(fast.frames, plain.frames, "{} {version} {hook}", case.name);
                let any = path.flow_counts().packets > 6;
                assert_eq!(any, !case.by_upper_device(), "{} {version} {hook}", case.name);
            }
        }
    }
}

#[test]
fn unusual_outer_headers_take_the_slow_path() {
    let case = &CASES.iter().find(|c| c.name == "ipip").unwrap();
    let inner =
        || Ipv4::new("198.18.30.7", "198.18.1.7").tos(2) / Udp::new(53, 1000) / payload([7; 20]);
    let whole = (from_wan() / outer4().id(5) / inner()).build();
    for (name, frames) in [
        ("fragments", fragments(&whole, 44, 1)),
        ("options", vec![(from_wan() / outer4().options(&[1, 1, 1, 0]) / inner()).build()]),
        ("congestion", vec![(from_wan() / outer4().tos(3) / inner()).build()]),
        ("last hop", vec![(from_wan() / outer4().ttl(1) / inner()).build()]),
        ("checksum", vec![(from_wan() / outer4().checksum(1) / inner()).build()]),
        (
            "another tunnel",
            vec![(from_wan() / Ipv4::new("198.18.99.2", "198.18.0.1") / inner()).build()],
        ),
        ("none", vec![(from_wan() / inner()).build()]),
    ] {
        for hook in ["ingress", "early_ingress"] {
            let mut steps: Vec<_> = (0..3).flat_map(|n| case.exchange(4, n, 0, 20)).collect();
            let mut path = case.path(Some(hook), false);
            let mut plain = case.path(None, false);
            send(&mut path, &steps, 1);
            send(&mut plain, &steps, 1);
            let before = path.flow_counts().packets;
            steps.clear();
            steps.extend(frames.iter().map(|f| ("wan", f.clone())));
            let seen = send(&mut path, &steps, 64);
            assert_eq!(seen.lines, send(&mut plain, &steps, 64).lines, "{name} {hook}");
            assert_eq!(path.flow_counts().packets, before, "{name} {hook}");
        }
    }
}

#[test]
fn translated_flows_leave_a_tunnel_as_without_a_flowtable() {
    let case = &CASES.iter().find(|c| c.name == "ipip").unwrap();
    let net = format!("{}addr add 198.18.29.1/32 dev far\n", case.network());
    for hook in ["ingress", "early_ingress"] {
        let (mut plain, mut fast) = (case.path(None, true), case.path(Some(hook), true));
        for path in [&mut plain, &mut fast] {
            let net = penstock_net::Network::from_batch("net.ip", &net).unwrap();
            path.set_network(Arc::new(net), START, &mut Seen::default());
        }
        let there = (from_lan()
            / Ipv4::new("198.18.1.7", "198.18.30.7")
            / Udp::new(1000, 53)
            / payload(b"?"))
        .build();
        let back = (from_wan()
            / outer4()
            / Ipv4::new("198.18.30.7", "198.18.29.1")
            / Udp::new(53, 1000)
            / payload(b"!"))
        .build();
        let steps: Vec<_> =
            (0..5).flat_map(|_| [("lan", there.clone()), ("wan", back.clone())]).collect();
        let (plain, seen) = (send(&mut plain, &steps, 1), send(&mut fast, &steps, 1));
        assert_eq!(seen.frames, plain.frames, "{hook}");
        assert_eq!((seen.frames.len(), fast.flow_counts().packets), (10, 8), "{:#?}", seen.lines);
        assert!(seen.lines[0].contains("[198.18.29.1 > 198.18.30.7"), "{}", seen.lines[0]);
    }
}

#[test]
fn a_path_with_a_smaller_mtu_is_learned_by_flows() {
    let case = &CASES.iter().find(|c| c.name == "ipip").unwrap();
    for hook in ["ingress", "early_ingress"] {
        let mut path = case.path(Some(hook), false);
        let small: Vec<_> = (0..3).flat_map(|n| case.exchange(4, n, 0, 20)).collect();
        send(&mut path, &small, 1);
        let large = [case.exchange(4, 2, 0, 1200)[0].clone()];
        assert_eq!(send(&mut path, &large, 1).frames.len(), 1);
        let quoted = Ipv4::new("198.18.0.1", "198.18.99.1").protocol(4)
            / Ipv4::new("198.18.1.7", "198.18.30.7")
            / Udp::new(1, 2);
        let error = Icmp::new(3, 4).rest_of_header(1000);
        let error = (from_wan() / Ipv4::new("198.18.0.9", "198.18.0.1") / error / quoted).build();
        send(&mut path, &[("wan", error)], 1);
        let lines = send(&mut path, &large, 1).lines;
        assert!(lines[0].ends_with("icmp 3/4 0x3d4"), "{lines:?}");
        let before = path.flow_counts();
        send(&mut path, &small, 1);
        assert!(path.flow_counts().packets > before.packets, "{hook}");
    }
}
