// SPDX-License-Identifier: Apache-2.0

//! Random programs on random packets: whatever is linked, runs, and what the verifier passes and
//! the path supports, is linked.

use fastrand::Rng;
use penstock_packet::{Packet, VlanTag};
use penstock_program::Family;
use penstock_program::Hook;
use penstock_program::expr::*;
use penstock_program::image::ChainIndex;
use penstock_program::link::supported;
use penstock_program::verify::{Sets, verify};
use penstock_program::{Data, Register, Verdict, run};
use penstock_testkit::build::{self, Ethernet, HopByHop, Ipv4, Ipv6, Tcp, Udp};
use penstock_testkit::program::{MockEnv, Table};

struct NoSets;

impl Sets for NoSets {
    fn key_len(&self, _: &str) -> Option<u32> {
        None
    }

    fn value_len(&self, _: &str) -> Option<u32> {
        None
    }

    fn is_verdict_map(&self, _: &str) -> bool {
        false
    }
}

fn register(rng: &mut Rng) -> Register {
    match rng.u8(..8) {
        0 => Register(rng.u8(..)),
        _ => Register(*rng.choice(&[1, 2, 3, 4, 8, 9, 13, 20, 23]).unwrap()),
    }
}

fn data(rng: &mut Rng, len: usize) -> Data {
    (0..len).map(|_| rng.u8(..)).collect::<Vec<_>>().into()
}

fn expr(rng: &mut Rng) -> Expr {
    let len = *rng.choice(&[1u32, 2, 2, 4, 4, 6, 8, 16, 20, 64]).unwrap();
    let offset = if rng.bool() { rng.u32(..24) } else { rng.u32(..300) };
    let base = *rng
        .choice(&[
            PayloadBase::Link,
            PayloadBase::Network,
            PayloadBase::Transport,
            PayloadBase::Inner,
        ])
        .unwrap();
    let (a, b) = (register(rng), register(rng));
    let exthdr = *rng
        .choice(&[
            ExthdrOp::Ipv6,
            ExthdrOp::TcpOpt,
            ExthdrOp::Ipv4Opt,
            ExthdrOp::Sctp,
            ExthdrOp::Dccp,
        ])
        .unwrap();
    let cmp = *rng
        .choice(&[CmpOp::Eq, CmpOp::Neq, CmpOp::Lt, CmpOp::Lte, CmpOp::Gt, CmpOp::Gte])
        .unwrap();
    let constant = data(rng, len as usize);
    match rng.u8(..24) {
        0 => Expr::Immediate(Immediate { dreg: a, data: ImmediateData::Value(constant) }),
        1..=4 => Expr::Payload(Payload { base, offset, len, dreg: a }),
        5..=6 => Expr::PayloadSet(PayloadSet {
            base,
            offset,
            len,
            sreg: a,
            csum_type: *rng
                .choice(&[ChecksumType::None, ChecksumType::Inet, ChecksumType::Sctp])
                .unwrap(),
            csum_offset: *rng.choice(&[0, 6, 8, 10, 16, 200]).unwrap(),
            csum_flags: rng.u32(..2),
        }),
        7..=8 => Expr::Meta(Meta { key: *rng.choice(&MetaKey::ALL).unwrap(), dreg: a }),
        9 => Expr::MetaSet(MetaSet { key: *rng.choice(&MetaKey::ALL).unwrap(), sreg: a }),
        10 => Expr::Cmp(Cmp { op: cmp, sreg: a, data: constant }),
        11 => Expr::Range(Range { op: cmp, sreg: a, from: constant, to: data(rng, len as usize) }),
        12 => Expr::Bitwise(Bitwise {
            sreg: a,
            dreg: b,
            len,
            op: match rng.u8(..4) {
                0 => BitwiseOp::Lshift(rng.u32(..34)),
                1 => BitwiseOp::Rshift(rng.u32(..34)),
                2 => BitwiseOp::Combine(
                    *rng.choice(&[BoolOp::And, BoolOp::Or, BoolOp::Xor]).unwrap(),
                    a,
                ),
                _ => BitwiseOp::MaskXor { mask: constant, xor: data(rng, len as usize) },
            },
        }),
        13 => Expr::Byteorder(Byteorder {
            op: ByteorderOp::Hton,
            sreg: a,
            dreg: b,
            len,
            size: *rng.choice(&[2, 4, 8, 3]).unwrap(),
        }),
        14 => Expr::Exthdr(Exthdr {
            op: exthdr,
            kind: rng.u8(..60),
            offset: offset % 20,
            len,
            present: rng.bool(),
            dreg: a,
        }),
        15 => Expr::ExthdrSet(ExthdrSet {
            op: ExthdrOp::TcpOpt,
            kind: rng.u8(..9),
            offset: rng.u32(..8),
            len,
            sreg: a,
        }),
        16 => Expr::ExthdrReset(ExthdrReset { op: ExthdrOp::TcpOpt, kind: rng.u8(..9) }),
        17 => Expr::Hash(Hash::Jenkins {
            sreg: a,
            len,
            seed: None,
            modulus: rng.u32(..),
            offset: rng.u32(..),
            dreg: b,
        }),
        18 => Expr::Hash(Hash::Sym { modulus: rng.u32(..), offset: 0, dreg: a }),
        19 => Expr::Numgen(Numgen {
            mode: NumgenMode::Inc,
            modulus: rng.u32(..3),
            offset: 0,
            dreg: a,
        }),
        20 => Expr::Fib(Fib { result: FibResult::OifName, flags: rng.u32(..64), dreg: a }),
        21 => Expr::Fwd(Fwd {
            dev: a,
            addr: rng.bool().then_some(b),
            nfproto: *rng.choice(&[2, 10]).unwrap(),
        }),
        22 => Expr::Limit(Limit {
            rate: rng.u64(..1000),
            unit: 604_800,
            burst: rng.u32(..),
            kind: LimitType::Bytes,
            over: rng.bool(),
        }),
        _ => Expr::Immediate(Immediate {
            dreg: if rng.bool() { Register::VERDICT } else { a },
            data: ImmediateData::Verdict(
                rng.choice([
                    Verdict::Accept,
                    Verdict::Jump("base".into()),
                    Verdict::Return,
                    Verdict::Goto("other".into()),
                ])
                .unwrap(),
            ),
        }),
    }
}

