// SPDX-License-Identifier: Apache-2.0

//! The table that packets change: against a plain map with random operations and time, and with
//! several threads.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use fastrand::Rng;
use penstock_sets::{Dynamic, NEVER};

/// A key of any length that stands for a number.
fn key(len: usize, number: u64) -> Vec<u8> {
    (0..len).map(|i| (number >> (8 * (i % 3))) as u8 ^ (i as u8 / 3)).collect()
}

#[test]
fn the_table_agrees_with_a_map_under_random_operations_and_time() {
    let mut rng = Rng::with_seed(penstock_testkit::seed());
    for round in 0..if cfg!(miri) { 3 } else { 60 } {
        let key_len = [1, 2, 4, 6, 8, 16, 20, 64][rng.usize(..8)];
        let size = if round % 3 == 0 { rng.u32(1..4) } else { rng.u32(1..200) };
        let numbers = rng.u64(1..u64::from(size) * 2 + 3);
        let table = Dynamic::new(key_len, 2, size);
        let mut model: HashMap<Vec<u8>, (u64, u64)> = HashMap::new();
        let mut now = 1_000;
        for step in 0..if cfg!(miri) { 100 } else { 2_000 } {
            now += if rng.u8(..4) == 0 { rng.u64(..40) } else { 0 };
            model.retain(|_, (_, expires)| now < *expires);
            let k = key(key_len, rng.u64(..numbers));
            let expires = if rng.bool() { NEVER } else { now + rng.u64(..60) };
            let at = format!("round {round} step {step}");
            match rng.u8(..10) {
                0..4 => {
                    let fill = |v: &[AtomicU64]| v.iter().for_each(|w| w.store(step, Relaxed));
                    let made = table.insert(&k, now, expires, fill).map(|(_, made)| made);
                    let there = model.contains_key(&k);
                    let full = !there && model.len() >= size as usize;
                    assert_eq!(made, (!full).then_some(!there), "{at}");
                    if made == Some(true) && now < expires {
                        model.insert(k, (step, expires));
                    }
                }
                4 => {
                    let renewed = table.renew(&k, now, |_| Some(expires)).is_some();
                    assert_eq!(renewed, model.contains_key(&k), "{at}");
                    model.entry(k).and_modify(|e| e.1 = expires);
                }
                5 => assert_eq!(table.remove(&k, now), model.remove(&k).is_some(), "{at}"),
                6 if rng.u8(..50) == 0 => {
                    table.clear();
                    model.clear();
                    assert!(table.is_empty(), "{at}");
                }
                7 if step % 10 == 0 => {
                    let mut all: Vec<_> = table
                        .elements(now, |v| v[0].load(Relaxed))
                        .into_iter()
                        .map(|e| (e.key.into_vec(), e.read, e.expires_at.unwrap_or(NEVER)))
                        .collect();
                    let mut wanted: Vec<_> =
                        model.iter().map(|(k, (v, e))| (k.clone(), *v, *e)).collect();
                    all.sort();
                    wanted.sort();
                    assert_eq!(all, wanted, "{at}");
                }
                _ => {
                    let read = |v: &[AtomicU64]| (v[0].load(Relaxed), v[1].load(Relaxed));
                    let found = table.lookup(&k, now, read).map(|(read, _)| read);
                    assert_eq!(found, model.get(&k).map(|(v, _)| (*v, *v)), "{at}");
                    if key_len <= 8 {
                        let mut bytes = [0; 8];
                        bytes[..key_len].copy_from_slice(&k);
                        let contains = table.contains_short(u64::from_le_bytes(bytes), now);
                        assert_eq!(contains, found.is_some(), "{at}");
                    }
                }
            }
        }
    }
}

#[test]
fn keys_of_another_length_are_not_found() {
    let table = Dynamic::new(4, 0, 8);
    assert!(table.insert(&[1, 2, 3], 0, NEVER, |_| ()).is_none());
    assert!(table.lookup(&[0; 5], 0, |_| ()).is_none());
    let long = Dynamic::new(9, 0, 8);
    assert!(long.insert(&[0; 9], 0, NEVER, |_| ()).is_some());
    assert!(!long.contains_short(0, 0));
    assert!(!table.remove(&[], 0));
    assert!(table.is_empty());
}

#[test]
fn a_reserved_slot_is_exclusive() {
    let table = Dynamic::new(4, 0, 2);
    let insert = |n: u32| table.insert(&n.to_ne_bytes(), 0, NEVER, |_| ()).is_some();
    assert!(insert(1) && table.reserve(0));
    assert!(!insert(2), "the last place is reserved");
    assert!(!table.reserve(0));
    assert!(table.insert_reserved(&3u32.to_ne_bytes(), 0, NEVER, |_| ()).is_some());
    // An unused slot is released.
    assert!(table.reserve(1) && table.len() == 3);
    assert_eq!(
        table.insert_reserved(&3u32.to_ne_bytes(), 0, NEVER, |_| ()).map(|(_, made)| made),
        Some(false)
    );
    assert_eq!(table.len(), 2);
    table.set_limit(1);
    assert!(!insert(4) && insert(1), "what is there stays when the limit sinks");
}

