// SPDX-License-Identifier: Apache-2.0

//! A message: version (a byte, 1), whether the records are sealed (a byte), the length of the sender's
//! name (a byte) and the name, epoch, generation and sequence number (eight bytes each, in network
//! order), and the records.
//!
//! With a shared key, records are encrypted, and authenticated together with what is before them
//! (AES-256-GCM). The key of an epoch is derived from the shared one, the names of cluster and
//! sender, epoch and generation (HKDF with SHA-256, RFC 5869); the nonce is the sequence number, which
//! an epoch of a process has once.

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Salt};

use crate::node_name::is_node_name;
use crate::secure::{LONGEST_FRAME, PrivateKey};

/// Bytes of records in a message at most.
pub const LONGEST_PLAIN: usize = 2 * LONGEST_FRAME;
/// Version of messages.
const VERSION: u8 = 1;
/// What keys are derived for.
const PURPOSE: &[u8] = b"penstock cluster 1";
/// Bytes of a tag.
const TAG: usize = 16;

/// Who sends a message, and where it belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head<'a> {
    /// Name of the node.
    pub sender: &'a str,
    /// When it has begun to send: later ones are greater.
    pub epoch: u64,
    /// Of its tables: another one for each process.
    pub generation: u64,
    /// Counts messages of the epoch, from 1.
    pub sequence: u64,
}

impl Head<'_> {
    /// What a message says of itself, which nobody has checked.
    pub fn of(message: &[u8]) -> Option<Head<'_>> {
        read_head(message).map(|(_, head, _)| head)
    }
}

/// Why a message is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It is no message of a version that is known.
    Malformed,
    /// It is sealed by another key or was changed; or it is not sealed and should be, or the other
    /// way around.
    Key,
}

/// How messages of a cluster are sealed and opened.
#[derive(Clone)]
pub struct Sealing {
    shared: Option<PrivateKey>,
    cluster: String,
}

impl std::fmt::Debug for Sealing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sealing").field("cluster", &self.cluster).finish_non_exhaustive()
    }
}

fn nonce(sequence: u64) -> Nonce {
    let mut nonce = [0; NONCE_LEN];
    nonce[NONCE_LEN - 8..].copy_from_slice(&sequence.to_be_bytes());
    Nonce::assume_unique_for_key(nonce)
}

/// Cuts so many bytes off.
fn cut<'a, const N: usize>(rest: &mut &'a [u8]) -> Option<&'a [u8; N]> {
    let (first, after) = rest.split_first_chunk::<N>()?;
    *rest = after;
    Some(first)
}

/// Whether it is sealed, the head, and how many bytes are before the records.
fn read_head(message: &[u8]) -> Option<(bool, Head<'_>, usize)> {
    let mut rest = message;
    let [VERSION, sealed @ 0..=1, len] = *cut(&mut rest)? else { return None };
    let (name, after) = rest.split_at_checked(len.into())?;
    rest = after;
    let sender = std::str::from_utf8(name).ok().filter(|name| is_node_name(name))?;
    let epoch = u64::from_be_bytes(*cut(&mut rest)?);
    let generation = u64::from_be_bytes(*cut(&mut rest)?);
    let sequence = u64::from_be_bytes(*cut(&mut rest)?);
    let head = Head { sender, epoch, generation, sequence };
    Some((sealed == 1, head, message.len() - rest.len()))
}

impl Sealing {
    /// With a key that all nodes have, or without one.
    pub fn new(shared: Option<PrivateKey>, cluster: &str) -> Self {
        Sealing { shared, cluster: cluster.to_owned() }
    }

    /// The key of an epoch; `None` without a shared key.
    fn key(&self, head: &Head<'_>) -> Option<LessSafeKey> {
        let shared = self.shared.as_ref()?.bytes();
        let (epoch, generation) = (head.epoch.to_be_bytes(), head.generation.to_be_bytes());
        // Names have no zero byte.
        let info =
            [self.cluster.as_bytes(), &[0], head.sender.as_bytes(), &[0], &epoch, &generation];
        let secret = Salt::new(HKDF_SHA256, PURPOSE).extract(shared);
        let derived = secret.expand(&info, &AES_256_GCM).ok()?;
        Some(LessSafeKey::new(UnboundKey::from(derived)))
    }

