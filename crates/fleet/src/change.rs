// SPDX-License-Identifier: Apache-2.0

//! What leads from one manifest to the next: nothing, elements of sets, or the whole ruleset.

use crate::blobs::Blobs;
use crate::elements::Delta;
use crate::manifest::SetData;
use crate::store::Error;
use crate::{Manifest, tree};

/// What is to be done on a node that has the old one in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Nothing: the rules and elements are the same.
    Nothing,
    /// Only elements of sets differ.
    Elements(Vec<(SetData, Delta)>),
    /// More than that.
    Whole,
}

/// Compares manifests; blobs of elements are read where lists of chunks do not tell.
///
/// # Errors
/// A blob is not there, or no list of elements.
pub fn change(old: &Manifest, new: &Manifest, blobs: &Blobs<'_>) -> Result<Change, Error> {
    let rest = |manifest: &Manifest| Manifest { sets: Vec::new(), ..manifest.clone() };
    let titles = |manifest: &Manifest| manifest.sets.iter().map(SetData::title).collect::<Vec<_>>();
    if rest(old) != rest(new) || titles(old) != titles(new) {
        return Ok(Change::Whole);
    }
    let mut changed = Vec::new();
    for (before, after) in old.sets.iter().zip(&new.sets) {
        let delta = delta(before, after, blobs)?;
        if !delta.is_empty() {
            changed.push((after.clone(), delta));
        }
    }
    Ok(if changed.is_empty() { Change::Nothing } else { Change::Elements(changed) })
}

fn delta(old: &SetData, new: &SetData, blobs: &Blobs<'_>) -> Result<Delta, Error> {
    if old.chunks == new.chunks && new.deltas.starts_with(&old.deltas) {
        let added = &new.deltas[old.deltas.len()..];
        return Ok(Delta::sum(&tree::deltas(added, blobs)?));
    }
    if old.sum == new.sum && old.elements == new.elements {
        return Ok(Delta::default());
    }
    let [old, new] = [tree::elements(old, blobs)?, tree::elements(new, blobs)?];
    Ok(Delta::between(&old, &new))
}
