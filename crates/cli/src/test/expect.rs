// SPDX-License-Identifier: Apache-2.0

//! What a test expects of a packet, and whether it came true.

use std::fmt;

use penstock_dataplane::DropReason;
use penstock_lang::names::Names;
use penstock_print::rules::{Written, WrittenRules};
use penstock_program::expr::{Counter, Expr};
use penstock_ruleset::model::ObjectValue;
use penstock_ruleset::{Family, Generation};

use super::line::{Line, Word, Wrong};
use crate::trace::fields::Fields;
use crate::trace::outcome::{Fate, Outcome};

/// What a test expects of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expectation {
    /// It leaves, or comes to the host.
    Accept,
    /// It ends, for a reason if one is given.
    Drop(Option<&'static str>),
    /// A frame leaves by a device, with these fields.
    Out { device: String, fields: Option<String> },
    /// A packet comes to the host, with these fields.
    Host { fields: Option<String> },
    /// A rule decides.
    Rule(RuleName),
    /// A rule matches, whether it decides or not.
    Meets(RuleName),
    /// No rule matches that is called so.
    Misses(RuleName),
    /// The policy of a chain decides.
    Policy { family: Family, table: String, chain: String },
    /// `meta mark` of what leaves or comes to the host.
    Mark(u32),
    /// What a counter has counted since the test began.
    Counter { counter: CounterName, packets: u64, bytes: Option<u64> },
}

/// How tests name rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleName {
    /// The last part of the name of its file, and its line.
    Line { file: String, line: u32 },
    /// A part of its text, without the numbers of counters.
    Text(String),
}

/// How tests name counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CounterName {
    /// That of a rule.
    Rule(RuleName),
    /// A named one.
    Named { family: Family, table: String, name: String },
}

impl RuleName {
    /// `FILE:LINE`, or a part of the text in double quotes.
    fn read(line: &mut Line<'_>) -> Result<Self, Wrong> {
        let mut rest = *line;
        let word =
            line.word().ok_or_else(|| Wrong::missing(line, "a rule, FILE:LINE or \"TEXT\","))?;
        if word.text.starts_with('"') {
            let Word { text, at } = rest.rest().unwrap_or(word);
            let end = text[1..].rfind('"').filter(|end| *end > 0);
            let end =
                end.ok_or_else(|| Wrong::at(word, "the text of a rule ends with a double quote"))?;
            let end = end + 2;
            line.skip_to(at + end);
            return Ok(RuleName::Text(text[1..end - 1].to_owned()));
        }
        let split = word.text.rsplit_once(':').and_then(|(f, l)| Some((f, l.parse().ok()?)));
        match split {
            Some((file, line)) if !file.is_empty() => {
                Ok(RuleName::Line { file: file.to_owned(), line })
            }
            _ => {
                Err(Wrong::at(word, "a rule is FILE:LINE, or a part of its text in double quotes"))
            }
        }
    }

    /// Whether a rule is called so.
    pub fn is(&self, rule: &Written) -> bool {
        match (self, &rule.origin) {
            (RuleName::Text(text), _) => rule.shown().contains(text.as_str()),
            (RuleName::Line { file, line }, Some(origin)) => {
                origin.line == *line
                    && origin.file.strip_suffix(file.as_str()).is_some_and(|before| {
                        before.is_empty() || before.ends_with('/') || file.starts_with('/')
                    })
            }
            (RuleName::Line { .. }, None) => false,
        }
    }
}

impl fmt::Display for RuleName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RuleName::Line { file, line } => write!(f, "{file}:{line}"),
            RuleName::Text(text) => write!(f, "\"{text}\""),
        }
    }
}

fn number<T: std::str::FromStr>(line: &mut Line<'_>, what: &str) -> Result<T, Wrong> {
    let word = line.word().ok_or_else(|| Wrong::missing(line, what))?;
    word.text.parse().map_err(|_| Wrong::at(word, format!("{what} goes here")))
}

fn name(line: &mut Line<'_>, what: &str) -> Result<String, Wrong> {
    line.word().map(|word| word.text.to_owned()).ok_or_else(|| Wrong::missing(line, what))
}

fn family(word: Word<'_>) -> Result<Family, Wrong> {
    Family::from_name(word.text).ok_or_else(|| {
        Wrong::at(word, "this is no family of tables: ip, ip6, inet, arp, bridge, netdev")
    })
}

