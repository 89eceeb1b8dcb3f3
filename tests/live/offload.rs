// SPDX-License-Identifier: Apache-2.0

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
    all.lines()
        .filter(|l| l.contains(&format!("dport={port} ")))
        .map(|l| format!("{l}\n"))
        .collect()
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
    let serve =
        format!("python3 -m http.server --bind :: --directory {} 80", net.directory.display());
    net.spawn_in('b', &serve);
    let b = net.b.clone();
    net.until("the server is there", |net| {
        net.run(&b, "curl -s -o /dev/null http://198.18.1.2/").0
    });
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
        let sends =
            |net: &Net| !net.ok(&net.r, "$PENSTOCK show").contains("no flow can leave by it");
        net.until("its neighbours poll", sends);
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
                let bytes =
                    line.split("bytes=").skip(1).filter_map(|w| w.split(' ').next()?.parse().ok());
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
    net.until("the program is gone", |net| {
        !net.ok(&net.r, "$PENSTOCK show").contains("forwards flows")
    });
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
        net.until("it is forwarded by the device", |net| {
            connections(net, 5201).contains("[HW_OFFLOAD]")
        });
        for _ in 0..10 {
            net.nft(&format!("flush ruleset; {plain}"));
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        net.kill();
        let said: serde_json::Value = serde_json::from_str(&run.wait()).unwrap();
        assert!(said["error"].is_null(), "{driver}: {}", said["error"]);
        let last =
            said["intervals"].as_array().unwrap().last().unwrap()["sum"]["bytes"].as_u64().unwrap();
        assert!(last > 1_000_000, "{driver}: {last}");
        let shown = net.ok(&net.r, "ip -d link show");
        assert!(!shown.contains("xdp") && !shown.contains(".port"), "{driver}: {shown}");
    }
}

/// With their translation, which the kernel knows nothing of; and the next dataplane continues with
/// them, whether it has kept its state or not.
#[test]
fn offloaded_flows_survive_the_process_where_configured() {
    let Some(mut net) = Net::new() else { return };
    if !net.has("ethtool") || !net.has("iperf3") {
        return;
    }
    let pins = net.directory.join("bpf");
    sh(&format!("mkdir {0}; mount -t bpf bpf {0}", pins.display()));
    let ours = |name: std::ffi::OsString| name.to_string_lossy().starts_with("penstock-");
    let left = || {
        std::fs::read_dir(&pins).unwrap().filter(|e| ours(e.as_ref().unwrap().file_name())).count()
    };
    net.spawn_in('b', "iperf3 -s");
    let b = net.b.clone();
    net.until("the server is there", |net| net.run(&b, "ss -ltn | grep -q :5201").0);
    let (ok, said) = net.run(&net.r, "$PENSTOCK up r0 r1 --persist /tmp");
    assert!(!ok && said.contains("/tmp: not in a file system of type bpf"), "{said}");
    let rules = net.directory.join("persist.nft");
    std::fs::write(&rules, RULES).unwrap();
    let (rules, state) =
        (rules.display().to_string(), net.directory.join("state").display().to_string());
    for (driver, keep, workers) in
        [("packet", false, 1), ("packet", true, 2), ("xdp", false, 2), ("xdp", true, 1)]
    {
        if driver == "xdp" {
            ends_for_xdp(&net);
        }
        let keep = if keep { format!("--state {state}") } else { String::new() };
        let keep = format!("{keep} --workers {workers} --sysctl net.netfilter.nf_conntrack_acct=1");
        let args =
            format!("r0 r1 --driver {driver} --rules {rules} {keep} --persist {}", pins.display());
        let _ = std::fs::remove_file(&state);
        net.up(&args);
        // Programs of two devices, and the maps of two families.
        assert_eq!(left(), 4, "{args}");
        let run = net.spawn_reading(&net.a, "iperf3 -c 198.18.1.2 -t 8 -J");
        // Both of its connections.
        net.until("it is forwarded by the device", |net| {
            connections(net, 5201).matches("[HW_OFFLOAD]").count() == 2
        });
        net.kill();
        assert_eq!(left(), 4, "{args}");
        net.until("the devices are the kernel's", |net| {
            !net.ok(&net.r, "ip -o link").contains(".port")
        });
        std::thread::sleep(std::time::Duration::from_secs(2));
        // Bytes so far are not less than a second of them.
        net.up(&args);
        let log = net.log();
        assert!(
            log.contains("2 flows that an earlier dataplane has left in devices are connections"),
            "{log}"
        );
        let shown = connections(&net, 5201);
        let bytes =
            shown.split("bytes=").skip(1).filter_map(|w| w.split(' ').next()?.parse::<u64>().ok());
        assert!(bytes.max().unwrap_or(0) > 1_000_000, "{args}: {shown}");
        net.until("they are forwarded by the device again", |net| {
            connections(net, 5201).contains("[HW_OFFLOAD]")
        });
        let said: serde_json::Value = serde_json::from_str(&run.wait()).unwrap();
        assert!(said["error"].is_null(), "{args}: {}", said["error"]);
        let last =
            said["intervals"].as_array().unwrap().last().unwrap()["sum"]["bytes"].as_u64().unwrap();
        assert!(last > 1_000_000, "{args}: {last}");
        // Without one that comes next they are removed by hand.
        net.kill();
        net.until("the devices are the kernel's", |net| {
            !net.ok(&net.r, "ip -o link").contains(".port")
        });
        assert_eq!(left(), 4, "{args}");
        net.ok(&net.r, "$PENSTOCK down");
        assert_eq!(left(), 0, "{args}");
    }
    sh(&format!("umount {}", pins.display()));
}

