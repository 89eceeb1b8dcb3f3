// SPDX-License-Identifier: Apache-2.0

//! What engines observe, and its form in a test file.

use std::net::{Ipv4Addr, Ipv6Addr};

use penstock_wire::protocol;

use crate::compare::without_chance;
use crate::format::{Kind, Test, declared_chain};

/// What an engine saw of a test.
#[derive(Debug, Default, PartialEq)]
pub struct Observed {
    /// Chain and program of each rule, in the order of the chains' rules.
    pub programs: Vec<(String, Vec<String>)>,
    /// What came of each packet.
    pub results: Vec<Vec<String>>,
    /// `nft list ruleset` afterwards.
    pub listing: String,
    /// What nft says where it refuses the ruleset.
    pub refusal: String,
}

/// A frame that a device sent, or a packet that was delivered to the host.
#[derive(Clone, Debug, PartialEq)]
pub struct Out {
    /// The device, or `host`.
    pub to: String,
    /// From the link header on; for the host from the network header on.
    pub bytes: Vec<u8>,
}

/// The result of a packet, compared with its result without the ruleset.
pub fn result(without: &[Out], with: &[Out]) -> Vec<String> {
    let comparable = |outs: &[Out]| -> Vec<Out> {
        let link = |o: &Out| if o.to == "host" { 0 } else { 14 };
        let comparable =
            |o: &Out| Out { to: o.to.clone(), bytes: without_chance(&o.bytes, link(o)) };
        outs.iter().map(comparable).collect()
    };
    let (without, with) = (&comparable(without), &comparable(with));
    let same_places =
        with.len() == without.len() && with.iter().zip(without).all(|(a, b)| a.to == b.to);
    match (without.is_empty(), with.is_empty()) {
        (true, true) => return vec!["nothing".into()],
        (false, true) => return vec!["drop".into()],
        _ => {}
    }
    if same_places && with.iter().zip(without).all(|(a, b)| a.bytes.len() == b.bytes.len()) {
        let mut lines = vec![];
        for (a, b) in with.iter().zip(without) {
            let changes = changes(&b.bytes, &a.bytes);
            lines.push(if changes.is_empty() { "pass".into() } else { format!("pass, {changes}") });
        }
        lines.dedup();
        return lines;
    }
    let mut extra: Vec<_> = with.to_vec();
    let mut passed = !without.is_empty();
    for out in without {
        match extra.iter().position(|o| o == out) {
            Some(at) => drop(extra.remove(at)),
            None => passed = false,
        }
    }
    let mut lines = vec![if passed { "pass" } else { "drop" }.to_string()];
    lines.extend(extra.iter().map(|o| format!("{}: {}", o.to, describe(o))));
    lines
}

/// `36: 0035 -> 0900`, offsets in decimal, runs that are at most two equal bytes apart in one.
fn changes(before: &[u8], after: &[u8]) -> String {
    let mut runs: Vec<(usize, usize)> = vec![];
    for (i, _) in before.iter().zip(after).enumerate().filter(|(_, (a, b))| a != b) {
        match runs.last_mut() {
            Some((_, end)) if i <= *end + 2 => *end = i + 1,
            _ => runs.push((i, i + 1)),
        }
    }
    let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    let runs =
        runs.iter().map(|&(a, b)| format!("{a}: {} -> {}", hex(&before[a..b]), hex(&after[a..b])));
    runs.collect::<Vec<_>>().join(", ")
}

/// A frame in a few words.
fn describe(out: &Out) -> String {
    let (mut text, mut at, mut ethertype) = (String::new(), 0, 0);
    let word =
        |at: usize| out.bytes.get(at..at + 2).map_or(0, |b| u16::from_be_bytes([b[0], b[1]]));
    if out.to == "host" {
        ethertype = if out.bytes.first().is_some_and(|b| b >> 4 == 6) { 0x86dd } else { 0x0800 };
    } else if let Some(link) = out.bytes.get(..14) {
        let mac = |b: &[u8]| b.iter().map(|b| format!("{b:02x}")).collect::<Vec<_>>().join(":");
        text.push_str(&format!("ether {} > {} / ", mac(&link[6..12]), mac(&link[..6])));
        (at, ethertype) = (14, word(12));
        while matches!(ethertype, 0x8100 | 0x88a8) {
            text.push_str(&format!("vlan {} / ", word(at) & 0xfff));
            (at, ethertype) = (at + 4, word(at + 2));
        }
    }
    let ip = out.bytes.get(at..).unwrap_or_default();
    let (protocol, transport) = match (ethertype, ip) {
        (0x0800, ip) if ip.len() >= 20 => {
            let address = |at: usize| Ipv4Addr::new(ip[at], ip[at + 1], ip[at + 2], ip[at + 3]);
            text.push_str(&format!("ip {} > {} ttl {}", address(12), address(16), ip[8]));
            (ip[9], usize::from(ip[0] & 15) * 4)
        }
        (0x86dd, ip) if ip.len() >= 40 => {
            let address = |at: usize| {
                let mut octets = [0; 16];
                octets.copy_from_slice(&ip[at..at + 16]);
                Ipv6Addr::from(octets)
            };
            text.push_str(&format!("ip6 {} > {} ttl {}", address(8), address(24), ip[7]));
            (ip[6], 40)
        }
        _ => {
            text.push_str(&format!("type {ethertype:#06x}"));
            (255, ip.len())
        }
    };
    let t = ip.get(transport..).unwrap_or_default();
    match (protocol, t) {
        (protocol::ICMP, [kind, code, ..]) => text.push_str(&format!(" / icmp {kind} {code}")),
        (protocol::ICMPV6, [kind, code, ..]) => text.push_str(&format!(" / icmp6 {kind} {code}")),
        (protocol::UDP, [a, b, c, d, ..]) => {
            text.push_str(&format!(
                " / udp {} > {}",
                u16::from_be_bytes([*a, *b]),
                u16::from_be_bytes([*c, *d])
            ));
        }
        (protocol::TCP, t) if t.len() >= 20 => text.push_str(&format!(
            " / tcp {} > {} flags {:#x}",
            u16::from_be_bytes([t[0], t[1]]),
            u16::from_be_bytes([t[2], t[3]]),
            t[13]
        )),
        _ => {}
    }
    format!("{text}, {} bytes", out.bytes.len())
}

