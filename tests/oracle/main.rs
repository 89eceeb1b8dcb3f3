// SPDX-License-Identifier: Apache-2.0

//! Runs each scenario in a whole kernel and in `penstock run`: flowtables, device types and modules
//! that the kernel of this machine may lack.
//!
//! The kernel is one of Debian's packages, in QEMU without KVM. Where QEMU, the packages or the
//! rights for them are missing, everything here is skipped, and says so.
//!
//! Arguments: words that a scenario's name must contain, or a scenario's directory. Environment:
//! `PENSTOCK_ORACLE` (`all` for all scenarios, `no` for none; otherwise and without words those
//! that only a whole kernel can judge, for [`MOST`] at most), `PENSTOCK_RANDOM` (how many random
//! scenarios of each kind, default 10), `PENSTOCK_SEED` (of the first of them),
//! `PENSTOCK_ORACLE_SUITE` (the suite of Debian with the reference kernel, default
//! trixie-backports), `PENSTOCK_ORACLE_LANES` (how many scenarios run at once, default 4).

mod agent;
#[path = "../kernel/chance.rs"]
mod chance;
#[path = "../kernel/compare.rs"]
mod compare;
#[path = "../kernel/esp.rs"]
mod esp;
#[path = "../kernel/frame.rs"]
mod frame;
mod generators;
mod guest;
#[path = "../kernel/hand_made/mod.rs"]
mod hand_made;
mod libraries;
#[path = "../kernel/links.rs"]
mod links;
#[path = "../kernel/listeners.rs"]
mod listeners;
#[path = "../kernel/namespace.rs"]
mod namespace;
#[path = "../kernel/net.rs"]
mod net;
#[path = "../kernel/nfnl_socket.rs"]
mod nfnl_socket;
mod peer;
#[path = "../kernel/penstock.rs"]
mod penstock;
#[path = "../kernel/pppoe.rs"]
mod pppoe;
#[path = "../kernel/program.rs"]
mod program;
#[path = "../kernel/random/mod.rs"]
mod random;
mod reference;
#[path = "../kernel/router.rs"]
#[allow(dead_code)]
mod router;
#[path = "../kernel/scenario.rs"]
mod scenario;
mod scenarios;
#[path = "../kernel/services.rs"]
mod services;
#[path = "../kernel/shrink.rs"]
mod shrink;
#[path = "../kernel/sides.rs"]
mod sides;
#[path = "../kernel/sift.rs"]
mod sift;
#[path = "../kernel/sockets.rs"]
mod sockets;
#[path = "../kernel/tools.rs"]
#[allow(dead_code)]
mod tools;

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use guest::Lane;
use random::{Kind, scenarios as of_chance};
use scenario::Scenario;
use sides::Kernel;

/// How long the scenarios of a usual test run may take. What has not begun until then is left out.
const MOST: Duration = Duration::from_secs(90);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--agent"] => return ended(agent::serve()),
        ["--lane"] => return ended(agent::serve_lane()),
        _ => {}
    }
    if arguments.iter().any(|a| a == "--list") {
        return ExitCode::SUCCESS;
    }
    let words: Vec<String> = arguments.into_iter().filter(|a| !a.starts_with('-')).collect();
    let suite = std::env::var("PENSTOCK_ORACLE_SUITE").unwrap_or("trixie-backports".into());
    let directory = guest::directory(&suite);
    if let Err(reason) = available(&directory, &suite) {
        println!("SKIPPED: comparison with a whole kernel: {reason}");
        return ExitCode::SUCCESS;
    }
    let (scenarios, most) = match words.as_slice() {
        [one] if one.contains('/') => match Scenario::read(Path::new(one)) {
            Ok(scenario) => (vec![scenario], None),
            Err(e) => {
                println!("{one}: {e}");
                return ExitCode::FAILURE;
            }
        },
        words => chosen(words, &guest::kernel(&directory)),
    };
    let begun = Instant::now();
    let lanes = number("PENSTOCK_ORACLE_LANES").unwrap_or(4).clamp(1, scenarios.len().max(1));
    match guest::boot(&directory, 0, lanes) {
        Ok(lanes) => {
            let version = lanes.first().map_or("", Lane::version);
            println!("oracle: Linux {version} after {:.1?}", begun.elapsed());
            if judge(scenarios, lanes, most) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(e) => {
            println!("oracle: the guest does not boot: {e}");
            ExitCode::FAILURE
        }
    }
}

/// Compares the scenarios, and prints the results. Returns whether all agree.
fn judge(scenarios: Vec<Scenario>, lanes: Vec<Lane>, most: Option<Duration>) -> bool {
    let guest = lanes.first().map(Lane::clock);
    let taken = || guest.as_ref().map_or(Duration::ZERO, |clock| clock());
    let (begun, booted, count) = (Instant::now(), taken(), scenarios.len());
    let mut kernels: Vec<_> =
        lanes.into_iter().map(|lane| Box::new(lane) as Box<dyn Kernel>).collect();
    let results = sides::compare_all(scenarios, &mut kernels, most.map(|most| begun + most));
    let done = results.len().max(1) as f64;
    println!(
        "oracle: {} of {count} scenarios, {:.0} a minute; processor time of each: {:.2} s in the \
         guest, {:.2} s here",
        results.len(),
        done * 60.0 / begun.elapsed().as_secs_f64(),
        (taken().saturating_sub(booted)).as_secs_f64() / done,
        of_children().as_secs_f64() / done,
    );
    sides::report("oracle", &results)
}

