// SPDX-License-Identifier: Apache-2.0

//! The soak: a dataplane with all that it has, under traffic of all kinds, rulesets, clients and
//! ports that come and go, for as long as `PENSTOCK_SOAK_HOURS` says (fractions are hours, too).
//! The last third of the time it is killed again and again.
//!
//! At each minute the traffic pauses until packets add up, and figures are taken. Whatever does not
//! add up, or grows, is a failure. Without `PENSTOCK_SOAK_HOURS` it is a short run of some seconds
//! a phase, which proves that the soak works.

mod lab;
mod measure;
#[path = "../live/net.rs"]
#[expect(dead_code)]
mod net;
mod traffic;
mod upset;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use fastrand::Rng;
use serde_json::Value;

use lab::Lab;
use measure::{Figures, growth, least, shown, unbalanced};
use net::{setting, sh};
use traffic::Pause;
use upset::{Clients, Killed};

/// Kilobytes per minute by which memory may grow over the second half of a long run.
const MEMORY_GROWTH: f64 = 200.0;
/// Descriptors, threads and BPF objects that may be more than when it was warm: a client that is
/// about to go.
const SLACK: u64 = 6;

/// How long everything takes.
struct Plan {
    /// Duration of the part without kills, and of the part with them.
    calm: Duration,
    killing: Duration,
    minute: Duration,
    between_kills: Duration,
}

impl Plan {
    fn from_environment() -> Plan {
        match std::env::var("PENSTOCK_SOAK_HOURS").ok().and_then(|v| v.parse::<f64>().ok()) {
            Some(hours) => {
                let all = Duration::from_secs_f64(hours * 3600.0);
                Plan {
                    calm: all.mul_f64(2.0 / 3.0),
                    killing: all.mul_f64(1.0 / 3.0),
                    minute: Duration::from_secs(60),
                    between_kills: Duration::from_secs(40),
                }
            }
            None => Plan {
                calm: Duration::from_secs(8),
                killing: Duration::from_secs(8),
                minute: Duration::from_secs(5),
                between_kills: Duration::from_secs(4),
            },
        }
    }
}

/// Everything that runs.
struct Soak {
    lab: Lab,
    pause: Pause,
    clients: Clients,
    rng: Rng,
    begun: Instant,
    done: BTreeMap<&'static str, u64>,
    failures: Vec<String>,
}

impl Soak {
    fn minutes(&self) -> f64 {
        self.begun.elapsed().as_secs_f64() / 60.0
    }

    fn fail(&mut self, what: String) {
        println!("FAILED at minute {:.1}: {what}", self.minutes());
        self.failures.push(what);
    }

    /// Traffic and upsets until a moment.
    fn run_until(&mut self, end: Instant) {
        while Instant::now() < end {
            // A single failure is reported, and the rest continues, unless the dataplane is gone.
            let done = catch_unwind(AssertUnwindSafe(|| {
                upset::upset(&self.lab, &mut self.rng, &mut self.clients)
            }));
            match done {
                Ok(name) => *self.done.entry(name).or_default() += 1,
                Err(_) => {
                    self.fail("an upset (see above)".into());
                    assert!(
                        self.lab.within(20, |lab| shown(lab).is_some()),
                        "the dataplane is gone"
                    );
                }
            }
            std::thread::sleep(Duration::from_millis(self.rng.u64(50..600)));
        }
    }

    /// A pause in which packets have to add up.
    fn quiet(&mut self) -> Option<(Figures, Value)> {
        self.clients.end();
        self.pause.set(true);
        let end = Instant::now() + Duration::from_secs(20);
        // Neighbours without an answer are given up after three seconds.
        std::thread::sleep(Duration::from_millis(500));
        let result = loop {
            let found = shown(&self.lab).map(|shown| (unbalanced(&self.lab, &shown), shown));
            match found {
                Some((wrong, shown)) if wrong.is_empty() => break Some(shown),
                other if Instant::now() >= end => {
                    let what = match other {
                        Some((wrong, shown)) => {
                            format!("{}; drops: {}", wrong.join("; "), shown["drops"])
                        }
                        None => format!(
                            "the dataplane does not answer; its log: {}",
                            tail(&self.lab.net.log(), 20)
                        ),
                    };
                    self.fail(what);
                    break None;
                }
                _ => std::thread::sleep(Duration::from_millis(200)),
            }
        };
        // Processes of clients that have just gone end, too.
        std::thread::sleep(Duration::from_millis(500));
        let taken = result.map(|shown| (Figures::take(&self.lab, self.minutes(), &shown), shown));
        self.pause.set(false);
        taken
    }
}

