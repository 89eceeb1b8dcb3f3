// SPDX-License-Identifier: Apache-2.0

//! A chain with a lookup does to every packet what a walk over all its rules does.

use std::sync::Arc;

use fastrand::Rng;
use penstock_packet::{CtInfo, Packet, VlanTag};
use penstock_program::Family;
use penstock_program::Hook;
use penstock_program::classify::{ChainLookup, Lookup};
use penstock_program::env::Interface;
use penstock_program::expr::*;
use penstock_program::image::{
    ChainIndex, Image, LinkedData, LinkedElements, LinkedSet, LinkedValue,
};
use penstock_program::{Data, Register, State, Verdict, expr, run};
use penstock_sets::{Description, Element, Set};
use penstock_testkit::build::{
    Arp, Ethernet, Fragment, Frame, HopByHop, Ipv4, Ipv6, Tcp, Udp, payload,
};
use penstock_testkit::program::{MockEnv, Table};

const R1: Register = Register(1);

fn meta(key: MetaKey, dreg: Register) -> Expr {
    Expr::Meta(Meta { key, dreg })
}

fn ct(key: CtKey) -> Expr {
    Expr::Ct(expr::Ct { key, dir: None, dreg: R1 })
}

fn load(base: PayloadBase, offset: u32, len: u32, dreg: Register) -> Expr {
    Expr::Payload(Payload { base, offset, len, dreg })
}

fn cmp(op: CmpOp, sreg: Register, bytes: &[u8]) -> Expr {
    Expr::Cmp(Cmp { op, sreg, data: bytes.to_vec().into() })
}

/// A few addresses, so that rules overlap and packets match.
fn address(rng: &mut Rng) -> [u8; 4] {
    *rng.choice(&[
        [198, 18, 0, 1],
        [198, 18, 0, 2],
        [198, 18, 1, 1],
        [198, 19, 0, 1],
        [198, 18, 0, 130],
    ])
    .unwrap()
}

fn address6(rng: &mut Rng) -> [u8; 16] {
    let mut out = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    (out[7], out[15]) = (rng.u8(..2), rng.u8(1..4));
    out
}

fn port(rng: &mut Rng) -> u16 {
    *rng.choice(&[9, 22, 80, 443, 1024, 5000]).unwrap()
}

fn name(text: &str) -> [u8; 16] {
    let mut out = [0; 16];
    out[..text.len()].copy_from_slice(text.as_bytes());
    out
}

/// A value of the field, or something near it.
fn field(rng: &mut Rng, base: PayloadBase, offset: u32, len: u32) -> Vec<u8> {
    let mut bytes = match (base, offset) {
        (PayloadBase::Network, 9) => vec![*rng.choice(&[6u8, 17, 1]).unwrap()],
        (PayloadBase::Network, 12) => [address(rng), address(rng)].concat(),
        (PayloadBase::Network, 16) => address(rng).to_vec(),
        (PayloadBase::Network, _) => address6(rng).to_vec(),
        (PayloadBase::Transport, 0) => [port(rng).to_be_bytes(), port(rng).to_be_bytes()].concat(),
        (PayloadBase::Link, 0) => vec![2, 0, 0, 0, 0, rng.u8(1..4), 2, 0, 0, 0, 0, 1],
        _ => port(rng).to_be_bytes().to_vec(),
    };
    bytes.resize(len as usize, 0);
    if rng.u8(..12) == 0
        && let Some(byte) = bytes.last_mut()
    {
        *byte ^= rng.u8(..);
    }
    bytes
}

/// Where a field is: base, offset, length.
type Place = (PayloadBase, u32, u32);

const PLACES: [Place; 12] = [
    (PayloadBase::Network, 9, 1),
    (PayloadBase::Network, 12, 4),
    (PayloadBase::Network, 12, 4),
    (PayloadBase::Network, 16, 4),
    (PayloadBase::Network, 12, 8),
    (PayloadBase::Network, 12, 1),
    (PayloadBase::Network, 8, 16),
    (PayloadBase::Transport, 0, 2),
    (PayloadBase::Transport, 2, 2),
    (PayloadBase::Transport, 0, 4),
    (PayloadBase::Transport, 0, 1),
    (PayloadBase::Link, 0, 6),
];

