// SPDX-License-Identifier: Apache-2.0

//! Tables and frames made at random, over few constants, so that frames meet the rules.

pub mod frames;
pub mod sets;

use std::fmt;
use std::sync::Arc;

use fastrand::Rng;
use penstock_program::expr::*;
use penstock_program::{Data, Register, Verdict};
use penstock_testkit::program::Table;

/// Chains that are base chains; the others are called, each by those in front of it.
pub const BASES: usize = 3;
const CHAINS: usize = 8;

const R1: Register = Register(1);
const R2: Register = Register(2);

fn data(bytes: &[u8]) -> Data {
    bytes.to_vec().into()
}

fn pick<T: Clone>(rng: &mut Rng, of: &[T]) -> T {
    rng.choice(of).unwrap().clone()
}

fn payload(base: PayloadBase, offset: u32, len: u32) -> Expr {
    payload_to(base, offset, len, R1)
}

fn payload_to(base: PayloadBase, offset: u32, len: u32, dreg: Register) -> Expr {
    Expr::Payload(Payload { base, offset, len, dreg })
}

fn meta(key: MetaKey) -> Expr {
    Expr::Meta(Meta { key, dreg: R1 })
}

fn cmp_with(op: CmpOp, sreg: Register, bytes: &[u8]) -> Expr {
    Expr::Cmp(Cmp { op, sreg, data: data(bytes) })
}

fn cmp(rng: &mut Rng, bytes: &[u8]) -> Expr {
    use CmpOp::*;
    let op = pick(rng, &[Eq, Eq, Eq, Neq, Neq, Lt, Lte, Gt, Gte]);
    cmp_with(op, R1, bytes)
}

fn mask(len: u32, rng: &mut Rng) -> Expr {
    let bits: Vec<u8> = (0..len).map(|_| pick(rng, &[0xff, 0xff, 0xf0, 0x0f, 0, 1])).collect();
    let xor: Vec<u8> = (0..len).map(|_| pick(rng, &[0, 0, 0, 0xff])).collect();
    let op = BitwiseOp::MaskXor { mask: data(&bits), xor: data(&xor) };
    Expr::Bitwise(Bitwise { sreg: R1, dreg: R1, len, op })
}

/// A field that frames have with few different values, and such a value.
fn field(rng: &mut Rng) -> (Expr, Vec<u8>) {
    use PayloadBase::*;
    let low = rng.u8(0..10);
    match rng.u8(..16) {
        15 if rng.bool() => extension(rng),
        15 => tcp_option(rng, low),
        0..=2 => (payload(Transport, pick(rng, &[0, 2, 2, 2]), 2), vec![0, low]),
        3..=4 => (payload(Network, pick(rng, &[12, 16]), 4), vec![198, 18, 0, low]),
        5 => {
            let mut address = vec![0x20, 1, 0x0d, 0xb8];
            address.resize(15, 0);
            address.push(low);
            (payload(Network, pick(rng, &[8, 24]), 16), address)
        }
        6 => (meta(MetaKey::L4Proto), vec![pick(rng, &[6, 17, 47, 4, 1, 58, 44])]),
        7 => {
            let types: [u16; 6] = [0x0800, 0x86dd, 0x0806, 0x8100, 4, 0x88b5];
            (meta(MetaKey::Protocol), pick(rng, &types).to_be_bytes().to_vec())
        }
        8 => {
            let len = u32::from(rng.u8(30..120));
            (meta(MetaKey::Len), len.to_ne_bytes().to_vec())
        }
        9 => (meta(MetaKey::PktType), vec![rng.u8(..4)]),
        10 => {
            let key = pick(
                rng,
                &[MetaKey::Iif, MetaKey::Oif, MetaKey::Mark, MetaKey::Priority, MetaKey::IifGroup],
            );
            (meta(key), u32::from(rng.u8(..9)).to_ne_bytes().to_vec())
        }
        11 => {
            let key = pick(
                rng,
                &[
                    MetaKey::IifName,
                    MetaKey::OifName,
                    MetaKey::IifKind,
                    MetaKey::OifKind,
                    MetaKey::IifType,
                    MetaKey::OifGroup,
                    MetaKey::SkUid,
                    MetaKey::NfProto,
                ],
            );
            let mut name = b"lan".to_vec();
            name.resize(key.width() as usize, 0);
            if matches!(key, MetaKey::IifType | MetaKey::NfProto) {
                name[0] = pick(rng, &[1, 2, 5, 10]);
                name[1..].fill(0);
            }
            (meta(key), name)
        }
        12 => {
            let (offset, len) =
                pick(rng, &[(0, 6), (6, 6), (12, 2), (14, 2), (16, 2), (12, 4), (10, 9)]);
            let mut bytes = vec![2, 0, 0, 0, 0, low, 0, 0, 0];
            bytes.truncate(len as usize);
            (payload(Link, offset, len), bytes)
        }
        13 => (payload(Inner, rng.u32(..12), pick(rng, &[1, 2, 3, 4, 8])), vec![0x45; 8]),
        _ => {
            let len = pick(rng, &[1_u32, 2, 3, 4, 5, 6, 7, 8, 11, 12, 16, 20, 33]);
            let base = pick(rng, &[Link, Network, Transport, Inner]);
            (payload(base, rng.u32(..40), len), (0..len.min(16)).map(|_| rng.u8(..3)).collect())
        }
    }
}

