// SPDX-License-Identifier: Apache-2.0

//! The classifier answers as a walk over all rules does.

use fastrand::Rng;
use penstock_classify::{Builder, Interval};
use penstock_testkit::classbench::{Kind, Prefix, Rule, rules, traffic};

/// Widths of dimensions, and how values are chosen: clustered, so that rules overlap and values hit
/// bounds.
fn value(rng: &mut Rng, width: u8) -> u128 {
    let max = if width == 16 { u128::MAX } else { (1 << (8 * width)) - 1 };
    let v = match rng.u8(..6) {
        0 => rng.u128(..),
        1 => rng.u128(..4),
        2 => max - rng.u128(..4),
        3 => (rng.u128(..8) << (8 * width - 4)) + rng.u128(..3),
        _ => (max / 3) + rng.u128(..64),
    };
    v & max
}

fn interval(rng: &mut Rng, dimension: u8, width: u8, points: bool) -> Interval {
    let from = value(rng, width);
    if points || rng.bool() {
        return Interval { dimension, from, to: from };
    }
    let (a, b) = (from, value(rng, width));
    Interval { dimension, from: a.min(b), to: a.max(b) }
}

#[test]
fn first_match_equals_that_of_a_linear_walk() {
    for seed in 0..30 {
        let mut rng = Rng::with_seed(seed);
        let widths: Vec<u8> =
            (0..rng.usize(1..6)).map(|_| [1, 2, 4, 4, 8, 16][rng.usize(..6)]).collect();
        let points: Vec<bool> = widths.iter().map(|_| rng.u8(..4) == 0).collect();
        let (wild, count) = (rng.u8(1..10), [3, 20, 200, 2000][rng.usize(..4)]);
        let mut builder = Builder::new(&widths);
        let mut rules = Vec::new();
        let mut number = 0;
        for _ in 0..count {
            number += rng.u32(..3);
            let mut rule = Vec::new();
            for (d, &width) in widths.iter().enumerate() {
                if rng.u8(..10) >= wild {
                    rule.push(interval(&mut rng, d as u8, width, points[d]));
                }
            }
            builder.add(number, &rule);
            rules.push((number, rule));
        }
        let classifier = builder.build().expect("a classifier");
        let batch_from = if rng.bool() { 0 } else { rng.u32(..number + 2) };
        let (mut locations, mut walks) = (Vec::new(), Vec::new());
        for _ in 0..400 {
            let near = rng.choice(&rules).unwrap().1.clone();
            let mut values: Vec<u128> = widths.iter().map(|w| value(&mut rng, *w)).collect();
            for i in &near {
                if rng.u8(..8) == 0 {
                    continue;
                }
                values[usize::from(i.dimension)] = if rng.bool() { i.from } else { i.to };
            }
            let at = classifier.locate(&values);
            let from = if rng.bool() { 0 } else { rng.u32(..number + 2) };
            let walk = |from| {
                let found = rules.iter().find(|(number, rule)| {
                    let holds =
                        |i: &Interval| (i.from..=i.to).contains(&values[usize::from(i.dimension)]);
                    *number >= from && rule.iter().all(holds)
                });
                found.map(|r| r.0)
            };
            assert_eq!(
                classifier.next(&at, from),
                walk(from),
                "seed {seed} from {from} {values:?}"
            );
            locations.push(at);
            walks.push(walk(batch_from).unwrap_or(u32::MAX));
        }
        // Bursts of all lengths.
        let mut found = vec![0; 400];
        let (mut done, mut len) = (0, 1);
        while done < 400 {
            let end = (done + len).min(400);
            classifier.next_batch(&locations[done..end], batch_from, &mut found[done..end]);
            (done, len) = (end, len + 7);
        }
        assert_eq!(found, walks, "seed {seed} from {batch_from}");
    }
}

#[test]
fn rules_that_cannot_match_are_left_out() {
    let mut builder = Builder::new(&[2, 2]);
    let port = |from, to| Interval { dimension: 0, from, to };
    builder.add(0, &[port(10, 20), port(30, 40)]);
    builder.add(1, &[port(10, 20), port(15, 40)]);
    builder.add(1, &[port(50, 60)]);
    builder.add(9, &[]);
    let classifier = builder.build().unwrap();
    let next = |value, from| classifier.next(&classifier.locate(&[value, 0]), from);
    assert_eq!(
        [next(12, 0), next(15, 0), next(20, 0), next(21, 0), next(55, 0)],
        [9, 1, 1, 9, 1].map(Some)
    );
    assert_eq!((next(15, 2), next(15, 9), next(15, 10)), (Some(9), Some(9), None));
}

#[test]
fn oversized_rule_lists_are_refused() {
    assert!(Builder::new(&[1; 17]).build().is_none());
    let mut same = Builder::new(&[4]);
    for rule in 0..100_000 {
        same.add(rule, &[]);
    }
    assert!(same.build().is_none());
    assert!(Builder::new(&[4]).build().is_some_and(|c| c.next(&c.locate(&[1]), 0).is_none()));
}

#[test]
fn single_and_batched_searches_of_large_lists_agree() {
    let between =
        |dimension, from: u32, to: u32| Interval { dimension, from: from.into(), to: to.into() };
    let net = |dimension, Prefix { address, len }: Prefix| {
        between(dimension, address, address | u32::MAX.checked_shr(len.into()).unwrap_or(0))
    };
    let intervals = |rule: &Rule| {
        let ports =
            |dimension, (first, last): (u16, u16)| between(dimension, first.into(), last.into());
        let protocol = rule.protocol.map(|p| between(4, p.into(), p.into()));
        [
            net(0, rule.source),
            net(1, rule.destination),
            ports(2, rule.source_ports),
            ports(3, rule.destination_ports),
        ]
        .into_iter()
        .chain(protocol)
        .collect::<Vec<_>>()
    };
    for kind in Kind::ALL {
        let list = rules(kind, 20_000, 1);
        let mut builder = Builder::new(&[4, 4, 2, 2, 1]);
        for (number, rule) in (0..).zip(&list) {
            builder.add(number, &intervals(rule));
        }
        let classifier = builder.build().unwrap();
        assert!(classifier.size().bytes > 500_000 && classifier.size().trees > 1);
        let packets = traffic(&list, 100, 2);
        let locations: Vec<_> = packets
            .iter()
            .map(|p| {
                let (source, destination) = (p.source_port, p.destination_port);
                let values =
                    [p.source, p.destination, source.into(), destination.into(), p.protocol.into()];
                classifier.locate(&values.map(u128::from))
            })
            .collect();
        for from in [0, 9_000] {
            let mut found = vec![0; packets.len()];
            classifier.next_batch(&locations, from, &mut found);
            for ((packet, location), batch) in packets.iter().zip(&locations).zip(found) {
                let walk =
                    (0..).zip(&list).find(|(number, rule)| *number >= from && rule.matches(packet));
                let walk = walk.map(|(number, _)| number);
                assert_eq!(
                    classifier.next(location, from),
                    walk,
                    "{kind:?} from {from}: {packet:?}"
                );
                assert_eq!(batch, walk.unwrap_or(u32::MAX), "{kind:?} from {from}: {packet:?}");
            }
        }
    }
}
