// SPDX-License-Identifier: Apache-2.0

//! What happens to the bytes between the ESP header and the integrity value, in place.
//!
//! All functions work on one ESP packet from its SPI to the last byte of the integrity value. Its
//! header, and on the way out the padded payload, are there already; the initialization vector
//! after the header is written here.

mod aead;
mod pair;

use crate::Algorithms;

pub(crate) use aead::AeadKey;
pub(crate) use pair::PairKey;

/// Bytes of SPI and sequence number.
pub(crate) const ESP: usize = 8;

/// The packet is not what it should be: its integrity value is another, or there is not enough of
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bad;

/// Sequence number of a packet, and whether its high half counts ([`Seq::esn`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seq {
    pub(crate) number: u64,
    pub(crate) esn: bool,
}

impl Seq {
    fn high(self) -> [u8; 4] {
        ((self.number >> 32) as u32).to_be_bytes()
    }
}

/// Expanded keys of a state.
pub(crate) enum Key {
    Aead(Box<AeadKey>),
    Pair(Box<PairKey>),
}

impl Key {
    /// `salt` makes initialization vectors differ between states that have the same key.
    pub(crate) fn new(algorithms: &Algorithms, salt: u128) -> Option<Key> {
        Some(match algorithms {
            Algorithms::Aead(aead) => Key::Aead(Box::new(AeadKey::new(aead, salt as u64)?)),
            Algorithms::Pair(encryption, authentication) => {
                Key::Pair(Box::new(PairKey::new(encryption, authentication, salt)?))
            }
        })
    }

    /// Bytes of the initialization vector that travels with each packet.
    pub(crate) fn iv_len(&self) -> usize {
        match self {
            Key::Aead(_) => 8,
            Key::Pair(pair) => pair.iv_len(),
        }
    }

    /// Payload and trailer are padded to a multiple of this many bytes.
    pub(crate) fn block_len(&self) -> usize {
        match self {
            Key::Aead(_) => 4,
            Key::Pair(pair) => pair.block_len(),
        }
    }

    /// Bytes of the integrity value.
    pub(crate) fn icv_len(&self) -> usize {
        match self {
            Key::Aead(aead) => aead.icv_len(),
            Key::Pair(pair) => pair.icv_len(),
        }
    }

    /// Encrypts, and fills in initialization vector and integrity value.
    #[inline]
    pub(crate) fn seal(&self, seq: Seq, esp: &mut [u8]) -> Result<(), Bad> {
        match self {
            Key::Aead(aead) => aead.seal(seq, esp),
            Key::Pair(pair) => pair.seal(seq, esp),
        }
    }

    /// Checks and decrypts.
    #[inline]
    pub(crate) fn open(&self, seq: Seq, esp: &mut [u8]) -> Result<(), Bad> {
        match self {
            Key::Aead(aead) => aead.open(seq, esp),
            Key::Pair(pair) => pair.open(seq, esp),
        }
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Key::Aead(_) => "Aead",
            Key::Pair(_) => "Pair",
        })
    }
}
