// SPDX-License-Identifier: Apache-2.0

//! Putting a head into a store, after the blobs of its tree: a node never sees a head with blobs that
//! are not there.

use crate::blobs::Blobs;
use crate::head::{Canary, Head, SignedHead};
use crate::key::{PublicKey, SecretKey};
use crate::store::{Error, Version};
use crate::{Digest, Store};

/// The head of a store, checked.
#[derive(Clone, Debug)]
pub struct Present {
    /// What the store knows it by.
    pub tag: String,
    /// As it is signed.
    pub signed: SignedHead,
    /// What it says.
    pub head: Head,
}

impl Present {
    /// Reads the head of a store, if there is one.
    ///
    /// # Errors
    /// The store is away, or the head is not signed by one of the keys.
    pub fn read(store: &dyn Store, keys: &[PublicKey]) -> Result<Option<Present>, Error> {
        let Some(Version { bytes, tag }) = store.head()? else { return Ok(None) };
        let signed = SignedHead::read(&bytes).map_err(|e| Error::Wrong(e.to_string()))?;
        let head = signed.verify(keys).map_err(|e| Error::Wrong(e.to_string()))?;
        Ok(Some(Present { tag, signed, head }))
    }

    /// The head before, if there was one.
    ///
    /// # Errors
    /// The store is away or has not got it, or it is not signed by one of the keys.
    pub fn before(
        head: &Head,
        store: &dyn Store,
        keys: &[PublicKey],
    ) -> Result<Option<Head>, Error> {
        let Some(previous) = head.previous else { return Ok(None) };
        let blobs = Blobs::new(Some(store), None);
        let signed = SignedHead::read(&blobs.one(previous)?);
        let verified = signed.and_then(|signed| signed.verify(keys));
        verified.map(Some).map_err(|e| Error::Wrong(e.to_string()))
    }
}

/// What is to be in force.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The manifest.
    pub tree: Digest,
    /// Nodes with another one.
    pub canary: Option<Canary>,
    /// Why.
    pub note: String,
}

/// Makes a head the present one. Returns it; `None` if somebody else published in between.
///
/// # Errors
/// The store is away or refuses.
pub fn publish(
    store: &dyn Store,
    key: &SecretKey,
    present: Option<&Present>,
    wanted: Wanted,
    time: u64,
) -> Result<Option<Head>, Error> {
    let previous = present.map(|present| present.signed.bytes());
    if let Some(bytes) = &previous {
        store.put_blobs(&[bytes])?;
    }
    let head = Head {
        generation: present.map_or(0, |present| present.head.generation) + 1,
        tree: wanted.tree,
        previous: previous.map(|bytes| Digest::of(&bytes)),
        time,
        canary: wanted.canary,
        note: wanted.note,
    };
    let signed = SignedHead::new(&head, key);
    let tag = present.map(|present| present.tag.as_str());
    Ok(store.swap_head(tag, &signed.bytes())?.then_some(head))
}
