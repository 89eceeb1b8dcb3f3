// SPDX-License-Identifier: Apache-2.0

//! Rules of iptables and ip6tables, with extensions of x_tables: the same commands add them to the
//! kernel's ruleset and, under `penstock exec`, to a state file that `penstock run` reads.

pub mod bridges;
mod frames;
mod headers;
pub mod ip_sets;
pub mod ipv6;
mod lines;
pub mod ports;

use std::process::{Command, Stdio};

use fastrand::Rng;

use crate::frame::{Frame, ethernet};
use crate::net::{CLIENT, LAN, NET, zoo};
use crate::penstock;
use crate::scenario::Scenario;

/// Whether the programs are there.
fn available() -> bool {
    program_is_there("iptables-nft-restore") && program_is_there("ip6tables-nft-restore")
}

fn program_is_there(program: &str) -> bool {
    let version = Command::new(program).arg("-V").stdout(Stdio::null()).status();
    let there = version.is_ok_and(|status| status.success());
    if !there {
        println!("SKIPPED: extensions of x_tables: there is no {program}");
    }
    there
}

/// Whether a program that answers no option is there.
fn is_installed(program: &str) -> bool {
    let mut found = Command::new("sh");
    let there = found
        .args(["-c", &format!("command -v {program}")])
        .stdout(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !there {
        println!("SKIPPED: objects that extensions of x_tables name: there is no {program}");
    }
    there
}

/// Rules of one family: table, chain and rule.
type Rules<'a> = Vec<(&'a str, &'a str, &'a str)>;

/// The command that adds rules.
fn restore(v6: bool, rules: &Rules<'_>) -> String {
    if rules.is_empty() {
        return String::new();
    }
    let program = if v6 { "ip6tables-nft-restore" } else { "iptables-nft-restore" };
    let mut text = format!("{program} <<'END'\n");
    for (i, (table, chain, rule)) in rules.iter().enumerate() {
        if i == 0 || rules[i - 1].0 != *table {
            let commit = if i == 0 { "" } else { "COMMIT\n" };
            text += &format!("{commit}*{table}\n");
        }
        text += &format!("-A {chain} {rule}\n");
    }
    text + "COMMIT\nEND\n"
}

fn forwarded<'a>(texts: &[&'a str]) -> Rules<'a> {
    let lines = texts.iter().flat_map(|text| text.lines()).filter(|line| !line.is_empty());
    lines.map(|line| ("filter", "FORWARD", line)).collect()
}

fn scenario(name: &str, v4: &Rules<'_>, v6: &Rules<'_>, frames: usize, seed: u64) -> Scenario {
    let mut rng = Rng::with_seed(seed);
    let commands = restore(false, v4) + &restore(true, v6);
    let mut scenario = Scenario::new(name, NET, "").commands(&commands).at_once();
    for _ in 0..frames {
        let v6 = if v4.is_empty() || v6.is_empty() { v4.is_empty() } else { rng.bool() };
        let (device, frame) = frames::frame(&mut rng, v6);
        scenario = scenario.frame(device, &frame);
    }
    scenario
}

fn is_dccp(frame: &Frame) -> bool {
    frame.bytes().get(23) == Some(&33)
}

