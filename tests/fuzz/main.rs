// SPDX-License-Identifier: Apache-2.0

//! The fuzzing targets for a few seconds each, on what [`seeds`] has and on what chance makes of
//! it.
//!
//! `PENSTOCK_FUZZ_SECONDS` says how many seconds (default 1), `PENSTOCK_SEED` where chance begins;
//! the seed of an input that fails is printed, and as `PENSTOCK_SEED` makes it the first one again.
//! `PENSTOCK_FUZZ_CORPUS=DIR` writes the seeds into a directory per target, for cargo-fuzz.

mod datagrams;
#[allow(dead_code)]
mod describe;
#[path = "../filetests/format.rs"]
#[allow(dead_code)]
mod format;
mod generate;
#[path = "../filetests/language.rs"]
mod language;
mod mutate;
mod network;
#[path = "../filetests/packet.rs"]
#[allow(dead_code)]
mod packet;
mod seeds;
mod send;
mod targets;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use fastrand::Rng;

use crate::targets::Target;

/// A single input that takes longer hangs. Debug builds on busy machines are slow.
const HANGS: Duration = Duration::from_secs(60);

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Runs a target on all seeds, then on what it makes of them until the time is over.
fn fuzz(target: &'static Target) {
    let name = target.name;
    let seeds = targets::seeds(target);
    if let Some(directory) = std::env::var_os("PENSTOCK_FUZZ_CORPUS") {
        let directory = std::path::Path::new(&directory).join(name);
        std::fs::create_dir_all(&directory).expect("the directory can be made");
        for (i, seed) in seeds.iter().enumerate() {
            std::fs::write(directory.join(format!("seed-{i}")), seed)
                .expect("seeds can be written");
        }
        return;
    }
    let begun = Instant::now();
    let (current, since) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(u64::MAX)));
    let watched = (current.clone(), since.clone());
    let watch = std::thread::spawn(move || {
        loop {
            std::thread::park_timeout(Duration::from_millis(500));
            match watched.1.load(Relaxed) {
                0 => return,
                at if begun.elapsed() > Duration::from_millis(at).saturating_add(HANGS) => {
                    eprintln!("{name}: an input hangs: PENSTOCK_SEED={}", watched.0.load(Relaxed));
                    std::process::abort();
                }
                _ => {}
            }
        }
    });
    let one = |seed: u64, input: &[u8]| {
        current.store(seed, Relaxed);
        since.store(begun.elapsed().as_millis() as u64 + 1, Relaxed);
        if catch_unwind(AssertUnwindSafe(|| (target.run)(input))).is_err() {
            let shown = match std::str::from_utf8(input) {
                Ok(text) => text.to_string(),
                Err(_) => input.iter().map(|b| format!("{b:02x}")).collect(),
            };
            panic!("{name} fails: PENSTOCK_SEED={seed}, input:\n{shown}");
        }
    };
    for (i, seed) in seeds.iter().enumerate() {
        current.store(i as u64, Relaxed);
        one(0, seed);
    }
    let first = penstock_testkit::seed();
    let seconds = Duration::from_secs(number("PENSTOCK_FUZZ_SECONDS").unwrap_or(1));
    let start = Instant::now();
    let mut seed = first;
    while start.elapsed() < seconds {
        let mut input = (target.make)(&mut Rng::with_seed(seed), &seeds);
        input.truncate(target.longest);
        one(seed, &input);
        seed += 1;
    }
    since.store(0, Relaxed);
    watch.thread().unpark();
    let _ = watch.join();
    println!("{name}: {} seeds, {} made from PENSTOCK_SEED={first}", seeds.len(), seed - first);
}

/// `docs/testing.md` has a row for each target, in the order of the table.
#[test]
fn the_documentation_has_all_targets() {
    let text = include_str!("../../docs/testing.md");
    let rows: Vec<String> = targets::ALL
        .iter()
        .map(|t| format!("| `{}` | {} | {} |", t.name, t.bytes, t.holds))
        .collect();
    let there: Vec<&str> = text.lines().filter(|line| rows.iter().any(|row| row == line)).collect();
    assert_eq!(there, rows, "docs/testing.md must have:\n{}", rows.join("\n"));
}

/// What is refused at once shows nothing.
#[test]
fn seeds_are_accepted() {
    let net = network::net();
    for text in seeds::rulesets() {
        if let Err(e) = language::load(text, &net, 0) {
            panic!("{e}\n{text}");
        }
    }
    let all = seeds::all_rules().matches("\ttype filter hook").count();
    assert!(
        all + 20 > seeds::rulesets().len(),
        "{all} chains of {} rulesets",
        seeds::rulesets().len()
    );
    for text in seeds::configs() {
        if let Err(e) = penstock_net::Network::from_batch("seed", &String::from_utf8_lossy(&text)) {
            panic!("{e}");
        }
    }
    let mut rng = Rng::with_seed(1);
    let accepted = |n: &usize| {
        language::load(&mutate::text(&mut Rng::with_seed(*n as u64), seeds::rulesets()), &net, 0)
            .is_ok()
    };
    let texts = (0..400).filter(accepted).count();
    println!(
        "of 400 changed rulesets {texts} are accepted; {} bytes of program",
        seeds::programs(&mut rng).len()
    );
}
