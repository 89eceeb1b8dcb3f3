// SPDX-License-Identifier: Apache-2.0

//! What lookups cost: `cargo bench -p penstock-sets`. Half of the keys are in the set. No figure is
//! a test.

use std::hint::black_box;
use std::time::Instant;

use fastrand::Rng;
use penstock_sets::{Description, Element, Policy, Set};

/// Nanoseconds that this thread has run: other programs on the machine do not count.
fn ran() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0.0)
}

/// Nanoseconds per key.
fn time(keys: usize, mut run: impl FnMut()) -> f64 {
    let rounds = 20_000_000 / keys;
    run();
    let start = ran();
    (0..rounds).for_each(|_| run());
    (ran() - start) / rounds as f64 / keys as f64
}

/// Element `n`: even numbers are in the set, odd ones are not.
fn key(d: &Description, n: u32) -> Vec<u8> {
    let spread = n.wrapping_mul(2_654_435_761);
    match (&*d.fields, d.key_len) {
        ([], 2) => (n as u16).to_be_bytes().to_vec(),
        ([], len) => spread.to_be_bytes().into_iter().cycle().take(len).collect(),
        _ => [&spread.to_be_bytes()[..], &(1000 + n as u16 % 7).to_be_bytes(), &[0, 0]].concat(),
    }
}

fn measure(name: &str, description: Description, count: u32) {
    let mut set = Set::new(description.clone()).expect("a set");
    let start = Instant::now();
    for n in 0..count {
        let key = key(&description, 2 * n);
        let mut end = key.clone();
        if let Some(port) = end.get_mut(5).filter(|_| !description.fields.is_empty()) {
            *port = port.saturating_add(20);
        }
        let key_end = description.interval.then(|| end.into());
        let _ = set.insert(Element { key: key.into(), key_end, value: n, expires_at: None }, 0);
    }
    set.commit();
    let build = start.elapsed().as_secs_f64() * 1e3;
    let mut rng = Rng::with_seed(1);
    let keys: Vec<Vec<u8>> =
        (0..100_000).map(|_| key(&description, rng.u32(..2 * count))).collect();
    let keys: Vec<&[u8]> = keys.iter().map(|k| &**k).collect();
    let member = time(keys.len(), || {
        keys.iter().for_each(|key| {
            black_box(set.contains(key, 0));
        });
    });
    let single = time(keys.len(), || {
        keys.iter().for_each(|key| {
            black_box(set.lookup(key, 0));
        });
    });
    let batch = time(keys.len(), || {
        let mut found = [None; 64];
        for keys in keys.chunks(64) {
            set.lookup_batch(keys, 0, &mut found);
            black_box(&found);
        }
    });
    println!(
        "{name}-{count} ({}): member {member:.1} ns, element {single:.1} ns, in bursts {batch:.1} ns; built in {build:.1} ms, {} kB",
        set.structure().name(),
        set.index_bytes() / 1000,
    );
}

fn main() {
    let d = Description::default;
    measure("port", Description { key_len: 2, ..d() }, 1000);
    measure("port range", Description { key_len: 2, interval: true, ..d() }, 1000);
    for count in [1000, 100_000, 1_000_000] {
        measure("address", Description { key_len: 4, ..d() }, count);
        measure("address of 16 bytes", Description { key_len: 16, ..d() }, count);
        measure("address range", Description { key_len: 4, interval: true, ..d() }, count);
        measure(
            "address range, memory",
            Description { key_len: 4, interval: true, policy: Policy::Memory, ..d() },
            count,
        );
        if count <= 100_000 {
            let ranges = Description { key_len: 8, fields: vec![4, 2], interval: true, ..d() };
            measure("address . port range", ranges.clone(), count);
            measure(
                "address . port range, memory",
                Description { policy: Policy::Memory, ..ranges },
                count,
            );
        }
    }
}
