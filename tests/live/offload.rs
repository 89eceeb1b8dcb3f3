//! What devices do themselves: flows in XDP and at tcx.

use crate::net::{Net, sh};

/// Flows of both families, translated or not, at both places.
const RULES: &str = "
    table inet t {
      flowtable f {
        hook ingress priority 0
        devices = { r0, r1 }
        flags offload
        counter
      }
      chain forward {
        type filter hook forward priority filter
        meta l4proto { tcp, udp } flow add @f
        ct state established,related counter accept
        counter accept
      }
      chain pre {
        type nat hook prerouting priority dstnat
        ip daddr 198.19.0.1 tcp dport 8080 dnat ip to 198.18.1.2:80
        ip6 daddr 2001:db8:99::1 tcp dport 8080 dnat ip6 to [2001:db8:1::2]:80
      }
      chain post {
        type nat hook postrouting priority srcnat
        oif r1 masquerade
      }
    }";

/// The ends receive from XDP, and finish their checksums themselves.
fn ends_for_xdp(net: &Net) {
    for (end, device) in [(&net.a, "a0"), (&net.b, "b0")] {
        net.ok(end, &format!("ethtool -K {device} gro on tx off"));
    }
}

/// Frames that a port has received so far, which its device did not forward.
fn received(net: &Net, port: &str) -> u64 {
    let shown = net.ok(&net.r, "$PENSTOCK show -j");
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    let port = shown["ports"].as_array().unwrap().iter().find(|p| p["name"] == port).unwrap();
    port["received"]["frames"].as_u64().unwrap()
}

/// Packets of connections to a port of B, as they are listed.
fn connections(net: &Net, port: u16) -> String {
    let all = net.ok(&net.r, "$PENSTOCK show conntrack");
    all.lines().filter(|l| l.contains(&format!("dport={port} "))).map(|l| format!("{l}\n")).collect()
}

#[test]
fn flows_run_on_their_devices_translated_or_not() {
    let Some(mut net) = Net::new() else { return };
    if !net.has("ethtool") || !net.has("curl") {
        return;
    }
    let file = net.directory.join("file");
    sh(&format!("head -c 60000000 /dev/urandom > {}", file.display()));
    let sum = sh(&format!("sha256sum < {}", file.display()));
    let serve = format!("python3 -m http.server --bind :: --directory {} 80", net.directory.display());
    net.spawn_in('b', &serve);
    let b = net.b.clone();
    net.until("the server is there", |net| net.run(&b, "curl -s -o /dev/null http://198.18.1.2/").0);
    for driver in ["packet", "xdp", "xdp-generic"] {
        if driver != "packet" {
            ends_for_xdp(&net);
        }
        net.up(&format!("r0 r1 --driver {driver} --sysctl net.netfilter.nf_conntrack_acct=1"));
        let shown = net.ok(&net.r, "$PENSTOCK show");
        assert!(!shown.contains("forwards flows"), "{shown}");
        net.nft(RULES);
        let shown = net.ok(&net.r, "$PENSTOCK show");
        let place = if driver == "packet" { "tcx" } else { "xdp" };
        assert!(shown.contains(&format!("forwards flows itself, at {place}")), "{driver}: {shown}");
        for url in [
            "http://198.18.1.2/file",
            "http://[2001:db8:1::2]/file",
            "http://198.19.0.1:8080/file",
            "http://[2001:db8:99::1]:8080/file",
        ] {
            let before = received(&net, "r1");
            let got = net.ok(&net.a, &format!("curl -sS --max-time 60 {url} | sha256sum"));
            assert_eq!(got, sum, "{driver} {url}");
            // Of 41,000 segments, or 900 super-packets.
            let up = received(&net, "r1") - before;
            assert!(up < 700, "{driver} {url}: {up} frames came up");
        }
        // A FIN goes up, and the flow ends; what the device counted is there then.
        let shown = connections(&net, 80) + &connections(&net, 8080);
        assert_eq!(shown.lines().count(), 4, "{shown}");
        net.until("flows are given back with their counts", |net| {
            let shown = connections(net, 80) + &connections(net, 8080);
            let large = |line: &str| {
                let bytes = line.split("bytes=").skip(1).filter_map(|w| w.split(' ').next()?.parse().ok());
                bytes.max().unwrap_or(0) > 60_000_000_u64
            };
            !shown.contains("HW_OFFLOAD") && shown.lines().filter(|l| large(l)).count() == 4
        });
        net.down();
    }
}

