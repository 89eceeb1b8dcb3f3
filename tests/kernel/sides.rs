// SPDX-License-Identifier: Apache-2.0

//! Scenarios in a kernel and in the program, compared: in parallel, made smaller where they differ.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::chance::Ports;
use crate::esp::opened;
use crate::router::Unavailable;
use crate::scenario::{Outcome, Scenario};
use crate::{compare, penstock, shrink};

/// A kernel that scenarios run in.
pub trait Kernel: Send {
    /// Builds a router from `ip -batch` lines, in place of the one before.
    fn set_up(&mut self, net: &str) -> Result<(), Unavailable>;

    /// Runs a scenario on the router. The error is that of the tool that refuses. `expected` is
    /// what another side says: only if it is not seen at once, more time is given.
    fn run(&mut self, scenario: &Scenario, expected: Option<&Outcome>) -> Result<Outcome, String>;
}

/// What a comparison says.
pub enum Verdict {
    Agree,
    Differ(String),
    Skipped(String),
}

/// Whether `PENSTOCK_KERNEL` asks for this.
pub fn mode(name: &str) -> bool {
    std::env::var("PENSTOCK_KERNEL").is_ok_and(|v| v == name)
}

/// Compares scenarios in several kernels at once, those with the same `net.ip` one after the other
/// on the same router. None is begun after `end`: there are fewer results then.
pub fn compare_all(
    scenarios: Vec<Scenario>,
    kernels: &mut [Box<dyn Kernel>],
    end: Option<Instant>,
) -> BTreeMap<String, Verdict> {
    let part = (scenarios.len() / (4 * kernels.len().max(1))).clamp(1, 100);
    let mut by_net: BTreeMap<String, Vec<Scenario>> = BTreeMap::new();
    for scenario in scenarios {
        by_net.entry(scenario.net.clone()).or_default().push(scenario);
    }
    // Large groups are split: several kernels then have a router of it.
    let work: Vec<(String, Vec<Scenario>)> = by_net
        .iter()
        .flat_map(|(net, group)| group.chunks(part).map(|c| (net.clone(), c.to_vec())))
        .collect();
    let work = Mutex::new(work);
    let results = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for kernel in kernels {
            scope.spawn(|| {
                loop {
                    let Some((net, scenarios)) = work.lock().expect("no panics").pop() else {
                        break;
                    };
                    if end.is_some_and(|end| Instant::now() > end) {
                        break;
                    }
                    let router = kernel.set_up(&net);
                    for scenario in scenarios {
                        if end.is_some_and(|end| Instant::now() > end) {
                            break;
                        }
                        let verdict = match &router {
                            Ok(()) => compare(&mut **kernel, &scenario),
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

/// Prints what differs and what was skipped, and a line that sums up. Returns whether all agree.
pub fn report(test: &str, results: &BTreeMap<String, Verdict>) -> bool {
    let (mut failed, mut skipped) = (0, 0);
    for (name, result) in results {
        match result {
            Verdict::Agree => {}
            Verdict::Skipped(reason) => {
                skipped += 1;
                println!("SKIPPED {name}: {reason}");
            }
            Verdict::Differ(text) => {
                failed += 1;
                let text: Vec<_> = text.lines().take(70).collect();
                println!("DIFFERENT {name}\n{}", text.join("\n"));
            }
        }
    }
    let agree = results.len() - failed - skipped;
    println!("{test}: {agree} scenarios agree, {failed} differ, {skipped} skipped");
    failed == 0
}

/// Where a scenario's files stay.
pub fn directory(scenario: &Scenario) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("kernel").join(&scenario.name)
}

fn compare(kernel: &mut dyn Kernel, scenario: &Scenario) -> Verdict {
    let (refused, text) = match difference(kernel, scenario) {
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
    if Ports::of(scenario).is_some() && (0..3).any(|_| difference(kernel, scenario).is_none()) {
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
        matches!(difference(kernel, &s), Some((false, _)))
    });
    small.name += "_small";
    match difference(kernel, &small) {
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
fn difference(kernel: &mut dyn Kernel, scenario: &Scenario) -> Option<(bool, String)> {
    let ours = if mode("twice") {
        kernel.run(scenario, None).map(|outcome| opened(scenario, outcome))
    } else {
        penstock::run(scenario, &directory(scenario))
    };
    let theirs = kernel.run(scenario, ours.as_ref().ok());
    let opened_theirs = theirs.clone().map(|outcome| opened(scenario, outcome));
    match (opened_theirs, ours) {
        (Err(e), Ok(_)) => Some((true, format!("the kernel refuses: {e}"))),
        (Err(e), Err(o)) => Some((true, format!("both refuse.\nkernel: {e}penstock: {o}"))),
        (Ok(_), Err(e)) => Some((true, e)),
        (Ok(opened), Ok(ours)) => compare::differences(scenario, &opened, &ours, mode("listing"))
            .or_else(|| difference_when_saved(scenario, theirs.ok()?))
            .map(|text| (false, text)),
    }
}

/// What differs if the program has the IPsec that it has saved in the kernel, in place of the
/// scenario's: with its keys, what either side encrypts is opened.
fn difference_when_saved(scenario: &Scenario, theirs: Outcome) -> Option<String> {
    let saved = theirs.saved.clone()?;
    let is_ipsec = |line: &&str| line.starts_with("xfrm ");
    let (ipsec, rest): (Vec<_>, Vec<_>) = scenario.net.lines().partition(is_ipsec);
    if saved.contains('#') || saved.lines().count() != ipsec.len() {
        return Some(format!("`penstock net save --keys` in the kernel's router:\n{saved}"));
    }
    let net = rest.iter().map(|line| format!("{line}\n")).collect::<String>() + &saved;
    let scenario = Scenario { net, ..scenario.clone() };
    let ours = penstock::run(&scenario, &directory(&scenario).with_extension("saved"));
    let theirs = opened(&scenario, theirs);
    let text = match ours {
        Ok(ours) => compare::differences(&scenario, &theirs, &ours, mode("listing"))?,
        Err(e) => e,
    };
    Some(format!("with the IPsec that `penstock net save` has saved:\n{saved}{text}"))
}
