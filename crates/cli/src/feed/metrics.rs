// SPDX-License-Identifier: Apache-2.0

//! Metrics of a feed in a file, for the textfile collector of node_exporter: OpenMetrics 1.0.0.

use std::fmt::{Display, Write};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use penstock_files::Access;

/// The text of a file.
#[derive(Default)]
pub struct Metrics {
    text: String,
    family: &'static str,
}

impl Metrics {
    /// A value of a family, which begins with its first value. Names of counters end in `_total`
    /// in samples, and not here.
    pub fn value(
        &mut self,
        (family, kind, help): (&'static str, &str, &str),
        label: Option<(&str, &str)>,
        value: impl Display,
    ) {
        if std::mem::replace(&mut self.family, family) != family {
            let _ = writeln!(
                self.text,
                "# TYPE penstock_feed_{family} {kind}\n# HELP penstock_feed_{family} {help}"
            );
        }
        let total = if kind == "counter" { "_total" } else { "" };
        let _ = write!(self.text, "penstock_feed_{family}{total}");
        if let Some((name, value)) = label {
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.text, "{{{name}=\"{value}\"}}");
        }
        let _ = writeln!(self.text, " {value}");
    }

    /// Replaces a file.
    ///
    /// # Errors
    /// It cannot be written: a sentence.
    pub fn write(mut self, path: &Path) -> Result<(), String> {
        self.text.push_str("# EOF\n");
        penstock_files::replace(path, self.text.as_bytes(), Access::Umask)
            .map_err(|e| format!("{}: {e}", path.display()))
    }
}

/// Seconds since the epoch.
pub fn wall_time() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}

/// Families that several feeds have.
pub const ELEMENTS: (&str, &str, &str) = ("elements", "gauge", "Elements of the set.");
/// Elements that were added to sets.
pub const ADDED: (&str, &str, &str) = ("added", "counter", "Elements that were added.");
/// Elements that were deleted from sets.
pub const DELETED: (&str, &str, &str) = ("deleted", "counter", "Elements that were deleted.");
/// Failures of the source or the dataplane.
pub const ERRORS: (&str, &str, &str) = ("errors", "counter", "Attempts that failed.");
/// When the source was read last.
pub const READ: (&str, &str, &str) =
    ("read_timestamp_seconds", "gauge", "When the source was read last, in seconds.");
/// Entries that are not taken.
pub const REFUSED: (&str, &str, &str) = ("refused", "counter", "Entries that were not taken.");
