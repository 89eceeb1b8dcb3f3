// SPDX-License-Identifier: Apache-2.0

//! Devices of the host's that stand on ports: tunnels of the kernel, and what cannot stand there.

use crate::net::Net;

#[test]
fn a_tunnel_over_a_device_continues_over_the_port_and_back() {
    let Some(mut net) = Net::new() else { return };
    let tunnel = |device: &str, to: &str, address: u8| {
        format!(
            "ip link add vx type vxlan id 7 dstport 4789 remote 198.18.1.{to} dev {device}
             ip link set vx mtu 1300; ip link set vx up; ip addr add 198.18.7.{address}/24 dev vx"
        )
    };
    if !net.run(&net.r, &tunnel("r1", "2", 1)).0 {
        eprintln!("skipped: this kernel has no vxlan devices");
        return;
    }
    net.ok(&net.b, &tunnel("b0", "1", 2));
    let pings = |net: &Net| {
        for (from, size) in [(&net.r, 56), (&net.a, 56), (&net.a, 2000)] {
            let ping = format!("ping -c 1 -W 1 -s {size} 198.18.7.2");
            net.until("the other end of the tunnel answers", |net| net.run(from, &ping).0);
        }
    };
    let shown = |net: &Net| {
        let all = net.ok(
            &net.r,
            "ip -d -o link show vx | sed 's/numtxqueues.*//'; ip -o addr show vx; ip route show dev vx",
        );
        all.split("valid_lft").next().unwrap_or_default().to_owned()
    };
    pings(&net);
    let before = shown(&net);
    assert!(before.contains("dev r1"), "{before}");
    for ends in ["down", "kill"] {
        net.up("r0 r1");
        assert_eq!(shown(&net), before, "by its new device, which has the name");
        pings(&net);
        if ends == "down" {
            net.down();
        } else {
            net.kill();
            net.until("the device is back", |net| !net.ok(&net.r, "ip -o link").contains(".port"));
        }
        assert_eq!(shown(&net), before);
        pings(&net);
    }
}

#[test]
fn a_device_with_uppers_that_would_get_no_frames_is_refused() {
    let Some(net) = Net::new() else { return };
    for (kind, error) in [
        (
            "ip link add up0 link r0 type macvlan",
            "r0: the macvlan up0 stands on it, which would get no frames",
        ),
        (
            "ip link add up0 type bond; ip link set r0 down; ip link set r0 master up0",
            "r0: it is part of a bond",
        ),
        ("ip link add up0 type vrf table 7; ip link set r0 master up0", "r0: it is part of a vrf"),
    ] {
        if !net.run(&net.r, kind).0 {
            eprintln!("skipped: this kernel cannot: {kind}");
            continue;
        }
        let before = net.ok(&net.r, "ip -o link");
        let (ok, said) = net.run(&net.r, "$PENSTOCK up r0 r1");
        assert!(!ok && said.contains(error), "{said}");
        assert_eq!(net.ok(&net.r, "ip -o link"), before);
        net.ok(&net.r, "ip link del up0");
    }
}

#[test]
fn a_bridge_created_later_accepts_our_ports() {
    let Some(mut net) = Net::new() else { return };
    net.up("r0 r1");
    if !net.bridge() {
        return;
    }
    net.ok(&net.r, "ip addr add 198.18.0.1/24 dev br0");
    net.ok(&net.b, "ip addr flush dev b0; ip addr add 198.18.0.3/24 dev b0");
    for (from, to) in [(&net.a, "198.18.0.3"), (&net.a, "198.18.0.1"), (&net.r, "198.18.0.3")] {
        net.until(to, |net| net.run(from, &format!("ping -c 2 -i 0.2 -W 1 {to}")).0);
    }
    for from in [&net.a, &net.b] {
        net.ok(from, "ip neigh flush all");
    }
    // Questions for everybody reach everybody once.
    let seen = net.spawn_reading(
        &net.b,
        "timeout 3 tcpdump -l -n -i b0 'arp and arp[7] = 1 and host 198.18.0.77'",
    );
    std::thread::sleep(std::time::Duration::from_secs(1));
    net.run(&net.a, "ping -c 1 -W 1 198.18.0.77");
    let seen = seen.wait();
    // The kernel asks up to three times, once in a second.
    let times: Vec<_> = seen.lines().map(|l| l.split('.').next().unwrap_or_default()).collect();
    let mut once = times.clone();
    once.dedup();
    assert!(!times.is_empty() && times.len() == once.len(), "{seen}");
    let links = net.ok(&net.r, "bridge -d link show dev r1");
    assert!(links.contains("isolated on"), "{links}");
    net.down();
    let links = net.ok(&net.r, "bridge -d link show dev r1");
    assert!(links.contains("isolated off"), "{links}");
}

