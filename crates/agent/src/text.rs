// SPDX-License-Identifier: Apache-2.0

//! Elements as commands of nft.

use penstock_fleet::elements::{Delta, Elements};
use penstock_fleet::manifest::SetData;

/// Adds elements to a set.
pub fn added(set: &SetData, elements: &Elements) -> String {
    command("add", set, elements.values().map(String::as_str))
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
