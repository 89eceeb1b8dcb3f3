// SPDX-License-Identifier: Apache-2.0

//! The target that `PENSTOCK_FUZZ_TARGET` names, for `scripts/fuzz`. One program for all of them is
//! built once, and adding a target changes nothing here.

#![no_main]

mod coverage;

use std::sync::OnceLock;

use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use penstock_fuzz::targets::{self, Target};

/// Before the fuzzer reads its corpus: lists the targets, or says which counters count, and writes
/// the seeds where they are wanted.
fn prepare() {
    if std::env::var("PENSTOCK_FUZZ_TARGET").is_ok_and(|name| name == "list") {
        targets::ALL.iter().for_each(|t| println!("{} {}", t.name, t.longest));
        std::process::exit(0);
    }
    coverage::measure(seeds(), target().run);
    let Some(directory) = std::env::var_os("PENSTOCK_FUZZ_SEEDS") else { return };
    for (i, seed) in seeds().iter().enumerate() {
        let file = std::path::Path::new(&directory).join(format!("seed-{i}"));
        std::fs::write(file, seed).expect("seeds can be written");
    }
}

fn target() -> &'static Target {
    static TARGET: OnceLock<&Target> = OnceLock::new();
    TARGET.get_or_init(|| {
        let name = std::env::var("PENSTOCK_FUZZ_TARGET").unwrap_or_default();
        targets::ALL.iter().find(|t| t.name == name).copied().unwrap_or_else(|| {
            let names: Vec<_> = targets::ALL.iter().map(|t| t.name).collect();
            eprintln!("PENSTOCK_FUZZ_TARGET={name}: not one of {}", names.join(", "));
            std::process::exit(2);
        })
    })
}

fn seeds() -> &'static [Vec<u8>] {
    static SEEDS: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    SEEDS.get_or_init(|| targets::seeds(target()))
}

fuzz_target!(init: prepare(), |data: &[u8]| (target().run)(data));

// The fuzzer changes bytes. Every fourth input is made as the tests make them, which keeps words
// and lengths whole.
fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let mut rng = fastrand::Rng::with_seed(seed.into());
    if rng.u8(..4) > 0 {
        return fuzzer_mutate(data, size, max_size);
    }
    let made = match rng.u8(..4) {
        0 => (target().make)(&mut rng, seeds()),
        _ => {
            let own = data[..size].to_vec();
            let other = seeds().get(rng.usize(..seeds().len().max(1))).cloned().unwrap_or_default();
            (target().make)(&mut rng, &[own.clone(), own, other])
        }
    };
    let len = made.len().min(max_size);
    data[..len].copy_from_slice(&made[..len]);
    len
});
