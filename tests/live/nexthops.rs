// SPDX-License-Identifier: Apache-2.0

//! Nexthop objects (`ip nexthop`) of devices that are taken: they stay what they are, and packets
//! go by them.

use crate::net::Net;

/// Objects, and what goes by them and else by what somebody has made. The TAP has the name of the
/// device, so this is always the same.
const SEEN: &str = "ip nexthop show; ip route show table all | grep -v 'proto kernel' | sort; ip -6 route show | grep nhid | sort";

const OBJECTS: &str = "set -e
    ip nexthop add id 1 via 198.18.1.2 dev r1
    ip nexthop add id 2 via 198.18.1.3 dev r1 proto static
    ip nexthop add id 3 blackhole
    ip nexthop add id 4 dev r1
    ip nexthop add id 5 via 2001:db8:1::2 dev r1
    ip nexthop add id 6 via 198.18.0.2 dev r0
    ip nexthop add id 7 via 198.18.1.77 dev r1 onlink
    ip nexthop add id 10 group 1,3/2
    ip nexthop add id 11 group 1/2 type resilient buckets 32 idle_timer 60
    ip nexthop add id 12 group 1/6
    ip nexthop add id 20 via 198.18.1.2 fdb
    ip route add 198.19.0.0/20 nhid 1
    ip route add 198.19.16.0/20 nhid 10 mtu 1400
    ip route add 198.19.32.0/20 nhid 11 metric 5
    ip route add 198.19.48.0/20 nhid 3
    ip route add 198.19.64.0/20 nhid 12 table 100
    ip route add 198.19.80.0/20 nhid 1 src 198.18.1.1
    ip route add 198.19.96.0/20 nhid 7
    ip -6 route add 2001:db8:9::/48 nhid 5
    ip route add 198.19.128.0/20 nhid 5
    ip route add 198.19.144.0/20 via inet6 2001:db8:1::2 dev r1";

/// Objects on a VLAN device, which is recreated.
const VLAN: &str = "set -e
    ip link add link r1 name r1.7 type vlan id 7
    ip addr add 198.18.7.1/24 dev r1.7
    ip link set r1.7 up
    ip nexthop add id 8 via 198.18.7.9 dev r1.7
    ip route add 198.19.112.0/20 nhid 8";

#[test]
fn nexthop_objects_are_unchanged_while_a_device_is_a_port_and_afterwards() {
    let Some(mut net) = Net::new() else { return };
    if !net.run(&net.r, "ip nexthop show").0 {
        eprintln!("skipped: this kernel, or ip(8), has no nexthop objects");
        return;
    }
    let (b, r) = (net.b.clone(), net.r.clone());
    net.ok(&b, "ip addr add 198.18.1.3/24 dev b0; ip route add local 198.19.0.0/16 dev lo; ip -6 route add local 2001:db8:9::/48 dev lo");
    net.ok(&r, OBJECTS);
    if !net.run(&r, VLAN).0 {
        eprintln!("skipped in part: this kernel has no VLAN devices");
    }
    let before = net.ok(&r, SEEN);
    // IPv4 routes with objects are read with their ways, and without.
    for (written_out, killed) in [("1", false), ("0", false), ("1", true)] {
        net.ok(&r, &format!("sysctl -qw net.ipv4.nexthop_compat_mode={written_out}"));
        let before = net.ok(&r, SEEN);
        net.up("r0 r1");
        assert!(!net.log().contains("could not"), "{}", net.log());
        assert_eq!(net.ok(&r, SEEN), before);
        for to in [
            "198.19.0.1",
            "198.19.16.1",
            "198.19.32.1",
            "198.19.80.1",
            "198.19.128.1",
            "198.19.144.1",
            "2001:db8:9::1",
        ] {
            net.ok(&net.a, &format!("ping -c 2 -i 0.1 -W 2 {to}"));
        }
        assert!(!net.run(&net.a, "ping -c 1 -W 1 198.19.48.1").0);
        if killed {
            net.kill();
            net.until("the devices are given back", |net| net.ok(&r, SEEN) == before);
        } else {
            net.down();
        }
        assert_eq!(net.ok(&r, SEEN), before);
        for to in ["198.19.0.1", "2001:db8:9::1"] {
            net.until("the kernel forwards", |net| {
                net.run(&net.a, &format!("ping -c 1 -W 1 {to}")).0
            });
        }
    }
    net.ok(&r, "sysctl -qw net.ipv4.nexthop_compat_mode=1");
    assert_eq!(net.ok(&r, SEEN), before);
}

#[test]
fn packets_follow_changes_of_nexthop_objects() {
    let Some(mut net) = Net::new() else { return };
    if !net.run(&net.r, "ip nexthop show").0 {
        eprintln!("skipped: this kernel, or ip(8), has no nexthop objects");
        return;
    }
    let (b, r) = (net.b.clone(), net.r.clone());
    net.ok(&b, "ip route add local 198.19.0.0/16 dev lo");
    // The other address does not exist.
    net.ok(&r, "ip neigh replace 198.18.1.3 lladdr 02:00:00:00:99:99 dev r1");
    net.ok(&r, OBJECTS);
    net.up("r0 r1");
    let answers = |net: &Net| {
        let line = "for i in $(seq 40); do ping -c 1 -W 1 198.19.16.$i > /dev/null && echo $i & done; wait";
        net.ok(&net.a, line).lines().count()
    };
    // Three of four next hops are reachable.
    let some = answers(&net);
    assert!((15..=39).contains(&some), "{some}");
    for (line, all) in [
        ("ip nexthop replace id 10 group 1", 40),
        ("ip nexthop replace id 10 group 2", 0),
        ("ip nexthop replace id 2 via 198.18.1.2 dev r1", 40),
        ("ip nexthop replace id 10 group 3", 0),
        ("ip nexthop replace id 3 via 198.18.1.2 dev r1", 40),
        ("ip nexthop del id 10", 0),
        ("ip route add 198.19.16.0/20 nhid 11", 40),
    ] {
        net.ok(&r, line);
        net.until(line, |net| answers(net) == all);
    }
    net.down();
}
