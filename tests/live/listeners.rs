// SPDX-License-Identifier: Apache-2.0

//! Programs of the host that listen on the TAP of a port see what passes the port, as they saw it
//! on the device before; the kernel says what that is.

use crate::net::Net;

const RULES: &str = "table inet t {
    chain f { type filter hook forward priority 0; udp dport 9999 drop; udp dport 9998 reject; }
    chain i { type filter hook input priority 0; udp dport 9999 drop; }
    chain post { type nat hook postrouting priority srcnat; ip daddr 198.18.1.2 udp dport 7 masquerade; }
  }";

/// Marks the frames that are compared.
const ONES: &str = "icmp or udp";

/// Devices of R and directions, a listener each.
const PLACES: [(&str, &str); 4] = [("r0", "in"), ("r0", "out"), ("r1", "in"), ("r1", "out")];

/// What tcpdump prints of the traffic at each place.
fn seen(net: &Net, options: &str) -> Vec<(String, Vec<String>)> {
    let listen = |(device, direction): &(&str, &str)| {
        let line = format!("tcpdump -tnv -l {options} -i {device} -Q {direction} {ONES}");
        let file = net.directory.join(format!("{device}-{direction}"));
        (net.spawn_in_file(&net.r, &line, &file), file)
    };
    let listeners: Vec<_> = PLACES.iter().map(listen).collect();
    let text = |file: &std::path::Path| std::fs::read_to_string(file).unwrap();
    net.until("all listen", |net| {
        net.run(&net.a, "ping -c 1 -W 1 -s 11 198.18.1.2");
        listeners.iter().all(|(_, file)| text(file).contains("length 19"))
    });
    for (from, line) in [
        (&net.a, "ping -c 2 -i 0.1 -s 100 198.18.1.2"),
        (&net.a, "ping -c 2 -i 0.1 -s 101 198.18.0.1"),
        (&net.a, "ping -c 2 -i 0.1 -s 102 198.18.1.1"),
        (&net.r, "ping -c 2 -i 0.1 -s 103 198.18.1.2"),
        (&net.a, "ping -c 1 -s 4000 198.18.1.2"),
        (&net.a, "ping -c 1 -t 1 -s 104 198.18.1.2 || :"),
        (&net.a, "bash -c 'echo 1 >/dev/udp/198.18.1.2/9999'"),
        (&net.a, "bash -c 'echo 2 >/dev/udp/198.18.0.1/9999'"),
        (&net.a, "bash -c 'echo 3 >/dev/udp/198.18.1.2/9998'"),
        (&net.b, "bash -c 'echo 4 >/dev/udp/198.18.0.2/7'"),
        (&net.a, "bash -c 'echo 5 >/dev/udp/198.18.1.2/7'"),
        (&net.a, "ping -c 1 -s 12 198.18.1.2"),
    ] {
        net.ok(from, line);
    }
    net.until("all have seen the last one", |_| {
        listeners.iter().all(|(_, file)| text(file).contains("length 20"))
    });
    let lines = listeners.into_iter().zip(PLACES).map(|((listener, file), place)| {
        listener.end();
        // What belongs to a packet begins with a space.
        let packets = text(&file).replace("\n\t", " ").replace("\n ", " ");
        // An answer may come before or after what follows its question.
        let mut packets: Vec<String> = packets.lines().filter_map(usual).collect();
        packets.sort();
        (format!("{place:?}"), packets)
    });
    lines.collect()
}

/// A packet without what is different each time: identifiers, ports of clients, and whether a
/// device has yet to compute the checksum. `None` for those before and after all others.
fn usual(packet: &str) -> Option<String> {
    if ["length 19", "length 20"].iter().any(|length| packet.contains(length)) {
        return None;
    }
    let words: Vec<&str> = packet.split_whitespace().collect();
    let mut told = Vec::new();
    let mut before = "";
    let mut in_checksum = false;
    for word in words {
        in_checksum |= ["[bad", "[udp"].contains(&word);
        let is_port = |port: &str| port.parse().is_ok_and(|port: u32| port > 9999);
        match word.trim_end_matches(':').rsplit_once('.') {
            _ if in_checksum => {}
            _ if ["id", "seq"].contains(&before) => told.push("*".to_owned()),
            Some((address, port)) if is_port(port) => told.push(format!("{address}.*")),
            _ => told.push(word.to_owned()),
        }
        in_checksum &= !word.ends_with(']');
        before = word;
    }
    Some(told.join(" "))
}

#[test]
fn listeners_on_the_hosts_device_see_what_passes_the_port() {
    let Some(mut net) = Net::new() else { return };
    if !net.has("tcpdump") || !net.has("nft") {
        return;
    }
    net.ok(&net.r, &format!("nft '{RULES}'"));
    let kernel = seen(&net, "");
    net.ok(&net.r, "nft flush ruleset");
    for (args, options) in [
        ("--driver packet --workers 1", ""),
        ("--driver packet --workers 3", "-p"),
        ("--driver xdp --workers 2", ""),
    ] {
        net.up(&format!("r0 r1 {args}"));
        net.nft(RULES);
        let ours = seen(&net, options);
        for (kernel, ours) in kernel.iter().zip(&ours) {
            assert_eq!(kernel, ours, "{args}\n{}", net.log());
        }
        // Once nobody listens, the TAP has the frames of the host alone.
        let received = |net: &Net| net.ok(&net.r, "cat /sys/class/net/r0/statistics/rx_packets");
        net.until("nothing is shown any more", |net| {
            let before = received(net);
            net.ok(&net.a, "ping -c 3 -i 0.01 198.18.1.2");
            before == received(net)
        });
        net.down();
    }
}

#[test]
fn a_program_that_speaks_a_protocol_of_its_own_is_shown_nothing() {
    let Some(mut net) = Net::new() else { return };
    net.up("r0 r1");
    // As dhclient has it: a socket for all frames of the device.
    let client = "import socket\ns = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))\n\
                  s.bind(('r0', 0))\nprint('ready', flush=True)\n\
                  s.settimeout(1)\n\
                  try:\n while True: print(len(s.recv(2000)), flush=True)\n\
                  except TimeoutError: pass";
    let file = net.directory.join("client");
    let program = net.spawn_in_file(&net.r, &format!("python3 -c \"{client}\""), &file);
    let text = || std::fs::read_to_string(&file).unwrap();
    net.until("it listens", |_| text().contains("ready"));
    std::thread::sleep(std::time::Duration::from_millis(500));
    net.ok(&net.a, "ping -c 3 -i 0.01 -s 300 198.18.1.2");
    net.ok(&net.a, "ping -c 1 -s 301 198.18.0.1");
    program.wait();
    let seen: Vec<String> = text().lines().map(str::to_owned).collect();
    assert!(seen.contains(&"343".into()) && !seen.contains(&"342".into()), "{seen:?}");
}
