// SPDX-License-Identifier: Apache-2.0

//! Frames of flows: what the XDP program makes of them, against frames that the builder makes.

mod rights;

use std::net::IpAddr;
use std::sync::Arc;

use penstock_bpf::{AttachPoint, Next, Program, SocketFilter, possible_cpus, tcx, xdp};
use penstock_ebpf::flow::{FlowHalf, FlowStatistics, Flows, Hardware, Port, Ports, Site};
use penstock_flowtable::arrival::Encaps;
use penstock_flowtable::offload::{
    FlowOffload, HardwareCounts, HardwareFlow, HardwareHalf, OffloadError,
};
use penstock_flowtable::tunnel::Outer;
use penstock_flowtable::{Arrival, Encap, Key, Tunnel, Xmit};
use penstock_testkit::build::*;

/// The loopback device stands for all: nothing is sent.
const DEVICE: u32 = 1;

const HERE: &str = "02:00:00:00:00:02";
const THERE: &str = "02:00:00:00:00:03";

fn key(from: &str, to: &str, ports: [u16; 2], protocol: u8) -> Key {
    Key::new(from.parse().unwrap(), to.parse().unwrap(), ports, protocol)
}

fn xmit() -> Xmit {
    Xmit::neighbour(DEVICE, [2, 0, 0, 0, 0, 3], [2, 0, 0, 0, 0, 2], 1500)
}

fn encap(mut xmit: Xmit, id: u16, protocol: u16) -> Xmit {
    assert!(xmit.encaps.push(Encap { id, protocol }));
    xmit
}

fn tunnel(src: &str, dst: &str) -> Option<Tunnel> {
    let address = |text: &str| text.parse::<IpAddr>().unwrap();
    Some(Tunnel { src: address(src), dst: address(dst), protocol: 4 })
}

fn tagged(id: u16, protocol: u16) -> Arrival {
    let mut arrival = Arrival::on(DEVICE);
    assert!(arrival.encaps.push(Encap { id, protocol }));
    arrival
}

fn came() -> Ethernet {
    Ethernet::new("02:00:00:00:00:01", HERE)
}

fn left() -> Ethernet {
    Ethernet::new(HERE, THERE)
}

/// Version, code, session and length, as the builder has no layer for it, in front of what follows.
fn session(front: Ethernet, id: u16, ip: Vec<u8>) -> Vec<u8> {
    let mut frame = front.ethertype(0x8864).build();
    frame.extend([0x11, 0]);
    frame.extend(id.to_be_bytes());
    frame.extend((ip.len() as u16 + 2).to_be_bytes());
    frame.extend([0, 0x21]);
    frame.extend(ip);
    frame
}

struct Case {
    name: &'static str,
    key: Key,
    arrival: Arrival,
    to: Key,
    xmit: Xmit,
    frame: Vec<u8>,
    /// `None` if it goes up as it is.
    sent: Option<Vec<u8>>,
}

/// A flow with translated addresses and ports at both ends, over UDP.
fn translated() -> (Key, Key) {
    (
        key("198.18.1.7", "198.18.9.9", [1000, 53], 17),
        key("198.18.0.1", "198.19.0.4", [40000, 5353], 17),
    )
}

