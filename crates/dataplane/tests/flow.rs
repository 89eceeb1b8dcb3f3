// SPDX-License-Identifier: Apache-2.0

//! Flowtables: what leaves is what leaves without them.

mod router;

use std::collections::BTreeMap;
use std::sync::Arc;

use penstock_dataplane::{Dataplane, Frame};
use penstock_lang::names::NoNames;
use penstock_lang::session::{Options, Session};
use penstock_lang::source::{NoFiles, Origin};
use penstock_ruleset::Ruleset;
use penstock_ruleset::link::Linked;
use penstock_testkit::build::*;
use penstock_wire::tcp::flag;
use router::*;

/// Where a flowtable is, if anywhere.
#[derive(Clone, Copy, Debug, PartialEq)]
enum At {
    Nowhere,
    Ingress,
    EarlyIngress,
}

impl At {
    /// A flowtable `f`, and a rule that puts flows there.
    fn texts(self, flags: &str) -> (String, &'static str) {
        let hook = match self {
            At::Nowhere => return (String::new(), ""),
            At::Ingress => "ingress",
            At::EarlyIngress => "early_ingress",
        };
        let flowtable =
            format!("flowtable f {{ hook {hook} priority 0; devices = {{ wan, lan }}; {flags} }}");
        (flowtable, "meta l4proto { tcp, udp } flow add @f")
    }
}

/// Masquerades what leaves by `wan`, forwards a port to the host behind `lan`.
fn rules(at: At, more: &str) -> String {
    let (flowtable, add) = at.texts("counter;");
    format!(
        "table inet t {{
            {flowtable}
            chain f {{
                type filter hook forward priority 0
                {add}
                {more}
            }}
            chain in {{
                type nat hook prerouting priority dstnat
                iifname wan tcp dport 8080 dnat ip to 198.18.1.7:80
            }}
            chain out {{
                type nat hook postrouting priority srcnat
                oifname wan meta nfproto ipv4 masquerade
            }}
        }}"
    )
}

fn commit(ruleset: &mut Ruleset, text: &str) {
    let mut session = Session::new(Options::default(), &NoFiles, &NoNames);
    let outcome = session.run(Origin::CommandLine, text.to_owned(), ruleset, 0);
    assert!(outcome.ok, "{}\n{text}", outcome.stderr);
}

fn set_rules(path: &mut Dataplane, text: &str) -> Ruleset {
    let mut ruleset = Ruleset::default();
    commit(&mut ruleset, text);
    path.set_rules(Arc::new(Linked::new(&ruleset.generation()).unwrap_or_else(|e| panic!("{e}"))));
    ruleset
}

fn with_rules(text: &str) -> Dataplane {
    let mut path = router(NET);
    set_rules(&mut path, text);
    path
}

/// A frame at a time in microseconds from the start.
#[derive(Clone, Debug)]
struct Step {
    device: &'static str,
    micros: u64,
    frame: Vec<u8>,
}

fn lan(micros: u64, frame: Vec<u8>) -> Step {
    Step { device: "lan", micros, frame }
}

fn wan(micros: u64, frame: Vec<u8>) -> Step {
    Step { device: "wan", micros, frame }
}

fn run(path: &mut Dataplane, steps: &[Step]) -> Seen {
    let mut seen = Seen::default();
    let index = |path: &Dataplane, name| path.network().link_by_name(name).unwrap().index;
    let devices = [index(path, "wan"), index(path, "lan")];
    let frames = steps.iter().map(|step| Frame {
        device: devices[usize::from(step.device == "lan")],
        bytes: &step.frame,
        time: START + step.micros * 1000,
    });
    path.receive(frames, &mut seen);
    seen
}

/// What leaves of each flow on a device, in order; fragments and all else by hosts. What the router
/// itself says has its own number, which depends on the order of flows.
fn by_flow(seen: &Seen) -> BTreeMap<(String, Vec<u8>), Vec<String>> {
    let mut out: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (device, frame) in &seen.frames {
        let (addresses, ports) = match frame[12..14] {
            [8, 0] if frame[20] & 0x3f | frame[21] != 0 => (26..34, 0..0),
            [8, 0] => (26..34, 34..38),
            _ => (22..54, 54..58),
        };
        let ports =
            if matches!(frame[23], 6 | 17) || frame[12..14] != [8, 0] { ports } else { 0..0 };
        let key = [&frame[addresses], &frame[ports]].concat();
        let mut frame = frame.clone();
        if frame[12..14] == [8, 0] && frame[23] == 1 && frame[34] != 8 && frame[34] != 0 {
            (frame[18], frame[19], frame[24], frame[25]) = (0, 0, 0, 0);
        }
        let line = format!("{} {:02x?}", describe_frame(&frame), &frame[..frame.len().min(80)]);
        out.entry((device.clone(), key)).or_default().push(line);
    }
    out
}

fn udp(from: Ethernet, src: &str, dst: &str, ports: [u16; 2], data: &[u8]) -> Vec<u8> {
    (from / Ipv4::new(src, dst) / Udp::new(ports[0], ports[1]) / payload(data)).build()
}

/// An exchange over UDP from behind the router; answers come to its address.
fn udp_flow(start: u64, port: u16, packets: u64) -> Vec<Step> {
    let there = udp(from_lan(), "198.18.1.7", "198.18.0.7", [port, 53], b"question");
    let back = udp(from_wan(), "198.18.0.7", "198.18.0.1", [53, port], b"answer");
    (0..packets)
        .flat_map(|n| [lan(start + 20 * n, there.clone()), wan(start + 20 * n + 7, back.clone())])
        .collect()
}

