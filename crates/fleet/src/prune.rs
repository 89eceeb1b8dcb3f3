// SPDX-License-Identifier: Apache-2.0

//! Removing blobs from a store that none of the last heads names.
//!
//! Who publishes looks at the head first, then at the blobs that are there, and replaces the head at
//! last. So what is removed is removed together with a new tag of the head: who looked before cannot
//! replace the head any more, and publishes again.

use std::collections::HashSet;

use crate::blobs::Blobs;
use crate::key::PublicKey;
use crate::publish::Present;
use crate::store::Error;
use crate::{Digest, Head, Manifest, SignedHead, Store};

/// What was kept and removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pruned {
    /// Heads that can still be rolled back to, with the present one.
    pub heads: usize,
    /// Blobs that stay.
    pub kept: usize,
    /// Blobs that are gone.
    pub removed: usize,
}

/// Removes all blobs that none of the last `keep` heads names; the present head is one of them.
/// `None` if somebody published meanwhile: some blobs may be gone, none that the last heads name.
///
/// # Errors
/// The store is away, cannot be written to or has no head; a head is not signed by one of the keys,
/// or what it names cannot be read. Then nothing is removed.
pub fn prune(store: &dyn Store, keys: &[PublicKey], keep: usize) -> Result<Option<Pruned>, Error> {
    let present = Present::read(store, keys)?;
    let present = present.ok_or_else(|| Error::Refused("nothing is published yet".into()))?;
    let (heads, wanted) = named(store, keys, &present.head, keep)?;
    let mut all = store.names()?;
    let before = all.len();
    all.retain(|digest| !wanted.contains(digest));
    let removed = all.len();
    if removed > 0 && !store.remove(&present.tag, &all)? {
        return Ok(None);
    }
    Ok(Some(Pruned { heads, kept: before - removed, removed }))
}

/// How many heads there are of those that are kept, and all that they name.
fn named(
    store: &dyn Store,
    keys: &[PublicKey],
    present: &Head,
    keep: usize,
) -> Result<(usize, HashSet<Digest>), Error> {
    let blobs = Blobs::new(Some(store), None);
    let mut wanted = HashSet::new();
    let (mut head, mut heads) = (present.clone(), 1);
    loop {
        for tree in [Some(head.tree), head.canary.as_ref().map(|canary| canary.tree)] {
            let Some(tree) = tree.filter(|tree| wanted.insert(*tree)) else { continue };
            let manifest = Manifest::read(&blobs.one(tree)?).map_err(Error::Wrong)?;
            wanted.extend(manifest.blobs());
        }
        let Some(previous) = head.previous.filter(|_| heads < keep) else { break };
        let blob = match blobs.one(previous) {
            // Removed before.
            Err(Error::Missing(_)) => break,
            other => other?,
        };
        let verified = SignedHead::read(&blob).and_then(|signed| signed.verify(keys));
        head = verified.map_err(|e| Error::Wrong(e.to_string()))?;
        wanted.insert(previous);
        heads += 1;
    }
    Ok((heads, wanted))
}
