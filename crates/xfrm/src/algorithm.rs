// SPDX-License-Identifier: Apache-2.0

//! Algorithms by the kernel's names, and what keys and integrity values they take
//! (`net/xfrm/xfrm_algo.c`).

use std::fmt;

/// Why an algorithm cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AlgorithmError {
    /// The name is unknown.
    Unknown(String),
    /// The kernel has it, this program does not.
    Unsupported(String),
    /// The key has a length that the algorithm does not take, in bits.
    KeyLength(String, usize),
    /// The integrity value has a length that the algorithm does not take, in bits.
    IcvLength(String, u32),
}

impl fmt::Display for AlgorithmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AlgorithmError::Unknown(name) => write!(f, "unknown algorithm \"{name}\""),
            AlgorithmError::Unsupported(name) => {
                write!(f, "algorithm \"{name}\" is not supported yet")
            }
            AlgorithmError::KeyLength(name, bits) => {
                write!(f, "a key of {bits} bits does not fit \"{name}\"")
            }
            AlgorithmError::IcvLength(name, bits) => {
                write!(f, "an integrity value of {bits} bits does not fit \"{name}\"")
            }
        }
    }
}

impl std::error::Error for AlgorithmError {}

/// Encryption with integrity in one.
#[derive(Clone, PartialEq, Eq)]
pub enum Aead {
    /// `rfc4106(gcm(aes))`: the key of 16 or 32 bytes, 4 bytes of salt, and bytes of the integrity
    /// value: 8, 12 or 16.
    AesGcm {
        /// Key.
        key: Vec<u8>,
        /// First part of the nonce.
        salt: [u8; 4],
        /// Bytes of the integrity value.
        icv: usize,
    },
    /// `rfc7539esp(chacha20,poly1305)`.
    ChaCha20Poly1305 {
        /// Key.
        key: [u8; 32],
        /// First part of the nonce.
        salt: [u8; 4],
    },
}

/// Encryption alone.
#[derive(Clone, PartialEq, Eq)]
pub enum Encryption {
    /// `ecb(cipher_null)`: none.
    Null,
    /// `cbc(aes)`, key of 16, 24 or 32 bytes.
    AesCbc(Vec<u8>),
}

/// Integrity alone: HMAC with a hash, cut to so many bytes.
#[derive(Clone, PartialEq, Eq)]
pub enum Authentication {
    /// `digest_null`: none.
    Null,
    /// `hmac(sha1)`.
    HmacSha1(Vec<u8>, usize),
    /// `hmac(sha256)`.
    HmacSha256(Vec<u8>, usize),
    /// `hmac(sha384)`.
    HmacSha384(Vec<u8>, usize),
    /// `hmac(sha512)`.
    HmacSha512(Vec<u8>, usize),
}

/// What a state does with packets. Keys do not show in its `Debug` form.
#[derive(Clone, PartialEq, Eq)]
pub enum Algorithms {
    /// Both in one.
    Aead(Aead),
    /// One after the other.
    Pair(Encryption, Authentication),
}

impl fmt::Debug for Algorithms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (encryption, authentication) = self.names();
        write!(f, "{encryption} {authentication}")
    }
}

const GCM: &str = "rfc4106(gcm(aes))";
const CHACHA: &str = "rfc7539esp(chacha20,poly1305)";

/// Algorithms of the kernel that are not here.
const OTHERS: [&str; 22] = [
    "rfc4309(ccm(aes))",
    "rfc4543(gcm(aes))",
    "rfc3686(ctr(aes))",
    "cbc(des)",
    "cbc(des3_ede)",
    "cbc(cast5)",
    "cbc(blowfish)",
    "cbc(serpent)",
    "cbc(camellia)",
    "cbc(twofish)",
    "cbc(sm4)",
    "des",
    "des3_ede",
    "cast5",
    "blowfish",
    "hmac(md5)",
    "md5",
    "hmac(rmd160)",
    "rmd160",
    "xcbc(aes)",
    "cmac(aes)",
    "hmac(sm3)",
];

fn unknown(name: &str) -> AlgorithmError {
    if OTHERS.contains(&name) {
        AlgorithmError::Unsupported(name.to_owned())
    } else {
        AlgorithmError::Unknown(name.to_owned())
    }
}

impl Aead {
    /// From `aead NAME KEY BITS`; the key ends with the salt.
    pub fn new(name: &str, key: &[u8], bits: u32) -> Result<Aead, AlgorithmError> {
        let wrong_key = || AlgorithmError::KeyLength(name.to_owned(), key.len() * 8);
        if !matches!(name, GCM | CHACHA) {
            return Err(unknown(name));
        }
        let (body, salt) = key.split_last_chunk::<4>().ok_or_else(wrong_key)?;
        match name {
            GCM => {
                let icv = match bits {
                    64 | 96 | 128 => bits as usize / 8,
                    _ => return Err(AlgorithmError::IcvLength(name.to_owned(), bits)),
                };
                match body.len() {
                    16 | 32 => Ok(Aead::AesGcm { key: body.to_vec(), salt: *salt, icv }),
                    24 => Err(AlgorithmError::Unsupported(format!("{GCM} with a key of 192 bits"))),
                    _ => Err(wrong_key()),
                }
            }
            _ => {
                if bits != 128 {
                    return Err(AlgorithmError::IcvLength(name.to_owned(), bits));
                }
                let key = body.try_into().map_err(|_| wrong_key())?;
                Ok(Aead::ChaCha20Poly1305 { key, salt: *salt })
            }
        }
    }
}

