// SPDX-License-Identifier: Apache-2.0

//! VM programs from bytes: expressions of all kinds with small operands, so that many pass the
//! verifier.

use std::sync::Arc;

use penstock_program::expr::*;
use penstock_program::{Data, Register, Verdict};

/// Bytes that run out: then everything is zero.
pub struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    /// From the start.
    pub fn new(bytes: &'a [u8]) -> Self {
        Bytes(bytes)
    }

    /// The next one.
    pub fn byte(&mut self) -> u8 {
        match self.0 {
            [first, rest @ ..] => {
                self.0 = rest;
                *first
            }
            [] => 0,
        }
    }

    /// A number below `n`.
    pub fn below(&mut self, n: u32) -> u32 {
        u32::from(self.byte()) % n.max(1)
    }

    /// What is left.
    pub fn rest(&self) -> &'a [u8] {
        self.0
    }

    fn word(&mut self) -> u32 {
        u32::from_ne_bytes([self.byte(), self.byte(), self.byte(), self.byte()])
    }

    fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u32) as usize].clone()
    }

    fn flag(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    /// Mostly small, sometimes anything.
    fn number(&mut self) -> u32 {
        match self.byte() {
            255 => self.word(),
            b => u32::from(b % 64),
        }
    }

    /// Mostly register 1, which is what was written before.
    fn register(&mut self) -> Register {
        let number = self.pick(&[1, 1, 1, 1, 1, 1, 2, 2, 3, 8, 9, 10, 11, 12, 22, 23, 0, 4]);
        Register(number)
    }

    fn data(&mut self) -> Data {
        let len = self.pick(&[1, 2, 4, 4, 8, 16, 3, 6, 0, 17]);
        Data::new(&(0..len).map(|_| self.byte()).collect::<Vec<_>>())
    }

    fn exact(&mut self, len: u32) -> Data {
        Data::new(&(0..len).map(|_| self.byte()).collect::<Vec<_>>())
    }

    fn set(&mut self) -> Arc<str> {
        self.pick(&["addresses", "ports", "pairs", "marks", "verdicts", "counters", "seen", "none"])
            .into()
    }

    fn verdict(&mut self) -> Verdict {
        match self.below(9) {
            0 => Verdict::Drop,
            1 => Verdict::Accept,
            2 => Verdict::Return,
            3 => Verdict::Jump("other".into()),
            4 => Verdict::Goto("other".into()),
            5 => Verdict::Break,
            6 => Verdict::Queue,
            _ => Verdict::Continue,
        }
    }
}

const BASES: [PayloadBase; 5] = [
    PayloadBase::Link,
    PayloadBase::Network,
    PayloadBase::Transport,
    PayloadBase::Inner,
    PayloadBase::Tunnel,
];
const CMP: [CmpOp; 6] = [CmpOp::Eq, CmpOp::Neq, CmpOp::Lt, CmpOp::Lte, CmpOp::Gt, CmpOp::Gte];
const EXTHDR: [ExthdrOp; 5] =
    [ExthdrOp::TcpOpt, ExthdrOp::Ipv6, ExthdrOp::Ipv4Opt, ExthdrOp::Sctp, ExthdrOp::Dccp];

/// The program of a rule.
pub fn program(b: &mut Bytes<'_>) -> Vec<Expr> {
    let len = b.below(8) + 1;
    // Something to work on.
    let mut exprs = vec![match b.below(3) {
        0 => load(b),
        1 => Expr::Immediate(Immediate {
            dreg: Register(1),
            data: ImmediateData::Value(b.exact(16)),
        }),
        _ => meta(b),
    }];
    for _ in 0..len {
        exprs.push(expr(b));
    }
    if b.flag() {
        let data = ImmediateData::Verdict(b.verdict());
        exprs.push(Expr::Immediate(Immediate { dreg: Register::VERDICT, data }));
    }
    exprs
}

fn load(b: &mut Bytes<'_>) -> Expr {
    let len = b.pick(&[4, 2, 1, 16, 8, 6, 3, 64, 65, 0]);
    Expr::Payload(Payload { base: b.pick(&BASES), offset: b.number(), len, dreg: Register(1) })
}

fn meta(b: &mut Bytes<'_>) -> Expr {
    Expr::Meta(Meta { key: b.pick(&MetaKey::ALL), dreg: b.register() })
}

