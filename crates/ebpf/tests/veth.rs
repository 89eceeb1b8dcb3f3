// SPDX-License-Identifier: Apache-2.0

//! A TCP connection between two network namespaces through a third, in which its flow is in a
//! program: what arrives is what was sent, and the program carried it. The sender leaves checksums
//! and the cutting of large packets to its device, as it does on real ones. Prints the rates.

mod namespaces;
mod rights;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::ops::Deref;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

use namespaces::{Namespaces, run};
use penstock_bpf::{AttachPoint, Link, Mode, Next, Program};
use penstock_ebpf::flow::{FlowHalf, FlowStatistics, Flows, Site};
use penstock_flowtable::{Arrival, Encap, Key, Xmit};

const A: [u8; 4] = [198, 18, 0, 7];
const R: [u8; 4] = [198, 19, 0, 1];
const B: [u8; 4] = [198, 19, 0, 7];
const PORT: u16 = 5201;
const MACS: [[u8; 6]; 4] =
    [[2, 0, 0, 0, 0, 0xa0], [2, 0, 0, 0, 0, 0xf0], [2, 0, 0, 0, 0, 0xf1], [2, 0, 0, 0, 0, 0xb0]];
/// Bytes to send.
const AMOUNT: usize = 200 << 20;

/// Two hosts and a router that translates.
struct Lab(Namespaces);

impl Deref for Lab {
    type Target = Namespaces;

    fn deref(&self) -> &Namespaces {
        &self.0
    }
}

impl Lab {
    fn new(name: &str) -> Self {
        let lab = Lab(Namespaces::new(name));
        lab.connect();
        let inside = |end: &str, lines: &str| lab.ip(end, lines);
        inside(
            "a",
            "link set a0 up\naddr add 198.18.0.7/24 dev a0\nroute add default via 198.18.0.1\n",
        );
        inside("b", "link set b0 up\naddr add 198.19.0.7/24 dev b0\n");
        inside(
            "r",
            "link set r0 up\nlink set r1 up\naddr add 198.18.0.1/24 dev r0\naddr add 198.19.0.1/24 dev r1\n\
             neigh add 198.18.0.7 lladdr 02:00:00:00:00:a0 dev r0 nud permanent\n\
             neigh add 198.19.0.7 lladdr 02:00:00:00:00:b0 dev r1 nud permanent\n",
        );
        lab.inside("r", || std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap());
        let rules =
            "table ip t { chain n { type nat hook postrouting priority 100; oifname \"r1\" masquerade; }
            chain f { type filter hook forward priority 0; ct state established,related accept; }; }";
        run(&format!("ip netns exec {} nft -f -", lab.name("r")), rules);
        // It does not see packets that the programs forward, except for a FIN.
        let liberal = "/proc/sys/net/netfilter/nf_conntrack_tcp_be_liberal";
        lab.inside("r", || std::fs::write(liberal, "1").unwrap());
        lab
    }

    fn ethtool(&self, end: &str, line: &str) {
        run(&format!("ip netns exec {} ethtool -K {line}", self.name(end)), "");
    }
}

/// Byte number `n` of what is sent.
fn pattern() -> Vec<u8> {
    let mut rng = fastrand::Rng::with_seed(9);
    (0..1 << 20).map(|_| rng.u8(..)).collect()
}

/// Reads everything and compares it.
fn receive(mut stream: TcpStream, pattern: &[u8]) -> usize {
    let (mut buffer, mut count) = (vec![0; 1 << 16], 0);
    loop {
        let read = stream.read(&mut buffer).unwrap();
        if read == 0 {
            return count;
        }
        let at = count % pattern.len();
        let (first, rest) = buffer[..read].split_at(read.min(pattern.len() - at));
        assert!(pattern[at..].starts_with(first) && pattern.starts_with(rest), "at byte {count}");
        count += read;
    }
}

/// Sends through the router, with the flow in a program or not; what the program did in both
/// directions, and Gbit/s.
fn send(lab: &Lab, place: Option<AttachPoint>) -> ([FlowStatistics; 2], f64) {
    send_by(lab, place, &Flows::new(64))
}

