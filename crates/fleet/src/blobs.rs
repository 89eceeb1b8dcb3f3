// SPDX-License-Identifier: Apache-2.0

//! Blobs of a store, kept on disk, each checked against its name.

use std::cell::RefCell;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

use penstock_files::Access;

use crate::draft::Draft;
use crate::store::{Error, blob_name};
use crate::{Digest, Store, limits};

/// Where blobs come from.
pub struct Blobs<'s> {
    store: Option<&'s dyn Store>,
    directory: Option<PathBuf>,
    draft: Option<&'s Draft>,
    /// Why the last blob was not kept.
    unkept: RefCell<Option<String>>,
}

impl<'s> Blobs<'s> {
    /// Blobs of a store, if it can be asked, and of a directory that keeps them, if there is one.
    pub fn new(store: Option<&'s dyn Store>, directory: Option<&Path>) -> Blobs<'s> {
        let directory = directory.map(|directory| directory.join("blobs"));
        Blobs { store, directory, draft: None, unkept: RefCell::new(None) }
    }

    /// Blobs of a draft, and of the store that it is for.
    pub fn of_draft(draft: &'s Draft, store: &'s dyn Store) -> Blobs<'s> {
        Blobs { draft: Some(draft), ..Blobs::new(Some(store), None) }
    }

    /// Why blobs cannot be kept, if one could not be.
    pub fn unkept(&self) -> Option<String> {
        self.unkept.borrow().clone()
    }

    /// One blob.
    ///
    /// # Errors
    /// As [`Blobs::all`].
    pub fn one(&self, digest: Digest) -> Result<Vec<u8>, Error> {
        let mut all = self.all(&[digest])?;
        all.pop().ok_or(Error::Missing(digest))
    }

    /// Blobs, in the order of their digests. Those that are on disk are not asked for.
    ///
    /// # Errors
    /// The store cannot be asked, has not got one, or has something else under its name.
    pub fn all(&self, digests: &[Digest]) -> Result<Vec<Vec<u8>>, Error> {
        let mut found: Vec<Option<Vec<u8>>> = digests.iter().map(|d| self.kept(*d)).collect();
        let missing: Vec<usize> = (0..digests.len()).filter(|n| found[*n].is_none()).collect();
        if !missing.is_empty() {
            let wanted: Vec<Digest> = missing.iter().map(|n| digests[*n]).collect();
            let store = self.store.ok_or(Error::Missing(wanted[0]))?;
            let blobs = store.blobs(&wanted)?;
            if blobs.len() != wanted.len() {
                return Err(Error::Wrong("the store answers with other blobs".into()));
            }
            for ((place, digest), blob) in missing.into_iter().zip(wanted).zip(blobs) {
                if Digest::of(&blob) != digest {
                    return Err(Error::Wrong(format!("blob {digest} is damaged in the store")));
                }
                self.keep(digest, &blob);
                found[place] = Some(blob);
            }
        }
        Ok(found.into_iter().flatten().collect())
    }

    /// A blob of the draft, or on disk, unless it is damaged.
    fn kept(&self, digest: Digest) -> Option<Vec<u8>> {
        if let Some(blob) = self.draft.and_then(|draft| draft.get(digest)) {
            return Some(blob.to_vec());
        }
        let path = self.directory.as_ref()?.join(blob_name(digest));
        let bytes = penstock_files::read(&path).ok()?;
        (bytes.len() as u64 <= limits::BLOB && Digest::of(&bytes) == digest).then_some(bytes)
    }

    fn keep(&self, digest: Digest, blob: &[u8]) {
        let Some(directory) = &self.directory else { return };
        let path = directory.join(blob_name(digest));
        let written = path.parent().map_or(Ok(()), std::fs::create_dir_all);
        if let Err(e) = written.and_then(|()| penstock_files::replace(&path, blob, Access::Owner)) {
            *self.unkept.borrow_mut() = Some(format!("{}: {e}", path.display()));
        }
    }

    /// Removes blobs from the disk that are none of these.
    pub fn forget_others(&self, wanted: &HashSet<Digest>) {
        let Some(directory) = &self.directory else { return };
        let folders = std::fs::read_dir(directory).into_iter().flatten().flatten();
        for folder in folders {
            for file in std::fs::read_dir(folder.path()).into_iter().flatten().flatten() {
                let name = [folder.file_name(), file.file_name()];
                let name = name.map(|part| part.to_string_lossy().into_owned()).concat();
                if !name.parse().is_ok_and(|digest: Digest| wanted.contains(&digest)) {
                    // What cannot be removed takes place, and nothing else.
                    let _ = std::fs::remove_file(file.path());
                }
            }
        }
    }
}