fn main() {
    let Some(lab) = Lab::new() else { return };
    let plan = Plan::from_environment();
    let seed = setting("PENSTOCK_SEED", 1);
    println!(
        "soak: seed {seed}, {:.0} s calm and {:.0} s with kills, driver packet, xdp-generic and xdp, 2 workers{}",
        plan.calm.as_secs_f64(),
        plan.killing.as_secs_f64(),
        if lab.bridged { ", a bridge" } else { "" }
    );
    let pause = Pause::default();
    let mut soak = Soak {
        lab,
        pause: pause.clone(),
        clients: Clients::default(),
        rng: Rng::with_seed(seed),
        begun: Instant::now(),
        done: BTreeMap::new(),
        failures: Vec::new(),
    };
    servers(&mut soak.lab);
    soak.lab.up();
    upset::load(&soak.lab, 0);
    let threads = traffic::start(&soak.lab, &pause, seed);
    let worked = catch_unwind(AssertUnwindSafe(|| {
        calm(&mut soak, &plan);
        killing(&mut soak, &plan);
        finish(&mut soak);
    }));
    pause.end();
    threads.into_iter().for_each(|thread| drop(thread.join()));
    let upsets: Vec<String> =
        soak.done.iter().map(|(name, count)| format!("{name} {count}")).collect();
    println!(
        "done: {}; {} packets, connections and requests made",
        upsets.join(", "),
        pause.made.load(std::sync::atomic::Ordering::Relaxed)
    );
    if worked.is_err() {
        soak.failures.push("the soak broke off (see above)".into());
    }
    let failures = std::mem::take(&mut soak.failures);
    if !failures.is_empty() {
        println!("the dataplane's log ends with:\n{}", tail(&soak.lab.net.log(), 40));
    }
    drop(soak);
    println!("{}", if failures.is_empty() { "all is level and adds up" } else { "FAILED" });
    std::process::exit(i32::from(!failures.is_empty()));
}

/// The last lines of a log, without what rules have logged.
fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().filter(|line| !line.starts_with('<')).collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

/// A web server on B, and the program that answers queue 3.
fn servers(lab: &mut Lab) {
    let directory = lab.net.directory.clone();
    sh(&format!("head -c 300000 /dev/urandom > {}", directory.join("file").display()));
    lab.net.spawn_in(
        'b',
        &format!("python3 -m http.server --bind :: --directory {} 80", directory.display()),
    );
    let queue = format!(
        "python3 {}/../../tests/live/queue.py {} accept",
        env!("CARGO_MANIFEST_DIR"),
        lab.queue.display()
    );
    lab.net.spawn_in('r', &queue);
}

/// One life of the dataplane: everything must be level.
fn calm(soak: &mut Soak, plan: &Plan) {
    println!("{}", Figures::head());
    let end = Instant::now() + plan.calm;
    let mut all: Vec<Figures> = Vec::new();
    let process = soak.lab.net.pid();
    while Instant::now() < end {
        soak.run_until(end.min(Instant::now() + plan.minute));
        let Some((figures, _)) = soak.quiet() else { continue };
        println!("{}", figures.row());
        all.push(figures);
    }
    if soak.lab.net.pid() != process {
        soak.fail("the process is another one".into());
    }
    level(soak, &all);
}

/// Reads one of the figures.
type Read = fn(&Figures) -> u64;

