// SPDX-License-Identifier: Apache-2.0

//! What the peer has told of its connections: the external cache (`external_cache.c`).

use std::collections::HashMap;

use penstock_conntrack::Tuple;

use crate::connection::ConnectionState;
use crate::expectation::ExpectationState;
use crate::message::Change;

/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;
/// Seconds that a connection lives whose own time has passed (`cache_ct_commit_step()`).
const PASSED: u64 = 60;

/// A connection of the peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cached {
    /// What the peer has told of it.
    pub state: ConnectionState,
    /// When it did that the last time.
    pub updated: u64,
}

impl Cached {
    /// How many seconds it has left, as far as that is known: a minute if they have passed.
    pub fn left(&self, now: u64) -> u64 {
        left(self.state.timeout, self.updated, now)
    }
}

/// How much of some seconds is left that were left at a time: a minute if they have passed.
fn left(timeout: Option<u32>, updated: u64, now: u64) -> u64 {
    let age = now.saturating_sub(updated) / SECOND;
    let timeout = timeout.map_or(0, u64::from);
    timeout.checked_sub(age).filter(|left| *left > 0).unwrap_or(PASSED)
}

/// The connections of the peer, by their original tuples.
#[derive(Debug, Default)]
pub struct ExternalCache {
    all: HashMap<Tuple, Cached>,
    limit: usize,
    refused: u64,
}

impl ExternalCache {
    /// Nothing, and `limit` connections at most.
    pub fn new(limit: usize) -> Self {
        ExternalCache { all: HashMap::new(), limit, refused: 0 }
    }

    /// How many connections there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// How many had no place.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Takes what the peer tells.
    pub fn take(&mut self, change: Change, state: ConnectionState, now: u64) {
        let key = state.original;
        match change {
            Change::Delete => drop(self.all.remove(&key)),
            Change::Update if self.all.contains_key(&key) => {
                if let Some(cached) = self.all.get_mut(&key) {
                    cached.state.merge(state);
                    cached.updated = now;
                }
            }
            Change::New | Change::Update => {
                if self.all.len() >= self.limit && !self.all.contains_key(&key) {
                    self.refused += 1;
                    return;
                }
                self.all.insert(key, Cached { state, updated: now });
            }
        }
    }

    /// Forgets what the peer has not told for so many nanoseconds (ALARM).
    pub fn expire(&mut self, now: u64, after: u64) {
        self.all.retain(|_, cached| now.saturating_sub(cached.updated) < after);
    }

    /// Forgets everything.
    pub fn flush(&mut self) {
        self.all = HashMap::new();
    }

    /// All connections; those that others expected come last, since they need them.
    pub fn iter(&self) -> impl Iterator<Item = &Cached> {
        let of = |expected: bool| {
            self.all.values().filter(move |cached| cached.state.master.is_some() == expected)
        };
        of(false).chain(of(true))
    }
}

/// The expectations of the peer, by their tuples.
#[derive(Debug, Default)]
pub struct ExpectationCache {
    all: HashMap<Tuple, (ExpectationState, u64)>,
    limit: usize,
    refused: u64,
}

impl ExpectationCache {
    /// Nothing, and `limit` expectations at most.
    pub fn new(limit: usize) -> Self {
        ExpectationCache { all: HashMap::new(), limit, refused: 0 }
    }

    /// How many expectations there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// How many had no place.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Takes what the peer tells.
    pub fn take(&mut self, change: Change, state: ExpectationState, now: u64) {
        let key = state.expected;
        match change {
            Change::Delete => drop(self.all.remove(&key)),
            Change::New | Change::Update => {
                if self.all.len() >= self.limit && !self.all.contains_key(&key) {
                    self.refused += 1;
                    return;
                }
                self.all.insert(key, (state, now));
            }
        }
    }

    /// Forgets what the peer has not told for so many nanoseconds (ALARM).
    pub fn expire(&mut self, now: u64, after: u64) {
        self.all.retain(|_, (_, updated)| now.saturating_sub(*updated) < after);
    }

    /// Takes everything out: expectations, and how many seconds they have left.
    pub fn drain(&mut self, now: u64) -> Vec<(ExpectationState, u64)> {
        let all = std::mem::take(&mut self.all).into_values();
        all.map(|(state, updated)| {
            let seconds = left(state.timeout, updated, now);
            (state, seconds)
        })
        .collect()
    }
}
