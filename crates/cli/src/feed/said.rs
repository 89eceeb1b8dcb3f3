// SPDX-License-Identifier: Apache-2.0

//! What a feed says on standard error. A failure that is the same as the one before is said once.

use std::collections::HashSet;
use std::fmt::Display;

use penstock_daemon::errln;

/// As many different refusals are remembered.
const MOST: usize = 10_000;

/// What was said, and how often something failed.
pub struct Said {
    verbose: bool,
    last: Option<String>,
    refused: HashSet<String>,
    /// Attempts that failed.
    pub errors: u64,
    /// Entries that were refused.
    pub refusals: u64,
}

impl Said {
    /// Nothing yet.
    pub fn new(verbose: bool) -> Said {
        Said { verbose, last: None, refused: HashSet::new(), errors: 0, refusals: 0 }
    }

    /// Something that is said with --verbose.
    pub fn note(&self, what: impl Display) {
        if self.verbose {
            errln!("penstock feed: {what}");
        }
    }

    /// An attempt has failed.
    pub fn failure(&mut self, what: impl Display) {
        self.errors += 1;
        let text = what.to_string();
        if self.last.as_ref() != Some(&text) {
            errln!("penstock feed: {text}");
            self.last = Some(text);
        }
    }

    /// An attempt went well; the next failure is said, whatever it is.
    pub fn success(&mut self) {
        if self.last.take().is_some() {
            errln!("penstock feed: it works again");
        }
    }

    /// An entry is not taken. Each is said once.
    pub fn refusal(&mut self, what: impl Display) {
        self.refusals += 1;
        let text: String = what.to_string().chars().take(300).collect();
        if !self.refused.contains(&text) {
            if self.refused.len() >= MOST {
                self.refused.clear();
            }
            errln!("penstock feed: refused: {text}");
            self.refused.insert(text);
        }
    }
}
