// SPDX-License-Identifier: Apache-2.0

//! AES-CBC (RFC 3602) or no encryption, then HMAC (RFC 4868, 2404) or no integrity.

use aes::cipher::consts::U16;
use aes::cipher::{
    Array, BlockCipherEncrypt, BlockModeDecrypt, BlockModeEncrypt, InnerIvInit, KeyInit,
};
use aes::{Aes128, Aes192, Aes256};
use ring::hmac;
use subtle::ConstantTimeEq;

use super::{Bad, ESP, Seq};
use crate::{Authentication, Encryption};

type Block = Array<u8, U16>;

const BLOCK: usize = 16;

enum Cipher {
    Null,
    Aes128(Box<Aes128>),
    Aes192(Box<Aes192>),
    Aes256(Box<Aes256>),
}

impl Cipher {
    fn new(encryption: &Encryption) -> Option<Cipher> {
        let Encryption::AesCbc(key) = encryption else { return Some(Cipher::Null) };
        Some(match key.len() {
            16 => Cipher::Aes128(Box::new(Aes128::new_from_slice(key).ok()?)),
            24 => Cipher::Aes192(Box::new(Aes192::new_from_slice(key).ok()?)),
            _ => Cipher::Aes256(Box::new(Aes256::new_from_slice(key).ok()?)),
        })
    }

    /// One block by itself.
    fn encrypt_block(&self, block: &mut Block) {
        match self {
            Cipher::Null => {}
            Cipher::Aes128(key) => key.encrypt_block(block),
            Cipher::Aes192(key) => key.encrypt_block(block),
            Cipher::Aes256(key) => key.encrypt_block(block),
        }
    }

    fn encrypt(&self, iv: &Block, blocks: &mut [Block]) {
        match self {
            Cipher::Null => {}
            Cipher::Aes128(key) => cbc::Encryptor::inner_iv_init(&**key, iv).encrypt_blocks(blocks),
            Cipher::Aes192(key) => cbc::Encryptor::inner_iv_init(&**key, iv).encrypt_blocks(blocks),
            Cipher::Aes256(key) => cbc::Encryptor::inner_iv_init(&**key, iv).encrypt_blocks(blocks),
        }
    }

    fn decrypt(&self, iv: &Block, blocks: &mut [Block]) {
        match self {
            Cipher::Null => {}
            Cipher::Aes128(key) => cbc::Decryptor::inner_iv_init(&**key, iv).decrypt_blocks(blocks),
            Cipher::Aes192(key) => cbc::Decryptor::inner_iv_init(&**key, iv).decrypt_blocks(blocks),
            Cipher::Aes256(key) => cbc::Decryptor::inner_iv_init(&**key, iv).decrypt_blocks(blocks),
        }
    }
}

pub(crate) struct PairKey {
    cipher: Cipher,
    mac: Option<hmac::Key>,
    icv: usize,
    /// Initialization vectors are the sequence number added to this, encrypted: they are
    /// unpredictable (NIST SP 800-38A, appendix C).
    salt: u128,
}

impl PairKey {
    pub(super) fn new(
        encryption: &Encryption,
        authentication: &Authentication,
        salt: u128,
    ) -> Option<Self> {
        let (mac, icv) = match authentication {
            Authentication::Null => (None, 0),
            Authentication::HmacSha1(key, icv) => {
                (Some((hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, key)), *icv)
            }
            Authentication::HmacSha256(key, icv) => (Some((hmac::HMAC_SHA256, key)), *icv),
            Authentication::HmacSha384(key, icv) => (Some((hmac::HMAC_SHA384, key)), *icv),
            Authentication::HmacSha512(key, icv) => (Some((hmac::HMAC_SHA512, key)), *icv),
        };
        let mac = mac.map(|(algorithm, key)| hmac::Key::new(algorithm, key));
        Some(PairKey { cipher: Cipher::new(encryption)?, mac, icv, salt })
    }

    pub(super) fn iv_len(&self) -> usize {
        if matches!(self.cipher, Cipher::Null) { 0 } else { BLOCK }
    }

    pub(super) fn block_len(&self) -> usize {
        if matches!(self.cipher, Cipher::Null) { 4 } else { BLOCK }
    }

    pub(super) fn icv_len(&self) -> usize {
        self.icv
    }

    /// Over all of the packet but the integrity value, and the high half of the sequence number if
    /// that counts.
    fn tag(&self, seq: Seq, bytes: &[u8]) -> Option<hmac::Tag> {
        let mut context = hmac::Context::with_key(self.mac.as_ref()?);
        context.update(bytes);
        if seq.esn {
            context.update(&seq.high());
        }
        Some(context.sign())
    }

    /// Initialization vector and blocks of what follows the header.
    fn parts<'b>(
        &self,
        body: &'b mut [u8],
    ) -> Result<Option<(&'b mut Block, &'b mut [Block])>, Bad> {
        if matches!(self.cipher, Cipher::Null) {
            return Ok(None);
        }
        let (blocks, rest) = Block::slice_as_chunks_mut(body);
        match blocks.split_first_mut() {
            Some((iv, blocks)) if rest.is_empty() => Ok(Some((iv, blocks))),
            _ => Err(Bad),
        }
    }

    pub(super) fn seal(&self, seq: Seq, esp: &mut [u8]) -> Result<(), Bad> {
        let (covered, icv) =
            esp.split_at_mut_checked(esp.len().wrapping_sub(self.icv)).ok_or(Bad)?;
        let (_, body) = covered.split_first_chunk_mut::<ESP>().ok_or(Bad)?;
        if let Some((iv, blocks)) = self.parts(body)? {
            *iv = Block::from((self.salt.wrapping_add(u128::from(seq.number))).to_be_bytes());
            self.cipher.encrypt_block(iv);
            self.cipher.encrypt(iv, blocks);
        }
        if let Some(tag) = self.tag(seq, covered) {
            icv.copy_from_slice(tag.as_ref().get(..self.icv).ok_or(Bad)?);
        }
        Ok(())
    }

    pub(super) fn open(&self, seq: Seq, esp: &mut [u8]) -> Result<(), Bad> {
        let (covered, icv) =
            esp.split_at_mut_checked(esp.len().wrapping_sub(self.icv)).ok_or(Bad)?;
        if let Some(tag) = self.tag(seq, covered) {
            let tag = tag.as_ref().get(..self.icv).ok_or(Bad)?;
            if !bool::from(tag.ct_eq(icv)) {
                return Err(Bad);
            }
        }
        let (_, body) = covered.split_first_chunk_mut::<ESP>().ok_or(Bad)?;
        if let Some((iv, blocks)) = self.parts(body)? {
            self.cipher.decrypt(iv, blocks);
        }
        Ok(())
    }
}
