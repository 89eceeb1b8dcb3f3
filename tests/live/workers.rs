// SPDX-License-Identifier: Apache-2.0

//! Several workers: what one of them would do, all of them together do, too.
//!
//! All other tests here can be run with several workers, see the head of `main.rs`.

use std::collections::HashSet;
use std::process::Stdio;
use std::time::Duration;

use crate::inject::within;
use crate::net::Net;

const PEERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/live/peers.py");
/// Flows at a time.
const FLOWS: usize = 300;

/// What `show` says as JSON, as far as one expression of Python picks it.
fn shown(net: &Net, pick: &str) -> u64 {
    let line = format!(
        "$PENSTOCK show --json | python3 -c 'import json, sys; s = json.load(sys.stdin); print({pick})'"
    );
    net.ok(&net.r, &line).trim().parse().unwrap()
}

/// The packets of a rule with this comment.
fn counted(net: &Net, comment: &str) -> u64 {
    let rules = net.ok(&net.r, "$PENSTOCK nft list ruleset");
    let line =
        rules.lines().find(|l| l.contains(&format!("comment \"{comment}\""))).expect(comment);
    line.split("packets ").nth(1).and_then(|l| l.split(' ').next()).unwrap().parse().unwrap()
}

fn flows(net: &mut Net) {
    net.spawn_in('b', &format!("python3 {PEERS} serve"));
    net.until("the server is there", |net| net.run(&net.b, "ss -lnu | grep -q :7100").0);
}

#[test]
fn many_flows_of_several_workers_are_translated_and_counted_each_once() {
    let Some(mut net) = Net::new() else { return };
    flows(&mut net);
    for (workers, driver) in [(2, "packet"), (3, "xdp"), (4, "packet")] {
        net.up(&format!("r0 r1 --workers {workers} --driver {driver}"));
        net.nft(
            "table inet t {
               set limited { type ipv4_addr . inet_service; size 65535; flags dynamic; }
               set v6 { type ipv6_addr; size 100; flags dynamic; }
               chain f {
                 type filter hook forward priority filter; policy drop
                 udp dport 7100 counter comment \"there\"
                 udp sport 7100 counter comment \"back\"
                 ct state established,related accept
                 udp dport 7100 ct count over 2000 drop
                 udp dport 7100 add @limited { ip saddr . udp sport }
                 ip6 saddr != ::1 update @v6 { ip6 saddr counter }
                 udp dport 7100 counter accept comment \"new\"
               }
               chain post { type nat hook postrouting priority srcnat; oif r1 masquerade; }
             }",
        );
        for (round, to) in [(1, "198.18.1.2"), (2, "2001:db8:1::2")] {
            let ask = format!("python3 {PEERS} ask {to} {FLOWS} 1000");
            assert_eq!(net.ok(&net.a, &ask).trim(), FLOWS.to_string(), "{workers} {driver}");
            let (new, all) = (FLOWS as u64 * round, 3 * FLOWS as u64 * round);
            let found = ["new", "there", "back"].map(|comment| counted(&net, comment));
            assert_eq!(found, [new, all, all], "{workers} {driver} {to}");
        }
        // Every connection is listed once, and no two have the same answers.
        let listed = net.ok(&net.r, "$PENSTOCK show conntrack");
        let of_test: Vec<&str> = listed.lines().filter(|l| l.contains("dport=7100")).collect();
        let replies: HashSet<String> = of_test
            .iter()
            .map(|l| l.split(" src=").nth(2).unwrap().split(" mark").next().unwrap().into())
            .collect();
        assert_eq!((of_test.len(), replies.len()), (2 * FLOWS, 2 * FLOWS), "{workers} {driver}");
        assert!(shown(&net, "s[\"connections\"]") >= 2 * FLOWS as u64);
        let other = "s[\"connections\"] - sum(w[\"connections\"] for w in s[\"workers\"])";
        assert_eq!(shown(&net, other), 0, "{}", net.ok(&net.r, "$PENSTOCK show"));
        let elements = net.ok(&net.r, "$PENSTOCK nft list set inet t limited");
        assert_eq!(elements.matches("198.18.0.2 . ").count(), FLOWS, "{workers} {driver}");
        // All of them had something to do, and nothing was lost between them.
        let busy = "sum(w[\"connections\"] > 20 for w in s[\"workers\"])";
        assert_eq!(shown(&net, busy), workers, "{}", net.ok(&net.r, "$PENSTOCK show"));
        // In one answer, since the hosts' own frames continue; a frame may be on its way.
        let on_its_way = "abs(sum(w[\"handed_over\"] - w[\"taken_over\"] for w in s[\"workers\"]))";
        assert!(within(Duration::from_secs(5), || shown(&net, on_its_way) == 0));
        assert_eq!(shown(&net, "s[\"conntrack\"][\"insert_failed\"]"), 0);
        assert_eq!(shown(&net, "s[\"drops\"].get(\"worker busy\", 0)"), 0);
        net.down();
    }
}

