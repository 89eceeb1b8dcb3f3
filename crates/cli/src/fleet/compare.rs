// SPDX-License-Identifier: Apache-2.0

//! `penstock fleet diff`: for which packets it matters whether they meet the head or a file.

use std::path::Path;
use std::process::ExitCode;

use penstock_daemon::{now, out};
use penstock_fleet::Store;
use penstock_fleet::blobs::Blobs;
use penstock_fleet::canary::Node;
use penstock_fleet::draft::Draft;
use penstock_fleet::key::PublicKey;
use penstock_fleet::publish::Present;
use penstock_fleet::tree::Tree;
use penstock_ruleset::Ruleset;
use penstock_system::SystemNames;

use super::options::Published;
use super::publication::{all_elements, kinds, manifest};
use crate::published::evaluate::{self, TreeFiles};
use crate::symbolic::Settings;
use crate::symbolic::change::Change;
use crate::symbolic::load::{Devices, Loaded};

/// Prints what changes for each kind of node. The exit
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
    let mut draft = Draft::default();
    let new = manifest(rules, published, &old.manifest.sets, &mut draft)?;
    let digest = draft.manifest(&new);
    let blobs = Blobs::of_draft(&draft, store);
    let new = Tree::read(digest, &blobs).map_err(told)?;
    let new_elements = all_elements(&new.manifest, &blobs).map_err(told)?;
    let (names, now) = (SystemNames::default(), now());
    let devices = Devices::known(&names);
    let mut matters = false;
    let mut all = Vec::new();
    for node in kinds(&new.manifest) {
        let of = |tree: &Tree, elements: &str| {
            let mut ruleset = Ruleset::default();
            let defines = tree.manifest.defines_of(&node);
            evaluate::run(&TreeFiles::new(tree, true, elements), &defines, &mut ruleset)?;
            Ok::<_, String>(ruleset)
        };
        let before = of(&old, &elements)?;
        let after = of(&new, &new_elements)?;
        let before = Loaded::of("the head", before.generation(), now)?;
        let after = Loaded::of(&rules.display().to_string(), after.generation(), now)?;
        let change = Change::new(&before, &after, &devices, &Settings::default(), None)?;
        matters |= change.matters();
        match json {
            true => all.push(serde_json::json!({ "for": title(&node), "change": change.json() })),
            false if new.manifest.nodes.is_empty() => out!("{}", change.text()),
            false => out!("For {}:\n\n{}\n", title(&node), change.text()),
        }
    }
    if json {
        out!("{:#}\n", serde_json::Value::from(all));
    }
    Ok(if matters { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The label of a kind of nodes.
fn title(node: &Node) -> String {
    match node.labels.iter().next() {
        Some((name, value)) => format!("{name}={value}"),
        None if node.name.is_empty() => "all nodes".to_owned(),
        None => format!("node={}", node.name),
    }
}