/// The number after a word in a line of the ruleset with some text.
fn counted(net: &Net, text: &str) -> u64 {
    let listed = net.ok(&net.r, "$PENSTOCK nft list ruleset");
    let line =
        listed.lines().find(|l| l.contains(text)).unwrap_or_else(|| panic!("{text}: {listed}"));
    let mut words = line.split_whitespace().skip_while(|w| *w != "packets").skip(1);
    words.next().unwrap().parse().unwrap()
}

#[test]
fn chains_run_on_their_devices_and_not_twice() {
    let Some(mut net) = Net::new() else { return };
    let rules = "flush ruleset
             table netdev t {
               set ports { type inet_service; flags interval; elements = { 7, 9-11 }; }
               chain c {
                 type filter hook ingress device r0 priority 0; policy accept; flags offload;
                 udp dport @ports counter drop comment \"set\"
                 ip6 nexthdr udp udp dport 99 counter drop comment \"six\"
                 meta l4proto { icmp, icmpv6 } counter accept comment \"device\"
               }
               chain soft {
                 type filter hook ingress device r0 priority 10
                 meta l4proto { icmp, icmpv6 } counter comment \"software\"
               }
             }";
    for driver in ["packet", "xdp", "xdp-generic"] {
        net.up(&format!("r0 r1 --driver {driver}"));
        net.nft(rules);
        let listed = net.ok(&net.r, "$PENSTOCK nft list ruleset");
        assert!(listed.contains("policy accept; flags offload;"), "{driver}: {listed}");
        let shown = net.ok(&net.r, "$PENSTOCK show");
        assert!(shown.contains("runs chain netdev t c itself, at xdp"), "{driver}: {shown}");
        // What came while the chain moved onto the device has met it in both places.
        net.ok(&net.r, "$PENSTOCK nft reset rules");
        let pings = |net: &Net| {
            net.ok(&net.a, "ping -q -c 5 -i 0.05 -W 2 198.18.1.2");
            net.ok(&net.a, "ping -q -c 5 -i 0.05 -W 2 2001:db8:1::2");
        };
        let send = |net: &Net, to: &str, port: u16, family: &str| {
            let line = format!(
                "python3 -c 'import socket; s = socket.socket(socket.{family}, socket.SOCK_DGRAM)
for i in range(20): s.sendto(b\"x\", (\"{to}\", {port}))'"
            );
            net.ok(&net.a, &line);
        };
        pings(&net);
        for port in [7, 10, 12] {
            send(&net, "198.18.1.2", port, "AF_INET");
        }
        send(&net, "2001:db8:1::2", 99, "AF_INET6");
        assert_eq!((counted(&net, "\"set\""), counted(&net, "\"six\"")), (40, 20), "{driver}");
        // Neighbour discovery counts, too.
        let on_device = counted(&net, "\"device\"");
        assert!((10..30).contains(&on_device), "{driver}: {on_device}");
        net.until("software has seen what the device let pass", |net| {
            counted(net, "\"device\"") == counted(net, "\"software\"")
        });
        // What did not change counts on, whether the program does or not; reset zeroes it.
        net.nft("table netdev another { }");
        assert_eq!(counted(&net, "\"set\""), 40, "{driver}");
        net.nft("insert rule netdev t c tcp dport 1 counter drop");
        assert_eq!(counted(&net, "\"set\""), 40, "{driver}");
        send(&net, "198.18.1.2", 9, "AF_INET");
        assert_eq!(counted(&net, "\"set\""), 60, "{driver}");
        net.ok(&net.r, "$PENSTOCK nft reset rules");
        send(&net, "198.18.1.2", 9, "AF_INET");
        assert_eq!(counted(&net, "\"set\""), 20, "{driver}");
        // An element more, and the chain gone.
        net.ok(&net.r, "$PENSTOCK nft add element netdev t ports '{ 12 }'");
        send(&net, "198.18.1.2", 12, "AF_INET");
        assert_eq!(counted(&net, "\"set\""), 40, "{driver}");
        net.nft("flush ruleset");
        let shown = net.ok(&net.r, "$PENSTOCK show; ip -d link show r0.port");
        assert!(!shown.contains("runs chain"), "{driver}: {shown}");
        assert_eq!(shown.contains("xdp"), driver != "packet", "{driver}: {shown}");
        pings(&net);
        net.down();
    }
}

#[test]
fn rules_that_devices_cannot_offload_are_refused_at_their_place() {
    let Some(mut net) = Net::new() else { return };
    net.ok(&net.r, "ip link add other type veth peer name other2; ip link set other up");
    net.up("r0 r1 --driver xdp");
    for (rules, place, reason) in [
        (
            "table netdev t {\n chain c {\n  type filter hook ingress device r0 priority 0; flags offload\n  \
             limit rate 5/second drop\n }\n}",
            ":4:3-26: Error: Could not process rule: Operation not supported: device r0 cannot run chain netdev t c",
            "limit",
        ),
        (
            "table netdev t {\n chain c {\n  type filter hook ingress device other priority 0; flags offload\n }\n}",
            ":2:8-8: Error: Could not process rule: Operation not supported: device other cannot run chain netdev t c",
            "it runs no programs",
        ),
        (
            "table inet t {\n chain c {\n  type filter hook input priority 0; flags offload\n }\n}",
            ":2:8-8: Error: Could not process rule: Operation not supported",
            "",
        ),
    ] {
        let file = net.directory.join("refused.nft");
        std::fs::write(&file, rules).unwrap();
        let (ok, said) = net.run(&net.r, &format!("$PENSTOCK nft -f {}", file.display()));
        assert!(!ok && said.contains(place) && said.contains(reason), "{said}");
    }
    assert_eq!(net.ok(&net.r, "$PENSTOCK nft list ruleset"), "");
}
