// SPDX-License-Identifier: Apache-2.0

//! Sets of every shape with a separate structure, and rules with lookups.

use std::collections::HashMap;
use std::sync::Arc;

use fastrand::Rng;
use penstock_program::State;
use penstock_program::expr::*;
use penstock_program::image::*;
use penstock_sets::{Description, Element, Set};
use penstock_testkit::program::Table;

use super::{R1, payload, payload_to, pick};
use penstock_program::Register;

/// What is looked up: the name of a set, and of which kind its keys are.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Key {
    Port,
    Address,
    Address6,
    Protocol,
    Mac,
    AddressPort,
}

const SETS: &[(&str, Key)] = &[
    ("few-ports", Key::Port),
    ("ports", Key::Port),
    ("port-ranges", Key::Port),
    ("counted-ports", Key::Port),
    ("all-but-ports", Key::Port),
    ("few-addresses", Key::Address),
    ("addresses", Key::Address),
    ("few-nets", Key::Address),
    ("nets", Key::Address),
    ("everything", Key::Address),
    ("nets6", Key::Address6),
    ("addresses6", Key::Address6),
    ("protocols", Key::Protocol),
    ("macs", Key::Mac),
    ("mac-ranges", Key::Mac),
    ("pairs", Key::AddressPort),
    ("pair-ranges", Key::AddressPort),
    ("empty", Key::Port),
];

const VALUES: &[(&str, Key, usize)] = &[
    ("marks", Key::Port, 4),
    ("names", Key::Address, 16),
    ("long", Key::Port, 20),
    ("net-marks", Key::Address, 2),
];

const VERDICTS: &[(&str, Key)] = &[
    ("verdicts", Key::Port),
    ("many-verdicts", Key::Port),
    ("net-verdicts", Key::Address),
    ("counted-verdicts", Key::Port),
];

fn load(rng: &mut Rng, key: Key, rule: &mut Vec<Expr>) {
    use PayloadBase::*;
    match key {
        Key::Port => rule.push(payload(Transport, pick(rng, &[0, 2, 2]), 2)),
        Key::Address => rule.push(payload(Network, pick(rng, &[12, 16]), 4)),
        Key::Address6 => rule.push(payload(Network, pick(rng, &[8, 24]), 16)),
        Key::Protocol => rule.push(payload(Network, 9, 1)),
        Key::Mac => rule.push(payload(Link, pick(rng, &[0, 6]), 6)),
        Key::AddressPort => {
            // In registers that do not lie in a row in the header.
            rule.push(payload_to(Network, 12, 4, Register(1)));
            rule.push(payload_to(Transport, 2, 2, Register(9)));
        }
    }
}

pub fn lookup(rng: &mut Rng, rule: &mut Vec<Expr>) {
    if rng.u8(..3) > 0 {
        let (set, key) = pick(rng, SETS);
        load(rng, key, rule);
        let inverse = rng.u8(..3) == 0;
        rule.push(Expr::Lookup(Lookup { set: set.into(), sreg: R1, dreg: None, inverse }));
        return;
    }
    let (set, key, len) = pick(rng, VALUES);
    load(rng, key, rule);
    rule.push(Expr::Lookup(Lookup { set: set.into(), sreg: R1, dreg: Some(R1), inverse: false }));
    let value = vec![rng.u8(..3); len.min(16)];
    rule.push(Expr::Cmp(Cmp {
        op: pick(rng, &[CmpOp::Eq, CmpOp::Neq, CmpOp::Lt]),
        sreg: R1,
        data: value.into(),
    }));
}

pub fn verdict_map(rng: &mut Rng, chain: usize, rule: &mut Vec<Expr>) {
    // Their verdicts lead to the last chains.
    if chain >= 5 {
        return;
    }
    if rng.u8(..5) == 0 {
        load(rng, Key::Port, rule);
        rule.push(Expr::Objref(Objref::Map { sreg: R1, set: "objects".into() }));
        return;
    }
    let (set, key) = pick(rng, VERDICTS);
    load(rng, key, rule);
    let dreg = Some(Register::VERDICT);
    rule.push(Expr::Lookup(Lookup { set: set.into(), sreg: R1, dreg, inverse: false }));
}