impl Expectation {
    /// What follows `expect`.
    pub fn read(line: &mut Line<'_>) -> Result<Self, Wrong> {
        let word = line.word().ok_or_else(|| Wrong::missing(line, "what is expected"))?;
        let fields = |line: &mut Line<'_>| line.rest().map(|text| text.text.to_owned());
        Ok(match word.text {
            "accept" => Expectation::Accept,
            "drop" => Expectation::Drop(line.rest().map(reason).transpose()?),
            "out" => {
                let device = name(line, "a device")?;
                Expectation::Out { device, fields: fields(line) }
            }
            "host" => Expectation::Host { fields: fields(line) },
            "rule" => Expectation::Rule(RuleName::read(line)?),
            "meets" => Expectation::Meets(RuleName::read(line)?),
            "misses" => Expectation::Misses(RuleName::read(line)?),
            "policy" => {
                let word = line.word().ok_or_else(|| Wrong::missing(line, "a family"))?;
                let (family, table) = (family(word)?, name(line, "a table")?);
                Expectation::Policy { family, table, chain: name(line, "a chain")? }
            }
            "mark" => {
                let word = line.word().ok_or_else(|| Wrong::missing(line, "a mark"))?;
                let mark = match word.text.strip_prefix("0x") {
                    Some(hex) => u32::from_str_radix(hex, 16).ok(),
                    None => word.text.parse().ok(),
                };
                Expectation::Mark(mark.ok_or_else(|| Wrong::at(word, "a mark is a number"))?)
            }
            "counter" => return counter(line),
            _ => {
                return Err(Wrong::at(
                    word,
                    "this cannot be expected: it is none of accept, drop, out, host, rule, meets, \
                     misses, policy, mark, counter",
                ));
            }
        })
    }
}

fn reason(word: Word<'_>) -> Result<&'static str, Wrong> {
    let known = DropReason::ALL.iter().map(|reason| reason.text());
    known
        .clone()
        .find(|known| *known == word.text)
        .ok_or_else(|| Wrong::at(word, "no packet is dropped for this reason"))
}

fn counter(line: &mut Line<'_>) -> Result<Expectation, Wrong> {
    let mut ahead = *line;
    let named = ahead.word().and_then(|word| Family::from_name(word.text));
    let counter = match named {
        Some(family) => {
            line.word();
            let table = name(line, "a table")?;
            CounterName::Named { family, table, name: name(line, "a counter")? }
        }
        None => CounterName::Rule(RuleName::read(line)?),
    };
    let keyword = line.word().ok_or_else(|| Wrong::missing(line, "`packets N`"))?;
    if keyword.text != "packets" {
        return Err(Wrong::at(keyword, "`packets N` goes here"));
    }
    let packets = number(line, "a number of packets")?;
    let bytes = match line.word() {
        None => None,
        Some(Word { text: "bytes", .. }) => Some(number(line, "a number of bytes")?),
        Some(other) => return Err(Wrong::at(other, "`bytes N`, or nothing, goes here")),
    };
    Ok(Expectation::Counter { counter, packets, bytes })
}

/// What a packet is held against.
pub struct Seen<'a> {
    pub outcome: &'a Outcome,
    pub rules: &'a WrittenRules,
    pub names: &'a dyn Names,
    /// The ruleset as it is now.
    pub now: &'a Generation,
    /// The same ruleset before the test.
    pub before: &'a Generation,
    /// Nanoseconds since the epoch.
    pub time: u64,
}

impl Expectation {
    /// Whether the fields that it speaks of, if any, can be those of a packet.
    ///
    /// # Errors
    /// What nft says of them, or why no packet is such.
    pub fn check_fields(&self, names: &dyn Names) -> Result<(), String> {
        match self {
            Expectation::Out { fields: Some(fields), .. }
            | Expectation::Host { fields: Some(fields) } => {
                Fields::parse(fields, names).map(|_| ())
            }
            Expectation::Out { fields: None, .. }
            | Expectation::Host { fields: None }
            | Expectation::Accept
            | Expectation::Drop(_)
            | Expectation::Rule(_)
            | Expectation::Meets(_)
            | Expectation::Misses(_)
            | Expectation::Policy { .. }
            | Expectation::Mark(_)
            | Expectation::Counter { .. } => Ok(()),
        }
    }

