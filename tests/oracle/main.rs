// SPDX-License-Identifier: Apache-2.0

//! Runs each scenario in a whole kernel and in `penstock run`: flowtables, device types and modules
//! that the kernel of this machine may lack.
//!
//! The kernel is one of Debian's packages, in QEMU without KVM. Where QEMU, the packages or the
//! rights for them are missing, everything here is skipped, and says so.
//!
//! Arguments: words that a scenario's name must contain, or a scenario's directory. Environment:
//! `PENSTOCK_ORACLE` (without it everything is skipped: `make oracle` sets it), `PENSTOCK_RANDOM`
//! (how many random scenarios of each kind, default 3), `PENSTOCK_SEED` (of the first of them),
//! `PENSTOCK_ORACLE_SUITE` (the suite of Debian with the reference kernel, default
//! trixie-backports), `PENSTOCK_ORACLE_GUESTS` (how many guests at once, default 1).

mod agent;
#[path = "../kernel/chance.rs"]
mod chance;
#[path = "../kernel/compare.rs"]
mod compare;
#[path = "../kernel/frame.rs"]
mod frame;
mod guest;
#[path = "../kernel/hand_made/mod.rs"]
mod hand_made;
#[path = "../kernel/namespace.rs"]
mod namespace;
#[path = "../kernel/net.rs"]
mod net;
#[path = "../kernel/penstock.rs"]
mod penstock;
#[path = "../kernel/random/mod.rs"]
mod random;
#[path = "../kernel/router.rs"]
mod router;
#[path = "../kernel/scenario.rs"]
mod scenario;
mod scenarios;
#[path = "../kernel/shrink.rs"]
mod shrink;
#[path = "../kernel/sides.rs"]
mod sides;
#[path = "../kernel/sift.rs"]
mod sift;
#[path = "../kernel/sockets.rs"]
mod sockets;

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use guest::Guest;
use scenario::Scenario;
use sides::Kernel;

fn main() -> ExitCode {
    if std::env::args().any(|a| a == "--agent") {
        return match agent::serve() {
            Ok(()) => ExitCode::SUCCESS,
            Err(e) => {
                println!("oracle: {e}");
                ExitCode::FAILURE
            }
        };
    }
    if std::env::args().any(|a| a == "--list") {
        return ExitCode::SUCCESS;
    }
    let words: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    if std::env::var_os("PENSTOCK_ORACLE").is_none() {
        println!("SKIPPED: comparison with a whole kernel: `make oracle` runs it");
        return ExitCode::SUCCESS;
    }
    if let Err(reason) = router::available() {
        println!("SKIPPED: comparison with a whole kernel: {reason}");
        return ExitCode::SUCCESS;
    }
    let suite = std::env::var("PENSTOCK_ORACLE_SUITE").unwrap_or("trixie-backports".into());
    let directory = guest::directory(&suite);
    if let Err(reason) = guest::prepare(&directory, &suite) {
        println!("SKIPPED: comparison with a whole kernel: {reason}");
        return ExitCode::SUCCESS;
    }
    let scenarios = match words.as_slice() {
        [one] if one.contains('/') => match Scenario::read(Path::new(one)) {
            Ok(scenario) => vec![scenario],
            Err(e) => {
                println!("{one}: {e}");
                return ExitCode::FAILURE;
            }
        },
        words => chosen(words),
    };
    let number = |name: &str| std::env::var(name).ok().and_then(|v| v.parse::<usize>().ok());
    let begun = Instant::now();
    let mut kernels: Vec<Box<dyn Kernel>> = vec![];
    for n in 0..number("PENSTOCK_ORACLE_GUESTS").unwrap_or(1).max(1) {
        match Guest::boot(&directory, n) {
            Ok(guest) => {
                println!("oracle: Linux {} after {:.1?}", guest.version, begun.elapsed());
                kernels.push(Box::new(guest));
            }
            Err(e) => {
                println!("oracle: the guest does not boot: {e}");
                return ExitCode::FAILURE;
            }
        }
    }
    let begun = Instant::now();
    let results = sides::compare_all(scenarios, &mut kernels);
    let per_minute = results.len() as f64 * 60.0 / begun.elapsed().as_secs_f64();
    println!("oracle: {per_minute:.0} scenarios a minute");
    if sides::report("oracle", &results) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// All scenarios that have these words in their names.
fn chosen(words: &[String]) -> Vec<Scenario> {
    let seed = penstock_testkit::seed();
    let count =
        std::env::var("PENSTOCK_RANDOM").ok().and_then(|v| v.parse::<u64>().ok()).unwrap_or(3);
    println!("oracle: {count} random scenarios of each kind, PENSTOCK_SEED={seed}");
    let of_chance = random::scenarios(seed, |_| count);
    let all = hand_made::all().into_iter().chain(scenarios::all()).chain(of_chance);
    all.filter(|s| words.iter().all(|w| s.name.contains(w.as_str()))).collect()
}
