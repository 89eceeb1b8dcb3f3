// SPDX-License-Identifier: Apache-2.0

//! What is in force: the digest of a manifest, with a number that only grows.
//!
//! A store keeps a head as one JSON object: `head`, the text of the head as it was signed, and
//! `signature`, 128 hexadecimal digits. The signature is over `DOMAIN` and that text, so nothing
//! has to be written in one form only. What is asked of the signature comes before anything in the
//! text is looked at.

use serde::{Deserialize, Serialize};

use crate::Digest;
use crate::digest::{from_hex, hex};
use crate::key::{PublicKey, SecretKey};
use crate::limits;

/// Stands before the text that is signed: a signature of something else is none of a head.
const DOMAIN: &[u8] = b"penstock fleet head 1\n";

/// What is in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Head {
    /// Grows by one with each head, also with one that goes back to an earlier tree.
    pub generation: u64,
    /// The manifest.
    pub tree: Digest,
    /// The blob of the signed head before, if there was one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub previous: Option<Digest>,
    /// When it was made, in seconds since the epoch.
    pub time: u64,
    /// Nodes for which another manifest is in force.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub canary: Option<Canary>,
    /// Why, in words of the publisher.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub note: String,
}

/// Some nodes run another tree first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Canary {
    /// Nodes with this label, `NAME=VALUE`, or the node of this name, `node=NAME`.
    pub label: String,
    /// So many of a hundred of them, as a hash of the name of the node decides.
    pub percent: u8,
    /// Their manifest.
    pub tree: Digest,
}

/// A head with its signature, as a store keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignedHead {
    head: String,
    signature: String,
}

/// Why a head is not one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// The bytes are no signed head.
    Form(String),
    /// The signature is of no key that is trusted.
    Signature,
}

impl std::fmt::Display for Wrong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Wrong::Form(why) => write!(f, "the head cannot be read: {why}"),
            Wrong::Signature => f.write_str("the head is not signed by a key that is trusted"),
        }
    }
}

impl std::error::Error for Wrong {}

impl SignedHead {
    /// Signs a head.
    pub fn new(head: &Head, key: &SecretKey) -> SignedHead {
        // A head has no maps with keys that are no text, and so always has a text.
        let head = serde_json::to_string(head).unwrap_or_default();
        let signature = hex(&key.sign(&[DOMAIN, head.as_bytes()].concat()));
        SignedHead { head, signature }
    }

    /// Reads what a store has.
    ///
    /// # Errors
    /// It is no signed head.
    pub fn read(bytes: &[u8]) -> Result<SignedHead, Wrong> {
        if bytes.len() as u64 > limits::HEAD {
            return Err(Wrong::Form(format!("it has {} bytes", bytes.len())));
        }
        serde_json::from_slice(bytes).map_err(|e| Wrong::Form(e.to_string()))
    }

    /// As a store keeps it.
    pub fn bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// The head, if it is signed by one of the keys.
    ///
    /// # Errors
    /// It is not, or what was signed is no head.
    pub fn verify(&self, keys: &[PublicKey]) -> Result<Head, Wrong> {
        let signature = from_hex(&self.signature).unwrap_or_default();
        let signed = [DOMAIN, self.head.as_bytes()].concat();
        if !keys.iter().any(|key| key.verifies(&signed, &signature)) {
            return Err(Wrong::Signature);
        }
        let head: Head =
            serde_json::from_str(&self.head).map_err(|e| Wrong::Form(e.to_string()))?;
        if head.canary.as_ref().is_some_and(|canary| canary.percent > 100) {
            return Err(Wrong::Form("more than a hundred percent".into()));
        }
        Ok(head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head() -> Head {
        Head {
            generation: 7,
            tree: Digest::of(b"tree"),
            previous: Some(Digest::of(b"before")),
            time: 1_767_614_400,
            canary: None,
            note: String::new(),
        }
    }

    #[test]
    fn only_heads_of_trusted_keys_are_read() {
        let [key, other] = [(); 2].map(|()| SecretKey::new().expect("a key"));
        let signed = SignedHead::new(&head(), &key);
        let read = SignedHead::read(&signed.bytes()).expect("its form is right");
        assert_eq!(read.verify(&[other.public(), key.public()]), Ok(head()));
        assert_eq!(read.verify(&[other.public()]), Err(Wrong::Signature));
        assert_eq!(read.verify(&[]), Err(Wrong::Signature));
    }

    #[test]
    fn changed_bytes_are_never_a_head() {
        let key = SecretKey::new().expect("a key");
        let bytes = SignedHead::new(&head(), &key).bytes();
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            let verified = SignedHead::read(&changed).and_then(|head| head.verify(&[key.public()]));
            assert!(verified.is_err(), "byte {at}");
            assert!(SignedHead::read(&bytes[..at]).is_err(), "{at} bytes");
        }
    }

    #[test]
    fn signature_of_another_text_is_none_of_a_head() {
        let key = SecretKey::new().expect("a key");
        let text = serde_json::to_string(&head()).expect("a text");
        let signature = hex(&key.sign(text.as_bytes()));
        let signed = SignedHead { head: text, signature };
        assert_eq!(signed.verify(&[key.public()]), Err(Wrong::Signature));
    }
}
