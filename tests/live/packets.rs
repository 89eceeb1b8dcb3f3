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
    let program = concat!(include_str!("nfnl.py"), include_str!("packets.py"));
    let program = file(&net, "packets.py", program);
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

/// Sends datagrams from an address and a port to others, and does not answer at a port.
const ONE_WAY: &str = r#"
import socket, sys, time
local, port, to, at, deaf = sys.argv[1:]
unread = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
unread.bind((local, int(deaf)))
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.bind((local, int(port)))
while True:
    try:
        sock.sendto(b"0123456789", (to, int(at)))
    except OSError:
        pass
    time.sleep(0.05)
"#;

/// What Linux 6.12 said to `helper.py`, which this machine's kernel cannot: `helper.txt`.
#[test]
fn programs_are_helpers_of_connections() {
    let Some(mut net) = Net::new() else { return };
    if !net.has("python3") || !net.has("conntrack") {
        return;
    }
    let one_way = file(&net, "one_way.py", ONE_WAY);
    net.spawn_in('a', &format!("python3 {one_way} 198.18.0.2 4000 198.18.1.2 5000 6000"));
    net.spawn_in('b', &format!("python3 {one_way} 198.18.1.2 7000 198.18.0.2 6000 5000"));
    let program = concat!(include_str!("nfnl.py"), include_str!("helper.py"));
    let program = file(&net, "helper.py", program);
    net.up("r0 r1");
    let said = net.ok(&net.r, &format!("$PENSTOCK exec -- python3 {program}"));
    let both: Vec<_> = include_str!("helper.txt").lines().zip(said.lines()).collect();
    let differ: Vec<_> = both.iter().filter(|(kernel, own)| kernel != own).collect();
    assert!(differ.is_empty(), "{differ:#?}");
    assert_eq!(include_str!("helper.txt"), said);
}

/// Has a helper for SSDP, which the kernel and the packet path do not have.
const CONNTRACKD: &str = "
General {
    HashSize 1024
    HashLimit 8192
    LogFile DIRECTORY/conntrackd.log
    Syslog off
    LockFile DIRECTORY/conntrackd.lock
    UNIX {
        Path DIRECTORY/conntrackd.ctl
    }
    Systemd off
}
Helper {
    Type ssdp inet udp {
        QueueNum 3
        QueueLen 1024
        Policy ssdp {
            ExpectMax 8
            ExpectTimeout 300
        }
    }
}
";

/// Its verdicts give connections back as they were told, with all that they have.
#[test]
fn conntrackd_helps_connections() {
    let Some(mut net) = Net::new() else { return };
    if !net.has("python3") || !net.has("conntrackd") || !net.has("nfct") {
        return;
    }
    let configuration = CONNTRACKD.replace("DIRECTORY", &net.directory.display().to_string());
    let configuration = file(&net, "conntrackd.conf", &configuration);
    let one_way = file(&net, "one_way.py", ONE_WAY);
    net.up("r0 r1");
    net.ok(&net.r, "$PENSTOCK exec -- nfct helper add ssdp inet udp");
    net.nft(
        "table ip t { ct helper h { type \"ssdp\" protocol udp; l3proto ip; }; \
         chain p { type filter hook prerouting priority 0; udp dport 1900 ct helper set \"h\"; }; }",
    );
    let daemon = format!("$PENSTOCK exec -- conntrackd -C {configuration}");
    let _daemon = net.spawn_reading(&net.r, &daemon);
    let list = "$PENSTOCK exec -- nfct helper list";
    net.until("conntrackd is ready", |net| net.ok(&net.r, list).contains("enabled"));
    net.spawn_in('a', &format!("python3 {one_way} 198.18.0.2 4000 198.18.1.2 1900 6000"));
    net.spawn_in('b', &format!("python3 {one_way} 198.18.1.2 7000 198.18.0.2 6000 1900"));
    let list = "$PENSTOCK exec -- conntrack -L -p udp --dport 1900";
    net.until("it has accepted packets", |net| {
        let listed = net.ok(&net.r, list);
        listed.contains("helper=ssdp") && listed.contains("[UNREPLIED]")
    });
}

