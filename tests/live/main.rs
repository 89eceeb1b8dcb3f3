// SPDX-License-Identifier: Apache-2.0

//! The live dataplane in network namespaces: A – R – B by veth pairs, R ours. Ordinary programs on
//! A and B must not notice.
//!
//! Everything here needs root; without it, it is skipped, and says so. So is what needs a program
//! that is not installed. `PENSTOCK_LIVE_BYTES` is the length of the file that is fetched (default
//! 40000000), `PENSTOCK_LIVE_SECONDS` how long rulesets are reloaded under load (default 5),
//! `PENSTOCK_LIVE_WORKERS` how many workers the dataplane has (default 1).

mod attach;
mod attached_bridge;
mod attached_fib;
mod attached_records;
mod attached_reject;
mod begin;
mod bpf;
mod bursts;
mod capture;
mod claims;
mod clients;
mod clock;
mod connections;
mod edges;
mod evaluator;
mod failover;
mod faults;
mod feed;
mod fleet;
mod flows;
mod flowtable;
mod hand_over;
mod host_settings;
mod hostile;
mod hosts;
mod inject;
mod keep;
mod listeners;
mod nat;
mod net;
mod nexthops;
mod offload;
mod on_death;
mod packets;
mod policies;
mod ports;
mod programs;
mod queues;
mod reconfigure;
mod rule_log;
mod rundir;
mod see;
mod settings;
mod surroundings;
mod systemd;
mod table;
mod taps;
mod uppers;
mod with_kernel;
mod with_kernel_changes;
mod with_kernel_leading;
mod workers;

use std::time::Duration;

use net::{Net, setting, sh};

/// The sum of a file that A gets from B by HTTP.
fn fetch(net: &Net, url: &str) -> String {
    net.ok(&net.a, &format!("curl -sS --max-time 600 {url} | sha256sum"))
}

/// Serves a file on B; returns its sum.
fn serve(net: &mut Net) -> String {
    let file = net.directory.join("file");
    let bytes = setting("PENSTOCK_LIVE_BYTES", 40_000_000);
    sh(&format!("head -c {bytes} /dev/urandom > {}", file.display()));
    let sum = sh(&format!("sha256sum < {}", file.display()));
    let serve =
        format!("python3 -m http.server --bind :: --directory {} 80", net.directory.display());
    net.spawn_in('b', &serve);
    let b = net.b.clone();
    net.until("the server is there", |net| {
        net.run(&b, "curl -s -o /dev/null http://198.18.1.2/").0
    });
    sum
}

#[test]
fn packets_are_forwarded_and_the_host_answers() {
    let Some(mut net) = Net::new() else { return };
    for driver in ["packet", "xdp", "xdp-generic"] {
        net.up(&format!("r0 r1 --driver {driver}"));
        for to in [
            "198.18.0.1",
            "198.18.1.1",
            "198.18.1.2",
            "2001:db8:0::1",
            "2001:db8:1::1",
            "2001:db8:1::2",
        ] {
            net.ok(&net.a, &format!("ping -c 3 -i 0.1 -W 2 {to}"));
            net.ok(&net.a, &format!("ping -c 2 -i 0.1 -W 2 -s 4000 {to}"));
        }
        for to in ["198.18.0.2", "2001:db8:1::2"] {
            net.ok(&net.r, &format!("ping -c 2 -i 0.1 -W 2 {to}"));
        }
        for (to, router) in
            [("198.18.1.2", "From 198.18.0.1"), ("2001:db8:1::2", "From 2001:db8::1")]
        {
            let (_, said) = net.run(&net.a, &format!("ping -c 1 -W 2 -t 1 {to}"));
            assert!(said.contains(router), "{driver}: {said}");
        }
        net.down();
    }
}

