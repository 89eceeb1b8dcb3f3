//! The same rulesets and commands for nft and `penstock nft`: what they take, say and list must agree to the byte.
//!
//! The real nft runs in a network namespace that nobody else sees; without nft or the rights for that, everything here is
//! skipped, and says so. Environment: `PENSTOCK_NFT_RANDOM` (how many random rulesets), `PENSTOCK_SEED` (of the first of
//! them). There are known differences left, so the comparison is run on demand only: without `PENSTOCK_NFT_RANDOM` it is
//! skipped, with it a difference fails.

#[path = "../kernel/namespace.rs"]
mod namespace;
mod random;
mod sides;

use std::process::{Command, ExitCode};

use sides::{Said, Side};

/// What a kernel says of a rule whose expression or module it does not have, or that a hook does not take. nft tells nothing
/// more, so these rules are left out.
const LACKING: [&str; 2] =
    ["Could not process rule: No such file or directory", "Could not process rule: Operation not supported"];

/// What is listed, and how.
const LISTINGS: [&[&str]; 7] = [
    &["list", "ruleset"],
    &["-a", "list", "ruleset"],
    &["-s", "list", "ruleset"],
    &["-n", "list", "ruleset"],
    &["-y", "-N", "list", "ruleset"],
    &["-j", "list", "ruleset"],
    &["-t", "list", "ruleset"],
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
    let Some(count) = number("PENSTOCK_NFT_RANDOM") else {
        println!("SKIPPED: comparison with nft: differences are known; PENSTOCK_NFT_RANDOM=60 runs it");
        return ExitCode::SUCCESS;
    };
    let seed = number("PENSTOCK_SEED").unwrap_or_else(|| fastrand::u64(..1 << 40));
    println!("nft: {count} random rulesets, PENSTOCK_SEED={seed}");
    let mut differ = 0;
    let mut tally = Tally::default();
    for seed in seed..seed + count {
        let found = compare(seed, &mut tally);
        if !found.is_empty() {
            differ += 1;
            println!("DIFFERENT PENSTOCK_SEED={seed}\n{}", found.join("\n"));
        }
    }
    println!(
        "nft: {} rulesets agree, {differ} differ; {} rules taken, {} refused, {} skipped as the kernel lacks something, {} as nft crashes",
        count - differ,
        tally.taken,
        tally.refused,
        tally.lacking,
        tally.crashed
    );
    if tally.frames_refused > 0 {
        println!("nft: {} rulesets were refused before their first rule", tally.frames_refused);
    }
    if count > 0 && tally.taken == 0 {
        println!("nft: nothing was compared");
        return ExitCode::FAILURE;
    }
    if differ == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Rules by what became of them.
#[derive(Default)]
struct Tally {
    taken: u32,
    refused: u32,
    lacking: u32,
    /// Rules at which nft was killed by a signal.
    crashed: u32,
    /// Rulesets of which nothing but the refusal was compared.
    frames_refused: u32,
}

/// Moves into a namespace in which nft works, if there is one to be had.
fn prepare() -> Result<(), String> {
    let version = Command::new("nft").arg("--version").output().map_err(|e| format!("no nft: {e}"))?;
    let version = String::from_utf8_lossy(&version.stdout).into_owned();
    if !version.contains("v1.0.6") {
        return Err(format!("texts are those of nft 1.0.6, this is {}", version.trim()));
    }
    let new = namespace::Namespace::new().map_err(|e| format!("no network namespaces: {e}"))?;
    new.enter().map_err(|e| format!("cannot enter {}: {e}", new.path()))?;
    let said = Side::Nft.run(&["add", "table", "inet", "t"]);
    if said.code == Some(0) { Ok(()) } else { Err(format!("nft does not work: {}", said.stderr.trim())) }
}

/// What differs in the ruleset of a seed.
fn compare(seed: u64, tally: &mut Tally) -> Vec<String> {
    let random = random::ruleset(seed);
    let directory = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("nft");
    std::fs::create_dir_all(&directory).expect("the directory of tests can be written");
    let state = directory.join(format!("{seed}.state"));
    let ours = Side::Penstock(state.clone());
    let mut found = Vec::new();
    let start = |text: &str| {
        let file = directory.join(format!("{seed}.nft"));
        std::fs::write(&file, text).expect("the directory of tests can be written");
        Side::Nft.clear();
        ours.clear();
        let arguments = ["--debug=netlink", "-f", file.to_str().expect("a path is text")];
        (Side::Nft.run(&arguments), ours.run(&arguments))
    };
    let (theirs, mine) = start(&random.frame);
    if theirs.code != Some(0) && lacking(&theirs) {
        tally.lacking += 1;
        return found;
    }
    note(&mut found, "the frame", &theirs, &mine);
    if theirs.code != Some(0) || mine.code != Some(0) {
        tally.frames_refused += 1;
        return found;
    }
    // Rules one by one, without effect: refused ones must not count in the handles.
    let mut text = random.frame.clone();
    for rule in &random.rules {
        let (theirs, mine) = both(&ours, &["-c", "--debug=netlink", rule]);
        if lacking(&theirs) {
            tally.lacking += 1;
            continue;
        }
        if theirs.code.is_none() {
            // nft itself fell over an assertion of its own.
            tally.crashed += 1;
            continue;
        }
        note(&mut found, rule, &theirs, &mine);
        match (theirs.code, mine.code) {
            (Some(0), Some(0)) => {
                tally.taken += 1;
                text += rule;
                text.push('\n');
            }
            _ => tally.refused += 1,
        }
    }
    let (theirs, mine) = start(&text);
    note(&mut found, "all rules that were taken", &theirs, &mine);
    if theirs.code != Some(0) || mine.code != Some(0) {
        return found;
    }
    for listing in LISTINGS {
        let (theirs, mine) = both(&ours, listing);
        note(&mut found, &listing.join(" "), &theirs, &mine);
    }
    for command in &random.commands {
        let before = std::fs::read(&state).unwrap_or_default();
        let (theirs, mine) = both(&ours, &["-a", command]);
        if lacking(&theirs) && mine.code == Some(0) {
            // What the kernel could not do is undone here.
            tally.lacking += 1;
            std::fs::write(&state, before).expect("the state can be written");
            continue;
        }
        note(&mut found, command, &theirs, &mine);
        if theirs.code != mine.code {
            return found;
        }
    }
    let (theirs, mine) = both(&ours, &["list", "ruleset"]);
    note(&mut found, "list ruleset after the commands", &theirs, &mine);
    found
}

fn both(ours: &Side, arguments: &[&str]) -> (Said, Said) {
    (Side::Nft.run(arguments), ours.run(arguments))
}

fn lacking(said: &Said) -> bool {
    LACKING.iter().any(|l| said.stderr.contains(l))
}

/// Writes down where the two differ.
fn note(found: &mut Vec<String>, what: &str, theirs: &Said, mine: &Said) {
    let mut lines = Vec::new();
    if theirs.code != mine.code {
        lines.push(format!("    exit code: nft {:?}, penstock {:?}", theirs.code, mine.code));
    }
    for (name, a, b) in [("error", &theirs.stderr, &mine.stderr), ("output", &theirs.stdout, &mine.stdout)] {
        let (a, b) = (masked(a), masked(b));
        if a == b {
            continue;
        }
        let at = a.iter().zip(&b).take_while(|(x, y)| x == y).count();
        let show = |side: &str, text: &[String]| -> Vec<String> {
            text.iter().skip(at).take(4).map(|l| format!("    {name} {side:8} {l}")).collect()
        };
        lines.extend(show("nft", &a));
        lines.extend(show("penstock", &b));
    }
    if !lines.is_empty() {
        found.push(format!("  {what}\n{}", lines.join("\n")));
    }
}

/// A text's lines, or the objects of JSON, without what differs for reasons of its own.
fn masked(text: &str) -> Vec<String> {
    let text = text.replace("}}, {\"", "}},\n{\"").replace("}, {\"", "},\n{\"");
    text.lines()
        // nft 1.0.6 has tables, chains and objects printed before their names are there.
        .filter(|line| !line.contains("(null)"))
        .map(|line| {
            // Limits with the burst that is meant anyway, `dynamic` among the flags: docs/differences.md.
            let line = line.trim_end().replace(" burst 5 packets", "");
            let line = line.replace(", \"dynamic\"]", "]").replace(", \"flags\": [\"dynamic\"]", "");
            let line = line.as_str();
            // A table's handle counts all tables that the namespace ever had.
            if line.trim_start().starts_with("table ") {
                line.split(" # handle").next().unwrap_or_default().to_owned()
            } else if line.starts_with("{\"table\"") {
                line.split("\"handle\"").next().unwrap_or_default().to_owned()
            } else if line.starts_with("{\"chain\"") {
                // `dev` of chains: docs/differences.md.
                line.split(", \"dev\": ").next().unwrap_or_default().trim_end_matches("}},").to_owned()
            } else if let Some(at) = line.find("expires ") {
                // Time goes on between two commands.
                line[..at].to_owned()
            } else {
                line.to_owned()
            }
        })
        .collect()
}
