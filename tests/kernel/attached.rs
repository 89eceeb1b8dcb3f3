// SPDX-License-Identifier: Apache-2.0

//! The scenarios through `penstock attach`: the kernel runs a ruleset as BPF programs, and must do
//! what it does with the same ruleset in its nf_tables.
//!
//! What has no BPF code is taken out of a ruleset first, a rule or a chain at a time as the program
//! blames them; both sides get the rest. With `--with-kernel` nothing is taken out: chains without
//! code run in the nf_tables of the same kernel.

use std::collections::VecDeque;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::compare;
use crate::router::{Router, Unavailable};
use crate::scenario::{Outcome, Scenario};
use crate::sides::{Verdict, directory};
use crate::tools::{Programs, Tools, run};

/// Refusals of a ruleset at most.
const REFUSALS: usize = 60;

/// How much of a ruleset runs as programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// All of it.
    Whole,
    /// Chains that have code; nf_tables runs the others (`--with-kernel`).
    WithKernel,
}

impl How {
    /// What the names of such scenarios end with.
    fn name(self) -> &'static str {
        match self {
            How::Whole => "attached",
            How::WithKernel => "with-kernel",
        }
    }
}

/// Why a scenario cannot run so, if it cannot.
pub fn unfit(scenario: &Scenario, how: How) -> Option<&'static str> {
    let calls = scenario.sysctls.iter().any(|(name, _)| name.contains("bridge-nf-call"));
    if scenario.rules.contains("table bridge") && calls {
        return Some("hooks of IP that are called only once the ruleset is there");
    }
    if how == How::WithKernel {
        return unfit_for_both(scenario);
    }
    if ["type nat", "type route", "flowtable"].iter().any(|word| scenario.rules.contains(word)) {
        return Some("chains of other types, and flowtables");
    }
    if scenario.rules.contains("table arp") {
        return Some("families without programs");
    }
    if !scenario.services.log_groups.is_empty() || !scenario.services.queues.is_empty() {
        return Some("programs that listen in the kernel");
    }
    if !scenario.commands.is_empty() || !scenario.unlisted.is_empty() || !scenario.tc.is_empty() {
        return Some("rules of other tools");
    }
    None
}

fn unfit_for_both(scenario: &Scenario) -> Option<&'static str> {
    let translates =
        |line: &&str| ["snat", "dnat", "masq", "redir"].iter().any(|w| line.contains(w));
    if scenario.rules.lines().filter(translates).any(|line| line.contains("random")) {
        return Some("ports at random, in which a kernel differs from itself");
    }
    // Those of programs come to the process, those of nf_tables to the kernel's listeners.
    if !scenario.services.log_groups.is_empty() {
        return Some("groups of log are in two places");
    }
    if !scenario.commands.is_empty() || !scenario.unlisted.is_empty() || !scenario.tc.is_empty() {
        return Some("rules of other tools");
    }
    None
}

/// An attached ruleset in the namespace in which it was begun.
struct Attached {
    how: How,
    process: Mutex<Option<Child>>,
}

impl Attached {
    fn new(how: How) -> Self {
        Attached { how, process: Mutex::default() }
    }

    fn end(child: Option<Child>) {
        let Some(mut child) = child else { return };
        // SAFETY: a signal to a child that nobody has waited for.
        unsafe { libc::kill(child.id() as i32, libc::SIGTERM) };
        let _ = child.wait();
    }