    /// Whether it came true.
    ///
    /// # Errors
    /// In words, what came instead.
    pub fn check(&self, seen: &Seen<'_>) -> Result<(), String> {
        let outcome = seen.outcome;
        let came = |ok: bool| if ok { Ok(()) } else { Err(outcome.words()) };
        match self {
            Expectation::Accept => came(outcome.fate() == Fate::Accepted),
            Expectation::Drop(None) => came(outcome.fate() == Fate::Dropped),
            Expectation::Drop(Some(reason)) => {
                came(outcome.dropped.iter().any(|ended| ended.why.reason() == *reason))
            }
            Expectation::Out { device, fields } => {
                let there = || outcome.sent.iter().filter(|sent| sent.device == *device);
                let Some(fields) = fields else { return came(there().next().is_some()) };
                let fields = Fields::parse(fields, seen.names)?;
                if there().any(|sent| fields.are_of(&sent.frame, sent.network)) {
                    return Ok(());
                }
                let headers = there().map(|sent| format!("sent on {device}: {}", sent.headers));
                Err(headers.reduce(|a, b| a + "; " + &b).unwrap_or_else(|| outcome.words()))
            }
            Expectation::Host { fields: None } => came(!outcome.delivered.is_empty()),
            Expectation::Host { fields: Some(fields) } => {
                let fields = Fields::parse(fields, seen.names)?;
                if outcome.delivered.iter().any(|d| fields.are_of(&d.packet, 0)) {
                    return Ok(());
                }
                let headers = outcome.delivered.iter().map(|d| format!("delivered: {}", d.headers));
                Err(headers.reduce(|a, b| a + "; " + &b).unwrap_or_else(|| outcome.words()))
            }
            Expectation::Rule(name) => seen.rule(name, true),
            Expectation::Meets(name) => seen.rule(name, false),
            Expectation::Misses(name) => match seen.rule(name, false) {
                Ok(()) => Err("the rule matches".to_owned()),
                // A name of no rule is wrong here, too.
                Err(_) if seen.rules.find(|rule| name.is(rule)) => Ok(()),
                Err(message) => Err(message),
            },
            Expectation::Policy { family, table, chain } => {
                let is = |at: &crate::trace::outcome::ChainName| {
                    at.family == *family && at.table == *table && at.chain == *chain
                };
                if outcome.policies.iter().any(|(at, _)| is(at)) {
                    return Ok(());
                }
                Err(seen.deciders())
            }
            Expectation::Mark(mark) => {
                let sent = outcome.sent.iter().map(|sent| sent.mark);
                let marks: Vec<u32> =
                    sent.chain(outcome.delivered.iter().map(|d| d.mark)).collect();
                match marks.first() {
                    Some(_) if marks.contains(mark) => Ok(()),
                    Some(other) => Err(format!("its mark is {other:#x}")),
                    None => Err(outcome.words()),
                }
            }
            Expectation::Counter { counter, packets, bytes } => {
                let (has_packets, has_bytes) = seen.counted(counter)?;
                if has_packets == *packets && bytes.is_none_or(|bytes| bytes == has_bytes) {
                    return Ok(());
                }
                Err(format!("it counted packets {has_packets} bytes {has_bytes}"))
            }
        }
    }
}

impl Seen<'_> {
    /// Whether the packet met a rule, which decided if it must.
    fn rule(&self, name: &RuleName, decides: bool) -> Result<(), String> {
        let met = self.outcome.met.iter().filter(|met| met.decides || !decides);
        let mut written =
            met.filter_map(|met| self.rules.rule(met.chain.family, &met.chain.table, met.handle));
        if written.any(|rule| name.is(rule)) {
            return Ok(());
        }
        if !self.rules.find(|rule| name.is(rule)) {
            return Err(format!("no rule is called {name}"));
        }
        Err(self.deciders())
    }

    /// What decided, in words.
    fn deciders(&self) -> String {
        let rules = self.outcome.met.iter().filter(|met| met.decides).map(|met| {
            let crate::trace::outcome::ChainName { family, table, chain } = &met.chain;
            let rule = self.rules.rule(*family, table, met.handle);
            let named = rule.map(|rule| penstock_print::rules::Named(rule).to_string());
            format!("rule {} {table} {chain}{}", family.name(), named.unwrap_or_default())
        });
        let policies = self.outcome.policies.iter().map(|(at, accept)| {
            let word = if *accept { "accept" } else { "drop" };
            format!("policy {word} of {} {} {}", at.family.name(), at.table, at.chain)
        });
        let all: Vec<String> = rules.chain(policies).collect();
        if all.is_empty() {
            return "no rule and no policy decides".to_owned();
        }
        format!("what decides: {}", all.join("; "))
    }

    /// Packets and bytes of a counter since the test began.
    fn counted(&self, name: &CounterName) -> Result<(u64, u64), String> {
        let of = |generation: &Generation| self.counter(generation, name);
        let none = || match name {
            CounterName::Rule(name) => format!("no rule with a counter is called {name}"),
            CounterName::Named { family, table, name } => {
                format!("there is no counter {} {table} {name}", family.name())
            }
        };
        let (now, before) = (of(self.now).ok_or_else(none)?, of(self.before).ok_or_else(none)?);
        let since = |now: u64, before: u64| now.saturating_sub(before);
        Ok((since(now.packets, before.packets), since(now.bytes, before.bytes)))
    }

    fn counter(&self, generation: &Generation, name: &CounterName) -> Option<Counter> {
        match name {
            CounterName::Named { family, table, name } => {
                let is = |t: &&std::sync::Arc<penstock_ruleset::Table>| {
                    t.family == *family && *t.name == **table
                };
                let objects = generation.tables.iter().filter(is).flat_map(|t| &t.objects);
                objects.filter(|object| *object.name == **name).find_map(|object| {
                    match object.snapshot(self.time) {
                        ObjectValue::Counter(counter) => Some(counter),
                        _ => None,
                    }
                })
            }
            CounterName::Rule(name) => generation.tables.iter().find_map(|table| {
                let rules = table.chains.iter().flat_map(|chain| &chain.rules);
                let mut called = rules.filter(|rule| {
                    let written = self.rules.rule(table.family, &table.name, rule.handle);
                    written.is_some_and(|written| name.is(written))
                });
                called.find_map(|rule| {
                    rule.snapshot(self.time).into_iter().find_map(|expr| match expr {
                        Expr::Counter(counter) => Some(counter),
                        _ => None,
                    })
                })
            }),
        }
    }
}