fn send_by(lab: &Lab, place: Option<AttachPoint>, flows: &Flows) -> ([FlowStatistics; 2], f64) {
    let pattern = pattern();
    let [r0, r1] = ["r0", "r1"].map(|device| lab.index(device));
    let links: Vec<Link> = place.map_or_else(Vec::new, |place| {
        let code = flows.program(&Site::new(place, Next::Pass)).unwrap();
        let program =
            Program::load(place, "flow", &code).unwrap_or_else(|e| panic!("{e}\n{}", e.log));
        lab.inside("r", || {
            [r0, r1].map(|device| program.attach(device, Mode::Native).unwrap()).into()
        })
    });
    let listener =
        lab.inside("b", || TcpListener::bind((std::net::Ipv4Addr::from(B), PORT)).unwrap());
    let stream =
        lab.inside("a", || TcpStream::connect((std::net::Ipv4Addr::from(B), PORT)).unwrap());
    let port = stream.local_addr().unwrap().port();
    let (accepted, from) = listener.accept().unwrap();
    let patience = Some(std::time::Duration::from_secs(20));
    accepted.set_read_timeout(patience).unwrap();
    stream.set_write_timeout(patience).unwrap();
    // The kernel kept the port, which was free.
    assert_eq!((from.ip(), from.port()), (std::net::IpAddr::from(R), port));
    let [_, f0, f1, _] = MACS;
    let halves = [
        (
            Key::v4(A, B, [port, PORT], 6),
            Arrival::on(r0),
            Key::v4(R, B, [port, PORT], 6),
            Xmit::neighbour(r1, MACS[3], f1, 1500),
        ),
        (
            Key::v4(B, R, [PORT, port], 6),
            Arrival::on(r1),
            Key::v4(B, A, [PORT, port], 6),
            Xmit::neighbour(r0, MACS[0], f0, 1500),
        ),
    ];
    let halves =
        halves.each_ref().map(|(key, arrival, to, xmit)| FlowHalf { key, arrival, to, xmit });
    if place.is_some() {
        lab.inside("r", || halves.iter().for_each(|half| flows.add(half, 0).unwrap()));
    }
    let start = Instant::now();
    let (arrived, took) = thread::scope(|scope| {
        let receiver = scope.spawn(|| receive(accepted, &pattern));
        let mut stream = stream;
        for _ in 0..AMOUNT / pattern.len() {
            stream.write_all(&pattern).unwrap();
        }
        drop(stream);
        (receiver.join().unwrap(), start.elapsed())
    });
    assert_eq!(arrived, AMOUNT);
    drop(links);
    let statistics = halves.map(|half| match place {
        Some(_) => flows.statistics(&half).unwrap().unwrap(),
        None => FlowStatistics::default(),
    });
    (statistics, AMOUNT as f64 * 8.0 / took.as_nanos() as f64)
}

fn can() -> bool {
    namespaces::can(&["ip", "nft", "ethtool"])
}

#[test]
fn large_packets_with_unfinished_checksums_stay_whole_at_tcx() {
    if !can() {
        return;
    }
    let lab = Lab::new("tcx");
    for round in 0..2 {
        let (_, kernel) = send(&lab, None);
        let (statistics, tcx) = send(&lab, Some(AttachPoint::Tcx));
        println!(
            "round {round}: kernel {kernel:.2} Gbit/s, tcx {tcx:.2}: {:.2} times",
            tcx / kernel
        );
        let [there, back] = statistics;
        // All but what opened the connection and what was on its way before.
        assert!(there.bytes > AMOUNT as u64 && back.packets > 0, "{statistics:?}");
        assert!(there.bytes / there.packets > 3000, "they were cut: {statistics:?}");
    }
}

