// SPDX-License-Identifier: Apache-2.0

//! What programs ask about connections, translations, queues, sockets and bridges: programs in
//! nft's debug text, and an outside that answers.

use std::net::IpAddr;
use std::sync::Arc;

use penstock_packet::{Ct, CtInfo, Packet};
use penstock_program::dynamic::DynamicSet;
use penstock_program::env::*;
use penstock_program::expr::*;
use penstock_program::image::{
    ChainIndex, CtObject, Image, LinkedElements, LinkedSet, LinkedVerdict, RuleIndex, Stateful,
};
use penstock_program::op::Op;
use penstock_program::osf::Fingerprints;
use penstock_program::{Family, Hook, Outcome, Register, WorkerNumber, run};
use penstock_testkit::build::*;
use penstock_testkit::program::{Event, MockEnv, Table, parse};

const A: &str = "198.18.0.1";
const B: &str = "198.18.0.2";

fn packet(frame: impl Into<Frame>, protocol: u16) -> Packet {
    let mut packet = Packet::new();
    packet.load(&frame.into().build(), 0);
    packet.meta.protocol = protocol;
    packet.meta.iif = 2;
    packet.find_transport();
    packet
}

fn tcp4() -> Packet {
    packet(Ipv4::new(A, B) / Tcp::new(1000, 80).ack(7), 0x0800)
}

fn tcp6() -> Packet {
    packet(Ipv6::new("2001:db8::1", "2001:db8:0:5::2") / Tcp::new(1000, 80).ack(7), 0x86dd)
}

/// A packet of a connection.
fn tracked(info: CtInfo) -> Packet {
    let mut packet = tcp4();
    packet.meta.ct = Ct { entry: 5, serial: 1, info, template: 0 };
    packet
}

fn link(program: Vec<Expr>, family: Family) -> Image {
    Table::of(vec![program]).link(family).unwrap().0
}

fn run_expr(exprs: Vec<Expr>, packet: &mut Packet, outside: &mut MockEnv) -> Outcome {
    let image = link(exprs, outside.context.family);
    run(&image, ChainIndex(0), packet, outside)
}

/// Runs a program, which is accepted at its end unless it breaks.
fn run_text(program: &str, packet: &mut Packet, outside: &mut MockEnv) -> Outcome {
    let text = format!("{program}\n[ immediate reg 0 accept ]");
    run_expr(parse::program(&text).unwrap(), packet, outside)
}

fn outside() -> MockEnv {
    MockEnv::at(Family::Ip, Hook::Prerouting)
}

#[test]
fn ct_state_is_read_from_metadata_without_a_host_call() {
    let none = tcp4();
    let mut untracked = tcp4();
    untracked.meta.ct.info = CtInfo::Untracked;
    let mut template = tcp4();
    template.meta.ct = Ct { template: 3, info: CtInfo::New, ..Ct::default() };
    for (mut packet, state) in [
        (none, 1),
        (untracked, 0x40),
        (template, 8),
        (tracked(CtInfo::New), 8),
        (tracked(CtInfo::Established), 2),
        (tracked(CtInfo::EstablishedReply), 2),
        (tracked(CtInfo::Related), 4),
        (tracked(CtInfo::RelatedReply), 4),
    ] {
        let program = format!("[ ct load state => reg 1 ]\n[ cmp eq reg 1 {state:#010x} ]");
        assert_eq!(run_text(&program, &mut packet, &mut outside()), Outcome::Accept, "{state:#x}");
    }
}

#[test]
fn other_keys_break_without_a_connection_also_in_front_of_a_negation() {
    let mut out = outside();
    out.connection.insert((CtKey::Mark, None), vec![7, 0, 0, 0]);
    out.connection.insert((CtKey::SrcIp, Some(CtDir::Reply)), vec![198, 18, 0, 9]);
    out.connection.insert((CtKey::Zone, None), vec![1, 2]);
    let cases = [
        ("[ ct load mark => reg 1 ]\n[ cmp eq reg 1 0x00000007 ]", true),
        ("[ ct load mark => reg 1 ]\n[ cmp neq reg 1 0x00000008 ]", true),
        ("[ ct load src_ip => reg 1 , dir reply ]\n[ cmp eq reg 1 0x090012c6 ]", true),
        // What the outside does not have.
        ("[ ct load src_ip => reg 1 , dir original ]\n[ cmp neq reg 1 0x00000000 ]", false),
        // The rest of the word is cleared.
        (
            "[ immediate reg 1 0xffffffff ]\n[ ct load zone => reg 1 ]\n[ cmp eq reg 1 0x00000201 ]",
            true,
        ),
        ("[ ct load direction => reg 1 ]\n[ cmp eq reg 1 0x00000001 ]", true),
    ];
    for (program, matches) in cases {
        let expected = if matches { Outcome::Accept } else { Outcome::Policy };
        let mut packet = tracked(CtInfo::EstablishedReply);
        assert_eq!(run_text(program, &mut packet, &mut out), expected, "{program}");
        assert_eq!(run_text(program, &mut tcp4(), &mut out), Outcome::Policy, "without: {program}");
    }
}