#[test]
fn flows_of_devices_are_listed_expire_and_follow_the_network() {
    let Some(mut net) = Net::new() else { return };
    if !net.has("ethtool") || !net.has("iperf3") {
        return;
    }
    ends_for_xdp(&net);
    net.up("r0 r1 --driver xdp --sysctl net.netfilter.nf_flowtable_udp_timeout=4");
    net.nft(RULES);
    net.spawn_in('b', "iperf3 -s");
    let b = net.b.clone();
    net.until("the server is there", |net| net.run(&b, "ss -ltn | grep -q :5201").0);
    // Longer than the timeout: packets in XDP keep it alive.
    let run = net.spawn_reading(&net.a, "iperf3 -u -b 20M -l 1000 -c 198.18.1.2 -t 7 -J");
    net.until("it is forwarded by the device", |net| {
        connections(net, 5201).lines().any(|l| l.starts_with("udp") && l.contains("[HW_OFFLOAD]"))
    });
    std::thread::sleep(std::time::Duration::from_secs(5));
    let shown = connections(&net, 5201);
    assert!(shown.lines().any(|l| l.starts_with("udp") && l.contains("[HW_OFFLOAD]")), "{shown}");
    // The neighbour moves while it runs.
    net.ok(&net.b, "ip link set b0 address 02:00:00:00:0b:01; ping -c 1 -W 2 198.18.1.1");
    let said: serde_json::Value = serde_json::from_str(&run.wait()).unwrap();
    let sum = &said["end"]["sum"];
    let (sent, lost) = (sum["packets"].as_u64().unwrap(), sum["lost_packets"].as_u64().unwrap());
    assert!(sent > 10_000 && lost < sent / 10, "{sent} {lost}");
    net.until("it expires", |net| {
        !connections(net, 5201).lines().any(|l| l.starts_with("udp") && l.contains("OFFLOAD"))
    });
    // Without the flowtable the program goes when the flows have.
    net.nft("flush ruleset");
    net.until("the program is gone", |net| !net.ok(&net.r, "$PENSTOCK show").contains("forwards flows"));
}

#[test]
fn flows_of_devices_survive_a_reload_and_a_kill_gives_them_to_the_kernel() {
    let Some(mut net) = Net::new() else { return };
    if !net.has("ethtool") || !net.has("iperf3") {
        return;
    }
    net.spawn_in('b', "iperf3 -s");
    let b = net.b.clone();
    net.until("the server is there", |net| net.run(&b, "ss -ltn | grep -q :5201").0);
    let plain: String = RULES.split("chain pre").next().unwrap().to_owned() + "}";
    for driver in ["xdp", "packet"] {
        if driver == "xdp" {
            ends_for_xdp(&net);
        }
        net.up(&format!("r0 r1 --driver {driver}"));
        net.nft(&plain);
        let run = net.spawn_reading(&net.a, "iperf3 -c 198.18.1.2 -t 6 -J");
        net.until("it is forwarded by the device", |net| connections(net, 5201).contains("[HW_OFFLOAD]"));
        for _ in 0..10 {
            net.nft(&format!("flush ruleset; {plain}"));
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        net.kill();
        let said: serde_json::Value = serde_json::from_str(&run.wait()).unwrap();
        assert!(said["error"].is_null(), "{driver}: {}", said["error"]);
        let last = said["intervals"].as_array().unwrap().last().unwrap()["sum"]["bytes"].as_u64().unwrap();
        assert!(last > 1_000_000, "{driver}: {last}");
        let shown = net.ok(&net.r, "ip -d link show");
        assert!(!shown.contains("xdp") && !shown.contains(".port"), "{driver}: {shown}");
    }
}