#[test]
fn a_device_is_restored_unchanged() {
    let Some(mut net) = Net::new() else { return };
    net.ok(&net.r, "ip route add 198.19.0.0/16 via 198.18.1.2 mtu 1300");
    net.ok(&net.r, "ip -6 route add 2001:db8:9::/48 via 2001:db8:1::2 dev r1");
    net.ok(&net.r, "ip addr add 198.18.0.77/24 dev r0 label r0:x");
    net.ok(&net.r, "ip neigh add 198.18.0.9 lladdr 02:00:00:00:00:99 dev r0");
    net.ok(&net.r, "ip route add 198.19.7.0/24 nexthop via 198.18.0.2 nexthop via 198.18.1.2");
    net.ok(&net.r, "sysctl -qw net.ipv4.conf.r0.log_martians=1");
    let state = |net: &Net| {
        let all = "ip addr show | grep -o 'inet.*' | sed 's/ valid_lft.*//; s/ nodad//; s/ tentative//'; ip route; ip -6 route; ip link | grep -o 'link/.*'; \
                   ip neigh show nud permanent; sysctl net.ipv4.conf.r0.log_martians net.ipv6.conf.r0.disable_ipv6";
        let mut lines: Vec<_> = net.ok(&net.r, all).lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let before = state(&net);
    net.up("r0 r1");
    let names = net.ok(&net.r, "ip -o link");
    assert!(names.contains("r0.port") && names.contains("r1.port"), "{names}");
    let tap = net.ok(&net.r, "ip -4 addr show dev r0");
    assert!(tap.contains("198.18.0.1/24") && tap.contains("r0:x"), "{tap}");
    let _ = net.ok(&net.r, "ip addr add 198.18.0.78/24 dev r0");
    let _ = net.ok(&net.r, "ip addr del 198.18.0.78/24 dev r0");
    net.down();
    assert_eq!(state(&net), before);
}

#[test]
fn files_arrive_whole_translated_or_not() {
    let Some(mut net) = Net::new() else { return };
    let sum = serve(&mut net);
    for driver in ["packet", "xdp"] {
        net.up(&format!("r0 r1 --driver {driver}"));
        assert_eq!(fetch(&net, "http://198.18.1.2/file"), sum, "{driver}");
        assert_eq!(fetch(&net, "http://[2001:db8:1::2]/file"), sum, "{driver}");
        net.nft(
            "table inet nat {
               chain pre {
                 type nat hook prerouting priority dstnat
                 ip daddr 198.19.0.1 tcp dport 8080 dnat ip to 198.18.1.2:80
               }
               chain post {
                 type nat hook postrouting priority srcnat
                 oif r1 masquerade
               }
             }",
        );
        assert_eq!(fetch(&net, "http://198.19.0.1:8080/file"), sum, "{driver}");
        assert_eq!(fetch(&net, "http://[2001:db8:1::2]/file"), sum, "{driver}");
        let connections = net.ok(&net.r, "$PENSTOCK show conntrack");
        assert!(connections.contains("dst=198.18.1.1 sport=80"), "{driver}: {connections}");
        net.down();
    }
}

#[test]
fn path_mtus_are_found() {
    let Some(mut net) = Net::new() else { return };
    let sum = serve(&mut net);
    net.up("r0 r1");
    // A veth drops what is too large for its other end, super-packets aside, and tells nobody.
    net.ok(&net.b, "ip link set b0 mtu 1300");
    net.ok(&net.r, "ip link set r1 mtu 1300");
    let mtu = "ip -o link show r1.port | grep -q 'mtu 1300'";
    net.until("the device follows its TAP", |net| net.run(&net.r, mtu).0);
    let (_, said) = net.run(&net.a, "ping -M do -c 2 -W 1 -s 1400 198.18.1.2");
    assert!(said.contains("mtu = 1300") || said.contains("mtu=1300"), "{said}");
    assert_eq!(fetch(&net, "http://198.18.1.2/file"), sum);
    assert_eq!(fetch(&net, "http://[2001:db8:1::2]/file"), sum);
}