#[test]
fn keys_are_set_on_connections_only_and_zones_only_without() {
    let mark = "[ immediate reg 1 0x00000007 ]\n[ ct set mark with reg 1 ]";
    let label = "[ immediate reg 1 0x00000001 0x00000000 0x00000000 0x80000000 ]\n[ ct set label with reg 1 ]";
    let zone = "[ immediate reg 1 0x00000009 ]\n[ ct set zone with reg 1 ]";
    let reply_zone = "[ immediate reg 1 0x00000009 ]\n[ ct set zone with reg 1 , dir reply ]";
    let mut labels = vec![0; 16];
    (labels[0], labels[15]) = (1, 0x80);
    let on_connection = [
        (mark, Some(Event::CtSet { key: CtKey::Mark, value: vec![7, 0, 0, 0] })),
        (label, Some(Event::CtSet { key: CtKey::Labels, value: labels })),
        (zone, None),
    ];
    for (program, event) in on_connection {
        let mut out = outside();
        assert_eq!(run_text(program, &mut tracked(CtInfo::New), &mut out), Outcome::Accept);
        assert_eq!(out.events, Vec::from_iter(event), "{program}");
    }
    let without = [
        (mark, None),
        (zone, Some(Event::CtSetZone { zone: 9, dir: None })),
        (reply_zone, Some(Event::CtSetZone { zone: 9, dir: Some(CtDir::Reply) })),
    ];
    for (program, event) in without {
        let mut out = outside();
        let mut packet = tcp4();
        // An untracked packet is tracked after all.
        packet.meta.ct.info = CtInfo::Untracked;
        assert_eq!(run_text(program, &mut packet, &mut out), Outcome::Accept);
        assert_eq!(out.events, Vec::from_iter(event), "{program}");
        // The first template stays.
        out.events.clear();
        if packet.meta.ct.template != 0 {
            assert_eq!(run_text(program, &mut packet, &mut out), Outcome::Accept);
            assert_eq!(out.events, [], "{program}");
        }
    }
    let mut full = MockEnv { decision: Decision::Drop, ..outside() };
    assert_eq!(run_text(zone, &mut tcp4(), &mut full), Outcome::Drop(RuleIndex(0)));
}

#[test]
fn notrack_leaves_packets_without_connection_untracked() {
    let mut template = tcp4();
    template.meta.ct = Ct { template: 3, info: CtInfo::New, ..Ct::default() };
    for (mut packet, info) in [
        (tcp4(), CtInfo::Untracked),
        (tracked(CtInfo::Established), CtInfo::Established),
        (template, CtInfo::New),
    ] {
        assert_eq!(run_text("[ notrack ]", &mut packet, &mut outside()), Outcome::Accept);
        assert_eq!(packet.meta.ct.info, info);
    }
}

fn address(text: &str) -> [u8; 16] {
    let mut out = [0; 16];
    match text.parse().unwrap() {
        IpAddr::V4(a) => out[..4].copy_from_slice(&a.octets()),
        IpAddr::V6(a) => out = a.octets(),
    }
    out
}

const NONE: NatRequest = NatRequest {
    kind: NatKind::Source,
    min_address: [0; 16],
    max_address: [0; 16],
    min_port: 0,
    max_port: 0,
    base_port: 0,
    flags: 0,
};

