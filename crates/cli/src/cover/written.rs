// SPDX-License-Identifier: Apache-2.0

//! The packets as captures, and tests that expect what becomes of them now.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use penstock_io::LinkType;
use penstock_packet::CtInfo;
use penstock_program::expr::CtKey;
use penstock_program::image::RuleIndex;
use penstock_program::{Family, Hook};
use penstock_symbolic::{Addresses, Field, own_addresses};
use serde_json::{Value as Json, json};

use super::host::{Host, addresses, frame, way};
use super::options::Asked;
use super::{ToldCase, counted};
use crate::input::Captures;
use crate::input::complete::fill_checksums;
use crate::rules::NetNames;
use crate::setup::Setup;
use crate::symbolic::hooks::Station;
use crate::symbolic::load::{Devices, Loaded, Source};
use crate::symbolic::told::write_capture;
use crate::test::record::{Recorded, fates, key, written};
use crate::test::run::{Failure, Host as TestHost};
use crate::test::suite::{Action, Suite};
use crate::trace::outcome::Outcome;
use crate::trace::told::Told;

/// Between frames of captures, in nanoseconds.
const STEP: u64 = 1_000_000;

/// Files that were written for a hook.
pub struct Tests {
    /// The file of tests; `None` if no test could be made.
    file: Option<PathBuf>,
    /// Tests in it.
    count: usize,
    /// Rules that they meet.
    met: usize,
    /// Rules that packets meet at the hook, but no test: place and text.
    missed: Vec<String>,
}

impl Tests {
    /// Writes the tests of a hook.
    ///
    /// # Errors
    /// A file cannot be written, or the tests cannot be run.
    pub fn write(
        dir: &Path,
        station: &Station,
        rules: &Loaded,
        asked: &Asked,
        cases: &[ToldCase<'_>],
        devices: &Devices,
    ) -> Result<Tests, String> {
        let name = station.name.replace(' ', "-");
        let mut wanted: Vec<RuleIndex> = cases.iter().flat_map(|case| case.rules.clone()).collect();
        let mut seen = HashSet::new();
        wanted.retain(|rule| seen.insert(*rule));
        let missed = |met: &HashSet<RuleIndex>| -> Vec<String> {
            let missed = wanted.iter().filter(|rule| !met.contains(rule));
            missed.map(|rule| rules.rule_text(*rule, devices)).collect()
        };
        let Source::File(rules_file) = &asked.rules else {
            return Err("Error: tests need a file of rules".to_owned());
        };
        let rules_file = relative(rules_file, dir)?;
        let supported = !matches!(station.place.family, Family::Bridge | Family::Arp);
        let tries = [(false, false), (true, false), (false, true), (true, true)];
        let tries = tries.map(|(swapped, to_host)| Try { swapped, to_host });
        let mut open: Vec<&ToldCase<'_>> = cases.iter().filter(|_| supported).collect();
        let mut chosen = Vec::new();
        let mut written = HashSet::new();
        for one in tries {
            let all: Vec<_> = open.iter().map(|case| (*case, one)).collect();
            let run = Draft::new(dir, &name, station, &all, devices).run(&rules_file, rules)?;
            written.extend(run.draft.files());
            let meets = |case: &ToldCase<'_>| {
                let met = run.met_by(case.number);
                met.is_some_and(|met| case.rules.iter().any(|rule| met.contains(rule)))
            };
            let (met, missed): (Vec<_>, Vec<_>) = open.into_iter().partition(|case| meets(case));
            chosen.extend(met.into_iter().map(|case| (case, one)));
            open = missed;
        }
        chosen.sort_by_key(|(case, _)| case.number);
        let run = Draft::new(dir, &name, station, &chosen, devices).run(&rules_file, rules)?;
        for file in written.difference(&run.draft.files()) {
            std::fs::remove_file(file).map_err(|e| format!("Error: {}: {e}", file.display()))?;
        }
        let met: HashSet<RuleIndex> = run.met.iter().flatten().copied().collect();
        if run.draft.tests.is_empty() {
            return Ok(Tests { file: None, count: 0, met: 0, missed: missed(&met) });
        }
        let file = run.write()?;
        let count = wanted.iter().filter(|rule| met.contains(rule)).count();
        let missed = missed(&met);
        Ok(Tests { file: Some(file), count: run.draft.tests.len(), met: count, missed })
    }

