// SPDX-License-Identifier: Apache-2.0

//! The side of this firewall, where records are spoken: its tables and sets become records, and what
//! others have told is entered into them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use penstock_conntrack::{Flow, Tuple};
use penstock_ctsync::config::Config;
use penstock_ctsync::secure::{ElementKey, ElementState, Record};
use penstock_ctsync::{Cached, Change, ConnectionState};
use penstock_nfnetlink::Expected;
use penstock_print::show::own_side::OwnSideStatus;

use super::Transition;
use super::announce::Announcer;
use super::bulk::Place;
use super::convert::{expectation_state, state_of};
use super::elements::{Elements, restore};
use super::external::External;
use super::take_over::{TakenOver, expect_all, take_over};
use super::timers::{Overrun, Purge};
use crate::connections::{Answer, Ask, Tables};
use crate::log;
use crate::peer_watcher::{TellingEnd, Told, is_expectation_nameable, is_nameable, passes};
use crate::rules::Rules;

pub(super) struct OwnSide {
    pub(super) config: Config,
    tables: Arc<Tables>,
    rules: Arc<Rules>,
    pub(super) told: TellingEnd,
    announcer: Announcer,
    elements: Elements,
    /// Elements of sets that packets change are told.
    tells_elements: bool,
    taken_over: TakenOver,
    elements_taken_over: (u64, u64),
    pub(super) purge: Purge,
    overrun: Overrun,
}

/// What became of a transition.
pub(super) struct Outcome {
    pub(super) sentence: String,
    /// Everything is to be told anew.
    pub(super) tells_all: bool,
}

impl OwnSide {
    pub(super) fn new(
        config: Config,
        tables: Arc<Tables>,
        rules: Arc<Rules>,
        told: TellingEnd,
        announcer: Announcer,
        tells_elements: bool,
    ) -> Self {
        OwnSide {
            config,
            tables,
            rules,
            told,
            announcer,
            elements: Elements::default(),
            tells_elements,
            taken_over: TakenOver::default(),
            elements_taken_over: (0, 0),
            purge: Purge::default(),
            overrun: Overrun::default(),
        }
    }

    fn connection(&self, change: Change, flow: &Flow) -> Record {
        let state = state_of(flow, self.config.window_tracking);
        Record::Connection(change, Box::new(state))
    }

    /// An event as a record.
    pub(super) fn record_of(&self, told: Told) -> Record {
        match told {
            Told::Connection(change, flow) => self.connection(change, &flow),
            Told::Expectation(change, expected) => {
                Record::Expectation(change, Box::new(expectation_state(&expected)))
            }
        }
    }

    /// Connections of a part of the tables that are told, and where the next part begins; `None` at
    /// the end.
    ///
    /// # Errors
    /// A worker does not answer, which is said in the log.
    pub(super) fn part(&self, place: Place) -> Result<(Vec<Record>, Option<Place>), ()> {
        let Ok((flows, next)) = place.part(&self.tables, usize::MAX) else {
            log("a worker does not answer: not everything is told to others");
            return Err(());
        };
        let told = flows.iter().filter(|flow| passes(&self.told.filter, flow) && is_nameable(flow));
        Ok((told.map(|flow| self.connection(Change::New, flow)).collect(), next))
    }

    /// All that is told besides connections.
    pub(super) fn rest(&self, now: u64) -> impl Iterator<Item = Record> {
        let expected = self.expectations().into_iter();
        let expected = expected.map(|e| Record::Expectation(Change::New, Box::new(e)));
        expected.chain(self.elements.all(now))
    }

    /// All expectations that are told.
    fn expectations(&self) -> Vec<penstock_ctsync::ExpectationState> {
        let told = |expected: &&Expected| {
            self.told.expectations.has(expected.helper.as_deref())
                && is_expectation_nameable(expected)
        };
        match self.tables.carry_out(Ask::Expectations, false) {
            Ok(Answer::Expectations(all)) => {
                all.iter().filter(told).map(expectation_state).collect()
            }
            _ => Vec::new(),
        }
    }

    /// How many events were missed.
    fn missed(&self) -> u64 {
        self.told.counts.missed.load(Ordering::Relaxed)
    }

