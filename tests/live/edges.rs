// SPDX-License-Identifier: Apache-2.0

//! What is not the way of most packets: frames with tags, rejections, resets and devices down in
//! the middle of flows, log lines.

use std::time::Duration;

use crate::net::Net;

/// Connects, and says how that ends.
fn connect(to: &str, port: u16) -> String {
    format!(
        "python3 -c 'import socket
s = socket.socket(socket.AF_INET6 if \":\" in \"{to}\" else socket.AF_INET); s.settimeout(3)
try: s.connect((\"{to}\", {port})); print(\"connected\")
except OSError as e: print(type(e).__name__, e.errno)'"
    )
}

#[test]
fn rejected_clients_are_answered_at_once() {
    let Some(mut net) = Net::new() else { return };
    net.spawn_in('b', "python3 -m http.server --bind :: 80");
    net.until("the server is there", |net| {
        net.run(&net.a, &connect("198.18.1.2", 80)).1 == "connected\n"
    });
    for driver in ["packet", "xdp"] {
        net.up(&format!("r0 r1 --driver {driver}"));
        net.nft(
            "table inet t {
               chain f { type filter hook forward priority 0
                 tcp dport 80 reject with tcp reset
                 tcp dport 81 reject
                 tcp dport 82 reject with icmpx admin-prohibited
               }
               chain i { type filter hook input priority 0; tcp dport 80 reject with tcp reset; }
             }",
        );
        for to in ["198.18.1.2", "2001:db8:1::2", "198.18.0.1", "2001:db8::1"] {
            assert_eq!(
                net.ok(&net.a, &connect(to, 80)),
                "ConnectionRefusedError 111\n",
                "{driver} {to}"
            );
        }
        for (to, port, error) in [
            ("198.18.1.2", 81, "ConnectionRefusedError 111\n"),
            ("2001:db8:1::2", 81, "ConnectionRefusedError 111\n"),
            ("198.18.1.2", 82, "OSError 113\n"),
            ("2001:db8:1::2", 82, "PermissionError 13\n"),
        ] {
            assert_eq!(net.ok(&net.a, &connect(to, port)), error, "{driver} {to} {port}");
        }
        net.down();
    }
}

#[test]
fn rules_log_to_standard_error_as_the_kernel_does() {
    let Some(mut net) = Net::new() else { return };
    net.up("r0 r1");
    net.nft(
        "table inet t { chain f { type filter hook forward priority 0
           icmp type echo-request log prefix \"ping \" level warn
           icmpv6 type echo-request log prefix \"six: \" flags all
         }; }",
    );
    net.ok(&net.a, "ping -c 2 -i 0.1 -W 2 -s 30 198.18.1.2; ping -c 1 -W 2 2001:db8:1::2");
    let line = "ping IN=r0 OUT=r1 MAC=02:00:00:00:00:0a:02:00:00:00:0a:00:08:00 SRC=198.18.0.2 DST=198.18.1.2 LEN=58 ";
    net.until("the lines are there", |net| net.log().matches(line).count() == 2);
    net.until("the other line is there", |net| net.log().contains("six: "));
    let log = net.log();
    let six = log.lines().find(|l| l.contains("six: ")).unwrap_or_else(|| panic!("{log}"));
    assert!(
        six.contains("PROTO=ICMPv6 TYPE=128") && six.contains("MACSRC=02:00:00:00:0a:00"),
        "{six}"
    );
}

#[test]
fn frames_with_tags_pass_a_bridge_with_them() {
    let Some(mut net) = Net::new() else { return };
    if !net.has("tcpdump") || !net.bridge() {
        return;
    }
    let script = format!("python3 {}/../../tests/live/tagged.py", env!("CARGO_MANIFEST_DIR"));
    for driver in ["packet", "xdp", "xdp-generic"] {
        // AF_XDP sees tags only where they are in the frame.
        if driver != "packet" && net.has("ethtool") {
            net.run(&net.a, "ethtool -K a0 txvlan off; ethtool -K a0 tx-vlan-stag-hw-insert off");
            net.run(&net.r, "ethtool -K r0 rxvlan off; ethtool -K r0 rx-vlan-stag-hw-parse off");
        }
        net.up(&format!("r0 r1 --driver {driver}"));
        net.nft(
            "table netdev n { chain i { type filter hook ingress device r0 priority 0
               vlan id 7 udp dport 9 counter comment \"ingress\"
               vlan id 8 drop
             }; }
             table bridge b { chain f { type filter hook forward priority 0
               vlan id 7 vlan pcp 5 counter comment \"forward\"
               ether type 8021ad counter comment \"provider\"
             }; }",
        );
        let seen = net.directory.join("seen");
        let watch = "exec tcpdump -l -n -e --immediate-mode -i b0 'ether src 02:00:00:00:0a:00 and (vlan or ether proto 0x88a8)'";
        let b = net.b.clone();
        let watch = net.spawn_in_file(&b, watch, &seen);
        std::thread::sleep(Duration::from_secs(1));
        for tags in ["0x8100:0xa007", "0x8100:0x0008", "0x8100:9", "0x88a8:5 0x8100:6"] {
            net.ok(&net.a, &format!("{script} a0 02:00:00:00:0b:00 2 {tags}"));
        }
        let text = || std::fs::read_to_string(&seen).unwrap_or_default();
        net.until("all frames are there", |_| text().lines().count() == 6);
        let text = text();
        for (what, times) in [
            ("vlan 7, p 5", 2),
            ("vlan 9, p 0", 2),
            ("vlan 5, p 0", 2),
            ("vlan 6, p 0", 2),
            ("vlan 8", 0),
        ] {
            assert_eq!(text.matches(what).count(), times, "{driver} {what}: {text}");
        }
        let rules = net.ok(&net.r, "$PENSTOCK nft list ruleset");
        for what in ["ingress", "forward", "provider"] {
            let line = rules.lines().find(|l| l.contains(&format!("\"{what}\""))).unwrap();
            assert!(line.contains("packets 2 "), "{driver}: {line}");
        }
        drop(watch.stop());
        net.down();
    }
}

