// SPDX-License-Identifier: Apache-2.0

//! `penstock fleet status`: who runs what, since when, who refused and why, who is behind.

use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use penstock_daemon::out;
use penstock_fleet::canary::Node;
use penstock_fleet::key::PublicKey;
use penstock_fleet::publish::Present;
use penstock_fleet::{Head, Report, Store};
use penstock_print::fleet::{self, Fleet};

use super::options::Form;

/// Prints the status. The exit status is 1 if a node is behind.
///
/// # Errors
/// The store is away, or the head is not signed by one of the keys.
pub fn status(store: &dyn Store, keys: &[PublicKey], form: Form) -> Result<ExitCode, String> {
    let told = |e: penstock_fleet::store::Error| format!("Error: {e}");
    let present = Present::read(store, keys).map_err(told)?;
    let head = present.ok_or("Error: nothing is published yet")?.head;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let reports = store.reports().map_err(told)?;
    let reports = reports.iter().filter_map(|(name, bytes)| {
        // A report under another name than its own is somebody's mistake, or worse.
        Report::read(bytes).ok().filter(|report| report.node == *name)
    });
    let nodes: Vec<_> = reports.map(|report| node(report, &head, now)).collect();
    let fleet = Fleet {
        generation: head.generation,
        tree: head.tree.to_string(),
        time: head.time,
        note: printable(&head.note),
        canary: head.canary.as_ref().map(|canary| fleet::Canary {
            label: printable(&canary.label),
            percent: canary.percent,
            tree: canary.tree.to_string(),
        }),
        nodes,
    };
    match form {
        Form::Text => out!("{fleet}"),
        Form::Json => out!("{}\n", serde_json::to_string_pretty(&fleet).unwrap_or_default()),
        Form::Metrics => out!("{}", fleet.metrics()),
    }
    let behind = fleet.nodes.iter().any(|node| node.behind);
    Ok(if behind { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn node(report: Report, head: &Head, now: u64) -> fleet::Node {
    let node = Node { name: report.node, labels: report.labels };
    let (wanted, canary) = node.tree_of(head);
    let labels = node.labels.iter().map(|(name, value)| printable(&format!("{name}={value}")));
    fleet::Node {
        labels: labels.collect(),
        generation: report.generation,
        tree: report.tree.map(|tree| tree.to_string()),
        since: report.since,
        age: if report.since == 0 { 0 } else { now.saturating_sub(report.since) },
        state: report.state.word(),
        why: printable(&report.why),
        took: report.took,
        repairs: report.repairs,
        repaired: printable(&report.repaired),
        canary,
        behind: report.tree != Some(wanted),
        name: node.name,
    }
}

/// A text of a node, which may be anything, on one line.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(500).collect()
}
