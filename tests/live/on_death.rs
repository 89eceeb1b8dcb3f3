// SPDX-License-Identifier: Apache-2.0

//! The state of devices after the dataplane dies, alone or with its guardian, or hangs.

use std::time::{Duration, Instant};

use crate::net::Net;

/// All that the host has on the router's devices, in an order that does not depend on indexes.
fn state(net: &Net) -> Vec<String> {
    let all = "for d in r0 r1; do ip -o addr show dev $d | sed 's/^[0-9]*: //; s/ nodad//; s/ tentative//; s/valid_lft [0-9]*sec/valid_lft some/; s/preferred_lft [0-9]*sec/preferred_lft some/'; done
        ip route show table all | grep -v 'expires\\|ff00::\\|local\\|broadcast\\|fe80' | sed 's/ linkdown//'; ip -6 route show table 77
        ip nexthop | sed 's/ scope link//'; ip neigh show nud permanent
        ip -o link | grep -o '^[0-9]*: r[01][@:].* qdisc' | sed 's/^[0-9]*: //; s/@[^:]*//; s/ qdisc//; s/,M-DOWN//'
        ip -d -o link show vx0 2>/dev/null | sed 's/^[0-9]*: //; s/ether [0-9a-f:]*//; s/gso_max_size.*//' | tr -s ' '; ip -o addr show dev vx0 2>/dev/null | sed 's/^[0-9]*: //; s/ tentative//; s/ nodad//'
        sysctl net.ipv6.conf.r0.disable_ipv6";
    let mut lines: Vec<_> = net.ok(&net.r, all).lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// Removed and added lines.
fn difference(before: &[String], after: &[String]) -> String {
    let lines = |sign: &str, of: &[String], without: &[String]| {
        of.iter()
            .filter(|line| !without.contains(line))
            .map(|line| format!("{sign} {line}\n"))
            .collect::<String>()
    };
    lines("-", before, after) + &lines("+", after, before)
}

#[test]
fn devices_are_restored_when_process_and_guardian_are_killed() {
    let Some(mut net) = Net::new() else { return };
    net.ok(
        &net.r,
        "set -e
         ip addr add 198.18.0.77/24 dev r0 label r0:x
         ip addr add 198.18.0.78/32 dev r0 scope link valid_lft 5000 preferred_lft 4000
         ip addr add 2001:db8:0::78/64 dev r0 nodad valid_lft 5000 preferred_lft 0
         ip route add 198.19.0.0/16 via 198.18.1.2 mtu 1300
         ip route add 198.19.1.0/24 dev r1 table 77 metric 5
         ip -6 route add 2001:db8:9::/48 via 2001:db8:1::2 dev r1
         ip -6 route add 2001:db8:a::/48 dev r0 table 77
         ip route add 198.19.7.0/24 nexthop via 198.18.0.2 nexthop via 198.18.1.2 weight 3
         ip nexthop add id 11 via 198.18.0.2 dev r0
         ip nexthop add id 12 via 198.18.1.2 dev r1
         ip nexthop add id 13 group 11/12,2
         ip route add 198.19.8.0/24 nhid 13
         ip neigh add 198.18.0.9 lladdr 02:00:00:00:00:99 dev r0
         ip link add vx0 type vxlan id 7 dstport 4789 remote 198.18.1.2 dev r1
         ip link set vx0 mtu 1280 up
         ip addr add 198.19.9.1/24 dev vx0",
    );
    let before = state(&net);
    for recovered_by in ["$PENSTOCK down", "up"] {
        net.up("r0 r1");
        net.kill_both();
        match recovered_by {
            "up" => {
                net.up("r0 r1");
                net.down();
            }
            line => drop(net.ok(&net.r, line)),
        }
        assert_eq!(difference(&before, &state(&net)), "", "{recovered_by}");
    }
    // What changes meanwhile is written down, too.
    net.up("r0 r1");
    net.ok(
        &net.r,
        "ip addr add 198.18.0.79/24 dev r0; ip addr del 198.18.0.77/24 dev r0; ip route del 198.19.0.0/16
         ip route add 198.19.2.0/24 via 198.18.0.2; ip neigh add 198.18.1.9 lladdr 02:00:00:00:00:98 dev r1
         ip link set r1 mtu 1400; ip nexthop replace id 13 group 11/12",
    );
    let changed = state(&net);
    assert_ne!(changed, before);
    std::thread::sleep(Duration::from_secs(2));
    net.kill_both();
    net.ok(&net.r, "$PENSTOCK down");
    assert_eq!(difference(&changed, &state(&net)), "");
    net.ok(&net.a, "ping -c 1 -W 2 198.18.1.2");
}

#[test]
fn a_bridge_port_is_restored_when_process_and_guardian_are_killed() {
    let Some(mut net) = Net::new() else { return };
    if !net.bridge() {
        return;
    }
    net.ok(
        &net.r,
        "bridge link set dev r1 hairpin on learning off; bridge link set dev r0 isolated on",
    );
    // Not all kernels have VLANs on bridges.
    net.run(&net.r, "ip link set br0 type bridge vlan_filtering 1; bridge vlan add dev r0 vid 10; bridge vlan add dev r1 vid 20 pvid untagged");
    let state = |net: &Net| {
        net.ok(&net.r, "for d in r0 r1; do bridge -d link show dev $d | sed 's/^[0-9]*: //'; bridge vlan show dev $d; done")
    };
    let before = state(&net);
    net.up("r0 r1");
    net.kill_both();
    net.ok(&net.r, "$PENSTOCK down");
    assert_eq!(state(&net), before);
}

#[test]
fn a_broken_record_is_reported() {
    let Some(mut net) = Net::new() else { return };
    net.up("r0 r1");
    let cookie = "python3 -c 'import socket as s, struct; print(struct.unpack(\"=Q\", s.socket(s.AF_UNIX, s.SOCK_DGRAM).getsockopt(1, 71, 8))[0])'";
    let file = format!("/run/penstock/{}.ports", net.ok(&net.r, cookie).trim());
    net.kill_both();
    let whole = std::fs::read(&file).unwrap();
    let mut wrong = whole.clone();
    *wrong.last_mut().unwrap() ^= 1;
    std::fs::write(&file, wrong).unwrap();
    for command in ["down", "up r0 r1"] {
        let (ok, said) = net.run(&net.r, &format!("timeout 20 $PENSTOCK {command}"));
        assert!(!ok && said.contains("its checksum is wrong") && said.contains(&file), "{said}");
    }
    std::fs::write(&file, whole).unwrap();
    net.ok(&net.r, "$PENSTOCK down");
    net.ok(&net.a, "ping -c 1 -W 2 198.18.1.2");
}

/// Nothing that is sent arrives at the other side, nor at the host.
fn is_closed(net: &Net) -> bool {
    let tries = ["198.18.1.2", "198.18.0.1", "2001:db8:1::2"]
        .map(|to| format!("! ping -c 2 -i 0.2 -W 0.3 {to} >/dev/null"));
    net.run(&net.a, &tries.join(" && ")).0
        && net.run(&net.r, "! ping -c 1 -W 0.3 198.18.1.2 > /dev/null").0
}

/// Frames that an end of the wires has received, by its device's own counter.
fn received(net: &Net, which: char) -> u64 {
    let line = format!("cat /sys/class/net/{which}0/statistics/rx_packets");
    net.ok(net.namespace(which), &line).trim().parse().unwrap()
}

#[test]
fn closed_devices_pass_nothing_after_any_kill() {
    let Some(mut net) = Net::new() else { return };
    // On the wire, so that what is counted is what the test sends.
    for (end, device) in [(&net.a, "a0"), (&net.b, "b0")] {
        net.ok(end, &format!("sysctl -qw net.ipv6.conf.{device}.router_solicitations=0"));
    }
    for (driver, both) in
        [("packet", true), ("xdp", true), ("packet", false), ("xdp-generic", false)]
    {
        net.up(&format!("r0 r1 --driver {driver} --on-death closed"));
        net.ok(
            &net.a,
            "ping -c 3 -i 0.1 -W 2 198.18.1.2; ping -c 2 -i 0.1 -s 4000 -W 2 2001:db8:1::2",
        );
        net.ok(&net.r, "ping -c 1 -W 2 198.18.1.2");
        let (a, b) = (net.a.clone(), net.b.clone());
        let floods = [
            net.spawn_reading(&a, "ping -f -w 30 198.18.1.2"),
            net.spawn_reading(&b, "ping -f -w 30 198.18.0.2"),
        ];
        std::thread::sleep(Duration::from_millis(300));
        if both {
            net.kill_both();
        } else {
            net.kill();
        }
        // What was on its way has arrived.
        std::thread::sleep(Duration::from_millis(100));
        let before = [received(&net, 'a'), received(&net, 'b')];
        net.until("its guardian is done", |net| {
            both || net.run(&net.r, "! ip -o link | grep -q .port").0
        });
        std::thread::sleep(Duration::from_millis(500));
        assert_eq!([received(&net, 'a'), received(&net, 'b')], before, "{driver}");
        floods.into_iter().for_each(|flood| drop(flood.stop()));
        let (ok, said) = net.run(&net.r, "$PENSTOCK down");
        assert!(
            !ok && said.contains("no frame passes r0, r1 since") && said.contains("down --force"),
            "{said}"
        );
        assert!(net.ok(&net.r, "ip -o addr").contains("r0    inet 198.18.0.1/24"));
        assert!(is_closed(&net), "{driver}");
        // Another one that cannot begin does not open them.
        assert!(!net.run(&net.r, "timeout 20 $PENSTOCK up r0 nowhere").0);
        assert!(is_closed(&net), "{driver}");
        if both {
            net.ok(&net.r, "$PENSTOCK down --force");
        } else {
            // The next start ends it; so does its end in order.
            net.up("r0 r1");
            net.ok(&net.a, "ping -c 1 -W 2 198.18.1.2");
            net.down();
        }
        net.ok(&net.a, "ping -c 1 -W 2 198.18.1.2; ping -c 1 -W 2 2001:db8:1::2");
        assert!(!net.ok(&net.r, "tc qdisc").contains("clsact"));
    }
    // Nothing is left after an end in order, nor when it cannot begin.
    net.up("r0 r1 --on-death closed");
    net.down();
    assert!(!net.run(&net.r, "timeout 20 $PENSTOCK up r0 r1 --on-death closed --persist /tmp").0);
    assert!(!net.ok(&net.r, "tc qdisc").contains("clsact"));
    net.ok(&net.a, "ping -c 1 -W 2 198.18.1.2");
    // The kernel cannot.
    net.ok(&net.r, "tc qdisc add dev r1 ingress");
    let (ok, said) = net.run(&net.r, "timeout 20 $PENSTOCK up r0 r1 --on-death closed");
    assert!(!ok && said.contains("r1: --on-death cannot close it"), "{said}");
    net.ok(&net.r, "tc qdisc del dev r1 ingress");
    net.ok(&net.a, "ping -c 1 -W 2 198.18.1.2");
}

#[test]
fn closed_bridge_ports_pass_nothing() {
    let Some(mut net) = Net::new() else { return };
    if !net.bridge() {
        return;
    }
    net.ok(&net.b, "ip addr flush dev b0; ip addr add 198.18.0.3/24 dev b0");
    let passes = |net: &Net| net.run(&net.a, "ping -c 1 -W 0.5 198.18.0.3").0;
    net.until("the kernel bridges", passes);
    for both in [true, false] {
        net.up("r0 r1 --on-death closed");
        net.until("it passes", passes);
        if both {
            net.kill_both();
            let (ok, said) = net.run(&net.r, "$PENSTOCK down");
            assert!(!ok && said.contains("no frame passes"), "{said}");
        } else {
            net.kill();
            net.until("its guardian is done", |net| {
                net.run(&net.r, "! ip -o link | grep -q .port").0
            });
        }
        assert!(net.ok(&net.r, "bridge link show dev r1").contains("master br0"));
        let before = received(&net, 'b');
        assert!(!passes(&net));
        assert_eq!(received(&net, 'b'), before);
        net.ok(&net.r, "$PENSTOCK down --force");
        net.until("the kernel bridges", passes);
    }
}

#[test]
fn a_recreated_device_is_closed_too() {
    let Some(mut net) = Net::new() else { return };
    net.up("r0 r1 --on-death closed");
    net.ok(&net.b, "ip link del b0");
    net.until("the device is gone", |net| net.log().contains("r1.port: the device is gone"));
    net.ok(
        &net.b,
        &format!(
            "set -e
             ip link add b0 type veth peer name r1.port netns {} address 02:00:00:00:00:0b
             ip addr add 198.18.1.2/24 dev b0; ip link set b0 up; ip route add default via 198.18.1.1",
            net.r
        ),
    );
    net.until("it is back", |net| net.run(&net.a, "ping -c 1 -W 1 198.18.1.2").0);
    net.kill_both();
    let (ok, said) = net.run(&net.r, "$PENSTOCK down");
    assert!(!ok && said.contains("no frame passes r0, r1"), "{said}");
    assert!(is_closed(&net));
    net.ok(&net.r, "$PENSTOCK down --force");
    net.ok(&net.a, "ping -c 1 -W 2 198.18.1.2");
}

#[test]
fn a_kernel_ruleset_is_in_force_before_devices_open() {
    let Some(mut net) = Net::new() else { return };
    if !net.has("nft") {
        return;
    }
    let file = net.directory.join("death.nft");
    std::fs::write(&file, "table ip meanwhile { chain f { type filter hook forward priority 0; icmp type echo-request drop; }; }").unwrap();
    net.ok(&net.r, "nft add table ip mine");
    let up = format!("r0 r1 --on-death {}", file.display());
    for both in [false, true] {
        net.up(&up);
        net.ok(&net.a, "ping -c 1 -W 2 198.18.1.2");
        if both {
            net.kill_both();
            net.ok(&net.r, "$PENSTOCK down");
        } else {
            net.kill();
            net.until("it is in force", |net| {
                net.ok(&net.r, "nft list tables").contains("meanwhile")
            });
        }
        net.until("devices are open", |net| net.run(&net.a, "ping -c 1 -W 1 198.18.0.1").0);
        net.until("both families", |net| net.run(&net.a, "ping -c 1 -W 1 2001:db8:1::2").0);
        assert!(!net.run(&net.a, "ping -c 1 -W 1 198.18.1.2").0);
        // The next start takes it away, and nothing else.
        net.up("r0 r1");
        assert_eq!(net.ok(&net.r, "nft list tables"), "table ip mine\n");
        net.down();
        net.ok(&net.a, "ping -c 1 -W 2 198.18.1.2");
    }
    // What cannot be loaded is said at once, or keeps the devices closed.
    let before = net.ok(&net.r, "ip -o addr");
    for (path, said) in [("/nonexistent", "No such file"), ("wrong.nft", "syntax error")] {
        let path = net.directory.join(path);
        if path.starts_with(&net.directory) {
            std::fs::write(&path, "table ip {").unwrap();
        }
        let (ok, text) = net
            .run(&net.r, &format!("timeout 20 $PENSTOCK up r0 r1 --on-death {}", path.display()));
        assert!(!ok && text.contains("Error: --on-death: ") && text.contains(said), "{text}");
    }
    assert_eq!(net.ok(&net.r, "ip -o addr"), before);
    net.up(&up);
    std::fs::write(&file, "table ip {").unwrap();
    net.kill();
    net.until("its guardian is done", |net| net.run(&net.r, "! ip -o link | grep -q .port").0);
    assert!(is_closed(&net) && net.log().contains("nft refuses it"), "{}", net.log());
    net.ok(&net.r, "$PENSTOCK down --force");
    net.ok(&net.a, "ping -c 1 -W 2 198.18.1.2");
}

#[test]
fn a_hanging_process_is_killed_and_a_slow_one_is_not() {
    let Some(mut net) = Net::new() else { return };
    net.up("r0 r1 --hang-time 2");
    let stop = |net: &Net, seconds: &str| {
        net.ok(
            &net.r,
            &format!("kill -STOP {0}; sleep {seconds}; kill -CONT {0} || true", net.pid()),
        );
    };
    let forwards_again = |net: &Net| {
        net.until("the dataplane forwards again", |net| {
            net.run(&net.a, "ping -c 1 -W 1 198.18.1.2").0
        });
        net.ok(&net.r, "$PENSTOCK show");
    };
    stop(&net, "1");
    forwards_again(&net);
    let begun = Instant::now();
    net.ok(&net.r, &format!("kill -STOP {}", net.pid()));
    net.until("the kernel forwards again", |net| net.run(&net.a, "ping -c 1 -W 1 198.18.1.2").0);
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    assert!(net.log().contains("the dataplane is not heard any more"), "{}", net.log());
    net.kill();
    // A worker alone that is held up.
    if net.has("python3") {
        net.up("r0 r1 --hang-time 2");
        let stall = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/live/stall.py");
        let _ = net.run(&net.r, &format!("timeout 8 python3 {stall} {} worker 6", net.pid()));
        net.until("the kernel forwards again", |net| {
            net.run(&net.a, "ping -c 1 -W 1 198.18.1.2").0
        });
        assert!(net.log().contains("the dataplane is not heard any more"), "{}", net.log());
        net.kill();
    }
    // Closed as configured.
    net.up("r0 r1 --hang-time 1 --on-death closed");
    net.ok(&net.r, &format!("kill -STOP {}", net.pid()));
    let (ok, said) = net.run(&net.r, "timeout 20 $PENSTOCK down");
    assert!(!ok && said.contains("no frame passes r0, r1"), "{said}");
    assert!(net.log().contains("the dataplane is not heard any more"), "{}", net.log());
    assert!(is_closed(&net));
    net.kill();
    net.ok(&net.r, "$PENSTOCK down --force");
    net.ok(&net.a, "ping -c 1 -W 2 198.18.1.2");
    // Never.
    net.up("r0 r1 --hang-time 0");
    stop(&net, "3");
    forwards_again(&net);
}

#[test]
fn the_guardian_makes_few_system_calls() {
    let Some(mut net) = Net::new() else { return };
    net.up("r0 r1");
    let children =
        std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", net.pid())).unwrap();
    for child in children.split_whitespace() {
        let name = std::fs::read_to_string(format!("/proc/{child}/comm")).unwrap();
        if name != "penstock-guard\n" {
            continue;
        }
        let status = std::fs::read_to_string(format!("/proc/{child}/status")).unwrap();
        assert!(status.lines().any(|l| l == "Seccomp:\t2"), "{status}");
        assert!(status.lines().any(|l| l == "NoNewPrivs:\t1"), "{status}");
    }
}