#[test]
fn packets_reach_devices_without_link_header() {
    let Some(mut net) = Net::new() else { return };
    if !net.has("curl") || !std::path::Path::new("/dev/net/tun").exists() {
        return;
    }
    let script = format!("{}/../../tests/live/relay.py", env!("CARGO_MANIFEST_DIR"));
    let b = net.b.clone();
    net.spawn_in('r', &format!("python3 {script} /var/run/netns/{b}"));
    net.until("the tunnel is there", |net| net.run(&net.b, "ip link show vpn0").0);
    let ends = |address: u8| {
        format!(
            "set -e; ip link set vpn0 up mtu 1400
             ip addr add 198.18.9.{address}/24 dev vpn0; ip addr add 2001:db8:9::{address}/64 dev vpn0"
        )
    };
    net.ok(&net.r, &ends(1));
    net.ok(&net.b, &ends(2));
    net.ok(&net.b, "ip route add 198.18.0.0/24 dev vpn0; ip route add 2001:db8::/64 dev vpn0");
    let sum = crate::serve(&mut net);
    for driver in ["packet", "xdp"] {
        net.up(&format!("r0 r1 --driver {driver}"));
        net.nft(
            "table inet t {
               chain f { type filter hook forward priority 0; oifname vpn0 counter; meta oifkind \"tun\" icmp type echo-request counter; }
               chain p { type filter hook postrouting priority 0; oif vpn0 meta oiftype 65534 counter; }
             }",
        );
        for to in ["198.18.9.2", "2001:db8:9::2"] {
            net.until(to, |net| net.run(&net.a, &format!("ping -c 1 -W 1 {to}")).0);
        }
        net.ok(&net.a, "ping -c 1 -W 2 198.18.9.1");
        let (_, said) = net.run(&net.a, "ping -M do -c 1 -W 1 -s 1450 198.18.9.2");
        assert!(said.contains("mtu = 1400") || said.contains("mtu=1400"), "{driver}: {said}");
        assert_eq!(crate::fetch(&net, "http://198.18.9.2/file"), sum, "{driver}");
        assert_eq!(crate::fetch(&net, "http://[2001:db8:9::2]/file"), sum, "{driver}");
        // Up to B: segments that were one packet are cut for the tunnel.
        let send = "head -c 3000000 /dev/zero | timeout 20 python3 -c 'import socket, sys; s = socket.create_connection((\"198.18.9.2\", 99)); s.sendall(sys.stdin.buffer.read()); s.shutdown(1); print(s.recv(99).decode())'";
        let count = "timeout 20 python3 -c 'import socket
l = socket.create_server((\"\", 99)); print(\"ready\", flush=True); c, _ = l.accept(); n = 0
while d := c.recv(65536): n += len(d)
c.send(str(n).encode())'";
        let counting = net.spawn_reading(&b, count);
        net.until("it counts", |net| net.run(&net.b, "ss -lnt | grep -q :99").0);
        assert_eq!(net.ok(&net.a, send).trim(), "3000000", "{driver}");
        counting.wait();
        let rules = net.ok(&net.r, "$PENSTOCK nft list ruleset");
        assert!(
            rules.matches("counter packets").count() == 3 && !rules.contains("packets 0"),
            "{rules}"
        );
        net.down();
    }
}