#[test]
fn fragments_and_errors_go_to_the_worker_of_their_connection() {
    let Some(mut net) = Net::new() else { return };
    flows(&mut net);
    net.ok(
        &net.r,
        "ip link set r1 mtu 1300; ip -n $0 link set b0 mtu 1300".replace("$0", &net.b).as_str(),
    );
    net.up("r0 r1 --workers 3");
    net.nft(
        "table inet t {
           chain f {
             type filter hook forward priority filter; policy drop
             ct state invalid counter comment \"invalid\"
             ct state established,related accept
             udp dport 7100 accept
             icmp type echo-request accept
             icmpv6 type echo-request accept
           }
           chain post { type nat hook postrouting priority srcnat; oif r1 masquerade; }
         }",
    );
    for to in ["198.18.1.2", "2001:db8:1::2"] {
        // What is too long for the way; from then on A knows.
        let _ = net.run(&net.a, &format!("ping -M do -c 4 -i 0.2 -W 1 -s 1400 {to}"));
        net.ok(&net.a, &format!("python3 {PEERS} ask {to} 48 4000"));
        net.ok(&net.a, &format!("ping -c 20 -i 0.02 -W 2 -s 5000 {to}"));
    }
    let (_, said) = net.run(&net.a, "ping -M do -c 3 -i 0.2 -W 1 -s 1400 198.18.1.2");
    assert!(said.contains("mtu = 1300") || said.contains("mtu=1300"), "{said}");
    for (to, router) in [("198.18.1.2", "From 198.18.0.1"), ("2001:db8:1::2", "From 2001:db8::1")] {
        for _ in 0..5 {
            let (_, said) = net.run(&net.a, &format!("ping -c 1 -W 2 -t 1 {to}"));
            assert!(said.contains(router), "{said}");
        }
    }
    // ICMP errors from B about translated flows.
    net.ok(&net.a, "for i in $(seq 20); do python3 -c 'import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect((\"198.18.1.2\", 7100 )); s.send(b\"x\" * 8); s.settimeout(2); s.recv(99)'; done");
    net.nft("flush chain inet t f\ntable inet t { chain f { ct state established,related accept; udp dport { 7100, 9 } accept; }; }");
    net.ok(&net.b, "sysctl -qw net.ipv4.icmp_ratelimit=0");
    let refused = "python3 -c 'import socket