impl Observed {
    /// What a file should say: for each item of the test, the lines below it.
    pub fn expectations(&self, test: &Test) -> Vec<Vec<String>> {
        let program = |chain: &str, nth: usize| {
            self.programs.iter().filter(|(c, _)| c == chain).nth(nth).map(|(_, p)| p.clone())
        };
        let (mut rule, mut packet) = (0, 0);
        test.items
            .iter()
            .map(|item| match &item.kind {
                Kind::Other => vec![],
                Kind::With(declaration) => {
                    let chain = declared_chain(declaration).unwrap_or_default();
                    let programs = (0..).map_while(|n| program(chain, n)).collect::<Vec<_>>();
                    programs.join(&"--".to_string())
                }
                Kind::Rule(_) => {
                    rule += 1;
                    program("c", rule - 1).unwrap_or_default()
                }
                Kind::Packet(_) => {
                    packet += 1;
                    self.results.get(packet - 1).cloned().unwrap_or_default()
                }
                Kind::Counters => counters(&self.listing),
                Kind::Refused => refusal(&self.refusal),
            })
            .collect()
    }
}

/// Messages with their lines and columns, without the file's name, the text and the marks.
fn refusal(text: &str) -> Vec<String> {
    let message = |line: &str| {
        let (place, message) = line.split_once(" Error: ")?;
        let place = place.rsplit_once(char::is_whitespace).map_or(place, |(_, place)| place);
        let (_, place) = place.split_once(':')?;
        Some(format!("{place} {message}"))
    };
    text.lines().filter_map(message).collect()
}

/// What a listing of table `t` counts: in rules by chain and number, in objects and elements by
/// name.
fn counters(listing: &str) -> Vec<String> {
    let mut found = vec![];
    let (mut inside, mut block, mut rule) = (false, String::new(), 0);
    for line in listing.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match (words.as_slice(), line.len() - line.trim_start().len()) {
            (["table", _, name, "{"], 0) => inside = *name == "t",
            ([kind, name, "{"], 1) => (block, rule) = (format!("{kind} {name}"), 0),
            (
                ["type" | "policy" | "flags" | "comment" | "size" | "timeout" | "typeof", ..]
                | ["}"]
                | [],
                _,
            ) => {}
            (words, _) if inside => {
                rule += 1;
                match block.split_once(' ') {
                    Some(("chain", chain)) => {
                        found.extend(
                            counts(words).into_iter().map(|(_, n)| format!("{chain} {rule}: {n}")),
                        );
                    }
                    Some((_, name)) => {
                        for (key, n) in counts(words) {
                            found.push(if key.is_empty() {
                                format!("{name}: {n}")
                            } else {
                                format!("{name} {key}: {n}")
                            });
                        }
                    }
                    None => {}
                }
            }
            _ => {}
        }
    }
    found
}

/// Counts in a line, and the element that each belongs to, if it is a line of elements.
fn counts(words: &[&str]) -> Vec<(String, String)> {
    let mut found = vec![];
    for (i, window) in words.windows(2).enumerate() {
        let count = match (window, words.get(i + 2..i + 4)) {
            (["packets", packets], Some(["bytes", bytes])) => {
                format!("packets {packets} bytes {}", bytes.trim_end_matches(','))
            }
            (["used", n], Some([unit, ..])) => format!("used {n} {}", unit.trim_end_matches(',')),
            _ => continue,
        };
        let before = &words[..i];
        let start =
            before.iter().rposition(|w| w.ends_with(',') || *w == "{").map_or(0, |at| at + 1);
        let key =
            before[start..].iter().take_while(|w| !matches!(**w, "counter" | "quota")).copied();
        found.push((key.collect::<Vec<_>>().join(" "), count));
    }
    found
}

/// Anonymous sets without their numbers, as nft names them before they are committed.
pub fn without_numbers(expr: &str) -> String {
    expr.replace(" -> __chain", " \0")
        .split(' ')
        .filter(|word| !word.starts_with('\0'))
        .map(|word| {
            for prefix in ["__set", "__map", "__objmap"] {
                if word
                    .strip_prefix(prefix)
                    .is_some_and(|n| n.starts_with(|c: char| c.is_ascii_digit()))
                {
                    return format!("{prefix}%d");
                }
            }
            word.to_string()
        })
        .collect::<Vec<_>>()
        .join(" ")
}