fn cases() -> Vec<Case> {
    let (udp, out) = translated();
    let plain = Arrival::on(DEVICE);
    let with = |protocol| move |key: Key| Key { l4: protocol, ..key };
    let (tcp, tcp_out) = (with(6)(udp), with(6)(out));
    let data = || payload(b"some data");
    let before = || Ipv4::new("198.18.1.7", "198.18.9.9").id(7).ttl(64).tos(0x28).df();
    let after = || Ipv4::new("198.18.0.1", "198.19.0.4").id(7).ttl(63).tos(0x28).df();
    let udp_before = || before() / Udp::new(1000, 53) / data();
    let udp_after = || after() / Udp::new(40000, 5353) / data();
    let segment = |sport, dport| Tcp::new(sport, dport).ack(9).seq(5).psh();
    let v6 = key("2001:db8:1::7", "2001:db8:9::9", [1000, 53], 17);
    let v6_out = key("2001:db8:0:5::1", "2001:db8:9::a", [1001, 54], 17);
    let v6_before = || Ipv6::new("2001:db8:1::7", "2001:db8:9::9").hop_limit(9).flow_label(5);
    let v6_after = || Ipv6::new("2001:db8:0:5::1", "2001:db8:9::a").hop_limit(8).flow_label(5);
    let case = |name, frame: Vec<u8>, sent: Option<Vec<u8>>| Case {
        name,
        key: udp,
        arrival: plain,
        to: out,
        xmit: xmit(),
        frame,
        sent,
    };
    let up = |name, frame: Frame| case(name, frame.build(), None);
    let outer = || Ipv4::new("198.18.200.1", "198.18.200.2").id(99).ttl(33);
    let mut tunnelled = plain;
    tunnelled.tunnel = tunnel("198.18.200.1", "198.18.200.2");
    let mut into_tunnel = xmit();
    let outer_of = |ends: Option<Tunnel>| {
        let ends = ends.unwrap();
        Outer { ends, ttl: 0, tos: None, df: false, encap_limit: None, flow_label: None }
    };
    // As the packet: TOS, TTL, may not be cut; without a number then.
    into_tunnel.tunnel = Some(outer_of(tunnel("198.18.201.1", "198.18.201.2")));
    let mut own_settings = into_tunnel;
    own_settings.tunnel =
        into_tunnel.tunnel.map(|o| Outer { ttl: 99, tos: Some(0x40), df: true, ..o });
    let congested = || before().tos(0x2b).frag(0);
    let new_outer = || Ipv4::new("198.18.201.1", "198.18.201.2").id(0).ttl(63).tos(0x28).df();
    let plain_out = (left() / udp_after()).build();
    let plain_in = (came() / udp_before()).build();
    let ip_in = (before() / Udp::new(1000, 53) / data()).build();
    let ip_out = (after() / Udp::new(40000, 5353) / data()).build();
    vec![
        case("udp", plain_in.clone(), Some(plain_out.clone())),
        case(
            "udp_without_checksum",
            (came() / before() / Udp::new(1000, 53).checksum(0) / data()).build(),
            Some((left() / after() / Udp::new(40000, 5353).checksum(0) / data()).build()),
        ),
        case(
            "padding_stays",
            (came() / udp_before()).pad_to(80).build(),
            Some((left() / udp_after()).pad_to(80).build()),
        ),
        Case {
            to: udp,
            ..case(
                "nothing_translated",
                plain_in.clone(),
                Some((left() / before().ttl(63) / Udp::new(1000, 53) / data()).build()),
            )
        },
        Case {
            key: tcp,
            to: tcp_out,
            ..case(
                "tcp",
                (came() / before() / segment(1000, 53) / data()).build(),
                Some((left() / after() / segment(40000, 5353) / data()).build()),
            )
        },
        Case {
            key: tcp,
            to: tcp_out,
            ..up("tcp_syn", came() / before() / Tcp::new(1000, 53).syn())
        },
        Case {
            key: tcp,
            to: tcp_out,
            ..up("tcp_fin", came() / before() / segment(1000, 53).fin())
        },
        Case {
            key: tcp,
            to: tcp_out,
            ..up("tcp_rst", came() / before() / segment(1000, 53).rst())
        },
        Case {
            key: v6,
            to: v6_out,
            ..case(
                "udp_over_ipv6",
                (came() / v6_before() / Udp::new(1000, 53) / data()).build(),
                Some((left() / v6_after() / Udp::new(1001, 54) / data()).build()),
            )
        },
        Case {
            key: with(6)(v6),
            to: with(6)(v6_out),
            ..case(
                "tcp_over_ipv6",
                (came() / v6_before() / segment(1000, 53) / data()).build(),
                Some((left() / v6_after() / segment(1001, 54) / data()).build()),
            )
        },
        Case {
            key: v6,
            to: v6_out,
            ..up(
                "ipv6_extension_header",
                came() / v6_before() / DestOptions::new() / Udp::new(1000, 53),
            )
        },
        Case {
            key: v6,
            to: v6_out,
            ..up("ipv6_hop_limit", came() / v6_before().hop_limit(1) / Udp::new(1000, 53))
        },
        up("another_port", came() / before() / Udp::new(1000, 54) / data()),
        up("ttl_ends", came() / before().ttl(1) / Udp::new(1000, 53) / data()),
        up("options", came() / before().options(&[1, 1, 1, 1]) / Udp::new(1000, 53) / data()),
        up("first_fragment", came() / before().fragment(0, true) / Udp::new(1000, 53) / data()),
        up("later_fragment", came() / before().fragment(2, false) / Udp::new(1000, 53) / data()),
        up("longer_than_the_frame", came() / before().total_len(80) / Udp::new(1000, 53) / data()),
        up("shorter_than_udp", came() / before().total_len(27) / Udp::new(1000, 53) / data()),
        up("not_this_vlan", came() / Vlan::new(5) / udp_before()),
        Case { xmit: Xmit { mtu: 36, ..xmit() }, ..case("mtu", plain_in.clone(), None) },
        Case {
            xmit: Xmit { mtu: 37, ..xmit() },
            ..case("mtu_fits", plain_in.clone(), Some(plain_out.clone()))
        },
        Case {
            arrival: tagged(5, 0x8100),
            ..case(
                "vlan_off",
                (came() / Vlan::new(5) / udp_before()).build(),
                Some(plain_out.clone()),
            )
        },
        Case {
            arrival: tagged(5, 0x8100),
            ..up("vlan_with_priority", came() / Vlan::new(5).priority(3) / udp_before())
        },
        Case {
            xmit: encap(xmit(), 9, 0x8100),
            ..case("vlan_on", plain_in.clone(), Some((left() / Vlan::new(9) / udp_after()).build()))
        },
        Case {
            arrival: tagged(5, 0x88a8),
            xmit: encap(xmit(), 9, 0x8100),
            ..case(
                "vlan_exchanged",
                (came() / Vlan::new(5).service() / udp_before()).build(),
                Some((left() / Vlan::new(9) / udp_after()).build()),
            )
        },
        Case {
            xmit: encap(encap(xmit(), 7, 0x88a8), 9, 0x8100),
            ..case(
                "two_vlans_on",
                plain_in.clone(),
                Some((left() / Vlan::new(7).service() / Vlan::new(9) / udp_after()).build()),
            )
        },
        Case {
            arrival: tagged(5, 0x8100),
            ..up("another_vlan", came() / Vlan::new(6) / udp_before())
        },
        Case {
            arrival: tagged(77, 0x8864),
            ..case("session_off", session(came(), 77, ip_in.clone()), Some(plain_out.clone()))
        },
        Case {
            xmit: encap(xmit(), 88, 0x8864),
            ..case("session_on", plain_in.clone(), Some(session(left(), 88, ip_out)))
        },
        Case {
            arrival: tagged(77, 0x8864),
            ..case("another_session", session(came(), 78, ip_in), None)
        },
        Case {
            arrival: tunnelled,
            ..case("tunnel_off", (came() / outer() / udp_before()).build(), Some(plain_out))
        },
        Case { arrival: tunnelled, ..up("not_from_the_tunnel", came() / udp_before()) },
        Case {
            arrival: tunnelled,
            ..up("congestion_in_the_tunnel", came() / outer().tos(3) / udp_before())
        },
        Case {
            arrival: tunnelled,
            ..up(
                "from_another_tunnel",
                came() / Ipv4::new("198.18.200.1", "198.18.200.3").id(99).ttl(33) / udp_before(),
            )
        },
        Case {
            xmit: into_tunnel,
            ..case(
                "tunnel_on",
                plain_in.clone(),
                Some((left() / new_outer() / udp_after()).build()),
            )
        },
        Case {
            xmit: own_settings,
            ..case(
                "tunnel_with_settings_on",
                (came() / congested() / Udp::new(1000, 53) / data()).build(),
                Some(
                    (left()
                        / new_outer().ttl(99).tos(0x42)
                        / after().tos(0x2b).frag(0)
                        / Udp::new(40000, 5353)
                        / data())
                    .build(),
                ),
            )
        },
        Case {
            arrival: tagged(5, 0x8100),
            xmit: encap(into_tunnel, 9, 0x8100),
            ..case(
                "vlan_and_tunnel_on",
                (came() / Vlan::new(5) / udp_before()).build(),
                Some((left() / Vlan::new(9) / new_outer() / udp_after()).build()),
            )
        },
        case("not_ip", (came() / Vlan::new(5) / payload(b"something")).build(), None),
        case("short", came().build(), None),
    ]
}

