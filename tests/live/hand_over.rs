// SPDX-License-Identifier: Apache-2.0

//! Flows at tcx of veths: packets go to the other end of the device that they leave by at once,
//! past that device, as long as that is the same to everybody; and packets that a neighbour cuts
//! itself are put together again on arrival.

use crate::net::Net;

const RULES: &str = "
    table inet t {
      flowtable f {
        hook ingress priority 0
        devices = { r0, r1 }
        flags offload
      }
      chain forward {
        type filter hook forward priority filter
        meta l4proto { tcp, udp } flow add @f
        ct state established,related accept
      }
      chain post {
        type nat hook postrouting priority srcnat
        ip6 daddr 2001:db8:1::2 masquerade
      }
    }";

/// A number of a device: `tx_packets` and the like.
fn number(net: &Net, namespace: &str, device: &str, name: &str) -> u64 {
    net.ok(namespace, &format!("cat /sys/class/net/{device}/statistics/{name}"))
        .trim()
        .parse()
        .unwrap()
}

/// Sends by TCP for a second: packets that B received meanwhile, those of them that the port's
/// device counted as sent, and bytes of a packet that A sent on average.
fn send(net: &Net, to: &str) -> (u64, u64, u64) {
    let look = || {
        let of = |n: &str, device: &str, name: &str| number(net, n, device, name);
        let sent = (of(&net.a, "a0", "tx_packets"), of(&net.a, "a0", "tx_bytes"));
        (of(&net.b, "b0", "rx_packets"), of(&net.r, "r1.port", "tx_packets"), sent)
    };
    let before = look();
    let said = net.ok(&net.a, &format!("iperf3 -c {to} -t 1 -J"));
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    let received = said["end"]["sum_received"]["bytes"].as_u64().unwrap();
    assert!(received > 1_000_000, "{to}: {received} bytes");
    let after = look();
    let ((packets, bytes), (packets0, bytes0)) = (after.2, before.2);
    (after.0 - before.0, after.1 - before.1, (bytes - bytes0) / (packets - packets0))
}

#[test]
fn flow_packets_are_redirected_to_the_veth_peer_while_allowed() {
    let Some(mut net) = Net::new() else { return };
    if !net.has("ethtool") || !net.has("iperf3") || !net.has("tc") {
        return;
    }
    net.serve_iperf();
    net.up("r0 r1 --driver packet");
    net.nft(RULES);
    let all = ["198.18.1.2", "2001:db8:1::2"];
    for to in all {
        let (received, sent, size) = send(&net, to);
        assert!(received > 100 && sent < received / 10, "{to}: {sent} of {received}");
        assert!(size > 3000, "{to}: {size}");
    }
    // Who wants them to queue sees them.
    net.ok(&net.r, "tc qdisc add dev r1.port root pfifo");
    net.until("packets queue", |net| {
        let (received, sent, _) = send(net, "198.18.1.2");
        sent > received / 10 * 9
    });
    net.ok(&net.r, "tc qdisc del dev r1.port root");
    net.until("packets do not queue", |net| {
        let (received, sent, _) = send(net, "198.18.1.2");
        sent < received / 10
    });
    // Down and up again.
    let again =
        "ip link set b0 down; ip link set b0 up; ip addr replace 2001:db8:1::2/64 dev b0 nodad
        ip route replace default via 198.18.1.1; ip route replace default via 2001:db8:1::1";
    net.ok(&net.b, again);
    net.until("B answers", |net| net.run(&net.a, "ping -c 1 -W 1 198.18.1.2").0);
    let (received, sent, _) = send(&net, "198.18.1.2");
    assert!(received > 100 && sent < received / 2, "{sent} of {received}");
    // Neighbours that cut their packets themselves, and finish their checksums.
    for (end, device) in [(&net.a, "a0"), (&net.b, "b0")] {
        net.ok(end, &format!("ethtool -K {device} tx off gro off"));
    }
    for to in all {
        let before = number(&net, &net.a, "a0", "tx_packets");
        let (received, sent, size) = send(&net, to);
        let cut = number(&net, &net.a, "a0", "tx_packets") - before;
        assert!(size < 1600, "{to}: {size}");
        assert!(received < cut / 2 && sent < received, "{to}: {received} and {sent} of {cut}");
    }
    let gro = |net: &Net, device: &str| {
        net.ok(&net.r, &format!("ethtool -k {device}")).contains("generic-receive-offload: on")
    };
    assert!(gro(&net, "r0.port") && gro(&net, "r1.port"));
    net.down();
    assert!(!gro(&net, "r0") && !gro(&net, "r1"));
    // A kill gives it back, too; and who had it keeps it.
    net.ok(&net.r, "ethtool -K r1 gro on");
    net.up("r0 r1 --driver packet");
    net.kill();
    net.until("the devices are the kernel's", |net| {
        !net.ok(&net.r, "ip -o link").contains(".port")
    });
    assert!(!gro(&net, "r0") && gro(&net, "r1"));
}

/// The kernel drops what is to go to the other end in the same namespace.
#[test]
fn a_veth_peer_may_move_into_the_namespace_of_the_port() {
    let Some(mut net) = Net::new() else { return };
    if !net.has("iperf3") {
        return;
    }
    net.serve_iperf();
    net.up("r0 r1 --driver packet");
    net.nft(RULES);
    let neighbour = net.ok(&net.b, "cat /sys/class/net/b0/address");
    net.ok(
        &net.r,
        &format!("ip neigh replace 198.18.1.2 lladdr {} dev r1 nud permanent", neighbour.trim()),
    );
    let (a, b, r) = (net.a.clone(), net.b.clone(), net.r.clone());
    let run = net.spawn_reading(&a, "iperf3 -u -b 2M -l 500 -c 198.18.1.2 -t 8 -J");
    net.until("it is forwarded by the device", |net| {
        let shown = net.ok(&net.r, "$PENSTOCK show conntrack");
        shown.lines().any(|l| {
            l.starts_with("udp") && l.contains("dport=5201 ") && l.contains("[HW_OFFLOAD]")
        })
    });
    net.ok(&b, &format!("ip link set b0 netns {r}"));
    net.ok(&r, "ip link set b0 up");
    let before = number(&net, &r, "b0", "rx_packets");
    net.until("packets arrive there", |net| number(net, &r, "b0", "rx_packets") > before + 100);
    let _ = run.stop();
}
