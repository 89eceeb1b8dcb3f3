// SPDX-License-Identifier: Apache-2.0

//! Programs that manage a host's firewall, in front of the dataplane: their rules, loaded by their
//! own commands, do and count the same as in the kernel of the same namespace.

mod docker;
mod firewalld;
mod kubernetes;
mod services;

use crate::net::Net;

const WHO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/live/who.py");

/// Where A, R and B answer.
const PORT: u16 = 7000;

/// The network, in which A, R and B answer; `None`, and said, if a program is missing.
fn network(programs: &[&str]) -> Option<Net> {
    let mut net = Net::new()?;
    if programs.iter().chain(&["python3"]).any(|program| !net.has(program)) {
        return None;
    }
    for name in ['a', 'r', 'b'] {
        net.spawn_in(name, &format!("python3 {WHO} serve {name} {PORT}"));
    }
    for (from, to) in [('b', "198.18.0.2"), ('a', "198.18.0.1"), ('a', "198.18.1.2")] {
        net.until("all answer", |net| ask(net, from, &format!("udp {to} {PORT}")) != "nobody");
    }
    Some(net)
}

/// Who answers a question of a host, and which address it sees.
fn ask(net: &Net, from: char, what: &str) -> String {
    let said = net.ok(net.namespace(from), &format!("python3 {WHO} ask {what}"));
    let words: Vec<_> = said.split([' ', ':']).collect();
    if words[0] == "nobody" { "nobody".to_owned() } else { words[..2].join(" ") }
}

/// Asks all questions: `HOST PROTOCOL ADDRESS PORT [FROM-PORT]`, and gives a line for each.
fn answers(net: &Net, questions: &[&str]) -> String {
    let one = |question: &&str| {
        let (from, what) = question.split_once(' ').unwrap();
        format!("{question}: {}\n", ask(net, from.chars().next().unwrap(), what))
    };
    questions.iter().map(one).collect()
}

/// Writes a script, and runs it on R under the given launcher. What it says on standard output.
fn script(net: &Net, exec: &str, text: &str) -> String {
    let file = net.directory.join("script");
    std::fs::write(&file, text).unwrap();
    net.ok(&net.r, &format!("{exec} sh -e {}", file.display()))
}

/// What iptables-nft-save says with counters, without the date.
fn saved(net: &Net, exec: &str) -> String {
    let said = net.ok(&net.r, &format!("{exec} iptables-nft-save -c"));
    said.lines().filter(|line| !line.starts_with('#')).map(|line| format!("{line}\n")).collect()
}

/// That all parts are in what was said.
fn has_all(said: &str, parts: &[&str]) {
    for part in parts {
        assert!(said.contains(part), "{part}: {said}");
    }
}

/// Runs a scenario on the kernel of R, and then on the dataplane: what it says must be the same, and
/// is returned. The scenario gets what its commands are run by.
fn same_on_both(net: &mut Net, scenario: impl Fn(&Net, &str) -> String) -> String {
    let kernels = scenario(net, "");
    net.ok(&net.r, "nft flush ruleset; ! command -v ipset >/dev/null || ipset destroy");
    net.up("r0 r1");
    let ours = scenario(net, "$PENSTOCK exec --");
    assert_eq!(ours, kernels, "the dataplane and the kernel differ");
    assert_eq!(net.ok(&net.r, "nft list ruleset"), "", "the kernel's ruleset was changed");
    net.down();
    ours
}