for i in range(20):
  s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(3); s.connect((\"198.18.1.2\", 9)); s.send(b\"x\")
  try: s.recv(9)
  except ConnectionRefusedError: print(\"refused\")'";
    assert_eq!(net.ok(&net.a, refused).matches("refused").count(), 20);
}

#[test]
fn announced_connections_go_to_the_worker_that_expects_them() {
    let Some(mut net) = Net::new() else { return };
    net.spawn_in('b', &format!("python3 {PEERS} ftp-serve"));
    net.until("the server is there", |net| net.run(&net.b, "ss -lnt | grep -q :21").0);
    net.up("r0 r1 --workers 3");
    net.nft(
        "table inet t {
           ct helper ftp { type \"ftp\" protocol tcp; }
           chain h { type filter hook prerouting priority filter; tcp dport 21 ct helper set \"ftp\"; }
           chain f {
             type filter hook forward priority filter; policy drop
             ct state established accept
             ct state related counter accept comment \"announced\"
             tcp dport 21 accept
           }
           chain pre { type nat hook prerouting priority dstnat; ip daddr 198.19.0.1 dnat ip to 198.18.1.2; }
           chain post { type nat hook postrouting priority srcnat; oif r1 masquerade; }
         }",
    );
    for (round, to) in [(1, "198.18.1.2"), (2, "198.19.0.1")] {
        net.ok(&net.a, &format!("python3 {PEERS} ftp {to} 12"));
        assert_eq!(counted(&net, "announced"), 12 * round);
    }
}

#[test]
fn all_workers_serve_the_ports_of_a_bridge() {
    let Some(mut net) = Net::new() else { return };
    let sum = crate::serve(&mut net);
    if !net.bridge() {
        return;
    }
    net.ok(&net.b, "ip addr flush dev b0; ip addr add 198.18.0.3/24 dev b0");
    // Where B is later.
    net.ok(
        &net.r,
        &format!(
            "ip link add r2 type veth peer name b1 netns {}; ip link set r2 master br0; ip link set r2 up",
            net.b
        ),
    );
    flows(&mut net);
    for (workers, driver) in [(2, "packet"), (3, "xdp")] {
        net.up(&format!("r0 r1 r2 --workers {workers} --driver {driver}"));
        net.nft(
            "table bridge t { chain f { type filter hook forward priority 0; policy drop
               udp dport 7100 counter comment \"there\"
               ether type arp accept
               ct state established counter accept comment \"back\"
               udp dport 7100 ct state new accept
               tcp dport 80 ct state new accept
               ether type ip icmp type echo-request ct state new accept
             }; }",
        );
        let ask = format!("python3 {PEERS} ask 198.18.0.3 {FLOWS} 1000");
        let asked = |net: &Net, rounds: u64| {
            net.until("B is found", |net| net.run(&net.a, "ping -c 1 -W 1 198.18.0.3").0);
            assert_eq!(net.ok(&net.a, &ask).trim(), FLOWS.to_string(), "{workers} {driver}");
            assert_eq!(counted(net, "there"), 3 * FLOWS as u64 * rounds, "{workers} {driver}");
            assert!(counted(net, "back") >= 5 * FLOWS as u64 * rounds, "{workers} {driver}");
        };
        asked(&net, 1);
        let busy = "sum(w[\"connections\"] > 20 for w in s[\"workers\"])";
        assert_eq!(shown(&net, busy), workers, "{}", net.ok(&net.r, "$PENSTOCK show"));
        // Super-packets, too, where the driver has them.
        assert_eq!(crate::fetch(&net, "http://198.18.0.3/file"), sum, "{workers} {driver}");
        assert_eq!(shown(&net, "s[\"drops\"].get(\"packet too big\", 0)"), 0, "{workers} {driver}");
        // B moves with its address: all workers know, whichever learns it first. And back.
        for (round, [from, to]) in [(2, ["b0", "b1"]), (3, ["b1", "b0"])] {
            net.ok(
                &net.b,
                &format!(
                    "set -e; ip link set {from} down; ip addr flush dev {from}
                     ip link set {from} address 02:00:00:00:0b:{round:02}; ip link set {to} address 02:00:00:00:0b:00
                     ip link set {to} up; ip addr add 198.18.0.3/24 dev {to}"
                ),
            );
            net.until("B is heard", |net| net.run(&net.b, "ping -c 1 -W 1 198.18.0.2").0);
            asked(&net, round);
        }
        assert_eq!(shown(&net, "s[\"drops\"].get(\"worker busy\", 0)"), 0);
        net.down();
    }
}

#[test]
fn connections_stay_where_they_are_when_a_port_goes_into_a_bridge() {
    let Some(mut net) = Net::new() else { return };
    if !net.has("iperf3") || !net.run(&net.r, "ip link add br0 type bridge").0 {
        return;
    }
    net.serve_iperf();
    net.ok(&net.r, "ip link add r2 type veth peer name d2; ip link set r2 up; ip link set d2 up");
    net.up("r0 r1 r2 --workers 2");
    net.nft(
        "table inet t {
           chain f {
             type filter hook forward priority filter; policy drop
             ct state established accept
             tcp dport 5201 ct state new accept
           }
           chain post { type nat hook postrouting priority srcnat; oif r1 masquerade; }
         }",
    );
    let client = net
        .command(&net.a, "iperf3 -c 198.18.1.2 -P 8 -t 4")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_secs(1));
    let has_some = "sum(w[\"connections\"] > 0 for w in s[\"workers\"])";
    assert_eq!(shown(&net, has_some), 2);
    net.ok(&net.r, "ip link set br0 up; ip link set r2 master br0");
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(shown(&net, has_some), 2);
    let output = client.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    net.ok(&net.r, "ip link del br0");
    net.ok(&net.a, "iperf3 -c 198.18.1.2 -P 4 -t 1");
}