/// A match on a field of a header.
fn header_match(rng: &mut Rng, rule: &mut Vec<Expr>) {
    let (base, offset, len) = *rng.choice(&PLACES).unwrap();
    if base == PayloadBase::Network && rng.bool() {
        let (key, value): (_, &[u8]) = match (rng.bool(), offset) {
            (true, 8) => (MetaKey::NfProto, &[10]),
            (true, _) => (MetaKey::NfProto, &[2]),
            (false, 8) => (MetaKey::Protocol, &[0x86, 0xdd]),
            (false, _) => (MetaKey::Protocol, &[8, 0]),
        };
        rule.extend([meta(key, R1), cmp(CmpOp::Eq, R1, value)]);
    }
    if base == PayloadBase::Transport && rng.bool() {
        rule.extend([
            meta(MetaKey::L4Proto, R1),
            cmp(CmpOp::Eq, R1, &[*rng.choice(&[6u8, 17]).unwrap()]),
        ]);
    }
    let value = field(rng, base, offset, len);
    rule.push(load(base, offset, len, R1));
    match rng.u8(..10) {
        0..=3 => rule.push(cmp(CmpOp::Eq, R1, &value)),
        4 => rule.push(cmp(
            *rng.choice(&[CmpOp::Neq, CmpOp::Lt, CmpOp::Lte, CmpOp::Gt, CmpOp::Gte]).unwrap(),
            R1,
            &value,
        )),
        5 | 6 => {
            let other = field(rng, base, offset, len);
            let (from, to) = if value <= other { (value, other) } else { (other, value) };
            let op = if rng.u8(..4) == 0 { CmpOp::Neq } else { CmpOp::Eq };
            rule.push(Expr::Range(Range { op, sreg: R1, from: from.into(), to: to.into() }));
        }
        _ => {
            // A prefix, or any mask.
            let bits = rng.u32(..=8 * len);
            let mask: Vec<u8> = (0..len)
                .map(|i| match rng.u8(..5) {
                    0 => rng.u8(..),
                    _ => !(0xffu32 >> bits.saturating_sub(8 * i).min(8)) as u8,
                })
                .collect();
            let masked: Vec<u8> = value.iter().zip(&mask).map(|(v, m)| v & m).collect();
            let xor: Vec<u8> = (0..len).map(|_| if rng.u8(..20) == 0 { 1 } else { 0 }).collect();
            let op = BitwiseOp::MaskXor { mask: mask.into(), xor: xor.into() };
            rule.push(Expr::Bitwise(Bitwise { sreg: R1, dreg: R1, len, op }));
            rule.push(cmp(if rng.u8(..6) == 0 { CmpOp::Neq } else { CmpOp::Eq }, R1, &masked));
        }
    }
}

fn meta_match(rng: &mut Rng, rule: &mut Vec<Expr>) {
    match rng.u8(..8) {
        6 => rule.extend([ct(CtKey::Mark), cmp(CmpOp::Eq, R1, &rng.u32(..3).to_ne_bytes())]),
        7 => {
            let mask = [*rng.choice(&[2u8, 6, 8]).unwrap(), 0, 0, 0];
            let op = BitwiseOp::MaskXor { mask: mask.to_vec().into(), xor: vec![0; 4].into() };
            rule.extend([
                ct(CtKey::State),
                Expr::Bitwise(Bitwise { sreg: R1, dreg: R1, len: 4, op }),
                cmp(if rng.bool() { CmpOp::Neq } else { CmpOp::Eq }, R1, &[0; 4]),
            ]);
        }
        0 => {
            rule.extend([meta(MetaKey::Iif, R1), cmp(CmpOp::Eq, R1, &rng.u32(1..4).to_ne_bytes())])
        }
        1 => {
            let text = *rng.choice(&["eth0", "eth1", "lan"]).unwrap();
            let len = if rng.bool() { 16 } else { rng.usize(1..text.len()) };
            rule.extend([meta(MetaKey::IifName, R1), cmp(CmpOp::Eq, R1, &name(text)[..len])]);
        }
        2 => {
            rule.extend([meta(MetaKey::Mark, R1), cmp(CmpOp::Eq, R1, &rng.u32(..4).to_ne_bytes())])
        }
        3 => {
            let swap = ByteorderOp::Hton;
            rule.extend([
                meta(MetaKey::Mark, R1),
                Expr::Byteorder(Byteorder { op: swap, sreg: R1, dreg: R1, len: 4, size: 4 }),
                Expr::Range(Range {
                    op: CmpOp::Eq,
                    sreg: R1,
                    from: vec![0, 0, 0, rng.u8(..3)].into(),
                    to: vec![0, 0, 0, rng.u8(2..5)].into(),
                }),
            ]);
        }
        4 => {
            let mask = BitwiseOp::MaskXor { mask: vec![1, 0, 0, 0].into(), xor: vec![0; 4].into() };
            rule.extend([
                meta(MetaKey::Mark, R1),
                Expr::Bitwise(Bitwise { sreg: R1, dreg: R1, len: 4, op: mask }),
                cmp(CmpOp::Eq, R1, &[rng.u8(..2), 0, 0, 0]),
            ]);
        }
        _ => rule.extend([meta(MetaKey::Len, R1), cmp(CmpOp::Neq, R1, &28u32.to_ne_bytes())]),
    }
}

