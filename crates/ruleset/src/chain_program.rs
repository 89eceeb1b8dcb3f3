// SPDX-License-Identifier: Apache-2.0

//! BPF programs that packets meet in place of the rules of a base chain.

use std::fmt;
use std::sync::{Arc, OnceLock};

use penstock_ebpfvm::{Counts, Instance, Limits, Program, ProgramKind};
use serde::{Deserialize, Serialize};

/// A program of netfilter that a base chain has. It and its maps are the same in all generations
/// that have the chain, until the program is replaced.
#[derive(Clone, Serialize, Deserialize)]
pub struct ChainProgram {
    /// The name of the object's file.
    pub object: Arc<str>,
    /// Its section, or the name of its function; `None` for the only program of the object.
    pub section: Option<Arc<str>>,
    /// The object (ELF).
    pub bytes: Arc<[u8]>,
    #[serde(skip)]
    loaded: Arc<OnceLock<Result<LoadedProgram, String>>>,
}

/// A program that is loaded, and what became of packets.
#[derive(Clone, Debug)]
pub struct LoadedProgram {
    /// The program.
    pub program: Program,
    /// What became of packets.
    pub counts: Arc<Counts>,
}

impl fmt::Debug for ChainProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ChainProgram { object, section, bytes, .. } = self;
        write!(f, "ChainProgram({object} {section:?}, {} bytes)", bytes.len())
    }
}

impl PartialEq for ChainProgram {
    fn eq(&self, other: &Self) -> bool {
        (&self.object, &self.section, &self.bytes) == (&other.object, &other.section, &other.bytes)
    }
}

impl ChainProgram {
    /// A program of an object.
    pub fn new(object: Arc<str>, section: Option<Arc<str>>, bytes: Arc<[u8]>) -> Self {
        ChainProgram { object, section, bytes, loaded: Arc::default() }
    }

    /// The program, which is loaded the first time.
    ///
    /// # Errors
    /// It cannot be, or is none of netfilter: a sentence that names the object.
    pub fn load(&self) -> Result<&LoadedProgram, &str> {
        let loaded = self.loaded.get_or_init(|| {
            let failed = |why: &dyn fmt::Display| format!("object \"{}\": {why}", self.object);
            let wanted = [self.section.as_deref()];
            let made = Instance::load(&self.object, &self.bytes, &wanted, Limits::default());
            let (_, programs) = made.map_err(|e| failed(&e))?;
            let program = programs.into_iter().next().ok_or_else(|| failed(&"no program"))?;
            if program.kind() != Some(ProgramKind::Netfilter) {
                let (name, section) = (program.name(), program.section());
                let what = format!("program {name} (section {section}) is not one of netfilter");
                return Err(failed(&what));
            }
            Ok(LoadedProgram { program, counts: Arc::default() })
        });
        loaded.as_ref().map_err(String::as_str)
    }
}
