// SPDX-License-Identifier: Apache-2.0

//! Tables made at random: rules that make sense one by one, over few constants, so that packets
//! meet them.

pub mod host;
mod sets;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use fastrand::Rng;
use penstock_packet::{CtInfo, Packet, VlanTag};
use penstock_program::Family;
use penstock_program::dynamic::DynamicSet;
use penstock_program::expr::*;
use penstock_program::image::*;
use penstock_program::{Data, Register, State, Verdict};
use penstock_sets::{Description, Element, Set};
use penstock_testkit::build::{self, Ethernet, HopByHop, Ipv4, Ipv6, Tcp, Udp};
use penstock_testkit::program::Table;

/// Chains that are base chains; the others are called.
pub const BASES: usize = 3;
const CHAINS: usize = 8;

/// Chains of rules, as [`Table`] takes them.
pub struct Made {
    chains: Vec<(Arc<str>, Vec<Vec<Expr>>)>,
}

impl fmt::Display for Made {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, rules) in &self.chains {
            writeln!(f, "chain {name}")?;
            for rule in rules {
                let text: Vec<_> = rule.iter().map(|e| format!("[ {e} ]")).collect();
                writeln!(f, "  {}", text.join(" "))?;
            }
        }
        Ok(())
    }
}

const R1: Register = Register(1);
const R2: Register = Register(2);

fn data(bytes: &[u8]) -> Data {
    bytes.to_vec().into()
}

fn cmp(rng: &mut Rng, bytes: &[u8]) -> Expr {
    let op = match rng.u8(..10) {
        0..=4 => CmpOp::Eq,
        5..=6 => CmpOp::Neq,
        _ => *rng.choice(&[CmpOp::Lt, CmpOp::Lte, CmpOp::Gt, CmpOp::Gte]).unwrap(),
    };
    Expr::Cmp(Cmp { op, sreg: R1, data: data(bytes) })
}

fn meta(key: MetaKey) -> Expr {
    Expr::Meta(Meta { key, dreg: R1 })
}

fn payload(base: PayloadBase, offset: u32, len: u32) -> Expr {
    Expr::Payload(Payload { base, offset, len, dreg: R1 })
}

fn some_port(rng: &mut Rng) -> [u8; 2] {
    [0, rng.u8(1..10)]
}

fn some_v4(rng: &mut Rng) -> [u8; 4] {
    [198, 18, 0, rng.u8(1..10)]
}

