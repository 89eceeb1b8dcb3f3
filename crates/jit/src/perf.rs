// SPDX-License-Identifier: Apache-2.0

//! Names of the code for perf(1), which looks for them in `/tmp/perf-PID.map`.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use penstock_files::Access;
use penstock_program::Image;
use penstock_program::image::RuleIndex;

use crate::asm::Code;
use crate::rule_name::rule_name;

/// The map, once something is in it.
static MAP: Mutex<Option<File>> = Mutex::new(None);

/// Appends all code to the map of this process: each stretch with the rule that it is of, or `hook`
/// for what is between them. Code that rules share bears the name of the first of them.
pub(crate) fn write_map(code: &Code, image: &Image) -> io::Result<()> {
    let mut map = MAP.lock().unwrap_or_else(PoisonError::into_inner);
    let file = match &mut *map {
        Some(file) => file,
        none => {
            // The directory is world-writable: an existing file may belong to another user.
            let name = format!("/tmp/perf-{}.map", std::process::id());
            none.insert(penstock_files::create(Path::new(&name), Access::Owner)?)
        }
    };
    let mut file = BufWriter::new(file);
    for (address, len, mark) in code.stretches() {
        match mark.checked_sub(1) {
            Some(rule) => {
                writeln!(file, "{address:x} {len:x} {}", rule_name(image, RuleIndex(rule)))?
            }
            None => writeln!(file, "{address:x} {len:x} hook")?,
        }
    }
    file.flush()
}
