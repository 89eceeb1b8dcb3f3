// SPDX-License-Identifier: Apache-2.0

//! What a publication is made of, before its blobs are in a store.

use std::collections::BTreeMap;

use crate::elements::{self, Delta, Elements, Sum};
use crate::manifest::{Chunk, File, Manifest, SetData};
use crate::store::Error;
use crate::{Digest, Store, limits, pieces};

/// A set has at most so many deltas before it is cut into chunks again.
const DELTAS: usize = 64;

/// Blobs that are put together, by number.
const AT_ONCE: usize = 256;

/// Blobs that a publication is made of, before they are in a store.
#[derive(Clone, Debug, Default)]
pub struct Draft {
    /// By their names.
    blobs: BTreeMap<Digest, Vec<u8>>,
}

impl Draft {
    fn blob(&mut self, bytes: Vec<u8>) -> Digest {
        let digest = Digest::of(&bytes);
        self.blobs.insert(digest, bytes);
        digest
    }

    /// A blob of the draft.
    pub fn get(&self, digest: Digest) -> Option<&[u8]> {
        self.blobs.get(&digest).map(Vec::as_slice)
    }

    /// The manifest of the tree.
    pub fn manifest(&mut self, manifest: &Manifest) -> Digest {
        self.blob(manifest.bytes())
    }

    /// A file of the tree.
    pub fn file(&mut self, bytes: &[u8]) -> File {
        let pieces = pieces::cut(bytes).into_iter().map(|piece| self.blob(piece.to_vec()));
        File { size: bytes.len() as u64, pieces: pieces.collect() }
    }

    /// A set whose elements are cut into chunks.
    pub fn set(&mut self, title: [&str; 3], all: &Elements) -> SetData {
        let text = elements::text(all);
        let chunks = pieces::cut(text.as_bytes()).into_iter().map(|piece| Chunk {
            lines: piece.iter().filter(|byte| **byte == b'\n').count() as u64,
            digest: self.blob(piece.to_vec()),
        });
        let [family, table, name] = title.map(str::to_owned);
        SetData {
            family,
            table,
            name,
            elements: all.len() as u64,
            sum: Sum::of(all.values().map(String::as_str)),
            chunks: chunks.collect(),
            deltas: Vec::new(),
        }
    }

    /// A set after a change of its elements `old`: with one delta more, or cut into chunks again if
    /// deltas are many or about as large as the set.
    pub fn changed(&mut self, set: &SetData, old: &Elements, delta: &Delta) -> SetData {
        let mut sum = set.sum;
        let gone = delta.remove.iter().filter_map(|key| old.get(key));
        gone.for_each(|element| sum.remove(element));
        delta.add.iter().for_each(|element| sum.add(element));
        let text = delta.text();
        let lines: u64 = set.deltas.iter().map(|chunk| chunk.lines).sum();
        let large = (lines + delta.lines()) * 4 > set.elements;
        if set.deltas.len() >= DELTAS || text.len() > limits::PIECE || large {
            let mut all = old.clone();
            delta.apply(&mut all);
            return self.set([&set.family, &set.table, &set.name], &all);
        }
        let mut changed = set.clone();
        changed.elements = set.elements + delta.add.len() as u64 - delta.remove.len() as u64;
        changed.sum = sum;
        changed.deltas.push(Chunk { lines: delta.lines(), digest: self.blob(text.into_bytes()) });
        changed
    }

    /// Puts the blobs that the store has not got, and the manifest, which it gives the name of.
    ///
    /// # Errors
    /// The manifest is not within limits, or the store is away or refuses.
    pub fn put(mut self, manifest: &Manifest, store: &dyn Store) -> Result<Digest, Error> {
        manifest.check().map_err(Error::Refused)?;
        let bytes = manifest.bytes();
        if bytes.len() as u64 > limits::BLOB {
            return Err(Error::Refused(
                "the manifest is too long: there are too many files".into(),
            ));
        }
        let digest = self.blob(bytes);
        let names: Vec<Digest> = self.blobs.keys().copied().collect();
        let missing = store.missing(&names)?;
        for some in missing.chunks(AT_ONCE) {
            let blobs: Vec<&[u8]> =
                some.iter().filter_map(|name| self.blobs.get(name).map(Vec::as_slice)).collect();
            store.put_blobs(&blobs)?;
        }
        Ok(digest)
    }
}