#[test]
#[cfg_attr(miri, ignore = "takes a gigabyte")]
fn a_table_of_any_size_can_be_made() {
    let table = Dynamic::new(64, 20, u32::MAX);
    assert!(table.insert(&[7; 64], 0, NEVER, |_| ()).is_some());
    assert_eq!(table.len(), 1);
}

/// Several workers add, renew, remove and read the same few keys, so that buckets, slots and the
/// last free places are always fought for. Values must never be mixed, keys never twice, counts
/// never lost.
#[test]
fn concurrent_readers_see_whole_elements_once() {
    let seed = penstock_testkit::seed();
    let (threads, steps) = if cfg!(miri) { (3, 60) } else { (4, 60_000) };
    let table = Dynamic::new(12, 3, 24);
    let clock = AtomicU64::new(1);
    let counted = AtomicU64::new(0);
    let done = AtomicBool::new(false);
    let ours = |k: &[u8]| u64::from(k[0]);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|worker| {
                let (table, clock, counted) = (&table, &clock, &counted);
                scope.spawn(move || {
                    let mut rng = Rng::with_seed(seed ^ worker);
                    let stay = [0xff; 12];
                    for _ in 0..steps {
                        let now = clock.fetch_add(1, Relaxed);
                        let k = [rng.u8(..40); 12];
                        let expires = if rng.bool() { now + rng.u64(1..60) } else { NEVER };
                        let fill = |v: &[AtomicU64]| {
                            v[0].store(u64::from(k[0]), Relaxed);
                            v[1].store(now, Relaxed);
                            v[2].store(u64::from(k[0]).wrapping_mul(now), Relaxed);
                        };
                        match rng.u8(..8) {
                            0..3 => drop(table.insert(&k, now, expires, fill)),
                            3 => drop(table.renew(&k, now, |_| Some(now + 30))),
                            4 => drop(table.remove(&k, now)),
                            5 => {
                                // One element never goes: what is counted in it is never lost.
                                if let Some(((), slot)) = table.lookup(&stay, now, |_| ()) {
                                    table.value(slot)[0].fetch_add(1, Relaxed);
                                    counted.fetch_add(1, Relaxed);
                                }
                            }
                            _ => {
                                let read = |v: &[AtomicU64]| [0, 1, 2].map(|i| v[i].load(Relaxed));
                                if let Some(([key, made, product], _)) = table.lookup(&k, now, read)
                                {
                                    assert_eq!(key, ours(&k));
                                    assert_eq!(product, key.wrapping_mul(made));
                                }
                            }
                        }
                    }
                })
            })
            .collect();
        table.insert(&[0xff; 12], 0, NEVER, |v| v.iter().for_each(|w| w.store(0, Relaxed)));
        let control = scope.spawn(|| {
            while !done.load(Relaxed) {
                for element in table.elements(0, |v| [0, 1, 2].map(|i| v[i].load(Relaxed))) {
                    if element.key[0] != 0xff {
                        assert_eq!(element.read[0], ours(&element.key));
                        assert_eq!(element.read[2], element.read[0].wrapping_mul(element.read[1]));
                    }
                    assert!(element.key.iter().all(|b| *b == element.key[0]));
                }
                assert!(table.len() <= 24);
                std::thread::yield_now();
            }
        });
        workers.into_iter().for_each(|w| w.join().expect("no worker panics"));
        done.store(true, Relaxed);
        control.join().expect("the control path does not panic");
    });
    let mut keys: Vec<_> = table.elements(0, |_| ()).into_iter().map(|e| e.key).collect();
    assert_eq!(keys.len(), table.len() as usize);
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), table.len() as usize, "no key is there twice");
    if let Some((sum, _)) = table.lookup(&[0xff; 12], 0, |v| v[0].load(Relaxed)) {
        assert_eq!(sum, counted.load(Relaxed));
    }
    table.clear();
    assert!(table.is_empty());
}

#[test]
fn a_slot_freed_with_a_delay_stays_taken_until_then() {
    let table = Dynamic::new(4, 0, 2);
    let insert = |n: u32, now| table.insert(&n.to_ne_bytes(), now, NEVER, |_| ()).is_some();
    assert!(insert(1, 0) && insert(2, 0));
    assert!(table.remove_later(&1u32.to_ne_bytes(), 10, 100));
    assert!(table.lookup(&1u32.to_ne_bytes(), 10, |_| ()).is_none());
    assert!(!table.remove_later(&1u32.to_ne_bytes(), 20, 100));
    assert!(!insert(3, 109));
    assert!(insert(3, 110) && !insert(1, 110));
}

/// What expired makes place also where no packet comes by.
#[test]
fn a_full_table_reuses_expired_elements() {
    let table = Dynamic::new(4, 0, 200);
    let insert =
        |n: u32, now, expires| table.insert(&n.to_ne_bytes(), now, expires, |_| ()).is_some();
    for n in 0..200 {
        assert!(insert(n, 0, if n == 123 { 50 } else { 1_000 }));
    }
    assert!(!insert(1_000, 49, NEVER));
    assert!(insert(1_000, 50, NEVER));
    assert!(!insert(1_001, 50, NEVER));
    for n in 2_000..2_199 {
        assert!(insert(n, 1_000, 2_000), "{n}");
    }
    assert!(!insert(1_001, 1_999, NEVER));
    assert!(insert(1_001, 2_000, NEVER));
}
