// SPDX-License-Identifier: Apache-2.0

//! What classifying costs: `cargo bench -p penstock-classify`, or only that of lists of 100,000
//! rules of some kinds: `cargo bench -p penstock-classify --bench classify -- acl fw ipc all`,
//! where `all` has all kinds in turn. No figure is a test.

use std::hint::black_box;
use std::time::Instant;

use fastrand::Rng;
use penstock_classify::{Builder, Classifier, Interval, Location};
use penstock_testkit::classbench::{Header, Kind, Prefix, Rule};

fn builder(rules: &[Rule]) -> Builder {
    let mut builder = Builder::new(&[4, 4, 2, 2, 1]);
    let mut intervals = Vec::new();
    for (number, rule) in (0..).zip(rules) {
        intervals.clear();
        let mut add = |dimension, from: u32, to: u32| {
            intervals.push(Interval { dimension, from: from.into(), to: to.into() });
        };
        for (dimension, Prefix { address, len }) in [(0, rule.source), (1, rule.destination)] {
            add(dimension, address, address | u32::MAX.checked_shr(len.into()).unwrap_or(0));
        }
        for (dimension, (first, last)) in [(2, rule.source_ports), (3, rule.destination_ports)] {
            add(dimension, first.into(), last.into());
        }
        if let Some(protocol) = rule.protocol {
            add(4, protocol.into(), protocol.into());
        }
        builder.add(number, &intervals);
    }
    builder
}

fn locate(classifier: &Classifier, header: &Header) -> Location {
    let mut at = Location::default();
    classifier.place_word(&mut at, 0, header.source);
    classifier.place_word(&mut at, 1, header.destination);
    classifier.place_word(&mut at, 2, header.source_port.into());
    classifier.place_word(&mut at, 3, header.destination_port.into());
    classifier.place_word(&mut at, 4, header.protocol.into());
    at
}

/// Nanoseconds per packet, the least of some rounds.
fn time(packets: usize, mut run: impl FnMut()) -> f64 {
    const ROUNDS: u32 = 300;
    run();
    let round = |_| {
        let start = Instant::now();
        run();
        start.elapsed().as_secs_f64()
    };
    (0..ROUNDS).map(round).fold(f64::MAX, f64::min) * 1e9 / packets as f64
}

fn measure(name: &str, rules: &[Rule], headers: &[Header]) {
    let start = Instant::now();
    let Some(classifier) = builder(rules).build() else { return println!("{name}: not built") };
    let build = start.elapsed().as_secs_f64() * 1e3;
    let single = time(headers.len(), || {
        for header in headers {
            black_box(classifier.next(&locate(&classifier, header), 0));
        }
    });
    let mut found = [0; 64];
    let batch = time(headers.len(), || {
        let mut locations = [Location::default(); 64];
        for burst in headers.chunks(64) {
            for (at, header) in locations.iter_mut().zip(burst) {
                *at = locate(&classifier, header);
            }
            classifier.next_batch(&locations[..burst.len()], 0, &mut found);
            black_box(&found);
        }
    });
    let size = classifier.size();
    println!(
        "{name}: {single:.1} ns, in bursts {batch:.1} ns; built in {build:.0} ms, {} kB, {} trees, \
         {:.1} places per rule",
        size.bytes / 1000,
        size.trees,
        size.copies as f64 / rules.len() as f64
    );
}

fn main() {
    const PACKETS: usize = 16384;
    let names: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    for name in &names {
        let kinds: Vec<Kind> =
            Kind::ALL.into_iter().filter(|k| name == "all" || name == k.name()).collect();
        let lists =
            kinds.iter().map(|k| penstock_testkit::classbench::rules(*k, 100_000 / kinds.len(), 1));
        let rules = lists.collect::<Vec<_>>().concat();
        measure(name, &rules, &penstock_testkit::classbench::traffic(&rules, PACKETS, 2));
    }
    if !names.is_empty() {
        return;
    }
    for count in [1000, 10_000, 100_000] {
        let any = Prefix { address: 0, len: 0 };
        let mut rng = Rng::with_seed(5);
        let lines: Vec<Rule> = (0..count)
            .map(|_| Rule {
                source: Prefix { address: rng.u32(..), len: 32 },
                destination: any,
                source_ports: (0, u16::MAX),
                destination_ports: (0, u16::MAX),
                protocol: None,
            })
            .collect();
        measure(
            &format!("addresses-{count}"),
            &lines,
            &penstock_testkit::classbench::traffic(&lines, PACKETS, 1),
        );
        let random = |_| Header {
            source: rng.u32(..),
            destination: rng.u32(..),
            source_port: rng.u16(..),
            destination_port: rng.u16(..),
            protocol: 17,
        };
        let random: Vec<Header> = (0..PACKETS).map(random).collect();
        measure(&format!("addresses-{count}, no match"), &lines, &random);
        for kind in Kind::ALL {
            let rules = penstock_testkit::classbench::rules(kind, count, 1);
            measure(
                &format!("{}-{count}", kind.name()),
                &rules,
                &penstock_testkit::classbench::traffic(&rules, PACKETS, 2),
            );
        }
    }
}