#[test]
fn nat_requests_carry_the_ranges_in_registers() {
    let first = "[ immediate reg 1 0x010012c6 ]";
    let last = "[ immediate reg 9 0x050012c6 ]";
    let cases = [
        (
            format!("{first}\n[ nat snat ip addr_min reg 1 ]"),
            NatRequest { min_address: address(A), max_address: address(A), flags: 1, ..NONE },
        ),
        (
            format!("{first}\n{last}\n[ nat dnat ip addr_min reg 1 addr_max reg 9 flags 0x8 ]"),
            NatRequest {
                kind: NatKind::Destination,
                min_address: address(A),
                max_address: address("198.18.0.5"),
                flags: 9,
                ..NONE
            },
        ),
        (
            format!(
                "{first}\n[ immediate reg 2 0x00005000 ]\n[ nat dnat ip addr_min reg 1 proto_min reg 2 ]"
            ),
            NatRequest {
                kind: NatKind::Destination,
                min_address: address(A),
                max_address: address(A),
                min_port: 80,
                max_port: 80,
                base_port: 0,
                flags: 3,
            },
        ),
        ("[ masq ]".into(), NatRequest { kind: NatKind::Masquerade, ..NONE }),
        (
            "[ immediate reg 1 0x00005000 ]\n[ immediate reg 2 0x00005100 ]\n\
             [ redir proto_min reg 1 proto_max reg 2 flags 0x2 ]"
                .into(),
            NatRequest { kind: NatKind::Redirect, min_port: 80, max_port: 81, flags: 2, ..NONE },
        ),
    ];
    for (program, request) in cases {
        for (decision, outcome) in
            [(Decision::Accept, Outcome::Accept), (Decision::Drop, Outcome::Drop(RuleIndex(0)))]
        {
            let mut out = MockEnv { decision, ..outside() };
            assert_eq!(
                run_text(&program, &mut tracked(CtInfo::New), &mut out),
                outcome,
                "{program}"
            );
            assert_eq!(out.events, [Event::Nat(request)], "{program}");
        }
    }
}

#[test]
fn a_netmap_prefix_keeps_the_host_bits() {
    let v4 = "[ immediate reg 1 0x00fe13c6 ]\n[ immediate reg 9 0xfffe13c6 ]";
    let cases = [("snat", "198.19.254.1"), ("dnat", "198.19.254.2")];
    for (kind, expected) in cases {
        let program = format!("{v4}\n[ nat {kind} ip addr_min reg 1 addr_max reg 9 flags 0x40 ]");
        let mut out = MockEnv { decision: Decision::Accept, ..outside() };
        run_text(&program, &mut tracked(CtInfo::New), &mut out);
        let [Event::Nat(request)] = out.events[..] else { panic!("{:?}", out.events) };
        assert_eq!(
            (request.min_address, request.max_address),
            (address(expected), address(expected))
        );
        assert_eq!(request.flags, 0x41);
    }
    let v6 = "[ immediate reg 1 0xb80d0120 0x00000900 0x00000000 0x00000000 ]\n\
              [ immediate reg 2 0xb80d0120 0x00000900 0xffffffff 0xffffffff ]\n\
              [ nat dnat ip6 addr_min reg 1 addr_max reg 2 flags 0x40 ]";
    let mut out =
        MockEnv { decision: Decision::Accept, ..MockEnv::at(Family::Ip6, Hook::Prerouting) };
    run_text(v6, &mut tcp6(), &mut out);
    let [Event::Nat(request)] = out.events[..] else { panic!("{:?}", out.events) };
    assert_eq!(request.min_address, address("2001:db8:9::2"));
}

#[test]
fn nat_of_the_other_family_is_skipped_in_inet_tables() {
    let program = "[ immediate reg 1 0x010012c6 ]\n[ nat snat ip addr_min reg 1 ]";
    let mut out = MockEnv::at(Family::Ip6, Hook::Postrouting);
    let text = format!("{program}\n[ immediate reg 0 accept ]");
    let image = link(parse::program(&text).unwrap(), Family::Inet);
    assert_eq!(run(&image, ChainIndex(0), &mut tcp6(), &mut out), Outcome::Accept);
    assert_eq!(out.events, []);
}

#[test]
fn objects_decide_as_the_host_answers() {
    let helper = CtObject::Helper { name: "ftp".into(), l4proto: 6, l3proto: 2 };
    let synproxy = Synproxy { mss: 1460, wscale: 7, flags: 7 };
    for (decision, outcome) in [
        (Decision::Continue, Outcome::Accept),
        (Decision::Break, Outcome::Policy),
        (Decision::Drop, Outcome::Drop(RuleIndex(0))),
        (Decision::Stolen, Outcome::Stolen),
    ] {
        for (kind, object, event) in [
            (
                ObjectType::CtHelper,
                Stateful::Ct(Arc::new(helper.clone())),
                Event::CtObject(helper.clone()),
            ),
            (ObjectType::Synproxy, Stateful::Synproxy(synproxy), Event::Synproxy(synproxy)),
        ] {
            let mut program = vec![Expr::Objref(Objref::Named { kind, name: "o".into() })];
            program.extend(parse::program("[ immediate reg 0 accept ]").unwrap());
            let mut table = Table::of(vec![program]);
            table.objects.push((kind, "o".into(), object));
            let (image, _) = table.link(Family::Ip).unwrap();
            let mut out = MockEnv { decision, ..outside() };
            assert_eq!(run(&image, ChainIndex(0), &mut tracked(CtInfo::New), &mut out), outcome);
            assert_eq!(out.events, [event]);
        }
    }
}

