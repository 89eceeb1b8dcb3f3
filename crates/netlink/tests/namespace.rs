// SPDX-License-Identifier: Apache-2.0

//! A network namespace of the test's own: what the kernel says of it is what was configured, and
//! stays so.

use std::net::IpAddr;
use std::os::fd::AsFd;
use std::process::Command;

use penstock_net::{Flow4, Flow6, Network};
use penstock_netlink::links::{self, Standing};
use penstock_netlink::{Changed, Monitor, Socket, State, XdpMonitor, XdpSocket};

fn namespace() -> bool {
    // SAFETY: no pointers; it concerns this thread alone.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
        eprintln!("skipped: no rights to make a network namespace");
        return false;
    }
    batch(CONFIG);
    true
}

const CONFIG: &str = "
link set lo up
link add wan address 02:00:00:00:00:01 type veth peer name far
link set far up
link set wan addrgenmode none
link set wan up
addr add 198.18.0.1/24 dev wan
addr add 2001:db8::1/64 dev wan nodad
neigh add 198.18.0.7 lladdr 02:00:00:00:00:07 dev wan
route add default via 198.18.0.254
route add 198.19.0.0/16 via 198.18.0.7 mtu 1400
route add unreachable 198.19.7.0/24
route add 2001:db8:9::/48 via 2001:db8::7 dev wan
rule add iif wan lookup 100 priority 1000
route add 198.19.5.0/24 via 198.18.0.9 table 100
";

fn batch(text: &str) {
    for line in text.lines().filter(|l| !l.is_empty()) {
        let status = Command::new("ip").args(line.split(' ')).status().unwrap();
        assert!(status.success(), "ip {line}");
    }
}

/// Where a packet that the host sends to an address goes.
fn way(net: &Network, to: &str) -> String {
    let name = |oif| net.name_of(oif).to_string();
    let hit = match to.parse::<IpAddr>().unwrap() {
        IpAddr::V4(a) => net.route4(&Flow4 { daddr: a.into(), iif: 1, ..Flow4::default() }),
        IpAddr::V6(a) => net.route6(&Flow6 { daddr: a.into(), iif: 1, ..Flow6::default() }),
    };
    match hit {
        Ok(hit) => {
            let via = hit.nexthop.gateway.map_or(String::new(), |g| format!(" via {g}"));
            let mtu =
                if hit.route.mtu == 0 { String::new() } else { format!(" mtu {}", hit.route.mtu) };
            format!("{}{via}{mtu}", name(hit.nexthop.oif))
        }
        Err(why) => format!("{why:?}"),
    }
}

#[test]
fn the_network_is_read_as_the_kernel_has_it() {
    if !namespace() {
        return;
    }
    let net = State::read(&mut Socket::new().unwrap()).unwrap().network();
    for (to, expected) in [
        ("198.18.0.1", "lo"),
        ("198.18.0.9", "wan"),
        ("198.18.5.5", "wan via 198.18.0.254"),
        ("198.19.1.1", "wan via 198.18.0.7 mtu 1400"),
        ("198.19.7.1", "Unreachable"),
        ("198.19.5.5", "wan via 198.18.0.7 mtu 1400"),
        ("2001:db8::5", "wan"),
        ("2001:db8:9::5", "wan via 2001:db8::7"),
        ("2001:db8:77::5", "None"),
    ] {
        // The local table names the device that has the address; lookups of the host's own packets
        // end in it.
        let got = way(&net, to);
        let got = if to == "198.18.0.1" { got.replace("wan", "lo") } else { got };
        assert_eq!(got, expected, "{to}");
    }
    let wan = net.link_by_name("wan").unwrap();
    let from_wan =
        net.route4(&Flow4 { daddr: 0xc613_0505, iif: wan.index, ..Flow4::default() }).unwrap();
    assert_eq!(from_wan.nexthop.gateway, Some("198.18.0.9".parse().unwrap()));
    assert_eq!((wan.mac.to_string().as_str(), wan.mtu, wan.up), ("02:00:00:00:00:01", 1500, true));
    assert_eq!(net.neighbour4(wan.index, 0xc612_0007).unwrap().to_string(), "02:00:00:00:00:07");
    assert!(net.own4(0xc612_0001));
}

