// SPDX-License-Identifier: Apache-2.0

//! Runs the same rulesets and commands with nft and `penstock nft`: results, messages and listings
//! must agree to the byte.
//!
//! The real nft runs in private network namespaces; without nft 1.0.6 or the rights for that,
//! everything here is skipped, and says so. Environment: `PENSTOCK_NFT_RANDOM` (how many random
//! rulesets), `PENSTOCK_SEED` (of the first of them), `PENSTOCK_NFT_MUTATIONS` (how many texts that
//! are nearly right). What is left out of the comparison stands in `masks` and `lacking`.

#[path = "../kernel/namespace.rs"]
mod namespace;

mod commands;
mod lacking;
mod masks;
mod mutations;
mod nearly_right;
mod random;
mod renewed;
mod sides;

use std::ops::Range;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicU64, Ordering};

use lacking::Lacking;
use sides::{Said, Side};

/// Default number of compared rulesets.
const COUNT: u64 = 60;

/// How many texts that are nearly right.
const MUTATIONS: u64 = 300;

/// What is listed, and how. Among text listings the first difference suffices.
const LISTINGS: [&[&str]; 8] = [
    &["-j", "list", "ruleset"],
    &["list", "ruleset"],
    &["-a", "list", "ruleset"],
    &["-s", "list", "ruleset"],
    &["-n", "list", "ruleset"],
    &["-y", "-N", "list", "ruleset"],
    &["-t", "list", "ruleset"],
    &["-p", "-S", "-T", "list", "ruleset"],
];

fn main() -> ExitCode {
    if std::env::args().any(|a| a == "--list") {
        return ExitCode::SUCCESS;
    }
    if let Err(reason) = prepare() {
        println!("SKIPPED: comparison with nft: {reason}");
        return ExitCode::SUCCESS;
    }
    let number = |name: &str| std::env::var(name).ok().and_then(|v| v.parse::<u64>().ok());
    let count = number("PENSTOCK_NFT_RANDOM").unwrap_or(COUNT);
    let seed = penstock_testkit::seed();
    let lacking = Lacking::probe();
    println!(
        "nft: {count} random rulesets, PENSTOCK_SEED={seed}; the kernel lacks: {}",
        lacking.describe()
    );
    let tallies = by_seed(seed..seed + count, |seed, tally: &mut Tally| {
        let found = Comparison::new(seed, &lacking, tally).run();
        tally.rulesets += 1;
        if !found.is_empty() {
            tally.differ += 1;
            println!("DIFFERENT PENSTOCK_SEED={seed}\n{}", found.join("\n"));
        }
    });
    let sum = |what: fn(&Tally) -> u64| tallies.iter().map(what).sum::<u64>();
    let (rulesets, differ, taken) = (sum(|t| t.rulesets), sum(|t| t.differ), sum(|t| t.taken));
    println!(
        "nft: {} rulesets agree, {differ} differ; {taken} rules taken, {} refused, {} skipped as the kernel lacks something, \
         {} as nft is killed by a signal, {} listings as well, {} as nft merges over statements",
        rulesets - differ,
        sum(|t| t.refused),
        sum(|t| t.lacking),
        sum(|t| t.killed),
        sum(|t| t.killed_in_listings),
        sum(|t| t.merged),
    );
    if sum(|t| t.frames_refused) > 0 {
        println!(
            "nft: {} rulesets were refused before their first rule",
            sum(|t| t.frames_refused)
        );
    }
    let mutations = number("PENSTOCK_NFT_MUTATIONS").unwrap_or(MUTATIONS);
    let (texts, texts_differ) = nearly_right::compare(seed..seed + mutations, &lacking);
    let commands_differ = commands::compare();
    let renewed_differ = renewed::compare() as u64;
    if rulesets != count || count > 0 && taken == 0 || texts != mutations {
        println!("nft: not everything was compared");
        return ExitCode::FAILURE;
    }
    let differ = differ + texts_differ + commands_differ + renewed_differ;
    if differ == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs `work` for all seeds, with a tally for each thread.
fn by_seed<T: Default + Send>(seeds: Range<u64>, work: impl Fn(u64, &mut T) + Sync) -> Vec<T> {
    let next = AtomicU64::new(seeds.start);
    let workers = std::thread::available_parallelism().map_or(1, |n| n.get().min(8));
    std::thread::scope(|scope| {
        let run = || {
            let mut tally = T::default();
            if let Err(reason) = enter() {
                println!("nft: {reason}");
                return tally;
            }
            Side::Nft.clear();
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= seeds.end {
                    return tally;
                }
                work(seed, &mut tally);
            }
        };
        let handles: Vec<_> = (0..workers).map(|_| scope.spawn(run)).collect();
        handles.into_iter().filter_map(|h| h.join().ok()).collect()
    })
}

