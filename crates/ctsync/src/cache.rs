// SPDX-License-Identifier: Apache-2.0

//! What the peer has told of its connections and expectations: the external cache
//! (`external_cache.c`).

use std::collections::HashMap;
use std::ops::Range;

use penstock_conntrack::Tuple;

use crate::connection::ConnectionState;
use crate::expectation::ExpectationState;
use crate::message::Change;

/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;
/// Seconds that a connection lives whose own time has passed (`cache_ct_commit_step()`).
const PASSED: u64 = 60;

/// What messages say of something that has a tuple.
pub trait State {
    /// The tuple that it is known by.
    fn key(&self) -> Tuple;

    /// What is left of its life, in seconds, as far as that was told.
    fn timeout(&self) -> Option<u32>;

    /// Takes what another message says of it.
    fn update(&mut self, new: Self);
}

impl State for ConnectionState {
    fn key(&self) -> Tuple {
        self.original
    }

    fn timeout(&self) -> Option<u32> {
        self.timeout
    }

    /// What the other message leaves out stays.
    fn update(&mut self, new: Self) {
        self.merge(new);
    }
}

impl State for ExpectationState {
    fn key(&self) -> Tuple {
        self.expected
    }

    fn timeout(&self) -> Option<u32> {
        self.timeout
    }

    /// The other message says everything.
    fn update(&mut self, new: Self) {
        *self = new;
    }
}

/// Something that the peer has told of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cached<T> {
    /// What the peer has told of it.
    pub state: T,
    /// When it did that the last time, in nanoseconds.
    pub updated: u64,
}

impl<T: State> Cached<T> {
    /// How many seconds it has left, as far as that is known: a minute if they have passed.
    pub fn left(&self, now: u64) -> u64 {
        let age = now.saturating_sub(self.updated) / SECOND;
        let timeout = self.state.timeout().map_or(0, u64::from);
        timeout.checked_sub(age).filter(|left| *left > 0).unwrap_or(PASSED)
    }

    /// What the peer has told, and how many seconds it has left: `lives`, if that is given.
    pub fn with_left(self, lives: Option<u64>, now: u64) -> (T, u64) {
        let left = lives.unwrap_or_else(|| self.left(now));
        (self.state, left)
    }
}

/// What the peer has told of, by tuples.
#[derive(Debug)]
pub struct Cache<T> {
    all: HashMap<Tuple, Cached<T>>,
    limit: usize,
    refused: u64,
}

/// The connections of the peer, by their original tuples.
pub type ExternalCache = Cache<ConnectionState>;

/// The expectations of the peer, by their tuples.
pub type ExpectationCache = Cache<ExpectationState>;

impl<T: State> Cache<T> {
    /// Nothing, and `limit` entries at most.
    pub fn new(limit: usize) -> Self {
        Cache { all: HashMap::new(), limit, refused: 0 }
    }

    /// Another limit counts for what comes.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// How many entries there are.
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
    pub fn take(&mut self, change: Change, state: T, now: u64) {
        let key = state.key();
        match change {
            Change::Delete => drop(self.all.remove(&key)),
            Change::Update if self.all.contains_key(&key) => {
                if let Some(cached) = self.all.get_mut(&key) {
                    cached.state.update(state);
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

    /// Forgets what the peer has told the last time within a time, in nanoseconds.
    pub fn forget_told(&mut self, within: Range<u64>) {
        self.all.retain(|_, cached| !within.contains(&cached.updated));
    }

    /// Forgets what was told the last time before a time, in nanoseconds, and has come to its end
    /// since.
    pub fn forget_ended(&mut self, before: u64, now: u64) {
        self.all.retain(|_, cached| {
            let life = u64::from(cached.state.timeout().unwrap_or(0)) * SECOND;
            cached.updated >= before || now.saturating_sub(cached.updated) < life
        });
    }

    /// All entries, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &Cached<T>> {
        self.all.values()
    }

    /// Takes everything out.
    pub fn drain(&mut self) -> impl Iterator<Item = Cached<T>> {
        std::mem::take(&mut self.all).into_values()
    }
}