/// A match in an anonymous set, of addresses with ports or one of both.
fn set_match(rng: &mut Rng, rule: &mut Vec<Expr>, table: &mut Table) {
    let fields = *rng.choice(&[&[4u8, 2][..], &[4], &[2]]).unwrap();
    let interval = rng.bool();
    let key_len = fields.iter().map(|l| usize::from(*l).next_multiple_of(4)).sum::<usize>();
    let key_len = if fields.len() == 1 { fields[0].into() } else { key_len };
    let description = Description {
        key_len,
        fields: if fields.len() > 1 { fields.to_vec() } else { vec![] },
        interval,
        constant: rng.u8(..6) != 0,
        ..Description::default()
    };
    let mut set = Set::new(description).unwrap();
    let counted = rng.u8(..5) == 0;
    for _ in 0..*rng.choice(&[1, 3, 10, 80]).unwrap() {
        let (mut key, mut end) = (Vec::new(), Vec::new());
        for len in fields {
            let (a, b) = match len {
                4 => (address(rng).to_vec(), address(rng).to_vec()),
                _ => (port(rng).to_be_bytes().to_vec(), port(rng).to_be_bytes().to_vec()),
            };
            let (a, b) = if interval && a < b { (a, b) } else { (a.clone(), a) };
            key.extend_from_slice(&a);
            end.extend_from_slice(&b);
            if fields.len() > 1 {
                key.resize(key.len().next_multiple_of(4), 0);
                end.resize(end.len().next_multiple_of(4), 0);
            }
        }
        let counter = Expr::Counter(Counter { packets: 0, bytes: 0 });
        let state = counter.new_state(0).map(Arc::new).unwrap();
        let counter = penstock_program::image::Stateful::Counter(state);
        let statements = if counted { vec![counter].into() } else { Box::default() };
        let value = LinkedValue { data: LinkedData::None, statements };
        let key_end = interval.then(|| end.into());
        let _ = set.insert(Element { key: key.into(), key_end, value, expires_at: None }, 0);
    }
    set.commit();
    let set_name: Arc<str> = format!("__set{}", table.sets.len()).into();
    let elements = LinkedElements::Fixed(Arc::new(set));
    table
        .sets
        .insert(set_name.clone(), LinkedSet { elements, key_len: key_len as u32, value_len: None });
    for (register, len) in (8..).zip(fields.iter()) {
        let (base, offset) = match len {
            4 => (PayloadBase::Network, 12 + 4 * rng.u32(..2)),
            _ => (PayloadBase::Transport, 2 * rng.u32(..2)),
        };
        rule.push(load(base, offset, (*len).into(), Register(register)));
    }
    rule.push(Expr::Lookup(expr::Lookup {
        set: set_name,
        sreg: Register(8),
        dreg: None,
        inverse: rng.u8(..5) == 0,
    }));
}