#[test]
fn device_queues_are_distributed_over_workers() {
    let Some(mut net) = Net::new() else { return };
    let queues = "numtxqueues 2 numrxqueues 2";
    for (end, name, far, port, subnet) in
        [(&net.a, "a0", "0a", "r0", "0"), (&net.b, "b0", "0b", "r1", "1")]
    {
        let r = &net.r;
        crate::sh(&format!(
            "set -e
             ip -n {end} link del {name}
             ip -n {end} link add {name} address 02:00:00:00:{far}:00 {queues} type veth peer name {port} netns {r} address 02:00:00:00:00:{far} {queues}
             ip -n {end} addr add 198.18.{subnet}.2/24 dev {name}; ip -n {end} addr add 2001:db8:{subnet}::2/64 dev {name} nodad
             ip -n {r} addr add 198.18.{subnet}.1/24 dev {port}; ip -n {r} addr add 2001:db8:{subnet}::1/64 dev {port} nodad
             ip -n {end} link set {name} up; ip -n {r} link set {port} up
             ip -n {end} route add default via 198.18.{subnet}.1; ip -n {end} route add default via 2001:db8:{subnet}::1"
        ));
    }
    flows(&mut net);
    // As many as the queues and processors allow, two for two queues, and one more than there are
    // queues.
    for (workers, driver) in [("auto", "packet"), ("2", "xdp"), ("3", "xdp")] {
        net.up(&format!("r0 r1 --workers {workers} --driver {driver}"));
        let count = shown(&net, "len(s[\"workers\"])");
        match workers {
            "auto" => {
                assert_eq!(
                    count,
                    std::thread::available_parallelism().map_or(1, usize::from).min(2) as u64
                )
            }
            number => assert_eq!(count.to_string(), number),
        }
        net.nft(
            "table inet t {
               chain f { type filter hook forward priority filter; udp dport 7100 counter comment \"there\"; }
               chain post { type nat hook postrouting priority srcnat; oif r1 masquerade; }
             }",
        );
        for to in ["198.18.1.2", "2001:db8:1::2"] {
            net.ok(&net.a, &format!("python3 {PEERS} ask {to} {FLOWS} 600"));
        }
        assert_eq!(counted(&net, "there"), 6 * FLOWS as u64);
        let busy = "sum(w[\"connections\"] > 20 for w in s[\"workers\"])";
        assert_eq!(shown(&net, busy), count, "{driver}: {}", net.ok(&net.r, "$PENSTOCK show"));
        net.down();
    }
}

const STALL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/live/stall.py");

/// Holds the second worker still for so many seconds; it is when this returns.
fn stall(net: &Net, seconds: u32) -> crate::net::Reading {
    let (said, r) = (net.directory.join("stall"), net.r.clone());
    let line = format!("python3 {STALL} {} 'worker 1' {seconds}", net.pid());
    let stalled = net.spawn_in_file(&r, &line, &said);
    net.until("it is stalled", |_| {
        std::fs::read_to_string(&said).is_ok_and(|said| said == "stalled\n")
    });
    stalled
}

