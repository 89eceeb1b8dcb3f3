// SPDX-License-Identifier: Apache-2.0

//! Another node: what it has told, and how far this node is in step with it.

use penstock_ctsync::cluster::{Head, Order, Place};
use penstock_ctsync::config::Config;
use penstock_ctsync::secure::Record;
use penstock_print::show::nats::NatsNodeStatus;

use crate::failover::external::External;

/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;
/// How long a node is silent before it does not count as up.
const SILENCE: u64 = 10 * SECOND;
/// How long a node is silent before what has ended of its connections is forgotten.
const LONG_SILENCE: u64 = 60 * SECOND;
/// How long is waited for a snapshot after something was lost, before it is asked for: the node may
/// know of it, and be about to tell one. How long for each of those that were asked for.
const ASK: [u64; 2] = [8 * SECOND, 10 * SECOND];
/// How long a snapshot may take.
const SNAPSHOT: u64 = 120 * SECOND;

pub(in crate::failover) struct Node {
    pub(super) name: String,
    pub(in crate::failover) external: External,
    order: Order,
    /// The time of the last message: later ones have later times.
    last: u64,
    heard: Option<u64>,
    in_sync: Option<u64>,
    /// Since when something may be missing.
    lacks: Option<u64>,
    asked: u64,
    epochs: u64,
    lost: u64,
    late: u64,
}

impl Node {
    pub(super) fn new(name: &str, config: &Config) -> Self {
        Node {
            name: name.to_owned(),
            external: External::new(config),
            order: Order::default(),
            last: 0,
            heard: None,
            in_sync: None,
            lacks: None,
            asked: 0,
            epochs: 0,
            lost: 0,
            late: 0,
        }
    }

    /// Takes a message that was stored so many nanoseconds ago. Returns what others have to do
    /// something about; `follows` says whether all that was stored before this node began is read.
    pub(super) fn take(
        &mut self,
        head: &Head<'_>,
        records: &[u8],
        age: u64,
        follows: bool,
        now: u64,
    ) -> Vec<Record> {
        match self.order.take(head.epoch, head.sequence) {
            Place::Old => {
                self.late += 1;
                return Vec::new();
            }
            Place::Next => {}
            Place::First => {
                self.epochs += 1;
                self.external.lose();
            }
            Place::After(missing) => {
                self.lost = self.lost.saturating_add(missing);
                self.external.lose();
            }
        }
        let at = now.saturating_sub(age).max(self.last.saturating_add(1));
        self.last = at;
        self.heard = Some(at.min(now));
        self.external.set_generation(head.generation, at);
        let mut others = Vec::new();
        self.external.take_records(records, &mut others, at);
        if std::mem::take(&mut self.external.is_wrong) {
            self.external.lose();
        }
        for record in &others {
            if let Record::Alive { complete: true, .. } = record
                && self.external.complete
                && follows
            {
                self.in_sync = self.heard;
            }
        }
        others
    }

    /// Whether it was heard of lately.
    fn is_up(&self, now: u64) -> bool {
        self.heard.is_some_and(|heard| now.saturating_sub(heard) < SILENCE)
    }

    /// Whether it is to be asked for all that it has.
    pub(super) fn is_to_be_asked(&mut self, now: u64) -> bool {
        let waits_for = if self.external.is_hearing() { SNAPSHOT } else { ASK[0] };
        if self.external.complete || !self.is_up(now) {
            self.lacks = None;
            return false;
        }
        let since = *self.lacks.get_or_insert(now);
        let asks =
            now.saturating_sub(since) >= waits_for && now.saturating_sub(self.asked) >= ASK[1];
        if asks {
            self.asked = now;
        }
        asks
    }

    /// Forgets what has ended. Whether the node itself can be forgotten.
    pub(super) fn forget_ended(&mut self, now: u64) -> bool {
        self.external.forget_ended(now);
        let is_silent = self.heard.is_none_or(|heard| now.saturating_sub(heard) >= LONG_SILENCE);
        if is_silent {
            self.external.forget_all_ended(now);
        }
        is_silent && self.external.is_empty()
    }

    /// How it is.
    pub(super) fn status(&self, now: u64) -> NatsNodeStatus {
        let ago = |at: Option<u64>| at.map(|at| now.saturating_sub(at) as f64 / SECOND as f64);
        NatsNodeStatus {
            name: self.name.clone(),
            up: self.is_up(now),
            complete: self.external.complete,
            in_sync_ago: ago(self.in_sync),
            heard_ago: ago(self.heard),
            epochs: self.epochs,
            received: self.external.received,
            malformed: self.external.malformed,
            lost: self.lost,
            late: self.late,
            wrong_digests: self.external.wrong_digests,
            cached: self.external.connections.len() as u64,
            expected: self.external.expected.len() as u64,
            elements: self.external.elements.len() as u64,
            cache_full: self.external.refused(),
        }
    }
}