#[test]
fn the_second_packet_of_udp_is_offloaded_and_leaves_as_before() {
    for at in [At::Ingress, At::EarlyIngress] {
        let steps = udp_flow(0, 1000, 5);
        let plain = run(&mut with_rules(&rules(At::Nowhere, "")), &steps);
        let mut path = with_rules(&rules(at, "counter"));
        let fast = run(&mut path, &steps);
        assert_eq!(by_flow(&fast), by_flow(&plain), "{at:?}");
        assert_eq!(plain.frames.len(), 10);
        let counts = path.flow_counts();
        assert_eq!((counts.added, counts.expired, counts.torn_down), (1, 0, 0), "{at:?}");
        // A burst is looked up as it comes.
        if at == At::Ingress {
            assert_eq!((counts.packets, path.counters().fast), (8, 8));
        }
        let line =
            path.conntrack().iter().map(|c| c.line(Default::default()).to_string()).next().unwrap();
        assert!(line.contains("[OFFLOAD]"), "{line}");
        let flow = path.flows().next().unwrap();
        assert_eq!((flow.flowtable, flow.closing, flow.hardware), ("f", false, false));
        assert_eq!(flow.packets.iter().map(|p| p.0).sum::<u64>(), counts.packets);
        // A minute later it is connection tracking's again, and the packet goes there.
        let later = udp_flow(40_000_000, 1000, 1);
        let lines = run(&mut path, &later).lines;
        assert_eq!(lines.len(), 2, "{lines:?}");
        let counts = path.flow_counts();
        assert_eq!((counts.added, counts.expired), (2, 1));
    }
}

/// A story over TCP from behind the router to a server: who sends what, in order.
fn tcp_story(start: u64, port: u16, exchanges: u64, end: &str) -> Vec<Step> {
    let there = |flags: u8, seq: u32, ack: u32, data: &[u8]| {
        let tcp = Tcp::new(port, 80).seq(seq);
        // To give an acknowledgement sets its flag.
        let tcp = if ack == 0 { tcp } else { tcp.ack(ack) }.flags(flags);
        (from_lan() / Ipv4::new("198.18.1.7", "198.18.0.7") / tcp / payload(data)).build()
    };
    let back = |flags: u8, seq: u32, ack: u32, data: &[u8]| {
        let tcp = Tcp::new(80, port).seq(seq).ack(ack).flags(flags);
        (from_wan() / Ipv4::new("198.18.0.7", "198.18.0.1") / tcp / payload(data)).build()
    };
    use flag::{ACK, FIN, PSH, RST, SYN};
    let mut at = start;
    let mut next = || {
        at += 30;
        at
    };
    let mut steps = vec![
        lan(next(), there(SYN, 100, 0, b"")),
        wan(next(), back(SYN | ACK, 900, 101, b"")),
        lan(next(), there(ACK, 101, 901, b"")),
    ];
    let (mut mine, mut theirs) = (101, 901);
    for _ in 0..exchanges {
        steps.push(lan(next(), there(ACK | PSH, mine, theirs, b"0123456789")));
        mine += 10;
        steps.push(wan(next(), back(ACK | PSH, theirs, mine, b"01234")));
        theirs += 5;
    }
    match end {
        "fin" => {
            steps.push(lan(next(), there(FIN | ACK, mine, theirs, b"")));
            steps.push(wan(next(), back(FIN | ACK, theirs, mine + 1, b"")));
            steps.push(lan(next(), there(ACK, mine + 1, theirs + 1, b"")));
        }
        "rst" => steps.push(wan(next(), back(RST | ACK, theirs, mine, b""))),
        _ => {}
    }
    steps
}

/// The state of the only connection, which lines do not have while a flowtable has it.
fn tcp_state(path: &Dataplane) -> &'static str {
    path.conntrack().iter().find_map(|c| c.state()).unwrap_or_default()
}

#[test]
fn tcp_closes_in_the_fast_path_and_a_syn_opens_it_again() {
    for at in [At::Ingress, At::EarlyIngress] {
        for end in ["fin", "rst"] {
            let mut steps = tcp_story(0, 1000, 3, end);
            let mut path = with_rules(&rules(at, ""));
            run(&mut path, &steps);
            assert!(path.flows().all(|f| f.closing), "{at:?} {end}");
            assert_eq!(path.flows().count(), 1, "{at:?} {end}");
            // Conntrack has seen nothing of it: it is established there.
            assert_eq!(tcp_state(&path), "ESTABLISHED");
            // The same ports again: the SYN ends the flow, and opens the connection again.
            let again = tcp_story(5_000, 1000, 2, "");
            run(&mut path, &again[..1]);
            assert_eq!(
                (path.flows().count(), path.flow_counts().torn_down),
                (0, 1),
                "{at:?} {end}"
            );
            assert_eq!(tcp_state(&path), "SYN_SENT");
            run(&mut path, &again[1..]);
            assert_eq!(path.flows().filter(|f| !f.closing).count(), 1, "{at:?} {end}");
            steps.extend(again);
            let plain = run(&mut with_rules(&rules(At::Nowhere, "")), &steps);
            let fast = run(&mut with_rules(&rules(at, "")), &steps);
            assert_eq!(by_flow(&fast), by_flow(&plain), "{at:?} {end}");
        }
    }
}

