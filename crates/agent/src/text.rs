// SPDX-License-Identifier: Apache-2.0

//! Elements as commands of nft.

use penstock_fleet::blobs::Blobs;
use penstock_fleet::elements::{Delta, Elements};
use penstock_fleet::manifest::{Manifest, SetData};
use penstock_fleet::store::Error;
use penstock_fleet::tree;

/// Adds elements to a set.
pub fn added(set: &SetData, elements: &Elements) -> String {
    command("add", set, elements.values().map(String::as_str))
}

/// Adds the elements of all sets of a manifest.
///
/// # Errors
/// A blob is missing or damaged.
pub fn all(manifest: &Manifest, blobs: &Blobs<'_>) -> Result<String, Error> {
    let sets = manifest.sets.iter();
    sets.map(|set| tree::elements(set, blobs).map(|elements| added(set, &elements))).collect()
}

/// Deletes elements of a set, and adds others.
pub fn changed(set: &SetData, delta: &Delta) -> String {
    let mut text = command("delete", set, delta.remove.iter().map(String::as_str));
    text.push_str(&command("add", set, delta.add.iter().map(String::as_str)));
    text
}

fn command<'e>(verb: &str, set: &SetData, elements: impl Iterator<Item = &'e str>) -> String {
    let mut elements = elements.peekable();
    if elements.peek().is_none() {
        return String::new();
    }
    let mut text = format!("{verb} element {} {{ ", set.title());
    for element in elements {
        text.push_str(element);
        text.push_str(",\n");
    }
    text.push_str("}\n");
    text
}