/// Flows on devices, and rules that say when they are not.
const OFFLOAD: &str = "
    table inet t {
      flowtable f { hook ingress priority 0; devices = { r0, r1 }; flags offload; counter; }
      chain f { type filter hook forward priority 0; meta l4proto tcp flow add @f; }
      chain p { type nat hook postrouting priority srcnat; oif r1 masquerade; }
    }";

/// The line of the connection to a port of B that has the most bytes.
fn connection(net: &Net, port: u16) -> String {
    let all = net.ok(&net.r, "$PENSTOCK show conntrack");
    let mut lines = all.lines().filter(|l| l.contains(&format!("dport={port} ")));
    lines.next().unwrap_or_default().to_owned()
}

#[test]
fn a_device_that_goes_down_keeps_its_flows() {
    let Some(mut net) = Net::new() else { return };
    if !net.has("ethtool") || !net.has("iperf3") {
        return;
    }
    net.serve_iperf();
    for driver in ["packet", "xdp"] {
        if driver == "xdp" {
            net.ok(&net.a, "ethtool -K a0 gro on tx off");
            net.ok(&net.b, "ethtool -K b0 gro on tx off");
        }
        net.up(&format!("r0 r1 --driver {driver}"));
        net.nft(OFFLOAD);
        let run = net.spawn_reading(&net.a, "iperf3 -c 198.18.1.2 -t 6 -J");
        let offloaded = |net: &Net| connection(net, 5201).contains("[HW_OFFLOAD]");
        net.until("the device has the flow", offloaded);
        net.ok(&net.r, "ip link set r1 down");
        net.until("the device is down", |net| {
            net.run(&net.r, "ip -o link show r1.port | grep -q 'state DOWN'").0
        });
        std::thread::sleep(Duration::from_millis(300));
        net.ok(&net.r, "ip link set r1 up");
        let said: serde_json::Value = serde_json::from_str(&run.wait()).unwrap();
        assert!(said["error"].is_null(), "{driver}: {}", said["error"]);
        let last =
            said["intervals"].as_array().unwrap().last().unwrap()["sum"]["bytes"].as_u64().unwrap();
        assert!(last > 1_000_000, "{driver}: {last}");
        net.down();
    }
}

/// Sends until the flow is on the device, and resets the connection, or ends it.
const TALK: &str = "python3 -c 'import socket, struct, sys, time
s = socket.create_connection((\"198.18.1.2\", 81))
for _ in range(20): s.send(b\"x\" * 500); s.recv(99999); time.sleep(0.05)
print(\"ready\", flush=True); sys.stdin.readline()
if \"HOW\" == \"reset\": s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack(\"ii\", 1, 0))
s.close()'";

/// Echoes received data, and prints how each connection ends.
const ECHO: &str = "python3 -c 'import socket
l = socket.create_server((\"\", 81))
while True:
  c, _ = l.accept()
  try:
    while d := c.recv(9999): c.send(d)
    print(\"end\", flush=True)
  except ConnectionResetError: print(\"reset\", flush=True)
  c.close()'";

#[test]
fn flows_on_devices_end_with_their_connections() {
    let Some(mut net) = Net::new() else { return };
    if !net.has("ethtool") {
        return;
    }
    let ends = net.directory.join("ends");
    let b = net.b.clone();
    let echo = net.spawn_in_file(&b, ECHO, &ends);
    net.until("the server is there", |net| net.run(&b, "ss -ltn | grep -q :81").0);
    for driver in ["packet", "xdp"] {
        if driver == "xdp" {
            net.ok(&net.a, "ethtool -K a0 gro on tx off");
            net.ok(&net.b, "ethtool -K b0 gro on tx off");
        }
        net.up(&format!(
            "r0 r1 --driver {driver} --sysctl net.netfilter.nf_flowtable_tcp_timeout=3"
        ));
        net.nft(OFFLOAD);
        for (how, end) in [("reset", "reset\n"), ("fin", "end\n")] {
            std::fs::write(&ends, "").unwrap();
            let line = format!("exec {}", TALK.replace("HOW", how));
            let mut talk = net.command(&net.a, &line);
            let mut talk = talk
                .stdin(std::process::Stdio::piped())
                .stdout(std::process::Stdio::null())
                .spawn()
                .unwrap();
            let own = |net: &Net| {
                let all = net.ok(&net.r, "$PENSTOCK show conntrack");
                all.lines()
                    .filter(|l| l.contains("dport=81 "))
                    .map(str::to_owned)
                    .collect::<Vec<_>>()
            };
            net.until("the device has the flow", |net| {
                own(net).iter().any(|l| l.contains("[HW_OFFLOAD]"))
            });
            std::thread::sleep(Duration::from_secs(1));
            std::io::Write::write_all(talk.stdin.as_mut().unwrap(), b"\n").unwrap();
            assert!(talk.wait().unwrap().success());
            net.until("the other end has heard of it", |_| {
                std::fs::read_to_string(&ends).unwrap().contains(end)
            });
            net.until("the flow has left the device", |net| {
                own(net).iter().all(|l| !l.contains("HW_OFFLOAD"))
            });
            // Software keeps it until it is silent for the timeout of flows, as the kernel does.
            net.until("the connection is closed", |net| {
                let lines = own(net);
                lines.iter().all(|l| !l.contains("OFFLOAD") && !l.contains("ESTABLISHED"))
            });
        }
        net.down();
    }
    drop(echo.stop());
}