#[derive(Default)]
struct Tally {
    rulesets: u64,
    differ: u64,
    /// Rules by what became of them.
    taken: u64,
    refused: u64,
    lacking: u64,
    /// Commands at which nft was killed by a signal, most of them by its own assertion.
    killed: u64,
    killed_in_listings: u64,
    /// Rules that nft makes other rules of.
    merged: u64,
    /// Rulesets of which nothing but the refusal was compared.
    frames_refused: u64,
}

/// Moves into a namespace in which nft works, if there is one to be had.
fn prepare() -> Result<(), String> {
    let version =
        Command::new("nft").arg("--version").output().map_err(|e| format!("no nft: {e}"))?;
    let version = String::from_utf8_lossy(&version.stdout).into_owned();
    if !version.contains("v1.0.6") {
        return Err(format!("texts are those of nft 1.0.6, this is {}", version.trim()));
    }
    enter()
}

/// Moves the calling thread into its own namespace.
fn enter() -> Result<(), String> {
    let new = namespace::Namespace::new().map_err(|e| format!("no network namespaces: {e}"))?;
    new.enter().map_err(|e| format!("cannot enter {}: {e}", new.path()))?;
    let said = Side::Nft.run(&["add", "table", "inet", "t"]);
    if said.code == Some(0) {
        Ok(())
    } else {
        Err(format!("nft does not work: {}", said.stderr.trim()))
    }
}

/// One ruleset through both.
struct Comparison<'a> {
    random: random::Random,
    lacking: &'a Lacking,
    tally: &'a mut Tally,
    ours: Side,
    file: PathBuf,
    state: PathBuf,
    found: Vec<String>,
}