fn statement(rng: &mut Rng, rule: &mut Vec<Expr>) {
    match rng.u8(..12) {
        0..=4 => rule.push(Expr::Counter(Counter { packets: 0, bytes: 0 })),
        5 => rule.push(Expr::Limit(Limit {
            rate: 1,
            unit: 1,
            burst: 3,
            kind: LimitType::Packets,
            over: rng.bool(),
        })),
        6 => {
            let data = ImmediateData::Value(rng.u32(..4).to_ne_bytes().to_vec().into());
            rule.push(Expr::Immediate(Immediate { dreg: R1, data }));
            rule.push(Expr::MetaSet(MetaSet { key: MetaKey::Mark, sreg: R1 }));
        }
        7 => {
            // A port of the packet becomes the other one: what later rules ask changes.
            rule.push(load(PayloadBase::Transport, 0, 2, R1));
            rule.push(Expr::PayloadSet(PayloadSet {
                base: PayloadBase::Transport,
                offset: 2,
                len: 2,
                sreg: R1,
                csum_type: ChecksumType::None,
                csum_offset: 0,
                csum_flags: 0,
            }));
        }
        8 => rule.push(Expr::Log(Log { prefix: Some("x".into()), ..Log::default() })),
        9 => {
            rule.push(Expr::Numgen(Numgen {
                mode: NumgenMode::Random,
                modulus: 2,
                offset: 0,
                dreg: R1,
            }));
            rule.push(cmp(CmpOp::Eq, R1, &0u32.to_ne_bytes()));
        }
        10 if rng.u8(..8) == 0 => {
            let data = ImmediateData::Value(vec![1].into());
            rule.push(Expr::Immediate(Immediate { dreg: R1, data }));
            rule.push(Expr::MetaSet(MetaSet { key: MetaKey::NfTrace, sreg: R1 }));
        }
        // What nothing knows, between matches.
        _ => rule.extend([
            Expr::Hash(Hash::Sym { modulus: 2, offset: 0, dreg: R1 }),
            cmp(CmpOp::Eq, R1, &0u32.to_ne_bytes()),
        ]),
    }
}

fn rule(rng: &mut Rng, table: &mut Table, callee: Option<&str>) -> Vec<Expr> {
    let mut rule = Vec::new();
    for _ in 0..rng.usize(..4) {
        match rng.u8(..10) {
            0..=5 => header_match(rng, &mut rule),
            6 | 7 => meta_match(rng, &mut rule),
            8 => set_match(rng, &mut rule, table),
            _ => statement(rng, &mut rule),
        }
    }
    if rng.bool() {
        statement(rng, &mut rule);
    }
    let verdict = match (rng.u8(..12), callee) {
        (0 | 1, _) => Verdict::Accept,
        (2 | 3, _) => Verdict::Drop,
        (4, _) => Verdict::Return,
        (5, _) => Verdict::Continue,
        (6, Some(callee)) => Verdict::Jump(callee.into()),
        (7, Some(callee)) => Verdict::Goto(callee.into()),
        _ => return rule,
    };
    rule.push(Expr::Immediate(Immediate {
        dreg: Register::VERDICT,
        data: ImmediateData::Verdict(verdict),
    }));
    rule
}

fn table(rng: &mut Rng) -> Table {
    let mut table = Table::default();
    for (name, callee) in [("base", Some("called")), ("called", None)] {
        let count = *rng.choice(&[3, 12, 60, 200]).unwrap();
        let rules = (0..count).map(|_| self::rule(rng, &mut table, callee)).collect();
        table.chains.push((name.into(), rules));
    }
    table
}

