// SPDX-License-Identifier: Apache-2.0

//! The addresses come to this firewall, or leave it: what peers have told is entered, or own
//! connections end.

use std::collections::HashMap;

use penstock_conntrack::Tuple;
use penstock_ctsync::secure::{ElementKey, ElementState, Record};
use penstock_ctsync::{Cached, ConnectionState};

use super::SecureExchange;
use super::elements::restore;
use crate::failover::Transition;
use crate::failover::take_over::{expect_all, take_over};
use crate::log;

impl SecureExchange {
    /// What was told last of each connection of all peers, with how many seconds it has left.
    fn drain(&mut self, now: u64) -> Vec<(ConnectionState, u64)> {
        let mut newest: HashMap<Tuple, Cached<ConnectionState>> = HashMap::new();
        let mut peers = self.peers.iter_mut();
        let lives = self.config.commit_timeout.map(u64::from);
        let left = |cached: &Cached<_>| lives.unwrap_or_else(|| cached.left(now));
        let Some(first) = peers.next() else { return Vec::new() };
        let rest: Vec<_> = peers.flat_map(|peer| peer.cache.drain()).collect();
        if rest.is_empty() {
            return first.cache.drain().map(|c| (left(&c), c.state)).map(|(l, s)| (s, l)).collect();
        }
        for cached in first.cache.drain().chain(rest) {
            let key = cached.state.original;
            if newest.get(&key).is_none_or(|other| other.updated < cached.updated) {
                newest.insert(key, cached);
            }
        }
        newest.into_values().map(|c| (left(&c), c.state)).map(|(l, s)| (s, l)).collect()
    }

    /// Adds elements of the peers to the sets.
    fn take_over_elements(&mut self, now: u64) -> (u64, u64) {
        let mut newest: HashMap<ElementKey, (ElementState, u64)> = HashMap::new();
        for (key, (state, told)) in self.peers.iter_mut().flat_map(|peer| peer.elements.drain()) {
            if newest.get(&key).is_none_or(|(_, other)| *other < told) {
                newest.insert(key, (state, told));
            }
        }
        let all = newest.into_iter().map(|(key, (state, told))| (key, state, told));
        let (entered, failed) = restore(&self.rules.generation(), all, now);
        self.elements_taken_over.0 += entered;
        self.elements_taken_over.1 += failed;
        (entered, failed)
    }

    /// Does what a transition needs; what came of it.
    pub(super) fn transition(&mut self, transition: Transition) -> String {
        let now = crate::now();
        let sentence = match transition {
            Transition::Primary => {
                self.purge.cancel();
                // Before connections: they may meet rules at once.
                let elements = self.take_over_elements(now);
                let all = self.drain(now);
                let mut done = take_over(&self.tables, all, self.config.window_tracking);
                let expected = self.peers.iter_mut().flat_map(|peer| peer.expected.drain());
                let expected = expected.map(|e| (e.left(now), e.state));
                let expected: Vec<_> = expected.map(|(seconds, state)| (state, seconds)).collect();
                done.failed += expect_all(&self.tables, expected).failed;
                self.taken_over.add(done);
                self.announcer.begin(crate::now());
                self.announcer.tick(crate::now(), &self.tables);
                self.tell_all(now);
                let failed = done.failed + elements.1;
                let mut sentence = format!(
                    "{} connections and {} elements of peers are taken over",
                    done.entered, elements.0
                );
                if failed > 0 {
                    sentence.push_str(&format!(", {failed} could not be"));
                }
                sentence
            }
            Transition::Backup | Transition::Fault => {
                self.announcer.end();
                let seconds = self.config.purge_timeout;
                self.purge.begin(now, seconds);
                let mut sentence = format!("own connections end in {seconds} s");
                if transition == Transition::Backup {
                    self.tell(&Record::Ask);
                    sentence.push_str("; peers are asked for their connections");
                }
                sentence
            }
        };
        log(&sentence);
        sentence
    }
}