fn expr(b: &mut Bytes<'_>) -> Expr {
    match b.below(33) {
        0 => {
            Expr::Immediate(Immediate { dreg: b.register(), data: ImmediateData::Value(b.data()) })
        }
        1 => Expr::Immediate(Immediate {
            dreg: b.register(),
            data: ImmediateData::Verdict(b.verdict()),
        }),
        2 | 3 => {
            let len = b.number();
            Expr::Payload(Payload {
                base: b.pick(&BASES),
                offset: b.number(),
                len,
                dreg: b.register(),
            })
        }
        4 | 5 => Expr::PayloadSet(PayloadSet {
            base: b.pick(&BASES),
            offset: b.number(),
            len: b.pick(&[1, 2, 4, 6, 16, 8, 3]),
            sreg: b.register(),
            csum_type: b.pick(&[ChecksumType::Inet, ChecksumType::None, ChecksumType::Sctp]),
            csum_offset: b.number(),
            csum_flags: b.below(2),
        }),
        6 => meta(b),
        7 => Expr::MetaSet(MetaSet { key: b.pick(&MetaKey::ALL), sreg: b.register() }),
        8 | 9 => Expr::Cmp(Cmp { op: b.pick(&CMP), sreg: b.register(), data: b.data() }),
        10 => {
            let from = b.data();
            let to = if b.byte() == 0 { b.data() } else { b.exact(from.bytes().len() as u32) };
            Expr::Range(Range { op: b.pick(&CMP[..3]), sreg: b.register(), from, to })
        }
        11 | 12 => {
            let len = b.pick(&[4, 2, 1, 8, 16, 6]);
            let op = match b.below(4) {
                0 => BitwiseOp::Lshift(b.number()),
                1 => BitwiseOp::Rshift(b.number()),
                _ => BitwiseOp::MaskXor { mask: b.exact(len), xor: b.exact(len) },
            };
            Expr::Bitwise(Bitwise { sreg: b.register(), dreg: b.register(), len, op })
        }
        13 => Expr::Byteorder(Byteorder {
            op: b.pick(&[ByteorderOp::Hton, ByteorderOp::Ntoh]),
            sreg: b.register(),
            dreg: b.register(),
            len: b.pick(&[4, 2, 8, 16, 1]),
            size: b.pick(&[2, 4, 8, 1]),
        }),
        14 | 15 => {
            let dreg = b.flag().then(|| b.register());
            Expr::Lookup(Lookup {
                set: b.set(),
                sreg: b.register(),
                dreg,
                inverse: b.byte() & 3 == 3,
            })
        }
        16 => Expr::Counter(Counter::default()),
        17 => Expr::Limit(Limit {
            rate: b.number().into(),
            unit: b.pick(&[1, 60, 3600, u64::MAX]),
            burst: b.number(),
            kind: b.pick(&[LimitType::Packets, LimitType::Bytes]),
            over: b.flag(),
        }),
        18 => Expr::Quota(Quota {
            bytes: b.number().into(),
            consumed: 0,
            over: b.flag(),
            depleted: false,
        }),
        19 => Expr::Last(Last::default()),
        20 => match b.flag() {
            true => Expr::Objref(Objref::Map { sreg: b.register(), set: b.set() }),
            false => {
                let (kind, name) = b.pick(&[
                    (ObjectType::Counter, "k"),
                    (ObjectType::Quota, "q"),
                    (ObjectType::Limit, "l"),
                ]);
                Expr::Objref(Objref::Named { kind, name: name.into() })
            }
        },
        21 => Expr::Log(Log::default()),
        22 | 23 => Expr::Exthdr(Exthdr {
            op: b.pick(&EXTHDR),
            kind: b.pick(&[2, 0, 3, 43, 44, 60, 7, 148, 1, 255]),
            offset: b.number(),
            len: b.pick(&[1, 2, 4, 16, 8]),
            present: b.flag(),
            dreg: b.register(),
        }),
        24 => Expr::ExthdrSet(ExthdrSet {
            op: b.pick(&EXTHDR[..2]),
            kind: b.pick(&[2, 3, 8]),
            offset: b.number(),
            len: b.pick(&[2, 4, 1]),
            sreg: b.register(),
        }),
        25 => {
            Expr::ExthdrReset(ExthdrReset { op: b.pick(&EXTHDR[..2]), kind: b.pick(&[2, 3, 8, 0]) })
        }
        26 => Expr::Numgen(Numgen {
            mode: b.pick(&[NumgenMode::Inc, NumgenMode::Random]),
            modulus: b.number(),
            offset: b.number(),
            dreg: b.register(),
        }),
        27 => Expr::Hash(match b.flag() {
            true => Hash::Sym { modulus: b.number(), offset: b.number(), dreg: b.register() },
            false => Hash::Jenkins {
                sreg: b.register(),
                len: b.number(),
                seed: b.flag().then_some(7),
                modulus: b.number(),
                offset: b.number(),
                dreg: b.register(),
            },
        }),
        28 => Expr::Fib(Fib {
            result: b.pick(&[FibResult::Oif, FibResult::OifName, FibResult::AddrType]),
            flags: b.below(64),
            dreg: b.register(),
        }),
        29 => Expr::Rt(Rt {
            key: b.pick(&[
                RtKey::Classid,
                RtKey::Nexthop4,
                RtKey::Nexthop6,
                RtKey::TcpMss,
                RtKey::Xfrm,
            ]),
            dreg: b.register(),
        }),
        30 => Expr::Reject(Reject {
            kind: b.pick(&[RejectType::IcmpUnreach, RejectType::TcpRst, RejectType::IcmpxUnreach]),
            code: b.byte(),
        }),
        31 => Expr::Dynset(Dynset {
            set: b.pick(&["seen", "seen", "addresses", "marks", "none"]).into(),
            op: b.pick(&[DynsetOp::Add, DynsetOp::Update, DynsetOp::Delete]),
            sreg_key: b.register(),
            sreg_data: (b.byte() & 7 == 7).then(|| b.register()),
            timeout: b.below(3).into(),
            invert: b.flag(),
            exprs: if b.flag() { vec![Expr::Counter(Counter::default())] } else { vec![] },
        }),
        _ => match b.flag() {
            true => Expr::Dup(Dup {
                addr: b.flag().then(|| b.register()),
                dev: b.flag().then(|| b.register()),
            }),
            false => Expr::Fwd(Fwd {
                dev: b.register(),
                addr: b.flag().then(|| b.register()),
                nfproto: b.pick(&[2, 10, 0]),
            }),
        },
    }
}