    /// A message with records, [`LONGEST_PLAIN`] bytes of them at most.
    ///
    /// # Errors
    /// [`Refused::Malformed`]: the name is none, or the records are too long.
    pub fn seal(&self, head: &Head<'_>, records: &[u8]) -> Result<Vec<u8>, Refused> {
        if !is_node_name(head.sender) || records.len() > LONGEST_PLAIN {
            return Err(Refused::Malformed);
        }
        let key = self.key(head);
        let mut out = Vec::with_capacity(3 + head.sender.len() + 24 + records.len() + TAG);
        out.extend([VERSION, u8::from(key.is_some()), head.sender.len() as u8]);
        out.extend(head.sender.as_bytes());
        for number in [head.epoch, head.generation, head.sequence] {
            out.extend(number.to_be_bytes());
        }
        let begin = out.len();
        out.extend(records);
        if let Some(key) = key {
            let (before, plain) = out.split_at_mut(begin);
            let aad = Aad::from(&*before);
            let tag = key.seal_in_place_separate_tag(nonce(head.sequence), aad, plain);
            out.extend(tag.map_err(|_| Refused::Malformed)?.as_ref());
        }
        Ok(out)
    }

    /// Who sends a message, and its records, which are decrypted in their place.
    ///
    /// # Errors
    /// It is none, or the key does not fit.
    pub fn open<'a>(&self, message: &'a mut [u8]) -> Result<(Head<'a>, &'a [u8]), Refused> {
        let (sealed, _, begin) = read_head(message).ok_or(Refused::Malformed)?;
        if message.len() - begin > LONGEST_PLAIN + TAG {
            return Err(Refused::Malformed);
        }
        let (before, records) = message.split_at_mut(begin);
        let before = &*before;
        let (_, head, _) = read_head(before).ok_or(Refused::Malformed)?;
        match (self.key(&head), sealed) {
            (None, false) => Ok((head, records)),
            (Some(key), true) => {
                let opened = key.open_in_place(nonce(head.sequence), Aad::from(before), records);
                Ok((head, opened.map_err(|_| Refused::Key)?))
            }
            _ => Err(Refused::Key),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: Head<'static> =
        Head { sender: "fw-1", epoch: 7, generation: u64::MAX, sequence: 1 << 40 };

    fn key() -> Option<PrivateKey> {
        Some(PrivateKey::generate().unwrap())
    }

    #[test]
    fn messages_are_opened_as_they_were_sealed() {
        for shared in [None, key()] {
            let sealing = Sealing::new(shared.clone(), "c");
            for len in [0, 1, 1000, LONGEST_PLAIN] {
                let records = vec![7; len];
                let mut message = sealing.seal(&HEAD, &records).unwrap();
                let plain = message.windows(8).any(|part| part == [7; 8]);
                assert_eq!(plain, shared.is_none() && len >= 8);
                assert_eq!(Head::of(&message), Some(HEAD));
                assert_eq!(sealing.open(&mut message), Ok((HEAD, &records[..])));
            }
            let longer = vec![0; LONGEST_PLAIN + 1];
            assert_eq!(sealing.seal(&HEAD, &longer), Err(Refused::Malformed));
            for sender in ["", "a.b", "a b", &"n".repeat(64)] {
                let head = Head { sender, ..HEAD };
                assert_eq!(sealing.seal(&head, b""), Err(Refused::Malformed));
            }
        }
    }

    #[test]
    fn messages_of_who_has_not_the_key_are_refused() {
        let shared = key();
        let sealing = Sealing::new(shared.clone(), "c");
        let message = sealing.seal(&HEAD, b"records").unwrap();
        for (other, cluster) in [(key(), "c"), (None, "c"), (shared.clone(), "d")] {
            let other = Sealing::new(other, cluster);
            assert_eq!(other.open(&mut message.clone()), Err(Refused::Key));
            let mut back = other.seal(&HEAD, b"records").unwrap();
            assert_eq!(sealing.open(&mut back), Err(Refused::Key));
        }
        // Every bit counts.
        for at in 0..message.len() {
            let mut wrong = message.clone();
            wrong[at] ^= 1;
            assert!(sealing.open(&mut wrong).is_err(), "{at}");
            let mut short = message[..at].to_vec();
            assert!(sealing.open(&mut short).is_err(), "{at}");
        }
    }
}