    /// How it is.
    pub(super) fn status(&self, now: u64) -> OwnSideStatus {
        OwnSideStatus {
            missed_events: self.missed(),
            not_told: self.told.counts.not_told.load(Ordering::Relaxed),
            elements_not_told: self.elements.refused,
            committed: self.taken_over.entered,
            commit_failed: self.taken_over.failed,
            elements_entered: self.elements_taken_over.0,
            elements_failed: self.elements_taken_over.1,
            announced: self.announcer.sent,
            purge_in: self.purge.left(now),
        }
    }

    /// Announces addresses as far as that is due.
    pub(super) fn announce(&mut self, now: u64) {
        self.announcer.tick(now, &self.tables);
    }

    /// When there is something to do at the latest, where all else has time until `next`.
    pub(super) fn due(&self, next: u64) -> u64 {
        self.announcer.due().map_or(next, |due| due.min(next))
    }

    /// Does what is due, a few times in a second. Whether everything is to be told anew.
    pub(super) fn tick(&mut self, now: u64) -> bool {
        self.purge.tick(now, &self.tables, &self.told.filter);
        let due = self.overrun.tick(now, self.missed());
        if due {
            self.overrun.told(now);
        }
        due
    }

    /// Whether all events were told, or will be.
    pub(super) fn is_complete(&self) -> bool {
        !self.overrun.is_open(self.missed())
    }

    /// Elements that are other ones than at the last look, if a look is due.
    pub(super) fn changed_elements(&mut self, now: u64) -> Vec<Record> {
        if !self.tells_elements || !self.elements.is_due(now) {
            return Vec::new();
        }
        let generation = self.rules.generation();
        self.elements.changes(&generation, now)
    }

    /// What was told last of each connection, with how many seconds it has left.
    fn drain(&self, all: &mut [&mut External], now: u64) -> Vec<(ConnectionState, u64)> {
        let lives = self.config.commit_timeout.map(u64::from);
        let with_left = |cached: Cached<ConnectionState>| cached.with_left(lives, now);
        let mut all = all.iter_mut().filter(|one| !one.connections.is_empty());
        let Some(first) = all.next() else { return Vec::new() };
        let mut rest = all.flat_map(|one| one.connections.drain()).peekable();
        if rest.peek().is_none() {
            return first.connections.drain().map(with_left).collect();
        }
        let mut newest: HashMap<Tuple, Cached<ConnectionState>> = HashMap::new();
        for cached in first.connections.drain().chain(rest) {
            let key = cached.state.original;
            if newest.get(&key).is_none_or(|other| other.updated < cached.updated) {
                newest.insert(key, cached);
            }
        }
        newest.into_values().map(with_left).collect()
    }

    /// Adds elements of others to the sets.
    fn take_over_elements(&mut self, all: &mut [&mut External], now: u64) -> (u64, u64) {
        let mut newest: HashMap<ElementKey, (ElementState, u64)> = HashMap::new();
        for (key, (state, told)) in all.iter_mut().flat_map(|one| one.elements.drain()) {
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

    /// Does what a transition needs, with all that others have told.
    pub(super) fn transition(
        &mut self,
        transition: Transition,
        mut all: Vec<&mut External>,
    ) -> Outcome {
        let now = crate::now();
        let outcome = match transition {
            Transition::Primary => {
                self.purge.cancel();
                // Before connections: they may meet rules at once.
                let elements = self.take_over_elements(&mut all, now);
                let wanted = self.drain(&mut all, now);
                let mut done = take_over(&self.tables, wanted, self.config.window_tracking);
                let expected = all.iter_mut().flat_map(|one| one.expected.drain());
                let expected: Vec<_> = expected.map(|cached| cached.with_left(None, now)).collect();
                done.failed += expect_all(&self.tables, expected).failed;
                self.taken_over.add(done);
                self.announcer.begin(crate::now());
                self.announce(crate::now());
                self.overrun.told(now);
                let failed = done.failed + elements.1;
                let mut sentence = format!(
                    "{} connections and {} elements of peers are taken over",
                    done.entered, elements.0
                );
                if failed > 0 {
                    sentence.push_str(&format!(", {failed} could not be"));
                }
                Outcome { sentence, tells_all: true }
            }
            Transition::Backup | Transition::Fault => {
                self.announcer.end();
                let seconds = self.config.purge_timeout;
                self.purge.begin(now, seconds);
                let mut sentence = format!("own connections end in {seconds} s");
                if transition == Transition::Backup {
                    sentence.push_str("; peers are asked for their connections");
                }
                Outcome { sentence, tells_all: false }
            }
        };
        log(&outcome.sentence);
        outcome
    }
}