/// Expressions that match or not.
fn matches(rng: &mut Rng, rule: &mut Vec<Expr>) {
    match rng.u8(..33) {
        30.. => sets::lookup(rng, rule),
        0..=2 => {
            let protocol = *rng.choice(&[6, 17, 17, 6, 58, 132]).unwrap();
            rule.extend([meta(MetaKey::L4Proto), cmp(rng, &[protocol])]);
        }
        3 => {
            let family = *rng.choice(&[2, 10]).unwrap();
            rule.extend([meta(MetaKey::NfProto), cmp(rng, &[family])]);
        }
        4 => {
            let protocol = *rng.choice(&[[8, 0], [0x86, 0xdd]]).unwrap();
            rule.extend([meta(MetaKey::Protocol), cmp(rng, &protocol)]);
        }
        5..=6 => {
            let mark = u32::from(rng.u8(..4)).to_ne_bytes();
            rule.push(meta(MetaKey::Mark));
            if rng.bool() {
                rule.push(mask(4, rng));
            }
            rule.push(cmp(rng, &mark));
        }
        7..=10 => {
            let port = some_port(rng);
            let offset = *rng.choice(&[0, 2, 2, 2]).unwrap();
            let equal = Expr::Cmp(Cmp { op: CmpOp::Eq, sreg: R1, data: data(&port) });
            let load = payload(PayloadBase::Transport, offset, 2);
            rule.extend([load, if rng.bool() { equal } else { cmp(rng, &port) }]);
        }
        11..=13 => {
            let address = some_v4(rng);
            let offset = *rng.choice(&[12, 12, 16]).unwrap();
            rule.push(payload(PayloadBase::Network, offset, 4));
            if rng.u8(..4) == 0 {
                rule.push(mask(4, rng));
            }
            rule.push(cmp(rng, &address));
        }
        14 => {
            let len = *rng.choice(&[1u32, 2, 3, 4, 5, 6, 8, 11, 16]).unwrap();
            let base = *rng
                .choice(&[
                    PayloadBase::Link,
                    PayloadBase::Network,
                    PayloadBase::Transport,
                    PayloadBase::Inner,
                ])
                .unwrap();
            let bytes: Vec<u8> = (0..len).map(|_| rng.u8(..)).collect();
            rule.push(payload(base, rng.u32(..40), len));
            if rng.bool() {
                rule.push(mask(len, rng));
            }
            rule.push(cmp(rng, &bytes));
        }
        15 => {
            let mut address = [0; 16];
            address[..4].copy_from_slice(&[0x20, 1, 0x0d, 0xb8]);
            address[15] = rng.u8(..4);
            rule.extend([payload(PayloadBase::Network, 8, 16), cmp(rng, &address)]);
        }
        16..=17 => {
            let len = *rng.choice(&[1usize, 2, 4, 4, 16]).unwrap();
            let (mut from, mut to) = (vec![0; len], vec![0; len]);
            (from[len - 1], to[len - 1]) = (rng.u8(..6), rng.u8(3..20));
            if len == 4 {
                (from[0], to[0]) = (198, 198);
                (from[1], to[1]) = (18, 18);
            }
            let op = if rng.bool() { CmpOp::Eq } else { CmpOp::Neq };
            let range = Expr::Range(Range { op, sreg: R1, from: data(&from), to: data(&to) });
            let load = match len {
                2 => payload(PayloadBase::Transport, 2, 2),
                4 => payload(PayloadBase::Network, 12, 4),
                16 => payload(PayloadBase::Network, 8, 16),
                _ => payload(PayloadBase::Network, 8, 1),
            };
            rule.extend([load, range]);
        }
        18 => {
            let op = if rng.bool() { BitwiseOp::Lshift } else { BitwiseOp::Rshift };
            let len = *rng.choice(&[4, 8, 16]).unwrap();
            rule.extend([
                payload(PayloadBase::Network, 0, len),
                Expr::Bitwise(Bitwise { sreg: R1, dreg: R2, len, op: op(rng.u32(..32)) }),
                Expr::Cmp(Cmp { op: CmpOp::Lt, sreg: R2, data: data(&rng.u32(..).to_ne_bytes()) }),
            ]);
        }
        27 => {
            let op = *rng.choice(&[BoolOp::And, BoolOp::Or, BoolOp::Xor]).unwrap();
            let len = *rng.choice(&[4, 8, 16]).unwrap();
            let (dreg, second) = (*rng.choice(&[R1, R2]).unwrap(), PayloadBase::Network);
            rule.extend([
                payload(PayloadBase::Network, 0, len),
                Expr::Payload(Payload { base: second, offset: 4, len, dreg: R2 }),
                Expr::Bitwise(Bitwise { sreg: R1, dreg, len, op: BitwiseOp::Combine(op, R2) }),
                Expr::Cmp(Cmp {
                    op: CmpOp::Lt,
                    sreg: dreg,
                    data: data(&rng.u32(..).to_ne_bytes()),
                }),
            ]);
        }
        19 => {
            let (size, len) = *rng.choice(&[(2, 2), (4, 4), (8, 8), (2, 6), (4, 8)]).unwrap();
            let op = ByteorderOp::Hton;
            rule.extend([
                payload(PayloadBase::Network, 12, len),
                Expr::Byteorder(Byteorder { op, sreg: R1, dreg: R1, len, size }),
            ]);
            let bytes: Vec<u8> = (0..len).map(|_| rng.u8(..)).collect();
            rule.push(cmp(rng, &bytes));
        }
        20..=22 => {
            let (set, load) = *rng
                .choice(&[
                    ("few-ports", payload as fn(_, _, _) -> _),
                    ("ports", payload),
                    ("ranges", payload),
                    ("expiring", payload),
                    ("counted", payload),
                ])
                .unwrap();
            rule.push(load(PayloadBase::Transport, 2, 2));
            rule.push(Expr::Lookup(Lookup {
                set: set.into(),
                sreg: R1,
                dreg: None,
                inverse: rng.bool(),
            }));
        }
        23 => {
            let set = *rng.choice(&["few-addresses", "addresses", "nets", "dynamic"]).unwrap();
            rule.push(payload(PayloadBase::Network, 12, 4));
            rule.push(Expr::Lookup(Lookup {
                set: set.into(),
                sreg: R1,
                dreg: None,
                inverse: rng.bool(),
            }));
        }
        24 => {
            rule.push(payload(PayloadBase::Transport, 2, 2));
            rule.push(Expr::Lookup(Lookup {
                set: "marks".into(),
                sreg: R1,
                dreg: Some(R1),
                inverse: false,
            }));
            rule.push(cmp(rng, &[1, 0, 0, 0]));
        }
        28 => {
            let ct = |key| Expr::Ct(Ct { key, dir: None, dreg: R1 });
            let state = [2u8, 4, 8, 1, 64][rng.usize(..5)];
            match rng.u8(..3) {
                0 => rule.extend([ct(CtKey::State), cmp(rng, &[state, 0, 0, 0])]),
                1 => {
                    let mask = BitwiseOp::MaskXor { mask: data(&[6, 0, 0, 0]), xor: data(&[0; 4]) };
                    rule.push(ct(CtKey::State));
                    rule.push(Expr::Bitwise(Bitwise { sreg: R1, dreg: R1, len: 4, op: mask }));
                    rule.push(Expr::Cmp(Cmp { op: CmpOp::Neq, sreg: R1, data: data(&[0; 4]) }));
                }
                _ => rule.extend([ct(CtKey::Direction), cmp(rng, &[1])]),
            }
        }
        25 => {
            let key = *rng.choice(&MetaKey::ALL).unwrap();
            rule.extend([meta(key), cmp(rng, &[1])]);
        }
        26 => rule.push(match rng.u8(..3) {
            0 => Expr::Numgen(Numgen { mode: NumgenMode::Inc, modulus: 3, offset: 0, dreg: R1 }),
            1 => Expr::Hash(Hash::Sym { modulus: 4, offset: 0, dreg: R1 }),
            _ => Expr::Exthdr(Exthdr {
                op: *rng.choice(&[ExthdrOp::TcpOpt, ExthdrOp::Ipv6, ExthdrOp::Ipv4Opt]).unwrap(),
                kind: *rng.choice(&[2, 0, 148]).unwrap(),
                offset: 0,
                len: 1,
                present: rng.bool(),
                dreg: R1,
            }),
        }),
        _ => rule.push(Expr::Fib(Fib {
            result: *rng.choice(&[FibResult::Oif, FibResult::AddrType]).unwrap(),
            flags: FIB_SADDR,
            dreg: R1,
        })),
    }
}

