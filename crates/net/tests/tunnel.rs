// SPDX-License-Identifier: Apache-2.0

//! Tunnels and PPPoE sessions: what lines make of them, and which one a packet belongs to.

use penstock_net::{Network, TunnelKind};

const WIRES: &str = "
link add wan type veth
link add lan mtu 1400 type veth
link set wan up
link set lan up
addr add 198.18.0.1/24 dev wan
addr add 2001:db8::1/64 dev wan
addr add 198.18.1.1/24 dev lan
";

fn net(lines: &str) -> Network {
    Network::from_batch("net.ip", &format!("{WIRES}{lines}")).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn lines_of_ip_make_tunnels_with_the_kernels_defaults() {
    // Line, kind, ARPHRD, MTU.
    for (line, kind, hardware, mtu) in [
        ("link add t type ipip local 198.18.0.1 remote 198.18.0.2", "ipip", 768, 1480),
        ("link add t type ipip local 198.18.1.1 remote 198.18.1.2 dev lan", "ipip", 768, 1380),
        ("link add t type ipip remote 198.18.1.2", "ipip", 768, 1380),
        ("link add t type ipip local 198.18.0.1", "ipip", 768, 1480),
        ("link add t mtu 1400 type ipip remote 198.18.1.2", "ipip", 768, 1400),
        ("link add t type sit local 198.18.0.1 remote 198.18.0.2 ttl 64", "sit", 776, 1480),
        ("link add t type sit remote 198.18.1.2 mode any tos inherit", "sit", 776, 1380),
        ("link add t type ipip remote 239.1.1.1 dev lan", "ipip", 768, 1380),
        ("link add t type sit local 198.18.0.1 6rd-prefix 2001:db8::/32", "sit", 776, 1480),
        (
            "link add t type sit remote 198.18.0.2\nlink set t type sit remote 198.18.0.3 dev lan",
            "sit",
            776,
            1380,
        ),
        ("link add t type ip6tnl local 2001:db8::1 remote 2001:db8::2", "ip6tnl", 769, 1452),
        (
            "link add t type ip6tnl remote 2001:db8::2 encaplimit none tclass 0x20",
            "ip6tnl",
            769,
            1460,
        ),
        (
            "link add t type ip6tnl remote 2001:db8::2 mode ip6ip6 dscp inherit dev wan",
            "ip6tnl",
            769,
            1452,
        ),
        (
            "tunnel add t mode ipip local 198.18.0.1 remote 198.18.0.2 ttl inherit nopmtudisc",
            "ipip",
            768,
            1480,
        ),
        ("tunnel add t mode sit remote any local 198.18.0.1", "sit", 776, 1480),
        ("ip -6 tunnel add t mode ipip6 local 2001:db8::1 remote 2001:db8::2", "ip6tnl", 769, 1452),
        (
            "-6 tunnel add t mode any remote 2001:db8::2 local 2001:db8::1 hoplimit 9",
            "ip6tnl",
            769,
            1452,
        ),
        ("link add t type pppoe dev wan session 7 peer 02:00:00:00:00:09", "ppp", 512, 1492),
        ("link add t link lan type pppoe session 7 peer 02:00:00:00:00:09", "ppp", 512, 1392),
    ] {
        let net = net(&format!(
            "{line}\nlink set t up\naddr add 198.18.9.1 peer 198.18.9.2/32 dev t\nroute add 198.18.10.0/24 dev t"
        ));
        let link = net.link_by_name("t").unwrap();
        assert_eq!(
            (link.kind_name(), link.hardware_type(), link.mtu),
            (kind, hardware, mtu),
            "{line}"
        );
        assert!(!link.has_link_header() && !link.arp, "{line}");
    }
}

#[test]
fn bad_tunnel_lines_are_refused_with_a_message() {
    let first = "link add one type ipip local 198.18.0.1 remote 198.18.0.2\n";
    for (line, want) in [
        ("link add t type ipip", "File exists"),
        ("link add t type ipip local 198.18.0.1 remote 198.18.0.2", "File exists"),
        (
            "link add t type ipip ttl 5 nopmtudisc remote 198.18.0.3",
            "ttl != 0 and nopmtudisc are incompatible",
        ),
        ("link add t type ipip remote 2001:db8::2", "\"2001:db8::2\" is of the other family"),
        (
            "link add t type gre remote 198.18.0.3 local 198.18.0.1 key 5",
            "link type \"gre\" is not supported yet",
        ),
        (
            "link add t address 02:00:00:00:00:01 type gretap remote 198.18.0.3",
            "link type \"gretap\" is not supported yet",
        ),
        ("link add t type ip6gre remote 2001:db8::2", "link type \"ip6gre\" is not supported yet"),
        (
            "link add t type vxlan id 42 group 239.1.1.1 dev wan dstport 4789",
            "link type \"vxlan\" is not supported yet",
        ),
        (
            "link add name t type geneve id 7 remote 198.18.0.3",
            "link type \"geneve\" is not supported yet",
        ),
        (
            "-6 tunnel add t mode ip6gre remote 2001:db8::2 local 2001:db8::1",
            "tunnels of mode \"ip6gre\" are not supported yet",
        ),
        (
            "link add t type ipip remote 198.18.0.3 mode ip6ip",
            "Cannot guess tunnel mode: \"ip6ip\"",
        ),
        ("link add t type ipip remote 198.18.0.3 encap fou", "\"encap\" is not supported yet"),
        ("link add t type ipip external", "\"external\" is not supported yet"),
        ("link add t type ipip remote 198.18.0.3 frob", "unknown word \"frob\""),
        ("link add t type sit remote 198.18.0.3 isatap", "ISATAP is not supported"),
        ("tunnel add t mode isatap local 198.18.0.1", "ISATAP is not supported"),
        ("link add t type sit local 198.18.0.1 6rd-prefix 2001:db8::/33", "Invalid argument"),
        ("link add t type sit local 198.18.0.1 6rd-relay_prefix 198.18.0.1/16", "Invalid argument"),
        (
            "link add t type sit local 198.18.0.1 6rd-prefix 198.18.0.0/16",
            "\"198.18.0.0/16\" is not a prefix of IPv6",
        ),
        ("link add t type ipip remote 198.18.0.3 6rd-reset", "unknown word \"6rd-reset\""),
        ("link set one type ipip remote any", "Invalid argument"),
        ("link set one type sit remote 198.18.0.3", "the device is no sit"),
        ("link set wan type ipip remote 198.18.0.3", "the device is no ipip"),
        ("tunnel change one mode sit", "one is a tunnel of another kind than \"sit\""),
        ("tunnel change wan mode ipip remote 198.18.0.3", "wan is no tunnel"),
        ("tunnel change one ttl 9", "\"tunnel change\" needs a \"mode\""),
        ("tunnel 6rd dev one 6rd-reset", "one is no sit"),
        ("tunnel 6rd one 6rd-reset", "\"tunnel 6rd\" needs \"dev DEVICE\""),
        (
            "link add t address 02:00:00:00:00:01 type ipip remote 198.18.0.3",
            "Operation not supported: the device has no link address",
        ),
        (
            "link add t link wan type ipip remote 198.18.0.3",
            "\"link\" makes no sense with \"type ipip\": use \"dev DEVICE\" after it",
        ),
        (
            "link add t mtu 1000 type sit remote 198.18.0.3",
            "mtu less than device minimum or greater than device maximum",
        ),
        ("link set one mtu 67", "mtu less than device minimum or greater than device maximum"),
        (
            "link set one address 02:00:00:00:00:01",
            "Operation not supported: the device has no link address",
        ),
        ("link add link one name one.5 type vlan id 5", "VLANs are not possible on this device"),
        (
            "link add b type bridge\nlink set one master b",
            "Invalid argument: the device is not Ethernet",
        ),
        ("tunnel add t remote 198.18.0.3", "\"tunnel add\" needs a \"mode\""),
        ("tunnel add mode ipip remote 198.18.0.3", "a tunnel needs a name"),
        (
            "tunnel add t mode gre remote 198.18.0.3",
            "tunnels of mode \"gre\" are not supported yet",
        ),
        ("-6 tunnel add t mode sit remote 198.18.0.3", "mode \"sit\" is of the other family"),
        (
            "link add t type pppoe dev wan session 7",
            "\"type pppoe\" needs \"dev DEVICE\", \"session ID\" and \"peer ADDRESS\"",
        ),
        (
            "link add t type pppoe dev wan session 0 peer 02:00:00:00:00:09",
            "0 is not the id of a session",
        ),
        (
            "link add t type pppoe dev one session 7 peer 02:00:00:00:00:09",
            "PPPoE is not possible on this device",
        ),
    ] {
        let text = format!("{WIRES}{first}{line}\n");
        let error = Network::from_batch("net.ip", &text).map(|_| ()).unwrap_err();
        assert_eq!(error.message, want, "{line}");
    }
}

#[test]
fn the_most_specific_tunnel_receives_a_packet() {
    let net = net("
link add exact type ipip local 198.18.0.1 remote 198.18.0.2
link add bound type ipip local 198.18.0.1 remote 198.18.0.3 dev wan
link add remote type ipip remote 198.18.0.4
link add local type ipip local 198.18.1.1
link add off type ipip local 198.18.0.1 remote 198.18.0.5
link add sit type sit local 198.18.0.1 remote 198.18.0.3 dev wan
link add any type sit dev lan
link add v6 type ip6tnl local 2001:db8::1 remote 2001:db8::2
link add v6b type ip6tnl local 2001:db8::1
link add ppp type pppoe dev wan session 7 peer 02:00:00:00:00:09
link set exact up
link set bound up
link set remote up
link set local up
link set sit up
link set any up
link set v6 up
link set v6b up
link set ppp up
");
    let address = |a: &str| match a.parse().unwrap() {
        std::net::IpAddr::V4(a) => u32::from(a).into(),
        std::net::IpAddr::V6(a) => u128::from(a),
    };
    let index = |name: &str| net.link_by_name(name).unwrap().index;
    for (kind, remote, local, device, want) in [
        (TunnelKind::Ipip, "198.18.0.2", "198.18.0.1", "wan", Some("exact")),
        (TunnelKind::Ipip, "198.18.0.3", "198.18.0.1", "wan", Some("bound")),
        // It is bound, but there is no better one.
        (TunnelKind::Ipip, "198.18.0.3", "198.18.0.1", "lan", Some("bound")),
        (TunnelKind::Ipip, "198.18.0.4", "198.18.0.1", "wan", Some("remote")),
        (TunnelKind::Ipip, "198.18.0.4", "198.18.1.1", "wan", Some("remote")),
        (TunnelKind::Ipip, "198.18.0.9", "198.18.1.1", "wan", Some("local")),
        (TunnelKind::Ipip, "198.18.0.5", "198.18.0.1", "wan", None),
        (TunnelKind::Ipip, "198.18.0.9", "198.18.0.1", "wan", None),
        (TunnelKind::Sit, "198.18.0.3", "198.18.0.1", "wan", Some("sit")),
        (TunnelKind::Sit, "198.18.0.3", "198.18.0.1", "lan", Some("any")),
        (TunnelKind::Sit, "198.18.0.4", "198.18.0.1", "wan", None),
        (TunnelKind::Ip6tnl, "2001:db8::2", "2001:db8::1", "wan", Some("v6")),
        (TunnelKind::Ip6tnl, "2001:db8::3", "2001:db8::1", "wan", Some("v6b")),
        (TunnelKind::Ip6tnl, "2001:db8::3", "2001:db8::9", "wan", None),
    ] {
        let found = net.tunnel(kind, address(remote), address(local), index(device));
        assert_eq!(found.map(|l| &*l.name), want, "{kind:?} {remote} {local} {device}");
    }
    let peer = "02:00:00:00:00:09".parse().unwrap();
    assert_eq!(net.pppoe(index("wan"), 7, peer), Some(index("ppp")));
    assert_eq!((net.pppoe(index("lan"), 7, peer), net.pppoe(index("wan"), 8, peer)), (None, None));
}

#[test]
fn tunnels_that_ipv6_runs_on_have_a_link_local_address() {
    let net = net("
link add ipip type ipip local 198.18.0.1 remote 198.18.0.2
link add sit type sit local 198.18.0.1 remote 198.18.0.2
link add v6 index 9 type ip6tnl local 2001:db8::1 remote 2001:db8::2
link add quiet addrgenmode none type ip6tnl local 2001:db8::1 remote 2001:db8::3
link set ipip up
link set sit up
link set v6 up
link set quiet up
");
    let first = |name: &str| net.link_by_name(name).unwrap().addresses6.first().map(|a| a.local);
    assert_eq!(first("sit"), Some(0xfe80 << 112 | 0xc612_0001));
    assert_eq!(first("v6").map(|a| a >> 64), Some(0xfe80 << 48));
    assert_eq!((first("ipip"), first("quiet")), (None, None));
}
