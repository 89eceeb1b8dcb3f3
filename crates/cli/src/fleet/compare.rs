// SPDX-License-Identifier: Apache-2.0

//! `penstock fleet diff`: for which packets it matters whether they meet the head or a file.

use std::path::Path;
use std::process::ExitCode;

use penstock_daemon::{now, out};
use penstock_fleet::Store;
use penstock_fleet::blobs::Blobs;
use penstock_fleet::canary::Node;
use penstock_fleet::key::PublicKey;
use penstock_fleet::publish::{Draft, Present};
use penstock_fleet::tree::Tree;
use penstock_ruleset::Ruleset;
use penstock_system::{SystemFiles, SystemNames};

use super::evaluate::{self, TreeFiles};
use super::options::Published;
use super::publication::{all_elements, kinds, manifest};
use crate::symbolic::Settings;
use crate::symbolic::change::Change;
use crate::symbolic::load::{Devices, Loaded};

/// Prints what changes for each kind of node, with the sets of the head on both sides. The exit
/// status is 1 if anything does, as that of `penstock diff`.
///
/// # Errors
/// Nothing is published, the store is away, or one of them cannot be evaluated.
pub fn compare(
    store: &dyn Store,
    keys: &[PublicKey],
    rules: &Path,
    published: &Published,
    json: bool,
) -> Result<ExitCode, String> {
    let told = |e: penstock_fleet::store::Error| format!("Error: {e}");
    let present = Present::read(store, keys).map_err(told)?;
    let present = present.ok_or("Error: nothing is published yet")?;
    let blobs = Blobs::new(Some(store), None);
    let old = Tree::read(present.head.tree, &blobs).map_err(told)?;
    let elements = all_elements(&old.manifest, &blobs).map_err(told)?;
    // Sets that are given with the file are of a draft, which is in no store.
    let kept: Vec<_> = old.manifest.sets.clone();
    let new = manifest(rules, published, &kept, &mut Draft::default())?;
    if new.sets != old.manifest.sets {
        return Err("Error: diff compares rules: sets are those of the head".into());
    }
    let (names, now) = (SystemNames::default(), now());
    let devices = Devices::known(&names);
    let mut matters = false;
    let mut all = Vec::new();
    for node in kinds(&new) {
        let mut before = Ruleset::default();
        let defines = old.manifest.defines_of(&node);
        evaluate::run(&TreeFiles::new(&old, true, &elements), &defines, &mut before)?;
        let mut after = Ruleset::default();
        let defines = new.defines_of(&node);
        let main = format!("{}/{}", new.root, new.main);
        let text = format!("include \"{main}\"\n{elements}");
        let files = SystemFiles { allow_exec: false };
        evaluate::text(&files, &new.root, ("RULES", text), &defines, &mut after, &names)?;
        let before = Loaded::of("the head", before.generation(), now)?;
        let after = Loaded::of(&rules.display().to_string(), after.generation(), now)?;
        let change = Change::new(&before, &after, &devices, &Settings::default(), None)?;
        matters |= change.matters();
        match json {
            true => all.push(serde_json::json!({ "for": of(&node), "change": change.json() })),
            false if new.nodes.is_empty() => out!("{}", change.text()),
            false => out!("For {}:\n\n{}\n", of(&node), change.text()),
        }
    }
    if json {
        out!("{:#}\n", serde_json::Value::from(all));
    }
    Ok(if matters { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The label of a kind of nodes.
fn of(node: &Node) -> String {
    match node.labels.iter().next() {
        Some((name, value)) => format!("{name}={value}"),
        None if node.name.is_empty() => "all nodes".to_owned(),
        None => format!("node={}", node.name),
    }
}
