// SPDX-License-Identifier: Apache-2.0

//! The algorithms of the handshake and of frames: those of ring, and X25519 of curve25519-dalek,
//! since ring has no static keys for it.

use curve25519_dalek::MontgomeryPoint;
use snow::params::{CipherChoice, DHChoice, HashChoice};
use snow::resolvers::{CryptoResolver, RingResolver};
use snow::types::{Cipher, Dh, Hash, Random};
use snow::{Builder, Error};

/// Pattern and algorithms.
const PARAMETERS: &str = "Noise_IK_25519_AESGCM_SHA256";

/// Bytes of a key.
pub(super) const KEY: usize = 32;

/// X25519 (RFC 7748) with a private key.
#[derive(Default)]
struct X25519 {
    private: [u8; KEY],
    public: [u8; KEY],
}

/// The public key of a private one.
pub(super) fn public_key(private: &[u8; KEY]) -> [u8; KEY] {
    MontgomeryPoint::mul_base_clamped(*private).to_bytes()
}

fn key(bytes: &[u8]) -> Option<[u8; KEY]> {
    bytes.first_chunk().copied()
}

impl Dh for X25519 {
    fn name(&self) -> &'static str {
        "25519"
    }

    fn pub_len(&self) -> usize {
        KEY
    }

    fn priv_len(&self) -> usize {
        KEY
    }

    fn set(&mut self, private: &[u8]) {
        self.private = key(private).unwrap_or_default();
        self.public = public_key(&self.private);
    }

    fn generate(&mut self, random: &mut dyn Random) -> Result<(), Error> {
        let mut private = [0; KEY];
        random.try_fill_bytes(&mut private)?;
        self.set(&private);
        Ok(())
    }

    fn pubkey(&self) -> &[u8] {
        &self.public
    }

    fn privkey(&self) -> &[u8] {
        &self.private
    }

    fn dh(&self, public: &[u8], out: &mut [u8]) -> Result<(), Error> {
        let public = MontgomeryPoint(key(public).ok_or(Error::Dh)?);
        let shared = public.mul_clamped(self.private).to_bytes();
        // Points of small order give the same to everybody (RFC 7748, 6.1).
        if shared == [0; KEY] {
            return Err(Error::Dh);
        }
        out.get_mut(..KEY).ok_or(Error::Dh)?.copy_from_slice(&shared);
        Ok(())
    }
}

/// Gives the algorithms to the handshake.
struct Algorithms;

impl CryptoResolver for Algorithms {
    fn resolve_rng(&self) -> Option<Box<dyn Random>> {
        RingResolver.resolve_rng()
    }

    fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn Dh>> {
        matches!(choice, DHChoice::Curve25519).then(|| Box::<X25519>::default() as _)
    }

    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn Hash>> {
        RingResolver.resolve_hash(choice)
    }

    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn Cipher>> {
        RingResolver.resolve_cipher(choice)
    }
}

/// What handshakes and keys are made by.
pub(super) fn builder() -> Result<Builder<'static>, Error> {
    Ok(Builder::with_resolver(PARAMETERS.parse()?, Box::new(Algorithms)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secure::PublicKey;

    /// RFC 7748, 5.2.
    #[test]
    fn the_secret_is_that_of_the_rfc() {
        let read = |text: &str| text.parse::<PublicKey>().unwrap().0;
        let mut x25519 = X25519::default();
        x25519.set(&read("a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4"));
        let public = read("e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c");
        let expected = read("c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552");
        let mut secret = [0; KEY];
        x25519.dh(&public, &mut secret).unwrap();
        assert_eq!(secret, expected);
        for weak in [&[0; KEY][..], &[1; 8]] {
            assert!(x25519.dh(weak, &mut secret).is_err());
        }
    }
}
