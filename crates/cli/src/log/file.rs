// SPDX-License-Identifier: Apache-2.0

//! Where log lines go: a file, or standard error.

use std::io::{BufWriter, Result, Write};
use std::path::Path;

use penstock_dataplane::LogRecord;
use penstock_files::Access;
use penstock_packet::Packet;
use penstock_print::log::line;

/// A log of lines.
pub struct LogFile {
    out: Box<dyn Write>,
    start: u64,
}

impl LogFile {
    /// Makes or empties a file; `-` is standard error. Times count from `start` (ns since the
    /// epoch).
    pub fn create(path: &Path, start: u64) -> Result<Self> {
        let out: Box<dyn Write> = match path.to_str() {
            Some("-") => Box::new(std::io::stderr()),
            _ => Box::new(BufWriter::new(penstock_files::create(path, Access::Owner)?)),
        };
        Ok(LogFile { out, start })
    }

    /// Appends what a statement logs.
    pub fn write(&mut self, record: &LogRecord<'_>, packet: &Packet) -> Result<()> {
        let mut text = line(record, packet, self.start);
        text.push('\n');
        self.out.write_all(text.as_bytes())
    }

    /// Writes what is still buffered.
    pub fn finish(mut self) -> Result<()> {
        self.out.flush()
    }
}