impl Encryption {
    /// From `enc NAME KEY`.
    pub fn new(name: &str, key: &[u8]) -> Result<Encryption, AlgorithmError> {
        let wrong_key = || AlgorithmError::KeyLength(name.to_owned(), key.len() * 8);
        match name {
            "ecb(cipher_null)" | "cipher_null" if key.is_empty() => Ok(Encryption::Null),
            "ecb(cipher_null)" | "cipher_null" => Err(wrong_key()),
            "cbc(aes)" | "aes" => match key.len() {
                16 | 24 | 32 => Ok(Encryption::AesCbc(key.to_vec())),
                _ => Err(wrong_key()),
            },
            other => Err(unknown(other)),
        }
    }
}

impl Authentication {
    /// From `auth NAME KEY` or, with the bits of the integrity value, `auth-trunc NAME KEY BITS`.
    /// Without them it is what the kernel takes then, 96 bits for SHA-1 and SHA-256, half of the
    /// hash for the others.
    pub fn new(
        name: &str,
        key: &[u8],
        bits: Option<u32>,
    ) -> Result<Authentication, AlgorithmError> {
        type Make = fn(Vec<u8>, usize) -> Authentication;
        let (make, default, full): (Make, u32, u32) = match name {
            "digest_null" => return Ok(Authentication::Null),
            "hmac(sha1)" | "sha1" => (Authentication::HmacSha1, 96, 160),
            "hmac(sha256)" | "sha256" => (Authentication::HmacSha256, 96, 256),
            "hmac(sha384)" | "sha384" => (Authentication::HmacSha384, 192, 384),
            "hmac(sha512)" | "sha512" => (Authentication::HmacSha512, 256, 512),
            other => return Err(unknown(other)),
        };
        let bits = bits.unwrap_or(default);
        if key.is_empty() {
            return Err(AlgorithmError::KeyLength(name.to_owned(), 0));
        }
        if bits == 0 || bits > full || !bits.is_multiple_of(8) {
            return Err(AlgorithmError::IcvLength(name.to_owned(), bits));
        }
        Ok(make(key.to_vec(), bits as usize / 8))
    }
}

impl Algorithms {
    /// Names as the kernel lists them: the second one is empty for those that are both in one.
    pub fn names(&self) -> (&'static str, &'static str) {
        match self {
            Algorithms::Aead(Aead::AesGcm { .. }) => (GCM, ""),
            Algorithms::Aead(Aead::ChaCha20Poly1305 { .. }) => (CHACHA, ""),
            Algorithms::Pair(encryption, authentication) => {
                let encryption = match encryption {
                    Encryption::Null => "ecb(cipher_null)",
                    Encryption::AesCbc(_) => "cbc(aes)",
                };
                let authentication = match authentication {
                    Authentication::Null => "digest_null",
                    Authentication::HmacSha1(..) => "hmac(sha1)",
                    Authentication::HmacSha256(..) => "hmac(sha256)",
                    Authentication::HmacSha384(..) => "hmac(sha384)",
                    Authentication::HmacSha512(..) => "hmac(sha512)",
                };
                (encryption, authentication)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_integrity_values_have_the_lengths_that_the_algorithm_takes() {
        let aead =
            |name: &str, bytes: usize, bits| Aead::new(name, &vec![1; bytes], bits).map(|_| ());
        for (name, bytes, bits, good) in [
            (GCM, 20, 128, true),
            (GCM, 20, 96, true),
            (GCM, 36, 64, true),
            (GCM, 20, 120, false),
            (GCM, 28, 128, false),
            (GCM, 16, 128, false),
            (GCM, 3, 128, false),
            (CHACHA, 36, 128, true),
            (CHACHA, 36, 96, false),
            (CHACHA, 32, 128, false),
            ("gcm(aes)", 20, 128, false),
        ] {
            assert_eq!(aead(name, bytes, bits).is_ok(), good, "{name} {bytes} {bits}");
        }
        for (bytes, good) in [(16, true), (24, true), (32, true), (20, false), (0, false)] {
            assert_eq!(Encryption::new("cbc(aes)", &vec![1; bytes]).is_ok(), good, "{bytes}");
        }
        let icv = |name, bits| match Authentication::new(name, &[1; 32], bits) {
            Ok(
                Authentication::HmacSha256(_, n)
                | Authentication::HmacSha384(_, n)
                | Authentication::HmacSha512(_, n),
            ) => n,
            _ => 0,
        };
        assert_eq!((icv("hmac(sha256)", None), icv("sha256", Some(128))), (12, 16));
        assert_eq!((icv("hmac(sha384)", None), icv("hmac(sha512)", None)), (24, 32));
        assert_eq!((icv("hmac(sha256)", Some(257)), icv("hmac(sha512)", Some(100))), (0, 0));
    }

    #[test]
    fn unsupported_and_unknown_algorithms_have_different_errors() {
        let error = |name| Encryption::new(name, &[1; 16]).err().map(|e| e.to_string());
        assert_eq!(
            error("cbc(camellia)").unwrap(),
            "algorithm \"cbc(camellia)\" is not supported yet"
        );
        assert_eq!(error("rot13").unwrap(), "unknown algorithm \"rot13\"");
    }

    #[test]
    fn keys_are_not_printed() {
        let both = Algorithms::Pair(
            Encryption::new("aes", b"sixteen bytes ok").unwrap(),
            Authentication::new("sha256", b"secret", None).unwrap(),
        );
        assert_eq!(format!("{both:?}"), "cbc(aes) hmac(sha256)");
    }
}
