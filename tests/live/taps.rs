// SPDX-License-Identifier: Apache-2.0

//! Ports that are the other end of an existing TAP with the device of a neighbour: in another
//! namespace, or on a bridge.

use crate::net::Net;

const RULES: &str = "table inet t {
    chain f { type filter hook forward priority 0; policy drop
      ct state established,related counter accept
      iifname guest oifname r1 ct state new counter accept comment \"out\"
      iifname r1 oifname guest tcp dport 5201 ct state new accept
      icmpv6 type echo-request accept
    }
    chain post { type nat hook postrouting priority srcnat; oifname r1 masquerade; }
  }";

/// The TAP as everybody sees it: how it was made, and what it leaves to its file; what it once
/// wanted to leave to it is forgotten with every file that says something of that.
const SEEN: &str =
    "ip -d link show tap0 | sed 's/^[0-9]*: //'; ethtool -k tap0 | sed 's/ .requested on.//'";

/// Creates a TAP in R that is not open. `false`, with a message, if this kernel has none.
fn make(net: &Net, kind: &str) -> bool {
    let made = net.run(&net.r, &format!("ip tuntap add tap0 mode tap {kind}")).0;
    if !made {
        eprintln!("skipped: this kernel has no TAPs");
    }
    made
}

/// Gives the TAP to a namespace, which is then a neighbour of R's port `guest`.
fn give(net: &Net, namespace: &str) {
    net.ok(&net.r, &format!("ip link set tap0 netns {namespace}"));
    net.ok(
        namespace,
        "set -e
         ip addr add 198.18.7.2/24 dev tap0; ip addr add 2001:db8:7::2/64 dev tap0 nodad; ip link set tap0 up
         ip route add default via 198.18.7.1; ip route add default via 2001:db8:7::1",
    );
    net.ok(
        &net.r,
        "ip addr add 198.18.7.1/24 dev guest; ip addr add 2001:db8:7::1/64 dev guest nodad",
    );
}

#[test]
fn the_other_end_of_a_neighbours_tap_is_a_port() {
    let Some(mut net) = Net::new() else { return };
    if !net.has("iperf3") || !make(&net, "") {
        return;
    }
    net.serve_iperf();
    for (kind, args) in [
        ("", "--driver packet --driver tap0=tap --workers 1"),
        ("vnet_hdr", "--workers 2"),
        ("multi_queue vnet_hdr", "--workers 2"),
        ("multi_queue pi", "--driver r1=xdp --workers 3"),
    ] {
        let guest = net.another();
        net.ok(&net.r, "ip link del tap0");
        assert!(make(&net, kind));
        net.up(&format!("tap0=guest r1 {args}"));
        net.nft(RULES);
        give(&net, &guest);
        let shown = net.ok(&net.r, "$PENSTOCK show");
        assert!(shown.contains("TAP file"), "{shown}");
        net.until("the neighbour is there", |net| net.run(&guest, "ping -c 1 -W 1 198.18.7.1").0);
        for to in ["198.18.7.1", "198.18.1.2", "2001:db8:7::1", "2001:db8:1::2"] {
            net.ok(&guest, &format!("ping -c 3 -i 0.1 -W 2 {to}"));
            net.ok(&guest, &format!("ping -c 2 -i 0.1 -W 2 -s 4000 {to}"));
        }
        for to in ["198.18.7.2", "2001:db8:7::2"] {
            net.ok(&net.r, &format!("ping -c 2 -i 0.1 -W 2 {to}"));
        }
        for line in ["-t 1", "-t 1 -R", "-t 1 -P 4", "-t 1 -u -b 50M"] {
            // The server may not yet have noticed the end of the run before.
            net.until("iperf3 is served", |net| {
                net.run(&guest, &format!("iperf3 -c 198.18.1.2 {line}")).0
            });
        }
        let rules = net.ok(&net.r, "$PENSTOCK nft list ruleset");
        assert!(!rules.contains("packets 0"), "{rules}");
        // It is its owner who says whether it is up, and the host for its own end; either sees the
        // other's carrier.
        net.ok(&guest, "ip link set tap0 down");
        net.until("the port has no carrier", |net| {
            net.ok(&net.r, "ip link show guest").contains("NO-CARRIER")
        });
        net.ok(&guest, "ip link set tap0 up; ip route replace default via 198.18.7.1");
        net.until("it has one", |net| !net.ok(&net.r, "ip link show guest").contains("NO-CARRIER"));
        net.ok(&net.r, "ip link set guest down");
        net.until("the TAP has none", |net| {
            net.ok(&guest, "ip link show tap0").contains("NO-CARRIER")
        });
        net.ok(&net.r, "ip link set guest up");
        net.until("all is as before", |net| net.run(&guest, "ping -c 1 -W 1 198.18.1.2").0);
        net.down();
        assert!(
            net.ok(&guest, "ip link show tap0").contains("NO-CARRIER"),
            "nobody has the other end any more"
        );
        net.ok(&guest, &format!("ip link set tap0 netns {}", net.r));
    }
}