/// Mostly a good frame, cut or changed somewhere.
fn packet(rng: &mut Rng) -> Packet {
    let link = Ethernet::new("02:00:00:00:00:01", "02:00:00:00:00:02");
    let tcp = Tcp::new(1, 2).mss(1460).nop().sack_permitted();
    let v4 = Ipv4::new("198.18.0.1", "198.18.0.2");
    let v6 = Ipv6::new("2001:db8::1", "2001:db8::2");
    let mut frame = match rng.u8(..5) {
        0 => (link / v4 / tcp).build(),
        1 => (link / v6 / HopByHop::new().option(5, &[0, 0]) / tcp).build(),
        2 => {
            (link / v4.options(&[148, 4, 0, 0]) / Udp::new(1, 2) / build::payload(b"data")).build()
        }
        3 => (link / v4.protocol(132) / build::payload([0; 40])).build(),
        _ => (0..rng.usize(..80)).map(|_| rng.u8(..)).collect(),
    };
    for _ in 0..rng.usize(..4) {
        if let Some(byte) = frame.get_mut(14..).and_then(|f| rng.choice(f)) {
            *byte = rng.u8(..);
        }
    }
    frame.truncate(rng.usize(..frame.len() * 2 + 1));
    let mut packet = Packet::new();
    packet.load(&frame, if rng.bool() { 14 } else { 0 });
    packet.meta.protocol = *rng.choice(&[0x0800, 0x86dd, 0x0806]).unwrap();
    packet.meta.vlan = rng.bool().then_some(VlanTag { protocol: 0x8100, tci: 5 });
    if rng.bool() {
        packet.find_transport_checked();
    }
    if rng.bool() {
        packet.data_at_link();
    }
    packet
}

#[test]
fn verified_programs_link_and_linked_programs_run() {
    let seed = penstock_testkit::seed();
    let mut rng = Rng::with_seed(seed);
    let (mut verified, mut linked) = (0, 0);
    for _ in 0..20_000 {
        let rules: Vec<Vec<Expr>> = (0..rng.usize(1..4))
            .map(|_| (0..rng.usize(..7)).map(|_| expr(&mut rng)).collect())
            .collect();
        let good = rules.iter().all(|r| {
            verify(r, Family::Ip, &NoSets).is_ok() && r.iter().all(|e| supported(e).is_ok())
        });
        verified += u32::from(good);
        // Nothing calls back from the other chain: the ruleset takes no loops of gotos.
        let mut table = Table::of(rules.clone());
        table.chains.push(("other".into(), vec![]));
        let Ok((image, _)) = table.link(Family::Ip) else {
            assert!(!good, "seed {seed}: verified but not linked: {rules:?}");
            continue;
        };
        linked += 1;
        for _ in 0..4 {
            let mut outside = MockEnv::at(
                *rng.choice(&[Family::Ip, Family::Ip6, Family::Netdev]).unwrap(),
                Hook::Forward,
            );
            run(&image, ChainIndex(0), &mut packet(&mut rng), &mut outside);
        }
    }
    println!("{verified} verified, {linked} linked");
    assert!(verified > 100 && linked > verified, "seed {seed}");
}
