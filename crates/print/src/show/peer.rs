// SPDX-License-Identifier: Apache-2.0

//! The other firewall of a pair: how far it is in step.

use std::fmt;

use serde::Serialize;

/// A link to the peer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PeerLink {
    /// Its device.
    pub device: String,
    /// Whether the device is up and has a carrier.
    pub up: bool,
    /// Whether messages are sent by it.
    pub active: bool,
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams that could not be sent.
    pub failed: u64,
    /// Datagrams received.
    pub received: u64,
}

/// Messages that were not understood, by reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PeerMalformed {
    /// The reason.
    pub reason: &'static str,
    /// How many.
    pub messages: u64,
}

/// The exchange with the peer, by conntrackd's protocol.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PeerStatus {
    /// The mode: FTFW, ALARM or NOTRACK.
    pub mode: &'static str,
    /// Links in their order.
    pub links: Vec<PeerLink>,
    /// Seconds since a message of the peer came in its turn; `None` if none has come.
    pub in_sync_ago: Option<f64>,
    /// Seconds since any message of the peer came; `None` if none has come.
    pub heard_ago: Option<f64>,
    /// Messages sent.
    pub sent: u64,
    /// Messages received.
    pub received: u64,
    /// Messages of the peer that did not come in their turn.
    pub lost: u64,
    /// Messages of the peer that came after later ones.
    pub late: u64,
    /// Messages that were not understood.
    pub malformed: Vec<PeerMalformed>,
    /// Messages that wait to be sent.
    pub waiting: u64,
    /// Messages that the peer has not acknowledged, where it does.
    pub unacknowledged: Option<u64>,
    /// Messages that were given up before the peer acknowledged them.
    pub given_up: u64,
    /// Events that found no place; all connections are told again then.
    pub missed_events: u64,
    /// Events of connections that the protocol cannot name.
    pub not_told: u64,
    /// Expectations of the peer that are not to be taken.
    pub expectations_ignored: u64,
    /// Connections of the peer that are kept.
    pub cached: u64,
    /// Expectations of the peer that are kept.
    pub expected: u64,
    /// Connections and expectations of the peer that found no place.
    pub cache_full: u64,
    /// Connections of the peer that were entered into the table.
    pub committed: u64,
    /// Connections of the peer that could not be entered.
    pub commit_failed: u64,
    /// Announcements of addresses that were sent after takeovers: packets of ARP and of neighbour
    /// discovery.
    pub announced: u64,
    /// Whether all connections are being told.
    pub bulk: bool,
    /// Seconds until all connections end, if they are to.
    pub purge_in: Option<f64>,
}

/// A time that has passed.
pub(super) struct Ago(pub(super) Option<f64>);

impl fmt::Display for Ago {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(seconds) => write!(f, "{seconds:.1} s ago"),
            None => f.write_str("never"),
        }
    }
}

impl fmt::Display for PeerStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "peer by {}: in sync as of {}, heard of {}",
            self.mode,
            Ago(self.in_sync_ago),
            Ago(self.heard_ago)
        )?;
        for link in &self.links {
            writeln!(
                f,
                "  link {}: {}, {}; datagrams: {} sent, {} failed, {} received",
                link.device,
                if link.up { "up" } else { "down" },
                if link.active { "active" } else { "backup" },
                link.sent,
                link.failed,
                link.received
            )?;
        }
        writeln!(
            f,
            "  received {} messages, {} lost, {} late",
            self.received, self.lost, self.late
        )?;
        for PeerMalformed { reason, messages } in &self.malformed {
            writeln!(f, "  received {messages} messages with a wrong {reason}")?;
        }
        write!(f, "  sent {} messages, {} wait", self.sent, self.waiting)?;
        if let Some(unacknowledged) = self.unacknowledged {
            write!(f, ", {unacknowledged} not acknowledged, {} given up", self.given_up)?;
        }
        writeln!(f, "{}", if self.bulk { "; all connections are being told" } else { "" })?;
        if self.missed_events + self.not_told > 0 {
            writeln!(
                f,
                "  {} events found no place, {} are of connections that messages cannot name",
                self.missed_events, self.not_told
            )?;
        }
        writeln!(f, "  the peer has {} connections, and expects {}", self.cached, self.expected)?;
        if self.cache_full + self.expectations_ignored > 0 {
            writeln!(
                f,
                "  {} of its connections found no place, {} of its expectations are not taken",
                self.cache_full, self.expectations_ignored
            )?;
        }
        if self.committed + self.commit_failed > 0 {
            writeln!(
                f,
                "  taken over: {} connections, {} failed",
                self.committed, self.commit_failed
            )?;
        }
        if self.announced > 0 {
            writeln!(f, "  addresses announced by {} packets", self.announced)?;
        }
        if let Some(seconds) = self.purge_in {
            writeln!(f, "  all own connections end in {seconds:.0} s")?;
        }
        Ok(())
    }
}