#[test]
fn flows_that_cannot_be_offloaded_have_a_reason() {
    let unreplied = udp(from_lan(), "198.18.1.7", "198.18.0.7", [9, 53], b"a");
    let ping =
        (from_lan() / Ipv4::new("198.18.1.7", "198.18.0.7") / Icmp::echo_request(1, 1)).build();
    let to_nobody = udp(from_lan(), "198.18.1.9", "198.18.0.7", [9, 53], b"a");
    let rule = |at: At| rules(at, "").replace("meta l4proto { tcp, udp } ", "");
    let fin = tcp_story(0, 7, 0, "fin");
    let syn = fin[..1].to_vec();
    for (steps, reason) in [
        (vec![lan(0, unreplied)], "first packet"),
        (vec![lan(0, ping)], "protocol"),
        (vec![lan(0, to_nobody.clone()), lan(200, to_nobody)], "no neighbour"),
        (syn, "TCP not established"),
        ([0, 1, 3].map(|n| fin[n].clone()).to_vec(), "TCP closing"),
    ] {
        let mut path = with_rules(&rule(At::Ingress));
        run(&mut path, &steps);
        assert_eq!(path.flows().count(), 0, "{reason}");
        let refused: Vec<String> = path.refused_flows().map(|r| r.reason.to_string()).collect();
        assert_eq!(refused, [reason]);
        let counted: Vec<String> = path.flow_refusals().map(|(r, _)| r.to_string()).collect();
        assert!(counted.iter().any(|r| r == reason), "{counted:?}");
    }
}

#[test]
fn a_rule_that_cannot_offload_breaks() {
    let text = rules(At::Ingress, "").replace("flow add @f", "flow add @f counter");
    let mut path = router(NET);
    let ruleset = set_rules(&mut path, &text);
    run(&mut path, &udp_flow(0, 1000, 1)[..1]);
    assert_eq!(counters(&ruleset), [(0, 0)]);
    run(&mut path, &udp_flow(200, 1000, 1)[..1]);
    assert_eq!(counters(&ruleset), [(1, 36)]);
    // What the flowtable takes no rule sees.
    run(&mut path, &udp_flow(400, 1000, 5));
    assert_eq!(counters(&ruleset), [(1, 36)]);
}

/// What changes about the ruleset or the connections ends flows, and packets continue.
#[test]
fn no_flow_outlives_its_table_or_its_connection() {
    for at in [At::Ingress, At::EarlyIngress] {
        type Change = fn(&mut Dataplane, At);
        let change: [(&str, Change); 3] = [
            ("flush", |path, _| _ = path.conntrack_mut().kill_if(|_| true)),
            ("delete", |path, _| _ = set_rules(path, &rules(At::Nowhere, ""))),
            ("replace", |path, at| {
                let text = rules(at, "");
                set_rules(path, &format!("add table inet x; {text}").replace("inet t", "inet u"));
            }),
        ];
        for (what, change) in change {
            let mut path = with_rules(&rules(at, ""));
            run(&mut path, &udp_flow(0, 1000, 8));
            assert_eq!(path.flows().count(), 1);
            change(&mut path, at);
            assert_eq!(path.flows().count(), 0, "{at:?} {what}");
            let offloaded = path
                .conntrack()
                .iter()
                .filter(|c| c.line(Default::default()).to_string().contains("OFFLOAD"));
            assert_eq!(offloaded.count(), 0, "{at:?} {what}");
            let seen = run(&mut path, &udp_flow(1000, 1000, 4));
            assert_eq!(seen.frames.len(), 8, "{at:?} {what} {:?}", seen.lines);
        }
    }
}

#[test]
fn a_generation_that_keeps_the_flowtable_keeps_its_flows() {
    let mut path = router(NET);
    let mut ruleset = set_rules(&mut path, &rules(At::Ingress, ""));
    run(&mut path, &udp_flow(0, 1000, 3));
    commit(
        &mut ruleset,
        "add rule inet t f counter; add flowtable inet t f { devices = { lan.7 }; counter; }",
    );
    path.set_rules(Arc::new(Linked::new(&ruleset.generation()).unwrap()));
    run(&mut path, &udp_flow(1000, 1000, 3));
    assert_eq!((path.flows().count(), path.flow_counts().packets), (1, 4 + 6));
    // Rules that came later do not see its packets.
    assert_eq!(counters(&ruleset), [(0, 0)]);
}

#[test]
fn routes_and_neighbours_that_change_end_flows_that_they_lead_elsewhere() {
    let net = |text: &str| Arc::new(penstock_net::Network::from_batch("net.ip", text).unwrap());
    let other_wan =
        NET.replace("lladdr 02:00:00:00:00:a7 dev wan", "lladdr 02:00:00:00:00:a9 dev wan");
    let down = format!("{NET}link set lan down\n");
    for at in [At::Ingress, At::EarlyIngress] {
        for (what, text, stays, sent) in [
            ("nothing", NET.to_string(), 1, 8),
            ("another route", format!("{NET}route add 192.0.2.0/24 via 198.18.0.7\n"), 1, 8),
            ("neighbour", other_wan.clone(), 1, 8),
            // The requesting host gets an ICMP error.
            ("down", down.clone(), 0, 4),
        ] {
            let mut path = with_rules(&rules(at, ""));
            run(&mut path, &udp_flow(0, 1000, 8));
            path.set_network(net(&text), START + 500_000, &mut Seen::default());
            let seen = run(&mut path, &udp_flow(600, 1000, 4));
            assert_eq!(seen.frames.len(), sent, "{at:?} {what} {:?}", seen.lines);
            assert_eq!(path.flows().count(), stays, "{at:?} {what}");
            let torn_down = u64::from(what == "neighbour" || what == "down");
            assert_eq!(path.flow_counts().torn_down, torn_down, "{at:?} {what}");
            if what == "neighbour" {
                assert!(seen.lines[0].contains("to a9"), "{:?}", seen.lines);
            }
        }
    }
}

