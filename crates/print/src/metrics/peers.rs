// SPDX-License-Identifier: Apache-2.0

//! How far other firewalls are in step.

use crate::open_metrics::Metrics;
use crate::show::nats::{NatsNodeStatus, NatsStatus};
use crate::show::own_side::OwnSideStatus;
use crate::show::peer::PeerStatus;
use crate::show::secure_peer::SecurePeerStatus;
use crate::show::sync::SyncStatus;

/// What all protocols have of a peer.
struct Peer<'a> {
    /// Its address; by conntrackd's protocol, the mode; in a cluster, its name.
    name: &'a str,
    up: bool,
    in_sync_ago: Option<f64>,
    heard_ago: Option<f64>,
    connections: u64,
    expectations: u64,
    elements: u64,
    waiting: u64,
    sent: u64,
    received: u64,
    malformed: u64,
    lost: u64,
    refused: u64,
}

/// Seconds without a word after which a peer of conntrackd's protocol, which has no sessions, does
/// not count as up.
const SILENCE: f64 = 5.0;

impl<'a> Peer<'a> {
    fn of_conntrackd(status: &'a PeerStatus) -> Self {
        Peer {
            name: status.mode,
            up: status.heard_ago.is_some_and(|ago| ago < SILENCE),
            in_sync_ago: status.in_sync_ago,
            heard_ago: status.heard_ago,
            connections: status.cached,
            expectations: status.expected,
            elements: 0,
            waiting: status.waiting,
            sent: status.sent,
            received: status.received,
            malformed: status.malformed.iter().map(|malformed| malformed.messages).sum(),
            lost: status.lost,
            refused: status.cache_full,
        }
    }

    fn of_penstock(status: &'a SecurePeerStatus) -> Self {
        Peer {
            name: &status.address,
            up: status.up,
            in_sync_ago: status.in_sync_ago,
            heard_ago: status.heard_ago,
            connections: status.cached,
            expectations: status.expected,
            elements: status.elements,
            waiting: status.waiting,
            sent: status.sent,
            received: status.received,
            malformed: status.malformed,
            lost: status.overruns,
            refused: status.cache_full,
        }
    }

    /// What waits in this node waits for all others.
    fn of_cluster(status: &'a NatsNodeStatus, all: &NatsStatus) -> Self {
        Peer {
            name: &status.name,
            up: status.up,
            in_sync_ago: status.in_sync_ago,
            heard_ago: status.heard_ago,
            connections: status.cached,
            expectations: status.expected,
            elements: status.elements,
            waiting: all.waiting,
            sent: all.sent,
            received: status.received,
            malformed: status.malformed,
            lost: status.lost,
            refused: status.cache_full,
        }
    }
}

/// What became of what was told by records.
fn of_records(own: &OwnSideStatus) -> [u64; 4] {
    [own.missed_events, own.committed, own.commit_failed, own.announced]
}

/// Writes them, if there are any.
pub(super) fn write(sync: Option<&SyncStatus>, metrics: &mut Metrics<'_>) {
    let (peers, all): (Vec<_>, [u64; 4]) = match sync {
        None => return,
        Some(SyncStatus::Conntrackd(status)) => (
            vec![Peer::of_conntrackd(status)],
            [status.missed_events, status.committed, status.commit_failed, status.announced],
        ),
        Some(SyncStatus::Secure(status)) => {
            (status.peers.iter().map(Peer::of_penstock).collect(), of_records(&status.own))
        }
        Some(SyncStatus::Nats(status)) => {
            let nodes = status.nodes.iter().map(|node| Peer::of_cluster(node, status));
            (nodes.collect(), of_records(&status.own))
        }
    };
    if let Some(SyncStatus::Nats(status)) = sync {
        write_cluster(status, metrics);
    }
    let mut gauge = |name: &str, help: &str, value: &dyn Fn(&Peer<'_>) -> Option<f64>| {
        metrics.family(name, "gauge", help);
        for peer in &peers {
            if let Some(value) = value(peer) {
                metrics.told(name, &[("peer", peer.name)], value);
            }
        }
    };
    gauge("peer_up", "Whether a peer is there.", &|peer| Some(f64::from(u8::from(peer.up))));
    gauge("peer_in_sync_seconds", "How long ago all that a peer has told was known here.", &|p| {
        p.in_sync_ago
    });
    gauge("peer_heard_seconds", "How long ago a peer has said anything.", &|peer| peer.heard_ago);
    gauge("peer_connections", "Connections of a peer that are kept.", &|peer| {
        Some(peer.connections as f64)
    });
    gauge("peer_expectations", "Expectations of a peer that are kept.", &|peer| {
        Some(peer.expectations as f64)
    });
    gauge("peer_elements", "Elements of a peer that are kept.", &|peer| Some(peer.elements as f64));
    gauge(
        "peer_waiting",
        "What waits to be sent to a peer: messages, or bytes by the protocol of Penstock.",
        &|peer| Some(peer.waiting as f64),
    );
    let mut counters = |name: &str, help: &str, value: fn(&Peer<'_>) -> u64| {
        metrics.counters(name, help, "peer", peers.iter().map(|peer| (peer.name, value(peer))));
    };
    counters("peer_sent", "Messages for a peer.", |peer| peer.sent);
    counters("peer_received", "Messages of a peer.", |peer| peer.received);
    counters("peer_malformed", "Messages of a peer that were wrong.", |peer| peer.malformed);
    counters(
        "peer_lost",
        "Messages of a peer that did not come in their turn, or times there was no place for more.",
        |peer| peer.lost,
    );
    counters("peer_refused", "What a peer has told and found no place.", |peer| peer.refused);
    let [missed, committed, failed, announced] = all;
    metrics.counters(
        "sync",
        "What became of connections that are told and taken over, and announcements of addresses.",
        "what",
        [
            ("missed", missed),
            ("taken_over", committed),
            ("failed", failed),
            ("announced", announced),
        ],
    );
}

/// What a cluster has besides.
fn write_cluster(status: &NatsStatus, metrics: &mut Metrics<'_>) {
    let mut gauge = |name: &str, help: &str, value: f64| {
        metrics.family(name, "gauge", help);
        metrics.told(name, &[("cluster", &status.cluster)], value);
    };
    let connected = f64::from(u8::from(status.connected));
    gauge("cluster_connected", "Whether there is a connection to a server of NATS.", connected);
    if let Some(ago) = status.stored_ago {
        gauge("cluster_stored_seconds", "How long ago all that was told was stored.", ago);
    }
    metrics.counters(
        "cluster",
        "Messages that were refused, snapshots, connections to servers, and times there was no place.",
        "what",
        [
            ("refused", status.refused_messages),
            ("snapshots", status.snapshots),
            ("sessions", status.sessions),
            ("overruns", status.overruns),
        ],
    );
}