#[test]
fn packets_are_redirected_to_the_veth_peer() {
    if !can() {
        return;
    }
    let lab = Lab::new("peer");
    let sent = |device: &str| -> u64 {
        let file = format!("/sys/class/net/{device}/statistics/tx_packets");
        let cat = ["netns", "exec", &lab.name("r"), "cat", &file];
        let output = Command::new("ip").args(cat).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
    };
    for whole in [true, false] {
        if !whole {
            // Packets of the MTU, in one piece, which their sender still has.
            for (end, device) in [("a", "a0"), ("b", "b0")] {
                lab.ethtool(end, &format!("{device} tx off"));
            }
        }
        let flows = Flows::new(64);
        for device in ["r0", "r1"] {
            flows.hand_over(lab.index(device), true).unwrap();
        }
        let before = sent("r1");
        let ([there, back], _) = send_by(&lab, Some(AttachPoint::Tcx), &flows);
        assert!(there.bytes > AMOUNT as u64 && back.packets > 0, "{there:?} {back:?}");
        assert_eq!(there.bytes / there.packets > 1500, whole, "{there:?}");
        // But what opened the connection, and what ended it.
        let count = sent("r1") - before;
        assert!(count < there.packets / 10, "{count} of {}", there.packets);
        flows.hand_over(lab.index("r1"), false).unwrap();
        let before = sent("r1");
        let ([there, _], _) = send_by(&lab, Some(AttachPoint::Tcx), &flows);
        assert!(sent("r1") - before >= there.packets, "{there:?}");
    }
}

#[test]
fn tags_are_redirected_with_their_packets() {
    if !can() || Command::new("tcpdump").arg("--version").output().is_err() {
        return;
    }
    let lab = Lab::new("tag");
    let [r0, r1] = ["r0", "r1"].map(|device| lab.index(device));
    let flows = Flows::new(64);
    flows.hand_over(r1, true).unwrap();
    let program = Program::load(
        AttachPoint::Tcx,
        "flow",
        &flows.program(&Site::new(AttachPoint::Tcx, Next::Pass)).unwrap(),
    );
    let program = program.unwrap_or_else(|e| panic!("{e}\n{}", e.log));
    let _link = lab.inside("r", || program.attach(r0, Mode::Any).unwrap());
    let (key, to) = (Key::v4(A, B, [PORT, PORT], 17), Key::v4(R, B, [PORT, PORT], 17));
    let mut xmit = Xmit::neighbour(r1, MACS[3], MACS[2], 1500);
    assert!(xmit.encaps.push(Encap { id: 7, protocol: 0x8100 }));
    let arrival = Arrival::on(r0);
    let half = FlowHalf { key: &key, arrival: &arrival, to: &to, xmit: &xmit };
    lab.inside("r", || flows.add(&half, 0).unwrap());
    let args = [
        "netns",
        "exec",
        &lab.name("b"),
        "timeout",
        "20",
        "tcpdump",
        "-lnevv",
        "--immediate-mode",
        "-c",
        "1",
    ];
    let mut dump = Command::new("ip");
    let mut dump = dump
        .args(args)
        .args(["-i", "b0", "udp or vlan"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    thread::sleep(std::time::Duration::from_secs(1));
    lab.inside("a", || {
        let socket = std::net::UdpSocket::bind((std::net::Ipv4Addr::from(A), PORT)).unwrap();
        socket.send_to(b"tagged", (std::net::Ipv4Addr::from(B), PORT)).unwrap();
    });
    let mut said = String::new();
    dump.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(dump.wait().unwrap().success());
    assert!(
        said.contains("vlan 7") && said.contains("198.19.0.1.5201 > 198.19.0.7.5201"),
        "{said}"
    );
    assert!(
        said.contains("02:00:00:00:00:f1 > 02:00:00:00:00:b0") && said.contains("ttl 63"),
        "{said}"
    );
}

#[test]
fn connections_run_through_xdp() {
    if !can() {
        return;
    }
    let lab = Lab::new("xdp");
    // Checksums are finished and packets cut before XDP; who receives from XDP polls.
    for (end, device) in [("a", "a0"), ("b", "b0")] {
        lab.ethtool(end, &format!("{device} tx off gro on"));
    }
    let (_, kernel) = send(&lab, None);
    let (statistics, xdp) = send(&lab, Some(AttachPoint::Xdp));
    println!("kernel {kernel:.2} Gbit/s, XDP {xdp:.2}: {:.2} times", xdp / kernel);
    let [there, back] = statistics;
    assert!(there.bytes > AMOUNT as u64 && back.packets > 0, "{statistics:?}");
}
