// SPDX-License-Identifier: Apache-2.0

//! Code for frames decides what code for packets would, and counts the same, or leaves a frame to
//! that.

use std::sync::Arc;

use fastrand::Rng;
use penstock_jit::{Decision, Entry, Helpers, List, Options, PackedDecision, compile};
use penstock_packet::{Frame, Packet};
use penstock_program::dynamic::{DynamicSet, NewElement, NewStatement, SetStatement};
use penstock_program::image::{ChainIndex, LinkedElements, LinkedSet};
use penstock_program::{Expr, Family, Hook, Image, Outcome, State, WorkerNumber};
use penstock_testkit::build::*;
use penstock_testkit::program::{MockEnv, Table, parse};
use penstock_wire::ethernet::Mac;

const DEVICE: u32 = 3;
const ADDRESS: Mac = Mac([2, 0, 0, 0, 0, 1]);
const COUNTER: &str = "[ counter pkts 0 bytes 0 ]";

/// Rules that ask for what stands in frames.
const RULES: [&str; 14] = [
    "[ meta load l4proto => reg 1 ]\n[ cmp eq reg 1 0x00000011 ]\n[ payload load 2b @ transport header + 2 => reg 1 ]\n\
     [ cmp eq reg 1 0x00000900 ]\n[ immediate reg 0 drop ]",
    "[ payload load 2b @ transport header + 0 => reg 1 ]\n[ cmp eq reg 1 0x00000700 ]\n[ immediate reg 0 accept ]",
    "[ meta load protocol => reg 1 ]\n[ cmp eq reg 1 0x00000008 ]\n[ payload load 4b @ network header + 12 => reg 1 ]\n\
     [ cmp eq reg 1 0x070012c6 ]",
    "[ meta load protocol => reg 1 ]\n[ cmp eq reg 1 0x0000dd86 ]\n[ payload load 1b @ network header + 7 => reg 1 ]\n\
     [ cmp eq reg 1 0x00000003 ]\n[ immediate reg 0 drop ]",
    "[ payload load 16b @ network header + 8 => reg 1 ]\n[ cmp neq reg 1 0x00000000 0x00000000 0x00000000 0x00000000 ]",
    "[ payload load 6b @ link header + 6 => reg 1 ]\n[ cmp eq reg 1 0x00000002 0x0000a700 ]",
    "[ meta load iif => reg 1 ]\n[ cmp eq reg 1 0x00000003 ]",
    "[ meta load mark => reg 1 ]\n[ cmp eq reg 1 0x00000000 ]",
    "[ meta load len => reg 1 ]\n[ byteorder reg 1 = hton(reg 1, 4, 4) ]\n[ cmp gt reg 1 0x30000000 ]",
    "[ payload load 4b @ transport header + 4 => reg 1 ]\n[ cmp neq reg 1 0x00000000 ]",
    "[ payload load 8b @ transport header + 0 => reg 1 ]\n[ cmp neq reg 1 0x00000000 0x00000000 ]",
    "[ payload load 2b @ transport header + 12 => reg 1 ]\n[ cmp eq reg 1 0x00000050 ]",
    "[ payload load 2b @ network header + 6 => reg 1 ]\n[ bitwise reg 1 = ( reg 1 & 0x0000ff1f ) ^ 0x00000000 ]\n\
     [ cmp neq reg 1 0x00000000 ]\n[ immediate reg 0 drop ]",
    "[ immediate reg 0 continue ]",
];

fn program(text: &str) -> Vec<Expr> {
    parse::program(text).unwrap()
}

