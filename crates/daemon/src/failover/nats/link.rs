// SPDX-License-Identifier: Apache-2.0

//! What is read before the thread of the client begins: the shared key, and what the servers ask for.

use std::path::PathBuf;

use penstock_ctsync::cluster::Sealing;
use penstock_ctsync::config::Nats;

use crate::failover::secret::{read_key, read_secret};

/// What servers are spoken with by, and how messages are sealed.
pub(crate) struct NatsLink {
    pub(super) servers: Vec<String>,
    pub(super) login: Option<(String, String)>,
    pub(super) authorities: Option<PathBuf>,
    pub(super) sealing: Sealing,
    pub(super) is_sealed: bool,
}

impl NatsLink {
    /// Reads the files of a section. Servers are not asked yet: they may come later.
    ///
    /// # Errors
    /// A file cannot be read, or does not have what it should: a sentence.
    pub(crate) fn open(config: &Nats) -> Result<Self, String> {
        let login = config.credentials.as_ref().map(|path| {
            let text = read_secret("Credentials", path)?;
            let line = text.trim_end_matches(['\n', '\r']);
            let pair = line.split_once(':').filter(|(user, _)| !user.is_empty());
            let pair = pair.filter(|_| !line.contains(['\n', '\r']));
            pair.map(|(user, password)| (user.to_owned(), password.to_owned())).ok_or_else(|| {
                format!("sync: Credentials {}: one line USER:PASSWORD is expected", path.display())
            })
        });
        let key = config.key.as_ref().map(|path| read_key("Key", path)).transpose()?;
        if let Some(path) = &config.authorities {
            // Each connection reads it again.
            std::fs::File::open(path).map_err(|e| format!("sync: CA {}: {e}", path.display()))?;
        }
        Ok(NatsLink {
            servers: config.servers.clone(),
            login: login.transpose()?,
            authorities: config.authorities.clone(),
            is_sealed: key.is_some(),
            sealing: Sealing::new(key, &config.cluster),
        })
    }
}