#[test]
fn packets_that_fall_back_are_not_overtaken() {
    let data =
        |n: u8, len: usize| udp(from_lan(), "198.18.1.7", "198.18.0.7", [1000, 53], &vec![n; len]);
    let ping =
        (from_lan() / Ipv4::new("198.18.1.7", "198.18.0.7") / Icmp::echo_request(1, 1)).build();
    let options = (from_lan()
        / Ipv4::new("198.18.1.7", "198.18.0.7").options(&[1, 1, 1, 0])
        / Udp::new(1000, 53)
        / payload(b"options"))
    .build();
    for (what, between) in [
        ("a fragmented datagram", fragments(&data(9, 300), 200, 1)),
        ("a message", vec![ping]),
        ("options", vec![options]),
        ("too much for the MTU", vec![data(9, 1480)]),
    ] {
        let mut steps = udp_flow(0, 1000, 12);
        let burst = [vec![data(1, 20)], between, vec![data(2, 20), data(3, 20)]].concat();
        steps.extend(burst.into_iter().zip(0..).map(|(frame, n)| lan(1_000 + n, frame)));
        let plain = run(&mut with_rules(&rules(At::Nowhere, "")), &steps);
        let mut path = with_rules(&rules(At::EarlyIngress, ""));
        let fast = run(&mut path, &steps);
        assert_eq!(fast.lines[24..], plain.lines[24..], "{what}");
        assert!(path.flow_counts().packets > 0 && path.flow_counts().chained > 0, "{what}");
    }
}

#[test]
fn a_burst_of_many_flows_leaves_as_before() {
    // More flows than are fetched at a time, and packets of some that are too long for it.
    const FLOWS: u16 = 30;
    let mut steps: Vec<_> =
        (0..FLOWS).flat_map(|n| udp_flow(1_000 * u64::from(n), 1000 + n, 3)).collect();
    let offloaded = steps.len();
    steps.extend((0..2 * FLOWS).map(|n| {
        let data = vec![n as u8; if n % 11 == 5 { 1480 } else { 20 }];
        let ports = [1000 + n * 7 % FLOWS, 53];
        lan(100_000, udp(from_lan(), "198.18.1.7", "198.18.0.7", ports, &data))
    }));
    let plain = run(&mut with_rules(&rules(At::Nowhere, "")), &steps);
    let mut path = with_rules(&rules(At::EarlyIngress, ""));
    run(&mut path, &steps[..offloaded]);
    let before = path.flow_counts();
    let fast = run(&mut path, &steps[offloaded..]);
    let mut all = by_flow(&plain);
    for (flow, lines) in by_flow(&fast) {
        let expected = all.get_mut(&flow).expect("a flow that was there");
        let rest = expected.split_off(expected.len() - lines.len());
        assert_eq!(lines, rest);
    }
    let after = path.flow_counts();
    assert_eq!(after.added, u64::from(FLOWS));
    assert!(after.packets - before.packets > 2 * u64::from(FLOWS) * 3 / 4, "{after:?}");
    assert!(after.fell_back - before.fell_back >= 5, "{after:?}");
}

#[test]
fn a_super_packet_leaves_as_one_if_its_segments_fit() {
    use penstock_packet::{Gso, GsoKind};
    for at in [At::Ingress, At::EarlyIngress] {
        let mut path = with_rules(&rules(at, ""));
        run(&mut path, &tcp_story(0, 1000, 2, ""));
        let tcp = Tcp::new(1000, 80).seq(121).ack(911).flags(flag::ACK);
        let big =
            (from_lan() / Ipv4::new("198.18.1.7", "198.18.0.7") / tcp / payload([7; 4000])).build();
        let device = path.network().link_by_name("lan").unwrap().index;
        let (frame, before) =
            (Frame { device, bytes: &big, time: START + 1_000_000 }, path.counters().fast);
        for (size, fast) in [(1000, 1), (1480, 1)] {
            let mut seen = Seen::default();
            path.receive_super(frame, Gso { size, kind: GsoKind::Tcp }, &mut seen);
            assert!(size != 1000 || seen.frames.len() == 1, "{at:?} {:?}", seen.lines);
            assert_eq!(path.counters().fast - before, fast, "{at:?} {size}");
        }
    }
}

/// A SYN ends a flow that is closing: what answers it is not looked up before it, wherever both
/// come in.
#[test]
fn a_reopening_syn_is_seen_in_order_in_both_directions() {
    for end in ["fin", "rst"] {
        let before = tcp_story(0, 1000, 2, "");
        // The rest is one burst.
        let rest =
            [&tcp_story(0, 1000, 2, end)[before.len()..], &tcp_story(0, 1000, 3, "fin")].concat();
        for first in ["lan", "wan"] {
            let other = udp_flow(0, 2000, 4);
            let mut steps = [before.clone(), other.clone()].concat();
            let burst =
                other.into_iter().filter(|step| step.device == first).take(1).chain(rest.clone());
            steps.extend(burst.zip(0..).map(|(step, n)| Step { micros: 1_000 + n, ..step }));
            let plain = run(&mut with_rules(&rules(At::Nowhere, "")), &steps);
            for at in [At::Ingress, At::EarlyIngress] {
                let mut path = with_rules(&rules(at, ""));
                let fast = run(&mut path, &steps);
                assert_eq!(by_flow(&fast), by_flow(&plain), "{at:?} {end} {first}");
                assert_eq!(path.flow_counts().torn_down, 1, "{at:?} {end} {first}");
            }
        }
    }
}

