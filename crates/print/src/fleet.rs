// SPDX-License-Identifier: Apache-2.0

//! `penstock fleet status`: the head of a fleet, and what became of it on each node.

use std::fmt;

use serde::Serialize;

use crate::open_metrics::Metrics;

/// The head, and the nodes.
#[derive(Clone, Debug, Serialize)]
pub struct Fleet {
    /// The generation of the head.
    pub generation: u64,
    /// The digest of the manifest that is in force for all nodes but those of the canary.
    pub tree: String,
    /// When it was published, in seconds since the epoch.
    pub time: u64,
    /// Why, in words of the publisher.
    pub note: String,
    /// The canary, if there is one.
    pub canary: Option<Canary>,
    /// The nodes that report, by name.
    pub nodes: Vec<Node>,
}

/// Nodes with another tree.
#[derive(Clone, Debug, Serialize)]
pub struct Canary {
    /// Their label.
    pub label: String,
    /// So many of a hundred.
    pub percent: u8,
    /// The digest of their manifest.
    pub tree: String,
}

/// A node.
#[derive(Clone, Debug, Serialize)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Its labels, `NAME=VALUE`.
    pub labels: Vec<String>,
    /// The generation in force, zero if there is none.
    pub generation: u64,
    /// The digest of its manifest.
    pub tree: Option<String>,
    /// Since when, in seconds since the epoch.
    pub since: u64,
    /// How long ago that is, in seconds.
    pub age: u64,
    /// `in force`, `trying`, `refused`, `rolled back`, `no dataplane`.
    pub state: &'static str,
    /// Why.
    pub why: String,
    /// Milliseconds that the last change took.
    pub took: u64,
    /// How often elements that somebody else had changed were put right, since the agent began.
    pub repairs: u64,
    /// What was done last.
    pub repaired: String,
    /// The node is one of the canary.
    pub canary: bool,
    /// The tree in force is not the one that is wanted of the node.
    pub behind: bool,
}

impl Fleet {
    /// As OpenMetrics text.
    pub fn metrics(&self) -> String {
        let mut text = Vec::new();
        let mut metrics = Metrics::to(&mut text);
        let mut family = |name: &str, help: &str, value: &dyn Fn(&Node) -> u64| {
            metrics.family(name, "gauge", help);
            for node in &self.nodes {
                metrics.told(name, &[("node", &node.name), ("state", node.state)], value(node));
            }
        };
        family("fleet_node_generation", "Generation in force.", &|node| node.generation);
        family("fleet_node_behind", "1 if the node has not what is wanted of it.", &|node| {
            u64::from(node.behind)
        });
        family("fleet_node_repairs", "Sets put right since the agent began.", &|n| n.repairs);
        family("fleet_node_age_seconds", "Time since it is in force.", &|node| node.age);
        metrics.gauge("fleet_generation", "Generation of the head.", self.generation);
        // Memory takes all of it.
        let _ = metrics.end();
        String::from_utf8(text).unwrap_or_default()
    }
}

impl fmt::Display for Fleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let behind = self.nodes.iter().filter(|node| node.behind).count();
        write!(f, "generation {} ({})", self.generation, short(&self.tree))?;
        if let Some(Canary { label, percent, tree }) = &self.canary {
            write!(f, ", {} for {percent} % of {label}", short(tree))?;
        }
        if !self.note.is_empty() {
            write!(f, ": {}", self.note)?;
        }
        writeln!(f, "\nnodes that report: {}, behind: {behind}", self.nodes.len())?;
        if self.nodes.is_empty() {
            return Ok(());
        }
        writeln!(
            f,
            "\n{:<20} {:>10} {:<12} {:>8} {:<12} {:<7} labels",
            "node", "generation", "tree", "since", "state", ""
        )?;
        for node in &self.nodes {
            let tree = node.tree.as_deref().map_or("-", short);
            let part = match (node.behind, node.canary) {
                (true, _) => "behind",
                (false, true) => "canary",
                (false, false) => "",
            };
            let line = format!(
                "{:<20} {:>10} {tree:<12} {:>8} {:<12} {part:<7} {}",
                node.name,
                node.generation,
                age(node.age),
                node.state,
                node.labels.join(" ")
            );
            writeln!(f, "{}", line.trim_end())?;
            if !node.why.is_empty() {
                writeln!(f, "{:<20} {}", "", node.why)?;
            }
            if node.repairs > 0 {
                let Node { repairs, repaired, .. } = node;
                writeln!(f, "{:<20} repairs: {repairs}, the last of {repaired}", "")?;
            }
        }
        Ok(())
    }
}

/// The first twelve digits of a digest.
fn short(digest: &str) -> &str {
    digest.get(..12).unwrap_or(digest)
}

/// A time in its largest unit.
fn age(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_says_who_is_behind_and_why() {
        let node = |name: &str, generation, state, why: &str, behind: bool| Node {
            name: name.to_owned(),
            labels: vec!["site=a".to_owned()],
            generation,
            tree: (generation > 0).then(|| "ab".repeat(32)),
            since: 1000,
            age: 130,
            state,
            why: why.to_owned(),
            took: 12,
            repairs: u64::from(behind),
            repaired: "set inet fw s: elements added: 1, deleted: 0".into(),
            canary: !behind,
            behind,
        };
        let fleet = Fleet {
            generation: 7,
            tree: "cd".repeat(32),
            time: 1000,
            note: "less telnet".into(),
            canary: Some(Canary { label: "site=a".into(), percent: 10, tree: "ab".repeat(32) }),
            nodes: vec![
                node("fw1", 7, "in force", "", false),
                node("fw2", 0, "refused", "no such table", true),
            ],
        };
        let expected = "\
generation 7 (cdcdcdcdcdcd), abababababab for 10 % of site=a: less telnet
nodes that report: 2, behind: 1

node                 generation tree            since state                labels
fw1                           7 abababababab    2 min in force     canary  site=a
fw2                           0 -               2 min refused      behind  site=a
                     no such table
                     repairs: 1, the last of set inet fw s: elements added: 1, deleted: 0
";
        assert_eq!(fleet.to_string(), expected);
        let behind = "penstock_fleet_node_behind{node=\"fw2\",state=\"refused\"} 1\n";
        assert!(fleet.metrics().contains(behind) && fleet.metrics().ends_with("# EOF\n"));
    }
}