/// A frame, mostly a plain one.
fn frame(rng: &mut Rng) -> Vec<u8> {
    let mut link = penstock_testkit::build::Frame::from(Ethernet::new(
        ["02:00:00:00:00:a7", "02:00:00:00:00:b7"][rng.usize(..2)],
        ["02:00:00:00:00:01", "ff:ff:ff:ff:ff:ff"][rng.usize(..2)],
    ));
    match rng.u32(..12) {
        0 | 1 => link = link / Vlan::new(7),
        2 => link = link / Vlan::new(9).service(),
        3 if rng.bool() => link = link / Vlan::new(0) / Vlan::new(7),
        _ => {}
    }
    let (from, to) = ([7, 9, 1000][rng.usize(..3)], [7, 9, 1000][rng.usize(..3)]);
    let body = vec![rng.u8(..); rng.usize(..30)];
    let ip = |rng: &mut Rng| {
        let ip =
            Ipv4::new(["198.18.0.7", "198.18.0.8"][rng.usize(..2)], "198.18.1.7").ttl(rng.u8(1..5));
        match rng.u32(..30) {
            0 => ip.fragment(rng.u16(..2) * 3, rng.bool()),
            1 => ip.options(&[1, 1, 1, 0]),
            2 => ip.total_len(rng.u16(..60)),
            3 => ip.version(rng.u8(..16)),
            4 => ip.header_len(rng.usize(..16) * 4),
            _ => ip,
        }
    };
    let ip6 = |rng: &mut Rng| {
        let ip = Ipv6::new("2001:db8::7", "2001:db8:1::7").hop_limit(rng.u8(1..5));
        match rng.u32(..12) {
            0 => ip.payload_len(rng.u16(..60)),
            1 => ip.version(rng.u8(..16)),
            _ => ip,
        }
    };
    let made = match rng.u32(..10) {
        0..4 => link / ip(rng) / Udp::new(from, to) / payload(body),
        4 | 5 => link / ip(rng) / Tcp::new(from, to) / payload(body),
        6 => link / ip(rng) / Icmp::new(8, 0) / payload(body),
        7 => link / ip6(rng) / Udp::new(from, to) / payload(body),
        8 => {
            link / ip6(rng)
                / Fragment::new(rng.u16(..2), true, 1)
                / Udp::new(from, to)
                / payload(body)
        }
        _ => link / Arp::request(ADDRESS, "198.18.0.7", "198.18.0.1"),
    };
    let mut bytes = made.build();
    match rng.u32(..12) {
        0 => bytes.truncate(rng.usize(..=bytes.len())),
        1 => bytes.resize(bytes.len() + rng.usize(..30), 0xee),
        2 => {
            let at = rng.usize(..bytes.len());
            bytes[at] = rng.u8(..);
        }
        _ => {}
    }
    bytes
}

fn counts(states: &[Arc<State>]) -> Vec<(u64, u64)> {
    states
        .iter()
        .map(|state| match &**state {
            State::Counter(counter) => counter.read(),
            _ => (0, 0),
        })
        .collect()
}

#[test]
fn verdicts_on_frames_equal_verdicts_on_packets() {
    let mut rng = Rng::with_seed(penstock_testkit::seed());
    let (mut decided, mut left, mut dropped) = (0, 0, 0);
    for round in 0..penstock_testkit::rounds(60) {
        // Counters on both sides of what a rule asks, so that it is known which rules each packet
        // met.
        let rules = |rng: &mut Rng| -> Vec<Vec<Expr>> {
            let text = |rng: &mut Rng| {
                let rule = RULES[rng.usize(..RULES.len())];
                match rule.rsplit_once("\n[ immediate") {
                    Some((asked, verdict)) => format!("{asked}\n{COUNTER}\n[ immediate{verdict}"),
                    None => format!("{rule}\n{COUNTER}"),
                }
            };
            (0..1 + rng.usize(..9)).map(|_| program(&text(rng))).collect()
        };
        let chains: Vec<_> = ["a", "b", "c"].map(|name| (name.into(), rules(&mut rng))).into();
        let table = Table { chains, ..Table::default() };
        let inet = rng.bool();
        let entries: Vec<_> = (0..3)
            .map(|chain| match ChainIndex(chain) {
                chain if inet && chain.0 == 1 => Entry::InetIngress { chain },
                chain => Entry::Chain { chain, family: Family::Netdev },
            })
            .collect();
        let list = List { frames: true, ..List::of(entries) };
        let policies = [0; 3].map(|_| rng.u8(..3) > 0);
        let made = || {
            let (mut image, states) = table.link(Family::Netdev).unwrap();
            for (chain, accepts) in image.chains.iter_mut().zip(policies) {
                chain.policy_accept = Some(accepts);
            }
            let options = Options { verify: true, ..Options::default() };
            let lists = std::slice::from_ref(&list);
            (compile(Arc::new(image), lists, Helpers::of::<MockEnv>(), options).unwrap(), states)
        };
        let ((code, states), (other, other_states)) = (made(), made());
        assert!(code.takes_frames(0));
        let all: Vec<_> = (0..64).map(|_| frame(&mut rng)).collect();
        let frames: Vec<_> =
            all.iter().map(|bytes| Frame { device: DEVICE, bytes, time: 5 }).collect();
        let mut unknown = Packet::new();
        unknown.meta.iif = DEVICE;
        let mut decisions = vec![PackedDecision::default(); frames.len()];
        let worker = WorkerNumber::new(2).unwrap();
        code.run_frames(0, &frames, &mut unknown, worker, &mut decisions).unwrap();
        for (frame, decision) in frames.iter().zip(decisions) {
            if decision.is_unusual() {
                left += 1;
                continue;
            }
            let mut packet = Packet::new();
            assert!(packet.receive_dissected(frame.bytes, ADDRESS));
            packet.meta.iif = DEVICE;
            let mut outside = MockEnv::at(Family::Netdev, Hook::Ingress);
            let wanted =
                other.bind::<MockEnv>().unwrap().run(0, &mut packet, &mut outside).unwrap();
            assert_eq!(decision.unpack(), wanted, "round {round}: {:02x?}\n{table:?}", frame.bytes);
            decided += 1;
            dropped += u32::from(wanted != Decision::Pass);
        }
        assert_eq!(counts(&states), counts(&other_states), "round {round}\n{table:?}");
    }
    println!("{decided} decided, {dropped} of them dropped, {left} left");
    assert!(decided > left && dropped > decided / 10 && dropped < decided * 9 / 10);
}

