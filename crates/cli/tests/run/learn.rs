// SPDX-License-Identifier: Apache-2.0

//! Networks that are learned from captures, and what is said of addresses that are missing.

use penstock_io::LinkType;

use crate::place::{T, TestDir, packet, text};

/// The end of a link address: `02:00:00:00:00:N`.
type End = u8;

const ROUTER: End = 1;
const ALL: End = 0xff;

/// A frame with an IPv4 packet of UDP.
fn frame(from: End, to: End, packet: Vec<u8>) -> Vec<u8> {
    let mac = |end: End| if end == ALL { [0xff; 6] } else { [2, 0, 0, 0, 0, end] };
    [&mac(to)[..], &mac(from), &[8, 0], &packet].concat()
}

/// A packet that came through so many routers.
fn routed(source: [u8; 4], destination: [u8; 4], dport: u16, hops: u8) -> Vec<u8> {
    let mut packet = packet(source, destination, dport);
    packet[8] -= hops;
    let sum = u16::from_be_bytes([packet[10], packet[11]]);
    let (sum, carry) = sum.overflowing_add(u16::from(hops) << 8);
    packet[10..12].copy_from_slice(&(sum + u16::from(carry)).to_be_bytes());
    packet
}

/// An ARP request.
fn arp(from: End, sender: [u8; 4], target: [u8; 4]) -> Vec<u8> {
    let mac = [2, 0, 0, 0, 0, from];
    let fixed = [0, 1, 8, 0, 6, 4, 0, 1];
    let ends = [&mac[..], &sender, &[0; 6], &target].concat();
    [&[0xff; 6][..], &mac, &[8, 6], &fixed, &ends].concat()
}

fn tagged(frame: Vec<u8>, vlan: u8) -> Vec<u8> {
    [&frame[..12], &[0x81, 0, 0, vlan], &frame[12..]].concat()
}

const SERVER: [u8; 4] = [198, 18, 0, 5];
const GATEWAY: [u8; 4] = [198, 18, 0, 1];

/// A server with a neighbour, and clients beyond its gateway.
fn server() -> Vec<Vec<u8>> {
    let mut frames = vec![
        arp(ROUTER, SERVER, GATEWAY),
        arp(2, GATEWAY, SERVER),
        frame(3, ROUTER, packet([198, 18, 0, 9], SERVER, 53)),
        frame(ROUTER, 3, packet(SERVER, [198, 18, 0, 9], 5000)),
    ];
    for client in 0..3 {
        let client = [198, 19, client, 7];
        frames.push(frame(2, ROUTER, routed(client, SERVER, 53, 9)));
        frames.push(frame(ROUTER, 2, packet(SERVER, client, 5000)));
    }
    frames
}

/// What is learned of frames on `eth0`, as lines and notes.
fn learned(test: &str, frames: Vec<Vec<u8>>, options: &str) -> (bool, String, String) {
    let place = TestDir::new(test);
    // Packets that are alike are no copies of each other.
    let frames: Vec<_> =
        frames.into_iter().zip(0..).map(|(frame, n)| (T + n * 2_000_000_000, frame)).collect();
    place.capture("eth0.pcap", LinkType::Ethernet, &frames);
    place.write("rules.nft", b"table inet t {\n}\n");
    let out = place
        .run(&format!("--rules rules.nft --net-out net.learned --read eth0=eth0.pcap {options}"));
    let lines = std::fs::read_to_string(place.0.join("net.learned")).unwrap_or_default();
    let lines = lines.lines().filter(|l| !l.starts_with('#')).map(|l| format!("{l}\n")).collect();
    (out.status.success(), lines, text(&out.stderr))
}

#[test]
fn a_server_with_a_gateway_is_learned_from_its_capture() {
    let (done, lines, told) = learned("learn-server", server(), "");
    assert!(done, "{told}");
    assert_eq!(
        lines,
        "link add name eth0 address 02:00:00:00:00:01 type dummy\n\
         link set dev eth0 up\n\
         addr add 198.18.0.5/32 dev eth0\n\
         route add 198.18.0.1 dev eth0\n\
         route add 198.18.0.9 dev eth0\n\
         route add default via 198.18.0.1 dev eth0 onlink\n\
         neigh add 198.18.0.1 lladdr 02:00:00:00:00:02 dev eth0 nud permanent\n\
         neigh add 198.18.0.9 lladdr 02:00:00:00:00:03 dev eth0 nud permanent\n"
    );
    for said in [
        "note: IPv4 addresses that no frame shows the place of are taken to lie beyond \
         02:00:00:00:00:02 on eth0",
        "note: no frame tells the length of the prefix of 198.18.0.5 on eth0",
        "delivered             5",
    ] {
        assert!(told.contains(said), "{said}: {told}");
    }
}

#[test]
fn broadcasts_tell_the_prefix() {
    let mut frames = server();
    for (end, host) in [(3, 9), (4, 200)] {
        frames.push(frame(end, ALL, packet([198, 18, 0, host], [198, 18, 0, 255], 137)));
    }
    let (_, lines, told) = learned("learn-broadcast", frames, "");
    assert!(lines.contains("addr add 198.18.0.5/24 dev eth0\n"), "{lines}{told}");
    assert!(!lines.contains("route add 198.18.0.9"), "{lines}");
    assert!(lines.contains("route add default via 198.18.0.1 dev eth0"), "{lines}");
}

