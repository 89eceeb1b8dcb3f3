// SPDX-License-Identifier: Apache-2.0

//! What a rule is called: where it was written, and its text.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use penstock_dataplane::Place;
use penstock_lang::datatype::Format;
use penstock_lang::listing::Listing;
use penstock_lang::names::Names;
use penstock_ruleset::model::RuleOrigin;
use penstock_ruleset::{Family, Generation, Rule, Table};
use serde::Serialize;

/// Characters of a rule's text in a [`Named`]: the rest is left out.
const TEXT_SHOWN: usize = 60;

/// Text and origin of a rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Written {
    /// As `nft list` prints it.
    #[serde(rename = "rule")]
    pub text: String,
    /// The file and line that have it, where it came from a file.
    #[serde(flatten)]
    pub origin: Option<RuleOrigin>,
}

impl Written {
    /// A rule of a table, as it is listed.
    pub fn of<'a>(listing: &Listing<'a>, table: &'a Table, rule: &Rule) -> Self {
        let text = listing.rule(table, rule).trim().to_owned();
        Written { text, origin: rule.origin.clone() }
    }

    /// The text without the numbers of counters, which are those of another time.
    pub fn shown(&self) -> String {
        without_counts(&self.text)
    }
}

/// The rules of a generation, as they were when it was loaded.
#[derive(Debug, Default)]
pub struct WrittenRules {
    /// By table and handle.
    tables: HashMap<(Family, Arc<str>), HashMap<u64, Written>>,
}

impl WrittenRules {
    /// The rules of a generation at a time (nanoseconds since the epoch), as they are listed in a
    /// format.
    pub fn new(generation: &Generation, names: &dyn Names, format: Format, now: u64) -> Self {
        let listing = Listing { generation, format, names, now };
        let mut tables = HashMap::new();
        for table in &generation.tables {
            let of_table: &mut HashMap<_, _> =
                tables.entry((table.family, table.name.clone())).or_default();
            for rule in table.chains.iter().flat_map(|c| &c.rules) {
                of_table.insert(rule.handle, Written::of(&listing, table, rule));
            }
        }
        WrittenRules { tables }
    }

    /// The rule with a handle.
    pub fn rule(&self, family: Family, table: &str, handle: u64) -> Option<&Written> {
        self.tables.get(&(family, Arc::from(table)))?.get(&handle)
    }

    /// Whether there is such a rule.
    pub fn find(&self, is: impl Fn(&Written) -> bool) -> bool {
        self.tables.values().flat_map(HashMap::values).any(is)
    }

    /// The rule of a place, if it is the place of a rule.
    pub fn at(&self, place: &Place<'_>) -> Option<&Written> {
        self.rule(place.family, place.table, place.rule?)
    }

    /// The rule that profiles call `FAMILY TABLE CHAIN handle N`.
    pub fn profiled(&self, name: &str) -> Option<&Written> {
        let (place, handle) = name.rsplit_once(" handle ")?;
        let mut words = place.split(' ');
        let family = words.next().and_then(Family::from_name)?;
        self.rule(family, words.next()?, handle.parse().ok()?)
    }
}

/// The end of a name of a rule: ` at rules.nft:12: tcp dport 22 drop`.
#[derive(Clone, Copy, Debug)]
pub struct Named<'a>(pub &'a Written);

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(origin) = &self.0.origin {
            write!(f, " at {origin}")?;
        }
        f.write_str(": ")?;
        let text = self.0.shown();
        match text.char_indices().nth(TEXT_SHOWN) {
            Some((end, _)) => write!(f, "{}…", &text[..end]),
            None => f.write_str(&text),
        }
    }
}

fn without_counts(text: &str) -> String {
    let mut words = text.split(' ');
    let mut shown = Vec::new();
    while let Some(word) = words.next() {
        shown.push(word);
        if let ("counter", ["packets", _, "bytes", _]) =
            (word, &words.clone().take(4).collect::<Vec<_>>()[..])
        {
            words.nth(3);
        }
    }
    shown.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_rule_has_its_place_and_the_start_of_its_text() {
        let origin = Some(RuleOrigin { file: "r.nft".into(), line: 7 });
        for (text, origin, named) in [
            ("tcp dport 22 counter packets 5 bytes 9 drop", None, ": tcp dport 22 counter drop"),
            ("counter name \"c\" accept", origin.clone(), " at r.nft:7: counter name \"c\" accept"),
            ("counter packets 1", None, ": counter packets 1"),
            (
                "ip saddr { 198.18.0.1, 198.18.0.2, 198.18.0.3, 198.18.0.4, 198.18.0.5 } drop",
                origin,
                " at r.nft:7: ip saddr { 198.18.0.1, 198.18.0.2, 198.18.0.3, 198.18.0.4, 1…",
            ),
        ] {
            let written = Written { text: text.to_owned(), origin };
            assert_eq!(Named(&written).to_string(), named);
        }
    }
}
