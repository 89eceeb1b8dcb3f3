// SPDX-License-Identifier: Apache-2.0

//! The same scenario in the kernel and in `penstock run`: every frame on every device and every
//! counter must agree.
//!
//! A scenario is a router (`net.ip`), a ruleset (`rules.nft`) and frames. The kernel's side runs in
//! network namespaces that nobody else sees; without the rights for those, everything here is
//! skipped, and says so.
//!
//! Arguments: words that a scenario's name must contain, or a scenario's directory, whose listings
//! are then printed. Environment: `PENSTOCK_RANDOM` (how many random scenarios of each kind,
//! default 100), `PENSTOCK_SEED` (of the first of them), `PENSTOCK_KERNEL=twice` compares the
//! kernel with itself instead, which shows whether a scenario is fit for comparison;
//! `PENSTOCK_KERNEL=bare` leaves the rules out, which shows whether a difference is one of rules;
//! `PENSTOCK_KERNEL=listing` compares the listings word for word too. A sample of the scenarios is
//! sent through `penstock up` on live devices, too: `PENSTOCK_LIVE` says how many (default 20),
//! `PENSTOCK_LIVE_DRIVER` and `PENSTOCK_LIVE_WORKERS` how they are driven (default: packet sockets,
//! one worker).

mod chance;
mod compare;
mod frame;
mod hand_made;
mod live;
mod namespace;
mod net;
mod penstock;
mod random;
mod random_bridge;
mod random_ct;
mod random_dynamic;
mod random_flow;
mod random_fragments;
mod random_headers;
mod random_nat;
mod router;
mod scenario;
mod shrink;
mod sift;
mod sockets;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use router::{Router, Unavailable};
use scenario::Scenario;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    if std::env::args().any(|a| a == "--list") {
        return ExitCode::SUCCESS;
    }
    if let Err(reason) = router::available() {
        println!("SKIPPED: comparison with the kernel: {reason}");
        return ExitCode::SUCCESS;
    }
    if let [directory] = words.as_slice()
        && directory.contains('/')
    {
        return one(Path::new(directory));
    }
    let number = |name: &str| std::env::var(name).ok().and_then(|v| v.parse::<u64>().ok());
    let seed = penstock_seed::seed();
    let random = number("PENSTOCK_RANDOM").unwrap_or(100);
    println!(
        "kernel: {random} random scenarios of each kind (filtering, headers, what rules remember, tracking, NAT, flowtables), a \
         fifth of that of fragments, a tenth of bridges, PENSTOCK_SEED={seed}"
    );
    let scenarios: Vec<Scenario> = hand_made::all()
        .into_iter()
        .chain((seed..seed + random).map(random::scenario))
        .chain((seed..seed + random).map(random_nat::scenario))
        .chain((seed..seed + random.div_ceil(10)).map(random_bridge::scenario))
        .chain((seed..seed + random.div_ceil(5)).map(random_fragments::scenario))
        .chain((seed..seed + random).map(random_ct::scenario))
        .chain((seed..seed + random).map(random_flow::scenario))
        .chain((seed..seed + random).map(random_headers::scenario))
        .chain((seed..seed + random).map(random_dynamic::scenario))
        .map(|s| if mode("bare") { Scenario { rules: String::new(), ..s } } else { s })
        .filter(|s| words.iter().all(|w| s.name.contains(w.as_str())))
        .collect();
    let sample = live_sample(&scenarios, number("PENSTOCK_LIVE").unwrap_or(20) as usize);
    let mut results = compare_all(scenarios);
    results.extend(sample.into_iter().map(|s| (format!("{} (live)", s.name), compare_live(&s))));
    let (mut failed, mut skipped) = (0, 0);
    for (name, result) in &results {
        match result {
            Verdict::Agree => {}
            Verdict::Skipped(reason) => {
                skipped += 1;
                println!("SKIPPED {name}: {reason}");
            }
            Verdict::Differ(text) => {
                failed += 1;
                println!(
                    "DIFFERENT {name}\n{}",
                    text.lines().take(70).collect::<Vec<_>>().join("\n")
                );
            }
        }
    }
    println!(
        "kernel: {} scenarios agree, {failed} differ, {skipped} skipped",
        results.len() - failed - skipped
    );
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// So many of the scenarios that are fit for live devices, from all kinds.
fn live_sample(scenarios: &[Scenario], count: usize) -> Vec<Scenario> {
    let fit: Vec<&Scenario> = scenarios.iter().filter(|s| live::unfit(s).is_none()).collect();
    let step = fit.len().div_ceil(count.max(1)).max(1);
    fit.into_iter().step_by(step).take(count).cloned().collect()
}

/// Live devices against `penstock run`.
fn compare_live(scenario: &Scenario) -> Verdict {
    let directory = directory(scenario).with_extension("live");
    let offline = match penstock::run(scenario, &directory) {
        Ok(offline) => offline,
        // That side is compared with the kernel elsewhere.
        Err(_) => return Verdict::Skipped("penstock refuses the rules".into()),
    };
    match live::run(scenario, &directory, &offline) {
        Ok(live) => match compare::differences(scenario, &offline, &live, false) {
            None => Verdict::Agree,
            Some(text) => Verdict::Differ(format!(
                "{}  see {}\n",
                text.replace("kernel:  ", "offline: ").replace("penstock:", "live:    "),
                directory.display()
            )),
        },
        Err(text) => Verdict::Differ(text),
    }
}