impl<'a> Comparison<'a> {
    fn new(seed: u64, lacking: &'a Lacking, tally: &'a mut Tally) -> Comparison<'a> {
        let directory = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("nft");
        std::fs::create_dir_all(&directory).expect("the directory of tests can be written");
        let state = directory.join(format!("{seed}.state"));
        Comparison {
            random: random::ruleset(seed),
            lacking,
            tally,
            ours: Side::Penstock(state.clone()),
            file: directory.join(format!("{seed}.nft")),
            state,
            found: Vec::new(),
        }
    }

    /// What differs.
    fn run(mut self) -> Vec<String> {
        if let Some(text) = self.load_rules() {
            let (theirs, mine) = self.load(&text);
            let same = theirs.code == mine.code;
            self.note("all rules that were taken", &theirs, &mine);
            if theirs.code == Some(0) && same && self.list(&text) {
                self.commands();
            }
        }
        self.found
    }

    /// The frame, and rules one by one, without effect: refused ones must not count in the handles.
    /// Returns the text that both take.
    fn load_rules(&mut self) -> Option<String> {
        let mut text = self.random.frame.clone();
        let (theirs, mine) = self.load(&text);
        if self.lacking.explains(self.random.family, &theirs) {
            self.tally.lacking += 1;
            return None;
        }
        self.note("the frame", &theirs, &mine);
        if theirs.code != Some(0) || mine.code != Some(0) {
            self.tally.frames_refused += 1;
            return None;
        }
        for rule in std::mem::take(&mut self.random.rules) {
            // Elements with a quota are of later releases.
            if rule.rfind('{').is_some_and(|brace| {
                !rule[brace..].contains('}') && rule[brace..].contains(" quota ")
            }) {
                continue;
            }
            let (theirs, mine) = self.both(&["-c", "--debug=netlink", &rule]);
            if self.lacking.explains(self.random.family, &theirs) {
                self.tally.lacking += 1;
                continue;
            }
            if theirs.code.is_none() {
                self.tally.killed += 1;
                continue;
            }
            if masks::is_of_mark_as_number(&theirs.stderr) {
                continue;
            }
            if masks::merges_over_statements(&theirs.stdout, &mine.stdout) {
                self.tally.merged += 1;
                continue;
            }
            self.note(&rule, &theirs, &mine);
            match (theirs.code, mine.code) {
                (Some(0), Some(0)) => {
                    self.tally.taken += 1;
                    text += &rule;
                    text.push('\n');
                }
                _ => self.tally.refused += 1,
            }
        }
        Some(text)
    }

    /// Whether both list, so that commands can follow. Ours is made of the text that was loaded: a
    /// state file does not keep how a program came about.
    fn list(&mut self, text: &str) -> bool {
        let mut text_differs = false;
        std::fs::write(&self.file, format!("{text}list ruleset\n"))
            .expect("the directory of tests can be written");
        let file = self.file.to_str().expect("a path is text").to_owned();
        for listing in LISTINGS {
            let theirs = Side::Nft.run(listing);
            let flags = &listing[..listing.len() - 2];
            let mine = Side::Offline.run(&[flags, &["-f", &file]].concat());
            // Nor does nft list what it cannot read.
            let unread = theirs.stderr.contains("netlink: Error: Unknown data type in set key");
            if (theirs.code.is_none() || unread) && mine.code == Some(0) {
                self.tally.killed_in_listings += 1;
                return false;
            }
            let is_text = listing[0] != "-j";
            if !(is_text && text_differs) {
                text_differs |= self.note(&listing.join(" "), &theirs, &mine) && is_text;
            }
        }
        !text_differs
    }

    fn commands(&mut self) {
        let mut refused = false;
        for command in std::mem::take(&mut self.random.commands) {
            // Handles differ from here on.
            if refused && command.contains(" handle ") {
                continue;
            }
            let before = std::fs::read(&self.state).unwrap_or_default();
            // Some say what they made. nft 1.0.6 says nothing of intervals in concatenations, and
            // sets as they were written.
            let with_rules = command.contains(" rule ") || command.contains("chain a {");
            let plain = !command.contains(" . ") && !with_rules;
            let echoed: &[&str] =
                if plain && command.len() % 3 == 0 { &["-a", "-e"] } else { &["-a"] };
            let (theirs, mine) = self.both(&[echoed, &[&*command]].concat());
            let lacking = self.lacking.explains(self.random.family, &theirs);
            if lacking || theirs.code.is_none() {
                // What the kernel or nft could not do is undone here.
                *(if lacking { &mut self.tally.lacking } else { &mut self.tally.killed }) += 1;
                std::fs::write(&self.state, before).expect("the state can be written");
                continue;
            }
            let (shown, own) = if refused {
                (theirs.without_handles(), mine.without_handles())
            } else {
                (theirs, mine)
            };
            self.note(&command, &shown, &own);
            if shown.code != own.code {
                return;
            }
            // What the kernel refused has used up handles there, and none here.
            refused |= shown.stderr.contains("Could not process rule")
                || shown.stderr.contains("; did you mean ");
        }
        let (theirs, mine) = self.both(&["list", "ruleset"]);
        self.note("list ruleset after the commands", &theirs, &mine);
    }

    /// Both from an empty ruleset.
    fn load(&self, text: &str) -> (Said, Said) {
        std::fs::write(&self.file, text).expect("the directory of tests can be written");
        Side::Nft.clear();
        self.ours.clear();
        self.both(&["--debug=netlink", "-f", self.file.to_str().expect("a path is text")])
    }

    fn both(&self, arguments: &[&str]) -> (Said, Said) {
        (Side::Nft.run(arguments), self.ours.run(arguments))
    }

    /// Writes down where the two differ, if they do.
    fn note(&mut self, what: &str, theirs: &Said, mine: &Said) -> bool {
        let mut lines = Vec::new();
        if theirs.code != mine.code {
            lines.push(format!("    exit code: nft {:?}, penstock {:?}", theirs.code, mine.code));
        }
        let errors = masks::error_differences(&theirs.stderr, &mine.stderr);
        let output = masks::differences(&theirs.stdout, &mine.stdout);
        for (name, differences) in [("error", errors), ("output", output)] {
            let Some((a, b)) = differences else { continue };
            for (side, text) in [("nft", a), ("penstock", b)] {
                lines.extend(text.iter().map(|l| format!("    {name} {side:8} {l}")));
            }
        }
        if !lines.is_empty() {
            self.found.push(format!("  {what}\n{}", lines.join("\n")));
        }
        !lines.is_empty()
    }
}
