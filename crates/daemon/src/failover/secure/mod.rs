// SPDX-License-Identifier: Apache-2.0

//! The thread that speaks with peers by the protocol of Penstock ([`penstock_ctsync::secure`]).
//!
//! | file | is |
//! | --- | --- |
//! | `link` | the socket that peers connect to, and the own key |
//! | `peer` | a peer: its session, what it is told and has told |
//! | `strangers` | connections that have not shown yet who they are |
//! | `wire` | a connection of TCP |
//! | `outbox` | records that wait to be sent |
//! | `elements` | elements of sets that packets change |
//! | `transition` | what peers have told is entered |

mod elements;
mod link;
mod outbox;
mod peer;
mod strangers;
mod transition;
mod wire;

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use penstock_conntrack::Flow;
use penstock_ctsync::Change;
use penstock_ctsync::config::{Config, Secure};
use penstock_ctsync::secure::{Digest, PrivateKey, Record, put_records_of, write_record};
use penstock_nfnetlink::Expected;
use penstock_print::show::secure_peer::SecurePeersStatus;

use super::announce::Announcer;
use super::convert::{expectation_state, state_of};
use super::take_over::TakenOver;
use super::timers::{Overrun, Purge};
use super::{Kept, Request, Status};
use crate::connections::{Answer, Ask, Tables};
use crate::log;
use crate::peer_watcher::{TellingEnd, Told, is_expectation_nameable, is_nameable, passes};
use crate::requests::inbox::Inbox;
use crate::rules::Rules;
use elements::Elements;
pub(crate) use link::SecureLink;
use peer::Heard;
pub(super) use peer::Peer;
use strangers::{Known, Strangers};

/// How often what is due is looked for, in nanoseconds.
const LOOK: u64 = 100_000_000;
/// How long the thread stays awake without anything to do, in milliseconds: workers need not wake
/// it then.
const AWAKE: i32 = 1;
/// Events that are taken before anything else is done.
const EVENTS: usize = 4096;
/// Bytes that wait for a peer at most while all that there is is told.
const TELLING: usize = 1 << 20;

/// What the thread has.
pub(super) struct SecureExchange {
    config: Config,
    secure: Secure,
    key: PrivateKey,
    tables: Arc<Tables>,
    rules: Arc<Rules>,
    told: TellingEnd,
    asked: Arc<Inbox<Request>>,
    announcer: Announcer,
    strangers: Strangers,
    peers: Vec<Peer>,
    elements: Elements,
    /// Of the tables of this process: when it began.
    generation: u64,
    taken_over: TakenOver,
    elements_taken_over: (u64, u64),
    purge: Purge,
    overrun: Overrun,
    looked: u64,
}

impl SecureExchange {
    #[expect(clippy::too_many_arguments, reason = "it is called once")]
    pub(super) fn new(
        config: Config,
        secure: Secure,
        link: SecureLink,
        tables: Arc<Tables>,
        rules: Arc<Rules>,
        told: TellingEnd,
        asked: Arc<Inbox<Request>>,
        announcer: Announcer,
    ) -> Self {
        let SecureLink { listener, key } = link;
        let own = key.public();
        let peers = secure.peers.iter().map(|peer| Peer::new(*peer, &own, &config)).collect();
        SecureExchange {
            config,
            secure,
            key,
            tables,
            rules,
            told,
            asked,
            announcer,
            strangers: Strangers::new(listener),
            peers,
            elements: Elements::default(),
            generation: crate::now(),
            taken_over: TakenOver::default(),
            elements_taken_over: (0, 0),
            purge: Purge::default(),
            overrun: Overrun::default(),
            looked: 0,
        }
    }

    /// Goes on where another exchange has ended.
    pub(super) fn resume(&mut self, kept: Kept) {
        for before in kept.peers {
            let peer = self.peers.iter_mut().find(|peer| peer.config.key == before.config.key);
            if let Some(peer) = peer {
                peer.resume(before);
            }
        }
        self.purge = kept.purge;
        self.generation = kept.generation.unwrap_or(self.generation);
    }