fn mask(len: u32, rng: &mut Rng) -> Expr {
    let mut bytes =
        || (0..len).map(|_| *rng.choice(&[0u8, 255, 255, 7]).unwrap()).collect::<Vec<u8>>();
    let op = BitwiseOp::MaskXor { mask: bytes().into(), xor: vec![0; len as usize].into() };
    Expr::Bitwise(Bitwise { sreg: R1, dreg: R1, len, op })
}

fn statement(rng: &mut Rng, rule: &mut Vec<Expr>) {
    let constant = |bytes: &[u8]| {
        Expr::Immediate(Immediate { dreg: R1, data: ImmediateData::Value(data(bytes)) })
    };
    match rng.u8(..17) {
        16 => rule.push(Expr::Notrack(Notrack)),
        0..=4 => rule.push(Expr::Counter(Counter::default())),
        5 => rule.push(Expr::Limit(Limit {
            rate: 2,
            unit: 3600,
            burst: rng.u32(..6),
            kind: LimitType::Packets,
            over: rng.bool(),
        })),
        6 => rule.push(Expr::Quota(Quota {
            bytes: 200,
            over: rng.bool(),
            consumed: 0,
            depleted: false,
        })),
        7..=8 => {
            let mark = u32::from(rng.u8(..4)).to_ne_bytes();
            rule.extend([constant(&mark), Expr::MetaSet(MetaSet { key: MetaKey::Mark, sreg: R1 })]);
        }
        9 => {
            let key = *rng.choice(&[MetaKey::Priority, MetaKey::PktType]).unwrap();
            rule.extend([constant(&[1, 0, 0, 0]), Expr::MetaSet(MetaSet { key, sreg: R1 })]);
        }
        10 => {
            let address = some_v4(rng);
            rule.push(constant(&address));
            rule.push(Expr::PayloadSet(PayloadSet {
                base: PayloadBase::Network,
                offset: 12,
                len: 4,
                sreg: R1,
                csum_type: ChecksumType::Inet,
                csum_offset: 10,
                csum_flags: 1,
            }));
        }
        11 => {
            rule.push(payload(PayloadBase::Network, 12, 4));
            rule.push(Expr::Dynset(Dynset {
                set: "dynamic".into(),
                op: *rng.choice(&[DynsetOp::Add, DynsetOp::Update, DynsetOp::Delete]).unwrap(),
                sreg_key: R1,
                sreg_data: None,
                timeout: 0,
                invert: false,
                exprs: vec![],
            }));
        }
        12 => {
            let on = u8::from(rng.u8(..4) > 0);
            rule.extend([
                constant(&[on]),
                Expr::MetaSet(MetaSet { key: MetaKey::NfTrace, sreg: R1 }),
            ]);
        }
        13 => rule.push(Expr::ExthdrReset(ExthdrReset { op: ExthdrOp::TcpOpt, kind: 2 })),
        14 => rule.push(Expr::Objref(Objref::Map { sreg: R1, set: "objects".into() })),
        _ => rule.push(Expr::Last(Last { set: false, msecs: 0 })),
    }
}