#[test]
fn programs_are_told_the_ports_of_packets_on_bridges_as_by_the_kernel() {
    let Some(mut net) = Net::new() else { return };
    let call = "sysctl -qw net.bridge.bridge-nf-call-iptables=1";
    if !net.has("python3") || !net.has("iptables-nft") || !net.bridge() || !net.run(&net.r, call).0
    {
        eprintln!("skipped: no bridges with the hooks of IP");
        return;
    }
    net.ok(&net.b, "ip addr flush dev b0; ip addr add 198.18.1.2/16 dev b0");
    net.ok(&net.a, "ip addr flush dev a0; ip addr add 198.18.0.2/16 dev a0");
    let (_receiver, _) = ends(&mut net);
    let program = concat!(include_str!("nfnl.py"), include_str!("bridged.py"));
    let program = file(&net, "bridged.py", program);
    let rules = "table bridge t {
            chain f { type filter hook forward priority -5; udp dport 5000 log prefix \"b\" group 5; }
        }
        table ip t {
            chain f { type filter hook forward priority -5; udp dport 5000 log prefix \"i\" group 6; }
        }";
    let rules = file(&net, "bridged.nft", rules);
    let queue = "-A FORWARD -p udp --dport 5000 -j NFQUEUE --queue-num 4 --queue-bypass";
    let story = |net: &Net, exec: &str| {
        net.ok(&net.r, &format!("{exec} nft -f {rules}; {exec} iptables-nft {queue}"));
        let said = net.ok(&net.r, &format!("{exec} python3 {program} log:5 log:6 queue:4"));
        net.ok(&net.r, &format!("{exec} nft flush ruleset"));
        said
    };
    net.until("the bridge forwards", |net| net.run(&net.a, "ping -c 1 -W 1 198.18.1.2").0);
    let kernels = story(&net, "");
    net.up("r0 r1");
    assert_eq!(kernels, story(&net, "$PENSTOCK exec --"));
    let said = |subsystem: &str, words: [&str; 4]| {
        let line = kernels.lines().find(|line| line.starts_with(subsystem));
        words.iter().all(|word| line.is_some_and(|line| line.contains(word)))
    };
    assert!(said("logged", ["4=br0", "5=br0", "6=r0", "7=r1"]), "{kernels}");
    assert!(said("queued", ["5=br0", "6=br0", "7=r0", "8=r1"]), "{kernels}");
    // Kernels without nft_queue cannot be asked (nfqnl_build_packet_message()).
    net.nft(
        "table bridge t {
            chain f { type filter hook forward priority 0; udp dport 5000 queue flags bypass to 3; }
        }",
    );
    let ours = net.ok(&net.r, &format!("$PENSTOCK exec -- python3 {program} queue:3"));
    let header = "020000000b00 020000000a00 0800";
    let order = ["7=r0", "5=br0", "8=r1", "6=br0", &format!("20={}", header.replace(' ', ""))];
    let places: Vec<_> = order.iter().map(|word| ours.find(word)).collect();
    assert!(places.is_sorted() && !places.contains(&None), "{ours}");
}

#[test]
fn verdicts_change_connections_and_logs_tell_of_them() {
    let Some(mut net) = Net::new() else { return };
    if !net.has("python3") || !net.has("conntrack") {
        return;
    }
    let (_receiver, _) = ends(&mut net);
    let program = concat!(include_str!("nfnl.py"), include_str!("verdicts.py"));
    let program = file(&net, "verdicts.py", program);
    net.up("r0 r1");
    net.nft(
        "table ip t { chain f { type filter hook forward priority 0; \
         udp dport 5000 ct mark 0 queue to 3; ct mark 0x17 log group 5; }; }",
    );
    let said = net.ok(&net.r, &format!("$PENSTOCK exec -- python3 {program}"));
    for line in ["queued with a connection True", "verdict Success", "logged with mark 23"] {
        assert!(said.lines().any(|l| l == line), "{said}");
    }
    let listed = net.ok(&net.r, "$PENSTOCK exec -- conntrack -L -p udp --dport 5000");
    assert!(listed.contains("mark=23"), "{listed}");
}