    /// What is printed of them.
    pub fn text(&self) -> String {
        let mut text = match &self.file {
            None => "\nNo test could be made of these packets.\n".to_owned(),
            Some(file) => format!(
                "\n{}: {} that {} {}\n",
                file.display(),
                counted(self.count, "test"),
                if self.count == 1 { "meets" } else { "meet" },
                counted(self.met, "rule"),
            ),
        };
        if self.file.is_some() && !self.missed.is_empty() {
            text.push_str("No test meets these, whose packets other hooks or states keep away:\n");
            for rule in &self.missed {
                let _ = writeln!(text, "    {rule}");
            }
        }
        text
    }

    /// The same for programs.
    pub fn json(&self) -> Json {
        json!({
            "file": self.file,
            "tests": self.count,
            "met": self.met,
            "missed": self.missed,
        })
    }
}

/// How a packet may come to its hook: what one way does not bring another one may.
#[derive(Clone, Copy, Debug)]
struct Try {
    /// With the addresses of the other network.
    swapped: bool,
    /// Where the destination may be the host, it is.
    to_host: bool,
}

/// Tests that are being made.
struct Draft {
    dir: PathBuf,
    name: String,
    host: Host,
    /// Packets by where they enter: a device, or `host`.
    captures: BTreeMap<String, Vec<Vec<u8>>>,
    /// Number of the packet, and text, of each test.
    tests: Vec<(usize, String)>,
}