#[test]
fn a_secmark_object_marks_the_packet() {
    let mut table = Table::of(vec![vec![Expr::Objref(Objref::Named {
        kind: ObjectType::SecMark,
        name: "o".into(),
    })]]);
    table.objects.push((ObjectType::SecMark, "o".into(), Stateful::SecMark(77)));
    let (image, _) = table.link(Family::Ip).unwrap();
    let mut packet = tcp4();
    assert_eq!(run(&image, ChainIndex(0), &mut packet, &mut outside()), Outcome::Policy);
    assert_eq!(packet.meta.secmark, 77);
}

#[test]
fn a_quota_object_reports_exhaustion_once() {
    let quota = Expr::Quota(Quota { bytes: 50, consumed: 0, over: true, depleted: false });
    let state = Arc::new(quota.new_state(0).unwrap());
    let object = Stateful::NamedQuota { bytes: 50, over: true, state: state.clone() };
    let reference = Expr::Objref(Objref::Named { kind: ObjectType::Quota, name: "q".into() });
    let mut table = Table::of(vec![
        [vec![reference], parse::program("[ immediate reg 0 accept ]").unwrap()].concat(),
    ]);
    table.objects.push((ObjectType::Quota, "q".into(), object));
    let (image, _) = table.link(Family::Ip).unwrap();
    let mut out = outside();
    let step = |out: &mut MockEnv| run(&image, ChainIndex(0), &mut tcp4(), out);
    assert_eq!(
        [(); 3].map(|()| step(&mut out)),
        [Outcome::Policy, Outcome::Accept, Outcome::Accept]
    );
    assert_eq!(out.events, [Event::QuotaDepleted]);
    quota.reset(&state, 0);
    assert_eq!([(); 2].map(|()| step(&mut out)), [Outcome::Policy, Outcome::Accept]);
    assert_eq!(out.events.len(), 2);
}

#[test]
fn connlimit_uses_the_counts_of_the_host() {
    let limit = |count, over| {
        let mut program = vec![Expr::Connlimit(Connlimit { count, over })];
        program.extend(parse::program("[ immediate reg 0 accept ]").unwrap());
        let (image, states) = Table::of(vec![program]).link(Family::Ip).unwrap();
        (image, states[0].clone())
    };
    let outcome = |image: &Image, out: &mut MockEnv| run(image, ChainIndex(0), &mut tcp4(), out);
    for over in [false, true] {
        let (image, state) = limit(2, over);
        let first = ConnCount::State(&state).join().1;
        assert_eq!(outcome(&image, &mut outside()) == Outcome::Accept, !over, "two of two");
        let second = ConnCount::State(&state).join().1;
        assert_eq!(outcome(&image, &mut outside()) == Outcome::Accept, over, "three of two");
        drop((first, second));
        assert_eq!(ConnCount::State(&state).connections(), 0);
        let mut broken = MockEnv { counts: false, ..outside() };
        assert_eq!(outcome(&image, &mut broken), Outcome::Drop(RuleIndex(0)));
    }
}

#[test]
fn each_element_of_a_set_counts_connections_of_its_own() {
    let connlimit = Expr::Connlimit(Connlimit { count: 1, over: true });
    let set = Arc::new(DynamicSet::new(4, None, 10, &[]));
    let mut program = parse::program("[ meta load mark => reg 1 ]").unwrap();
    program.push(Expr::Dynset(Dynset {
        set: "s".into(),
        op: DynsetOp::Add,
        sreg_key: Register(1),
        sreg_data: None,
        timeout: 0,
        invert: false,
        exprs: vec![connlimit],
    }));
    program.extend(parse::program("[ immediate reg 0 accept ]").unwrap());
    let mut table = Table::of(vec![program]);
    let elements = LinkedElements::Dynamic { set: set.clone(), timeout: 0, gc_interval: 1_000 };
    table.sets.insert("s".into(), LinkedSet { elements, key_len: 4, value_len: None });
    let (image, _) = table.link(Family::Ip).unwrap();
    let over = |mark| {
        let mut packet = tcp4();
        packet.meta.mark = mark;
        run(&image, ChainIndex(0), &mut packet, &mut outside()) == Outcome::Accept
    };
    assert!(!over(1) && !over(2));
    let slot = set.current(0).into_iter().find(|e| *e.key == [1, 0, 0, 0]).unwrap().slot;
    let (_, counted) = ConnCount::Element { set: &set, slot, statement: 0 }.join();
    assert!(over(1) && !over(2));
    // Who leaves when another element is in the place does not count there.
    set.remove(&[1, 0, 0, 0], 0);
    assert!(!over(1));
    let slot = set.current(0).into_iter().find(|e| *e.key == [1, 0, 0, 0]).unwrap().slot;
    let (connections, _kept) = ConnCount::Element { set: &set, slot, statement: 0 }.join();
    drop(counted);
    assert_eq!(
        (connections, ConnCount::Element { set: &set, slot, statement: 0 }.connections()),
        (1, 1)
    );
}