/// Compares the scenario of a directory, and shows what each side counted.
fn one(directory: &Path) -> ExitCode {
    let result = Scenario::read(directory).and_then(|scenario| {
        let mut router = Router::new(&scenario.net).map_err(|e| format!("{e:?}"))?;
        let kernel = router.run(&scenario, None)?;
        println!("--- kernel\n{}", kernel.listing);
        let ours = penstock::run(&scenario, &self::directory(&scenario).with_extension("again"))?;
        println!("--- penstock\n{}", ours.listing);
        Ok(compare::differences(&scenario, &kernel, &ours, mode("listing")))
    });
    match result {
        Ok(None) => ExitCode::SUCCESS,
        Ok(Some(text)) | Err(text) => {
            println!("{text}");
            ExitCode::FAILURE
        }
    }
}

/// Whether `PENSTOCK_KERNEL` asks for this.
fn mode(name: &str) -> bool {
    std::env::var("PENSTOCK_KERNEL").is_ok_and(|v| v == name)
}

enum Verdict {
    Agree,
    Differ(String),
    Skipped(String),
}

/// Compares scenarios, those with the same `net.ip` one after the other on the same router.
fn compare_all(scenarios: Vec<Scenario>) -> BTreeMap<String, Verdict> {
    let mut by_net: BTreeMap<String, Vec<Scenario>> = BTreeMap::new();
    for scenario in scenarios {
        by_net.entry(scenario.net.clone()).or_default().push(scenario);
    }
    // Large groups are split: each thread then has a router of its own.
    let work: Vec<(String, Vec<Scenario>)> = by_net
        .iter()
        .flat_map(|(net, group)| group.chunks(100).map(|c| (net.clone(), c.to_vec())))
        .collect();
    let work = Mutex::new(work);
    let results = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from).min(4) {
            scope.spawn(|| {
                loop {
                    let Some((net, scenarios)) = work.lock().expect("no panics").pop() else {
                        break;
                    };
                    let mut router = Router::new(&net);
                    for scenario in scenarios {
                        let verdict = match &mut router {
                            Ok(router) => compare(router, &scenario),
                            Err(Unavailable::Skip(reason)) => Verdict::Skipped(reason.clone()),
                            Err(Unavailable::Failed(text)) => {
                                Verdict::Differ(format!("the kernel's router: {text}"))
                            }
                        };
                        results.lock().expect("no panics").insert(scenario.name, verdict);
                    }
                }
            });
        }
    });
    results.into_inner().expect("no panics")
}

/// Where a scenario's files stay.
fn directory(scenario: &Scenario) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("kernel").join(&scenario.name)
}

fn compare(router: &mut Router, scenario: &Scenario) -> Verdict {
    let (refused, text) = match difference(router, scenario) {
        // What chance made need not be a ruleset.
        Some((true, text))
            if scenario.name.starts_with("random") && text.starts_with("both refuse") =>
        {
            return Verdict::Skipped("both refuse the rules".into());
        }
        Some((true, text)) if text.contains("cannot run:") => {
            let reason = text.lines().find(|l| l.contains("cannot run:")).unwrap_or_default();
            return Verdict::Skipped(format!("penstock refuses the rules: {}", reason.trim()));
        }
        None => return Verdict::Agree,
        Some(d) => d,
    };
    // What the kernel draws for NAT may by chance be a port or identifier that another packet has.
    if scenario.name.starts_with("random_nat") && difference(router, scenario).is_none() {
        println!("AGREED when repeated: {}", scenario.name);
        return Verdict::Agree;
    }
    let see = format!("  see {}\n", directory(scenario).display());
    if refused || SHRUNK.fetch_add(1, Ordering::Relaxed) >= 8 {
        return Verdict::Differ(format!("{text}{see}"));
    }
    let mut small = shrink::shrink(scenario, Duration::from_secs(15), |s| {
        let mut s = s.clone();
        s.name += "_small";
        matches!(difference(router, &s), Some((false, _)))
    });
    small.name += "_small";
    match difference(router, &small) {
        Some((false, text)) => {
            let frames: String = small
                .frames
                .iter()
                .map(|(s, b)| format!("    {s}: {}\n", compare::hex(b)))
                .collect();
            let see = format!("  see {}\n", directory(&small).display());
            Verdict::Differ(format!("{text}  made smaller:\n{}{frames}{see}", small.rules))
        }
        _ => Verdict::Differ(format!("{text}  (not always)\n{see}")),
    }
}

/// Scenarios that were made smaller in this run: with many differences, the first say enough.
static SHRUNK: AtomicU32 = AtomicU32::new(0);

/// What differs, and whether it is that a side refuses the scenario as a whole.
fn difference(router: &mut Router, scenario: &Scenario) -> Option<(bool, String)> {
    let ours = if mode("twice") {
        router.run(scenario, None)
    } else {
        penstock::run(scenario, &directory(scenario))
    };
    let kernel = router.run(scenario, ours.as_ref().ok());
    match (kernel, ours) {
        (Err(e), Ok(_)) => Some((true, format!("the kernel refuses: {e}"))),
        (Err(e), Err(o)) => Some((true, format!("both refuse.\nkernel: {e}penstock: {o}"))),
        (Ok(_), Err(e)) => Some((true, e)),
        (Ok(kernel), Ok(ours)) => compare::differences(scenario, &kernel, &ours, mode("listing"))
            .map(|text| (false, text)),
    }
}