impl Draft {
    /// Tests of packets.
    fn new(
        dir: &Path,
        name: &str,
        station: &Station,
        cases: &[(&ToldCase<'_>, Try)],
        devices: &Devices,
    ) -> Draft {
        let mut draft = Draft {
            dir: dir.to_owned(),
            name: name.to_owned(),
            host: Host::default(),
            captures: BTreeMap::new(),
            tests: Vec::new(),
        };
        for (case, one) in cases {
            draft.add(station, case, *one, devices);
        }
        draft
    }

    /// Adds the test of a packet, if the host can bring it to the hook.
    fn add(&mut self, station: &Station, case: &ToldCase<'_>, one: Try, devices: &Devices) {
        let Try { swapped, to_host } = one;
        let example = case.other.as_ref().filter(|_| swapped).unwrap_or(&case.example);
        let meta = &example.packet.meta;
        let name = |index: u32| {
            use penstock_lang::names::Names;
            (index != 0).then(|| {
                devices.interface_name(index).unwrap_or_else(|| example.interface_name(index))
            })
        };
        let (mut arrival, mut departure) = (name(meta.iif), name(meta.oif));
        if let Some(device) = &station.device {
            let side = match station.place.hook {
                Hook::Egress => &mut departure,
                _ => &mut arrival,
            };
            *side = Some(device.clone());
        }
        let Some(way) = way(station.place.hook, arrival, departure, to_host) else { return };
        let mut packet = own_addresses(example, Addresses { number: case.number, swapped });
        let Some((from, to)) = addresses(&packet) else { return };
        if !self.host.add(&way, from, to) {
            return;
        }
        fill_checksums(&mut packet);
        let (source, bytes) = match &way.from {
            None => ("host".to_owned(), packet),
            Some(device) => (device.clone(), frame(&packet, self.host.link_address(device))),
        };
        let capture = self.captures.entry(source.clone()).or_default();
        capture.push(bytes);
        let number = capture.len();
        let mut places: Vec<&str> =
            case.meets.iter().map(|rule| rule.split(": ").next().unwrap_or(rule)).collect();
        places.dedup();
        let mut text =
            format!("test {} {}: {}\n", station.name, case.number + 1, places.join(", "));
        for rule in &case.meets {
            let _ = writeln!(text, "  # {rule}");
        }
        let of = |field| example.value(field).map_or(0, |value| value[0]);
        let is = |info: CtInfo| u32::from(of(Field::CtState)) == info.state_bit();
        let is_reply = of(Field::Ct(CtKey::Direction, None)) == 1;
        text.push_str(match (is(CtInfo::Established), is(CtInfo::Related)) {
            (true, _) if is_reply => "  established reply\n",
            (true, _) => "  established\n",
            (_, true) => "  related\n",
            _ => "",
        });
        let file = capture_name(&self.name, &source);
        let _ = writeln!(text, "  frame {source}={file} {number}");
        self.tests.push((case.number, text));
    }

    /// The captures and the network.
    fn files(&self) -> HashSet<PathBuf> {
        let captures = self.captures.keys().map(|source| capture_name(&self.name, source));
        let net = (!self.tests.is_empty()).then(|| format!("{}.ip", self.name));
        captures.chain(net).map(|name| self.dir.join(name)).collect()
    }

    /// Writes captures and network.
    fn write(&self) -> Result<(), String> {
        for (source, packets) in &self.captures {
            let file = self.dir.join(capture_name(&self.name, source));
            let link = if source == "host" { LinkType::Raw } else { LinkType::Ethernet };
            let times = (0..).map(|number| number * STEP);
            write_capture(&file, link, times.zip(packets.iter().map(|packet| &packet[..])))?;
        }
        let file = self.dir.join(format!("{}.ip", self.name));
        std::fs::write(&file, self.host.lines())
            .map_err(|e| format!("Error: {}: {e}", file.display()))
    }

    /// Runs the tests: what comes out, and which rules they meet.
    fn run(self, rules_file: &str, rules: &Loaded) -> Result<Run, String> {
        let file = self.dir.join(format!("{}.test", self.name));
        if self.tests.is_empty() {
            return Ok(Run { draft: self, file, text: String::new(), met: Vec::new() });
        }
        self.write()?;
        let text = format!(
            "# Packets that together meet the rules of a hook, and what becomes of them.\n\
             net {}.ip\nrules {rules_file}\n\n{}",
            self.name,
            self.tests.iter().map(|(_, text)| &**text).collect::<Vec<_>>().join("\n")
        );
        let suite = Suite::read(&file, text, &Setup::default())?;
        let (text, met) = recorded(&suite, rules)?;
        Ok(Run { draft: self, file, text, met })
    }
}

/// Tests that were run.
struct Run {
    draft: Draft,
    file: PathBuf,
    /// The file's text, with what came out.
    text: String,
    /// Rules that each test met.
    met: Vec<HashSet<RuleIndex>>,
}

impl Run {
    /// Rules that the test of a packet met; `None` if there was no test of it.
    fn met_by(&self, number: usize) -> Option<&HashSet<RuleIndex>> {
        let at = self.draft.tests.iter().position(|(of, _)| *of == number)?;
        self.met.get(at)
    }

    /// Writes the file of tests; its name.
    fn write(&self) -> Result<PathBuf, String> {
        let file = &self.file;
        std::fs::write(file, &self.text).map_err(|e| format!("Error: {}: {e}", file.display()))?;
        Ok(file.clone())
    }
}

fn capture_name(hook: &str, source: &str) -> String {
    format!("{hook}-{}.pcap", source.replace('/', "_"))
}

/// The tests with what comes out as expectations, and the rules that each meets.
fn recorded(suite: &Suite, rules: &Loaded) -> Result<(String, Vec<HashSet<RuleIndex>>), String> {
    let net = Arc::new(suite.setup.network(&Captures::default())?);
    let names = NetNames::new(&net);
    let host = TestHost::load(suite, &net, &names)?;
    let image = &rules.linked.image;
    let by_name: std::collections::HashMap<_, RuleIndex> = (0..image.rules.len() as u32)
        .map(RuleIndex)
        .filter_map(|rule| {
            let (family, table, chain, handle) = image.place(rule)?;
            Some(((family, table.to_string(), chain.to_string(), handle), rule))
        })
        .collect();
    let mut tracer = host.tracer();
    let mut recorded = Recorded::new();
    let mut all = Vec::new();
    for test in &suite.tests {
        let mut met = HashSet::new();
        let mut told = Told::new(tracer);
        let mut note = |outcome: &Outcome| {
            for rule in &outcome.met {
                let chain = &rule.chain;
                let name = (chain.family, chain.table.clone(), chain.chain.clone(), rule.handle);
                met.extend(by_name.get(&name));
            }
        };
        for step in &test.steps {
            if matches!(step.action, Action::Frames { .. }) {
                recorded.insert(key(step.loc), Some(Vec::new()));
            }
        }
        let ran = host.run(test, &mut told, &mut |step, passed| {
            note(&passed.outcome);
            recorded.insert(key(step.loc), Some(fates(&passed.outcome)));
            true
        });
        match ran {
            // A packet that cannot be sent meets nothing.
            Ok(()) | Err(Failure::At(..)) => {}
            Err(Failure::Whole(message)) => return Err(message),
        }
        tracer = told.into_tracer();
        all.push(met);
    }
    Ok((written(suite, &recorded), all))
}

/// The name of a file as seen from a directory.
fn relative(file: &Path, dir: &Path) -> Result<String, String> {
    let whole =
        |path: &Path| path.canonicalize().map_err(|e| format!("Error: {}: {e}", path.display()));
    let (file, dir) = (whole(file)?, whole(dir)?);
    let same = file.components().zip(dir.components()).take_while(|(a, b)| a == b).count();
    let mut path = PathBuf::new();
    for _ in dir.components().skip(same) {
        path.push("..");
    }
    path.extend(file.components().skip(same));
    Ok(path.display().to_string())
}