#[test]
fn frames_of_flows_leave_as_the_flow_says() {
    if !rights::may_load() {
        return;
    }
    for case in cases() {
        let name = case.name;
        let flows = Flows::new(16);
        let program = Program::load(
            AttachPoint::Xdp,
            "flow",
            &flows.program(&Site::new(AttachPoint::Xdp, Next::Pass)).unwrap(),
        )
        .unwrap_or_else(|e| panic!("{name}: {e}\n{}", e.log));
        let half =
            FlowHalf { key: &case.key, arrival: &case.arrival, to: &case.to, xmit: &case.xmit };
        flows.add(&half, 5).unwrap();
        let before = program.run(&case.frame, 0, 1).unwrap();
        let (verdict, frame, packets) = match &case.sent {
            Some(frame) => (xdp::REDIRECT, frame, 1),
            None => (xdp::PASS, &case.frame, 0),
        };
        assert_eq!((before.verdict, &before.frame), (verdict, frame), "{name}");
        let FlowStatistics { packets: counted, bytes, used } =
            flows.statistics(&half).unwrap().unwrap();
        assert_eq!((counted, used > 5), (packets, packets > 0), "{name}");
        // From the network header on, after what was around it.
        let around = match (case.arrival.encaps.as_slice().first(), case.arrival.tunnel) {
            (Some(Encap { protocol: 0x8864, .. }), _) => 22,
            (Some(_), _) => 18,
            (None, Some(_)) => 34,
            (None, None) => 14,
        };
        assert_eq!(bytes, packets * (case.frame.len() as u64 - around), "{name}");
        // Gone, the flow's packets go up.
        assert!(flows.remove(&half).unwrap().is_some(), "{name}");
        assert_eq!(program.run(&case.frame, 0, 1).unwrap().verdict, xdp::PASS, "{name}");
    }
}