mod random {
    use penstock_dataplane::Engine;

    use super::*;

    /// A conversation of hosts on both sides: who sends what, in order.
    fn conversation(rng: &mut fastrand::Rng, port: u16) -> Vec<(&'static str, Vec<u8>)> {
        match rng.u8(..6) {
            0 => {
                let end = ["fin", "rst", ""][rng.usize(..3)];
                let story = tcp_story(0, port, rng.u64(..8), end);
                story.into_iter().map(|step| (step.device, step.frame)).collect()
            }
            1 => udp6(rng, port),
            2 => forwarded_port(rng, port),
            _ => udp4(rng, port),
        }
    }

    fn size(rng: &mut fastrand::Rng) -> usize {
        if rng.u8(..6) == 0 { rng.usize(1300..1480) } else { rng.usize(..60) }
    }

    /// Both ways over IPv4, with all that may happen to single packets.
    fn udp4(rng: &mut fastrand::Rng, port: u16) -> Vec<(&'static str, Vec<u8>)> {
        let mut out = Vec::new();
        for n in 0..rng.u32(2..14) {
            let data: Vec<u8> = (0..size(rng)).map(|i| i as u8 ^ n as u8).collect();
            let there = n == 0 || rng.bool();
            let ttl = if rng.u8(..10) == 0 { rng.u8(..3) } else { 64 };
            let df = rng.bool();
            let from = if there { from_lan() } else { from_wan() };
            let (src, dst) =
                if there { ("198.18.1.7", "198.18.0.7") } else { ("198.18.0.7", "198.18.0.1") };
            let ports = if there { [port, 53] } else { [53, port] };
            let mut ip = Ipv4::new(src, dst).ttl(ttl).id(rng.u16(..));
            if df {
                ip = ip.df();
            }
            let frame = (from / ip / Udp::new(ports[0], ports[1]) / payload(data)).build();
            let device = if there { "lan" } else { "wan" };
            match rng.u8(..12) {
                0 if !df => {
                    let id = rng.u32(..);
                    out.extend(fragments(&frame, 200, id).into_iter().map(|f| (device, f)));
                }
                1 => {
                    let from = if there { from_lan() } else { from_wan() };
                    let to = if there { "198.18.0.7" } else { "198.18.0.1" };
                    out.push((
                        device,
                        (from / Ipv4::new(src, to) / Icmp::echo_request(port, n as u16)).build(),
                    ));
                }
                // Padding, which is not the packet's.
                2 => out.push((device, [frame, vec![0; 7]].concat())),
                3 => {
                    let mut bad = frame;
                    bad[0] ^= 4;
                    out.push((device, bad));
                }
                _ => out.push((device, frame)),
            }
        }
        out
    }

    fn udp6(rng: &mut fastrand::Rng, port: u16) -> Vec<(&'static str, Vec<u8>)> {
        let mut out = Vec::new();
        for n in 0..rng.u32(2..14) {
            let there = n == 0 || rng.bool();
            let limit = if rng.u8(..10) == 0 { rng.u8(..3) } else { 64 };
            let data = vec![n as u8; size(rng)];
            let (from, device) = if there { (from_lan(), "lan") } else { (from_wan(), "wan") };
            let (src, dst) = if there {
                ("2001:db8:1::7", "2001:db8::7")
            } else {
                ("2001:db8::7", "2001:db8:1::7")
            };
            let ports = if there { [port, 53] } else { [53, port] };
            let ip = Ipv6::new(src, dst).hop_limit(limit);
            let frame = (from / ip / Udp::new(ports[0], ports[1]) / payload(data)).build();
            if rng.u8(..12) == 0 {
                out.extend(fragments(&frame, 300, rng.u32(..)).into_iter().map(|f| (device, f)));
            } else {
                out.push((device, frame));
            }
        }
        out
    }

    /// From outside to the port that is forwarded.
    fn forwarded_port(rng: &mut fastrand::Rng, port: u16) -> Vec<(&'static str, Vec<u8>)> {
        use flag::{ACK, PSH, SYN};
        let there = |flags, seq, ack: u32, data: &[u8]| {
            let tcp = Tcp::new(port, 8080).seq(seq);
            let tcp = if ack == 0 { tcp } else { tcp.ack(ack) }.flags(flags);
            (from_wan() / Ipv4::new("198.18.0.7", "198.18.0.1") / tcp / payload(data)).build()
        };
        let back = |flags, seq, ack, data: &[u8]| {
            let tcp = Tcp::new(80, port).seq(seq).ack(ack).flags(flags);
            (from_lan() / Ipv4::new("198.18.1.7", "198.18.0.7") / tcp / payload(data)).build()
        };
        let mut out = vec![
            ("wan", there(SYN, 7, 0, b"")),
            ("lan", back(SYN | ACK, 70, 8, b"")),
            ("wan", there(ACK, 8, 71, b"")),
        ];
        for n in 0..rng.u32(..10) {
            out.push(("wan", there(ACK | PSH, 8 + n, 71 + n, b"x")));
            out.push(("lan", back(ACK | PSH, 71 + n, 9 + n, b"y")));
        }
        out
    }

