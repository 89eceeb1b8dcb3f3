// SPDX-License-Identifier: Apache-2.0

//! Bridges from `ip -batch` and `bridge -batch` lines.

use penstock_net::{Link, Network};

const NET: &str = "
link add br0 type bridge ageing_time 1000 stp_state 0 forward_delay 0
link add one address 02:00:00:00:00:09 type veth
link add two address 02:00:00:00:00:05 mtu 1400 type veth
link set one master br0
link set two master br0
";

fn net(more: &str) -> Network {
    Network::from_batch("net.ip", &format!("{NET}{more}")).unwrap()
}

fn link<'n>(net: &'n Network, name: &str) -> &'n Link {
    net.link_by_name(name).unwrap()
}

/// Address and MTU of the bridge.
fn looks(more: &str) -> String {
    let net = net(more);
    let br0 = link(&net, "br0");
    format!("{} {}", br0.mac, br0.mtu)
}

#[test]
fn a_bridge_takes_its_address_and_mtu_from_ports_until_they_are_set() {
    for (more, want) in [
        ("", "02:00:00:00:00:05 1400"),
        ("link set two nomaster\n", "02:00:00:00:00:09 1500"),
        ("link set one address 02:00:00:00:00:01 mtu 1300\n", "02:00:00:00:00:01 1300"),
        (
            "link set br0 address 02:00:00:00:00:77 mtu 1000\nlink set two mtu 900\n",
            "02:00:00:00:00:77 1000",
        ),
    ] {
        assert_eq!(looks(more), want, "{more}");
    }
}

#[test]
fn the_port_that_was_added_last_is_the_first_to_be_flooded() {
    let net = net("link add three master br0 type veth\n");
    let names =
        |ports: &[u32]| ports.iter().map(|p| net.name_of(*p).to_string()).collect::<Vec<_>>();
    let bridge = link(&net, "br0").bridge().unwrap();
    assert_eq!(names(&bridge.ports), ["three", "two", "one"]);
    assert_eq!(bridge.ageing, 10_000_000_000);
}

#[test]
fn ipv6_begins_on_a_bridge_with_its_first_port() {
    let own = |more: &str| {
        let net = net(more);
        link(&net, "br0")
            .addresses6
            .iter()
            .map(|a| std::net::Ipv6Addr::from(a.local).to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(own("link set br0 up\n"), [""; 0]);
    assert_eq!(own("link set br0 up\nlink set one up\n"), ["fe80::ff:fe00:5"]);
    // As it was then.
    assert_eq!(
        own("link set two nomaster\nlink set br0 up\nlink set one up\nlink set two master br0\n"),
        ["fe80::ff:fe00:9"]
    );
}

#[test]
fn forwarding_entries_are_those_of_the_host_and_those_that_were_added() {
    let net = net("bridge vlan add dev one vid 7
bridge fdb add 02:00:00:00:00:aa dev one master static
bridge fdb add 02:00:00:00:00:bb dev two master dynamic vlan 1
bridge fdb add 02:00:00:00:00:cc dev br0 self local
bridge fdb replace 02:00:00:00:00:bb dev one master static sticky vlan 1
");
    let mut all: Vec<String> = net
        .fdb()
        .iter()
        .map(|e| {
            let port = if e.port == 0 { "br0".into() } else { net.name_of(e.port) };
            let word = |on, text| if on { text } else { "" };
            let (local, fixed) =
                (word(e.local, " local"), word(e.is_static && !e.local, " static"));
            format!("{} {port} {}{local}{fixed}{}", e.mac, e.vid, word(e.sticky, " sticky"))
        })
        .collect();
    all.sort();
    assert_eq!(
        all,
        [
            "02:00:00:00:00:05 two 0 local",
            "02:00:00:00:00:05 two 1 local",
            "02:00:00:00:00:09 one 0 local",
            "02:00:00:00:00:09 one 1 local",
            "02:00:00:00:00:09 one 7 local",
            "02:00:00:00:00:aa one 0 static",
            "02:00:00:00:00:aa one 1 static",
            "02:00:00:00:00:aa one 7 static",
            "02:00:00:00:00:bb one 1 static sticky",
            "02:00:00:00:00:cc br0 0 local",
            "02:00:00:00:00:cc br0 1 local",
        ]
    );
}

#[test]
fn impossible_bridge_lines_are_refused() {
    for (line, want) in [
        (
            "link set br0 type bridge stp_state 1",
            "\"stp_state 1\" is not supported: there is no spanning tree",
        ),
        (
            "link set br0 type bridge mcast_snooping 1",
            "\"mcast_snooping 1\" is not supported: memberships are not snooped",
        ),
        (
            "link set br0 type bridge mcast_querier 1",
            "\"mcast_querier\" is not supported: memberships are not snooped",
        ),
        (
            "link set br0 type bridge nf_call_iptables 1",
            "\"nf_call_iptables 1\" is not supported: frames of bridges do not pass IP hooks",
        ),
        ("link set br0 type bridge vlan_default_pvid 4095", "4095 is not a VLAN id"),
        ("link set br0 type bridge foo 1", "unknown word \"foo\""),
        ("link set br0 type bridge ageing_time", "\"ageing_time\" needs a value"),
        ("link set one type bridge", "the device is no bridge"),
        ("link set br0 type bridge_slave flood on", "the device is no port of a bridge"),
        (
            "link set one type bridge_slave proxy_arp on",
            "\"proxy_arp on\" is not supported: it is not there yet",
        ),
        (
            "link set one type bridge_slave flood maybe",
            "\"flood\" must be \"on\" or \"off\", not \"maybe\"",
        ),
        ("link set lo master br0", "Invalid argument: the loopback device cannot be a port"),
        ("link set one master two", "Operation not supported: the master is no bridge"),
        (
            "link add br1 type bridge\nlink set br1 master br0",
            "Can not enslave a bridge to a bridge",
        ),
        (
            "link add link br0 name v type vlan id 5\nlink set v master br0",
            "Too many levels of symbolic links: the device stands on that bridge",
        ),
        ("bridge vlan add dev one vid 4095", "\"4095\" is not a VLAN id"),
        ("bridge vlan add dev one vid 5-7 pvid", "\"pvid\" cannot be of many VLANs"),
        ("bridge vlan add dev br0 vid 5", "the device is no port of a bridge"),
        ("bridge vlan del dev one vid 5", "No such file or directory: VLAN 5 is not there"),
        (
            "bridge fdb add 02:00:00:00:00:aa dev one",
            "entries of the device itself are not supported: say \"master\"",
        ),
        (
            "bridge fdb add 02:00:00:00:00:aa dev one master vlan 9",
            "Invalid argument: VLAN 9 is not configured on the port",
        ),
        (
            "bridge fdb add 01:00:00:00:00:aa dev one master",
            "Invalid argument: not the address of one station",
        ),
        (
            "bridge fdb add 02:00:00:00:00:aa dev one master\nbridge fdb add 02:00:00:00:00:aa dev two master",
            "File exists",
        ),
        ("bridge mdb add dev br0", "\"bridge mdb add\" is not supported"),
    ] {
        let got = Network::from_batch("net.ip", &format!("{NET}{line}\n")).unwrap_err();
        assert_eq!(got.message, want, "{line}");
    }
}
