// SPDX-License-Identifier: Apache-2.0

//! What a node says of itself. Reports are not signed: whoever may write to the store can write
//! them, and nothing follows from them but what people see.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Digest;

/// What became of the head that is wanted of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// It is in force.
    InForce,
    /// It is being evaluated or tried.
    Trying,
    /// It was refused before it was in force.
    Refused,
    /// It was in force, and the one before is again.
    RolledBack,
    /// There is no dataplane to give it to.
    NoDataplane,
}

impl State {
    /// As it is printed.
    pub fn word(self) -> &'static str {
        match self {
            State::InForce => "in force",
            State::Trying => "trying",
            State::Refused => "refused",
            State::RolledBack => "rolled back",
            State::NoDataplane => "no dataplane",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// A report of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The name of the node.
    pub node: String,
    /// Its labels.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// The generation that is in force, zero if there is none.
    pub generation: u64,
    /// Its manifest.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tree: Option<Digest>,
    /// Since when, in seconds since the epoch; zero if there is none.
    #[serde(default)]
    pub since: u64,
    /// The generation that was seen last.
    pub seen: u64,
    /// What became of it.
    pub state: State,
    /// Why it is refused or rolled back, or what else is wrong.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub why: String,
    /// Milliseconds from the time that the head was seen to the end of its change.
    #[serde(default)]
    pub took: u64,
    /// How often elements that somebody else had changed were put right, since the agent began.
    #[serde(default)]
    pub repairs: u64,
    /// What was done last.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub repaired: String,
    /// Until when the report is good by the clock of the node, in seconds since the epoch.
    pub until: u64,
    /// How long it is good after it was put, in seconds: stores without leases need it. Zero in
    /// reports that say only until when.
    #[serde(default)]
    pub lease: u64,
}

impl Report {
    /// Reads a report.
    ///
    /// # Errors
    /// It is none.
    pub fn read(bytes: &[u8]) -> Result<Report, String> {
        serde_json::from_slice(bytes).map_err(|e| e.to_string())
    }

    /// As a store keeps it.
    pub fn bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
}

/// Whether a text can be the name of a node: it is part of names of files and keys.
pub fn is_node_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 253
        && !name.starts_with(['.', '-'])
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
}