fn packet(rng: &mut Rng) -> Packet {
    let link = || Ethernet::new("02:00:00:00:00:01", "02:00:00:00:00:02");
    let v4 = |rng: &mut Rng| {
        let [a, b] = [address(rng), address(rng)].map(|a| std::net::Ipv4Addr::from(a).to_string());
        Ipv4::new(&*a, &*b)
    };
    let v6 = |rng: &mut Rng| {
        let [a, b] =
            [address6(rng), address6(rng)].map(|a| std::net::Ipv6Addr::from(a).to_string());
        Ipv6::new(&*a, &*b)
    };
    let mut frame = match rng.u8(..10) {
        0..=2 => (link() / v4(rng) / Udp::new(port(rng), port(rng)) / payload(b"data")).build(),
        3 | 4 => (link() / v4(rng) / Tcp::new(port(rng), port(rng))).build(),
        5 => (link() / v4(rng).fragment(3, rng.bool()) / Udp::new(port(rng), port(rng))).build(),
        6 => {
            (link() / v6(rng) / HopByHop::new().option(5, &[0, 0]) / Tcp::new(port(rng), port(rng)))
                .build()
        }
        7 => (link() / v6(rng) / Udp::new(port(rng), port(rng))).build(),
        8 => (link() / v6(rng) / Fragment::new(2, false, 1).next_header(17) / payload(b"rest"))
            .build(),
        _ => (link() / Arp::request("02:00:00:00:00:01", "198.18.0.1", "198.18.0.2")).build(),
    };
    if rng.u8(..6) == 0 {
        frame.truncate(rng.usize(14..frame.len()));
    }
    let mut packet = Packet::new();
    packet.load(&frame, 14);
    packet.meta.protocol = u16::from_be_bytes([frame[12], frame[13]]);
    packet.meta.vlan = (rng.u8(..4) == 0).then_some(VlanTag { protocol: 0x8100, tci: 5 });
    packet.meta.mark = rng.u32(..4);
    packet.meta.iif = rng.u32(1..4);
    packet.meta.time = 1_700_000_000_000_000_000;
    if rng.bool() {
        packet.meta.ct.entry = 1;
        packet.meta.ct.info =
            *rng.choice(&[CtInfo::New, CtInfo::Established, CtInfo::EstablishedReply]).unwrap();
    }
    packet.find_transport_checked();
    if rng.u8(..8) == 0 {
        packet.data_at_link();
    }
    packet
}

fn outside(rng: &mut Rng, packet: &Packet) -> MockEnv {
    let family = match (rng.u8(..4), packet.meta.protocol) {
        (0, _) => Family::Netdev,
        (_, 0x86dd) => Family::Ip6,
        _ => Family::Ip,
    };
    let mut outside = MockEnv::at(family, Hook::Prerouting);
    outside.connection.insert((CtKey::Mark, None), rng.u32(..3).to_ne_bytes().to_vec());
    for (index, text) in [(1, "eth0"), (2, "eth1")] {
        let interface = Interface { name: name(text), kind: [0; 16], arphrd: 1, group: 0 };
        outside.interfaces.insert(index, interface);
    }
    outside
}

fn frame_of(packet: &Packet) -> (Vec<u8>, u32, bool) {
    (packet.frame().to_vec(), packet.meta.mark, packet.meta.nftrace)
}

/// Counters and the like, as text.
fn states(states: &[Arc<State>]) -> String {
    format!("{states:?}")
}

fn elements(image: &Image) -> String {
    format!("{:?}", image.ops)
}

#[test]
fn classified_chains_give_the_verdicts_of_a_walk() {
    let seed = penstock_testkit::seed();
    let (mut looked_up, mut skipped) = (0, 0);
    for round in 0..60 {
        let seed = seed.wrapping_add(round);
        let make = || {
            let mut rng = Rng::with_seed(seed);
            let made = table(&mut rng);
            (made.link(Family::Inet).unwrap_or_else(|e| panic!("seed {seed}: {e}")), rng)
        };
        let ((walk, walk_states), mut rng) = make();
        let ((mut quick, quick_states), _) = make();
        quick.force_lookups(1);
        for chain in &quick.chains {
            if let Some(lookup) = Lookup::new(quick.rules_of(chain), &quick.ops, 1) {
                looked_up += 1;
                skipped += lookup.size().copies;
            }
        }
        for number in 0..60 {
            let one = packet(&mut rng);
            let outside = outside(&mut rng, &one);
            let (mut a, mut b) = ((one.clone(), outside.clone()), (one, outside));
            let expected = run(&walk, ChainIndex(0), &mut a.0, &mut a.1);
            let found = run(&quick, ChainIndex(0), &mut b.0, &mut b.1);
            let at = format!("seed {seed}, packet {number}");
            assert_eq!(found, expected, "{at}");
            assert_eq!(b.1.events, a.1.events, "{at}");
            assert_eq!(frame_of(&b.0), frame_of(&a.0), "{at}");
        }
        assert_eq!(states(&quick_states), states(&walk_states), "seed {seed}");
        assert_eq!(elements(&quick), elements(&walk), "seed {seed}");
    }
    assert!(looked_up > 60 && skipped > 2000, "{looked_up} chains, {skipped} places");
}

