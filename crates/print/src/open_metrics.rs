// SPDX-License-Identifier: Apache-2.0

//! The text of OpenMetrics (<https://github.com/prometheus/OpenMetrics>, version 1.0.0).

use std::fmt::{Display, Write};
use std::io;

/// Families of metrics, written one after the other. All their names begin with `penstock_`.
pub struct Metrics<'w> {
    /// What is not written yet.
    out: String,
    to: &'w mut dyn io::Write,
    /// The latest result of the writer.
    written: io::Result<()>,
}

/// One metric's labels.
pub type Labels<'a> = &'a [(&'a str, &'a str)];

impl<'w> Metrics<'w> {
    /// Nothing is written yet.
    pub fn to(to: &'w mut dyn io::Write) -> Self {
        Metrics { out: String::new(), to, written: Ok(()) }
    }

    /// Writes the text so far.
    fn flush(&mut self) {
        if self.written.is_ok() {
            self.written = self.to.write_all(self.out.as_bytes());
        }
        self.out.clear();
    }

    /// Writes the end.
    ///
    /// # Errors
    /// The first error of the writer.
    pub fn end(mut self) -> io::Result<()> {
        self.out.push_str("# EOF\n");
        self.flush();
        self.written
    }

    /// Begins a family. Names of counters end in `_total` in samples, and not here.
    pub fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.out, "# TYPE penstock_{name} {kind}\n# HELP penstock_{name} {help}");
    }

    /// A sample of the family that was begun last.
    pub fn told(&mut self, name: &str, labels: Labels<'_>, value: impl Display) {
        /// Bytes that are written at once.
        const TOGETHER: usize = 16 << 10;
        let _ = write!(self.out, "penstock_{name}");
        for (i, (label, value)) in labels.iter().enumerate() {
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.out, "{}{label}=\"{value}\"", if i == 0 { '{' } else { ',' });
        }
        let _ = writeln!(self.out, "{} {value}", if labels.is_empty() { "" } else { "}" });
        if self.out.len() >= TOGETHER {
            self.flush();
        }
    }

    /// A gauge by itself.
    pub fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.family(name, "gauge", help);
        self.told(name, &[], value);
    }

    /// A counter by itself.
    pub fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.family(name, "counter", help);
        self.told(&format!("{name}_total"), &[], value);
    }

    /// A family of counters that differ in one label.
    pub fn counters<'a>(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        values: impl IntoIterator<Item = (&'a str, u64)>,
    ) {
        self.family(name, "counter", help);
        for (which, value) in values {
            self.told(&format!("{name}_total"), &[(label, which)], value);
        }
    }
}