#[test]
fn a_ruleset_that_one_worker_misses_takes_effect_on_none() {
    let Some(mut net) = Net::new() else { return };
    flows(&mut net);
    net.up("r0 r1 --workers 2");
    net.nft("table inet t { chain f { type filter hook forward priority 0; udp dport 7100 counter comment \"there\"; }; }");
    let before = net.ok(&net.r, "$PENSTOCK nft list ruleset");
    let stalled = stall(&net, 7);
    let (ok, said) = net.run(&net.r, "$PENSTOCK nft add rule inet t f udp dport 7100 drop");
    assert!(!ok && said.contains("does not answer"), "{said}");
    stalled.wait();
    assert_eq!(net.ok(&net.r, "$PENSTOCK nft list ruleset"), before);
    net.ok(&net.a, &format!("python3 {PEERS} ask 198.18.1.2 {FLOWS} 100"));
    assert_eq!(counted(&net, "there"), 3 * FLOWS as u64);
    // From here on all continues as if nothing had been.
    net.ok(&net.r, "$PENSTOCK nft add rule inet t f udp dport 7100 counter accept");
    net.ok(&net.a, &format!("python3 {PEERS} ask 198.18.1.2 {FLOWS} 100"));
}

/// Sends much on many flows without waiting, so many times, and prints how many of them were
/// answered.
const BLAST: &str = "python3 -c 'import socket, time
all = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(64)]
for s in all: s.connect((\"198.18.1.2\", 7100)); s.setblocking(False)
def tried(do, *args):
  try: return bool(do(*args))
  except OSError: return False
for n in range(TIMES):
  for s in all: tried(s.send, b\"x\" * 1000)
  time.sleep(0.005)
time.sleep(0.5); print(sum(tried(s.recv, 2000) for s in all))'";

#[test]
fn a_stalled_worker_blocks_no_other_and_down_works_under_load() {
    let Some(mut net) = Net::new() else { return };
    flows(&mut net);
    // One queue: the first worker receives all, and hands over what is the other's.
    net.up("r0 r1 --workers 2 --driver xdp");
    net.nft(
        "table inet t { chain f { type filter hook forward priority 0; ct state new,established accept; }; }",
    );
    // The host's own packets wait for the worker whose TAP queue the kernel picks for them, so
    // neighbours are found out first.
    net.until("neighbours are known", |net| {
        net.run(&net.a, &format!("python3 {PEERS} ask 198.18.1.2 1 100")).0
    });
    let stalled = stall(&net, 6);
    let answered: usize = net.ok(&net.a, &BLAST.replace("TIMES", "100")).trim().parse().unwrap();
    assert!((10..=54).contains(&answered), "{answered}");
    stalled.wait();
    net.until("what found no room is counted", |net| {
        shown(net, "s[\"drops\"].get(\"worker busy\", 0)") > 100
    });
    net.until("all goes on", |net| {
        net.run(&net.a, &format!("python3 {PEERS} ask 198.18.1.2 {FLOWS} 100")).0
    });
    // The end does not wait for traffic to pause, nor does it need all workers to be quick.
    for seconds in [0, 3] {
        let a = net.a.clone();
        let load = net.spawn_reading(&a, &BLAST.replace("TIMES", "2000"));
        std::thread::sleep(Duration::from_millis(500));
        let stalled = (seconds > 0).then(|| stall(&net, seconds));
        let begun = std::time::Instant::now();
        net.down();
        assert!(begun.elapsed() < Duration::from_secs(20));
        stalled.map(|stalled| stalled.wait());
        net.until("the kernel forwards", |net| net.run(&net.a, "ping -c 1 -W 1 198.18.1.2").0);
        load.stop();
        if seconds == 0 {
            net.up("r0 r1 --workers 2");
        }
    }
}