#[test]
fn many_rules_decide_on_frames_as_one_after_the_other() {
    let mut rng = Rng::with_seed(penstock_testkit::seed());
    for round in 0..penstock_testkit::rounds(20) {
        // Some of them ask for an address that frames have, and more than one for the same.
        let rule = |rng: &mut Rng| {
            let last = if rng.u32(..20) == 0 { 7 + rng.u8(..2) } else { rng.u8(9..) };
            let counter = if rng.bool() { COUNTER } else { "" };
            let verdict = ["drop", "drop", "accept"][rng.usize(..3)];
            program(&format!(
                "[ meta load protocol => reg 1 ]\n[ cmp eq reg 1 0x00000008 ]\n\
                 [ payload load 4b @ network header + 12 => reg 1 ]\n[ cmp eq reg 1 0x{last:02x}0012c6 ]\n\
                 {counter}\n[ immediate reg 0 {verdict} ]"
            ))
        };
        let count = 64 + rng.usize(..100);
        let table = Table::of((0..count).map(|_| rule(&mut rng)).collect());
        let ((mut image, states), (mut other, other_states)) =
            (table.link(Family::Netdev).unwrap(), table.link(Family::Netdev).unwrap());
        for image in [&mut image, &mut other] {
            image.chains[0].policy_accept = Some(round % 2 == 0);
        }
        let list = List::of([Entry::Chain { chain: ChainIndex(0), family: Family::Netdev }]);
        let list = List { frames: true, egress_precheck: true, ..list };
        let options = Options { verify: true, ..Options::default() };
        let code = compile(Arc::new(image), &[list], Helpers::of::<MockEnv>(), options).unwrap();
        let all: Vec<_> = (0..64).map(|_| frame(&mut rng)).collect();
        let frames: Vec<_> =
            all.iter().map(|bytes| Frame { device: DEVICE, bytes, time: 5 }).collect();
        let plain = |frame: &Frame<'_>| {
            frame.bytes.len() > 42
                && frame.bytes[12..15] == [8, 0, 0x45]
                && frame.bytes[20..22] == [0, 0]
        };
        let asked = (0..64).filter(|n| plain(&frames[*n])).fold(0, |asked: u64, n| asked | 1 << n);
        let passes = code.egress_precheck(0, &frames, asked);
        let mut unknown = Packet::new();
        unknown.meta.iif = DEVICE;
        let mut decisions = vec![PackedDecision::default(); frames.len()];
        let run = code.run_frames(
            0,
            &frames,
            &mut unknown,
            WorkerNumber::new(1).unwrap(),
            &mut decisions,
        );
        assert_eq!(run, Some(frames.len()));
        for (n, (frame, decision)) in frames.iter().zip(decisions).enumerate() {
            if decision.is_unusual() {
                continue;
            }
            let mut packet = Packet::new();
            assert!(packet.receive_dissected(frame.bytes, ADDRESS));
            packet.meta.iif = DEVICE;
            let mut outside = MockEnv::at(Family::Netdev, Hook::Ingress);
            let before = counts(&other_states);
            let wanted = match run_interpreted(&other, &mut packet, &mut outside) {
                Outcome::Accept => Decision::Pass,
                Outcome::Policy if round % 2 == 0 => Decision::Pass,
                outcome => Decision::Chain { entry: 0, outcome },
            };
            assert_eq!(decision.unpack(), wanted, "round {round}: {:02x?}", frame.bytes);
            if passes >> n & 1 != 0 {
                assert_eq!(wanted, Decision::Pass, "round {round}: {:02x?}", frame.bytes);
                assert_eq!(counts(&other_states), before, "round {round}: {:02x?}", frame.bytes);
            }
        }
        assert_eq!(counts(&states), counts(&other_states), "round {round}");
    }
}

