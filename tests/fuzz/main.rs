//! The fuzzing targets for a few seconds each, on what [`seeds`] has and on what chance makes of it.
//!
//! `PENSTOCK_FUZZ_SECONDS` says how many seconds (default 2), `PENSTOCK_SEED` where chance begins; the seed of an input
//! that fails is printed, and as `PENSTOCK_SEED` makes it the first one again. `PENSTOCK_FUZZ_CORPUS=DIR` writes the
//! seeds into a directory per target, for cargo-fuzz.

#[path = "../filetests/format.rs"]
#[allow(dead_code)]
mod format;
mod generate;
#[path = "../filetests/language.rs"]
mod language;
mod mutate;
#[path = "../filetests/packet.rs"]
#[allow(dead_code)]
mod packet;
mod seeds;
mod targets;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use fastrand::Rng;

/// A single input that takes longer hangs. Debug builds on busy machines are slow.
const HANGS: Duration = Duration::from_secs(60);

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Runs a target on all seeds, then on what `make` gives until the time is over.
fn fuzz(name: &'static str, target: fn(&[u8]), seeds: &[Vec<u8>], make: impl Fn(&mut Rng) -> Vec<u8>) {
    if let Some(directory) = std::env::var_os("PENSTOCK_FUZZ_CORPUS") {
        let directory = std::path::Path::new(&directory).join(name);
        std::fs::create_dir_all(&directory).expect("the directory can be made");
        for (i, seed) in seeds.iter().enumerate() {
            std::fs::write(directory.join(format!("seed-{i}")), seed).expect("seeds can be written");
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
        if catch_unwind(AssertUnwindSafe(|| target(input))).is_err() {
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
    let first = penstock_seed::seed();
    let seconds = Duration::from_secs(number("PENSTOCK_FUZZ_SECONDS").unwrap_or(2));
    let start = Instant::now();
    let mut seed = first;
    while start.elapsed() < seconds {
        one(seed, &make(&mut Rng::with_seed(seed)));
        seed += 1;
    }
    since.store(0, Relaxed);
    watch.thread().unpark();
    let _ = watch.join();
    println!("{name}: {} seeds, {} made from PENSTOCK_SEED={first}", seeds.len(), seed - first);
}

#[test]
fn no_ruleset_text_panics_and_listings_are_accepted() {
    let seeds: Vec<Vec<u8>> = seeds::rulesets().iter().map(|t| t.clone().into_bytes()).collect();
    fuzz("ruleset", targets::ruleset, &seeds, |rng| mutate::text(rng, seeds::rulesets()).into_bytes());
}

#[test]
fn no_json_panics_and_listings_stay() {
    let texts = seeds::json();
    let seeds: Vec<Vec<u8>> = texts.iter().map(|t| t.clone().into_bytes()).collect();
    fuzz("json", targets::json, &seeds, |rng| mutate::json(rng, texts).into_bytes());
}

#[test]
fn no_capture_panics() {
    let seeds = seeds::captures();
    fuzz("capture", targets::capture, &seeds, |rng| mutate::bytes(rng, &seeds));
}

#[test]
fn no_frame_panics_on_its_way() {
    let seeds: Vec<Vec<u8>> = seeds::frames().iter().map(|f| [&[0], &f[..]].concat()).collect();
    fuzz("frame", targets::frame, &seeds, |rng| mutate::frames(rng, seeds::frames()));
}

#[test]
fn no_network_file_panics() {
    let seeds = seeds::configs();
    let texts: Vec<String> = seeds.iter().map(|s| String::from_utf8_lossy(s).into_owned()).collect();
    fuzz("config", targets::config, &seeds, |rng| mutate::text(rng, &texts).into_bytes());
}

#[test]
fn no_program_panics() {
    let seeds: Vec<Vec<u8>> = (0..20).map(|i| seeds::programs(&mut Rng::with_seed(i))).collect();
    fuzz("program", targets::program, &seeds, seeds::programs);
}

/// What is refused at once shows nothing.
#[test]
fn seeds_are_accepted() {
    let net = targets::net();
    for text in seeds::rulesets() {
        if let Err(e) = language::load(text, &net, 0) {
            panic!("{e}\n{text}");
        }
    }
    let all = seeds::all_rules().matches("\ttype filter hook").count();
    assert!(all + 20 > seeds::rulesets().len(), "{all} chains of {} rulesets", seeds::rulesets().len());
    for text in seeds::configs() {
        if let Err(e) = penstock_net::Network::from_batch("seed", &String::from_utf8_lossy(&text)) {
            panic!("{e}");
        }
    }
    let mut rng = Rng::with_seed(1);
    let accepted = |n: &usize| {
        language::load(&mutate::text(&mut Rng::with_seed(*n as u64), seeds::rulesets()), &net, 0).is_ok()
    };
    let texts = (0..400).filter(accepted).count();
    println!(
        "of 400 changed rulesets {texts} are accepted; {} bytes of program",
        seeds::programs(&mut rng).len()
    );
}