    /// Works until it is told to stop. Returns what is kept for another one.
    pub(super) fn run(mut self) -> Kept {
        loop {
            let now = crate::now();
            while let Some(request) = self.asked.take() {
                match request {
                    Request::Transition(transition, to) => {
                        // Whoever does not wait any more needs no answer.
                        let _ = to.send(Ok(self.transition(transition)));
                    }
                    Request::Status(to) => {
                        drop(to.send(Status::Secure(Box::new(self.status()))));
                    }
                    Request::Stop => {
                        self.peers.iter_mut().for_each(Peer::leave);
                        let SecureExchange { peers, purge, generation, .. } = self;
                        let generation = Some(generation);
                        return Kept { peers, purge, generation, went_on: true, told: None };
                    }
                }
            }
            let mut busy = self.take_events();
            busy |= self.receive(now);
            busy |= self.tell_parts();
            self.do_what_is_due(now);
            self.peers.iter_mut().for_each(|peer| peer.send(now));
            if !busy {
                self.wait();
            }
        }
    }

    /// Waits for something to do: for a moment awake, then until it is woken.
    fn wait(&mut self) {
        if self.poll(AWAKE) {
            return;
        }
        self.told.waker.fall_asleep();
        if !self.take_events() {
            let next = [Some(self.looked + LOOK), self.announcer.due()].into_iter().flatten().min();
            let left = next.unwrap_or(0).saturating_sub(crate::now()).div_ceil(1_000_000);
            self.poll(i32::try_from(left).unwrap_or(i32::MAX));
        }
        self.told.waker.wake_up();
    }

    /// Waits for descriptors, for so many milliseconds; whether one is ready.
    fn poll(&self, milliseconds: i32) -> bool {
        let own = [self.asked.event.as_fd(), self.told.waker.event.as_fd()];
        let peers = self.peers.iter().filter_map(|peer| peer.wire().map(wire::Wire::waits));
        let entry = |(fd, writes): (BorrowedFd<'_>, bool)| libc::pollfd {
            fd: fd.as_raw_fd(),
            events: libc::POLLIN | if writes { libc::POLLOUT } else { 0 },
            revents: 0,
        };
        let own = own.into_iter().map(|fd| (fd, false));
        let mut all: Vec<_> =
            own.chain(self.strangers.descriptors()).chain(peers).map(entry).collect();
        // SAFETY: the descriptors are open, and the array lives through the call, which knows its
        // length.
        unsafe { libc::poll(all.as_mut_ptr(), all.len() as libc::nfds_t, milliseconds) > 0 }
    }

    /// Tells all peers that there is a session with.
    fn tell(&mut self, record: &Record) {
        let mut bytes = Vec::with_capacity(192);
        write_record(record, &mut bytes);
        for peer in self.peers.iter_mut().filter(|peer| peer.is_up()) {
            peer.outbox.put(|to| to.extend(&bytes));
        }
    }

    fn connection(&self, change: Change, flow: &Flow) -> Record {
        let state = state_of(flow, self.config.window_tracking);
        Record::Connection(change, Box::new(state))
    }

    /// Takes events of the workers; whether there were any.
    fn take_events(&mut self) -> bool {
        let mut taken = 0;
        while taken < EVENTS
            && let Ok(told) = self.told.from.try_recv()
        {
            taken += 1;
            // Who connects is told everything.
            if !self.peers.iter().any(Peer::is_up) {
                continue;
            }
            let record = match told {
                Told::Connection(change, flow) => self.connection(change, &flow),
                Told::Expectation(change, expected) => {
                    Record::Expectation(change, Box::new(expectation_state(&expected)))
                }
            };
            self.tell(&record);
        }
        taken > 0
    }

    /// Hears peers, and those who may be some; whether anything came.
    fn receive(&mut self, now: u64) -> bool {
        let peers = &self.secure.peers;
        self.strangers.accept(
            &self.key,
            |from| peers.iter().any(|peer| peer.address.ip() == from),
            now,
        );
        let known = self.strangers.hear(|key| peers.iter().any(|peer| peer.key == *key), now);
        let mut any = !known.is_empty();
        for Known { wire, session, key, first } in known {
            let peer = self.peers.iter_mut().find(|peer| peer.config.key == key);
            let Some(peer) = peer else { continue };
            peer.begin(wire, session, self.generation, now);
            let mut heard = Heard::default();
            peer.take_records(&first, &mut heard, now, &self.config);
            answer(peer, heard);
        }
        for peer in &mut self.peers {
            peer.connect(&self.key, self.secure.address, now);
            let heard = peer.receive(self.generation, now, &self.config);
            any |= heard.any;
            answer(peer, heard);
        }
        any
    }

