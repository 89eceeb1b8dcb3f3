// SPDX-License-Identifier: Apache-2.0

//! Packets of queues and logs for programs with netfilter sockets, by `penstock exec`.

use crate::net::Net;

/// Sends a datagram after the other.
const SENDER: &str = r#"
import socket, time
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.bind(("198.18.0.2", 4000))
while True:
    try:
        sock.sendto(b"0123456789", ("198.18.1.2", 5000))
    except OSError:
        pass
    time.sleep(0.05)
"#;

/// Writes down each datagram.
const RECEIVER: &str = r#"
import socket, sys
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.bind(("198.18.1.2", 5000))
while True:
    print(sock.recv(9000).rstrip(b"\0").decode(), flush=True)
"#;

fn file(net: &Net, name: &str, text: &str) -> String {
    let path = net.directory.join(name);
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

/// Starts both ends.
fn ends(net: &mut Net) -> (crate::net::Reading, std::path::PathBuf) {
    let (sender, receiver) = (file(net, "send.py", SENDER), file(net, "receive.py", RECEIVER));
    net.spawn_in('a', &format!("python3 {sender}"));
    let received = net.directory.join("received");
    (net.spawn_in_file(&net.b, &format!("python3 {receiver}"), &received), received)
}

#[test]
fn programs_get_packets_of_queues_and_logs_as_from_the_kernel() {
    let Some(mut net) = Net::new() else { return };
    if !net.has("python3") || !net.has("iptables-nft") {
        return;
    }
    let (_receiver, received) = ends(&mut net);
    let program = file(&net, "packets.py", include_str!("packets.py"));
    let story = |net: &Net, exec: &str| {
        for target in ["NFLOG --nflog-group 5 --nflog-prefix seen", "NFQUEUE --queue-num 3"] {
            let rule = "-A FORWARD -p udp --dport 5000";
            net.ok(&net.r, &format!("{exec} iptables-nft {rule} -j {target}"));
        }
        let said = net.ok(&net.r, &format!("{exec} python3 {program}"));
        let got = std::fs::read_to_string(&received).unwrap();
        net.ok(&net.r, &format!("{exec} iptables-nft -F"));
        std::fs::OpenOptions::new().write(true).open(&received).unwrap().set_len(0).unwrap();
        (said, got.contains("changed"))
    };
    let kernels = story(&net, "");
    net.up("r0 r1");
    let ours = story(&net, "$PENSTOCK exec --");
    let both = kernels.0.lines().zip(ours.0.lines());
    let differ: Vec<_> = both.filter(|(kernel, own)| kernel != own).collect();
    assert!(differ.is_empty(), "{differ:#?}");
    assert_eq!(kernels, ours);
    assert!(ours.1);
    // Without a program packets of the queue end, and continue where there is no rule.
    assert!(net.run(&net.a, "ping -c 2 -i 0.2 -W 1 198.18.1.2").0);
}