/// Each line by itself and with frames of all kinds, so that a difference names its extension.
pub fn all() -> Vec<Scenario> {
    if !available() {
        return vec![];
    }
    let mut all = vec![];
    let mut add = |v4: &Rules<'_>, v6: &Rules<'_>| {
        let seed = all.len() as u64;
        let (_, _, rule) = v4.first().or(v6.first()).expect("a rule");
        let words = rule.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
        let family = match (v4.is_empty(), v6.is_empty()) {
            (false, false) => "",
            (false, true) => "4",
            _ => "6",
        };
        let mut s = scenario(&format!("extension{family}_{seed:03}_{words}"), v4, v6, 60, seed);
        // Linux 6.17 gave up tracking DCCP.
        for frame in zoo().iter().filter(|frame| !is_dccp(frame)) {
            s = s.frame("lan", frame);
        }
        all.push(s);
    };
    for text in [lines::BOTH, lines::CONNECTIONS, lines::COUNTED] {
        forwarded(&[text]).chunks(1).for_each(|rule| add(&rule.to_vec(), &rule.to_vec()));
    }
    forwarded(&[lines::IPV4]).chunks(1).for_each(|rule| add(&rule.to_vec(), &vec![]));
    forwarded(&[lines::IPV6]).chunks(1).for_each(|rule| add(&vec![], &rule.to_vec()));
    for rule in lines::HASH_MARKS {
        let counted = lines::MARKS.iter().map(|mark| ("filter", "FORWARD", *mark));
        let rules: Rules<'_> =
            [("mangle", "PREROUTING", *rule)].into_iter().chain(counted).collect();
        add(&rules, &rules);
    }
    lines::CHANGES.chunks(1).for_each(|rule| add(&rule.to_vec(), &rule.to_vec()));
    lines::CHANGES4.chunks(1).for_each(|rule| add(&rule.to_vec(), &vec![]));
    lines::CHANGES6.chunks(1).for_each(|rule| add(&vec![], &rule.to_vec()));
    lines::TOGETHER.iter().for_each(|rules| add(&rules.to_vec(), &rules.to_vec()));
    for (chain, rule) in lines::NAT4 {
        add(&vec![("nat", chain, rule)], &vec![]);
    }
    for (chain, rule) in lines::NAT6 {
        add(&vec![], &vec![("nat", chain, rule)]);
    }
    forwarded(&[lines::ROUTES6]).chunks(1).for_each(|rule| add(&vec![], &rule.to_vec()));
    lines::LOCAL.chunks(1).for_each(|rule| add(&rule.to_vec(), &rule.to_vec()));
    forwarded(&[lines::TRANSLATED]).chunks(1).for_each(|rule| add(&rule.to_vec(), &rule.to_vec()));
    for rule in lines::SHIFTED4 {
        add(&vec![("nat", "PREROUTING", rule)], &vec![]);
    }
    add(&vec![], &vec![("nat", "PREROUTING", lines::SHIFTED6)]);
    lines::ASKED.chunks(1).for_each(|rule| add(&rule.to_vec(), &rule.to_vec()));
    for rule in lines::COPIES4 {
        add(&vec![("mangle", "FORWARD", rule)], &vec![]);
    }
    for rule in lines::COPIES6 {
        add(&vec![], &vec![("mangle", "FORWARD", rule)]);
    }
    all.extend(named());
    all.push(chunks());
    all.extend(headers::all());
    all
}

/// Chunks of SCTP: whole, cut, without a length, with flags, and none.
fn chunks() -> Scenario {
    const CHUNKS: [&[u8]; 14] = [
        &[0, 3, 0, 4],
        &[0, 0, 0, 4],
        &[0, 2, 0, 6, 1, 2, 0, 0, 3, 0, 0, 4],
        &[0, 2, 0, 6, 1, 2, 0, 0, 1, 0, 0, 4],
        &[0, 1, 0, 4, 10, 0, 0, 4],
        &[3, 0, 0, 4, 0, 3, 0, 5, 1, 0, 0, 0],
        &[6, 1, 0, 4, 0, 0, 0, 4],
        &[6, 0, 0, 4, 0, 0, 0, 4],
        &[14, 0, 0, 4],
        &[14, 1, 0, 4],
        &[0, 0, 0, 0],
        &[0, 0, 0, 40],
        &[200, 0, 0, 6, 0, 0],
        &[],
    ];
    let rules = forwarded(&[lines::CHUNKS]);
    let mut scenario = scenario("chunks_of_sctp", &rules, &rules, 0, 1);
    let header = [40000u16.to_be_bytes(), 80u16.to_be_bytes()].concat();
    for chunks in CHUNKS {
        let body = [&header[..], &[0; 8], chunks].concat();
        let v4 = ethernet(LAN, CLIENT).ip4("198.18.0.10", "198.19.0.2").transport(132, &body);
        let v6 = ethernet(LAN, CLIENT).ip6("2001:db8:1::10", "2001:db8:2::2");
        scenario = scenario.frame("lan", &v4).frame("lan", &v6.transport(132, &body));
    }
    scenario
}

/// Rules that name objects which other programs make.
fn named() -> Vec<Scenario> {
    let mut all = vec![];
    let mut add = |program: &str, commands: &str, v4: Rules<'_>, v6: Rules<'_>| {
        if is_installed(program) {
            let mut scenario = scenario(&format!("named_{program}"), &v4, &v6, 120, 1);
            scenario.commands.insert_str(0, commands);
            all.push(scenario);
        }
    };
    let (commands, text) = lines::ACCOUNTS;
    add("nfacct", commands, forwarded(&[text]), forwarded(&[text]));
    let (commands, text) = lines::TIMEOUTS;
    let raw = forwarded(&[text]).into_iter().map(|(_, _, rule)| ("raw", "PREROUTING", rule));
    add("nfct", commands, raw.collect(), vec![]);
    all
}

