// SPDX-License-Identifier: Apache-2.0

//! AES-GCM (RFC 4106) and ChaCha20-Poly1305 (RFC 7634): a nonce of four secret bytes and eight that
//! travel.

use ring::aead::{
    AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey,
};
use subtle::ConstantTimeEq;

use super::{Bad, ESP, Seq};
use crate::Aead;

const IV: usize = 8;
const TAG: usize = 16;

pub(crate) struct AeadKey {
    key: LessSafeKey,
    salt: [u8; 4],
    icv: usize,
    /// Vectors are the sequence number under this mask, as the kernel's `seqiv`: a state that
    /// restarts its count with the same key does not repeat them.
    mask: u64,
}

/// SPI and sequence number, with its high half between them if that counts.
struct Associated {
    bytes: [u8; 12],
    len: usize,
}

impl Associated {
    #[inline]
    fn of(header: &[u8; ESP], seq: Seq) -> Self {
        let mut bytes = [0; 12];
        if seq.esn {
            let [a, b, c, d, low @ ..] = *header;
            let spi = u32::from_be_bytes([a, b, c, d]);
            let front = u64::from(spi) << 32 | seq.number >> 32;
            bytes[..8].copy_from_slice(&front.to_be_bytes());
            bytes[8..].copy_from_slice(&low);
            return Associated { bytes, len: 12 };
        }
        bytes[..8].copy_from_slice(header);
        Associated { bytes, len: 8 }
    }

    #[inline]
    fn aad(&self) -> Aad<&[u8]> {
        Aad::from(&self.bytes[..self.len])
    }
}

impl AeadKey {
    pub(super) fn new(aead: &Aead, mask: u64) -> Option<Self> {
        let (algorithm, bytes, salt, icv) = match aead {
            Aead::AesGcm { key, salt, icv } if key.len() == 16 => {
                (&AES_128_GCM, &key[..], salt, *icv)
            }
            Aead::AesGcm { key, salt, icv } => (&AES_256_GCM, &key[..], salt, *icv),
            Aead::ChaCha20Poly1305 { key, salt } => (&CHACHA20_POLY1305, &key[..], salt, TAG),
        };
        let key = LessSafeKey::new(UnboundKey::new(algorithm, bytes).ok()?);
        Some(AeadKey { key, salt: *salt, icv, mask })
    }

    pub(super) fn icv_len(&self) -> usize {
        self.icv
    }

    #[inline]
    fn nonce(&self, iv: &[u8; IV]) -> Nonce {
        // In words: bytes that are written one by one and read together have to wait.
        let (salt, iv) = (u32::from_be_bytes(self.salt), u64::from_be_bytes(*iv));
        let mut nonce = [0; 12];
        nonce[..8].copy_from_slice(&(u64::from(salt) << 32 | iv >> 32).to_be_bytes());
        nonce[8..].copy_from_slice(&(iv as u32).to_be_bytes());
        Nonce::assume_unique_for_key(nonce)
    }

    #[inline]
    fn encrypt(
        &self,
        iv: &[u8; IV],
        associated: &Associated,
        text: &mut [u8],
    ) -> Result<[u8; TAG], Bad> {
        let tag = self.key.seal_in_place_separate_tag(self.nonce(iv), associated.aad(), text);
        let tag = tag.map_err(|_| Bad)?;
        tag.as_ref().try_into().map_err(|_| Bad)
    }

    #[inline]
    pub(super) fn seal(&self, seq: Seq, esp: &mut [u8]) -> Result<(), Bad> {
        let (header, rest) = esp.split_first_chunk_mut::<ESP>().ok_or(Bad)?;
        let (iv, rest) = rest.split_first_chunk_mut::<IV>().ok_or(Bad)?;
        let (text, icv) =
            rest.split_at_mut_checked(rest.len().wrapping_sub(self.icv)).ok_or(Bad)?;
        *iv = (seq.number ^ self.mask).to_be_bytes();
        let tag = self.encrypt(iv, &Associated::of(header, seq), text)?;
        icv.copy_from_slice(&tag[..self.icv]);
        Ok(())
    }

    #[inline]
    pub(super) fn open(&self, seq: Seq, esp: &mut [u8]) -> Result<(), Bad> {
        let (header, rest) = esp.split_first_chunk_mut::<ESP>().ok_or(Bad)?;
        let (iv, rest) = rest.split_first_chunk_mut::<IV>().ok_or(Bad)?;
        let associated = Associated::of(header, seq);
        if self.icv == TAG {
            return match self.key.open_in_place(self.nonce(iv), associated.aad(), rest) {
                Ok(_) => Ok(()),
                Err(_) => Err(Bad),
            };
        }
        let (text, icv) =
            rest.split_at_mut_checked(rest.len().wrapping_sub(self.icv)).ok_or(Bad)?;
        self.open_cut(iv, &associated, text, icv)
    }

    /// With an integrity value that is cut off, which ring does not know. The cipher is a stream
    /// that is added, so encrypting what is encrypted gives the text; encrypting that gives the
    /// whole integrity value to compare with. Without agreement the text is as it came.
    #[cold]
    fn open_cut(
        &self,
        iv: &[u8; IV],
        associated: &Associated,
        text: &mut [u8],
        icv: &[u8],
    ) -> Result<(), Bad> {
        self.encrypt(iv, associated, text)?;
        let tag = self.encrypt(iv, associated, text)?;
        if !bool::from(tag[..self.icv].ct_eq(icv)) {
            return Err(Bad);
        }
        self.encrypt(iv, associated, text)?;
        Ok(())
    }
}
