// SPDX-License-Identifier: Apache-2.0

//! The exchange with the other firewalls, by one of the protocols.

use std::fmt;

use serde::Serialize;

use super::nats::NatsStatus;
use super::peer::PeerStatus;
use super::secure_peer::SecurePeersStatus;

/// How it is.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum SyncStatus {
    /// That of conntrackd.
    Conntrackd(Box<PeerStatus>),
    /// That of Penstock.
    Secure(Box<SecurePeersStatus>),
    /// That of clusters, by NATS.
    Nats(Box<NatsStatus>),
}

impl fmt::Display for SyncStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SyncStatus::Conntrackd(status) => status.fmt(f),
            SyncStatus::Secure(status) => status.fmt(f),
            SyncStatus::Nats(status) => status.fmt(f),
        }
    }
}