fn counter() -> Arc<State> {
    Arc::new(Expr::Counter(Counter::default()).new_state(0).unwrap())
}

fn element(key: &[u8], data: LinkedData) -> Element<LinkedValue> {
    let value = LinkedValue { data, statements: Box::default() };
    Element { key: key.into(), key_end: None, value, expires_at: None }
}

fn counted(mut element: Element<LinkedValue>) -> Element<LinkedValue> {
    element.value.statements = [Stateful::Counter(counter())].into();
    element
}

fn range(from: &[u8], to: &[u8], data: LinkedData) -> Element<LinkedValue> {
    Element { key_end: Some(to.into()), ..element(from, data) }
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
    LinkedSet { elements: LinkedElements::Fixed(Arc::new(set)), key_len, value_len }
}

/// States of counters in sets, to be compared.
pub fn states(table: &Table) -> Vec<Arc<State>> {
    let mut names: Vec<_> = table.sets.iter().collect();
    names.sort_by_key(|(name, _)| (*name).clone());
    let mut all = Vec::new();
    for (_, set) in names {
        let LinkedElements::Fixed(set) = &set.elements else { continue };
        for element in set.iter() {
            let statements = element.value.statements.iter();
            let object = match &element.value.data {
                LinkedData::Object(object) => Some(object),
                _ => None,
            };
            all.extend(statements.chain(object).filter_map(|s| match s {
                Stateful::Counter(state) => Some(state.clone()),
                _ => None,
            }));
        }
    }
    all
}

fn v6(last: [u8; 2]) -> [u8; 16] {
    let mut out = [0; 16];
    out[..4].copy_from_slice(&[0x20, 1, 0x0d, 0xb8]);
    out[14..].copy_from_slice(&last);
    out
}

fn pair(address: u8, port: u8) -> [u8; 8] {
    [198, 18, 0, address, 0, port, 0, 0]
}

