// SPDX-License-Identifier: Apache-2.0

//! Connections that `ct count` counts (`net/netfilter/nf_conncount.c`).
//!
//! The number itself is with the rule or element ([`ConnCount`]), for all workers; who is in it is
//! here, per worker. As in the kernel, connections that ended are found when the count is looked at
//! next, and by a look around now and then. That finds counts of rules and elements that are gone,
//! too.

use std::collections::{HashMap, HashSet};

use penstock_conntrack::{Conntrack, Ref};
use penstock_packet::Packet;
use penstock_program::env::{ConnCount, CountedConnection};

/// Connections of a count that are looked at per packet. Beyond that a long list is gone through by
/// several packets; the kernel looks at all, at a cost that grows with the list.
const LOOKED_AT: usize = 64;
/// Connections checked per step, for counts that packets no longer query.
const TIDIED: usize = 256;
/// Connections removed at once from a count after its rule or element is gone.
const FREED: usize = 4096;
/// Places in counts that all connections have together; more packets are dropped.
const MOST: usize = 1 << 22;

#[derive(Debug, Default)]
struct Count {
    members: Vec<(Ref, CountedConnection)>,
    known: HashSet<Ref>,
    /// Which member is looked at next.
    next: usize,
}

impl Count {
    /// Removes ended connections among the next `looked_at`; returns how many.
    fn purge(&mut self, conntrack: &Conntrack, looked_at: usize) -> usize {
        let mut gone = 0;
        for _ in 0..looked_at.min(self.members.len()) {
            if self.next >= self.members.len() {
                self.next = 0;
            }
            let Some((connection, _)) = self.members.get(self.next) else { break };
            if counts(conntrack, *connection) {
                self.next += 1;
            } else {
                self.known.remove(connection);
                self.members.swap_remove(self.next);
                gone += 1;
            }
        }
        gone
    }

    /// Frees memory that is no longer needed.
    fn shrink(&mut self) {
        let room = self.members.len().max(LOOKED_AT) * 2;
        if self.members.capacity() > room * 2 {
            self.members.shrink_to(room);
            self.known.shrink_to(room);
        }
    }
}

/// Whether a connection counts: it is there, and if it is TCP not closed already
/// (`already_closed()`).
fn counts(conntrack: &Conntrack, connection: Ref) -> bool {
    let state = conntrack.connection_ref(connection).map(|c| c.state());
    state.is_some_and(|state| !matches!(state, Some("TIME_WAIT" | "CLOSE")))
}

/// All counts of a worker.
#[derive(Debug, Default)]
pub(crate) struct Connlimit {
    counts: HashMap<u32, Count>,
    places: usize,
    /// Counts still to be tidied in this round.
    round: Vec<u32>,
}

impl Connlimit {
    /// Counts the packet's connection, as [`Env::connlimit`](penstock_program::Env::connlimit) is
    /// asked to.
    pub(crate) fn count(
        &mut self,
        conntrack: &Conntrack,
        packet: &Packet,
        count: ConnCount<'_>,
    ) -> Option<u32> {
        let id = count.id();
        let members = self.counts.get_mut(&id);
        let ct = &packet.meta.ct;
        let connection = conntrack.connection(ct).map(|_| Ref::from(*ct));
        let mut known = false;
        if let Some(members) = members {
            self.places -= members.purge(conntrack, LOOKED_AT);
            known = connection.is_some_and(|c| members.known.contains(&c));
        }
        let Some(connection) = connection else {
            return Some(count.connections().saturating_add(1));
        };
        if known {
            return Some(count.connections());
        }
        if self.places >= MOST {
            return None;
        }
        let (connections, connlimit) = count.join();
        let members = self.counts.entry(connlimit.id()).or_default();
        members.known.insert(connection);
        members.members.push((connection, connlimit));
        self.places += 1;
        Some(connections)
    }

    /// Removes ended connections from counts that are no longer queried.
    pub(crate) fn tidy(&mut self, conntrack: &Conntrack) {
        let mut budget = TIDIED;
        while budget > 0 && !self.counts.is_empty() {
            let Some(id) = self.round.pop() else {
                self.round = self.counts.keys().copied().collect();
                return;
            };
            let Some(count) = self.counts.get_mut(&id) else { continue };
            if !count.members.first().is_some_and(|(_, first)| first.has_count()) {
                let left = count.members.len().saturating_sub(FREED);
                self.places -= count.members.len() - left;
                count.members.truncate(left);
                if left == 0 {
                    self.counts.remove(&id);
                } else {
                    self.round.push(id);
                }
                return;
            }
            self.places -= count.purge(conntrack, budget);
            budget -= budget.min(count.members.len() + 1);
            count.shrink();
        }
    }
}
