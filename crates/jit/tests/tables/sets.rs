// SPDX-License-Identifier: Apache-2.0

//! Sets of every structure, too large to be compared one by one, and lookups in them.

use super::*;

/// Addresses that packets have, and as many that they do not.
fn addresses() -> impl Iterator<Item = [u8; 4]> {
    (1..20).map(|n| [198, 18, n % 2, n])
}

/// An address and a port in register layout.
fn pair([a, b, c, d]: [u8; 4], port: u8) -> [u8; 8] {
    [a, b, c, d, 0, port, 0, 0]
}

fn source6(n: u8) -> [u8; 16] {
    let mut address = [0; 16];
    address[..4].copy_from_slice(&[0x20, 1, 0x0d, 0xb8]);
    address[15] = n;
    address
}

fn none(key: &[u8]) -> Element<LinkedValue> {
    element(key, LinkedData::None)
}

fn range(from: &[u8], to: &[u8]) -> Element<LinkedValue> {
    Element { key_end: Some(to.into()), ..none(from) }
}

/// Some stay for ever, some have gone, some will go.
fn expiring(elements: impl Iterator<Item = Element<LinkedValue>>) -> Vec<Element<LinkedValue>> {
    let times = [None, Some(1), Some(1 << 41)];
    elements
        .zip(times.into_iter().cycle())
        .map(|(e, expires_at)| Element { expires_at, ..e })
        .collect()
}

fn counted(mut elements: Vec<Element<LinkedValue>>) -> Vec<Element<LinkedValue>> {
    for element in elements.iter_mut().step_by(2) {
        element.value.statements = [Stateful::Counter(counter())].into();
    }
    elements
}

const ADDRESSES: [&str; 7] = [
    "many-addresses",
    "expiring-addresses",
    "counted-addresses",
    "caught-addresses",
    "many-nets",
    "far-nets",
    "expiring-nets",
];
const PAIRS: [&str; 4] = ["pairs", "pair-ranges", "counted-pair-ranges", "expiring-pair-ranges"];
const MACS: [&str; 2] = ["macs", "mac-ranges"];
const SOURCES6: [&str; 3] = ["sources6", "nets6", "wide-ranges6"];