#[test]
fn neighbours_and_routes_are_followed() {
    let Some(mut net) = Net::new() else { return };
    net.up("r0 r1");
    let (_, said) = net.run(&net.a, "ping -c 1 -W 6 198.18.1.99");
    assert!(said.contains("Destination Host Unreachable"), "{said}");
    net.ok(&net.b, "ip addr add 198.19.5.1/32 dev lo");
    assert!(!net.run(&net.a, "ping -c 1 -W 1 198.19.5.1").0);
    net.ok(&net.r, "ip route add 198.19.5.0/24 via 198.18.1.2");
    net.until("the route counts", |net| net.run(&net.a, "ping -c 1 -W 1 198.19.5.1").0);
    net.ok(&net.r, "ip route del 198.19.5.0/24");
    net.until("the route is gone", |net| !net.run(&net.a, "ping -c 1 -W 1 198.19.5.1").0);
    // A thousand routes at once.
    net.ok(
        &net.r,
        "for i in $(seq 0 999); do echo route add 198.19.$((i / 250)).$((i % 250))/32 via 198.18.1.2; done | ip -batch -",
    );
    net.ok(&net.b, "ip addr add 198.19.3.249/32 dev lo");
    net.until("all routes count", |net| net.run(&net.a, "ping -c 1 -W 1 198.19.3.249").0);
    // The neighbour gets another address on the wire.
    net.ok(&net.b, "ip link set b0 address 02:00:00:00:0b:01; ping -c 1 -W 2 198.18.1.1");
    net.until("the new address counts", |net| net.run(&net.a, "ping -c 1 -W 1 198.18.1.2").0);
}

#[test]
fn rules_of_the_host_see_its_packets() {
    let Some(mut net) = Net::new() else { return };
    net.up("r0 r1");
    net.nft(
        "table inet t {
           chain i {
             type filter hook input priority 0
             icmp type echo-request counter comment \"in\"
           }
           chain o {
             type filter hook output priority 0
             icmp type echo-reply counter comment \"out\"
             ip daddr 198.18.0.2 udp dport 9 counter reject
           }
         }
         table netdev n {
           chain e {
             type filter hook egress device r0 priority 0
             icmp type echo-reply counter comment \"leaving\"
             arp operation reply counter comment \"arp\"
           }
         }",
    );
    net.ok(&net.a, "ip neigh flush dev a0; ping -c 3 -i 0.1 -W 2 198.18.0.1");
    let rules = net.ok(&net.r, "$PENSTOCK nft list ruleset");
    for (counter, what) in [
        ("packets 3 bytes 252", "in"),
        ("packets 3 bytes 252", "out"),
        ("packets 3 bytes 294", "leaving"),
    ] {
        assert!(rules.contains(&format!("{counter} comment \"{what}\"")), "{rules}");
    }
    assert!(!rules.contains("packets 0 bytes 0 comment \"arp\""), "{rules}");
    // What a rule at output rejects, the sender learns.
    let refused =
        "python3 -c 'import socket; s=socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(3)
