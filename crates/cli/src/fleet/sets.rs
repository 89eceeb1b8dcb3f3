// SPDX-License-Identifier: Apache-2.0

//! `penstock fleet set`: elements of a set change, and the rules stay.

use std::path::Path;

use penstock_daemon::errln;
use penstock_fleet::blobs::Blobs;
use penstock_fleet::draft::Draft;
use penstock_fleet::elements::{self, Delta, Elements};
use penstock_fleet::tree::{self, Tree};
use penstock_fleet::{Canary, Digest, Manifest};
use penstock_listing::element::key;
use penstock_ruleset::Ruleset;

use super::heads::Publisher;
use super::options::Verb;
use super::publication::kinds;
use crate::published::evaluate::{self, TreeFiles};

/// Changes a set in the head, and in that of a canary.
///
/// # Errors
/// There is no such set, an element is none, nothing would change, or the store is away.
pub fn change(
    publisher: &Publisher,
    verb: Verb,
    title: &[String; 3],
    file: &Path,
) -> Result<(), String> {
    let text = std::fs::read_to_string(file);
    let text = text.map_err(|e| format!("Error: {}: {e}", file.display()))?;
    let given = elements::parse(&text).map_err(|e| format!("{}:{e}", file.display()))?;
    let present = publisher.present()?.ok_or("Error: nothing is published yet")?;
    let head = &present.head;
    let tree = changed(publisher, head.tree, verb, title, &given)?;
    let canary = match &head.canary {
        None => None,
        Some(canary) => {
            let tree = changed(publisher, canary.tree, verb, title, &given)?;
            Some(Canary { tree, ..canary.clone() })
        }
    };
    if tree == head.tree && canary == head.canary {
        errln!("Nothing changes.");
        return Ok(());
    }
    publisher.make(Some(&present), tree, canary)
}

fn changed(
    publisher: &Publisher,
    tree: Digest,
    verb: Verb,
    title: &[String; 3],
    given: &Elements,
) -> Result<Digest, String> {
    let told = |e: penstock_fleet::store::Error| format!("Error: {e}");
    let blobs = Blobs::new(Some(&*publisher.store), None);
    let tree = Tree::read(tree, &blobs).map_err(told)?;
    let mut manifest: Manifest = tree.manifest.clone();
    let name = title.join(" ");
    let mut draft = Draft::default();
    let Some(set) = manifest.sets.iter_mut().find(|set| set.title() == name) else {
        if verb == Verb::Del {
            return Err(format!("Error: set {name} is not published as data"));
        }
        is_right(&tree, title, given)?;
        manifest.sets.push(draft.set(title.each_ref().map(String::as_str), given));
        return draft.put(&manifest, &*publisher.store).map_err(told);
    };
    let old = tree::elements(set, &blobs).map_err(told)?;
    let mut new = match verb {
        Verb::Sync => Elements::new(),
        Verb::Add | Verb::Del => old.clone(),
    };
    match verb {
        Verb::Add | Verb::Sync => new.extend(given.clone()),
        Verb::Del => {
            if let Some(missing) = given.keys().find(|key| !old.contains_key(*key)) {
                return Err(format!("Error: set {name} has no element {missing}"));
            }
            new.retain(|key, _| !given.contains_key(key));
        }
    }
    let delta = Delta::between(&old, &new);
    if delta.is_empty() {
        return Ok(tree.digest);
    }
    let come = delta.add.iter().map(|e| (key(e).to_owned(), e.clone())).collect();
    is_right(&tree, title, &come)?;
    *set = draft.changed(set, &old, &delta);
    draft.put(&manifest, &*publisher.store).map_err(told)
}

/// Whether the set takes the elements that come: the ruleset is evaluated with these alone.
fn is_right(tree: &Tree, title: &[String; 3], come: &Elements) -> Result<(), String> {
    let set = Draft::default().set(title.each_ref().map(String::as_str), &Elements::new());
    let text = penstock_agent::text::added(&set, come);
    let text = if text.is_empty() { format!("list set {}\n", set.title()) } else { text };
    for node in kinds(&tree.manifest) {
        let files = TreeFiles::new(tree, true, &text);
        evaluate::run(&files, &tree.manifest.defines_of(&node), &mut Ruleset::default())?;
    }
    Ok(())
}
