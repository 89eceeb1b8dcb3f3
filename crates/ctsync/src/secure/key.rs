// SPDX-License-Identifier: Apache-2.0

//! Static keys: X25519, written as 64 hexadecimal digits.

use std::fmt;
use std::str::FromStr;

use super::algorithms::{KEY as LEN, builder, public_key};

/// The key that others know a firewall by.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey(pub(super) [u8; LEN]);

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The error is a sentence.
fn read(text: &str) -> Result<[u8; LEN], String> {
    let wrong = || format!("a key is {} hexadecimal digits", 2 * LEN);
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return Err(wrong()) };
    let pairs: &[[u8; 2]; LEN] = pairs.try_into().map_err(|_| wrong())?;
    let mut key = [0; LEN];
    for (byte, [high, low]) in key.iter_mut().zip(pairs) {
        let digit = |c: &u8| char::from(*c).to_digit(16).ok_or_else(wrong);
        *byte = (digit(high)? << 4 | digit(low)?) as u8;
    }
    Ok(key)
}

impl FromStr for PublicKey {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        read(text).map(PublicKey)
    }
}

/// The key that only the firewall itself has. It is not shown.
#[derive(Clone)]
pub struct PrivateKey(pub(super) [u8; LEN]);

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrivateKey(..)")
    }
}

impl PrivateKey {
    /// A new one.
    ///
    /// # Errors
    /// The system has no random numbers: a sentence.
    pub fn generate() -> Result<Self, String> {
        let pair = builder().and_then(|builder| builder.generate_keypair());
        let pair = pair.map_err(|e| format!("no key can be made: {e}"))?;
        let key = pair.private.try_into().map_err(|_| "no key can be made".to_owned())?;
        Ok(PrivateKey(key))
    }

    /// Reads the text of a file: one line.
    ///
    /// # Errors
    /// It is no key: a sentence.
    pub fn from_text(text: &str) -> Result<Self, String> {
        read(text.trim_end_matches(['\n', '\r'])).map(PrivateKey)
    }

    /// The text of a file.
    pub fn to_text(&self) -> String {
        format!("{}\n", PublicKey(self.0))
    }

    /// The bytes of it, for who shares it with others.
    pub(crate) fn bytes(&self) -> &[u8; LEN] {
        &self.0
    }

    /// The key that others know.
    pub fn public(&self) -> PublicKey {
        PublicKey(public_key(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_key_is_refused() {
        for text in ["", "00", &"0".repeat(63), &"0".repeat(65), &"g".repeat(64), &"é".repeat(32)]
        {
            assert!(text.parse::<PublicKey>().is_err(), "{text}");
        }
        let key = PrivateKey::generate().unwrap();
        assert_eq!(PrivateKey::from_text(&key.to_text()).unwrap().public(), key.public());
        assert_eq!(format!("{key:?}"), "PrivateKey(..)");
    }
}