fn queue(num: u16, total: u16, bypass: bool, fanout: bool) -> Expr {
    Expr::Queue(Queue { num, total, sreg: None, bypass, fanout })
}

#[test]
fn queues_have_numbers_by_hash_worker_or_register() {
    let rule = RuleIndex(0);
    let run_queue = |expr: Expr, out: &mut MockEnv, packet: &mut Packet| match run_expr(
        vec![expr],
        packet,
        out,
    ) {
        Outcome::Queue { rule: r, num, bypass } => {
            assert_eq!(r, rule);
            (num, bypass)
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(run_queue(queue(7, 1, false, false), &mut outside(), &mut tcp4()), (7, false));
    assert_eq!(run_queue(queue(7, 1, true, false), &mut outside(), &mut tcp4()), (7, true));
    let mut out = MockEnv { worker: WorkerNumber::new(5).unwrap(), ..outside() };
    assert_eq!(run_queue(queue(10, 3, false, true), &mut out, &mut tcp4()), (12, false));
    // Both directions of a flow are in one queue, flows are spread.
    let mut seen = std::collections::BTreeSet::new();
    for host in 1..=50 {
        let client = format!("198.18.1.{host}");
        let mut there = packet(Ipv4::new(&*client, B) / Udp::new(1, 2), 0x0800);
        let mut back = packet(Ipv4::new(B, &*client) / Udp::new(2, 1), 0x0800);
        let num = run_queue(queue(10, 4, false, false), &mut outside(), &mut there).0;
        assert_eq!(run_queue(queue(10, 4, false, false), &mut outside(), &mut back).0, num);
        seen.insert(num);
    }
    assert_eq!(Vec::from_iter(seen), [10, 11, 12, 13]);
    let mut v6 = MockEnv::at(Family::Ip6, Hook::Input);
    assert!((10..14).contains(&run_queue(queue(10, 4, false, false), &mut v6, &mut tcp6()).0));

    let program = "[ immediate reg 1 0x00020005 ]\n[ queue sreg_qnum 1 bypass ]";
    let outcome = run_text(program, &mut tcp4(), &mut outside());
    assert_eq!(outcome, Outcome::Queue { rule, num: 5, bypass: true });
}

#[test]
fn a_verdict_to_queue_is_queue_0_without_bypass() {
    let outcome = run_text("[ immediate reg 0 queue ]", &mut tcp4(), &mut outside());
    assert_eq!(outcome, Outcome::Queue { rule: RuleIndex(0), num: 0, bypass: false });
    let mut traced = tcp4();
    traced.meta.nftrace = true;
    let mut out = outside();
    run_text("[ immediate reg 0 queue ]", &mut traced, &mut out);
    let verdict = LinkedVerdict::Queue { num: 0, bypass: false };
    assert_eq!(out.events, [Event::Rule { rule: RuleIndex(0), verdict }]);
}

#[test]
fn synproxy_is_for_tcp() {
    let offer = Synproxy { mss: 1460, wscale: 7, flags: 7 };
    let run_proxy = |packet: &mut Packet| {
        let mut out = MockEnv { decision: Decision::Stolen, ..outside() };
        (run_expr(vec![Expr::Synproxy(offer)], packet, &mut out), out.events.len())
    };
    assert_eq!(run_proxy(&mut tcp4()), (Outcome::Stolen, 1));
    assert_eq!(run_proxy(&mut tcp6()), (Outcome::Stolen, 1));
    let mut udp = packet(Ipv4::new(A, B) / Udp::new(1, 2), 0x0800);
    assert_eq!(run_proxy(&mut udp), (Outcome::Policy, 0));
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn query(kind: SocketKind, to: (&str, u16)) -> SocketQuery {
    SocketQuery {
        kind,
        protocol: 6,
        source: (ip(A), 1000),
        destination: (ip(to.0), to.1),
        device: 2,
    }
}

const SOCKET: LocalSocket =
    LocalSocket { id: 9, transparent: true, mark: Some(3), wildcard: false, time_wait: false };

#[test]
fn socket_loads_what_the_packets_socket_has() {
    let any = query(SocketKind::Any, (B, 80));
    let half_open = LocalSocket { mark: None, ..SOCKET };
    let out = |socket| MockEnv { sockets: vec![(any, socket)], ..outside() };
    let transparent = "[ socket load transparent => reg 1 ]\n[ cmp eq reg 1 0x00000001 ]";
    let mark = "[ socket load mark => reg 1 ]\n[ cmp eq reg 1 0x00000003 ]";
    let wildcard = "[ socket load wildcard => reg 1 ]\n[ cmp eq reg 1 0x00000000 ]";
    for (program, of_full, of_half) in
        [(transparent, true, true), (mark, true, false), (wildcard, true, false)]
    {
        for (socket, matches) in [(SOCKET, of_full), (half_open, of_half)] {
            let outcome = run_text(program, &mut tcp4(), &mut out(socket));
            assert_eq!(outcome == Outcome::Accept, matches, "{program} of {socket:?}");
        }
        assert_eq!(
            run_text(program, &mut tcp4(), &mut outside()),
            Outcome::Policy,
            "{program} without"
        );
    }
    // On the way out only the packet's own socket counts.
    let mut sent =
        MockEnv { sockets: vec![(any, SOCKET)], ..MockEnv::at(Family::Ip, Hook::Output) };
    assert_eq!(run_text(mark, &mut tcp4(), &mut sent), Outcome::Policy);
    let mut own = tcp4();
    own.meta.socket = 9;
    assert_eq!(run_text(mark, &mut own, &mut sent), Outcome::Accept);
    // Answers to a translated source belong to the socket that has the source as it was.
    let mut translated = MockEnv {
        sockets: vec![(query(SocketKind::Any, ("198.18.9.9", 555)), SOCKET)],
        untranslated_source: Some((ip("198.18.9.9"), 555)),
        ..outside()
    };
    assert_eq!(run_text(mark, &mut tcp4(), &mut translated), Outcome::Accept);

    let level = |level| Expr::Socket(Socket { key: SocketKey::Cgroupv2, level, dreg: Register(1) });
    let cgroup = |l| {
        let data = penstock_program::Data::new(&[[l as u8, 0, 0, 0], [9, 0, 0, 0]].concat());
        let mut program = vec![level(l), Expr::Cmp(Cmp { op: CmpOp::Eq, sreg: Register(1), data })];
        program.extend(parse::program("[ immediate reg 0 accept ]").unwrap());
        run_expr(program, &mut tcp4(), &mut out(SOCKET)) == Outcome::Accept
    };
    assert!(cgroup(2) && !cgroup(3));
}

#[test]
fn the_socket_of_an_icmp_error_is_that_of_the_packet_it_quotes() {
    let quoted = Ipv4::new(B, A) / Tcp::new(80, 1000);
    let any = query(SocketKind::Any, (B, 80));
    let mark = "[ socket load mark => reg 1 ]\n[ cmp eq reg 1 0x00000003 ]";
    for (kind, matches) in [(3, true), (11, true), (8, false)] {
        let error =
            Ipv4::new("198.18.7.7", B) / Icmp::new(kind, 0) / payload(quoted.clone().build());
        let mut out = MockEnv { sockets: vec![(any, SOCKET)], ..outside() };
        let outcome = run_text(mark, &mut packet(error, 0x0800), &mut out);
        assert_eq!(outcome == Outcome::Accept, matches, "type {kind}");
    }
}

#[test]
fn tproxy_gives_packets_to_established_sockets_then_to_listeners() {
    let established = query(SocketKind::Established, (B, 80));
    let at = |to| query(SocketKind::Listener, to);
    let plain = LocalSocket { transparent: false, ..SOCKET };
    let waiting = LocalSocket { id: 4, time_wait: true, ..SOCKET };
    let own = Some(ip("198.18.0.3"));
    let both = "[ immediate reg 1 0x0100007f ]\n[ immediate reg 2 0x0000b80b ]\n[ tproxy ip addr reg 1 port reg 2 ]";
    let port = "[ immediate reg 2 0x0000b80b ]\n[ tproxy ip port reg 2 ]";
    let addr = "[ immediate reg 1 0x0100007f ]\n[ tproxy ip addr reg 1 ]";
    let syn = || packet(Ipv4::new(A, B) / Tcp::new(1000, 80).syn(), 0x0800);
    type Case<'a> = (&'a str, &'a str, Packet, Vec<(SocketQuery, LocalSocket)>, u32);
    let cases: [Case<'_>; 9] = [
        ("the listener", both, syn(), vec![(at(("127.0.0.1", 3000)), SOCKET)], 9),
        ("not the one at the packet's port", both, syn(), vec![(at(("127.0.0.1", 80)), SOCKET)], 0),
        ("one that is not transparent", both, syn(), vec![(at(("127.0.0.1", 3000)), plain)], 0),
        (
            "established first",
            both,
            syn(),
            vec![(established, SOCKET), (at(("127.0.0.1", 3000)), plain)],
            9,
        ),
        ("the device's address", port, syn(), vec![(at(("198.18.0.3", 3000)), SOCKET)], 9),
        ("the packet's port", addr, syn(), vec![(at(("127.0.0.1", 80)), SOCKET)], 9),
        (
            "a connection again",
            both,
            syn(),
            vec![(established, waiting), (at(("127.0.0.1", 3000)), SOCKET)],
            9,
        ),
        (
            "TIME_WAIT, no SYN",
            both,
            tcp4(),
            vec![(established, waiting), (at(("127.0.0.1", 3000)), SOCKET)],
            4,
        ),
        ("TIME_WAIT, nobody listens", both, syn(), vec![(established, waiting)], 4),
    ];
    for (name, program, mut packet, sockets, expected) in cases {
        let mut out = MockEnv { sockets, primary_address: own, ..outside() };
        let outcome = run_text(program, &mut packet, &mut out);
        assert_eq!(packet.meta.socket, expected, "{name}");
        assert_eq!(outcome == Outcome::Accept, expected != 0, "{name}");
    }
    let mut other = packet(Ipv4::new(A, B) / Icmp::echo_request(1, 1), 0x0800);
    assert_eq!(run_text(both, &mut other, &mut outside()), Outcome::Policy, "no ports");
    let mut v6 = MockEnv::at(Family::Ip6, Hook::Prerouting);
    assert_eq!(run_text(both, &mut tcp6(), &mut v6), Outcome::Policy, "another family");
}

#[test]
fn osf_returns_names_of_the_database_or_unknown() {
    let known = Fingerprints::parse(
        "# window:ttl:DF:size:options:genre:version:subtype:details\n\
         S20:64:0:60:M*,S,T,N,W7:*Linux:3.11::Linux 3.11 and newer\n\
         8192:128:0:40:.:Windows:XP:SP1:Windows XP SP1\n",
    )
    .unwrap();
    let linux = |ttl, window| {
        let tcp = Tcp::new(1000, 80).syn().window(window);
        let tcp = tcp.mss(1400).sack_permitted().timestamp(1, 0).nop().window_scale(7);
        packet(Ipv4::new(A, B).ttl(ttl) / tcp, 0x0800)
    };
    let osf = |ttl, version| Expr::Osf(Osf { ttl, version, dreg: Register(1) });
    let name = |expr: Expr, packet: &mut Packet, out: &mut MockEnv| {
        ["Linux", "Linux:3.11", "Windows", "unknown"].into_iter().find(|name| {
            let mut bytes = [0; 16];
            bytes[..name.len()].copy_from_slice(name.as_bytes());
            let cmp =
                Cmp { op: CmpOp::Eq, sreg: Register(1), data: penstock_program::Data::new(&bytes) };
            let mut program = vec![expr.clone(), Expr::Cmp(cmp)];
            program.extend(parse::program("[ immediate reg 0 accept ]").unwrap());
            run_expr(program, packet, out) == Outcome::Accept
        })
    };
    let mut out = MockEnv { fingerprints: Some(known), ..outside() };
    for (expr, ttl, window, expected) in [
        (osf(0, false), 64, 28_000, "Linux"),
        (osf(0, true), 64, 29_200, "Linux:3.11"),
        (osf(0, false), 63, 28_000, "unknown"),
        (osf(1, false), 63, 28_000, "Linux"),
        (osf(1, false), 65, 28_000, "unknown"),
        (osf(2, false), 65, 28_000, "Linux"),
        (osf(0, false), 64, 28_001, "unknown"),
    ] {
        assert_eq!(name(expr, &mut linux(ttl, window), &mut out), Some(expected), "{ttl} {window}");
    }
    let mut windows = packet(Ipv4::new(A, B).ttl(128) / Tcp::new(1, 2).syn().window(8192), 0x0800);
    assert_eq!(name(osf(0, false), &mut windows, &mut out), Some("Windows"));
    assert_eq!(
        name(osf(0, false), &mut linux(64, 28_000), &mut outside()),
        Some("unknown"),
        "no database"
    );
    assert_eq!(name(osf(0, false), &mut tcp4(), &mut out), None, "no SYN breaks");
    for (line, reason) in [
        ("S20:64:1:60:M*:Linux:3.11", "there are not 9 fields"),
        ("x:64:1:60:M*:Linux:3.11::", "not a window"),
        ("%0:64:1:60:M*:Linux:3.11::", "not a window"),
        ("1:64:2:60:M*:Linux:3.11::", "DF is 0 or 1"),
        ("1:64:1:60:Q:Linux:3.11::", "not an option"),
        ("1:64:1:60:T,T,T,T,T:Linux:3.11::", "the options have more than 40 bytes"),
    ] {
        let error = Fingerprints::parse(&format!("\n{line}")).unwrap_err();
        assert_eq!((error.line, error.reason), (2, reason), "{line}");
    }
}

#[test]
fn ipsec_and_tunnels_break_without_metadata() {
    let state = IpsecState { reqid: 5, spi: 0x0102_0304, tunnel: Some((ip(A), ip(B))) };
    let transport = IpsecState { tunnel: None, ..state };
    for (load, compare, of_tunnel, of_transport) in [
        ("in 0 reqid", "0x00000005", true, true),
        ("in 0 spi", "0x04030201", true, true),
        ("out 0 saddr4", "0x010012c6", true, false),
        ("in 0 daddr4", "0x020012c6", true, false),
        ("in 1 reqid", "0x00000005", false, false),
    ] {
        let program = format!("[ xfrm load {load} => reg 1 ]\n[ cmp eq reg 1 {compare} ]");
        for (ipsec, matches) in
            [(Some(state), of_tunnel), (Some(transport), of_transport), (None, false)]
        {
            let mut out = MockEnv { ipsec, ..outside() };
            assert_eq!(
                run_text(&program, &mut tcp4(), &mut out) == Outcome::Accept,
                matches,
                "{load}"
            );
        }
    }
    for (key, value, tunnel_id, matches) in [
        ("path", 1, Some(7), true),
        ("path", 0, None, true),
        ("id", 7, Some(7), true),
        ("id", 0, None, false),
    ] {
        let program = format!("[ tunnel load {key} => reg 1 ]\n[ cmp eq reg 1 {value:#010x} ]");
        let mut out = MockEnv { tunnel_id, ..outside() };
        assert_eq!(run_text(&program, &mut tcp4(), &mut out) == Outcome::Accept, matches, "{key}");
    }
}

#[test]
fn bridge_keys_are_those_of_the_ports_bridge() {
    let mut bridge = [0; 16];
    bridge[..3].copy_from_slice(b"br0");
    let filtering = BridgePort { bridge, address: [2, 0, 0, 0, 0, 9], vlan: Some((5, 0x8100)) };
    let plain = BridgePort { vlan: None, ..filtering };
    let cases = [
        ("bri_iifname", "0x00307262 0x00000000 0x00000000 0x00000000", true, true, false),
        ("bri_oifname", "0x00307262 0x00000000 0x00000000 0x00000000", true, true, false),
        ("bri_iifname", "0x00000000 0x00000000 0x00000000 0x00000000", false, false, true),
        ("bri_iifpvid", "0x00000005", true, false, false),
        ("bri_iifvproto", "0x00000081", true, false, false),
        ("ibrhwaddr", "0x00000002 0x00000900", true, true, false),
    ];
    for (key, value, of_filtering, of_plain, of_none) in cases {
        let program = format!("[ meta load {key} => reg 1 ]\n[ cmp eq reg 1 {value} ]");
        for (port, matches) in
            [(Some(filtering), of_filtering), (Some(plain), of_plain), (None, of_none)]
        {
            let mut out =
                MockEnv { bridge_port: port, ..MockEnv::at(Family::Bridge, Hook::Prerouting) };
            assert_eq!(
                run_text(&program, &mut tcp4(), &mut out) == Outcome::Accept,
                matches,
                "{key} {port:?}"
            );
        }
    }
    let mut packet = tcp4();
    run_text(
        "[ immediate reg 1 0x00000001 ]\n[ meta set broute with reg 1 ]",
        &mut packet,
        &mut outside(),
    );
    assert!(packet.meta.broute);
}

#[test]
fn ct_state_is_an_operation_of_its_own() {
    let image = link(parse::program("[ ct load state => reg 1 ]").unwrap(), Family::Ip);
    assert!(matches!(image.ops[..], [Op::CtState { dst: 0 }]));
}
