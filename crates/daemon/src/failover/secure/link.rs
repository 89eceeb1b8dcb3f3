// SPDX-License-Identifier: Apache-2.0

//! The socket that peers connect to, and the own key: what there is before the thread begins.

use std::net::TcpListener;

use penstock_ctsync::config::Secure;
use penstock_ctsync::secure::PrivateKey;

use crate::failover::secret::read_key;

/// The socket that peers connect to, and the key.
pub(crate) struct SecureLink {
    pub(super) listener: TcpListener,
    pub(super) key: PrivateKey,
}

impl SecureLink {
    /// Reads the key, and listens.
    ///
    /// # Errors
    /// The key cannot be read or is none, or the address cannot be had: a sentence.
    pub(crate) fn open(config: &Secure) -> Result<Self, String> {
        let key = read_key("PrivateKey", &config.private_key)?;
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
