// SPDX-License-Identifier: Apache-2.0

//! Metrics of a feed in a file, for the textfile collector of node_exporter.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use penstock_files::Access;
use penstock_print::open_metrics::Metrics;

use super::said::Said;
use super::set::FedSet;

/// Replaces a file by what `tell` tells.
///
/// # Errors
/// It cannot be written: a sentence.
pub fn write(path: &Path, tell: impl FnOnce(&mut Metrics<'_>)) -> Result<(), String> {
    let mut text = Vec::new();
    let mut metrics = Metrics::to(&mut text);
    tell(&mut metrics);
    let written = metrics.end().and_then(|()| penstock_files::replace(path, &text, Access::Umask));
    written.map_err(|e| format!("{}: {e}", path.display()))
}

/// What all feeds have: their sets, what was said, and when the source was read last, in seconds
/// since the epoch.
pub fn of_feed(metrics: &mut Metrics<'_>, sets: &[FedSet], said: &Said, read: u64) {
    metrics.family("feed_elements", "gauge", "Elements of the set.");
    for set in sets {
        metrics.told("feed_elements", &[("set", &set.name)], set.len());
    }
    let mut counters = |name: &str, help: &str, value: fn(&FedSet) -> u64| {
        metrics.counters(name, help, "set", sets.iter().map(|set| (&*set.name, value(set))));
    };
    counters("feed_added", "Elements that were added.", |set| set.total.added);
    counters("feed_deleted", "Elements that were deleted.", |set| set.total.deleted);
    metrics.counter("feed_errors", "Attempts that failed.", said.errors);
    metrics.counter("feed_refused", "Entries that were not taken.", said.refusals);
    let help = "When the source was read last, in seconds.";
    metrics.gauge("feed_read_timestamp_seconds", help, read);
}

/// Seconds since the epoch.
pub fn wall_time() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}