pub(super) fn large() -> Vec<(&'static str, LinkedSet)> {
    let keys = |key_len| Description { key_len, ..Description::default() };
    let timed = |d| Description { timeout: true, ..d };
    let map = |d| Description { map: true, ..d };
    let intervals = |key_len| Description { interval: true, ..keys(key_len) };
    let pairs = Description { fields: vec![4, 2], ..keys(8) };
    let pair_ranges = Description { interval: true, ..pairs.clone() };
    let ends = [[0; 4], [255; 4]];
    let plain = || addresses().chain(ends).map(|a| none(&a));
    let nets = || (0..20u8).map(|n| range(&[198, 18, 0, 3 * n], &[198, 18, 0, 3 * n + n % 3]));
    // Those that come later are met where those before them end.
    let ranged = || {
        (0..20u8).map(|n| {
            range(&pair([198, 18, 0, n / 2], n % 5), &pair([198, 18, 0, n / 2 + n % 3], 4 + n))
        })
    };
    let mark = |n: u8| LinkedData::from_bytes(&[n % 3, 0, 0, 0]);
    let verdicts = [
        LinkedVerdict::Drop,
        LinkedVerdict::Accept,
        LinkedVerdict::Continue,
        LinkedVerdict::Return,
    ];
    let mut caught: Vec<_> = plain().collect();
    caught.push(none(&[]));
    let mac = |n: u8| [2, 0, 0, 0, 0, n];
    let of_pairs = addresses().flat_map(|a| (0..3).map(move |n| none(&pair(a, 2 * n + 1))));
    let wide = Description { fields: vec![16], ..intervals(16) };
    let v6 = || (1..30u8).map(|n| range(&source6(4 * n), &source6(4 * n + n % 4)));
    let mut pair_sets: Vec<Element<LinkedValue>> = Vec::new();
    // A range with its first or last corner in another one is refused.
    let mut fitting = Set::new(pair_ranges.clone()).unwrap();
    pair_sets.extend(ranged().filter(|e| fitting.insert(e.clone(), 0).is_ok()));
    vec![
        ("many-addresses", set(keys(4), plain().collect(), None)),
        ("expiring-addresses", set(timed(keys(4)), expiring(plain()), None)),
        ("counted-addresses", set(keys(4), counted(plain().collect()), None)),
        ("caught-addresses", set(keys(4), caught, None)),
        ("many-nets", set(intervals(4), nets().collect(), None)),
        // All but one in one part of the whole span.
        (
            "far-nets",
            set(
                intervals(4),
                nets().chain([range(&[250, 0, 0, 0], &[250, 0, 0, 9])]).collect(),
                None,
            ),
        ),
        ("expiring-nets", set(timed(intervals(4)), expiring(nets()), None)),
        ("pairs", set(pairs, of_pairs.collect(), None)),
        ("pair-ranges", set(pair_ranges.clone(), pair_sets.clone(), None)),
        ("counted-pair-ranges", set(pair_ranges.clone(), counted(pair_sets.clone()), None)),
        ("expiring-pair-ranges", set(timed(pair_ranges), expiring(pair_sets.into_iter()), None)),
        ("macs", set(keys(6), (1..20).map(|n| none(&mac(2 * n))).collect(), None)),
        (
            "mac-ranges",
            set(
                intervals(6),
                (0..20).map(|n| range(&mac(4 * n + 2), &mac(4 * n + 3))).collect(),
                None,
            ),
        ),
        ("sources6", set(keys(16), (1..20).map(|n| none(&source6(n))).collect(), None)),
        ("nets6", set(intervals(16), v6().collect(), None)),
        ("wide-ranges6", set(wide, v6().collect(), None)),
        (
            "address-marks",
            set(map(keys(4)), addresses().map(|a| element(&a, mark(a[3]))).collect(), Some(4)),
        ),
        (
            "address-verdicts",
            set(
                map(keys(4)),
                addresses()
                    .map(|a| {
                        element(
                            &a,
                            LinkedData::Verdict(verdicts[usize::from(a[3]) % verdicts.len()]),
                        )
                    })
                    .collect(),
                None,
            ),
        ),
    ]
}

fn load(base: PayloadBase, offset: u32, len: u32, dreg: Register) -> Expr {
    Expr::Payload(Payload { base, offset, len, dreg })
}

fn found(rng: &mut Rng, set: &str) -> Expr {
    Expr::Lookup(Lookup { set: set.into(), sreg: R1, dreg: None, inverse: rng.bool() })
}

/// A lookup in one of them.
pub(super) fn lookup(rng: &mut Rng, rule: &mut Vec<Expr>) {
    match rng.u8(..8) {
        0..=2 => {
            let set = rng.choice(ADDRESSES).unwrap();
            rule.extend([load(PayloadBase::Network, 12, 4, R1), found(rng, set)]);
        }
        3..=4 => {
            let set = rng.choice(PAIRS).unwrap();
            // The second register of four bytes.
            let second = Register(9);
            rule.extend([
                load(PayloadBase::Network, 12, 4, R1),
                load(PayloadBase::Transport, 2, 2, second),
            ]);
            rule.push(found(rng, set));
        }
        5 => {
            let (set, offset) = (rng.choice(MACS).unwrap(), if rng.bool() { 0 } else { 6 });
            rule.extend([load(PayloadBase::Link, offset, 6, R1), found(rng, set)]);
        }
        6 => {
            let set = rng.choice(SOURCES6).unwrap();
            rule.extend([load(PayloadBase::Network, 8, 16, R1), found(rng, set)]);
        }
        _ => {
            rule.push(load(PayloadBase::Network, 12, 4, R1));
            let (set, dreg) = match rng.bool() {
                true => ("address-marks", R1),
                false => ("address-verdicts", Register::VERDICT),
            };
            rule.push(Expr::Lookup(Lookup {
                set: set.into(),
                sreg: R1,
                dreg: Some(dreg),
                inverse: false,
            }));
            if dreg == R1 {
                rule.push(cmp(rng, &[1, 0, 0, 0]));
            }
        }
    }
}
