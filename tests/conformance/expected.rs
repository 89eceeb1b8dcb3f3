// SPDX-License-Identifier: Apache-2.0

//! The failures that are known, with a reason each.

use std::fmt;

/// One vector that failed on one level.
#[derive(Clone, PartialEq, Debug)]
pub struct Failure {
    /// `parse`, `list`, `json`, `payload` or `jsonin`.
    pub level: String,
    /// The file below the corpus or the directory of rulesets.
    pub file: String,
    /// The table's family; `*` for a whole ruleset.
    pub family: String,
    /// The rule; `*` for a whole ruleset.
    pub rule: String,
    /// What came instead.
    pub got: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} [{}] {}: {}", self.level, self.file, self.family, self.rule, self.got)
    }
}

/// The lines of `expected-failures.tsv`, one entry per level.
pub struct Expected(Vec<(Failure, bool)>);

impl Expected {
    /// Reads lines of levels, file, family, rule and reason.
    ///
    /// # Errors
    ///
    /// A line that lacks a field, the reason among them.
    pub fn parse(text: &str) -> Result<Expected, String> {
        let mut entries = Vec::new();
        for (n, line) in
            text.lines().enumerate().filter(|(_, l)| !l.is_empty() && !l.starts_with('#'))
        {
            let fields: Vec<&str> = line.split('\t').collect();
            let [levels, file, family, rule, why] = fields[..] else {
                return Err(format!("line {}: {} fields instead of 5", n + 1, fields.len()));
            };
            if why.trim().is_empty() {
                return Err(format!("line {}: no reason", n + 1));
            }
            for level in levels.split(',') {
                let [level, file, family, rule, got] =
                    [level, file, family, rule, why].map(String::from);
                entries.push((Failure { level, file, family, rule, got }, false));
            }
        }
        Ok(Expected(entries))
    }

    /// Whether a line speaks of this failure; the line counts as used from then on.
    pub fn covers(&mut self, failure: &Failure) -> bool {
        let same = |pattern: &str, value: &str| pattern == "*" || pattern == value;
        let mut covered = false;
        for (entry, used) in &mut self.0 {
            if entry.level == failure.level
                && entry.file == failure.file
                && same(&entry.family, &failure.family)
                && same(&entry.rule, &failure.rule)
            {
                *used = true;
                covered = true;
            }
        }
        covered
    }

    /// The lines without their expected failure.
    pub fn unused(&self) -> impl Iterator<Item = &Failure> {
        self.0.iter().filter(|(_, used)| !used).map(|(entry, _)| entry)
    }
}