fn verdict(rng: &mut Rng, chain: usize, rule: &mut Vec<Expr>) {
    let mut say = |verdict| {
        rule.push(Expr::Immediate(Immediate {
            dreg: Register::VERDICT,
            data: ImmediateData::Verdict(verdict),
        }));
    };
    let first = if chain < BASES { BASES } else { chain + 1 };
    let target: Arc<str> =
        if first < CHAINS { format!("c{}", rng.usize(first..CHAINS)).into() } else { "".into() };
    match rng.u8(..14) {
        0..=1 => say(Verdict::Accept),
        2..=3 => say(Verdict::Drop),
        4 => say(Verdict::Return),
        5 => say(Verdict::Continue),
        6..=8 if first < CHAINS => say(Verdict::Jump(target)),
        9 if first < CHAINS => say(Verdict::Goto(target)),
        10 => {
            let maps: &[&str] =
                if chain < BASES { &["verdicts", "many-verdicts"] } else { &["last-verdicts"] };
            let set = (*rng.choice(maps).unwrap()).into();
            rule.push(payload(PayloadBase::Transport, 2, 2));
            rule.push(Expr::Lookup(Lookup {
                set,
                sreg: R1,
                dreg: Some(Register::VERDICT),
                inverse: false,
            }));
        }
        12 => rule.push(Expr::Queue(Queue {
            num: 7,
            total: 1 + rng.u16(..3),
            bypass: rng.bool(),
            fanout: rng.bool(),
            sreg: None,
        })),
        11 => rule.push(Expr::Reject(Reject { kind: RejectType::IcmpUnreach, code: 3 })),
        _ => {}
    }
}

