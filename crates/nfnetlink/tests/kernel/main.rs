// SPDX-License-Identifier: Apache-2.0

//! The real nft is the judge: what it sends to the kernel is given to a [`Client`], and then both
//! have to list the same, and to answer the same to its questions.
//!
//! nft and the kernel are recorded by strace in private network namespaces. Without nft, strace or
//! the rights for that, everything here is skipped, and says so. Environment: `PENSTOCK_RULESETS`
//! (a folder; all files `*.nft` in it are compared, too).

mod messages;
mod recording;

use std::fs;
use std::path::{Path, PathBuf};

use messages::{attributes, port, show, split};
use penstock_lang::datatype::Format;
use penstock_lang::listing::Listing;
use penstock_nfnetlink::{Client, Local, Process, SocketOption};
use penstock_system::SystemNames;
use recording::{Datagram, Run, record};

/// A folder that is removed in the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("penstock-nfnetlink-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder can be made");
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A client as nft is one.
fn nft(datagrams: &[Datagram]) -> (Client, Process) {
    let received = datagrams.iter().find_map(|d| match d {
        Datagram::Received(bytes) => Some(port(bytes)),
        Datagram::Sent(_) => None,
    });
    let mut client = Client::new(received.unwrap_or(1));
    client.set_option(SocketOption::ExtAck, true);
    client.receives_into(69_631);
    let process = Process { id: client.port(), name: "nft".into(), may_change: true };
    (client, process)
}

/// Gives what a program sent to a backend; what it answers, and what the kernel did.
fn replay(run: &Run, backend: &mut Local) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let (mut client, process) = nft(&run.datagrams);
    let (mut ours, mut kernel) = (Vec::new(), Vec::new());
    for datagram in &run.datagrams {
        match datagram {
            Datagram::Sent(bytes) => {
                ours.extend(client.receive(bytes, &process, backend).datagrams);
            }
            Datagram::Received(bytes) => kernel.push(bytes.clone()),
        }
    }
    (split(&ours), split(&kernel))
}

fn listing(backend: &Local) -> String {
    let generation = backend.ruleset.generation();
    let names = SystemNames::default();
    Listing { generation: &generation, format: Format::default(), names: &names, now: backend.now }
        .ruleset(None)
}

/// Bound chains have numbers of their own in the kernel, counted over all namespaces.
fn without_numbers(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("\"__chain") {
        out.push_str(&rest[..at + 8]);
        rest = rest[at + 8..].trim_start_matches(|c: char| c.is_ascii_digit());
    }
    out.push_str(rest);
    out
}

/// Messages as lines to compare. What the kernel says by chance is left out: where it keeps its
/// code, how it counts bound chains, the order of hashes.
fn lines(all: &[Vec<u8>]) -> Vec<String> {
    const NEWSET: u16 = 0xa09;
    const NEWSETELEM: u16 = 0xa0c;
    let mut lines = Vec::new();
    let mut elements: Vec<String> = Vec::new();
    for message in all {
        let kind = u16::from_ne_bytes([message[4], message[5]]);
        let mut line = without_numbers(&show(message));
        if kind == NEWSET
            && let Some(at) = line.find(" 19=\"")
        {
            let rest = line[at + 5..].find('"').map_or("", |end| &line[at + 6 + end..]);
            line = format!("{}{rest}", &line[..at]);
        }
        if kind == NEWSETELEM {
            let list = attributes(&message[20..]).into_iter().find(|(kind, _)| *kind == 3);
            let list = list.map(|(_, list)| list).unwrap_or_default();
            if list.is_empty() {
                elements.sort();
                lines.append(&mut elements);
            }
            let head = line.split(" 3=").next().unwrap_or_default().to_owned();
            for (_, element) in attributes(list) {
                let mut one = message[..20].to_vec();
                one.extend_from_slice(element);
                let text = show(&one);
                elements.push(format!("{head} element {}", &text[text.find(" 1=").unwrap_or(0)..]));
            }
            continue;
        }
        elements.sort();
        lines.append(&mut elements);
        lines.push(line);
    }
    lines.append(&mut elements);
    lines
}