/// At tcx a tag is metadata, and other encapsulation is unknown.
#[test]
fn packets_of_flows_leave_tcx_as_the_flow_says() {
    if !rights::may_load() {
        return;
    }
    for case in cases() {
        let name = case.name;
        // No packet for the kernel, or with a tag in it, as none comes there.
        if matches!(name, "short" | "not_ip" | "not_this_vlan" | "another_vlan")
            || case.arrival != Arrival::on(DEVICE)
        {
            continue;
        }
        let flows = Flows::new(16);
        let program = Program::load(
            AttachPoint::Tcx,
            "flow",
            &flows.program(&Site::new(AttachPoint::Tcx, Next::Pass)).unwrap(),
        )
        .unwrap_or_else(|e| panic!("{name}: {e}\n{}", e.log));
        let half =
            FlowHalf { key: &case.key, arrival: &case.arrival, to: &case.to, xmit: &case.xmit };
        flows.add(&half, 5).unwrap();
        let before = program.run(&case.frame, 0, 1).unwrap();
        let sent = match (&case.sent, case.xmit.encaps.as_slice(), case.xmit.tunnel) {
            (Some(frame), [], None) => Some(frame.clone()),
            // The tag stays in the metadata.
            (Some(frame), [Encap { protocol: 0x8100, .. }], None) => {
                Some([frame.get(..12).unwrap(), frame.get(16..).unwrap()].concat())
            }
            _ => None,
        };
        let (verdict, frame, packets) = match &sent {
            Some(frame) => (tcx::REDIRECT, frame, 1),
            None => (tcx::NEXT, &case.frame, 0),
        };
        assert_eq!((before.verdict, &before.frame), (verdict, frame), "{name}");
        // The filter of a packet socket keeps exactly these from it. The test runs it after the
        // link header, so there are two.
        let filter = SocketFilter::load("filter", &flows.filter(&Site::claims(), None).unwrap());
        let filter = filter.unwrap_or_else(|e| panic!("{name}: {e}\n{}", e.log));
        let twice = [case.frame.get(..14).unwrap(), &case.frame].concat();
        assert_eq!(filter.run(&twice).unwrap() == 0, sent.is_some(), "{name}");
        let FlowStatistics { packets: counted, bytes, .. } =
            flows.statistics(&half).unwrap().unwrap();
        assert_eq!((counted, bytes), (packets, packets * (case.frame.len() as u64 - 14)), "{name}");
    }
}

