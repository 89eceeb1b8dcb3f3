// SPDX-License-Identifier: Apache-2.0

//! What another firewall has told by records: its connections, expectations and elements, apart from
//! the own ones until they are taken over.

use std::collections::HashMap;

use penstock_ctsync::config::{Config, Expectations};
use penstock_ctsync::secure::{Digest, ElementKey, ElementState, Record, Records};
use penstock_ctsync::{ExpectationCache, ExternalCache};

/// All that there is, on its way here.
struct HearingAll {
    mark: u64,
    began: u64,
}

/// What a firewall has told. Times are in nanoseconds, and do not go back.
pub(super) struct External {
    pub(super) connections: ExternalCache,
    pub(super) expected: ExpectationCache,
    pub(super) elements: HashMap<ElementKey, (ElementState, u64)>,
    limit: usize,
    /// Which expectations are kept.
    wanted: Expectations,
    hearing: Option<HearingAll>,
    digest: Digest,
    /// Since when its table is of this generation.
    generation: Option<(u64, u64)>,
    /// Something may be left of an earlier generation.
    has_old: bool,
    /// It has told all that it had, and nothing was lost since.
    pub(super) complete: bool,
    /// What it told at once did not have the digest that it should: it is to tell everything anew.
    pub(super) is_wrong: bool,
    pub(super) received: u64,
    pub(super) malformed: u64,
    pub(super) wrong_digests: u64,
    elements_refused: u64,
}

impl External {
    pub(super) fn new(config: &Config) -> Self {
        External {
            connections: ExternalCache::new(config.limit),
            expected: ExpectationCache::new(config.limit),
            elements: HashMap::new(),
            limit: config.limit,
            wanted: config.expectations.clone(),
            hearing: None,
            digest: Digest::default(),
            generation: None,
            has_old: false,
            complete: false,
            is_wrong: false,
            received: 0,
            malformed: 0,
            wrong_digests: 0,
            elements_refused: 0,
        }
    }

    /// Goes on with what was told to another exchange.
    pub(super) fn resume(&mut self, before: External) {
        let External { mut connections, mut expected, elements, generation, has_old, .. } = before;
        connections.set_limit(self.limit);
        expected.set_limit(self.limit);
        (self.connections, self.expected, self.elements) = (connections, expected, elements);
        (self.generation, self.has_old) = (generation, has_old);
    }

    /// Something may be missing from here on, until everything is told anew.
    pub(super) fn lose(&mut self) {
        (self.hearing, self.complete) = (None, false);
    }

    /// Whether it is telling all that it has.
    pub(super) fn is_hearing(&self) -> bool {
        self.hearing.is_some()
    }

    /// Whether nothing is kept.
    pub(super) fn is_empty(&self) -> bool {
        self.connections.is_empty() && self.expected.is_empty() && self.elements.is_empty()
    }

    /// How much found no place.
    pub(super) fn refused(&self) -> u64 {
        self.connections.refused() + self.expected.refused() + self.elements_refused
    }

    /// Takes records. Those that say nothing of tables are left in `others`.
    pub(super) fn take_records(&mut self, records: &[u8], others: &mut Vec<Record>, now: u64) {
        let mut records = Records::of(records);
        while let Some(record) = records.next(&mut self.digest) {
            match record {
                Ok(Some(record)) => self.take(record, others, now),
                Ok(None) => {}
                Err(_) => self.malformed += 1,
            }
        }
    }

    /// Its table is of this generation.
    pub(super) fn set_generation(&mut self, generation: u64, now: u64) {
        if self.generation.is_none_or(|(before, _)| before != generation) {
            self.has_old |= self.generation.is_some();
            self.generation = Some((generation, now));
        }
    }

    fn take(&mut self, record: Record, others: &mut Vec<Record>, now: u64) {
        self.received += 1;
        match record {
            Record::Generation(generation) => self.set_generation(generation, now),
            Record::Connection(change, state) => self.connections.take(change, *state, now),
            Record::Expectation(change, state) => {
                if self.wanted.has(state.helper.as_deref()) {
                    self.expected.take(change, *state, now);
                }
            }
            Record::Element(key, state) => {
                if self.elements.len() >= self.limit && !self.elements.contains_key(&key) {
                    self.elements_refused += 1;
                } else {
                    self.elements.insert(key, (state, now));
                }
            }
            Record::NoElement(key) => drop(self.elements.remove(&key)),
            Record::Begin { mark } => {
                self.hearing = Some(HearingAll { mark, began: now });
                self.digest = Digest::default();
            }
            Record::End { mark, digest } => self.end_of_all(mark, digest),
            other => others.push(other),
        }
    }

    /// It has told all that it has: what it has not told since the beginning is no more, but for
    /// what it told before its table was a new one.
    fn end_of_all(&mut self, mark: u64, digest: Digest) {
        let Some(hearing) = self.hearing.take().filter(|hearing| hearing.mark == mark) else {
            return;
        };
        if digest != self.digest {
            self.wrong_digests += 1;
            self.is_wrong = true;
            return;
        }
        let since = self.generation.map_or(0, |(_, since)| since);
        let gone = since..hearing.began;
        self.connections.forget_told(gone.clone());
        self.expected.forget_told(gone.clone());
        self.elements.retain(|_, (_, told)| !gone.contains(told));
        self.complete = true;
    }

    /// Forgets what has ended of generations that are no more.
    pub(super) fn forget_ended(&mut self, now: u64) {
        if let Some((_, since)) = self.generation
            && self.has_old
        {
            self.connections.forget_ended(since, now);
            self.expected.forget_ended(since, now);
        }
    }

    /// Forgets all that has ended: the firewall does not tell any more.
    pub(super) fn forget_all_ended(&mut self, now: u64) {
        self.connections.forget_ended(now, now);
        self.expected.forget_ended(now, now);
        self.elements.retain(|_, (state, told)| {
            let left = state.left.saturating_mul(1_000_000);
            state.timeout == 0 || now.saturating_sub(*told) < left
        });
    }
}
