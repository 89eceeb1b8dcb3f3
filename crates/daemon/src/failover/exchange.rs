// SPDX-License-Identifier: Apache-2.0

//! The thread that speaks with the peer: events of the workers become messages, messages of the peer
//! become its cache, and requests are done in between.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use penstock_conntrack::Flow;
use penstock_ctsync::config::{Config, Mode as Kind};
use penstock_ctsync::{
    Cached, Change, ConnectionState, ExpectationCache, ExpectationState, ExternalCache,
    Kind as About, Malformed, Message, Mode, Received, split, write_connection, write_expectation,
};
use penstock_nfnetlink::Expected;
use penstock_print::show::peer::{PeerMalformed, PeerStatus};

use super::announce::Announcer;
use super::bulk::{Bulk, Place};
use super::convert::{expectation_state, state_of};
use super::links::{LONGEST, Links};
use super::take_over::{Direct, TakenOver, expect_all, follow, follow_expectation, take_over};
use super::timers::{Overrun, Purge};
use super::turns::{LOOK, Turns};
use super::{Kept, Request, Status, Transition};
use crate::connections::{Answer, Ask, Tables};
use crate::log;
use crate::peer_watcher::{TellingEnd, Told, is_expectation_nameable, is_nameable, passes};
use crate::requests::inbox::Inbox;

/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;
/// Datagrams of a link that are taken before anything else is done.
const DATAGRAMS: usize = 256;
/// Messages that are on their way at most while all connections are told: they fit into the receive
/// buffer of a peer with the sizes of conntrackd's examples.
const ON_THE_WAY: usize = 4096;

/// What the thread has.
pub(super) struct Exchange {
    config: Config,
    links: Links,
    tables: Arc<Tables>,
    told: TellingEnd,
    asked: Arc<Inbox<Request>>,
    mode: Mode,
    cache: ExternalCache,
    expected: ExpectationCache,
    /// What is to be entered at once.
    direct: Direct,
    /// Expectations that are to begin or end at once, after the connections.
    direct_expected: Vec<(Change, ExpectationState)>,
    bulk: Option<Bulk>,
    /// Where connections are told again, in ALARM mode.
    refreshed: Place,
    received: u64,
    malformed: [u64; Malformed::ALL.len()],
    expectations_ignored: u64,
    in_sync: Option<u64>,
    heard: Option<u64>,
    taken_over: TakenOver,
    purge: Purge,
    announcer: Announcer,
    looked: u64,
    overrun: Overrun,
    datagram: Vec<u8>,
    buffer: Box<[u8]>,
}

impl Exchange {
    pub(super) fn new(
        config: Config,
        links: Links,
        tables: Arc<Tables>,
        told: TellingEnd,
        asked: Arc<Inbox<Request>>,
        announcer: Announcer,
        now: u64,
    ) -> Self {
        let mut mode = Mode::new(&config.mode, (now / SECOND) as u32, now);
        if config.startup_resync {
            mode.request_resync();
        }
        Exchange {
            cache: ExternalCache::new(config.limit),
            expected: ExpectationCache::new(config.limit),
            config,
            links,
            tables,
            told,
            asked,
            mode,
            direct: Direct::new(),
            direct_expected: Vec::new(),
            bulk: None,
            refreshed: Place::default(),
            received: 0,
            malformed: [0; Malformed::ALL.len()],
            expectations_ignored: 0,
            in_sync: None,
            heard: None,
            taken_over: TakenOver::default(),
            purge: Purge::default(),
            announcer,
            looked: 0,
            overrun: Overrun::default(),
            datagram: Vec::new(),
            buffer: vec![0; LONGEST].into(),
        }
    }

    /// Goes on where another exchange has ended.
    pub(super) fn resume(&mut self, kept: Kept, now: u64) {
        if let Some(told) = kept.told {
            (self.cache, self.expected) = *told;
            self.cache.set_limit(self.config.limit);
            self.expected.set_limit(self.config.limit);
        }
        self.purge = kept.purge;
        if kept.went_on {
            self.tell_all(now);
        }
    }

    fn enqueue(&mut self, change: Change, flow: &Flow) {
        let state = state_of(flow, self.config.window_tracking);
        self.mode.enqueue(write_connection(change, &state));
    }

    fn enqueue_expected(&mut self, change: Change, expected: &Expected) {
        self.mode.enqueue(write_expectation(change, &expectation_state(expected)));
    }

    /// Tells connections of the table, as far as they are to be told.
    fn enqueue_all(&mut self, flows: &[Flow], change: Change) {
        for flow in flows {
            if passes(&self.told.filter, flow) && is_nameable(flow) {
                self.enqueue(change, flow);
            }
        }
    }

    fn send(&mut self, now: u64) {
        let mut datagram = std::mem::take(&mut self.datagram);
        while self.mode.send(now, &mut datagram, self.links.room()) {
            self.links.send(&datagram);
        }
        self.datagram = datagram;
    }