    /// Begins one in the present namespace, in place of the one before.
    fn begin(&self) -> Result<(), String> {
        let mut process = self.process.lock().expect("no panics");
        Attached::end(process.take());
        let mut command = Command::new(env!("CARGO_BIN_EXE_penstock"));
        command.args(["attach", "--rules", "/dev/null"]);
        command.args((self.how == How::WithKernel).then_some("--with-kernel"));
        if let Ok(place) = std::env::var("PENSTOCK_ATTACHED_AT") {
            command.args(veths()?.iter().map(|device| format!("{device}={place}")));
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        *process = Some(command.spawn().map_err(|e| e.to_string())?);
        let deadline = Instant::now() + Duration::from_secs(20);
        while let Err(message) = penstock(&["show"], "") {
            if Instant::now() > deadline {
                return Err(message);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        Attached::end(self.process.get_mut().expect("no panics").take());
    }
}

/// The devices of the present namespace that are ends of a veth.
fn veths() -> Result<Vec<String>, String> {
    let listed = run("ip", &["-o", "link", "show", "type", "veth"], "")?;
    let name = |line: &str| Some(line.split(": ").nth(1)?.split('@').next()?.to_owned());
    Ok(listed.lines().filter_map(name).collect())
}

fn penstock(args: &[&str], input: &str) -> Result<String, String> {
    run(env!("CARGO_BIN_EXE_penstock"), args, input)
}

/// The harness's own tables are in the kernel's nf_tables, all others are attached.
impl Tools for Attached {
    fn nft(&self, commands: &str) -> Result<String, String> {
        let is_own = commands.contains("table inet penstock-delivery");
        if is_own {
            match commands.starts_with("flush ruleset") {
                true => drop(penstock(&["nft", "flush ruleset"], "")?),
                // A new namespace.
                false => self.begin()?,
            }
            return Programs.nft(commands);
        }
        penstock(&["nft", "-f", "-"], commands)
    }

    fn connections(&self) -> Option<Vec<String>> {
        Programs.connections()
    }

    fn event(&self, message: &[u8]) -> Option<String> {
        Programs.event(message)
    }
}

/// Without the rule, or the chain or table, that begins in a line, from 1 on.
fn without(rules: &str, line: usize) -> String {
    let mut depth = 0;
    let mut kept = String::new();
    for (n, text) in rules.lines().enumerate() {
        if n + 1 == line || depth > 0 {
            depth += text.matches('{').count();
            depth -= text.matches('}').count().min(depth);
            continue;
        }
        kept += text;
        kept += "\n";
    }
    kept
}

/// Loads what can be attached of rules; that. The error is what is no refusal of a rule.
fn attachable(attached: &Attached, mut rules: String) -> Result<String, String> {
    // That of the scenario before.
    attached.nft("flush ruleset\n")?;
    for _ in 0..REFUSALS {
        let Err(said) = penstock(&["nft", "-f", "-"], &rules) else {
            attached.nft("flush ruleset\n")?;
            return Ok(rules);
        };
        // `/dev/stdin:LINE:FROM-TO: Error: …`
        let place = |line: &str| line.split_once(": Error: ")?.0.rsplit(':').nth(1)?.parse().ok();
        let Some(line) = said.lines().find_map(place) else { return Err(said) };
        if !said.contains("cannot run chain") && !said.contains("No such file or directory") {
            return Err(said);
        }
        rules = without(&rules, line);
    }
    Err("too much has no BPF code".into())
}

/// Rules, and those that were attached.
#[derive(Default)]
struct Share {
    all: AtomicUsize,
    kept: AtomicUsize,
}

/// How many rules count in a text.
fn rules_in(rules: &str) -> usize {
    rules.lines().filter(|line| line.contains("counter")).count()
}

/// Both sides of a network.
struct Sides {
    net: String,
    kernel: Router,
    attached: Router,
    tools: Arc<Attached>,
}

impl Sides {
    fn new(net: &str, how: How) -> Result<Self, Unavailable> {
        let tools = Arc::new(Attached::new(how));
        let (kernel, attached) = (Router::new(net)?, Router::with(net, tools.clone())?);
        Ok(Sides { net: net.into(), kernel, attached, tools })
    }

    fn compare(&mut self, scenario: &Scenario, share: &Share) -> Verdict {
        if let Err(e) = self.attached.enter() {
            return Verdict::Differ(e.to_string());
        }
        let mut scenario = scenario.clone();
        share.all.fetch_add(rules_in(&scenario.rules), Relaxed);
        if self.tools.how == How::Whole {
            scenario.rules = match attachable(&self.tools, scenario.rules) {
                Ok(rules) => rules,
                Err(said) => return Verdict::Skipped(said.trim().into()),
            };
        }
        share.kept.fetch_add(rules_in(&scenario.rules), Relaxed);
        let kernel = match self.kernel.run(&scenario, None) {
            Ok(kernel) => kernel,
            Err(said) => return Verdict::Skipped(said.trim().into()),
        };
        let see = directory(&scenario).with_extension(self.tools.how.name());
        match self.attached.run(&scenario, Some(&kernel)) {
            Ok(attached) => match compare::differences(&scenario, &kernel, &attached, false) {
                None => Verdict::Agree,
                Some(text) => {
                    let _ = scenario.write(&see);
                    let text = text.replace("penstock:", &format!("{}:", self.tools.how.name()));
                    Verdict::Differ(format!("{text}  see {}\n", see.display()))
                }
            },
            Err(text) => {
                let _ = scenario.write(&see);
                Verdict::Differ(format!("{text}  see {}\n", see.display()))
            }
        }
    }
}

/// Runs a scenario that can run so. More time is given only until `expected` is there.
pub fn run_one(scenario: &Scenario, expected: &Outcome, how: How) -> Result<Outcome, String> {
    let tools = Arc::new(Attached::new(how));
    let mut router = Router::with(&scenario.net, tools).map_err(|e| format!("{e:?}"))?;
    router.run(scenario, Some(expected))
}

/// Compares scenarios on so many threads, those of one network one after the other.
pub fn compare_all(
    mut scenarios: Vec<Scenario>,
    threads: usize,
    how: How,
) -> Vec<(String, Verdict)> {
    scenarios.sort_by(|a, b| a.net.cmp(&b.net));
    let work: Mutex<VecDeque<Scenario>> = Mutex::new(scenarios.into());
    let results = Mutex::new(Vec::new());
    let share = Share::default();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut sides: Option<Sides> = None;
                loop {
                    let Some(scenario) = work.lock().expect("no panics").pop_front() else { break };
                    let fit = |sides: &Sides| sides.net == scenario.net;
                    let verdict = match sides
                        .take()
                        .filter(fit)
                        .map_or_else(|| Sides::new(&scenario.net, how), Ok)
                    {
                        Ok(mut both) => {
                            let verdict = both.compare(&scenario, &share);
                            sides = Some(both);
                            verdict
                        }
                        Err(Unavailable::Skip(reason)) => Verdict::Skipped(reason),
                        Err(Unavailable::Failed(text)) => Verdict::Differ(text),
                    };
                    let name = format!("{} ({})", scenario.name, how.name());
                    results.lock().expect("no panics").push((name, verdict));
                }
            });
        }
    });
    let [all, kept] = [share.all, share.kept].map(AtomicUsize::into_inner);
    match how {
        How::Whole => println!("attached: {kept} of {all} rules that count have BPF code"),
        How::WithKernel => println!("with-kernel: {kept} of {all} rules that count"),
    }
    results.into_inner().expect("no panics")
}