/// The queue's reader, if it can be made.
fn reader(net: &Net) -> Option<String> {
    let source = file(net, "queue.c", include_str!("queue.c"));
    let program = net.directory.join("queue").display().to_string();
    let made = net.run(&net.r, &format!("cc -O2 -o {program} {source} -lnetfilter_queue"));
    if !made.0 {
        eprintln!("skipped: libnetfilter_queue or a compiler is missing");
        return None;
    }
    Some(program)
}

#[test]
fn libnetfilter_queue_accepts_packets_until_it_ends() {
    let Some(mut net) = Net::new() else { return };
    if !net.has("python3") {
        return;
    }
    let Some(program) = reader(&net) else { return };
    let (_receiver, received) = ends(&mut net);
    net.up("r0 r1 --workers 2");
    net.nft(
        "table ip t { chain f { type filter hook forward priority 0; udp dport 5000 queue to 3; }; }",
    );
    let count = || std::fs::read_to_string(&received).unwrap_or_default().lines().count();
    std::thread::sleep(std::time::Duration::from_millis(300));
    let before = count();
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(count(), before, "without a program packets end");
    let said = net.ok(&net.r, &format!("$PENSTOCK exec -- {program} 3 20"));
    assert!(said.contains("20 packets"), "{said}");
    assert!((before + 19..=before + 21).contains(&count()), "{} {before}", count());
    // Its queue is free again, also if it is killed.
    let line = format!("timeout -s KILL 2 $PENSTOCK exec -- {program} 3 1000; true");
    net.ok(&net.r, &line);
    net.until("the queue is free", |net| {
        net.run(&net.r, &format!("$PENSTOCK exec -- {program} 3 5")).0
    });
    assert!(net.run(&net.a, "ping -c 2 -i 0.2 -W 1 198.18.1.2").0);
}

/// `log group` as ulogd2 writes it.
const ULOGD: &str = r#"
[global]
logfile="DIR/ulogd.log"
stack=log1:NFLOG,base1:BASE,ifi1:IFINDEX,ip2str1:IP2STR,print1:PRINTPKT,emu1:LOGEMU
[log1]
group=5
[emu1]
file="DIR/packets.log"
sync=1
"#;

#[test]
fn ulogd_writes_what_rules_log() {
    let Some(mut net) = Net::new() else { return };
    if !net.has("python3") || !net.has("ulogd") {
        return;
    }
    let (_receiver, _) = ends(&mut net);
    net.up("r0 r1");
    net.nft(
        "table ip t { chain f { type filter hook forward priority 0; \
         udp dport 5000 log prefix \"seen: \" group 5; }; }",
    );
    let directory = net.directory.display().to_string();
    let configuration = file(&net, "ulogd.conf", &ULOGD.replace("DIR", &directory));
    let written = net.directory.join("packets.log");
    net.spawn_in('r', &format!("$PENSTOCK exec -- ulogd -c {configuration}"));
    net.until("packets are written", |_| {
        std::fs::read_to_string(&written).unwrap_or_default().lines().count() > 3
    });
    let line = std::fs::read_to_string(&written).unwrap().lines().next().unwrap().to_owned();
    for said in ["seen:", "IN=r0", "OUT=r1", "SRC=198.18.0.2", "DST=198.18.1.2", "DPT=5000"] {
        assert!(line.contains(said), "{said}: {line}");
    }
}
