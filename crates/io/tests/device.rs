// SPDX-License-Identifier: Apache-2.0

//! Devices in a network namespace of the test's own: frames from one end of a wire to the other, in
//! every way there is.

use std::process::Command;
use std::time::{Duration, Instant};

use penstock_io::device::*;
use penstock_packet::gso::Headers;
use penstock_packet::{Gso, GsoKind};
use penstock_testkit::build::*;

/// Moves this thread to a new network namespace with `wa` and `wb`, two ends of a wire. `false`
/// without the rights.
fn namespace() -> bool {
    // SAFETY: no pointers; it concerns this thread alone.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
        eprintln!("skipped: no rights to make a network namespace");
        return false;
    }
    ip("link add wa address 02:00:00:00:00:0a type veth peer name wb address 02:00:00:00:00:0b");
    for device in ["wa", "wb"] {
        ip(&format!("link set {device} addrgenmode none"));
        ip(&format!("link set {device} up"));
    }
    true
}

fn ip(line: &str) {
    let status = Command::new("ip").args(line.split(' ')).status().unwrap();
    assert!(status.success(), "ip {line}");
}

fn frame(len: usize) -> Vec<u8> {
    let data: Vec<u8> = (0..len).map(|i| i as u8).collect();
    (Ethernet::new("02:00:00:00:00:0a", "02:00:00:00:00:0b")
        / Ipv4::new("198.18.0.1", "198.18.0.2")
        / Tcp::new(1, 2)
        / payload(data))
    .build()
}

/// Receives our next frames, until there are `count` or a second is over.
fn receive(rx: &mut Rx, count: usize) -> Vec<(Vec<u8>, Option<Gso>)> {
    let mut got = Vec::new();
    let end = Instant::now() + Duration::from_secs(1);
    let mut ready = Vec::new();
    while got.len() < count && Instant::now() < end {
        for i in 0..rx.fetch() {
            let f = rx.frame(i).unwrap();
            if f.bytes.starts_with(&[2, 0, 0, 0, 0, 0xb]) {
                got.push((f.bytes.to_vec(), f.gso));
            }
        }
        rx.release();
        if got.len() < count {
            wait(&[std::os::fd::AsFd::as_fd(rx)], &mut ready, 50).unwrap();
        }
    }
    got
}

/// Both ends of the wire in one way.
fn ends(way: &str) -> (Tx, Rx) {
    let (a, b) = (interface_index("wa").unwrap(), interface_index("wb").unwrap());
    match way {
        "packet" => {
            (Tx::Packet(PacketTx::open(a).unwrap()), Rx::Packet(PacketRx::open(b, 1514).unwrap()))
        }
        "xdp" | "launched" | "generic" => {
            let wish = if way == "generic" { XdpWish::Generic } else { XdpWish::Copy };
            let launcher = (way == "launched").then(|| Launcher::open(XdpDevice::PLACES).unwrap());
            let mut from = XdpDevice::open(a, 1, wish, launcher.as_ref()).unwrap();
            let mut to = XdpDevice::open(b, 1, wish, None).unwrap();
            from.redirect.set_sends(true);
            (Tx::Xdp(from.queues.remove(0).1), Rx::Xdp(to.queues.remove(0).0))
        }
        other => panic!("{other}"),
    }
}

#[test]
fn frames_arrive_as_they_were_sent_in_order() {
    for way in ["packet", "xdp", "launched", "generic"] {
        if !namespace() {
            return;
        }
        let (mut tx, mut rx) = ends(way);
        // More than the rings have room for, in pieces that fit.
        for round in 0..100 {
            let sent: Vec<_> = (0..50).map(|i| frame(round * 50 % 1400 + i)).collect();
            sent.iter().for_each(|f| tx.send(f, None, 0));
            tx.flush();
            let got: Vec<_> = receive(&mut rx, sent.len()).into_iter().map(|(f, _)| f).collect();
            assert!(got == sent, "{way}: {} of {} in round {round}", got.len(), sent.len());
        }
        assert_eq!((tx.refused(), rx.lost()), (0, 0), "{way}");
        assert_eq!(tx.launched(), if way == "launched" { 5000 } else { 0 }, "{way}");
    }
}

