// SPDX-License-Identifier: Apache-2.0

//! What iptables-save prints: tables, their chains and rules.

use crate::Family;
use crate::words::{Word, words};

/// A table.
pub struct Table {
    pub family: Family,
    pub name: String,
    pub chains: Vec<Chain>,
}

/// A chain.
pub struct Chain {
    pub name: String,
    /// Of a chain of a hook.
    pub policy: Option<String>,
    pub rules: Vec<Line>,
}

/// A rule.
pub struct Line {
    pub file: String,
    pub number: usize,
    pub text: String,
    /// Packets and bytes.
    pub counted: (u64, u64),
    /// Without counters, `-A` and the chain.
    pub words: Vec<Word>,
}

/// Whether a word begins a table: `*filter`.
pub fn is_table(word: &str) -> bool {
    word.strip_prefix('*').is_some_and(|name| {
        ["filter", "nat", "mangle", "raw", "security", "broute"].contains(&name)
    })
}

/// Reads a file. `family` is that of its rules if nothing in it tells.
pub fn read(file: &str, text: &str, family: Option<Family>) -> Result<Vec<Table>, String> {
    let family = family_of(text).or(family).unwrap_or(Family::Ip4);
    let mut tables: Vec<Table> = Vec::new();
    let mut open = false;
    for (line, number) in text.lines().zip(1..) {
        let wrong = |what: &str| format!("{file}:{number}: Error: {what}\n{line}");
        let trimmed = line.trim();
        let table = tables.last_mut().filter(|_| open);
        match (trimmed.chars().next(), table) {
            (None | Some('#'), _) => {}
            (Some('*'), None) if is_table(trimmed) && trimmed != "*broute" => {
                let name = trimmed[1..].to_owned();
                tables.push(Table { family, name, chains: Vec::new() });
                open = true;
            }
            (Some('*'), Some(_)) => return Err(wrong("the table before has no COMMIT")),
            (Some('*'), None) => return Err(wrong("there is no such table")),
            (Some(_), None) => return Err(wrong("this is outside of a table")),
            (Some(':'), Some(table)) => {
                let mut words = trimmed[1..].split_whitespace();
                let (Some(name), Some(policy)) = (words.next(), words.next()) else {
                    return Err(wrong("a chain has a name and a policy"));
                };
                let policy = Some(policy.to_owned()).filter(|policy| policy != "-");
                table.chain(name).policy = policy;
            }
            (Some(_), Some(_)) if trimmed == "COMMIT" => open = false,
            (Some(_), Some(table)) => {
                let rule = rule(file, number, trimmed).map_err(wrong)?;
                let (chain, line) = rule;
                table.chain(&chain).rules.push(line);
            }
        }
    }
    match open {
        false => Ok(tables),
        true => Err(format!(
            "{file}:{}: Error: the file ends before the COMMIT of its last table",
            text.lines().count()
        )),
    }
}

/// Reads `[PACKETS:BYTES] -A CHAIN …`.
fn rule(file: &str, number: usize, line: &str) -> Result<(String, Line), &'static str> {
    let mut all = words(line).ok_or("a quote is not closed")?;
    let counted = |word: &Word| {
        let (packets, bytes) = word.text.strip_prefix('[')?.strip_suffix(']')?.split_once(':')?;
        Some((packets.parse().ok()?, bytes.parse().ok()?))
    };
    let mut counters = (0, 0);
    if let Some(first) = all.first().and_then(counted) {
        counters = first;
        all.remove(0);
    }
    let mut rest = all.into_iter();
    match (rest.next(), rest.next()) {
        (Some(add), Some(chain)) if matches!(&*add.text, "-A" | "--append") => {
            let (file, text) = (file.to_owned(), line.to_owned());
            let words = rest.collect();
            Ok((chain.text, Line { file, number, text, counted: counters, words }))
        }
        _ => Err("a line of a table is `:CHAIN POLICY`, `-A CHAIN …` or `COMMIT`"),
    }
}

/// The family, if the file tells.
fn family_of(text: &str) -> Option<Family> {
    for line in text.lines() {
        let Some(comment) = line.strip_prefix('#') else { continue };
        if comment.contains("ip6tables") {
            return Some(Family::Ip6);
        }
        if comment.contains("iptables") {
            return Some(Family::Ip4);
        }
    }
    let rules = || text.lines().filter(|line| line.contains("-A ")).flat_map(str::split_whitespace);
    let is6 = |word: &str| {
        ["icmp6", "ipv6-icmp", "icmpv6", "--icmpv6-type", "hl"].contains(&word)
            || word.contains(':')
                && address_of(word).is_some_and(|a| a.parse::<std::net::Ipv6Addr>().is_ok())
    };
    let is4 = |word: &str| {
        ["icmp", "--icmp-type"].contains(&word)
            || address_of(word).is_some_and(|a| a.parse::<std::net::Ipv4Addr>().is_ok())
    };
    match (rules().any(is4), rules().any(is6)) {
        (true, false) => Some(Family::Ip4),
        (false, true) => Some(Family::Ip6),
        _ => None,
    }
}

/// The address of `ADDRESS/LENGTH`.
fn address_of(word: &str) -> Option<&str> {
    word.split('/').next()
}

impl Table {
    /// The chain of a name, which is made if need be.
    fn chain(&mut self, name: &str) -> &mut Chain {
        let at = self.chains.iter().position(|chain| chain.name == name).unwrap_or_else(|| {
            let (policy, rules) = (None, Vec::new());
            self.chains.push(Chain { name: name.to_owned(), policy, rules });
            self.chains.len() - 1
        });
        &mut self.chains[at]
    }
}
