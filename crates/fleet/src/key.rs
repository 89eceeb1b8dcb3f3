// SPDX-License-Identifier: Apache-2.0

//! Keys that heads are signed with: Ed25519 (RFC 8032). A file of a secret key has one line,
//! `ed25519-secret` and 64 hexadecimal digits of the seed. A file of public keys has a line for
//! each, `ed25519` and 64 digits; empty lines and those that begin with `#` are comments.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use penstock_files::Access;
use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};

use crate::digest::{from_hex, hex};

/// A file of keys is at most this long, in bytes.
const LONGEST: u64 = 64 << 10;

/// Signs heads.
pub struct SecretKey {
    seed: [u8; 32],
    pair: Ed25519KeyPair,
}

/// Says whether a head is the publisher's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublicKey([u8; 32]);

impl SecretKey {
    /// A new key, of the system's random numbers.
    ///
    /// # Errors
    /// The system gives none.
    pub fn new() -> Result<SecretKey, String> {
        let mut seed = [0; 32];
        SystemRandom::new().fill(&mut seed).map_err(|_| "there are no random numbers")?;
        SecretKey::of(seed).ok_or_else(|| "the key is not valid".to_owned())
    }

    fn of(seed: [u8; 32]) -> Option<SecretKey> {
        Ed25519KeyPair::from_seed_unchecked(&seed).ok().map(|pair| SecretKey { seed, pair })
    }

    /// Reads the key of a file.
    ///
    /// # Errors
    /// The file cannot be read, others than its owner can read it, or it has no key.
    pub fn read(path: &Path) -> Result<SecretKey, String> {
        use std::os::unix::fs::PermissionsExt;
        let told = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
        let mode = fs::metadata(path).map_err(|e| told(&e))?.permissions().mode();
        if mode & 0o077 != 0 {
            return Err(told(&"others than its owner can read or change it"));
        }
        let text = read(path)?;
        let digits = text.trim().strip_prefix("ed25519-secret ").and_then(from_hex);
        let seed = digits.and_then(|seed| seed.try_into().ok());
        seed.and_then(SecretKey::of).ok_or_else(|| told(&"there is no secret key in it"))
    }

    /// Writes a new file, which only its owner can read, and one with the public key: the same name
    /// and `.pub`.
    ///
    /// # Errors
    /// One of the files is there already, or cannot be written.
    pub fn write(&self, path: &Path) -> io::Result<PathBuf> {
        let public = public_file(path);
        if let Some(there) = [path, &public].into_iter().find(|file| file.exists()) {
            let sentence = format!("{} is there already", there.display());
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, sentence));
        }
        let secret = format!("ed25519-secret {}\n", hex(&self.seed));
        penstock_files::replace(path, secret.as_bytes(), Access::Owner)?;
        let text = format!("{}\n", self.public().text());
        penstock_files::replace(&public, text.as_bytes(), Access::Owner)?;
        Ok(public)
    }

    /// The key that others check signatures with.
    pub fn public(&self) -> PublicKey {
        let mut key = [0; 32];
        key.copy_from_slice(self.pair.public_key().as_ref());
        PublicKey(key)
    }

    pub(crate) fn sign(&self, bytes: &[u8]) -> Vec<u8> {
        self.pair.sign(bytes).as_ref().to_vec()
    }
}

/// The file with the public keys beside that of a secret key.
pub fn public_file(secret: &Path) -> PathBuf {
    let mut public = secret.as_os_str().to_owned();
    public.push(".pub");
    public.into()
}

impl PublicKey {
    /// A line of a file of public keys.
    pub fn text(&self) -> String {
        format!("ed25519 {}", hex(&self.0))
    }

    /// The keys of a file: heads may be signed by any of them, so that a new key can be made known
    /// before the old one goes.
    ///
    /// # Errors
    /// The file cannot be read, or a line is no key.
    pub fn read_all(path: &Path) -> Result<Vec<PublicKey>, String> {
        let text = read(path)?;
        let lines = text.lines().map(str::trim).enumerate();
        let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let keys = lines.map(|(n, line)| {
            let key = line.strip_prefix("ed25519 ").and_then(from_hex);
            let key = key.and_then(|key| key.try_into().ok()).map(PublicKey);
            key.ok_or_else(|| format!("{}:{}: this is no public key", path.display(), n + 1))
        });
        let keys = keys.collect::<Result<Vec<_>, _>>()?;
        match keys.is_empty() {
            true => Err(format!("{}: there is no public key in it", path.display())),
            false => Ok(keys),
        }
    }

    pub(crate) fn verifies(&self, bytes: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ED25519, self.0).verify(bytes, signature).is_ok()
    }
}

fn read(path: &Path) -> Result<String, String> {
    let told = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
    if fs::metadata(path).map_err(|e| told(&e))?.len() > LONGEST {
        return Err(told(&"it is too long for a file of keys"));
    }
    fs::read_to_string(path).map_err(|e| told(&e))
}