#[test]
fn kernel_changes_are_followed() {
    if !namespace() {
        return;
    }
    let mut socket = Socket::new().unwrap();
    let mut monitor = Monitor::new().unwrap();
    let mut state = State::read(&mut socket).unwrap();
    type Holds = fn(&Network);
    let steps: [(&str, Holds); 8] = [
        ("route add 198.19.9.0/24 via 198.18.0.9", |n| {
            assert_eq!(way(n, "198.19.9.1"), "wan via 198.18.0.9")
        }),
        ("route del 198.19.9.0/24", |n| {
            assert_eq!(way(n, "198.19.9.1"), "wan via 198.18.0.7 mtu 1400")
        }),
        ("neigh replace 198.18.0.7 lladdr 02:00:00:00:00:17 dev wan", |n| {
            let wan = n.link_by_name("wan").unwrap().index;
            assert_eq!(n.neighbour4(wan, 0xc612_0007).unwrap().to_string(), "02:00:00:00:00:17");
        }),
        ("neigh del 198.18.0.7 dev wan", |n| {
            let wan = n.link_by_name("wan").unwrap().index;
            assert_eq!(n.neighbour4(wan, 0xc612_0007), None);
        }),
        ("addr add 198.18.9.1/24 dev wan", |n| assert_eq!(way(n, "198.18.9.9"), "wan")),
        ("rule add from 198.18.9.0/24 lookup 100 priority 900", |n| {
            assert_eq!(n.rules4().len(), 5)
        }),
        // The routes by it go without a word.
        ("link set wan down", |n| assert_eq!(way(n, "198.18.5.5"), "None")),
        ("link del wan", |n| assert!(n.link_by_name("wan").is_none())),
    ];
    for (step, holds) in steps {
        batch(step);
        let mut changed = Changed::default();
        assert!(monitor.take(&mut changed).unwrap());
        assert!(!changed.is_empty(), "{step}");
        state.refresh(&mut socket, &mut changed).unwrap();
        holds(&state.network());
    }
    let _ = monitor.as_fd();
}

/// Objects of all kinds that routes may name, and routes by them; `fdb` is none of these.
const OBJECTS: &str = "
nexthop add id 1 via 198.18.0.8 dev wan
nexthop add id 2 via 198.18.0.9 dev wan
nexthop add id 3 blackhole
nexthop add id 4 dev wan protocol static
nexthop add id 5 via 2001:db8::8 dev wan
nexthop add id 10 group 1,3/2
nexthop add id 11 group 1/2 type resilient buckets 32 idle_timer 60
nexthop add id 12 group 1
nexthop add id 20 via 198.18.0.8 fdb
route add 198.19.20.0/24 nhid 1
route add 198.19.21.0/24 nhid 10
route add 198.19.22.0/24 nhid 11
route add 198.19.23.0/24 nhid 3
route add 198.19.24.0/24 nhid 4 scope link
route add 198.19.25.0/24 nhid 12 metric 7 src 198.18.0.1 mtu 1300
-6 route add 2001:db8:20::/48 nhid 5
route add 198.19.27.0/24 nhid 5
nexthop add id 6 via 198.19.24.9 dev wan
route add 198.19.26.0/24 nhid 6
";

/// All ways of the route to an address, with their weights.
fn ways(net: &Network, to: &str) -> String {
    let hit = match to.parse::<IpAddr>().unwrap() {
        IpAddr::V4(a) => net.route4(&Flow4 { daddr: a.into(), iif: 1, ..Flow4::default() }),
        IpAddr::V6(a) => net.route6(&Flow6 { daddr: a.into(), iif: 1, ..Flow6::default() }),
    };
    let way = |n: &penstock_net::Nexthop| {
        let via = n.gateway.map_or(String::new(), |g| format!(" via {g}"));
        format!("{}{via} weight {}", net.name_of(n.oif), n.weight)
    };
    match hit {
        Ok(hit) => hit.route.nexthops.iter().map(way).collect::<Vec<_>>().join(", "),
        Err(why) => format!("{why:?}"),
    }
}

#[test]
fn routes_go_by_nexthop_objects_and_follow_them() {
    if !namespace() {
        return;
    }
    for written_out in ["1", "0"] {
        std::fs::write("/proc/sys/net/ipv4/nexthop_compat_mode", written_out).unwrap();
        let mut socket = Socket::new().unwrap();
        let mut monitor = Monitor::new().unwrap();
        let mut state = State::read(&mut socket).unwrap();
        let steps = [
            (OBJECTS, "198.19.20.1", "wan via 198.18.0.8 weight 1"),
            ("", "198.19.21.1", "wan via 198.18.0.8 weight 3, wan via 198.18.0.9 weight 1"),
            ("", "198.19.22.1", "wan via 198.18.0.8 weight 1, wan via 198.18.0.9 weight 1"),
            ("", "198.19.23.1", "Blackhole"),
            ("", "198.19.24.1", "wan weight 1"),
            ("", "198.19.26.1", "wan via 198.19.24.9 weight 1"),
            ("", "198.19.27.1", "wan via 2001:db8::8 weight 1"),
            ("", "2001:db8:20::1", "wan via 2001:db8::8 weight 1"),
            (
                "nexthop replace id 10 group 1,4/2,200",
                "198.19.21.1",
                "wan via 198.18.0.8 weight 4, wan via 198.18.0.9 weight 200",
            ),
            (
                "nexthop replace id 1 via 198.18.0.77 dev wan",
                "198.19.20.1",
                "wan via 198.18.0.77 weight 1",
            ),
            ("", "198.19.21.1", "wan via 198.18.0.77 weight 4, wan via 198.18.0.9 weight 200"),
            (
                "nexthop replace id 3 via 198.18.0.78 dev wan",
                "198.19.23.1",
                "wan via 198.18.0.78 weight 1",
            ),
            ("nexthop del id 2", "198.19.21.1", "wan via 198.18.0.77 weight 4"),
            ("nexthop del id 1", "198.19.20.1", "wan via 198.18.0.7 weight 1"),
            ("nexthop flush", "198.19.21.1", "wan via 198.18.0.7 weight 1"),
        ];
        for (step, to, expected) in steps {
            batch(step);
            let mut changed = Changed::default();
            assert!(monitor.take(&mut changed).unwrap());
            state.refresh(&mut socket, &mut changed).unwrap();
            assert_eq!(ways(&state.network(), to), expected, "{step} {to} {written_out}");
        }
    }
}

