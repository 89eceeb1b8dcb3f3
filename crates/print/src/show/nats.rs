// SPDX-License-Identifier: Apache-2.0

//! The nodes of a cluster that tell each other by NATS: how far they are in step.

use std::fmt;

use serde::Serialize;

use super::own_side::OwnSideStatus;
use super::peer::Ago;

/// Another node.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NatsNodeStatus {
    /// Its name.
    pub name: String,
    /// Whether it was heard of lately.
    pub up: bool,
    /// Whether all that it has told is known here.
    pub complete: bool,
    /// Seconds since this node had all that the other one had told, and the other one had told
    /// everything; `None` if that was never so.
    pub in_sync_ago: Option<f64>,
    /// Seconds since anything of it came; `None` if nothing has come.
    pub heard_ago: Option<f64>,
    /// How often it has begun to tell: once for each process, at least.
    pub epochs: u64,
    /// Records of it.
    pub received: u64,
    /// Records of it that were not understood.
    pub malformed: u64,
    /// Messages of it that did not come.
    pub lost: u64,
    /// Messages of it that came twice or too late, and were not taken.
    pub late: u64,
    /// How often the digest over all that it told was wrong.
    pub wrong_digests: u64,
    /// Connections of it that are kept.
    pub cached: u64,
    /// Expectations of it that are kept.
    pub expected: u64,
    /// Elements of its sets that are kept.
    pub elements: u64,
    /// Of these, how many found no place.
    pub cache_full: u64,
}

/// All nodes, and what this one does.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NatsStatus {
    /// The name of the cluster.
    pub cluster: String,
    /// The name of this node.
    pub node: String,
    /// Whether messages are encrypted and authenticated by a shared key.
    pub sealed: bool,
    /// Whether there is a connection to a server.
    pub connected: bool,
    /// That server.
    pub server: Option<String>,
    /// Why there is none.
    pub error: Option<String>,
    /// Whether messages are read that were stored before the connection began.
    pub replaying: bool,
    /// Seconds since the last time of which all that was told is stored; `None` if there is none.
    pub stored_ago: Option<f64>,
    /// Connections to servers so far.
    pub sessions: u64,
    /// Records for others.
    pub sent: u64,
    /// Messages for others since this epoch began.
    pub messages: u64,
    /// Bytes of records that wait.
    pub waiting: u64,
    /// Messages that wait for the client.
    pub waiting_messages: u64,
    /// How often there was no place for more, so that everything is told anew.
    pub overruns: u64,
    /// How often everything was told.
    pub snapshots: u64,
    /// Whether all that there is is being told, or will be.
    pub telling_all: bool,
    /// Messages that were refused: sealed by another key or not at all, or none of this version.
    pub refused_messages: u64,
    /// Other nodes.
    pub nodes: Vec<NatsNodeStatus>,
    /// Messages of nodes that found no place.
    pub nodes_refused: u64,
    /// Messages of another node with the name of this one.
    pub same_name: u64,
    /// What this side does.
    #[serde(flatten)]
    pub own: OwnSideStatus,
}

impl fmt::Display for NatsNodeStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "node {}: {}, in sync as of {}, heard of {}",
            self.name,
            match (self.up, self.complete) {
                (true, true) => "there",
                (true, false) => "there, not all that it has is known",
                (false, _) => "silent",
            },
            Ago(self.in_sync_ago),
            Ago(self.heard_ago)
        )?;
        writeln!(
            f,
            "  it has {} connections, expects {}, and has {} elements",
            self.cached, self.expected, self.elements
        )?;
        writeln!(f, "  received {} records in {} epochs", self.received, self.epochs)?;
        for (count, what) in [
            (self.lost, "messages are missing"),
            (self.late, "messages came twice or too late"),
            (self.cache_full, "of its connections and elements found no place"),
            (self.malformed, "records were not understood"),
            (self.wrong_digests, "digests over all that it has were wrong"),
        ] {
            if count > 0 {
                writeln!(f, "  {count} {what}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for NatsStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "node {} of the cluster {}, {}: ",
            self.node,
            self.cluster,
            if self.sealed { "with a shared key" } else { "without a key" }
        )?;
        match (&self.server, &self.error) {
            (Some(server), _) => write!(f, "connected to {server}")?,
            (None, Some(error)) => write!(f, "not connected: {error}")?,
            (None, None) => write!(f, "connecting")?,
        }
        writeln!(f, "{}", if self.replaying { "; earlier messages are read" } else { "" })?;
        writeln!(
            f,
            "  sent {} records in {} messages, {} bytes and {} messages wait, stored as of {}{}",
            self.sent,
            self.messages,
            self.waiting,
            self.waiting_messages,
            Ago(self.stored_ago),
            if self.telling_all { "; everything is being told" } else { "" }
        )?;
        for (count, what) in [
            (self.overruns, "times there was no place for more records"),
            (self.refused_messages, "messages were refused: they have another key or version"),
            (self.nodes_refused, "messages are of more nodes than there may be"),
            (self.same_name, "messages are of another node with this name"),
        ] {
            if count > 0 {
                writeln!(f, "  {count} {what}")?;
            }
        }
        self.nodes.iter().try_for_each(|node| node.fmt(f))?;
        self.own.fmt(f)
    }
}