    /// Conversations at once: in order each, by chance among each other, in bursts and with pauses.
    fn traffic(rng: &mut fastrand::Rng) -> Vec<Step> {
        let mut talks: Vec<_> = (0..rng.u16(1..7))
            .map(|n| {
                let mut talk = conversation(rng, 1000 + n);
                talk.reverse();
                talk
            })
            .collect();
        let (mut steps, mut micros) = (Vec::new(), 0);
        while !talks.is_empty() {
            let which = rng.usize(..talks.len());
            for _ in 0..rng.usize(1..6) {
                let Some((device, frame)) = talks[which].pop() else { break };
                micros += rng.u64(..8);
                steps.push(Step { device, micros, frame });
            }
            if talks[which].is_empty() {
                talks.swap_remove(which);
            }
            match rng.u8(..40) {
                0 => micros += 400,
                // Neither flows nor connections end of that alone.
                1 => micros += rng.u64(1..9) * 1_000_000,
                _ => {}
            }
        }
        steps
    }

    #[test]
    fn traffic_leaves_as_without_flowtables() {
        let rounds = penstock_testkit::rounds(150) as u64;
        let first = penstock_testkit::seed();
        let (mut fast, mut chained, mut fell_back) = (0, 0, 0);
        for seed in first..first + rounds {
            let steps = traffic(&mut fastrand::Rng::with_seed(seed));
            let plain = run(&mut with_rules(&rules(At::Nowhere, "")), &steps);
            for at in [At::Ingress, At::EarlyIngress] {
                let mut path = router(NET);
                path.set_engine(if seed % 8 == 0 {
                    Engine::JitAtOnce
                } else {
                    Engine::Interpreter
                });
                set_rules(&mut path, &rules(at, ""));
                let seen = run(&mut path, &steps);
                let (fast_frames, plain_frames) = (by_flow(&seen), by_flow(&plain));
                for (flow, frames) in &plain_frames {
                    assert_eq!(fast_frames.get(flow), Some(frames), "PENSTOCK_SEED={seed} {at:?}");
                }
                assert_eq!(seen.frames.len(), plain.frames.len(), "PENSTOCK_SEED={seed} {at:?}");
                let counts = path.flow_counts();
                (fast, chained) = (fast + counts.packets, chained + counts.chained);
                fell_back += counts.fell_back;
                // All goes back, and ends.
                path.advance(START + 3600 * 100 * SECOND, &mut Seen::default());
                path.advance(START + 3600 * 100 * SECOND + 1, &mut Seen::default());
                assert_eq!(path.flows().count(), 0, "PENSTOCK_SEED={seed} {at:?}");
            }
        }
        assert!(
            fast > 10 * rounds && chained > rounds && fell_back > rounds / 10,
            "{fast} {chained} {fell_back}"
        );
    }

    /// A state of the network that may follow any other.
    fn network(rng: &mut fastrand::Rng) -> Arc<penstock_net::Network> {
        let mut net = NET.to_owned();
        for (one_in, from, to) in [
            (3, "mtu 1400", "mtu 1300"),
            (
                3,
                "addr add 198.18.0.1/24 dev wan",
                "link set wan mtu 1280\naddr add 198.18.0.1/24 dev wan",
            ),
            (3, "lladdr 02:00:00:00:00:a7", "lladdr 02:00:00:00:00:a9"),
            // A neighbour is not there for a while.
            (8, "neigh add 198.18.1.7 lladdr 02:00:00:00:00:b7 dev lan", ""),
        ] {
            if rng.u32(..one_in) == 0 {
                net = net.replacen(from, to, 1);
            }
        }
        for route in [
            "neigh add 198.18.0.9 lladdr 02:00:00:00:00:a8 dev wan\nroute add 198.18.0.7/32 via 198.18.0.9\n",
            "route add 198.18.0.7/32 dev wan mtu 600\n",
            "route add 192.0.2.0/24 via 198.18.0.7\n",
        ] {
            if rng.u32(..4) == 0 {
                net += route;
                break;
            }
        }
        if rng.u32(..8) == 0 {
            net += "link set lan down\n";
        }
        Arc::new(penstock_net::Network::from_batch("net.ip", &net).unwrap())
    }

    /// Networks, rules and flowtables change between packets of flows: nothing is lost or overtaken
    /// that would not be without flowtables, and no flow is left over.
    #[test]
    fn traffic_leaves_as_without_flowtables_whatever_changes() {
        let rounds = penstock_testkit::rounds(150);
        let (mut fast, mut torn_down) = (0, 0);
        for seed in (penstock_testkit::seed()..).take(rounds) {
            for at in [At::Ingress, At::EarlyIngress] {
                let mut rng = fastrand::Rng::with_seed(seed);
                let steps = traffic(&mut rng);
                // What is lost on the way leaves gaps, which a flow that was in a flowtable may
                // have.
                let liberal = |rules: &str| {
                    let mut settings = penstock_dataplane::Settings::unlimited();
                    settings.host_extensions = true;
                    settings.conntrack.tcp_be_liberal = true;
                    let net = Arc::new(penstock_net::Network::from_batch("net.ip", NET).unwrap());
                    let mut path = Dataplane::new(net, settings);
                    set_rules(&mut path, rules);
                    path
                };
                let mut plain = liberal(&rules(At::Nowhere, ""));
                let mut path = liberal(&rules(at, ""));
                let [mut all_plain, mut all] = [Seen::default(), Seen::default()];
                let mut rest = &steps[..];
                while !rest.is_empty() {
                    let (now, later) = rest.split_at(rng.usize(1..30).min(rest.len()));
                    for (path, all) in [(&mut plain, &mut all_plain), (&mut path, &mut all)] {
                        all.frames.extend(run(path, now).frames);
                    }
                    rest = later;
                    let time = START + now.last().map_or(0, |step| step.micros) * 1000;
                    match rng.u8(..6) {
                        0..3 => {
                            let net = network(&mut rng);
                            plain.set_network(net.clone(), time, &mut all_plain);
                            path.set_network(net, time, &mut all);
                        }
                        // Other rules, and a recreated flowtable.
                        3 => _ = set_rules(&mut path, &rules(at, "counter")),
                        4 => {
                            _ = set_rules(
                                &mut path,
                                &format!("table ip x {{ }}; {}", rules(at, "")),
                            )
                        }
                        _ => {}
                    }
                }
                let (fast_frames, plain_frames) = (by_flow(&all), by_flow(&all_plain));
                for (flow, frames) in &plain_frames {
                    assert_eq!(fast_frames.get(flow), Some(frames), "PENSTOCK_SEED={seed} {at:?}");
                }
                assert_eq!(all.frames.len(), all_plain.frames.len(), "PENSTOCK_SEED={seed} {at:?}");
                let counts = path.flow_counts();
                (fast, torn_down) = (fast + counts.packets, torn_down + counts.torn_down);
                path.conntrack_mut().kill_if(|_| true);
                path.advance(START + 3600 * SECOND, &mut Seen::default());
                assert_eq!(path.flows().count(), 0, "PENSTOCK_SEED={seed} {at:?}");
            }
        }
        assert!(fast > 5 * rounds as u64 && torn_down > rounds as u64 / 4, "{fast} {torn_down}");
    }