    /// Takes datagrams; whether there were any.
    fn receive(&mut self, now: u64) -> bool {
        let mut any = false;
        let mut buffer = std::mem::take(&mut self.buffer);
        for link in 0..self.links.descriptors().count() {
            for _ in 0..DATAGRAMS {
                let Some(len) = self.links.receive(link, &mut buffer) else { break };
                any = true;
                for message in split(buffer.get(..len).unwrap_or_default()) {
                    match message.and_then(|message| self.take(&message, link, now)) {
                        Ok(()) => {}
                        Err(malformed) => {
                            let place = Malformed::ALL.iter().position(|m| *m == malformed);
                            let count = place.and_then(|place| self.malformed.get_mut(place));
                            count.into_iter().for_each(|count| *count += 1);
                        }
                    }
                }
            }
        }
        self.buffer = buffer;
        if !self.direct.is_empty() {
            let direct = std::mem::take(&mut self.direct);
            self.taken_over.add(follow(&self.tables, direct, self.config.window_tracking));
        }
        for (change, state) in std::mem::take(&mut self.direct_expected) {
            let seconds = state.timeout.unwrap_or_default().into();
            if follow_expectation(&self.tables, change, &state, seconds).is_err() {
                self.taken_over.failed += 1;
            }
        }
        any
    }

    /// Takes a message.
    fn take(&mut self, message: &Message<'_>, link: usize, now: u64) -> Result<(), Malformed> {
        self.received += 1;
        self.heard = Some(now);
        let lost = self.mode.tracked().lost;
        let received = self.mode.receive(message);
        if matches!(received, Received::Data | Received::Control | Received::Resync) {
            self.links.use_link(link);
            if self.mode.tracked().lost == lost {
                self.in_sync = Some(now);
            }
        }
        match received {
            Received::Control | Received::Late => Ok(()),
            Received::Malformed => Err(Malformed::Header),
            Received::Resync => {
                self.tell_all(now);
                Ok(())
            }
            Received::Data => match message.kind {
                About::Connection(change) => {
                    let state = ConnectionState::read(message.body)?;
                    self.cache_or_follow(change, state, now);
                    Ok(())
                }
                About::Expectation(change) => {
                    let state = ExpectationState::read(message.body)?;
                    if !self.config.expectations.has(state.helper.as_deref()) {
                        self.expectations_ignored += 1;
                    } else if self.config.direct {
                        self.direct_expected.push((change, state));
                    } else {
                        self.expected.take(change, state, now);
                    }
                    Ok(())
                }
                About::Control | About::Unknown(_) => Err(Malformed::Type),
            },
        }
    }

    fn cache_or_follow(&mut self, change: Change, state: ConnectionState, now: u64) {
        if !self.config.direct {
            return self.cache.take(change, state, now);
        }
        let seconds = match self.config.commit_timeout {
            Some(seconds) => seconds.into(),
            None => Cached { state: state.clone(), updated: now }.left(now),
        };
        self.direct.insert(state.original, (change, (state, seconds)));
    }

    /// All connections are told from now on.
    fn tell_all(&mut self, now: u64) {
        self.bulk = Some(Bulk::new());
        self.overrun.told(now);
    }

    /// Tells the next part of all connections; whether there is one.
    fn tell_part(&mut self, now: u64) -> bool {
        let Some(mut bulk) = self.bulk.take() else { return false };
        let limit = match self.config.mode {
            Kind::FtFw { resend_queue, window } => {
                (resend_queue / 2).min(ON_THE_WAY.max(2 * window as usize))
            }
            Kind::Alarm { .. } | Kind::NoTrack => usize::MAX,
        };
        if !bulk.may_send(now, self.mode.unacknowledged().unwrap_or(0), limit) {
            self.bulk = Some(bulk);
            return false;
        }
        match bulk.next.part(&self.tables, usize::MAX) {
            Ok((flows, next)) => {
                self.enqueue_all(&flows, Change::New);
                self.bulk = next.map(|next| Bulk { next, waits_since: None });
                if self.bulk.is_none() {
                    self.tell_expectations(Change::New);
                }
            }
            Err(_) => log("a worker does not answer: not all connections are told to the peer"),
        }
        true
    }

    /// Tells all expectations that are told.
    fn tell_expectations(&mut self, change: Change) {
        let all = match self.tables.carry_out(Ask::Expectations, false) {
            Ok(Answer::Expectations(all)) => all,
            _ => return,
        };
        for expected in &all {
            if self.told.expectations.has(expected.helper.as_deref())
                && is_expectation_nameable(expected)
            {
                self.enqueue_expected(change, expected);
            }
        }
    }

    fn do_what_is_due(&mut self, now: u64) {
        self.mode.tick(now);
        self.announcer.tick(now, &self.tables);
        if now.saturating_sub(self.looked) < LOOK {
            return;
        }
        self.looked = now;
        self.links.look();
        if let Kind::Alarm { cache_timeout, .. } = self.config.mode {
            self.refresh(now);
            self.cache.expire(now, u64::from(cache_timeout) * SECOND);
            self.expected.expire(now, u64::from(cache_timeout) * SECOND);
        }
        if self.overrun.tick(now, self.told.counts.missed.load(Ordering::Relaxed)) {
            self.tell_all(now);
        }
        self.purge.tick(now, &self.tables, &self.told.filter);
    }

