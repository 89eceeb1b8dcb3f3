// SPDX-License-Identifier: Apache-2.0

//! Which nodes get another tree than the rest.

use std::collections::BTreeMap;

use crate::{Canary, Digest, Head};

/// A node: its name, and labels by their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// The name, which no other node has.
    pub name: String,
    /// Labels that it was started with.
    pub labels: BTreeMap<String, String>,
}

impl Node {
    /// Whether the node has a label, `NAME=VALUE`. `node=NAME` is a label that each node has.
    pub fn has(&self, label: &str) -> bool {
        let Some((name, value)) = label.split_once('=') else { return false };
        match name {
            "node" => self.name == value,
            _ => self.labels.get(name).is_some_and(|own| own == value),
        }
    }

    /// The manifest that is in force for the node, and whether it is that of the canary.
    pub fn tree_of(&self, head: &Head) -> (Digest, bool) {
        match &head.canary {
            Some(canary) if self.is_in(canary) => (canary.tree, true),
            _ => (head.tree, false),
        }
    }

    /// Whether the node is one of a canary. The hash is of its name and the tree: a larger part has
    /// the nodes of a smaller one, and other trees begin with other nodes.
    pub fn is_in(&self, canary: &Canary) -> bool {
        if !self.has(&canary.label) {
            return false;
        }
        let text = format!("{} {}", canary.tree, self.name);
        let Digest(hash) = Digest::of(text.as_bytes());
        let number = u64::from_be_bytes(std::array::from_fn(|i| hash[i]));
        // The part of the whole range that is below the percentage.
        u128::from(number) * 100 < u128::from(canary.percent) << 64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(n: usize) -> Node {
        let site = if n.is_multiple_of(2) { "even" } else { "odd" };
        let labels = [("site".to_owned(), site.to_owned())].into();
        Node { name: format!("fw{n}"), labels }
    }

    #[test]
    fn part_of_the_label_grows_and_keeps_its_nodes() {
        let mut before = Vec::new();
        for percent in [0, 1, 10, 50, 99, 100] {
            let canary = Canary { label: "site=even".into(), percent, tree: Digest::of(b"new") };
            let now: Vec<usize> = (0..2000).filter(|n| node(*n).is_in(&canary)).collect();
            assert!(now.iter().all(|n| n.is_multiple_of(2)));
            assert!(before.iter().all(|n| now.contains(n)), "{percent} %");
            let expected = 10 * usize::from(percent);
            assert!(now.len().abs_diff(expected) <= 50, "{percent} %: {}", now.len());
            before = now;
        }
        assert_eq!(before.len(), 1000);
    }

    #[test]
    fn labels_select_nodes() {
        for (label, expected) in [
            ("site=even", true),
            ("site=odd", false),
            ("node=fw2", true),
            ("node=fw3", false),
            ("site", false),
            ("rack=7", false),
        ] {
            assert_eq!(node(2).has(label), expected, "{label}");
        }
    }
}