#[test]
fn super_packets_pass_whole_or_are_cut() {
    let gso = Gso { size: 1400, kind: GsoKind::Tcp };
    for way in ["packet", "xdp", "launched"] {
        if !namespace() {
            return;
        }
        let (mut tx, mut rx) = ends(way);
        for len in [10_000, 60_000, 1401] {
            let sent = frame(len);
            tx.send(&sent, Some(gso), 0);
            tx.flush();
            let whole = way == "packet";
            let got = receive(&mut rx, if whole { 1 } else { len.div_ceil(1400) });
            let mut data = Vec::new();
            for (mut f, kind) in got {
                assert_eq!(kind, whole.then_some(gso), "{way} {len}");
                let headers = Headers::of_frame(&f).unwrap();
                let before = f.clone();
                headers.finish_checksum(&mut f);
                assert!(whole || before == f, "{way}: every segment has its checksum");
                data.extend_from_slice(&f[headers.payload..]);
            }
            assert!(data == sent[54..], "{way} {len}: {} bytes", data.len());
        }
    }
}

#[test]
fn few_frames_go_by_the_socket_and_bursts_too_where_the_device_cannot_send_from_xdp() {
    if !namespace() {
        return;
    }
    let launcher = Launcher::open(XdpDevice::PLACES).unwrap();
    let wa = interface_index("wa").unwrap();
    let mut from = XdpDevice::open(wa, 1, XdpWish::Copy, Some(&launcher)).unwrap();
    let (rx, tx) = from.queues.remove(0);
    let mut tx = Tx::Xdp(tx);
    let mut to = Rx::Packet(PacketRx::open(interface_index("wb").unwrap(), 1514).unwrap());
    // Frames, whether the neighbour polls, whether it is believed to, how many are launched, and
    // how many arrive.
    for (frames, polls, believed, launched, arrived) in [
        (15, true, true, 0, 15),
        (16, true, true, 16, 16),
        (1500, true, true, 1500, 1500),
        (1500, true, false, 0, 1500),
        (40, false, false, 0, 40),
        // What the kernel silently does with frames from XDP for a veth with a peer that does not
        // poll.
        (40, false, true, 40, 0),
    ] {
        let gro = if polls { "on" } else { "off" };
        let status = Command::new("ethtool").args(["-K", "wb", "gro", gro]).status().unwrap();
        assert!(status.success());
        from.redirect.set_sends(believed);
        let before = tx.launched();
        let sent: Vec<_> = (0..frames).map(|i| frame(i % 1000)).collect();
        let mut got = Vec::new();
        // What sockets send at a time has to fit into the ring of the receiver, of 256 frames.
        for burst in sent.chunks(if believed { 1000 } else { 200 }) {
            burst.iter().for_each(|frame| tx.send(frame, None, 0));
            tx.flush();
            got.extend(receive(&mut to, burst.len()).into_iter().map(|(frame, _)| frame));
        }
        let case = (frames, polls, believed);
        assert_eq!((tx.launched() - before, got.len()), (launched, arrived), "{case:?}");
        assert!(got[..] == sent[..arrived], "{case:?}");
    }
    drop(rx);
}

#[test]
fn a_tag_is_in_the_frame() {
    if !namespace() {
        return;
    }
    let (mut tx, mut rx) = ends("packet");
    let tagged = (Ethernet::new("02:00:00:00:00:0a", "02:00:00:00:00:0b")
        / Vlan::new(5)
        / Ipv4::new("198.18.0.1", "198.18.0.2")
        / Udp::new(1, 2)
        / payload(vec![7; 1400]))
    .build();
    tx.send(&tagged, None, 0);
    tx.flush();
    assert_eq!(receive(&mut rx, 1), [(tagged, None)]);
}

#[test]
fn the_host_sees_a_tap() {
    if !namespace() {
        return;
    }
    let tap = Tap::open("host%d").unwrap();
    tap.set_offloads(true).unwrap();
    let name = tap.name().to_owned();
    ip(&format!("link set {name} addrgenmode none"));
    ip(&format!("link set {name} up"));
    let index = interface_index(&name).unwrap();
    let (mut our_tx, mut our_rx) = (TapTx::new(tap.try_clone().unwrap()), TapRx::new(tap).unwrap());
    // What the host's packet sockets send comes to us, and the other way round.
    let (mut tx, rx) = (PacketTx::open(index).unwrap(), PacketRx::open(index, 1514).unwrap());
    let gso = Gso { size: 1400, kind: GsoKind::Tcp };
    for (len, gso) in [(100, None), (30_000, Some(gso))] {
        tx.send(&frame(len), gso, 0);
        tx.flush();
        let n = our_rx.fetch();
        assert_eq!(n, 1);
        assert_eq!(our_rx.frame(0).unwrap().gso, gso);
        assert_eq!(our_rx.frame(0).unwrap().bytes.len(), 54 + len);
        our_tx.send(&frame(len), gso);
        our_tx.flush();
    }
    let got = receive(&mut Rx::Packet(rx), 2);
    assert_eq!(
        got.iter().map(|(f, g)| (f.len(), *g)).collect::<Vec<_>>(),
        [(154, None), (30_054, Some(gso))]
    );
}