    /// Tells peers the next part of all that there is; whether there is one.
    fn tell_parts(&mut self) -> bool {
        let mut any = false;
        for number in 0..self.peers.len() {
            let Some(peer) = self.peers.get_mut(number).filter(|peer| peer.is_up()) else {
                continue;
            };
            if peer.outbox.is_closed {
                peer.telling = None;
                peer.wants_all = true;
            }
            // Records that wait are older than what is told now: all are before it.
            if peer.outbox.bytes() > TELLING {
                continue;
            }
            if peer.telling.is_none() && peer.wants_all {
                peer.begin_telling_all();
            }
            let Some(mut telling) = peer.telling.take() else { continue };
            any = true;
            let Some(place) = telling.next else { continue };
            match place.part(&self.tables, usize::MAX) {
                Ok((flows, next)) => {
                    let told = flows
                        .iter()
                        .filter(|flow| passes(&self.told.filter, flow) && is_nameable(flow));
                    let records: Vec<_> =
                        told.map(|flow| self.connection(Change::New, flow)).collect();
                    telling.next = next;
                    self.put_all(number, records, &mut telling.digest);
                    if next.is_some() {
                        self.peers[number].telling = Some(telling);
                    } else {
                        self.end_telling(number, telling);
                    }
                }
                Err(_) => {
                    log("a worker does not answer: not everything is told to the peer");
                    self.peers[number].wants_all = true;
                }
            }
        }
        any
    }

    fn put_all(
        &mut self,
        number: usize,
        records: impl IntoIterator<Item = Record>,
        digest: &mut Digest,
    ) {
        let Some(peer) = self.peers.get_mut(number) else { return };
        for record in records {
            peer.outbox.put(|to| put_records_of(&record, digest, to));
        }
    }

    /// All connections are told: expectations and elements follow, and the end.
    fn end_telling(&mut self, number: usize, mut telling: peer::TellingAll) {
        let expected = self.expectations().into_iter();
        let expected = expected.map(|e| Record::Expectation(Change::New, Box::new(e)));
        let now = crate::now();
        let elements = self.elements.all(now);
        let records: Vec<_> = expected.chain(elements).collect();
        self.put_all(number, records, &mut telling.digest);
        let end = Record::End { mark: telling.mark, digest: telling.digest };
        if let Some(peer) = self.peers.get_mut(number) {
            peer.outbox.put_record(&end);
        }
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

    fn do_what_is_due(&mut self, now: u64) {
        self.announcer.tick(now, &self.tables);
        if now.saturating_sub(self.looked) < LOOK {
            return;
        }
        self.looked = now;
        let missed = self.told.counts.missed.load(Ordering::Relaxed);
        if self.overrun.tick(now, missed) {
            self.tell_all(now);
        }
        self.purge.tick(now, &self.tables, &self.told.filter);
        let any_up = self.peers.iter().any(Peer::is_up);
        if self.secure.elements && any_up && self.elements.is_due(now) {
            let generation = self.rules.generation();
            for record in self.elements.changes(&generation, now) {
                self.tell(&record);
            }
        }
        let complete = !self.overrun.is_open(missed);
        self.peers.iter_mut().for_each(|peer| peer.tick(complete, now));
    }

    /// Everything is told anew.
    fn tell_all(&mut self, now: u64) {
        self.peers.iter_mut().for_each(|peer| peer.wants_all = true);
        self.overrun.told(now);
    }

    fn status(&self) -> SecurePeersStatus {
        let now = crate::now();
        SecurePeersStatus {
            public_key: self.key.public().to_string(),
            peers: self.peers.iter().map(|peer| peer.status(now)).collect(),
            refused_strangers: self.strangers.refused,
            missed_events: self.told.counts.missed.load(Ordering::Relaxed),
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
}

/// Sends numbers back that a peer has sent.
fn answer(peer: &mut Peer, heard: Heard) {
    for sequence in heard.answers {
        peer.outbox.put_record(&Record::Heard { sequence });
    }
}