/// Whether there can be a guest; otherwise why not.
fn available(directory: &Path, suite: &str) -> Result<(), String> {
    if std::env::var("PENSTOCK_ORACLE").is_ok_and(|v| v == "no") {
        return Err("PENSTOCK_ORACLE=no".into());
    }
    router::available()?;
    // In a usual test run it is not worth the time to wait for a slow mirror.
    let seconds = if std::env::var_os("PENSTOCK_ORACLE").is_some() { 600 } else { 60 };
    guest::prepare(directory, suite, seconds)
}

/// How a process of the guest ended.
fn ended(result: std::io::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            println!("oracle: {e}");
            ExitCode::FAILURE
        }
    }
}

fn number(name: &str) -> Option<usize> {
    std::env::var(name).ok().and_then(|v| v.parse().ok())
}

/// The scenarios for a kernel of this version that have these words in their names, and how long
/// they may take together.
fn chosen(words: &[String], version: &str) -> (Vec<Scenario>, Option<Duration>) {
    let seed = penstock_testkit::seed();
    let count = number("PENSTOCK_RANDOM").unwrap_or(10) as u64;
    println!("oracle: {count} random scenarios of each kind, PENSTOCK_SEED={seed}");
    let all = std::env::var("PENSTOCK_ORACLE").is_ok_and(|v| v == "all");
    let usual = !all && words.is_empty();
    let by_hand = if usual { vec![] } else { hand_made::all() };
    let has_words = |s: &Scenario| words.iter().all(|w| s.name.contains(w.as_str()));
    let mut chosen: Vec<_> =
        by_hand.into_iter().chain(scenarios::all()).filter(|s| has_words(s)).collect();
    let shared = |share: u64| count.div_ceil(share);
    // Others of tests/kernel are compared with this machine's kernel, which is the reference for
    // what they are about (docs/testing.md).
    let named = |kind: &&Kind| !words.is_empty() || kind.names.contains(&"random_flow_");
    let kinds = random::KINDS.iter().filter(named);
    let of_tests_kernel =
        of_chance(kinds, words, seed, shared).map(reference::fit).map(with_events);
    chosen.extend(of_tests_kernel.map(fit_for_flowtables));
    chosen.extend(of_chance(&generators::KINDS, words, seed, shared).map(fit_for_flowtables));
    // One that is asked for by its whole name is compared nevertheless.
    chosen.retain(|s| match reference::other(&s.name).filter(|_| !words.contains(&s.name)) {
        Some(reason) => {
            println!("LEFT OUT {}: {reason}", s.name);
            false
        }
        None => true,
    });
    if !reference::tracks_dccp(version) {
        let all = chosen.len();
        chosen.retain(|s| !s.name.trim_start_matches("random_").starts_with("dccp_"));
        if all > chosen.len() {
            println!("LEFT OUT {} of DCCP: Linux {version} does not track it", all - chosen.len());
        }
    }
    (chosen, usual.then_some(MOST))
}

/// A random scenario of tests/kernel with a listener to the events of connections, every other time
/// where connections are what it is about.
fn with_events(scenario: Scenario) -> Scenario {
    let of_connections =
        ["random_ct_", "random_helpers_"].iter().any(|kind| scenario.name.starts_with(kind));
    if of_connections && scenario.frames.len() % 2 == 0 { scenario.events() } else { scenario }
}

/// A scenario of flows without what kernels and this program do differently on purpose
/// (docs/differences.md): a hook that no kernel has, and padding after packets.
fn fit_for_flowtables(mut scenario: Scenario) -> Scenario {
    if scenario.has_flowtable() {
        scenario.rules = scenario.rules.replace("hook early_ingress", "hook ingress");
        for (_, frame) in &mut scenario.frames {
            let length = match frame.get(12..20) {
                Some(&[8, 0, _, _, high, low, ..]) => {
                    14 + usize::from(u16::from_be_bytes([high, low]))
                }
                Some(&[0x86, 0xdd, ..]) => {
                    54 + frame.get(18..20).map_or(0, |b| usize::from(b[0]) << 8 | usize::from(b[1]))
                }
                _ => continue,
            };
            frame.truncate(length);
        }
    }
    scenario
}

/// Processor time of the processes that this one has started and waited for.
fn of_children() -> Duration {
    // SAFETY: a zeroed structure is valid, and is live while the call fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage);
        usage
    };
    let time = |t: libc::timeval| Duration::new(t.tv_sec as u64, t.tv_usec as u32 * 1000);
    time(usage.ru_utime) + time(usage.ru_stime)
}
