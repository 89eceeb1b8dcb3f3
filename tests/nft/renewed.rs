// SPDX-License-Identifier: Apache-2.0

//! Elements that are added again: whether the timeout and the time that is left are those that were
//! there, or those that were added. Linux does this since 6.12; an older kernel is not compared.

use std::path::PathBuf;

use crate::by_seed;
use crate::sides::{Said, Side};

/// Sets that are compared: their properties, without what they are of.
const SETS: [&str; 7] = [
    "",
    "flags timeout;",
    "flags timeout; timeout 3h;",
    "flags dynamic,timeout; size 9;",
    "flags dynamic,timeout; size 9; timeout 3h;",
    "flags timeout,interval;",
    "flags timeout,interval; timeout 3h;",
];

/// What an element is there with.
const THERE: [&str; 4] = ["", "timeout 1h", "timeout 1h expires 30m", "timeout 0s"];

/// What it is added with.
const ADDED: [&str; 9] = [
    "",
    "timeout 1h",
    "timeout 2h",
    "timeout 2h expires 10m",
    "expires 10m",
    "timeout 1h expires 1h",
    "timeout 0s",
    "timeout 3h",
    "timeout 3h expires 3h",
];

/// Commands on a set with the element `198.18.0.1 THERE`.
const COMMANDS: [&str; 9] = [
    // With NLM_F_EXCL.
    "create element ip t s { 198.18.0.1 timeout 2h }",
    // Refused as a whole: what was there comes back.
    "add element ip t s { 198.18.0.1 timeout 2h expires 10m }; add rule ip t none accept",
    "add element ip t s { 198.18.0.1 timeout 2h, 198.18.0.2 timeout 1h expires 2h }",
    // Once and once more.
    TWICE,
    "add element ip t s { 198.18.0.1 timeout 2h }; add element ip t s { 198.18.0.1 timeout 90m expires 20m }",
    // The set takes another timeout. Its elements keep theirs.
    "add set ip t s { type ipv4_addr; PROPERTIES timeout 5h; }",
    // With the removal of what is renewed.
    "add element ip t s { 198.18.0.1 timeout 2h }; delete element ip t s { 198.18.0.1 }",
    "delete element ip t s { 198.18.0.1 }; add element ip t s { 198.18.0.1 timeout 2h }",
    "add element ip t s { 198.18.0.2 timeout 2h }; add element ip t s { 198.18.0.2 timeout 2h expires 10m }",
];

/// One element twice in one command. Of a set of intervals, nft sends them in another order.
const TWICE: &str = "add element ip t s { 198.18.0.1 timeout 2h, 198.18.0.1 timeout 90m }";

/// A set, its first element, and what is done then.
struct Case {
    set: String,
    first: String,
    then: String,
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for properties in SETS {
        for there in THERE {
            for (of, data) in
                [("set s { type ipv4_addr;", ""), ("map s { type ipv4_addr : mark;", ": 5")]
            {
                let set = format!("table ip t {{ {of} {properties} }}; }}");
                let first = format!("add element ip t s {{ 198.18.0.1 {there} {data} }}");
                let mut add = |then: String| {
                    cases.push(Case { set: set.clone(), first: first.clone(), then });
                };
                for added in ADDED {
                    add(format!("add element ip t s {{ 198.18.0.1 {added} {data} }}"));
                }
                if data.is_empty() {
                    let sorted = properties.contains("interval");
                    let commands = COMMANDS.into_iter().filter(|c| !sorted || *c != TWICE);
                    let kept = properties.replace("timeout 3h;", "");
                    commands.for_each(|command| add(command.replace("PROPERTIES", &kept)));
                } else {
                    add("add element ip t s { 198.18.0.1 timeout 2h : 6 }".to_owned());
                }
            }
        }
    }
    cases
}

/// A listing with the times that are left in hours and minutes: the next full one.
fn rounded(listing: &str) -> String {
    let mut words = Vec::new();
    let mut expires = false;
    for word in listing.split_whitespace() {
        let end = word.trim_start_matches(|c: char| c.is_ascii_alphanumeric());
        words.push(match std::mem::replace(&mut expires, word == "expires") {
            true => format!("{}{end}", minutes(word)),
            false => word.to_owned(),
        });
    }
    // nft 1.0.6 has no words for it.
    words.join(" ").replace(" timeout never", "")
}

/// A duration as nft prints it, in minutes, rounded up.
fn minutes(text: &str) -> u64 {
    let mut milliseconds = 0;
    let mut rest = text;
    while let Some(end) = rest.find(|c: char| !c.is_ascii_digit()) {
        let (number, unit) = rest.split_at(end);
        let Ok(number) = number.parse::<u64>() else { break };
        let (unit, after) =
            unit.split_at(unit.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(unit.len()));
        milliseconds += number
            * match unit {
                "d" => 86_400_000,
                "h" => 3_600_000,
                "m" => 60_000,
                "s" => 1_000,
                _ => 1,
            };
        rest = after;
    }
    milliseconds.div_ceil(60_000)
}

impl Case {
    /// Runs it, and gives exit codes and errors of its commands, and what is there after it.
    fn run(&self, side: &Side) -> Vec<String> {
        side.clear();
        let commands = [&self.set, &self.first, &self.then];
        let said = commands.map(|command| side.run(&[command]));
        let list = if self.set.contains("map s") { "map" } else { "set" };
        let listing = side.run(&["list", list, "ip", "t", "s"]).stdout;
        side.clear();
        let told = |said: &Said| {
            format!("{:?} {}", said.code, said.stderr.lines().next().unwrap_or_default())
        };
        said.iter().map(told).chain([rounded(&listing)]).collect()
    }
}

/// Whether the kernel renews elements.
fn is_renewing() -> bool {
    let [set, first, then] = [
        "table ip t { set s { type ipv4_addr; flags timeout; }; }",
        "add element ip t s { 198.18.0.1 timeout 1h }",
        "add element ip t s { 198.18.0.1 timeout 2h }",
    ]
    .map(str::to_owned);
    Case { set, first, then }.run(&Side::Nft).iter().any(|text| text.contains("timeout 2h"))
}

/// Compares all; how many differ.
pub fn compare() -> usize {
    if !is_renewing() {
        println!("SKIPPED: elements that are added again: the kernel does not renew them");
        return 0;
    }
    let cases = cases();
    let differ = by_seed(0..cases.len() as u64, |n, differ: &mut usize| {
        let case = &cases[n as usize];
        let state: PathBuf =
            [env!("CARGO_TARGET_TMPDIR"), "nft", &format!("renewed{n}.state")].iter().collect();
        let (theirs, mine) = (case.run(&Side::Nft), case.run(&Side::Penstock(state)));
        if theirs != mine {
            *differ += 1;
            let Case { set, first, then } = case;
            println!(
                "DIFFERENT {set}; {first}; {then}\n    nft {theirs:#?}\n    penstock {mine:#?}"
            );
        }
    });
    let differ = differ.iter().sum();
    println!("nft: {} elements that are added again agree, {differ} differ", cases.len() - differ);
    differ
}