/// An extension header of IPv6, or whether it is there.
fn extension(rng: &mut Rng) -> (Expr, Vec<u8>) {
    let kind = pick(rng, &[0, 43, 44, 51, 60, 17]);
    let (op, dreg) = (ExthdrOp::Ipv6, R1);
    if rng.bool() {
        let exthdr = Exthdr { op, kind, offset: 0, len: 1, present: true, dreg };
        return (Expr::Exthdr(exthdr), vec![rng.u8(..2)]);
    }
    let (offset, len) = pick(rng, &[(0, 1), (0, 1), (1, 1), (2, 2), (3, 1), (4, 4), (8, 16)]);
    let exthdr = Exthdr { op, kind, offset, len, present: false, dreg };
    (Expr::Exthdr(exthdr), vec![pick(rng, &[0, 6, 17, 60]), rng.u8(..3), 0, 0, 0, 0, 0, 0])
}

/// An option of TCP, or whether it is there.
fn tcp_option(rng: &mut Rng, low: u8) -> (Expr, Vec<u8>) {
    let kind = pick(rng, &[0, 1, 2, 2, 3, 4, 5, 8, 8, 30]);
    let (op, dreg) = (ExthdrOp::TcpOpt, R1);
    if rng.bool() {
        let exthdr = Exthdr { op, kind, offset: 0, len: 1, present: true, dreg };
        return (Expr::Exthdr(exthdr), vec![rng.u8(..2)]);
    }
    let (offset, len) =
        pick(rng, &[(0, 1), (1, 1), (2, 1), (2, 2), (2, 4), (6, 4), (2, 8), (3, 5), (0, 40)]);
    let exthdr = Exthdr { op, kind, offset, len, present: false, dreg };
    (Expr::Exthdr(exthdr), vec![0, low, 0, 0, 0, 0, 0, 0])
}

fn loaded(load: &Expr) -> usize {
    match load {
        Expr::Payload(p) => p.len as usize,
        Expr::Meta(m) => m.key.width() as usize,
        Expr::Exthdr(e) => e.len as usize,
        _ => unreachable!("only these are made"),
    }
}

/// A hash of what is loaded, of which the length need not be that of the field, or of the flow.
fn hash(rng: &mut Rng, load: Expr, len: u32, rule: &mut Vec<Expr>) {
    let (modulus, offset) = (pick(rng, &[1, 2, 3, 7, 0x8000_0000]), rng.u32(..3));
    let (len, seed, dreg) = (rng.u32(1..=len), Some(rng.u32(..)), pick(rng, &[R1, R2]));
    let value = (rng.u32(..modulus) + offset).to_ne_bytes();
    let hash = match rng.u8(..3) {
        0 => Hash::Sym { modulus, offset, dreg },
        _ => Hash::Jenkins { sreg: R1, len, seed, modulus, offset, dreg },
    };
    rule.extend([load, Expr::Hash(hash)]);
    rule.push(cmp_with(pick(rng, &[CmpOp::Lt, CmpOp::Gte, CmpOp::Eq]), dreg, &value));
}