/// Judges the figures of one life.
fn level(soak: &mut Soak, all: &[Figures]) {
    let (Some(warm), Some(last)) = (all.get(all.len() / 4), all.last()) else {
        return soak.fail("no figures".into());
    };
    let counts: [(&str, Read); 5] = [
        ("processes", |f| f.processes),
        ("threads", |f| f.threads),
        ("descriptors", |f| f.descriptors),
        ("timers", |f| f.timers),
        ("BPF objects", |f| f.bpf),
    ];
    for (name, read) in counts {
        // Processes that evaluate rule texts come and go with clients, so the least of each half
        // counts.
        let (first, second) = (&all[..all.len().div_ceil(2)], &all[all.len() / 2..]);
        let (before, after) = (least(first, read), least(second, read));
        if after > before + SLACK {
            soak.fail(format!("{name}: {before} in the first half, {after} in the second"));
        }
    }
    for (name, read) in [("memory", (|f| f.rss) as Read), ("address space", |f| f.vm)] {
        let growth = growth(all, read);
        println!("{name}: {growth:.1} KB/min over the second half of {:.0} minutes", last.at);
        if all.len() >= 20 && growth > MEMORY_GROWTH {
            soak.fail(format!("{name} grows by {growth:.0} KB/min"));
        }
    }
    if last.rss > warm.rss + (128 << 10) {
        soak.fail(format!("memory: {} KB when warm, {} KB at the end", warm.rss, last.rss));
    }
}

/// Lives that end by kills, each followed by another from the same state.
fn killing(soak: &mut Soak, plan: &Plan) {
    let end = Instant::now() + plan.killing;
    let mut turn = 0;
    while Instant::now() < end {
        let micros = plan.between_kills.as_micros() as u64;
        let life = Duration::from_micros(soak.rng.u64(micros / 8..micros * 3 / 2));
        soak.run_until(end.min(Instant::now() + life));
        // Every other life ends in the middle of traffic without a word.
        if soak.rng.bool()
            && let Some((figures, _)) = soak.quiet()
        {
            println!("{}", figures.row());
        }
        soak.clients.end();
        let what = [Killed::Process, Killed::Both, Killed::Guardian][turn % 3];
        turn += 1;
        let name = match what {
            Killed::Process => "kill of the process",
            Killed::Guardian => "kill of the guardian",
            Killed::Both => "kill of both",
        };
        upset::kill(&mut soak.lab, what);
        *soak.done.entry(name).or_default() += 1;
        let (listed, rules) = soak.lab.in_r("$PENSTOCK nft list ruleset");
        if !listed || !rules.contains("table inet t") {
            soak.fail(format!("after {name} the ruleset is another one: {rules}"));
            upset::load(&soak.lab, 0);
        }
    }
}

/// The end: connections live out, the dataplane ends in order, and nothing of it stays.
fn finish(soak: &mut Soak) {
    soak.clients.end();
    soak.pause.set(true);
    let few =
        |lab: &Lab| shown(lab).is_some_and(|s| s["connections"].as_u64().is_some_and(|n| n < 20));
    if !soak.lab.within(60, few) {
        let (_, left) = soak.lab.in_r("$PENSTOCK show conntrack");
        soak.fail(format!("connections that do not end:\n{left}"));
    }
    if let Some((figures, _)) = soak.quiet() {
        println!("{}", figures.row());
    }
    let pid = soak.lab.net.pid();
    let family = measure::family(pid);
    soak.lab.net.down();
    let is_there = |pid: &&u32| std::path::Path::new(&format!("/proc/{pid}/root/.")).exists();
    if !soak.lab.within(5, |_| !family.iter().any(|pid| is_there(&pid))) {
        let left: Vec<_> = family.iter().filter(is_there).collect();
        soak.fail(format!("processes that stay: {left:?}"));
    }
    let (_, links) = soak.lab.in_r("ip -o link");
    if links.contains(".port") || links.contains("penstock0") {
        soak.fail(format!("devices that stay: {links}"));
    }
    let (_, sockets) = soak.lab.in_r("cat /proc/net/unix");
    if sockets.contains("penstock") {
        soak.fail("a socket stays".into());
    }
    let ping = "ping -c 1 -W 1 198.18.1.2";
    if !soak.lab.within(10, |lab| lab.net.run(&lab.net.a, ping).0) {
        let (_, there) = soak.lab.in_r(lab::NETWORK);
        soak.fail(format!("the kernel does not forward afterwards: {there}"));
    }
}
