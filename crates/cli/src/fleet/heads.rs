// SPDX-License-Identifier: Apache-2.0

//! Commands that make another head: publish, canary, promote, roll back; and what removes earlier ones.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use penstock_daemon::out;
use penstock_fleet::blobs::Blobs;
use penstock_fleet::key::{PublicKey, SecretKey};
use penstock_fleet::manifest::SetData;
use penstock_fleet::prune;
use penstock_fleet::publish::{Present, Wanted, publish};
use penstock_fleet::store::Error;
use penstock_fleet::{Canary, Digest, Manifest, Store};

use super::options::Published;
use super::publication;

/// A store, and the key to sign with.
pub struct Publisher {
    /// The store.
    pub store: Box<dyn Store>,
    /// Signs.
    pub key: SecretKey,
    /// Whose heads may be replaced.
    pub trusted: Vec<PublicKey>,
    /// Why.
    pub note: String,
    /// What none of so many heads names is removed after a publication.
    pub keep: Option<usize>,
}

impl Publisher {
    /// The present head, if there is one.
    ///
    /// # Errors
    /// The store is away, or the head is not signed by a key that is trusted.
    pub fn present(&self) -> Result<Option<Present>, String> {
        Present::read(&*self.store, &self.trusted).map_err(|e| format!("Error: {e}"))
    }

    fn some_present(&self) -> Result<Present, String> {
        self.present()?.ok_or_else(|| "Error: nothing is published yet".to_owned())
    }

    /// Makes a head, and says which.
    ///
    /// # Errors
    /// The store is away, or somebody else made one.
    pub fn make(
        &self,
        present: Option<&Present>,
        tree: Digest,
        canary: Option<Canary>,
    ) -> Result<(), String> {
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let wanted = Wanted { tree, canary, note: self.note.clone() };
        let made = publish(&*self.store, &self.key, present, wanted, time);
        let head = made.map_err(|e| format!("Error: {e}"))?.ok_or(
            "Error: somebody else published meanwhile; look at `penstock fleet status`, and try again",
        )?;
        out!("generation {}: {}", head.generation, head.tree.short());
        if let Some(Canary { label, percent, tree }) = &head.canary {
            out!(", {} for {percent} % of {label}", tree.short());
        }
        out!("\n");
        match self.keep {
            Some(keep) => prune(&*self.store, &self.trusted, keep),
            None => Ok(()),
        }
    }

    /// Sets of a tree.
    fn sets(&self, tree: Digest) -> Result<Vec<SetData>, String> {
        self.manifest(tree).map(|manifest| manifest.sets)
    }

    /// A manifest of the store.
    ///
    /// # Errors
    /// The store is away, or it is none.
    pub fn manifest(&self, tree: Digest) -> Result<Manifest, String> {
        let blob = Blobs::new(Some(&*self.store), None).one(tree);
        let manifest = blob.map_err(|e| e.to_string()).and_then(|blob| Manifest::read(&blob));
        manifest.map_err(|e| format!("Error: {e}"))
    }

    /// Publishes for all nodes. A canary ends.
    ///
    /// # Errors
    /// The ruleset is refused, or the store is away.
    pub fn publish(&self, rules: &Path, published: &Published) -> Result<(), String> {
        let present = self.present()?;
        let sets = match &present {
            Some(present) => self.sets(present.head.tree)?,
            None => Vec::new(),
        };
        let tree = publication::put(rules, published, &sets, &*self.store)?;
        self.make(present.as_ref(), tree, None)
    }

    /// Publishes for some nodes, or changes who they are.
    ///
    /// # Errors
    /// The ruleset is refused, the store is away, or there is no canary that could change.
    pub fn canary(
        &self,
        label: &str,
        percent: u8,
        rules: Option<&Path>,
        published: &Published,
    ) -> Result<(), String> {
        let present = self.some_present()?;
        let tree = match (rules, &present.head.canary) {
            (Some(rules), _) => {
                let sets = self.sets(present.head.tree)?;
                publication::put(rules, published, &sets, &*self.store)?
            }
            (None, Some(canary)) => canary.tree,
            (None, None) => return Err("Error: there is no canary: which RULES?".into()),
        };
        let canary = Canary { label: label.to_owned(), percent, tree };
        self.make(Some(&present), present.head.tree, Some(canary))
    }

    /// All nodes get what the canary has.
    ///
    /// # Errors
    /// There is none, or the store is away.
    pub fn promote(&self) -> Result<(), String> {
        let present = self.some_present()?;
        let canary = present.head.canary.as_ref().ok_or("Error: there is no canary")?;
        self.make(Some(&present), canary.tree, None)
    }

    /// Takes the canary back, or publishes again what was before the present tree.
    ///
    /// # Errors
    /// Nothing was, or the store is away.
    pub fn rollback(&self) -> Result<(), String> {
        let present = self.some_present()?;
        if present.head.canary.is_some() {
            return self.make(Some(&present), present.head.tree, None);
        }
        let mut head = present.head.clone();
        while head.tree == present.head.tree {
            let before = Present::before(&head, &*self.store, &self.trusted);
            head = before
                .map_err(|e| match e {
                    Error::Missing(_) => {
                        "Error: the ruleset before this one was removed from the store".to_owned()
                    }
                    e => format!("Error: {e}"),
                })?
                .ok_or("Error: there is no other ruleset before this one")?;
        }
        self.make(Some(&present), head.tree, None)
    }
}

/// Removes what none of the last heads names, and says how much it was.
///
/// # Errors
/// The store is away or cannot be written to, or somebody published meanwhile.
pub fn prune(store: &dyn Store, keys: &[PublicKey], keep: usize) -> Result<(), String> {
    let pruned = prune::prune(store, keys, keep).map_err(|e| format!("Error: {e}"))?;
    let pruned = pruned.ok_or(
        "Error: somebody else published meanwhile: not all that could be removed was; try again",
    )?;
    let prune::Pruned { heads, kept, removed } = pruned;
    out!("heads kept: {heads}, blobs kept: {kept}, removed: {removed}\n");
    Ok(())
}
