// SPDX-License-Identifier: Apache-2.0

//! The files of a manifest, read within limits.

use std::collections::BTreeMap;
use std::path::Path;

use crate::blobs::Blobs;
use crate::elements::{Delta, Elements, Sum, read_chunk};
use crate::manifest::{Chunk, SetData};
use crate::store::Error;
use crate::{Digest, Manifest, path};

/// So many blobs are asked for at once.
const AT_ONCE: usize = 64;

/// A manifest with its files.
#[derive(Clone, Debug)]
pub struct Tree {
    /// The name of the manifest's blob.
    pub digest: Digest,
    /// The manifest.
    pub manifest: Manifest,
    files: BTreeMap<String, Vec<u8>>,
}

impl Tree {
    /// Reads a manifest and its files; elements of sets are read when they are needed.
    ///
    /// # Errors
    /// A blob is missing or damaged, or the manifest is wrong.
    pub fn read(digest: Digest, blobs: &Blobs<'_>) -> Result<Tree, Error> {
        let manifest = Manifest::read(&blobs.one(digest)?).map_err(Error::Wrong)?;
        let mut files = BTreeMap::new();
        for (name, file) in &manifest.files {
            let mut bytes = Vec::new();
            for digests in file.pieces.chunks(AT_ONCE) {
                for piece in blobs.all(digests)? {
                    if (bytes.len() + piece.len()) as u64 > file.size {
                        return Err(Error::Wrong(format!("{name} is longer than it says")));
                    }
                    bytes.extend(piece);
                }
            }
            if bytes.len() as u64 != file.size {
                return Err(Error::Wrong(format!("{name} is shorter than it says")));
            }
            files.insert(name.clone(), bytes);
        }
        Ok(Tree { digest, manifest, files })
    }

    /// The file that a text of the tree names.
    pub fn file(&self, name: &str) -> Option<&[u8]> {
        let name = path::inside(&self.manifest.root, name)?;
        self.files.get(&name).map(Vec::as_slice)
    }

    /// Names of files that match a pattern of a text, in the form that the text has them.
    pub fn matching(&self, pattern: &str) -> Vec<String> {
        let Some(inside) = path::inside(&self.manifest.root, pattern) else { return Vec::new() };
        let found = self.files.keys().filter(|name| path::matches(&inside, name));
        let prefix = pattern.strip_suffix(&inside).unwrap_or_default();
        found.map(|name| format!("{prefix}{name}")).collect()
    }

    /// Writes all files below a directory, and `main` in place of the main file.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write(&self, directory: &Path, main: &str) -> std::io::Result<()> {
        for (name, bytes) in &self.files {
            let file = directory.join(name);
            file.parent().map_or(Ok(()), std::fs::create_dir_all)?;
            let bytes = if *name == self.manifest.main { main.as_bytes() } else { bytes };
            std::fs::write(file, bytes)?;
        }
        Ok(())
    }
}

/// All elements of a set.
///
/// # Errors
/// A blob is missing or damaged, or they are not the elements that the manifest counts.
pub fn elements(set: &SetData, blobs: &Blobs<'_>) -> Result<Elements, Error> {
    let mut elements = Elements::new();
    let digests: Vec<Digest> = set.chunks.iter().map(|chunk| chunk.digest).collect();
    for digests in digests.chunks(AT_ONCE) {
        for blob in blobs.all(digests)? {
            read_chunk(&blob, &mut elements).map_err(Error::Wrong)?;
        }
    }
    for delta in deltas(&set.deltas, blobs)? {
        delta.apply(&mut elements);
    }
    let sum = Sum::of(elements.values().map(String::as_str));
    if elements.len() as u64 != set.elements || sum != set.sum {
        return Err(Error::Wrong(format!("set {} has other elements than it says", set.title())));
    }
    Ok(elements)
}

/// Reads and checks the blobs of a set, and forgets them.
///
/// # Errors
/// A blob is missing or damaged.
pub fn checked(set: &SetData, blobs: &Blobs<'_>) -> Result<(), Error> {
    let digests: Vec<Digest> = set.blobs().collect();
    digests.chunks(AT_ONCE).try_for_each(|digests| blobs.all(digests).map(drop))
}

/// Deltas, in order.
///
/// # Errors
/// A blob is missing or damaged.
pub fn deltas(chunks: &[Chunk], blobs: &Blobs<'_>) -> Result<Vec<Delta>, Error> {
    let digests: Vec<Digest> = chunks.iter().map(|chunk| chunk.digest).collect();
    let mut deltas = Vec::new();
    for digests in digests.chunks(AT_ONCE) {
        for blob in blobs.all(digests)? {
            deltas.push(Delta::read(&blob).map_err(Error::Wrong)?);
        }
    }
    Ok(deltas)
}
