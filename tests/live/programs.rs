// SPDX-License-Identifier: Apache-2.0

//! What ordinary programs do over the router, and with it.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use crate::net::{Net, sh};

#[test]
fn iperf3_runs_both_ways_over_both_families() {
    let Some(mut net) = Net::new() else { return };
    if !net.has("iperf3") {
        return;
    }
    net.serve_iperf();
    for driver in ["packet", "xdp"] {
        net.up(&format!("r0 r1 --driver {driver}"));
        for how in ["-P 2", "-R"] {
            for to in ["198.18.1.2", "2001:db8:1::2"] {
                // The server may still be busy with the one before.
                net.until("iperf3 runs", |net| {
                    net.run(&net.a, &format!("iperf3 -c {to} -t 1 {how}")).0
                });
            }
        }
        for to in ["198.18.1.2", "2001:db8:1::2"] {
            std::thread::sleep(Duration::from_millis(200));
            let said = net.ok(&net.a, &format!("iperf3 -J -c {to} -t 1 -u -b 40M -l 1200"));
            let number = |name: &str| -> f64 {
                let sum = said.split("\"sum\":").nth(1).unwrap_or_default();
                let text = sum.split(&format!("\"{name}\":")).nth(1).unwrap_or_default();
                text.split([',', '\n', '}'])
                    .next()
                    .unwrap_or_default()
                    .trim()
                    .parse()
                    .unwrap_or(-1.0)
            };
            // A machine that does something else meanwhile may lose some.
            assert!(
                number("lost_packets") >= 0.0 && number("lost_packets") < number("packets") / 2.0,
                "{said}"
            );
        }
        net.down();
    }
}

#[test]
fn names_are_looked_up_over_udp_and_tcp() {
    let Some(mut net) = Net::new() else { return };
    if !net.has("dnsmasq") || !net.has("dig") {
        return;
    }
    // An answer that only fragments carry.
    let long: String =
        (0..12).map(|i| format!(" --txt-record=long.test,{}", i.to_string().repeat(200))).collect();
    let serve = format!(
        "dnsmasq -k -C /dev/null --no-resolv --no-hosts --bind-interfaces --interface=b0 --pid-file= --user=root \
         --edns-packet-max=4096 --address=/short.test/198.18.9.9{long}"
    );
    net.spawn_in('b', &serve);
    for driver in ["packet", "xdp"] {
        net.up(&format!("r0 r1 --driver {driver}"));
        for server in ["198.18.1.2", "2001:db8:1::2"] {
            for how in ["", "+tcp"] {
                let ask = format!("dig +short +tries=3 +time=2 {how} @{server} short.test");
                net.until("names are answered", |net| {
                    net.run(&net.a, &ask).1.trim() == "198.18.9.9"
                });
            }
            let long = format!(
                "dig +ignore +notcp +bufsize=4096 +tries=3 +time=2 @{server} long.test TXT"
            );
            let said = net.ok(&net.a, &long);
            assert!(said.contains("ANSWER: 12,"), "{driver}, {server}: {said}");
        }
        net.down();
    }
}

#[test]
fn traceroute_and_ping_show_the_way() {
    let Some(mut net) = Net::new() else { return };
    net.up("r0 r1");
    for (to, how) in [("198.18.1.2", ""), ("2001:db8:1::2", "-6")] {
        if !net.has("traceroute") {
            break;
        }
        let (first, last) = if how.is_empty() { ("198.18.0.1", to) } else { ("2001:db8::1", to) };
        for by in ["", "-I", "-T -p 81"] {
            // Beside other tests a run of it may miss all answers to TCP.
            net.until("the way is shown", |net| {
                let line = format!("traceroute {how} -n -q 1 -N 1 -w 2 -m 3 {by} {to}");
                let said = net.ok(&net.a, &line);
                let hops = said.lines().skip(1).filter_map(|l| l.split_whitespace().nth(1));
                hops.eq([first, last])
            });
        }
    }
    // The way there and back, as an option of IPv4 records it.
    let said = net.ok(&net.a, "ping -c 1 -W 2 -R 198.18.1.2");
    for way in ["198.18.1.1", "198.18.1.2", "198.18.0.1"] {
        assert!(said.contains(way), "{said}");
    }
    net.ok(&net.a, "ping -c 1 -W 2 -R 198.18.0.1");
    net.ok(&net.a, "ping -c 1 -W 2 -s 20000 198.18.1.2");
    net.ok(&net.a, "ping -c 1 -W 2 -s 20000 2001:db8:1::2");
}