#[test]
fn tagged_frames_are_of_a_device_on_top() {
    let frames = server().into_iter().map(|frame| tagged(frame, 7)).collect();
    let (_, lines, told) = learned("learn-vlan", frames, "");
    assert!(lines.contains("link add link eth0 name eth0.7 type vlan id 7\n"), "{lines}{told}");
    assert!(lines.contains("addr add 198.18.0.5/32 dev eth0.7\n"), "{lines}");
    assert!(told.contains("delivered             5"), "{told}");
}

#[test]
fn a_gateway_that_never_says_its_address_gets_one() {
    let frames: Vec<_> = server().into_iter().skip(4).collect();
    let (done, lines, told) =
        learned("learn-silent", frames, "--link-address eth0=02:00:00:00:00:01");
    assert!(done, "{told}");
    let link_local = "fe80::ff:fe00:2";
    for line in [
        format!("route add default via inet6 {link_local} dev eth0 onlink\n"),
        format!("neigh add {link_local} lladdr 02:00:00:00:00:02 dev eth0 nud permanent\n"),
        "addr add 198.18.0.5/32 dev eth0\n".to_owned(),
    ] {
        assert!(lines.contains(&line), "{line}{lines}");
    }
}

#[test]
fn what_frames_do_not_tell_is_asked_for() {
    let two_ends: Vec<_> = server().into_iter().skip(4).collect();
    let (done, _, told) = learned("learn-ends", two_ends.clone(), "");
    assert!(!done);
    for line in [
        "the frames of eth0 do not tell which of their ends is eth0 itself",
        "--link-address eth0=02:00:00:00:00:01  (sends from 198.18.0.5)",
        "--link-address eth0=02:00:00:00:00:02  (sends from 198.19.0.7 and 2 others)",
        "with --as-is",
    ] {
        assert!(told.contains(line), "{line}: {told}");
    }
    let arriving: Vec<_> = two_ends.into_iter().step_by(2).collect();
    let (done, lines, told) = learned("learn-as-is", arriving, "--as-is");
    assert!(done && lines.contains("eth0 address 02:00:00:00:00:01"), "{lines}{told}");
    assert!(
        told.contains(
            "no frame tells an IPv4 address of eth0: frames to it are for 198.18.0.5; what is its \
             own needs `addr add ADDRESS/LENGTH dev eth0` in the network"
        ),
        "{told}"
    );

    let (done, _, told) = learned("learn-other", server(), "--link-address eth1=02:00:00:00:00:01");
    assert!(!done && told.contains("no capture is of a device `eth1`"), "{told}");
}

/// Frames that no line of the network is about.
#[test]
fn the_summary_says_which_lines_are_missing() {
    let place = TestDir::new("missing");
    let to = |end, address| frame(0x10, end, packet([198, 18, 0, 10], address, 53));
    let (lan, other) = (0x51, 0x52);
    let frames = [to(lan, [198, 19, 0, 77]), to(other, [198, 19, 0, 2]), to(lan, [198, 19, 0, 77])];
    place.capture("lan.pcap", LinkType::Ethernet, &frames.map(|frame| (T, frame)));
    let net = crate::place::NET.replace("02:00:00:00:01:01", "02:00:00:00:00:51");
    place.write("net.ip", net.as_bytes());
    let out = place.run("--net net.ip --rules rules.nft --as-is --read lan=lan.pcap");
    let told = text(&out.stderr);
    for line in [
        "note: 1 frames are for other hosts; if they are for this one, the network needs\n    link \
         set dev lan address 02:00:00:00:00:52  # 1 frames\n",
        "note: 2 packets are for neighbours without a link address; the network needs \
         (--learn-neighbours takes what the captures show)\n    neigh add 198.19.0.77 lladdr \
         ADDRESS dev wan nud permanent  # 2 packets\n",
    ] {
        assert!(told.contains(line), "{line}: {told}");
    }

    // The neighbour speaks.
    let back = frame(7, 9, packet([198, 19, 0, 77], [198, 18, 0, 10], 5000));
    place.capture("wan.pcap", LinkType::Ethernet, &[(T + 9, back)]);
    let out = place.run(
        "--net net.ip --rules rules.nft --as-is --learn-neighbours --read lan=lan.pcap wan=wan.pcap",
    );
    let told = text(&out.stderr);
    let line = "neigh add 198.19.0.77 lladdr 02:00:00:00:00:07 dev wan nud permanent";
    assert!(told.contains(line) && !told.contains("without a link address"), "{told}");
}

#[test]
fn options_of_learning_that_say_nothing_are_refused() {
    let place = TestDir::new("learn-options");
    place.capture("lan.pcap", LinkType::Ethernet, &[(T, frame(2, 1, packet([1; 4], [2; 4], 1)))]);
    for (options, message) in [
        ("--net net.ip --net-out x", "--net-out writes what is learned"),
        ("--learn-neighbours", "--learn-neighbours adds to a --net, which is missing"),
        ("--net net.ip --link-address lan=02:00:00:00:00:01", "exclude each other"),
        ("--link-address lan=ff:ff:ff:ff:ff:ff", "--link-address takes DEV=ADDRESS"),
    ] {
        let out = place.run(&format!("--rules rules.nft --read lan=lan.pcap {options}"));
        let told = text(&out.stderr);
        assert!(out.status.code() == Some(2) && told.contains(message), "{options}: {told}");
    }
    let out = place.run("--rules rules.nft --read lan=-");
    assert!(text(&out.stderr).contains("standard input can be read once only"));
}
