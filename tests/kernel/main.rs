// SPDX-License-Identifier: Apache-2.0

//! Runs each scenario in the kernel and in `penstock run`: every frame on every device and every
//! counter must agree.
//!
//! A scenario is a router (`net.ip`), a ruleset (`rules.nft`) and frames. The kernel's side runs in
//! private network namespaces; without the rights for those, everything here is skipped, and says
//! so.
//!
//! Arguments: words that a scenario's name must contain, or a scenario's directory; its listings
//! are then printed. Environment: `PENSTOCK_RANDOM` (how many random scenarios of each kind,
//! default 100), `PENSTOCK_SEED` (of the first of them), `PENSTOCK_KERNEL=twice` compares the
//! kernel with itself instead, which shows whether a scenario is fit for comparison;
//! `PENSTOCK_KERNEL=bare` leaves the rules out, which shows whether a difference is one of rules;
//! `PENSTOCK_KERNEL=listing` compares the listings word for word too. A sample of the scenarios is
//! sent through `penstock up` on live devices, too: `PENSTOCK_LIVE` says how many (default 20),
//! `PENSTOCK_LIVE_DRIVER` and `PENSTOCK_LIVE_WORKERS` how they are driven (default: packet sockets,
//! one worker). Another sample runs in the kernel as BPF programs, by `penstock attach`:
//! `PENSTOCK_ATTACHED` says how many (default 20); with `PENSTOCK_KERNEL=attached` that is all, also
//! for the scenario of a directory, and with `PENSTOCK_ATTACHED_AT=xdp` (or `xdp-generic`, `tcx`)
//! chains at ingress run there. `PENSTOCK_WITH_KERNEL` (default 20) and
//! `PENSTOCK_KERNEL=with-kernel` say that of `penstock attach --with-kernel`.

mod attached;
mod chance;
mod compare;
mod esp;
mod extensions;
mod frame;
mod hand_made;
mod links;
mod listeners;
mod live;
mod namespace;
mod net;
mod nfnl_socket;
mod penstock;
mod pppoe;
mod program;
mod random;
mod router;
mod scenario;
// What a whole kernel serves.
#[allow(dead_code)]
mod services;
mod shrink;
mod sides;
mod sift;
mod sockets;
mod tools;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Mutex;

use attached::How;
use router::{Router, Unavailable};
use scenario::{Outcome, Scenario};
use sides::{Kernel, Verdict, mode};

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
    let seed = penstock_testkit::seed();
    let count = number("PENSTOCK_RANDOM").unwrap_or(80);
    println!(
        "kernel: {count} random scenarios of each kind (filtering, headers, what rules remember, tracking, NAT, flowtables), a \
         quarter of that of extensions of x_tables, a fifth of fragments, a tenth of bridges, PENSTOCK_SEED={seed}"
    );
    let scenarios: Vec<Scenario> = hand_made::all()
        .into_iter()
        .chain(extensions::all())
        .chain(extensions::bridges::all())
        .chain(extensions::ports::all())
        .chain(extensions::ip_sets::all())
        .chain(extensions::ipv6::all())
        .chain(extensions::random(seed, count.div_ceil(4)))
        .chain(extensions::translated(extensions::all(), count.div_ceil(4), seed, &words))
        .filter(|s| words.iter().all(|w| s.name.contains(w.as_str())))
        .chain(random::scenarios(&random::KINDS, &words, seed, |share| count.div_ceil(share)))
        .map(|s| match mode("bare") {
            true => Scenario { rules: String::new(), commands: String::new(), ..s },
            false => s,
        })
        .collect();
    let sample = live_sample(&scenarios, number("PENSTOCK_LIVE").unwrap_or(20) as usize);
    let attached =
        [(How::Whole, "ATTACHED"), (How::WithKernel, "WITH_KERNEL")].map(|(how, name)| {
            let fit = scenarios.iter().filter(|scenario| attached::unfit(scenario, how).is_none());
            let count = number(&format!("PENSTOCK_{name}")).unwrap_or(20);
            (how, spread(fit.cloned().collect(), count as usize))
        });
    let processors = std::thread::available_parallelism().map_or(1, usize::from).min(4);
    // A router mostly waits: for packets to come through, and for programs.
    let threads = processors + 2;
    let mut kernels: Vec<_> = (0..threads).map(|_| Box::<Here>::default() as _).collect();
    let only = |how| match how {
        How::Whole => mode("attached"),
        How::WithKernel => mode("with-kernel"),
    };
    let one_only = only(How::Whole) || only(How::WithKernel);
    let mut results = match one_only {
        true => BTreeMap::new(),
        false => sides::compare_all(scenarios, &mut kernels, None),
    };
    for (how, scenarios) in attached {
        if !one_only || only(how) {
            results.extend(attached::compare_all(scenarios, threads, how));
        }
    }
    if !only(How::WithKernel) {
        results.extend(compare_all_live(sample, processors));
    }
    if sides::report("kernel", &results) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The kernel of this machine.
#[derive(Default)]
struct Here(Option<Router>);

impl Kernel for Here {
    fn set_up(&mut self, net: &str) -> Result<(), Unavailable> {
        self.0 = None;
        self.0 = Some(Router::new(net)?);
        Ok(())
    }

    fn run(&mut self, scenario: &Scenario, expected: Option<&Outcome>) -> Result<Outcome, String> {
        self.0.as_mut().ok_or("no router is set up")?.run(scenario, expected)
    }
}

/// So many of the scenarios that are fit for live devices, from all kinds.
fn live_sample(scenarios: &[Scenario], count: usize) -> Vec<Scenario> {
    let fit = scenarios.iter().filter(|s| live::unfit(s).is_none());
    spread(fit.cloned().collect(), count)
}

/// So many of all, at equal distances.
fn spread(all: Vec<Scenario>, count: usize) -> Vec<Scenario> {
    let step = all.len().div_ceil(count.max(1)).max(1);
    all.into_iter().step_by(step).take(count).collect()
}

/// Compares scenarios with live devices on so many threads.
fn compare_all_live(scenarios: Vec<Scenario>, threads: usize) -> Vec<(String, Verdict)> {
    let (work, results) = (Mutex::new(scenarios), Mutex::new(Vec::new()));
    let next = || work.lock().expect("no panics").pop();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(scenario) = next() {
                    let name = format!("{} (live)", scenario.name);
                    let verdict = compare_live(&scenario);
                    results.lock().expect("no panics").push((name, verdict));
                }
            });
        }
    });
    results.into_inner().expect("no panics")
}

/// Live devices against `penstock run`.
fn compare_live(scenario: &Scenario) -> Verdict {
    let directory = sides::directory(scenario).with_extension("live");
    let offline = match penstock::run(scenario, &directory) {
        // Flows go by time, which is another one on live devices.
        Ok(offline) => Outcome { without_flowtables: scenario.has_flowtable(), ..offline },
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
        let ours = match () {
            () if mode("attached") => attached::run_one(&scenario, &kernel, How::Whole)?,
            () if mode("with-kernel") => attached::run_one(&scenario, &kernel, How::WithKernel)?,
            () => penstock::run(&scenario, &sides::directory(&scenario).with_extension("again"))?,
        };
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
