// SPDX-License-Identifier: Apache-2.0

//! What must not do harm: processes that are killed, devices that go, floods of changes.

use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::net::{Net, setting};

/// Counts on B what is sent to a port of UDP that no rule lets pass; says how much it was at the
/// end.
const NOTHING: &str = "timeout SECONDS python3 -c 'import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind((\"\", 9)); n = 0
print(\"ready\", flush=True)
while True: s.recv(99); print(\"passed\", flush=True)'";

/// Sends to that port until it is stopped.
const FORBIDDEN: &str = "python3 -c 'import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
while True:
  s.sendto(b\"x\", (\"198.18.1.2\", 9)); time.sleep(0.0005)'";

#[test]
fn reloads_break_no_connection_and_let_nothing_pass() {
    let Some(mut net) = Net::new() else { return };
    if !net.has("iperf3") {
        return;
    }
    let seconds = setting("PENSTOCK_LIVE_SECONDS", 5);
    net.up("r0 r1");
    // Neither lets UDP to port 9 pass, for different reasons.
    let rules = [
        "flush ruleset
         table inet t {
           chain f {
             type filter hook forward priority 0; policy drop
             ct state established,related counter accept
             tcp dport 5201 counter accept
             meta l4proto { icmp, ipv6-icmp } accept
           }
         }",
        "flush ruleset
         table inet u {
           set no { type inet_service; elements = { 9 }; }
           chain f {
             type filter hook forward priority 0; policy accept
             udp dport @no counter drop
             ct state invalid drop
           }
         }",
    ];
    net.nft(rules[0]);
    net.serve_iperf();
    let (a, b) = (net.a.clone(), net.b.clone());
    let listener = net.spawn_reading(&b, &NOTHING.replace("SECONDS", &(seconds + 2).to_string()));
    let flood = net.spawn_reading(&a, FORBIDDEN);
    let line = format!("iperf3 -J -c 198.18.1.2 -t {seconds} -P 2");
    let mut client = net.command(&net.a, &line).stdout(Stdio::piped()).spawn().unwrap();
    let begun = Instant::now();
    let (mut reloads, mut warm) = (0, 0);
    while begun.elapsed() < Duration::from_secs(seconds) {
        net.nft(rules[reloads % 2]);
        reloads += 1;
        if reloads == 10 {
            warm = net.memory();
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let after = net.memory();
    let mut said = String::new();
    std::io::Read::read_to_string(client.stdout.as_mut().unwrap(), &mut said).unwrap();
    assert!(client.wait().unwrap().success(), "{said}");
    flood.stop();
    assert_eq!(listener.wait(), "ready\n", "what neither ruleset lets pass");
    assert!(reloads > 5, "{reloads}");
    // Leftovers of reloads would add up.
    assert!(
        reloads < 10 || after < warm + (32 << 20),
        "{warm} bytes, after {reloads} reloads {after}"
    );
}

#[test]
fn a_new_dataplane_starts_at_once_after_a_kill() {
    let Some(mut net) = Net::new() else { return };
    for driver in ["packet", "xdp", "xdp-generic", "packet"] {
        for _ in 0..3 {
            net.up(&format!("r0 r1 --driver {driver}"));
            net.ok(&net.a, "ping -c 1 -W 2 198.18.1.2");
            net.kill();
        }
        // `penstock down` waits for the devices, too.
        net.run(&net.r, "$PENSTOCK down");
        let names = net.ok(&net.r, "ip -o link");
        assert!(names.contains("r0@") && !names.contains(".port"), "{names}");
    }
}

#[test]
fn nothing_passes_before_the_ruleset_is_loaded() {
    let Some(mut net) = Net::new() else { return };
    // The kernel forwards nothing, so whatever passes is ours.
    net.ok(&net.r, "sysctl -qw net.ipv4.ip_forward=0");
    let many: String = (0..20_000)
        .map(|n| format!("ip saddr 198.19.{}.{} counter accept;", n >> 8, n & 255))
        .collect();
    let rules = net.directory.join("slow.nft");
    let text = format!(
        "table ip t {{ chain f {{ type filter hook forward priority 0; policy drop; {many} }}; }}"
    );
    std::fs::write(&rules, text).unwrap();
    let (a, b) = (net.a.clone(), net.b.clone());
    // Neighbours are known, so that nothing waits for them.
    net.ok(&net.r, "ip neigh replace 198.18.1.2 lladdr 02:00:00:00:0b:00 dev r1 nud permanent");
    let listener = net.spawn_reading(&b, &NOTHING.replace("SECONDS", "8"));
    let flood = net.spawn_reading(&a, FORBIDDEN);
    net.up(&format!("r0 r1 --rules {}", rules.display()));
    let dropped = |net: &Net| !net.ok(&net.r, "$PENSTOCK show").contains("dropped 0");
    net.until("the rules drop", dropped);
    flood.stop();
    assert_eq!(listener.wait(), "ready\n", "what the ruleset does not let pass");
}

#[test]
fn connections_continue_in_the_kernel_after_a_kill_under_load() {
    let Some(mut net) = Net::new() else { return };
    if !net.has("iperf3") {
        return;
    }
    net.serve_iperf();
    for driver in ["packet", "xdp"] {
        net.up(&format!("r0 r1 --driver {driver}"));
        let a = net.a.clone();
        let mut client =
            net.command(&a, "iperf3 -c 198.18.1.2 -t 4").stdout(Stdio::piped()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(1500));
        net.kill();
        let status = client.wait().unwrap();
        assert!(status.success(), "{driver}: {status}");
        net.until("the device is back", |net| {
            net.run(&net.r, "ip -o link show r1.port").1.contains("does not exist")
        });
        net.ok(&net.a, "ping -c 1 -W 2 198.18.1.2");
    }
}

#[test]
fn ten_thousand_route_changes_do_no_harm() {
    let Some(mut net) = Net::new() else { return };
    net.up("r0 r1");
    net.ok(&net.b, "ip addr add 198.19.39.249/32 dev lo");
    // Each round adds ten thousand routes and takes them away again.
    let batch = net.directory.join("routes");
    let route = |what: &str, i: u32| {
        format!("route {what} 198.19.{}.{}/32 via 198.18.1.2\n", i / 250, i % 250)
    };
    let all = |what: &str| (0..10_000).map(|i| route(what, i)).collect::<String>();
    let rounds = 3;
    let mut text = String::new();
    for _ in 0..rounds {
        text += &all("add");
        text += &all("del");
    }
    text += &all("add");
    std::fs::write(&batch, text).unwrap();
    let a = net.a.clone();
    net.ok(&a, "ping -c 1 -W 2 198.18.1.2");
    let ping = net.spawn_reading(&a, "ping -i 0.02 -c 150 -W 2 198.18.1.2");
    net.ok(&net.r, &format!("ip -batch {}", batch.display()));
    let there = |net: &Net| net.run(&net.a, "ping -c 1 -W 1 198.19.39.249").0;
    net.until("all routes count", there);
    let said = ping.wait();
    let received =
        said.split(" received").next().and_then(|s| s.rsplit(' ').next()).unwrap_or_default();
    assert!(received.parse::<u32>().is_ok_and(|n| n >= 140), "{said}");
    let before = net.memory();
    for what in ["del", "add", "del", "add"] {
        std::fs::write(&batch, all(what)).unwrap();
        net.ok(&net.r, &format!("ip -batch {}", batch.display()));
    }
    net.until("all routes count again", there);
    let after = net.memory();
    assert!(after < before + (64 << 20), "{before} bytes, then {after}");
    net.ok(&net.r, "ip route del 198.19.39.249/32");
    net.until("the last change counts", |net| !there(net));
}

#[test]
fn lost_netlink_notifications_cause_a_resync() {
    let Some(mut net) = Net::new() else { return };
    net.up("r0 r1 --hang-time 60");
    net.ok(&net.b, "ip addr add 198.19.200.1/32 dev lo");
    let (pid, batch) = (net.pid(), net.directory.join("routes"));
    // Without a reader, more notifications come than the queue holds: 32 MiB.
    let routes: String = (0..60_000u32)
        .map(|i| std::net::Ipv4Addr::from(0xc612_0800 + i))
        .map(|to| format!("route add {to}/32 via 198.18.1.2\n"))
        .collect();
    std::fs::write(&batch, routes + "route add 198.19.200.1/32 via 198.18.1.2\n").unwrap();
    net.ok(&net.r, &format!("kill -STOP {pid}; ip -batch {}; kill -CONT {pid}", batch.display()));
    let there = |net: &Net| net.run(&net.a, "ping -c 1 -W 1 198.19.200.1").0;
    net.until_within(30, "the last route counts", there);
    assert!(net.log().contains("notifications were lost"), "{}", net.log());
    net.ok(&net.r, "ip route del 198.19.200.1/32");
    net.until("changes are told again", |net| !there(net));
}

#[test]
fn recreated_devices_work_again() {
    let Some(mut net) = Net::new() else { return };
    for driver in ["packet", "xdp"] {
        net.up(&format!("r0 r1 --driver {driver}"));
        // By the name that it had as a port, and by its address.
        for name in ["r1.port", "other"] {
            net.ok(&net.b, "ip link del b0");
            net.until("the device is gone", |net| {
                net.log().contains("r1.port: the device is gone")
            });
            net.ok(&net.a, "ping -c 1 -W 2 198.18.0.1");
            assert!(!net.run(&net.a, "ping -c 1 -W 1 198.18.1.2").0);
            net.ok(
                &net.b,
                &format!(
                    "set -e
                     ip link add b0 type veth peer name {name} netns {} address 02:00:00:00:00:0b
                     ip addr add 198.18.1.2/24 dev b0; ip addr add 2001:db8:1::2/64 dev b0 nodad; ip link set b0 up
                     ip route add default via 198.18.1.1; ip route add default via 2001:db8:1::1",
                    net.r
                ),
            );
            for to in ["198.18.1.2", "2001:db8:1::2"] {
                net.until(name, |net| net.run(&net.a, &format!("ping -c 1 -W 1 {to}")).0);
            }
        }
        assert_eq!(net.log().matches("r1.port is back").count(), 2, "{}", net.log());
        // However it ends, the new device is returned.
        if driver == "packet" {
            net.down();
        } else {
            net.kill();
        }
        net.until("the kernel has it", |net| net.run(&net.a, "ping -c 1 -W 1 198.18.1.2").0);
        assert!(!net.ok(&net.r, "ip -o link").contains(".port"));
    }
}

#[test]
fn a_restart_binds_the_metrics_address_at_once() {
    let Some(mut net) = Net::new() else { return };
    for _ in 0..5 {
        net.up("r0 r1 --metrics 127.0.0.1:9900");
        net.kill();
    }
    net.up("r0 r1 --metrics 127.0.0.1:9900");
    net.ok(&net.r, "curl -sS --max-time 10 -o /dev/null http://127.0.0.1:9900/metrics");
}

#[test]
fn an_unread_log_stops_nothing() {
    // A full disk, and a pipe with a reader that ends after the first line of the dataplane.
    for log in ["exec 2> /dev/full", "mkfifo $PIPE; head -c 1 < $PIPE > /dev/null & exec 2> $PIPE"]
    {
        let Some(mut net) = Net::new() else { return };
        let pipe = net.directory.join("pipe");
        net.up_after(&log.replace("$PIPE", &pipe.display().to_string()), "r0 r1");
        net.nft(
            "table ip t { chain f { type filter hook forward priority 0; log prefix \"word\"; }; }",
        );
        assert!(
            !net.run(&net.r, "$PENSTOCK nft --confirm 1s add table ip unconfirmed < /dev/null").0
        );
        net.until("it is taken back", |net| {
            !net.ok(&net.r, "$PENSTOCK nft list tables").contains("unconfirmed")
        });
        net.ok(&net.a, "ping -c 3 -i 0.1 -W 1 198.18.1.2");
        assert!(net.run(&net.r, "$PENSTOCK show").0, "it goes on: {log}");
        net.down();
    }
}
