// SPDX-License-Identifier: Apache-2.0

//! What outlives the agent: the last head that was seen, so that an older one is never followed, and
//! the last tree that was in force, so that the node has rules without a store.

use std::io;
use std::path::Path;

use penstock_files::Access;
use penstock_fleet::Digest;
use serde::{Deserialize, Serialize};

/// A file of it is at most this long, in bytes.
const LONGEST: usize = 4096;

/// What outlives the agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// The last head.
    pub seen: Option<Seen>,
    /// The last tree that was in force.
    pub good: Option<Good>,
}

/// A head that was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// Its generation.
    pub generation: u64,
    /// The digest of the signed head.
    pub head: Digest,
}

/// A tree that was in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Good {
    /// The generation.
    pub generation: u64,
    /// The manifest.
    pub tree: Digest,
    /// Since when, in seconds since the epoch.
    pub since: u64,
}

impl Memory {
    /// Reads the memory in a directory; it is empty if there is none.
    ///
    /// # Errors
    /// There is one that cannot be read. An agent that forgot what it saw would follow an old head.
    pub fn read(directory: &Path) -> io::Result<Memory> {
        let file = directory.join("agent.json");
        let bytes = match penstock_files::read(&file) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Memory::default()),
            other => other?,
        };
        let told = |why: String| {
            io::Error::new(io::ErrorKind::InvalidData, format!("{}: {why}", file.display()))
        };
        if bytes.len() > LONGEST {
            return Err(told("it is too long".into()));
        }
        serde_json::from_slice(&bytes).map_err(|e| told(e.to_string()))
    }

    /// Writes it, whole or not at all.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, directory: &Path) -> io::Result<()> {
        std::fs::create_dir_all(directory)?;
        let text = serde_json::to_vec(self)?;
        penstock_files::replace(&directory.join("agent.json"), &text, Access::Owner)
    }
}