#[test]
fn a_changed_chain_keeps_its_lookup() {
    let seed = penstock_testkit::seed();
    let mut served = 0;
    for round in 0..25 {
        let seed = seed.wrapping_add(round);
        let mut rng = Rng::with_seed(seed);
        let mut table = table(&mut rng);
        let (image, _) = table.link(Family::Inet).unwrap();
        let first = ChainLookup::with_least(1);
        first.build(image.rules_of(&image.chains[0]), &image.ops);
        let mut lookup = first;
        for _ in 0..3 {
            // Some rules go, some come.
            let (_, rules) = &mut table.chains[0];
            let mut numbers = Vec::new();
            let mut after = Vec::new();
            let old = std::mem::take(rules);
            for rule in old {
                if rng.u8(..12) == 0 {
                    after.push(self::rule(&mut rng, &mut Table::default(), Some("called")));
                }
                if rng.u8(..10) == 0 {
                    numbers.push(None);
                } else {
                    numbers.push(Some(after.len() as u32));
                    after.push(rule);
                }
            }
            // Sets of new rules are those of others; it is the rules that count here.
            after.iter_mut().for_each(|r| {
                r.retain(|e| !matches!(e, Expr::Lookup(l) if !table.sets.contains_key(&l.set)))
            });
            *rules = after;
            lookup = lookup.after(numbers.into_iter(), table.chains[0].1.len() as u32);
            let (walk, walk_states) = table.link(Family::Inet).unwrap();
            let (mut quick, quick_states) = table.link(Family::Inet).unwrap();
            let used = Arc::new(lookup);
            served += usize::from(used.finder().is_some());
            quick.chains[0].lookup = Some(used.clone());
            for _ in 0..30 {
                let one = packet(&mut rng);
                let outside = outside(&mut rng, &one);
                let (mut a, mut b) = ((one.clone(), outside.clone()), (one, outside));
                let expected = run(&walk, ChainIndex(0), &mut a.0, &mut a.1);
                assert_eq!(run(&quick, ChainIndex(0), &mut b.0, &mut b.1), expected, "seed {seed}");
                assert_eq!(b.1.events, a.1.events, "seed {seed}");
            }
            assert_eq!(states(&quick_states), states(&walk_states), "seed {seed}");
            quick.chains[0].lookup = None;
            lookup = Arc::into_inner(used).unwrap();
        }
    }
    assert!(served > 25, "{served}");
}

#[test]
fn rules_without_effect_are_skipped() {
    let address = |n: u32| {
        let value: Data = n.to_be_bytes().to_vec().into();
        let counter = Expr::Counter(Counter { packets: 0, bytes: 0 });
        vec![
            load(PayloadBase::Network, 12, 4, R1),
            Expr::Cmp(Cmp { op: CmpOp::Eq, sreg: R1, data: value }),
            counter,
        ]
    };
    let (image, _) =
        Table::of((0..1000).map(|n| address(0xc612_0000 + n)).collect()).link(Family::Ip).unwrap();
    let lookup = Lookup::new(&image.rules, &image.ops, 8).unwrap();
    let next = |frame: Frame, from| {
        let mut packet = Packet::new();
        packet.load(&frame.build(), 14);
        packet.meta.protocol = 0x0800;
        packet.find_transport_checked();
        lookup
            .next(from, &packet, &mut MockEnv::at(Family::Ip, Hook::Input))
            .map(|c| (c.rule, c.skip))
    };
    let from = |source: &str| {
        Ethernet::new("02:00:00:00:00:01", "02:00:00:00:00:02")
            / Ipv4::new(source, "198.18.9.9")
            / Udp::new(1, 2)
    };
    assert_eq!(next(from("198.18.1.7"), 0), Some((263, 2)));
    assert_eq!(next(from("198.18.1.7"), 264), None);
    assert_eq!(next(from("198.19.1.7"), 0), None);
}