/// What packet sockets got the program at tcx leaves alone, once; in XDP frames go up that are for
/// others, or that a device was to finish.
#[test]
fn unhandled_frames_pass_to_the_stack() {
    if !rights::may_load() {
        return;
    }
    let flows = Flows::new(16);
    let (key, to) = translated();
    let half = FlowHalf { key: &key, arrival: &Arrival::on(DEVICE), to: &to, xmit: &xmit() };
    flows.add(&half, 0).unwrap();
    let load =
        |site: &Site| Program::load(site.place, "flow", &flows.program(site).unwrap()).unwrap();
    let frame =
        || came() / Ipv4::new("198.18.1.7", "198.18.9.9") / Udp::new(1000, 53) / payload(b"data");

    let claims = Site::claims();
    let site = Site { claims: Some(claims.clone()), ..Site::new(AttachPoint::Tcx, Next::Pass) };
    let program = load(&site);
    let note = |word: u64| {
        let words: Vec<u8> = (0..possible_cpus()).flat_map(|_| word.to_ne_bytes()).collect();
        claims.set(&[0; 4], &words).unwrap();
    };
    let run = || program.run(&frame().build(), 0, 1).unwrap().verdict;
    assert_eq!(run(), tcx::REDIRECT);
    note(1);
    assert_eq!(run(), tcx::NEXT);
    note(0);
    assert_eq!(run(), tcx::REDIRECT);

    let mac = |n| Some(penstock_wire::ethernet::Mac([2, 0, 0, 0, 0, n]));
    for (address, unfinished, checksum, verdict) in [
        (mac(2), false, None, xdp::REDIRECT),
        (mac(3), false, None, xdp::PASS),
        (mac(2), true, None, xdp::REDIRECT),
        (mac(2), true, Some(0), xdp::REDIRECT),
        (mac(2), true, Some(PSEUDO), xdp::PASS),
        (mac(2), false, Some(PSEUDO), xdp::REDIRECT),
    ] {
        let mut bytes = frame().build();
        if let Some(checksum) = checksum {
            bytes[40..42].copy_from_slice(&u16::to_be_bytes(checksum));
        }
        let site = Site { address, unfinished, ..Site::new(AttachPoint::Xdp, Next::Pass) };
        let found = load(&site).run(&bytes, 0, 1).unwrap().verdict;
        assert_eq!(found, verdict, "{address:?} {unfinished} {checksum:?}");
    }
}

/// The sum over addresses, protocol and length of the frame above.
const PSEUDO: u16 = {
    let words = [0xc612, 0x0107, 0xc612, 0x0909, 17, 12];
    let (mut sum, mut i) = (0_u32, 0);
    while i < words.len() {
        sum += words[i];
        i += 1;
    }
    ((sum & 0xffff) + (sum >> 16)) as u16
};