impl Made {
    /// A chain of many rules that ask for one of a few fields, in turn or many after each other for
    /// the same, among them some that do something.
    pub fn long(rng: &mut Rng, rules: usize) -> Self {
        let in_turn = rng.bool();
        // Rules that do no more than that are looked up in tables.
        let only_decide = !in_turn && rng.bool();
        let (mut field, mut left) = ((12, 4), if in_turn { 0 } else { 150 });
        let mut rule = |rng: &mut Rng| {
            let mut rule = Vec::new();
            if left == 0 {
                field = *rng.choice(&[(12, 4), (16, 4), (9, 1)]).unwrap();
                left = if in_turn { 1 } else { rng.usize(1..200) };
            }
            left -= 1;
            let value = if field.1 == 4 {
                vec![198, 18, rng.u8(..2), rng.u8(..)]
            } else {
                vec![*rng.choice(&[6, 17, 200]).unwrap()]
            };
            rule.push(payload(PayloadBase::Network, field.0, field.1));
            rule.push(Expr::Cmp(Cmp { op: CmpOp::Eq, sreg: R1, data: value.into() }));
            if only_decide {
                if rng.u8(..3) == 0 {
                    rule.push(Expr::Counter(Counter::default()));
                }
                let verdict = if rng.u8(..3) == 0 { Verdict::Accept } else { Verdict::Drop };
                rule.push(Expr::Immediate(Immediate {
                    dreg: Register::VERDICT,
                    data: ImmediateData::Verdict(verdict),
                }));
                return rule;
            }
            if rng.u8(..3) == 0 {
                matches(rng, &mut rule);
            }
            if !in_turn && rng.u8(..64) > 0 {
                rule.push(Expr::Counter(Counter::default()));
            } else if rng.bool() {
                statement(rng, &mut rule);
            }
            rule
        };
        let base = (0..rules).map(|_| rule(rng)).collect();
        let mut chains = vec![("base".into(), base)];
        chains.extend((1..CHAINS).map(|i| (format!("c{i}").into(), vec![])));
        let mut made = Made { chains };
        made.keep_what_links();
        made
    }

    pub fn random(rng: &mut Rng) -> Self {
        let mut chains = Vec::new();
        for chain in 0..CHAINS {
            let mut rules: Vec<Vec<Expr>> = Vec::new();
            let most = *rng.choice(&[1, 3, 6, 12]).unwrap();
            for _ in 0..rng.usize(..=most) {
                // Rules often begin as the one before.
                let mut rule: Vec<Expr> = match rules.last() {
                    Some(last) if rng.bool() => last[..rng.usize(..=last.len())].to_vec(),
                    _ => Vec::new(),
                };
                let ended = matches!(
                    rule.last(),
                    Some(Expr::Immediate(Immediate { dreg: Register::VERDICT, .. }))
                );
                if !ended {
                    for _ in 0..*rng.choice(&[0, 1, 1, 1, 2, 3]).unwrap() {
                        matches(rng, &mut rule);
                    }
                    for _ in 0..*rng.choice(&[0, 0, 1, 1, 2]).unwrap() {
                        statement(rng, &mut rule);
                    }
                    verdict(rng, chain, &mut rule);
                }
                rules.push(rule);
            }
            let name = if chain == 0 { "base".into() } else { format!("c{chain}").into() };
            chains.push((name, rules));
        }
        let mut made = Made { chains };
        made.keep_what_links();
        made
    }

    /// Leaves out rules that linking refuses.
    fn keep_what_links(&mut self) {
        let mut table = made_sets();
        table.chains = self.chains.iter().map(|(name, _)| (name.clone(), vec![])).collect();
        for (_, rules) in &mut self.chains {
            rules.retain(|rule| {
                table.chains[0].1 = vec![rule.clone()];
                table.link(Family::Ip).is_ok()
            });
        }
    }

    /// Links it, with states and sets of its own.
    pub fn link(&self) -> (Image, Vec<Arc<State>>) {
        let mut table = made_sets();
        table.chains = self.chains.clone();
        table.link(Family::Ip).unwrap()
    }

    /// The states' values.
    pub fn values(&self, states: &[Arc<State>]) -> Vec<String> {
        let all = self.chains.iter().flat_map(|(_, rules)| rules.iter().flatten());
        let stateful = all.filter(|e| e.new_state(0).is_some());
        stateful
            .zip(states)
            .map(|(expr, state)| expr.snapshot(state, 1 << 40).to_string())
            .collect()
    }
}

