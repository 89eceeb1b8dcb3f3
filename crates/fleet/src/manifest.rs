// SPDX-License-Identifier: Apache-2.0

//! Files, sets and nodes of a ruleset: a blob of JSON, which names all others.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::canary::Node;
use crate::elements::Sum;
use crate::{Digest, limits, path};

/// The form of manifests. Nodes refuse one with another number, which may mean something that they
/// do not know.
pub const FORM: u32 = 1;

/// A ruleset with all that belongs to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// [`FORM`].
    pub form: u32,
    /// The directory that it was published from: texts may name files by it. Empty if files are
    /// only named relative to each other.
    #[serde(default)]
    pub root: String,
    /// The file that `nft -f` would be given.
    pub main: String,
    /// All files, by their names in the tree.
    pub files: BTreeMap<String, File>,
    /// The file of claims that are to hold of the ruleset, as for `penstock nft --claims`.
    #[serde(default)]
    pub claims: Option<String>,
    /// Files of `penstock test`.
    #[serde(default)]
    pub tests: Vec<String>,
    /// Definitions for all nodes, as `nft -D` has them.
    #[serde(default)]
    pub defines: BTreeMap<String, String>,
    /// Definitions for some nodes: of several that fit, the later ones count.
    #[serde(default)]
    pub nodes: Vec<Selected>,
    /// Sets with elements that are published as data.
    #[serde(default)]
    pub sets: Vec<SetData>,
}

/// What is said of some nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Selected {
    /// Those with this label, `NAME=VALUE`, or the node of this name, `node=NAME`.
    pub label: String,
    /// Definitions.
    pub defines: BTreeMap<String, String>,
}

/// A file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// Its length in bytes.
    pub size: u64,
    /// Blobs that it is made of, in order.
    pub pieces: Vec<Digest>,
}

/// A set with elements that are published as data. The ruleset declares it, without elements.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetData {
    /// The family of its table.
    pub family: String,
    /// Its table.
    pub table: String,
    /// Its name.
    pub name: String,
    /// Its elements, after all deltas.
    pub elements: u64,
    /// Of all elements, after all deltas: what is compared.
    pub sum: Sum,
    /// Sorted elements, cut where their hashes say.
    pub chunks: Vec<Chunk>,
    /// Changes since, in order.
    #[serde(default)]
    pub deltas: Vec<Chunk>,
}

/// Elements, or changes of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chunk {
    /// The blob.
    pub digest: Digest,
    /// Its lines.
    pub lines: u64,
}

impl SetData {
    /// Family, table and name, as nft has them: `inet fw blocked`.
    pub fn title(&self) -> String {
        format!("{} {} {}", self.family, self.table, self.name)
    }

    /// Blobs of its elements.
    pub fn blobs(&self) -> impl Iterator<Item = Digest> {
        self.chunks.iter().chain(&self.deltas).map(|chunk| chunk.digest)
    }
}

impl Manifest {
    /// Reads a manifest, and checks that it stays within limits and inside its tree.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(bytes: &[u8]) -> Result<Manifest, String> {
        #[derive(Deserialize)]
        struct Form {
            form: u32,
        }
        let told = |e: serde_json::Error| format!("the manifest cannot be read: {e}");
        let Form { form } = serde_json::from_slice(bytes).map_err(told)?;
        if form != FORM {
            return Err(format!("the manifest has the form {form}, and {FORM} is known here"));
        }
        let manifest: Manifest = serde_json::from_slice(bytes).map_err(told)?;
        manifest.check()?;
        Ok(manifest)
    }

    /// As a store keeps it.
    pub fn bytes(&self) -> Vec<u8> {
        // A manifest has no maps with keys that are no text, and so always has a text.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Whether it stays within limits and inside its tree.
    ///
    /// # Errors
    /// What does not.
    pub fn check(&self) -> Result<(), String> {
        if self.files.len() > limits::FILES {
            return Err(format!("there are more than {} files", limits::FILES));
        }
        if let Some(outside) = self.files.keys().find(|name| !path::is_inside(name)) {
            return Err(format!("the file {outside:?} is not inside the tree"));
        }
        let size = self.files.values().try_fold(0u64, |sum, file| sum.checked_add(file.size));
        if size.is_none_or(|size| size > limits::TREE) {
            return Err(format!("the files have more than {} bytes", limits::TREE));
        }
        let named = [&self.main].into_iter().chain(&self.claims).chain(&self.tests);
        if let Some(missing) = named.into_iter().find(|name| !self.files.contains_key(*name)) {
            return Err(format!("the file {missing:?} is not in the tree"));
        }
        if self.sets.len() > limits::SETS {
            return Err(format!("there are more than {} sets", limits::SETS));
        }
        let elements = self.sets.iter().try_fold(0u64, |sum, set| sum.checked_add(set.elements));
        if elements.is_none_or(|elements| elements > limits::ELEMENTS) {
            return Err(format!("the sets have more than {} elements", limits::ELEMENTS));
        }
        let mut titles = BTreeSet::new();
        for set in &self.sets {
            if set.chunks.len() + set.deltas.len() > limits::CHUNKS {
                return Err(format!("set {} has too many chunks", set.title()));
            }
            if ![&set.family, &set.table, &set.name].into_iter().all(|word| is_name(word)) {
                return Err(format!("{:?} is no family, table and set", set.title()));
            }
            if !titles.insert(set.title()) {
                return Err(format!("set {} is there twice", set.title()));
            }
        }
        let defines = self.nodes.iter().flat_map(|some| &some.defines).chain(&self.defines);
        for (name, value) in defines {
            if !is_name(name) || value.chars().any(char::is_control) {
                return Err(format!("the definition of {name:?} is none"));
            }
        }
        Ok(())
    }

    /// Definitions for a node, by their names.
    pub fn defines_of(&self, node: &Node) -> BTreeMap<String, String> {
        let mut defines = self.defines.clone();
        for some in self.nodes.iter().filter(|some| node.has(&some.label)) {
            defines.extend(some.defines.clone());
        }
        defines
    }

    /// The set of a name, `FAMILY TABLE NAME`.
    pub fn set(&self, title: &str) -> Option<&SetData> {
        self.sets.iter().find(|set| set.title() == title)
    }

    /// All blobs that it names.
    pub fn blobs(&self) -> impl Iterator<Item = Digest> {
        let files = self.files.values().flat_map(|file| file.pieces.iter().copied());
        files.chain(self.sets.iter().flat_map(SetData::blobs))
    }
}

/// Names of tables, sets and definitions: nft's.
fn is_name(word: &str) -> bool {
    let mut chars = word.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || "_-/\\.".contains(c))
        && word.len() <= 128
}
