// SPDX-License-Identifier: Apache-2.0

//! What the kernel under nft lacks, found by asking it: modules and options. Penstock has all of
//! them.

use crate::sides::{Said, Side};

const INPUT: &str = "type filter hook input priority 0;";
const PREROUTING: &str = "type filter hook prerouting priority 0;";
const INGRESS: &str = "type filter hook ingress device lo priority 0;";
const SOURCE_NAT: &str = "type nat hook postrouting priority 0;";
const DESTINATION_NAT: &str = "type nat hook prerouting priority 0;";

/// A family, a base chain, and a rule that a complete kernel takes there. Its first word is what
/// nft's error points at.
const PROBES: &[(&str, &str, &str)] = &[
    ("bridge", INPUT, "ct mark 1"),
    ("bridge", INPUT, "ibrname lo"),
    ("bridge", INPUT, "ibrpvid 1"),
    ("bridge", INPUT, "ibrvproto 8021q"),
    ("bridge", INPUT, "queue"),
    ("bridge", INPUT, "reject"),
    ("inet", DESTINATION_NAT, "redirect"),
    ("inet", INPUT, "fib daddr type local"),
    ("inet", INPUT, "ipsec in reqid 1"),
    ("inet", INPUT, "flow add @f"),
    ("inet", INPUT, "jhash ip saddr mod 2 0"),
    ("inet", INPUT, "log"),
    ("inet", INPUT, "numgen inc mod 2 0"),
    ("inet", INPUT, "queue"),
    ("inet", INPUT, "quota 1 bytes"),
    ("inet", INPUT, "reject"),
    ("inet", INPUT, "socket mark 1"),
    ("inet", INPUT, "symhash mod 2 0"),
    ("inet", INPUT, "synproxy mss 1460 wscale 7"),
    ("inet", SOURCE_NAT, "masquerade"),
    ("ip", DESTINATION_NAT, "dnat to 198.18.0.1"),
    ("ip", INPUT, "dup to 198.18.0.1"),
    ("ip", INPUT, "osf name \"Linux\""),
    ("ip", PREROUTING, "tproxy to :1"),
    ("ip", SOURCE_NAT, "snat to 198.18.0.1"),
    ("netdev", INGRESS, "dup to lo"),
    ("netdev", INGRESS, "fib daddr type local"),
    ("netdev", INGRESS, "fwd to lo"),
    ("netdev", INGRESS, "reject"),
];

/// What the kernel refused: in which family, the first word of the rule, and how.
pub struct Lacking(Vec<(&'static str, &'static str, String)>);

impl Lacking {
    /// Asks the kernel of the namespace that the calling thread is in.
    pub fn probe() -> Lacking {
        let mut lacking = Vec::new();
        for (family, chain, rule) in PROBES {
            let before = if rule.starts_with("tproxy") { "tcp dport 1 " } else { "" };
            let before = if rule.starts_with("ibr") { "meta " } else { before };
            let text =
                format!("table {family} probe {{\nchain c {{\n{chain}\n{before}{rule}\n}}\n}}");
            let said = Side::Nft.run(&["-c", &text]);
            if said.code == Some(0) {
                continue;
            }
            let word = rule.split(' ').next().unwrap_or(rule);
            let why = said.stderr.lines().next().unwrap_or_default();
            lacking.push((
                *family,
                word,
                why.split("Error: ").last().unwrap_or_default().to_owned(),
            ));
        }
        Lacking(lacking)
    }

    /// Whether nft said no to a command in a family because of this.
    pub fn explains(&self, family: &str, said: &Said) -> bool {
        let mut lines = said.stderr.lines();
        while let Some(line) = lines.next() {
            let Some((_, why)) = line.split_once("Error: ") else { continue };
            let (Some(text), Some(carets)) = (lines.next(), lines.next()) else { return false };
            let (Some(from), Some(to)) = (carets.find('^'), carets.rfind('^')) else {
                return false;
            };
            let blamed = text.get(from..=to).unwrap_or(text);
            // What a set's elements carry is blamed on them.
            let blamed = if text.contains(" ct count ") { text } else { blamed };
            if self.0.iter().any(|(f, word, how)| {
                (*f == family || *f == "inet") && how == why && blamed.contains(word)
            }) {
                return true;
            }
        }
        false
    }

    /// For people.
    pub fn describe(&self) -> String {
        self.0
            .iter()
            .map(|(family, word, _)| format!("{word} ({family})"))
            .collect::<Vec<_>>()
            .join(", ")
    }
}