fn run_interpreted(image: &Image, packet: &mut Packet, outside: &mut MockEnv) -> Outcome {
    penstock_program::run(image, ChainIndex(0), packet, outside)
}

/// A list of one rule that drops what is in a set that packets change, or what is not.
fn dynamic_list(set: &Arc<DynamicSet>, rest: &str) -> penstock_jit::Compiled {
    let text = format!(
        "{COUNTER}\n[ payload load 2b @ transport header + 2 => reg 1 ]\n[ lookup reg 1 set s{rest} ]\n\
         [ immediate reg 0 drop ]"
    );
    let mut table = Table::of(vec![program(&text)]);
    let elements = LinkedElements::Dynamic { set: set.clone(), timeout: 0, gc_interval: 1_000 };
    table.sets.insert("s".into(), LinkedSet { elements, key_len: 2, value_len: None });
    let (image, _) = table.link(Family::Netdev).unwrap();
    let list = List {
        frames: true,
        ..List::of([Entry::Chain { chain: ChainIndex(0), family: Family::Netdev }])
    };
    let options = Options { verify: true, ..Options::default() };
    compile(Arc::new(image), &[list], Helpers::of::<MockEnv>(), options).unwrap()
}

#[test]
fn frames_after_one_that_passes_are_left_where_sets_may_change() {
    let set = Arc::new(DynamicSet::new(2, None, 16, &[]));
    let until = |expires_at: Option<u64>| NewElement {
        key: &[0, 9],
        data: &[],
        timeout: 0,
        expires_at,
        statements: &[],
        userdata: None,
    };
    assert!(set.reserve(0, 0));
    set.insert_reserved(&until(Some(6)), 0);
    let udp = |port| {
        let link = Ethernet::new("02:00:00:00:00:a7", "02:00:00:00:00:01");
        (link / Ipv4::new("198.18.0.7", "198.18.1.7") / Udp::new(7, port)).build()
    };
    let (hit, miss) = (udp(9), udp(7));
    let frames: Vec<_> = [(&hit, 1), (&hit, 5), (&hit, 6), (&miss, 1), (&hit, 1)]
        .map(|(bytes, time)| Frame { device: DEVICE, bytes, time })
        .into();
    for (rest, runs) in [("", [3, 1, 1]), (" 0x1", [1, 1, 3])] {
        let code = dynamic_list(&set, rest);
        assert!(code.takes_frames(0) && code.takes_frames_in_order(0));
        let mut left = &frames[..];
        for run in runs {
            let mut decisions = [PackedDecision::default(); 5];
            let done =
                code.run_frames(0, left, &mut Packet::new(), WorkerNumber::FIRST, &mut decisions);
            assert_eq!(done, Some(run), "{rest}");
            let passes: Vec<_> = decisions[..run].iter().map(|d| d.is_pass()).collect();
            let all_but_last = passes[..run - 1].iter().all(|passes| !passes);
            assert!(all_but_last, "{rest}: {passes:?}");
            left = &left[run..];
        }
        assert!(left.is_empty());
    }
    // Elements of the set may have statements from now on, which code for packets runs.
    let code = dynamic_list(&set, "");
    set.statements(&[NewStatement { statement: SetStatement::Counter, state: [0; 2] }]);
    assert!(!code.takes_frames(0));
    assert!(!dynamic_list(&set, "").takes_frames(0));
}

