// SPDX-License-Identifier: Apache-2.0

//! BPF programs of the dataplane, as `penstock bpf show` lists them.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::json;

/// A program where it runs.
#[derive(Clone, Debug, Serialize)]
pub struct Program {
    /// The hook, or the chain.
    pub hook: String,
    /// Its number.
    pub id: u32,
    /// The file of its object.
    pub object: String,
    /// The name of its function.
    pub program: String,
    /// The section that it is in.
    pub section: String,
    /// What became of packets, a word or several joined by `_`, and how many there were.
    pub packets: BTreeMap<String, u64>,
}

/// All of them.
#[derive(Clone, Debug, Serialize)]
pub struct Programs {
    /// Those of hooks first.
    pub programs: Vec<Program>,
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Program { hook, id, object, program, section, packets } = self;
        write!(f, "{hook}: id {id}, {object} {program} (section {section})")?;
        for (name, packets) in packets.iter().filter(|(_, packets)| **packets != 0) {
            write!(f, ", {packets} {}", name.replace('_', " "))?;
        }
        writeln!(f)
    }
}

impl fmt::Display for Programs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.programs.iter().try_for_each(|program| program.fmt(f))
    }
}

impl Programs {
    /// As JSON, on a line.
    pub fn json(&self) -> String {
        json::line(self)
    }
}