    /// A flowtable takes as many flows as there is room; the others continue by the rules.
    #[test]
    fn a_full_flowtable_loses_nothing() {
        for at in [At::Ingress, At::EarlyIngress] {
            let mut settings = penstock_dataplane::Settings::unlimited();
            settings.flow.max = 3;
            let net = Arc::new(penstock_net::Network::from_batch("net.ip", NET).unwrap());
            let mut path = Dataplane::new(net, settings);
            set_rules(&mut path, &rules(at, ""));
            let mut steps = Vec::new();
            for round in 0..4 {
                steps.extend(
                    (0..8).flat_map(|n| udp_flow(round * 2000 + n * 200, 1000 + n as u16, 4)),
                );
            }
            let plain = run(&mut with_rules(&rules(At::Nowhere, "")), &steps);
            let fast = run(&mut path, &steps);
            assert_eq!(by_flow(&fast), by_flow(&plain), "{at:?}");
            assert_eq!(path.flows().count(), 3, "{at:?}");
            let full = penstock_dataplane::NotOffloaded::Full;
            assert!(
                path.flow_refusals().any(|(reason, count)| reason == full && count > 0),
                "{at:?}"
            );
            assert_eq!(
                path.refused_flows().filter(|flow| flow.reason == full).count(),
                5,
                "{at:?}"
            );
        }
    }
}

mod hardware {
    use std::sync::Mutex;

    use penstock_dataplane::{FlowEnd, FlowEvent, FlowObserver, ListedFlow, Offloader};
    use penstock_flowtable::offload::{TestDevice, Worker};

    use super::*;

    type Device = Arc<Mutex<TestDevice>>;

    /// A router with a device that forwards flows after a delay.
    fn offloading(device: TestDevice, queue: usize) -> (Dataplane, Device, Worker) {
        let device = Arc::new(Mutex::new(device));
        let (offloader, worker) = Offloader::pair(Box::new(device.clone()), queue);
        let mut path = router(NET);
        let devices = ["wan", "lan"].map(|d| path.network().link_by_name(d).unwrap().index);
        path.set_flow_offload(offloader, devices.to_vec(), false);
        let (flowtable, add) = At::Ingress.texts("flags offload; counter;");
        let mut ruleset = Ruleset::default();
        commit(
            &mut ruleset,
            &format!(
                "table ip t {{ {flowtable}\n chain f {{ type filter hook forward priority 0; {add}; ct bytes 0-1; }}; }}"
            ),
        );
        let linked = Linked::new(&ruleset.generation()).unwrap();
        path.can_offload(&linked.flowtables).unwrap();
        path.set_rules(Arc::new(linked));
        (path, device, worker)
    }

    fn back_and_forth(start: u64, port: u16, packets: u64) -> Vec<Step> {
        let there = udp(from_lan(), "198.18.1.7", "198.18.0.7", [port, 53], b"question");
        let back = udp(from_wan(), "198.18.0.7", "198.18.1.7", [53, port], b"answer");
        (0..packets)
            .flat_map(|n| {
                [lan(start + 20 * n, there.clone()), wan(start + 20 * n + 7, back.clone())]
            })
            .collect()
    }

    fn pass(path: &mut Dataplane, micros: u64) {
        path.advance(START + micros * 1000, &mut Seen::default());
    }

    /// What an observer was told of flows.
    #[derive(Clone, Default)]
    struct Told(Arc<Mutex<Vec<FlowEvent>>>);

    impl FlowObserver for Told {
        fn event(&mut self, event: FlowEvent, flow: &ListedFlow<'_>) {
            assert_eq!(flow.outline.tuples[0].dst_id, 53);
            self.0.lock().unwrap().push(event);
        }
    }