#[test]
fn prechecked_packets_pass_without_effect() {
    let mut rng = Rng::with_seed(penstock_testkit::seed());
    let (mut prechecked, mut others) = (0, 0);
    for round in 0..penstock_testkit::rounds(60) {
        let rule = |rng: &mut Rng| match RULES[rng.usize(..RULES.len())]
            .rsplit_once("\n[ immediate")
        {
            Some((asked, verdict)) if rng.bool() => {
                format!("{asked}\n{COUNTER}\n[ immediate{verdict}")
            }
            Some((asked, verdict)) => format!("{asked}\n[ immediate{verdict}"),
            None => {
                "[ payload load 2b @ transport header + 2 => reg 1 ]\n[ cmp eq reg 1 0x00000700 ]\n\
                     [ immediate reg 0 drop ]"
                    .to_owned()
            }
        };
        let rules = (0..1 + rng.usize(..3)).map(|_| program(&rule(&mut rng))).collect();
        let (mut image, states) = Table::of(rules).link(Family::Netdev).unwrap();
        image.chains[0].policy_accept = Some(rng.u32(..4) > 0);
        let list = List::of([Entry::Chain { chain: ChainIndex(0), family: Family::Netdev }]);
        let list = List { egress_precheck: true, ..list };
        let options = Options { verify: true, ..Options::default() };
        let code = compile(Arc::new(image), &[list], Helpers::of::<MockEnv>(), options).unwrap();
        assert!(code.has_egress_precheck(0));
        let all: Vec<_> = (0..500)
            .map(|_| frame(&mut rng))
            .filter(|f| f.len() > 42 && f[12..15] == [8, 0, 0x45] && f[20..22] == [0, 0])
            .filter(|f| matches!(f[23], 6 | 17))
            .take(64)
            .collect();
        let frames: Vec<_> =
            all.iter().map(|bytes| Frame { device: DEVICE, bytes, time: 5 }).collect();
        let asked = rng.u64(..) | rng.u64(..);
        let passes = code.egress_precheck(0, &frames, asked);
        assert_eq!(passes & !asked, 0);
        for (n, frame) in all.iter().enumerate() {
            let mut packet = Packet::new();
            assert!(packet.receive_dissected(frame, ADDRESS));
            if packet.transport().is_none() {
                continue;
            }
            // As it may be when it leaves.
            packet.network_mut()[8] = rng.u8(..);
            packet.meta.oif = DEVICE;
            let before = counts(&states);
            let mut outside = MockEnv::at(Family::Netdev, Hook::Egress);
            let decision =
                code.bind::<MockEnv>().unwrap().run(0, &mut packet, &mut outside).unwrap();
            if passes >> n & 1 == 0 {
                others += 1;
                continue;
            }
            prechecked += 1;
            assert_eq!(decision, Decision::Pass, "round {round}: {frame:02x?}");
            assert_eq!(counts(&states), before, "round {round}: {frame:02x?}");
        }
    }
    println!("{prechecked} prechecked, {others} not");
    assert!(prechecked > others / 4 && others > prechecked / 4);
}

#[test]
fn lists_that_need_more_than_frames_are_left_to_packets() {
    for (text, takes) in [
        ("[ counter pkts 0 bytes 0 ]", true),
        ("[ meta load mark => reg 1 ]\n[ meta set priority with reg 1 ]", false),
        ("[ meta load nftrace => reg 1 ]\n[ cmp eq reg 1 0x00000001 ]", false),
        ("[ immediate reg 1 0x00000001 ]\n[ meta set nftrace with reg 1 ]", false),
        ("[ limit rate 1/second burst 5 type packets flags 0x0 ]", false),
        ("[ log prefix x ]", false),
        ("[ meta load iifname => reg 1 ]\n[ cmp eq reg 1 0x00000001 ]", false),
        ("[ payload load 2b @ link header + 12 => reg 1 ]\n[ cmp eq reg 1 0x00000008 ]", false),
    ] {
        let (image, _) = Table::of(vec![program(text)]).link(Family::Netdev).unwrap();
        let list = List {
            frames: true,
            ..List::of([Entry::Chain { chain: ChainIndex(0), family: Family::Netdev }])
        };
        let code = compile(Arc::new(image), &[list], Helpers::of::<MockEnv>(), Options::default())
            .unwrap();
        assert_eq!(code.takes_frames(0), takes, "{text}");
    }
}