#[test]
fn nexthop_objects_move_to_another_link_and_back() {
    if !namespace() {
        return;
    }
    batch(
        "link add new address 02:00:00:00:00:02 type veth peer name newfar\nlink set newfar up\nlink set new addrgenmode none\nlink set new up",
    );
    batch(OBJECTS);
    let mut socket = Socket::new().unwrap();
    let index = |name: &str| {
        State::read(&mut Socket::new().unwrap()).unwrap().device(name).unwrap().link.index
    };
    let (wan, new) = (index("wan"), index("new"));
    let seen = || {
        let lines =
            "ip nexthop show; ip route show | sort; ip -6 route show | grep -v ^fe80 | sort";
        let output = Command::new("sh").args(["-c", lines]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    for written_out in ["1", "0"] {
        std::fs::write("/proc/sys/net/ipv4/nexthop_compat_mode", written_out).unwrap();
        let before = seen();
        for (from, to) in [(wan, new), (new, wan)] {
            let standing = Standing::read(&mut socket, from).unwrap();
            standing.remove(&mut socket);
            assert_eq!(standing.put(&mut socket, from, to), Vec::<String>::new());
            let expected =
                if to == new { before.replace(" dev wan", " dev new") } else { before.clone() };
            assert_eq!(seen(), expected);
        }
    }
}

#[test]
fn upper_devices_move_to_another_link_and_back() {
    if !namespace() {
        return;
    }
    batch(
        "link add new address 02:00:00:00:00:02 type veth peer name newfar\nlink set newfar up\nlink set new addrgenmode none\nlink set new up",
    );
    let mut socket = Socket::new().unwrap();
    let index = |name: &str| {
        State::read(&mut Socket::new().unwrap()).unwrap().device(name).unwrap().link.index
    };
    let (wan, new) = (index("wan"), index("new"));
    let ways = || {
        let net = State::read(&mut Socket::new().unwrap()).unwrap().network();
        let all = ["198.18.0.9", "198.18.5.5", "198.19.1.1", "2001:db8:9::5", "2001:db8::5"];
        (all.map(|to| way(&net, to)), net.rules4().len())
    };
    let before = ways();
    let standing = Standing::read(&mut socket, wan).unwrap();
    // As when another is to have the name.
    links::change(&mut socket, wan, &[links::Change::Name("wan.port")]).unwrap();
    standing.remove(&mut socket);
    links::change(&mut socket, wan, &[links::Change::Name("wan")]).unwrap();
    assert_eq!(ways().0[0], "None");
    assert_eq!(standing.put(&mut socket, wan, new), Vec::<String>::new());
    let expected = before.0.clone().map(|way| way.replace("wan", "new"));
    assert_eq!(ways(), (expected, before.1));
    let standing = Standing::read(&mut socket, new).unwrap();
    standing.remove(&mut socket);
    assert_eq!(standing.put(&mut socket, new, wan), Vec::<String>::new());
    assert_eq!(ways(), before);
}

#[test]
fn links_are_renamed_while_they_are_up() {
    if !namespace() {
        return;
    }
    let mut socket = Socket::new().unwrap();
    let device =
        |name: &str| State::read(&mut Socket::new().unwrap()).unwrap().device(name).cloned();
    let wan = device("wan").unwrap().link.index;
    let changes =
        [links::Change::Name("wan.port"), links::Change::Mtu(1400), links::Change::Generate(0)];
    links::change(&mut socket, wan, &changes).unwrap();
    let now = device("wan.port").unwrap();
    assert_eq!((now.link.index, now.link.mtu, now.link.up, now.generate), (wan, 1400, true, 0));
    assert!(device("wan").is_none());
    assert!(links::change(&mut socket, wan, &[links::Change::Name("lo")]).is_err());
}

#[test]
fn a_veth_sends_from_xdp_while_its_peer_polls() {
    if !namespace() {
        return;
    }
    let state = State::read(&mut Socket::new().unwrap()).unwrap();
    let wan = state.device("wan").unwrap().link.index;
    let (mut devices, mut monitor) = (XdpSocket::new().unwrap(), XdpMonitor::new().unwrap());
    let mut sends = || devices.senders().unwrap().contains(&wan);
    assert!(!sends());
    assert!(!monitor.have_changed().unwrap());
    for polls in [true, false] {
        let gro = if polls { "on" } else { "off" };
        let status = Command::new("ethtool").args(["-K", "far", "gro", gro]).status().unwrap();
        assert!(status.success());
        assert!(monitor.have_changed().unwrap(), "{polls}");
        assert_eq!(sends(), polls);
        assert!(!monitor.have_changed().unwrap(), "{polls}");
    }
}