    #[test]
    fn an_observer_is_told_what_happens_to_flows() {
        for end in [FlowEnd::Expired, FlowEnd::TornDown, FlowEnd::WithConnection] {
            let (mut path, _device, mut worker) = offloading(TestDevice::default(), 8);
            let told = Told::default();
            path.set_flow_observer(Some(Box::new(told.clone())));
            run(&mut path, &back_and_forth(0, 1000, 4));
            worker.step_all();
            pass(&mut path, 2_000);
            let number = path.conntrack().iter().next().unwrap().number();
            match end {
                FlowEnd::Expired => {
                    for second in 1..60 {
                        pass(&mut path, second * 1_000_000);
                        worker.step_all();
                    }
                }
                FlowEnd::TornDown => assert!(path.end_flow(number)),
                FlowEnd::WithConnection => {
                    path.conntrack_mut().kill(number);
                    pass(&mut path, 2_000_000);
                }
            }
            let events = told.0.lock().unwrap().clone();
            assert_eq!(
                events,
                [FlowEvent::Added, FlowEvent::ToDevice, FlowEvent::Removed(end)],
                "{end:?}"
            );
        }
    }

    #[test]
    fn a_flow_runs_in_software_until_the_device_has_it() {
        let (mut path, device, mut worker) = offloading(TestDevice::default(), 8);
        assert_eq!(run(&mut path, &back_and_forth(0, 1000, 4)).frames.len(), 8);
        assert!(path.flows().all(|f| !f.hardware));
        worker.step_all();
        pass(&mut path, 2_000);
        assert!(path.flows().all(|f| f.hardware) && path.flows().count() == 1);
        let lines = path.conntrack().iter().map(|c| c.line(Default::default()).to_string());
        assert!(lines.last().is_some_and(|line| line.contains("[HW_OFFLOAD]")));
        // The device counts, and keeps the flow alive as long as it has packets.
        for second in 0..60u64 {
            let mut device = device.lock().unwrap();
            let (_, counts) = device.flows.values_mut().next().unwrap();
            if second < 20 {
                counts.packets[0] = (100, 3600);
                counts.used = START + second * SECOND;
            } else {
                *counts = Default::default();
            }
            drop(device);
            pass(&mut path, second * 1_000_000);
            worker.step_all();
            if second < 20 {
                assert_eq!(path.flows().count(), 1, "{second}");
            }
            if path.flows().count() == 0 {
                assert!(second > 45, "{second}");
                break;
            }
        }
        pass(&mut path, 61_000_000);
        worker.step_all();
        pass(&mut path, 62_000_000);
        assert_eq!((path.flows().count(), device.lock().unwrap().flows.len()), (0, 0));
        assert!(path.flow_counts().expired == 1, "{:?}", path.flow_counts());
    }

    #[test]
    fn refusals_full_queues_and_forgotten_flows_lose_nothing() {
        for (device, queue) in [
            (TestDevice { refuse_every: 2, ..TestDevice::default() }, 64),
            (TestDevice { room: 3, ..TestDevice::default() }, 64),
            (TestDevice { forget_every: 2, ..TestDevice::default() }, 64),
            (TestDevice::default(), 2),
        ] {
            let (mut path, device, mut worker) = offloading(device, queue);
            let mut sent = 0;
            for round in 0..8u64 {
                for port in 1..=10 {
                    let steps = back_and_forth(round * 1_500_000 + u64::from(port) * 100, port, 2);
                    sent += run(&mut path, &steps).frames.len();
                }
                worker.step_all();
                pass(&mut path, round * 1_500_000 + 10_000);
            }
            assert_eq!(sent, 8 * 10 * 4);
            assert_eq!(path.flows().count(), 10);
            let in_hardware = path.flows().filter(|f| f.hardware).count();
            assert!(in_hardware > 0, "{:?}", path.flow_counts());
            // All connections end: the device gives up its flows.
            path.conntrack_mut().kill_if(|_| true);
            for n in 0..20 {
                pass(&mut path, 20_000_000 + n * 1_100_000);
                worker.step_all();
            }
            assert_eq!((path.flows().count(), device.lock().unwrap().flows.len()), (0, 0));
        }
    }

    /// None of its packets would come here to show it.
    #[test]
    fn a_device_loses_flows_after_route_changes() {
        for (what, text, stays) in [
            ("another route", format!("{NET}route add 192.0.2.0/24 via 198.18.0.7\n"), 1),
            ("neighbour", NET.replace("lladdr 02:00:00:00:00:a7", "lladdr 02:00:00:00:00:a9"), 0),
            ("down", format!("{NET}link set lan down\n"), 0),
        ] {
            let (mut path, device, mut worker) = offloading(TestDevice::default(), 8);
            run(&mut path, &back_and_forth(0, 1000, 4));
            worker.step_all();
            pass(&mut path, 2_000);
            assert!(path.flows().all(|f| f.hardware) && path.flows().count() == 1);
            let net = penstock_net::Network::from_batch("net.ip", &text).unwrap();
            path.set_network(Arc::new(net), START + 3_000_000, &mut Seen::default());
            for n in 0..4 {
                pass(&mut path, 4_000 + n * 1000);
                worker.step_all();
            }
            assert_eq!(
                (path.flows().count(), device.lock().unwrap().flows.len()),
                (stays, stays),
                "{what}"
            );
        }
    }

    #[test]
    fn a_device_without_offload_is_reported() {
        let path = router(NET);
        let mut ruleset = Ruleset::default();
        commit(
            &mut ruleset,
            "table ip t { flowtable f { hook ingress priority 0; devices = { wan }; flags offload; }; }",
        );
        let error =
            path.can_offload(&Linked::new(&ruleset.generation()).unwrap().flowtables).unwrap_err();
        assert_eq!(
            error.to_string(),
            "Operation not supported: device wan cannot forward flows of flowtable ip t f"
        );
    }
}