s.connect((\"198.18.0.2\", 9)); s.send(b\"x\")
try: s.recv(9)
except ConnectionRefusedError: print(\"refused\")'";
    assert_eq!(net.ok(&net.r, refused).trim(), "refused");
}

#[test]
fn traffic_returns_to_the_kernel_when_the_process_is_killed() {
    let Some(mut net) = Net::new() else { return };
    net.up("r0 r1");
    net.nft("table inet t { chain f { type filter hook forward priority 0; policy drop; }; }");
    assert!(!net.run(&net.a, "ping -c 1 -W 1 198.18.1.2").0);
    net.ok(&net.r, "ip addr add 198.18.0.50/24 dev r0");
    net.kill();
    net.until("the kernel forwards again", |net| net.run(&net.a, "ping -c 1 -W 1 198.18.1.2").0);
    net.until("both families", |net| net.run(&net.a, "ping -c 1 -W 1 2001:db8:1::2").0);
    // What came meanwhile is there.
    net.ok(&net.a, "ping -c 1 -W 1 198.18.0.50");
    let names = net.ok(&net.r, "ip -o link");
    assert!(!names.contains(".port"), "{names}");
    // And it can be started again.
    net.up("r0 r1");
    net.ok(&net.a, "ping -c 1 -W 2 198.18.1.2");
}

#[test]
fn the_control_socket_changes_the_ruleset_of_the_dataplane() {
    let Some(mut net) = Net::new() else { return };
    net.ok(&net.r, "$PENSTOCK nft list ruleset; test $? = 3");
    net.up("r0 r1");
    let r = net.r.clone();
    let monitor = net.spawn_reading(&r, "$PENSTOCK nft monitor");
    let other = net.spawn_reading(&r, "$PENSTOCK monitor new sets -a");
    std::thread::sleep(Duration::from_millis(500));
    let echoed = net.ok(
        &net.r,
        "$PENSTOCK nft -e -a 'add table ip t; add chain ip t c; add rule ip t c counter drop'",
    );
    assert!(
        echoed.starts_with("add table ip t # handle 1\nadd chain ip t c # handle 1\n"),
        "{echoed}"
    );
    assert!(
        echoed.contains("# new generation 2 by process ") && echoed.ends_with(" (penstock)\n"),
        "{echoed}"
    );
    // Errors are those of nft, and nothing of a batch that is wrong counts.
    let (ok, said) = net.run(&net.r, "$PENSTOCK nft 'add table ip u; add rule ip u nope drop'");
    assert!(!ok && said.contains("No such file or directory"), "{said}");
    assert_eq!(net.ok(&net.r, "$PENSTOCK nft list tables"), "table ip t\n");
    // Files, with what they include, are read by the client.
    let (one, two) = (net.directory.join("one.nft"), net.directory.join("two.nft"));
    std::fs::write(
        &one,
        format!("include \"{}\"\nadd set ip t s {{ type ipv4_addr; }}\n", two.display()),
    )
    .unwrap();
    std::fs::write(&two, "add chain ip t d\n").unwrap();
    net.ok(&net.r, &format!("$PENSTOCK nft -f {}", one.display()));
    assert!(net.ok(&net.r, "$PENSTOCK nft list ruleset").contains("set s"));
    let told = other.stop();
    assert!(told.starts_with("add set ip t s { # handle "), "{told}");
    let told = monitor.stop();
    assert!(
        told.contains(
            "add rule ip t c counter packets 0 bytes 0 drop\n# new generation 2 by process "
        ),
        "{told}"
    );
    assert!(told.contains("add set ip t s { type ipv4_addr; }"), "{told}");
    assert!(!told.contains("table ip u"), "{told}");
}

#[test]
fn an_unconfirmed_change_is_rolled_back() {
    let Some(mut net) = Net::new() else { return };
    let up = format!("r0 r1 --state {}", net.directory.join("state").display());
    net.up(&up);
    net.nft("table ip t { chain c { type filter hook forward priority 0; }; }");
    let before = net.ok(&net.r, "$PENSTOCK nft list ruleset");
    let now = |net: &Net| net.ok(&net.r, "$PENSTOCK nft list ruleset");
    // Without an answer.
    assert!(!net.run(&net.r, "$PENSTOCK nft --confirm 1s flush ruleset < /dev/null").0);
    assert_eq!(now(&net), before);
    // The client is killed; until the timeout no other client changes anything.
    let r = net.r.clone();
    let client = net.spawn_reading(&r, "exec $PENSTOCK nft --confirm 3s flush ruleset < /dev/zero");
    net.until("the change is in force", |net| now(net).is_empty());
    client.stop();
    assert!(!net.run(&net.r, "$PENSTOCK nft add table ip other").0);
    net.until("it is taken back", |net| now(net) == before);
    // What waits is shown, and does not outlive the dataplane.
    let client =
        net.spawn_reading(&r, "exec $PENSTOCK nft --confirm 20s flush ruleset < /dev/null 2>&1");
    net.until("the change is in force", |net| now(net).is_empty());
    assert!(net.ok(&net.r, "$PENSTOCK show").contains("is taken back in 1"));
    net.down();
    assert!(client.wait().contains("the dataplane does not answer"));
    assert!(net.log().contains("ends with the dataplane, and is not kept"), "{}", net.log());
    net.up(&up);
    assert_eq!(now(&net), before);
    // The user answers yes, or another client confirms.
    assert!(net.run(&net.r, "echo yes | $PENSTOCK nft --confirm 5s add table ip yes").0);
    let client =
        net.spawn_reading(&r, "$PENSTOCK nft --confirm 20s add table ip elsewhere < /dev/null");
    net.until("the change is in force", |net| now(net).contains("elsewhere"));
    net.ok(&net.r, "$PENSTOCK confirm");
    client.wait();
    assert!(now(&net).contains("table ip yes") && now(&net).contains("table ip elsewhere"));
}

#[test]
fn bridge_ports_forward_and_the_host_is_reachable() {
    let Some(mut net) = Net::new() else { return };
    if !net.bridge() {
        return;
    }
    net.ok(&net.r, "bridge link set dev r1 hairpin on && ip addr add 198.18.0.1/24 dev br0");
    net.ok(&net.b, "ip addr flush dev b0; ip addr add 198.18.0.3/24 dev b0");
    let all_answer = |net: &Net| {
        for (from, to) in [
            (&net.a, "198.18.0.3"),
            (&net.a, "198.18.0.1"),
            (&net.b, "198.18.0.1"),
            (&net.r, "198.18.0.2"),
            (&net.r, "198.18.0.3"),
        ] {
            net.until(to, |net| net.run(from, &format!("ping -c 2 -i 0.2 -W 1 {to}")).0);
        }
    };
    all_answer(&net);
    net.up("r0 r1");
    net.nft("table bridge t { chain f { type filter hook forward priority 0; icmp type echo-request counter; }; }");
    for namespace in [&net.a, &net.b, &net.r] {
        net.ok(namespace, "ip neigh flush all");
    }
    all_answer(&net);
    let (_, said) = net.run(&net.a, "ping -c 5 -i 0.2 -W 1 198.18.0.3");
    assert!(!said.contains("DUP"), "{said}");
    let rules = net.ok(&net.r, "$PENSTOCK nft list ruleset");
    assert!(!rules.contains("packets 0"), "{rules}");
    let links = net.ok(&net.r, "bridge -d link show dev r1");
    assert!(links.contains("hairpin on") && links.contains("isolated on"), "{links}");
    net.down();
    let links = net.ok(&net.r, "bridge -d link show dev r1");
    assert!(links.contains("hairpin on") && links.contains("isolated off"), "{links}");
    all_answer(&net);
}

#[test]
fn devices_that_go_down_or_disappear_do_no_harm() {
    let Some(mut net) = Net::new() else { return };
    for driver in ["packet", "xdp"] {
        net.up(&format!("r0 r1 --driver {driver}"));
        for _ in 0..3 {
            net.ok(
                &net.a,
                "ip link set a0 down; sleep 0.1; ip link set a0 up; ip route replace default via 198.18.0.1",
            );
            net.ok(&net.r, "ip link set r1 down; sleep 0.1; ip link set r1 up");
        }
        net.until("all is as before", |net| net.run(&net.a, "ping -c 1 -W 1 198.18.1.2").0);
        if driver == "packet" {
            net.down();
        }
    }
    net.ok(&net.b, "ip link del b0");
    let carrier = "ip -o link show r1 | grep -q NO-CARRIER";
    net.until("the TAP has lost its carrier", |net| net.run(&net.r, carrier).0);
    net.ok(&net.a, "ping -c 2 -i 0.2 -W 2 198.18.0.1");
    let ticks = |net: &Net| {
        let pid = net.pid();
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let fields: Vec<_> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    };
    let before = ticks(&net);
    std::thread::sleep(Duration::from_secs(1));
    // A second has a hundred ticks.
    assert!(ticks(&net) - before < 50, "it waits, and does not spin");
}