/// The same lines, as far as `penstock translate` takes them, and those of its own: the kernel gets
/// them by iptables, the program by nft. Rules that become two of nft are left to their own tests. Only
/// those are made whose names have all of the words: each translation runs the program.
pub fn translated(all: Vec<Scenario>, random: u64, seed: u64, words: &[String]) -> Vec<Scenario> {
    let is_wanted = |name: &str| words.iter().all(|word| name.contains(word.as_str()));
    if all.is_empty() {
        return vec![];
    }
    let renamed =
        |s: Scenario| Scenario { name: format!("translated_{}", s.name), translated: true, ..s };
    let mut fit: Vec<Scenario> = all
        .into_iter()
        .filter(|s| is_alike(&s.commands))
        .map(renamed)
        .filter(|s| is_wanted(&s.name) && penstock::translated(s).is_ok())
        .collect();
    let name = |seed| format!("random_translated_{seed}");
    let seeds: Vec<u64> = (seed..seed + random).filter(|&seed| is_wanted(&name(seed))).collect();
    if seeds.is_empty() {
        return fit;
    }
    let lines4 = fitting(&[lines::BOTH, lines::CONNECTIONS, lines::IPV4, lines::TRANSLATED], false);
    let lines6 = fitting(&[lines::BOTH, lines::CONNECTIONS, lines::IPV6, lines::TRANSLATED], true);
    for seed in seeds {
        let mut rng = Rng::with_seed(seed);
        let [v4, v6] = [&lines4, &lines6].map(|all| chosen(&mut rng, &[all]));
        let s = scenario(&name(seed), &in_tables(&v4), &in_tables(&v6), 60, seed);
        fit.push(Scenario { translated: true, ..s });
    }
    fit
}

/// Whether each rule becomes one, and is alike for all packets: that nft finds no options in cut ones,
/// and adds none, is known.
fn is_alike(commands: &str) -> bool {
    let otherwise = ["--ports", ",SNAT", "! --ctstate DNAT", "--tcp-option", "TCPMSS", "! --tos"];
    !otherwise.iter().any(|words| commands.contains(words))
}

/// The lines that are translated.
fn fitting(texts: &[&str], v6: bool) -> String {
    let fits = |line: &str| {
        let rules = forwarded(&[line]);
        let scenario = Scenario::new("", NET, "").commands(&restore(v6, &rules));
        // What they remember has one name for several rules.
        !line.contains("hashlimit") && is_alike(line) && penstock::translated(&scenario).is_ok()
    };
    let lines = texts.iter().flat_map(|text| text.lines());
    lines.filter(|l| !l.is_empty() && fits(l)).map(|l| format!("{l}\n")).collect()
}

/// Lines by chance, of which some accept, drop or mark, so that they depend on each other.
fn chosen(rng: &mut Rng, texts: &[&str]) -> Vec<String> {
    let all = forwarded(texts);
    let ends = ["", "", "", " -j ACCEPT", " -j DROP", " -j MARK --set-mark 7"];
    let mut line = || all[rng.usize(..all.len())].2.to_owned() + ends[rng.usize(..ends.len())];
    let mut lines: Vec<String> = (0..20).map(|_| line()).collect();
    lines.sort_by_key(|line| !marks(line));
    lines
}

fn marks(line: &str) -> bool {
    line.contains("-j MARK")
}

fn in_tables(lines: &[String]) -> Rules<'_> {
    let table = |line: &str| if marks(line) { "mangle" } else { "filter" };
    lines.iter().map(|line| (table(line), "FORWARD", line.as_str())).collect()
}

/// Many lines at once.
pub fn random(seed: u64, count: u64) -> Vec<Scenario> {
    if count == 0 || !available() {
        return vec![];
    }
    let one = |seed| {
        let mut rng = Rng::with_seed(seed);
        let v4 = chosen(&mut rng, &[lines::BOTH, lines::CONNECTIONS, lines::IPV4]);
        let v6 = chosen(&mut rng, &[lines::BOTH, lines::CONNECTIONS, lines::IPV6]);
        scenario(&format!("random_extensions_{seed}"), &in_tables(&v4), &in_tables(&v6), 60, seed)
    };
    (seed..seed + count).map(one).collect()
}
