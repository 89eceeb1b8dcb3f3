// SPDX-License-Identifier: Apache-2.0

//! The socket that peers connect to, and the own key: what there is before the thread begins.

use std::fmt::Display;
use std::fs::File;
use std::io::Read;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use penstock_ctsync::config::Secure;
use penstock_ctsync::secure::PrivateKey;

/// The socket that peers connect to, and the key.
pub(crate) struct SecureLink {
    pub(super) listener: TcpListener,
    pub(super) key: PrivateKey,
}

/// Reads a private key, which nobody else may read.
fn read_key(path: &Path) -> Result<PrivateKey, String> {
    /// Bytes of a file at most: the digits and the end of the line.
    const LONGEST: u64 = 80;
    let failed = |e: &dyn Display| format!("sync: PrivateKey {}: {e}", path.display());
    let mut file = File::open(path).map_err(|e| failed(&e))?;
    let mode = file.metadata().map_err(|e| failed(&e))?.permissions().mode();
    if mode & 0o077 != 0 {
        return Err(failed(&"others may read or write it: chmod 600"));
    }
    let mut text = String::new();
    let read = file.by_ref().take(LONGEST).read_to_string(&mut text);
    read.map_err(|e| failed(&e))?;
    PrivateKey::from_text(&text).map_err(|e| failed(&e))
}

impl SecureLink {
    /// Reads the key, and listens.
    ///
    /// # Errors
    /// The key cannot be read or is none, or the address cannot be had: a sentence.
    pub(crate) fn open(config: &Secure) -> Result<Self, String> {
        let key = read_key(&config.private_key)?;
        let own = key.public();
        if config.peers.iter().any(|peer| peer.key == own) {
            return Err("sync: the PublicKey of a peer is that of this side".into());
        }
        let failed = |e| format!("sync: Address {}: {e}", config.address);
        let listener = TcpListener::bind(config.address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        Ok(SecureLink { listener, key })
    }
}