fn set(
    description: Description,
    elements: Vec<Element<LinkedValue>>,
    value_len: Option<u32>,
) -> LinkedSet {
    let key_len = description.key_len as u32;
    let mut set = Set::new(description).unwrap();
    for element in elements {
        set.insert(element, 0).unwrap();
    }
    set.commit();
    // As the linker does.
    let presence_only = set.iter_unordered().all(|e| e.value.statements.is_empty());
    let set = if presence_only { set.presence_only() } else { set };
    LinkedSet { elements: LinkedElements::Fixed(Arc::new(set)), key_len, value_len }
}

fn element(key: &[u8], data: LinkedData) -> Element<LinkedValue> {
    let value = LinkedValue { data, statements: Box::default() };
    Element { key: key.into(), key_end: None, value, expires_at: None }
}

fn counter() -> Arc<State> {
    Arc::new(Expr::Counter(Counter::default()).new_state(0).unwrap())
}

/// A table with sets of all shapes and no chains.
fn made_sets() -> Table {
    let port = |n: u8| [0, n];
    let keys = |len| Description { key_len: len, ..Description::default() };
    let plain = |ports: &[u8]| {
        ports.iter().map(|p| element(&port(*p), LinkedData::None)).collect::<Vec<_>>()
    };
    let jump = |n: u32| LinkedData::Verdict(LinkedVerdict::Jump(ChainIndex(n)));
    let verdict = LinkedData::Verdict;
    let map = |len| Description { map: true, ..keys(len) };
    let intervals = |len| Description { interval: true, ..keys(len) };
    let range = |from: &[u8], to: &[u8]| Element {
        key_end: Some(to.into()),
        ..element(from, LinkedData::None)
    };
    let mut expiring = plain(&[1, 2, 3]);
    expiring[1].expires_at = Some(1 << 41);
    let mut counted = plain(&[3, 4]);
    counted[0].value.statements = [Stateful::Counter(counter())].into();
    let addresses = |last: std::ops::Range<u8>| {
        last.map(|n| element(&[198, 18, 0, n], LinkedData::None)).collect::<Vec<_>>()
    };
    let sets = [
        ("few-ports", set(keys(2), plain(&[1, 5, 9]), None)),
        ("ports", set(keys(2), plain(&[1, 2, 3, 4, 5, 6, 7, 20, 21, 22, 23]), None)),
        (
            "ranges",
            set(
                intervals(2),
                vec![
                    range(&[0, 2], &[0, 4]),
                    range(&[0, 7], &[0, 8]),
                    element(&[1, 0], LinkedData::None),
                ],
                None,
            ),
        ),
        ("expiring", set(Description { timeout: true, ..keys(2) }, expiring, None)),
        ("counted", set(keys(2), counted, None)),
        ("few-addresses", set(keys(4), addresses(1..4), None)),
        ("addresses", set(keys(4), addresses(3..90), None)),
        ("nets", set(intervals(4), vec![range(&[198, 18, 0, 2], &[198, 18, 0, 5])], None)),
        (
            "marks",
            set(
                map(2),
                (1..6)
                    .map(|n| element(&port(n), LinkedData::from_bytes(&[n % 2, 0, 0, 0])))
                    .collect(),
                Some(4),
            ),
        ),
        (
            "verdicts",
            set(
                map(2),
                vec![
                    element(&port(1), verdict(LinkedVerdict::Accept)),
                    element(&port(2), jump(4)),
                    element(&port(3), verdict(LinkedVerdict::Goto(ChainIndex(5)))),
                    element(&port(4), verdict(LinkedVerdict::Return)),
                    element(&port(5), verdict(LinkedVerdict::Continue)),
                ],
                None,
            ),
        ),
        (
            "many-verdicts",
            set(
                map(2),
                (1..40)
                    .map(|n| {
                        let data = match n % 5 {
                            0 => verdict(LinkedVerdict::Drop),
                            1 => jump(3 + u32::from(n) % 4),
                            2 => verdict(LinkedVerdict::Continue),
                            3 => verdict(LinkedVerdict::Goto(ChainIndex(6))),
                            _ => verdict(LinkedVerdict::Return),
                        };
                        element(&port(n), data)
                    })
                    .collect(),
                None,
            ),
        ),
        (
            "last-verdicts",
            set(
                map(2),
                vec![
                    element(&port(6), verdict(LinkedVerdict::Drop)),
                    element(&port(7), verdict(LinkedVerdict::Accept)),
                ],
                None,
            ),
        ),
        (
            "objects",
            set(
                map(2),
                vec![element(&port(2), LinkedData::Object(Stateful::Counter(counter())))],
                None,
            ),
        ),
    ];
    let dynamic = LinkedSet {
        elements: LinkedElements::Dynamic {
            set: Arc::new(DynamicSet::new(4, None, 64, &[])),
            timeout: 0,
            gc_interval: 1_000,
        },
        key_len: 4,
        value_len: None,
    };
    let mut sets: HashMap<Arc<str>, LinkedSet> =
        sets.into_iter().chain(sets::large()).map(|(name, set)| (Arc::from(name), set)).collect();
    sets.insert("dynamic".into(), dynamic);
    Table { sets, ..Table::default() }
}