/// A table with all of them and no chains.
pub fn table() -> Table {
    let port = |n: u8| [0, n];
    let address = |n: u8| [198, 18, 0, n];
    let keys = |key_len| Description { key_len, ..Description::default() };
    let map = |len| Description { map: true, ..keys(len) };
    let intervals = |len| Description { interval: true, ..keys(len) };
    let none = || LinkedData::None;
    let plain = |ports: &[u8]| ports.iter().map(|p| element(&port(*p), none())).collect::<Vec<_>>();
    let addresses =
        |last: std::ops::Range<u8>| last.map(|n| element(&address(n), none())).collect::<Vec<_>>();
    let verdict = LinkedData::Verdict;
    let jump = |n: u32| verdict(LinkedVerdict::Jump(ChainIndex(n)));
    let goto = |n: u32| verdict(LinkedVerdict::Goto(ChainIndex(n)));
    let bytes = |bytes: &[u8]| LinkedData::from_bytes(bytes);
    let concatenated = Description { fields: vec![4, 2], ..keys(8) };
    let some_verdict = |n: u8| match n % 6 {
        0 => verdict(LinkedVerdict::Drop),
        1 => jump(5 + u32::from(n) % 3),
        2 => verdict(LinkedVerdict::Continue),
        3 => goto(6),
        4 => verdict(LinkedVerdict::Accept),
        _ => verdict(LinkedVerdict::Return),
    };
    let mut all_but = plain(&[3, 4, 5]);
    all_but.push(element(&[], none()));
    let mut catching =
        vec![element(&port(1), bytes(&[1; 4])), element(&port(2), bytes(&[2, 0, 0, 0]))];
    catching.push(element(&[], bytes(&[0; 4])));
    let wide = |n: u8| range(&[198, 18, n, 3], &[198, 18, n, 5], none());
    let mut nets: Vec<_> = (1..40).map(wide).collect();
    nets.push(range(&[0; 4], &[198, 18, 0, 1], none()));
    nets.push(range(&[198, 18, 0, 4], &[198, 18, 0, 7], none()));
    nets.push(range(&[198, 18, 0, 8], &[198, 18, 0, 8], none()));
    nets.push(range(&[200, 0, 0, 0], &[255; 4], none()));
    let nets6 = (0..12).map(|n| range(&v6([n, 2]), &v6([n, 4]), none())).chain([range(
        &v6([40, 0]),
        &[0xff; 16],
        none(),
    )]);
    let mac = |n: u8| [2, 0, 0, 0, 0, n];
    let sets = [
        ("few-ports", set(keys(2), plain(&[1, 5, 9]), None)),
        ("ports", set(keys(2), plain(&[1, 2, 3, 4, 6, 7, 20, 21, 22, 23]), None)),
        (
            "port-ranges",
            set(
                intervals(2),
                vec![
                    range(&[0, 2], &[0, 4], none()),
                    range(&[0, 7], &[0, 8], none()),
                    element(&[1, 0], none()),
                ],
                None,
            ),
        ),
        (
            "counted-ports",
            set(keys(2), plain(&[1, 2, 3, 4, 5, 6]).into_iter().map(counted).collect(), None),
        ),
        ("all-but-ports", set(keys(2), all_but, None)),
        ("few-addresses", set(keys(4), addresses(1..4), None)),
        ("addresses", set(keys(4), addresses(3..90), None)),
        ("few-nets", set(intervals(4), vec![range(&address(2), &address(5), none())], None)),
        ("nets", set(intervals(4), nets, None)),
        ("everything", set(intervals(4), vec![range(&[0; 4], &[255; 4], none())], None)),
        ("nets6", set(intervals(16), nets6.collect(), None)),
        ("addresses6", set(keys(16), (1..8).map(|n| element(&v6([0, n]), none())).collect(), None)),
        (
            "protocols",
            set(keys(1), [1, 4, 6, 17, 47, 50].map(|p| element(&[p], none())).into(), None),
        ),
        ("macs", set(keys(6), (1..9).map(|n| element(&mac(n), none())).collect(), None)),
        (
            "mac-ranges",
            set(
                intervals(6),
                (0..10).map(|n| range(&mac(n * 3), &mac(n * 3 + 1), none())).collect(),
                None,
            ),
        ),
        (
            "pairs",
            set(
                concatenated.clone(),
                (1..60).map(|n| element(&pair(n % 8, n / 8), none())).collect(),
                None,
            ),
        ),
        (
            "pair-ranges",
            set(
                Description { interval: true, ..concatenated },
                vec![
                    range(&pair(1, 1), &pair(3, 4), none()),
                    range(&pair(5, 6), &pair(9, 9), none()),
                    element(&pair(4, 5), none()),
                ],
                None,
            ),
        ),
        ("empty", set(keys(2), vec![], None)),
        ("marks", set(map(2), catching, Some(4))),
        (
            "names",
            set(
                map(4),
                (1..9).map(|n| element(&address(n), bytes(&[n % 3; 16]))).collect(),
                Some(16),
            ),
        ),
        (
            "long",
            set(map(2), (1..9).map(|n| element(&port(n), bytes(&[n % 3; 20]))).collect(), Some(20)),
        ),
        (
            "net-marks",
            set(
                Description { interval: true, ..map(4) },
                (0..12)
                    .map(|n| range(&[198, 18, n, 2], &[198, 18, n, 6], bytes(&[n % 3, 0])))
                    .collect(),
                Some(2),
            ),
        ),
        (
            "verdicts",
            set(map(2), (1..4).map(|n| element(&port(n), some_verdict(n))).collect(), None),
        ),
        (
            "many-verdicts",
            set(map(2), (1..40).map(|n| element(&port(n), some_verdict(n))).collect(), None),
        ),
        (
            "net-verdicts",
            set(
                Description { interval: true, ..map(4) },
                (0..10)
                    .map(|n| range(&[198, 18, 0, n * 3], &[198, 18, 0, n * 3 + 1], some_verdict(n)))
                    .collect(),
                None,
            ),
        ),
        (
            "counted-verdicts",
            set(
                map(2),
                (1..9).map(|n| counted(element(&port(n), some_verdict(n)))).collect(),
                None,
            ),
        ),
        (
            "objects",
            set(
                map(2),
                (2..9)
                    .map(|n| element(&port(n), LinkedData::Object(Stateful::Counter(counter()))))
                    .collect(),
                None,
            ),
        ),
    ];
    let sets: HashMap<Arc<str>, LinkedSet> =
        sets.into_iter().map(|(name, set)| (name.into(), set)).collect();
    Table { sets, ..Table::default() }
}
