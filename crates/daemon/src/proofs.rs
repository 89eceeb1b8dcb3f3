// SPDX-License-Identifier: Apache-2.0

//! What is proved of a ruleset before it is in force. The engine is the program's; this says what is
//! asked of it.

use std::fmt;
use std::time::Duration;

use penstock_lang::names::Names;
use penstock_lang::session::Remark;
use penstock_ruleset::Generation;
use serde::{Deserialize, Serialize};

/// A text of claims, and the name of its file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimsText {
    /// What the file is called.
    pub name: String,
    /// Its lines.
    pub text: String,
    /// Names and texts of files that lines name: networks.
    pub files: Vec<(String, String)>,
}

impl ClaimsText {
    /// Reads the text of a file, and the files that it names.
    ///
    /// # Errors
    /// A file cannot be read: its name, and why.
    pub fn read<E: fmt::Display>(
        name: String,
        prover: &Prover,
        read: impl Fn(&str) -> Result<String, E>,
    ) -> Result<Self, String> {
        let read = |file: &str| read(file).map_err(|reason| format!("{file}: {reason}"));
        let mut claims = ClaimsText { text: read(&name)?, name, files: Vec::new() };
        for file in (prover.files)(&claims) {
            let text = read(&file)?;
            claims.files.push((file, text));
        }
        Ok(claims)
    }
}

/// A ruleset that is to be in force, and what an answer about it may take.
pub struct Becoming<'a> {
    /// The ruleset.
    pub after: &'a Generation,
    /// Names of its devices.
    pub names: &'a dyn Names,
    /// Nanoseconds since the epoch.
    pub now: u64,
    /// Bytes of memory.
    pub memory: u64,
    /// Time.
    pub time: Duration,
}

/// Who answers.
#[derive(Clone, Copy)]
pub struct Prover {
    /// Names of the files that a text of claims names. What is wrong in it is told when claims are
    /// decided.
    pub files: fn(&ClaimsText) -> Vec<String>,
    /// Whether claims hold of the ruleset. The error is a text that continues `Error: `.
    pub keeps: fn(&ClaimsText, &Becoming<'_>) -> Result<(), String>,
    /// What the change from another ruleset does to packets, in lines. The error is a text that
    /// continues `Error: `.
    pub difference: fn(&Generation, &Becoming<'_>) -> Result<String, String>,
    /// Rules and other parts that make no difference.
    pub review: fn(&Becoming<'_>) -> Vec<Remark>,
}

impl fmt::Debug for Prover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Prover")
    }
}

/// What is asked of a change.
#[derive(Clone, Debug)]
pub struct Proofs {
    /// Who answers.
    pub prover: Prover,
    /// What the ruleset is to keep.
    pub claims: Vec<ClaimsText>,
    /// Whether it is asked what the change does to packets.
    pub diff: bool,
}

impl Proofs {
    /// Whether anything is asked.
    pub fn are_asked(&self) -> bool {
        !self.claims.is_empty() || self.diff
    }

    /// What the change does to packets, if that is asked.
    ///
    /// # Errors
    /// Claims do not hold, or an answer cannot be given: a text that continues `Error: `.
    pub fn of(
        &self,
        before: &Generation,
        becoming: &Becoming<'_>,
    ) -> Result<Option<String>, String> {
        for claims in &self.claims {
            (self.prover.keeps)(claims, becoming)?;
        }
        self.diff.then(|| (self.prover.difference)(before, becoming)).transpose()
    }
}