/// Expressions that match or not.
fn matches(rng: &mut Rng, rule: &mut Vec<Expr>) {
    let (load, mut value) = field(rng);
    let len = loaded(&load);
    value.resize(len.min(16), 0);
    match rng.u8(..13) {
        0..=3 => rule.extend([load, cmp(rng, &value)]),
        4 if len <= 16 => hash(rng, load, len as u32, rule),
        5 if len <= 16 => {
            rule.extend([load, mask(len as u32, rng), cmp(rng, &value)]);
        }
        6 => {
            let mut to = value.clone();
            let last = to.last_mut().unwrap();
            *last = last.saturating_add(rng.u8(..6));
            let op = pick(rng, &[CmpOp::Eq, CmpOp::Neq]);
            rule.extend([
                load,
                Expr::Range(Range { op, sreg: R1, from: data(&value), to: data(&to) }),
            ]);
        }
        7 if len.is_multiple_of(4) && len <= 16 => {
            let shift = rng.u32(..32);
            let op = pick(rng, &[BitwiseOp::Lshift(shift), BitwiseOp::Rshift(shift)]);
            let to = pick(rng, &[R1, R2]);
            rule.extend([load, Expr::Bitwise(Bitwise { sreg: R1, dreg: to, len: len as u32, op })]);
            rule.push(cmp_with(pick(rng, &[CmpOp::Lt, CmpOp::Gte, CmpOp::Eq]), to, &value));
        }
        9 if len.is_multiple_of(4) && len <= 16 && rng.bool() => {
            let second = Immediate { dreg: R2, data: ImmediateData::Value(data(&value)) };
            let op = BitwiseOp::Combine(pick(rng, &[BoolOp::And, BoolOp::Or, BoolOp::Xor]), R2);
            let to = pick(rng, &[R1, R2]);
            rule.extend([load, Expr::Immediate(second)]);
            rule.push(Expr::Bitwise(Bitwise { sreg: R1, dreg: to, len: len as u32, op }));
            rule.push(cmp_with(pick(rng, &[CmpOp::Lt, CmpOp::Gte, CmpOp::Eq]), to, &value));
        }
        8 => {
            let sizes: Vec<u32> =
                [2, 4, 8].into_iter().filter(|s| len.is_multiple_of(*s as usize)).collect();
            let Some(size) = rng.choice(sizes) else {
                return rule.extend([load, cmp(rng, &value)]);
            };
            let op = ByteorderOp::Hton;
            rule.push(load);
            rule.push(Expr::Byteorder(Byteorder { op, sreg: R1, dreg: R1, len: len as u32, size }));
            rule.push(cmp(rng, &value));
        }
        9..=10 => sets::lookup(rng, rule),
        _ => rule.extend([load, cmp(rng, &value)]),
    }
}

fn verdict(rng: &mut Rng, chain: usize) -> Option<Verdict> {
    let target = |rng: &mut Rng| {
        let from = chain.max(BASES - 1) + 1;
        (from < CHAINS).then(|| Arc::from(format!("c{}", rng.usize(from..CHAINS))))
    };
    Some(match rng.u8(..12) {
        0..=1 => Verdict::Accept,
        2..=3 => Verdict::Drop,
        4..=5 => Verdict::Jump(target(rng)?),
        6 => Verdict::Goto(target(rng)?),
        7 => Verdict::Return,
        8 => Verdict::Continue,
        _ => return None,
    })
}

fn rule(rng: &mut Rng, chain: usize) -> Vec<Expr> {
    let mut rule = Vec::new();
    for _ in 0..rng.u8(..3) {
        matches(rng, &mut rule);
        if rng.u8(..6) == 0 {
            rule.push(Expr::Counter(Counter::default()));
        }
    }
    if rng.u8(..2) == 0 {
        rule.push(Expr::Counter(Counter::default()));
    }
    if rng.u8(..5) == 0 {
        sets::verdict_map(rng, chain, &mut rule);
    } else if let Some(verdict) = verdict(rng, chain) {
        let data = ImmediateData::Verdict(verdict);
        rule.push(Expr::Immediate(Immediate { dreg: Register::VERDICT, data }));
    }
    rule
}

/// A table, and its text.
pub struct Made(pub Table);

impl Made {
    /// Some chains with less than `most` rules each.
    pub fn random(rng: &mut Rng, most: usize) -> Self {
        let mut table = sets::table();
        // Without counters the length of packets is not asked for.
        let counts = rng.u8(..4) > 0;
        for chain in 0..CHAINS {
            let mut rules: Vec<Vec<Expr>> =
                (0..rng.usize(..most)).map(|_| rule(rng, chain)).collect();
            if !counts {
                rules.iter_mut().for_each(|r| r.retain(|e| !matches!(e, Expr::Counter(_))));
            }
            table.chains.push((format!("c{chain}").into(), rules));
        }
        Made(table)
    }

    /// Leaves rules out that ask for what is after the addresses of a link header.
    pub fn without_tags(&mut self) {
        self.without(|e| match e {
            Expr::Payload(p) => p.base == PayloadBase::Link && p.offset + p.len > 12,
            _ => false,
        });
    }

    /// Leaves rules out that ask for the socket.
    #[allow(dead_code)]
    pub fn without_sockets(&mut self) {
        self.without(|e| matches!(e, Expr::Meta(Meta { key: MetaKey::SkUid, .. })));
    }

    fn without(&mut self, asks: impl Fn(&Expr) -> bool) {
        self.0
            .chains
            .iter_mut()
            .for_each(|(_, rules)| rules.retain(|rule| !rule.iter().any(&asks)));
    }
}

impl fmt::Display for Made {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, rules) in &self.0.chains {
            writeln!(f, "chain {name}")?;
            for rule in rules {
                let text: Vec<_> = rule.iter().map(|e| format!("[ {e} ]")).collect();
                writeln!(f, "  {}", text.join(" "))?;
            }
        }
        Ok(())
    }
}