/// The first lines that differ.
fn difference(name: &str, ours: &[String], theirs: &[String]) -> Option<String> {
    let at = (0..ours.len().max(theirs.len())).find(|at| ours.get(*at) != theirs.get(*at))?;
    let show = |lines: &[String]| lines.get(at).cloned().unwrap_or_else(|| "(nothing)".into());
    Some(format!("{name}, line {at}:\n  kernel {}\n  ours   {}", show(theirs), show(ours)))
}

/// What is wrong with a ruleset.
fn compare(scratch: &Path, file: &Path) -> Result<bool, String> {
    let name = file.display().to_string();
    let runs = record(scratch, file, &["list ruleset"]).map_err(|e| e.to_string())?;
    let [load, list] = runs.as_slice() else { return Err(format!("{name}: not recorded")) };
    if load.stderr.contains("Error") && !load.stderr.contains("Could not process") {
        return Ok(false);
    }
    let mut backend = Local::default();
    let (ours, theirs) = replay(load, &mut backend);
    if let Some(text) = difference(&format!("{name}: loading"), &lines(&ours), &lines(&theirs)) {
        return Err(text);
    }
    // Builds of nft differ in whether they list a burst of 5 packets, which is the default one.
    let lines_of = |text: &str| -> Vec<String> {
        text.replace(" burst 5 packets", "").lines().map(str::to_owned).collect()
    };
    let (ours, theirs) = (lines_of(&listing(&backend)), lines_of(&list.stdout));
    if let Some(text) = difference(&format!("{name}: listing"), &ours, &theirs) {
        return Err(text);
    }
    let (ours, theirs) = replay(list, &mut backend);
    match difference(&format!("{name}: dumps"), &lines(&ours), &lines(&theirs)) {
        Some(text) => Err(text),
        None => Ok(true),
    }
}

fn rulesets(folder: &Path, to: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            rulesets(&path, to);
        } else if path.extension().is_some_and(|e| e == "nft") {
            to.push(path);
        }
    }
}

/// Compares rulesets; panics with all that differ.
fn compare_all(scratch: &Path, mut files: Vec<PathBuf>) {
    files.sort();
    let (mut wrong, mut alike, mut refused) = (Vec::new(), 0, 0);
    for file in &files {
        match compare(scratch, file) {
            Ok(true) => alike += 1,
            Ok(false) => refused += 1,
            Err(text) => wrong.push(text),
        }
    }
    println!("{alike} alike, {refused} that nft does not read, {} differ", wrong.len());
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn rulesets_are_listed_and_dumped_as_by_the_kernel() {
    if let Err(reason) = recording::possible() {
        println!("SKIPPED: comparison with nft: {reason}");
        return;
    }
    let scratch = Scratch::new("rulesets");
    let mut files = Vec::new();
    rulesets(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernel/rulesets"), &mut files);
    if let Some(folder) = std::env::var_os("PENSTOCK_RULESETS") {
        rulesets(Path::new(&folder), &mut files);
    }
    compare_all(&scratch.0, files);
}

#[test]
fn commands_are_answered_as_by_the_kernel() {
    if let Err(reason) = recording::possible() {
        println!("SKIPPED: comparison with nft: {reason}");
        return;
    }
    let scratch = Scratch::new("commands");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernel");
    let commands = fs::read_to_string(folder.join("commands.txt")).expect("it is there");
    let commands: Vec<&str> = commands.lines().collect();
    let runs = record(&scratch.0, &folder.join("rulesets/kinds.nft"), &commands)
        .expect("nft can be recorded");
    let mut backend = Local::default();
    let mut wrong = Vec::new();
    let names = std::iter::once("kinds.nft").chain(commands.iter().copied());
    for (run, name) in runs.iter().zip(names) {
        let (ours, theirs) = replay(run, &mut backend);
        wrong.extend(difference(name, &lines(&ours), &lines(&theirs)));
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}