#[test]
fn ssh_works_through_the_router_and_to_it() {
    let Some(mut net) = Net::new() else { return };
    if !net.has("sshd") || !net.has("ssh-keygen") {
        return;
    }
    let directory = net.directory.display().to_string();
    std::fs::set_permissions(&net.directory, PermissionsExt::from_mode(0o700)).unwrap();
    sh(&format!(
        "cd {directory}; ssh-keygen -q -t ed25519 -N '' -f host; ssh-keygen -q -t ed25519 -N '' -f user
         cp user.pub authorized; chmod 600 authorized; mkdir -p /run/sshd"
    ));
    let serve = format!(
        "$(command -v sshd) -D -e -f /dev/null -h {directory}/host -o AuthorizedKeysFile={directory}/authorized \
         -o StrictModes=no -o PidFile=none -o UsePAM=no -o PermitRootLogin=yes"
    );
    net.spawn_in('b', &serve);
    net.spawn_in('r', &serve);
    net.up("r0 r1");
    let user = sh("id -un").trim().to_owned();
    let ssh = format!(
        "ssh -i {directory}/user -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null \
         -o LogLevel=ERROR -o ConnectTimeout=5 {user}@"
    );
    let here = sh("head -c 3000000 /dev/zero | sha256sum");
    for to in ["198.18.1.2", "2001:db8:1::2", "198.18.0.1", "2001:db8::1"] {
        let there = format!("{ssh}{to} 'head -c 3000000 /dev/zero | sha256sum'");
        net.until("sshd answers", |net| net.run(&net.a, &there) == (true, here.clone()));
    }
    // A session continues while the ruleset it came over is another.
    net.nft("table inet t { chain f { type filter hook forward priority 0; ct state established,related accept; tcp dport 22 accept; drop; }; }");
    let a = net.a.clone();
    let session = net
        .spawn_reading(&a, &format!("{ssh}198.18.1.2 'sleep 1; echo begun; sleep 1; echo ended'"));
    std::thread::sleep(Duration::from_millis(700));
    net.nft("flush ruleset; table inet t { chain f { type filter hook forward priority 0; ct state established,related accept; drop; }; }");
    assert_eq!(session.wait(), "begun\nended\n");
    assert!(!net.run(&net.a, &format!("{ssh}198.18.1.2 true")).0);
}

/// A script that udhcpc runs: it sets the address that it got.
const LEASE: &str = "#!/bin/sh
case $1 in bound|renew) ip addr replace $ip/${mask:-24} dev $interface;; esac
";

/// What a DHCP server is started with.
const DHCP: &str =
    "dnsmasq -k -C /dev/null --port=0 --bind-interfaces --pid-file= --user=root --no-ping";

#[test]
fn dhcp_gives_leases_at_the_router_and_through_it() {
    let Some(mut net) = Net::new() else { return };
    if !net.has("dnsmasq") || !net.has("udhcpc") {
        return;
    }
    let script = net.directory.join("lease");
    std::fs::write(&script, LEASE).unwrap();
    std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
    let directory = net.directory.display().to_string();
    let client =
        |device: &str| format!("udhcpc -f -q -n -t 5 -T 1 -i {device} -s {}", script.display());
    for driver in ["packet", "xdp"] {
        net.up(&format!("r0 r1 --driver {driver}"));
        // A server on the router; what the host sends passes output, what it receives input.
        net.nft(
            "table inet t {
               chain i { type filter hook input priority 0; udp dport 67 counter comment \"in\"; }
               chain o { type filter hook output priority 0; udp dport { 67, 68 } counter comment \"out\"; }
             }
             table netdev e {
               chain c { type filter hook egress device r1 priority 0; udp dport 67 counter comment \"raw\"; }
             }",
        );
        let r = net.r.clone();
        let lease = format!("--dhcp-leasefile={directory}/leases-r-{driver}");
        let server = net.spawn_reading(
            &r,
            &format!("{DHCP} --interface=r0 --dhcp-range=198.18.0.100,198.18.0.110,600 {lease}"),
        );
        net.until("a lease from the router", |net| net.run(&net.a, &client("a0")).0);
        let addresses = net.ok(&net.a, "ip -4 addr show dev a0");
        assert!(
            addresses.contains("198.18.0.10") || addresses.contains("198.18.0.11"),
            "{addresses}"
        );
        server.stop();
        let rules = net.ok(&net.r, "$PENSTOCK nft list ruleset");
        assert!(!rules.contains("packets 0 bytes 0 comment \"in\""), "{driver}: {rules}");
        assert!(rules.contains("packets 0 bytes 0 comment \"raw\""), "{driver}: {rules}");
        // The router as the client of a server on B: its frames are raw, only egress sees them.
        let b = net.b.clone();
        let lease = format!("--dhcp-leasefile={directory}/leases-b-{driver}");
        let server = net.spawn_reading(
            &b,
            &format!("{DHCP} --interface=b0 --dhcp-range=198.18.1.100,198.18.1.110,600 {lease}"),
        );
        net.ok(&net.r, "$PENSTOCK nft reset rules > /dev/null");
        net.until("a lease for the router", |net| net.run(&net.r, &client("r1")).0);
        let addresses = net.ok(&net.r, "ip -4 addr show dev r1");
        assert!(
            addresses.contains("198.18.1.10") || addresses.contains("198.18.1.11"),
            "{addresses}"
        );
        let rules = net.ok(&net.r, "$PENSTOCK nft list ruleset");
        assert!(!rules.contains("packets 0 bytes 0 comment \"raw\""), "{driver}: {rules}");
        assert!(rules.contains("packets 0 bytes 0 comment \"out\""), "{driver}: {rules}");
        server.stop();
        // A server on B for A, by a relay on the router.
        let lease = format!("--dhcp-leasefile={directory}/leases-relay-{driver}");
        let server = net.spawn_reading(
            &b,
            &format!(
                "{DHCP} --interface=b0 --dhcp-range=198.18.0.120,198.18.0.129,255.255.255.0,600 {lease}"
            ),
        );
        let relay = net.spawn_reading(
            &r,
            &format!("{DHCP} --interface=r0 --interface=r1 --dhcp-relay=198.18.0.1,198.18.1.2"),
        );
        net.until("a lease by a relay", |net| net.run(&net.a, &client("a0")).0);
        let addresses = net.ok(&net.a, "ip -4 addr show dev a0");
        assert!(addresses.contains("198.18.0.12"), "{driver}: {addresses}");
        for program in [server, relay] {
            program.stop();
        }
        net.ok(&net.a, "ip -4 addr flush dev a0; ip addr add 198.18.0.2/24 dev a0; ip route replace default via 198.18.0.1");
        net.down();
    }
}