/// Mostly a good frame with few different addresses and ports, cut or changed somewhere.
pub fn packet(rng: &mut Rng) -> Packet {
    let link = Ethernet::new("02:00:00:00:00:01", "02:00:00:00:00:02");
    let (from, to) = (u16::from(rng.u8(1..12)), u16::from(rng.u8(1..12)));
    let tcp = Tcp::new(from, to).mss(1460).nop().sack_permitted();
    let address = format!("198.18.0.{}", rng.u8(1..10));
    let v4 = Ipv4::new(&*address, "198.18.0.2");
    let v6 = Ipv6::new("2001:db8::1", "2001:db8::2");
    let udp = Udp::new(from, to);
    let mut frame = match rng.u8(..9) {
        0..=2 => (link / v4 / tcp).build(),
        3..=4 => (link / v4 / udp / build::payload(b"data")).build(),
        5 => (link / v6 / HopByHop::new().option(5, &[0, 0]) / tcp).build(),
        6 => (link / v6 / udp).build(),
        7 => (link / v4.options(&[148, 4, 0, 0]) / udp / build::payload(b"data")).build(),
        _ => (0..rng.usize(..80)).map(|_| rng.u8(..)).collect(),
    };
    if rng.u8(..4) == 0 {
        for _ in 0..rng.usize(..4) {
            if let Some(byte) = frame.get_mut(14..).and_then(|f| rng.choice(f)) {
                *byte = rng.u8(..);
            }
        }
        frame.truncate(rng.usize(..frame.len() * 2 + 1));
    }
    let mut packet = Packet::new();
    packet.load(&frame, if rng.u8(..5) > 0 { 14 } else { 0 });
    let ethertype = frame.get(12..14).map_or(0, |t| u16::from_be_bytes([t[0], t[1]]));
    packet.meta.protocol =
        if rng.u8(..8) > 0 { ethertype } else { *rng.choice(&[0x0800, 0x86dd, 0x0806]).unwrap() };
    packet.meta.vlan = (rng.u8(..4) == 0).then_some(VlanTag { protocol: 0x8100, tci: 5 });
    packet.meta.mark = rng.u32(..4);
    packet.meta.time = rng.u64(..1 << 42);
    packet.meta.nftrace = rng.u8(..10) == 0;
    packet.meta.ct = penstock_packet::Ct {
        entry: *rng.choice(&[5, penstock_packet::Ct::NONE]).unwrap(),
        info: *rng.choice(&CtInfo::ALL).unwrap(),
        template: u16::from(rng.u8(..5) == 0),
        ..Default::default()
    };
    if rng.u8(..6) > 0 {
        packet.find_transport_checked();
    }
    if rng.u8(..4) == 0 {
        packet.data_at_link();
    }
    packet
}