#[test]
fn a_tap_is_unchanged_after_its_other_end_is_released() {
    let Some(mut net) = Net::new() else { return };
    if !net.has("ethtool") || !make(&net, "") {
        return;
    }
    for kind in ["", "vnet_hdr", "multi_queue", "pi multi_queue vnet_hdr user nobody"] {
        net.ok(&net.r, "ip link del tap0");
        assert!(make(&net, kind));
        net.ok(&net.r, "ip link set tap0 up; ip addr add 198.18.9.9/24 dev tap0");
        let before = net.ok(&net.r, SEEN);
        for killed in [false, true, false] {
            net.up("tap0=guest r1 --workers 2");
            assert!(net.log().contains("guest: tap0 by TAP file"), "{}", net.log());
            net.until("it has a carrier", |net| !net.ok(&net.r, SEEN).contains("NO-CARRIER"));
            if killed {
                net.kill();
                net.until("it is as before", |net| net.ok(&net.r, SEEN) == before);
                net.until("the port is gone", |net| !net.run(&net.r, "ip link show guest").0);
            } else {
                net.down();
            }
            let now = net.ok(&net.r, SEEN);
            let other: Vec<_> = now.lines().zip(before.lines()).filter(|(a, b)| a != b).collect();
            assert!(now == before, "{kind}: {other:?}");
            assert!(net.ok(&net.r, "ip addr show tap0").contains("198.18.9.9/24"));
        }
    }
}

#[test]
fn a_tap_that_is_removed_is_waited_for() {
    let Some(mut net) = Net::new() else { return };
    if !make(&net, "vnet_hdr") {
        return;
    }
    net.up("tap0=guest r1 --driver tap0=tap");
    let guest = net.another();
    for _ in 0..2 {
        give(&net, &guest);
        net.until("the neighbour is there", |net| net.run(&guest, "ping -c 1 -W 1 198.18.1.2").0);
        net.ok(&guest, "ip link del tap0");
        net.until("the port has no carrier", |net| {
            net.ok(&net.r, "ip link show guest").contains("NO-CARRIER")
        });
        net.ok(&net.r, "ping -c 1 -W 2 198.18.1.2; ip addr flush dev guest");
        assert!(make(&net, "vnet_hdr"));
        net.until("it is the wire again", |net| {
            net.log().contains("guest: tap0 is back, by TAP file")
        });
    }
    net.down();
}

#[test]
fn devices_that_are_no_tap_end_are_refused_or_plain_ports() {
    let Some(mut net) = Net::new() else { return };
    if !make(&net, "multi_queue") {
        return;
    }
    net.ok(&net.r, "ip tuntap add tun0 mode tun");
    // Another program with one queue of the TAP.
    let holder = "python3 -c 'import fcntl, struct, time
f = open(\"/dev/net/tun\", \"r+b\", buffering=0)
fcntl.ioctl(f, 0x400454ca, struct.pack(\"16sH22s\", b\"tap0\", 0x1102, b\"\")); print(\"held\", flush=True); time.sleep(60)'";
    let refused = |net: &Net, args: &str, message: &str| {
        let (ok, said) = net.run(&net.r, &format!("timeout 20 $PENSTOCK up {args}"));
        assert!(!ok && said.contains(message), "{args}: {said}");
        assert!(net.ok(&net.r, "ip -br link").lines().count() == 5, "all is as it was");
    };
    for (args, message) in [
        ("tap0 --driver tap", "needs another name: tap0=NAME"),
        ("r0=guest --driver tap", "r0: no TAP, which --driver tap is for"),
        ("r0 r1 --driver r2=tap", "`r2` is not among the ports"),
        ("tun0=guest --driver tap", "only Ethernet devices can be ports"),
        ("tap1=guest --driver tap", "Cannot find device \"tap1\""),
        ("tap0=r0 --driver tap", "tap0: there is a device r0 already"),
        ("tap0=guest --driver tap=tap0", "there is no driver `tap0`"),
    ] {
        refused(&net, args, message);
    }
    // Without a name for its other end, it is a port as any device.
    net.up("tap0 r1");
    assert!(net.log().contains("tap0=NAME makes a port"), "{}", net.log());
    assert!(net.log().contains("tap0: tap0.port by packet socket"), "{}", net.log());
    net.down();
    let held = net.spawn_reading(&net.r, holder);
    net.until("it is held", |net| net.ok(&net.r, "ip -d link show tap0").contains("numqueues 1"));
    refused(&net, "tap0=guest --driver tap", "another program has the other end of this TAP");
    net.up("tap0=guest r1");
    assert!(net.log().contains("guest: tap0 by packet socket"), "{}", net.log());
    net.down();
    held.stop();
}
