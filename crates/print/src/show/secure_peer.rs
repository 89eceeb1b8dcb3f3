// SPDX-License-Identifier: Apache-2.0

//! Firewalls that are told by the protocol of Penstock: how far they are in step.

use std::fmt;

use serde::Serialize;

use super::own_side::OwnSideStatus;
use super::peer::Ago;

/// A peer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SecurePeerStatus {
    /// Where it listens.
    pub address: String,
    /// Whether there is a session with it.
    pub up: bool,
    /// Seconds since this side had all that the peer had told, and the peer had told everything;
    /// `None` if that was never so.
    pub in_sync_ago: Option<f64>,
    /// Seconds since the last time of which the peer has acknowledged all that was told; `None` if
    /// there is none.
    pub told_ago: Option<f64>,
    /// Seconds since anything of the peer came; `None` if nothing has come.
    pub heard_ago: Option<f64>,
    /// Sessions so far.
    pub sessions: u64,
    /// Handshakes that were refused: another key, or another version.
    pub refused_handshakes: u64,
    /// Records for it.
    pub sent: u64,
    /// Records of it.
    pub received: u64,
    /// Records of it that were not understood.
    pub malformed: u64,
    /// How often the digest over all that it told was wrong.
    pub wrong_digests: u64,
    /// Bytes that wait to be sent.
    pub waiting: u64,
    /// How often there was no place for more, so that everything is told anew.
    pub overruns: u64,
    /// Whether all that there is is being told.
    pub telling_all: bool,
    /// Connections of it that are kept.
    pub cached: u64,
    /// Expectations of it that are kept.
    pub expected: u64,
    /// Elements of its sets that are kept.
    pub elements: u64,
    /// Of these, how many found no place.
    pub cache_full: u64,
}

/// All peers, and what this side does.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SecurePeersStatus {
    /// The public key of this side.
    pub public_key: String,
    /// Peers in their order.
    pub peers: Vec<SecurePeerStatus>,
    /// Connections that were refused before they said who they are.
    pub refused_strangers: u64,
    /// What this side does.
    #[serde(flatten)]
    pub own: OwnSideStatus,
}

impl fmt::Display for SecurePeerStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "peer {}: {}, in sync as of {}, heard of {}",
            self.address,
            if self.up { "connected" } else { "not connected" },
            Ago(self.in_sync_ago),
            Ago(self.heard_ago)
        )?;
        writeln!(
            f,
            "  it has {} connections, expects {}, and has {} elements",
            self.cached, self.expected, self.elements
        )?;
        write!(
            f,
            "  received {} records; sent {}, {} bytes wait, acknowledged as of {}",
            self.received,
            self.sent,
            self.waiting,
            Ago(self.told_ago)
        )?;
        writeln!(f, "{}", if self.telling_all { "; everything is being told" } else { "" })?;
        for (count, what) in [
            (self.cache_full, "of its connections and elements found no place"),
            (self.malformed, "records were not understood"),
            (self.wrong_digests, "digests over all that it has were wrong"),
            (self.overruns, "times there was no place for more records"),
            (self.refused_handshakes, "handshakes were refused"),
        ] {
            if count > 0 {
                writeln!(f, "  {count} {what}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for SecurePeersStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "public key {}", self.public_key)?;
        self.peers.iter().try_for_each(|peer| peer.fmt(f))?;
        if self.refused_strangers > 0 {
            writeln!(f, "{} connections of strangers were refused", self.refused_strangers)?;
        }
        self.own.fmt(f)
    }
}