/// Both directions, on ports: the device `wan` is a VLAN device on the port.
#[test]
fn the_flowtable_syncs_flows_with_the_maps() {
    if !rights::may_load() {
        return;
    }
    let (lan, wan) = (20, 30);
    let ports = Ports::new();
    let mut vlan = Encaps::NONE;
    assert!(vlan.push(Encap { id: 9, protocol: 0x8100 }));
    let flows = Arc::new(Flows::new(4));
    let code = flows.program(&Site::new(AttachPoint::Xdp, Next::Pass)).unwrap();
    let program = Program::load(AttachPoint::Xdp, "flow", &code).unwrap();
    let mut hardware = Hardware::new(flows.clone(), ports.clone());
    let (there, out) = translated();
    let back = key("198.19.0.4", "198.18.0.1", [5353, 40000], 17);
    let back_out = key("198.18.9.9", "198.18.1.7", [53, 1000], 17);
    let mut reply_arrival = Arrival::on(lan);
    assert!(reply_arrival.encaps.push(Encap { id: 9, protocol: 0x8100 }));
    let half = |key, arrival, leaves, device| HardwareHalf {
        key,
        arrival,
        leaves,
        xmit: Xmit { device, ..xmit() },
    };
    let flow = HardwareFlow {
        halves: [half(there, Arrival::on(lan), out, wan), half(back, reply_arrival, back_out, lan)],
    };
    assert_eq!(hardware.add(1, &flow), Err(OffloadError::Unsupported), "no ports");
    let port = |encaps, xdp_sends| {
        Some(Port { device: DEVICE, encaps, place: Some(AttachPoint::Xdp), xdp_sends })
    };
    ports.set(lan, port(Encaps::NONE, true));
    ports.set(wan, port(vlan, false));
    assert_eq!(hardware.add(1, &flow), Err(OffloadError::Unsupported), "no way out");
    ports.set(wan, port(vlan, true));
    assert_eq!(hardware.add(1, &flow), Ok(()));
    assert_eq!(hardware.statistics(1).unwrap(), HardwareCounts::default());
    let frame = (came() / Ipv4::new("198.18.1.7", "198.18.9.9") / Udp::new(1000, 53)).build();
    let ran = program.run(&frame, 0, 1).unwrap();
    let sent = left()
        / Vlan::new(9)
        / Ipv4::new("198.18.0.1", "198.19.0.4").ttl(63)
        / Udp::new(40000, 5353);
    assert_eq!((ran.verdict, ran.frame), (xdp::REDIRECT, sent.build()));
    let answer =
        came() / Vlan::new(9) / Ipv4::new("198.19.0.4", "198.18.0.1") / Udp::new(5353, 40000);
    assert_eq!(
        program.run(&answer.build(), 0, 3).unwrap().verdict,
        xdp::PASS,
        "its TTL ends in the end"
    );
    let counts = hardware.statistics(1).unwrap();
    assert_eq!(counts.packets.map(|(packets, _)| packets > 0), [true, true]);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos()
        as u64;
    assert!(counts.used.abs_diff(now) < 60_000_000_000, "{counts:?} at {now}");
    // Further flows do not fit, and leave no entry.
    let other = |n: u16| {
        let mut other = flow;
        other.halves.iter_mut().for_each(|half| half.key = Key { ports: u32::from(n), ..half.key });
        other
    };
    let mut added = (0..).map(|n| hardware.add(u64::from(n) + 2, &other(n)));
    assert_eq!(added.find(|r| r.is_err()), Some(Err(OffloadError::Full)));
    // What was told is not told again.
    let since = hardware.statistics(1).unwrap().packets;
    assert_eq!((since, hardware.delete(1).packets), ([(0, 0); 2], [(0, 0); 2]));
    assert_eq!(program.run(&frame, 0, 1).unwrap().verdict, xdp::PASS);
    assert_eq!((hardware.statistics(1), hardware.delete(1)), (None, HardwareCounts::default()));
    assert_eq!(hardware.add(1, &flow), Ok(()));
}

#[test]
fn flows_that_bpf_cannot_handle_stay_in_software() {
    let (udp, out) = translated();
    let plain = Arrival::on(DEVICE);
    let mut two = tagged(5, 0x88a8);
    assert!(two.encaps.push(Encap { id: 6, protocol: 0x8100 }));
    let mut v6_tunnel = xmit();
    let ends = Tunnel { protocol: 41, ..tunnel("2001:db8::1", "2001:db8::2").unwrap() };
    v6_tunnel.tunnel =
        Some(Outer { ends, ttl: 0, tos: None, df: false, encap_limit: None, flow_label: None });
    let ipsec = Xmit { xmit_type: penstock_flowtable::XmitType::Xfrm(1), ..xmit() };
    let gre = Key { l4: 47, ..udp };
    for (key, arrival, xmit, reason) in [
        (gre, plain, xmit(), "a protocol other than TCP and UDP"),
        (udp, two, xmit(), "it arrives with more than one tag"),
        (udp, plain, v6_tunnel, "a tunnel other than IPIP"),
        (udp, plain, ipsec, "it leaves through IPsec"),
        (udp, plain, encap(xmit(), 1, 0x1234), "it leaves with a header that is no tag"),
    ] {
        let half = FlowHalf { key: &key, arrival: &arrival, to: &out, xmit: &xmit };
        let refused = Flows::new(16).check(&half).unwrap_err();
        assert_eq!(refused.0, reason);
    }
}
