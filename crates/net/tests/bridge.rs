// SPDX-License-Identifier: Apache-2.0

//! Bridges from `ip -batch` and `bridge -batch` lines.

use penstock_net::{Link, MulticastRouter, Network, Snooping};

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
            "link set br0 type bridge mcast_querier 1",
            "\"mcast_querier 1\" is not supported: the bridge sends no queries of its own",
        ),
        (
            "link set br0 type bridge mcast_igmp_version 3",
            "\"mcast_igmp_version 3\" is not supported: groups are not divided by sources",
        ),
        (
            "link set br0 type bridge mcast_vlan_snooping 1",
            "\"mcast_vlan_snooping 1\" is not supported: VLANs have no settings of their own",
        ),
        ("link set br0 type bridge mcast_router 3", "\"mcast_router 3\" is not supported"),
        ("link set one type bridge_slave mcast_router 3", "\"mcast_router 3\" is not supported"),
        ("link set br0 type bridge mcast_what 1", "unknown word \"mcast_what\""),
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
        ("bridge mdb del dev br0", "\"bridge mdb del\" is not supported"),
    ] {
        let got = Network::from_batch("net.ip", &format!("{NET}{line}\n")).unwrap_err();
        assert_eq!(got.message, want, "{line}");
    }
}

/// What `ip -d link` prints of a bridge and a port.
#[test]
fn settings_of_multicast_are_read_as_they_are_printed() {
    let net =
        net("link set br0 type bridge mcast_snooping 1 mcast_vlan_snooping 0 mcast_router 2 \
        mcast_query_use_ifaddr 0 mcast_querier 0 mcast_hash_elasticity 16 mcast_hash_max 512 \
        mcast_last_member_count 3 mcast_startup_query_count 2 mcast_last_member_interval 100 \
        mcast_membership_interval 26000 mcast_querier_interval 25500 mcast_query_interval 12500 \
        mcast_query_response_interval 1000 mcast_startup_query_interval 3125 \
        mcast_stats_enabled 0 mcast_igmp_version 2 mcast_mld_version 1
link set one type bridge_slave mcast_router 0 mcast_fast_leave on mcast_flood off
bridge link set dev two mcast_router 2 fastleave off
");
    let snooping = &link(&net, "br0").bridge().unwrap().snooping;
    let default = Snooping::default();
    let want = Snooping {
        router: MulticastRouter::Always,
        hash_max: 512,
        last_member_count: 3,
        ..default
    };
    assert_eq!(*snooping, want);
    let port = |name| {
        let port = link(&net, name).port.as_ref().unwrap();
        (port.mcast_router, port.fast_leave)
    };
    assert_eq!(port("one"), (MulticastRouter::Never, true));
    assert_eq!(port("two"), (MulticastRouter::Always, false));
}

#[test]
fn memberships_are_added_by_hand() {
    let net = net("link set one up
link set br0 up
bridge mdb add dev br0 port one grp 239.1.1.1
bridge mdb add dev br0 port two grp 239.1.1.1 permanent
bridge mdb add dev br0 port br0 grp ff05::1 temp
bridge mdb add dev br0 port br0 grp 01:02:03:04:05:06 permanent
link set br0 type bridge vlan_filtering 1
bridge vlan add dev two vid 7
bridge mdb add dev br0 port two grp 239.1.1.2 permanent
bridge mdb add dev br0 port two grp 239.1.1.3 permanent vid 7
");
    let all: Vec<String> = net
        .mdb()
        .iter()
        .map(|e| {
            let port = if e.port == 0 { "br0".into() } else { net.name_of(e.port) };
            format!(
                "{port} {} {} {}",
                e.group,
                e.vid,
                if e.permanent { "permanent" } else { "temp" }
            )
        })
        .collect();
    assert_eq!(
        all,
        [
            "one 239.1.1.1 0 temp",
            "two 239.1.1.1 0 permanent",
            "br0 ff05::1 0 temp",
            "br0 01:02:03:04:05:06 0 permanent",
            "two 239.1.1.2 1 permanent",
            "two 239.1.1.2 7 permanent",
            "two 239.1.1.3 7 permanent",
        ]
    );
}

#[test]
fn memberships_that_the_kernel_refuses_are_refused() {
    const UP: &str = "link set one up\nlink set br0 up\n";
    for (before, entry, want) in [
        ("", "port one grp 239.1.1.1", "Invalid argument: the bridge is not up"),
        (
            "link set br0 up type bridge mcast_snooping 0\n",
            "port one grp 239.1.1.1",
            "Invalid argument: the bridge does not snoop memberships",
        ),
        (
            UP,
            "port two grp 239.1.1.1",
            "Invalid argument: the port is not up, and the entry not \"permanent\"",
        ),
        (UP, "port lo grp 239.1.1.1", "Invalid argument: the device is no port of the bridge"),
        (
            UP,
            "port one grp 198.18.0.1",
            "Invalid argument: 198.18.0.1 is not the address of a group",
        ),
        (
            UP,
            "port one grp 224.0.0.251",
            "Invalid argument: 224.0.0.251 is a group of the link, which all ports get",
        ),
        (
            UP,
            "port one grp ff02::1",
            "Invalid argument: ff02::1 is the group of all nodes, which all ports get",
        ),
        (
            UP,
            "port one grp 02:00:00:00:00:01 permanent",
            "Invalid argument: 02:00:00:00:00:01 is not the address of a group",
        ),
        (
            UP,
            "port one grp 01:00:00:00:00:01",
            "Invalid argument: an entry with a link address is \"permanent\"",
        ),
        (
            UP,
            "port br0 grp 239.1.1.1 permanent",
            "Invalid argument: memberships of the host are not \"permanent\"",
        ),
        (
            "link set one up\nlink set br0 up type bridge vlan_filtering 1\n",
            "port one grp 239.1.1.1 vid 9",
            "Invalid argument: VLAN 9 is not configured",
        ),
        (
            UP,
            "port one grp 239.1.1.1\nbridge mdb add dev br0 port one grp 239.1.1.1 permanent",
            "File exists",
        ),
        (
            UP,
            "port one grp 239.1.1.1 src 198.18.0.1",
            "\"src\" is not supported: sources are not looked at",
        ),
    ] {
        let text = format!("{NET}{before}bridge mdb add dev br0 {entry}\n");
        let got = Network::from_batch("net.ip", &text).unwrap_err();
        assert_eq!(got.message, want, "{entry}");
    }
}