    /// Tells some connections again (ALARM).
    fn refresh(&mut self, now: u64) {
        let counts = self.tables.all(|table| table.count());
        let Ok(counts) = counts else { return };
        let count: usize = counts.iter().map(|count| *count as usize).sum();
        let mut left = self.mode.refresh(now, count);
        let mut places = 0;
        // A part ends where the table of a worker does.
        while left > 0 && places <= self.tables.workers() {
            let Ok((flows, next)) = self.refreshed.part(&self.tables, left) else { return };
            self.enqueue_all(&flows, Change::Update);
            left = left.saturating_sub(flows.len());
            places += usize::from(flows.is_empty());
            if next.is_none() {
                self.tell_expectations(Change::Update);
            }
            self.refreshed = next.unwrap_or_default();
        }
    }

    fn peer_status(&self) -> PeerStatus {
        let now = crate::now();
        let ago = |at: u64| now.saturating_sub(at) as f64 / SECOND as f64;
        let tracked = self.mode.tracked();
        let malformed = Malformed::ALL.iter().zip(self.malformed).filter(|(_, count)| *count > 0);
        PeerStatus {
            mode: self.config.mode.name(),
            links: self.links.status(),
            in_sync_ago: self.in_sync.map(ago),
            heard_ago: self.heard.map(ago),
            sent: self.mode.sent(),
            received: self.received,
            lost: tracked.lost,
            late: tracked.late,
            malformed: malformed
                .map(|(why, messages)| PeerMalformed { reason: why.name(), messages })
                .collect(),
            waiting: self.mode.waiting() as u64,
            unacknowledged: self.mode.unacknowledged().map(|count| count as u64),
            given_up: self.mode.given_up(),
            missed_events: self.told.counts.missed.load(Ordering::Relaxed),
            not_told: self.told.counts.not_told.load(Ordering::Relaxed),
            expectations_ignored: self.expectations_ignored,
            cached: self.cache.len() as u64,
            expected: self.expected.len() as u64,
            cache_full: self.cache.refused() + self.expected.refused(),
            committed: self.taken_over.entered,
            commit_failed: self.taken_over.failed,
            announced: self.announcer.sent,
            bulk: self.bulk.is_some(),
            purge_in: self.purge.left(now),
        }
    }
}

impl Turns for Exchange {
    fn asked(&self) -> &Inbox<Request> {
        &self.asked
    }

    fn told(&self) -> &TellingEnd {
        &self.told
    }

    fn transition(&mut self, transition: Transition) -> Result<String, String> {
        let now = crate::now();
        match transition {
            Transition::Primary => {
                self.purge.cancel();
                let lives = self.config.commit_timeout.map(u64::from);
                let all = self.cache.drain().map(|cached| cached.with_left(lives, now));
                let all: Vec<_> = all.collect();
                let mut done = take_over(&self.tables, all, self.config.window_tracking);
                let expected = self.expected.drain().map(|cached| cached.with_left(None, now));
                let expected = expect_all(&self.tables, expected);
                done.failed += expected.failed;
                self.taken_over.add(done);
                self.announcer.begin(crate::now());
                self.announcer.tick(crate::now(), &self.tables);
                self.tell_all(now);
                let TakenOver { entered, failed } = done;
                let sentence = match failed {
                    0 => format!("{entered} connections of the peer are taken over"),
                    _ => format!(
                        "{entered} connections of the peer are taken over, {failed} could not be"
                    ),
                };
                log(&sentence);
                Ok(sentence)
            }
            Transition::Backup | Transition::Fault => {
                self.announcer.end();
                let seconds = self.config.purge_timeout;
                self.purge.begin(now, seconds);
                let mut sentence = format!("own connections end in {seconds} s");
                if transition == Transition::Backup && self.mode.request_resync() {
                    sentence.push_str("; the peer is asked for its connections");
                }
                log(&sentence);
                Ok(sentence)
            }
        }
    }

    fn status(&self) -> Status {
        Status::Conntrackd(Box::new(self.peer_status()))
    }

    fn take_event(&mut self, told: Told) {
        match told {
            Told::Connection(change, flow) => self.enqueue(change, &flow),
            Told::Expectation(change, expected) => self.enqueue_expected(change, &expected),
        }
    }

    fn turn(&mut self, now: u64) -> bool {
        let mut busy = self.receive(now);
        busy |= self.tell_part(now);
        self.do_what_is_due(now);
        self.send(now);
        busy
    }

    fn due(&self) -> u64 {
        let next = self.looked + LOOK;
        self.mode.due().map_or(next, |due| due.min(next))
    }

    fn descriptors(&self) -> impl Iterator<Item = (BorrowedFd<'_>, bool)> {
        self.links.descriptors().map(|fd| (fd, false))
    }

    fn end(self) -> Kept {
        Kept {
            told: Some(Box::new((self.cache, self.expected))),
            purge: self.purge,
            went_on: true,
            ..Kept::default()
        }
    }
}