#[test]
fn several_sockets_get_each_frame_once_and_flows_stay_together() {
    if !namespace() {
        return;
    }
    let mut tx = PacketTx::open(interface_index("wa").unwrap()).unwrap();
    let rx = PacketRx::open_several(interface_index("wb").unwrap(), 1514, 3).unwrap();
    let mut rx: Vec<Rx> = rx.into_iter().map(Rx::Packet).collect();
    let datagram = |from: u16, to: u16, (a, b): (&str, &str)| {
        let link = Ethernet::new("02:00:00:00:00:0b", "02:00:00:00:00:0a");
        (link / Ipv4::new(a, b) / Udp::new(from, to) / payload(b"x")).build()
    };
    let (a, b) = ("198.18.0.1", "198.18.0.2");
    for port in 0..60 {
        for _ in 0..2 {
            tx.send(&datagram(1000 + port, 53, (a, b)), None, 0);
            tx.send(&datagram(53, 1000 + port, (b, a)), None, 0);
        }
    }
    tx.flush();
    let mut total = 0;
    for rx in &mut rx {
        let mut flows = std::collections::HashMap::<u16, u32>::new();
        loop {
            let count = rx.fetch();
            for frame in (0..count).filter_map(|i| rx.frame(i)) {
                let port = |at: usize| u16::from_be_bytes([frame.bytes[at], frame.bytes[at + 1]]);
                *flows.entry(port(34).max(port(36))).or_default() += 1;
                total += 1;
            }
            if count == 0 {
                break;
            }
        }
        assert!(!flows.is_empty());
        assert!(flows.values().all(|count| *count == 4), "{flows:?}");
    }
    assert_eq!(total, 240);
}

#[test]
fn a_tap_has_several_queues() {
    if !namespace() {
        return;
    }
    let tap = Tap::open_as("host%d", None).unwrap();
    let queue = tap.queue().unwrap();
    assert_eq!(tap.name(), queue.name());
    let index = interface_index(tap.name()).unwrap();
    ip(&format!("link set {} addrgenmode none", tap.name()));
    ip(&format!("link set {} up", tap.name()));
    let mut rx = PacketRx::open(index, 1514).map(Rx::Packet).unwrap();
    let mut tx = PacketTx::open(index).unwrap();
    let mut queues =
        [tap, queue].map(|tap| (TapTx::new(tap.try_clone().unwrap()), TapRx::new(tap).unwrap()));
    for (to_host, _) in &mut queues {
        to_host.send(&frame(100), None);
        to_host.flush();
    }
    assert_eq!(receive(&mut rx, 2).len(), 2);
    (0..10).for_each(|_| tx.send(&frame(100), None, 0));
    tx.flush();
    let counts = queues.each_mut().map(|(_, from_host)| from_host.fetch());
    assert_eq!(counts[0] + counts[1], 10);
    // One that was not made for it has one.
    let single = Tap::open("host%d").unwrap();
    assert!(single.queue().is_err());
}

#[test]
fn a_closed_device_stays_closed_until_it_is_released() {
    if !namespace() {
        return;
    }
    let received = || {
        let text = std::fs::read_to_string("/proc/thread-self/net/snmp").unwrap();
        let line = text.lines().filter(|l| l.starts_with("Ip:")).nth(1).unwrap();
        line.split(' ').nth(3).unwrap().parse::<u64>().unwrap()
    };
    let mut tx = PacketTx::open(interface_index("wa").unwrap()).unwrap();
    // Whether one of several frames is received: the kernel takes a program off a device a little
    // later.
    let mut passes = |tries: u32| {
        (0..tries).any(|_| {
            let before = received();
            tx.send(&frame(10), None, 0);
            tx.flush();
            std::thread::sleep(Duration::from_millis(20));
            received() > before
        })
    };
    assert!(passes(100));
    let shut = Shut::device(interface_index("wb").unwrap()).unwrap();
    // What was on its way.
    std::thread::sleep(Duration::from_millis(100));
    assert!(!passes(5));
    drop(shut);
    assert!(passes(100));
}
