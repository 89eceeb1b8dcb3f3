// SPDX-License-Identifier: Apache-2.0

//! The thread that speaks with peers by the protocol of Penstock ([`penstock_ctsync::secure`]).
//!
//! | file | is |
//! | --- | --- |
//! | `link` | the socket that peers connect to, and the own key |
//! | `peer` | a peer: its session, what it is told and has told |
//! | `strangers` | connections that have not shown yet who they are |
//! | `wire` | a connection of TCP |

mod link;
mod peer;
mod strangers;
mod wire;

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use penstock_ctsync::config::Secure;
use penstock_ctsync::secure::{Digest, PrivateKey, Record, put_records_of, write_record};
use penstock_print::show::secure_peer::SecurePeersStatus;

use super::own_side::OwnSide;
use super::turns::{LOOK, Turns};
use super::{Kept, Request, Status, Transition};
use crate::peer_watcher::{TellingEnd, Told};
use crate::requests::inbox::Inbox;
pub(crate) use link::SecureLink;
use peer::Heard;
pub(super) use peer::Peer;
use strangers::{Known, Strangers};

/// Bytes that wait for a peer at most while all that there is is told.
const TELLING: usize = 1 << 20;

/// What the thread has.
pub(super) struct SecureExchange {
    own: OwnSide,
    secure: Secure,
    key: PrivateKey,
    asked: Arc<Inbox<Request>>,
    strangers: Strangers,
    peers: Vec<Peer>,
    /// Of the tables of this process: when it began.
    generation: u64,
    looked: u64,
}

impl SecureExchange {
    pub(super) fn new(
        own: OwnSide,
        secure: Secure,
        link: SecureLink,
        asked: Arc<Inbox<Request>>,
    ) -> Self {
        let SecureLink { listener, key } = link;
        let public = key.public();
        let peers = secure.peers.iter().map(|peer| Peer::new(*peer, &public, &own.config));
        SecureExchange {
            peers: peers.collect(),
            own,
            secure,
            key,
            asked,
            strangers: Strangers::new(listener),
            generation: crate::now(),
            looked: 0,
        }
    }

    /// Goes on where another exchange has ended.
    pub(super) fn resume(&mut self, kept: Kept) {
        for before in kept.peers {
            let peer = self.peers.iter_mut().find(|peer| peer.config.key == before.config.key);
            if let Some(peer) = peer {
                peer.external.resume(before.external);
            }
        }
        self.own.purge = kept.purge;
        self.generation = kept.generation.unwrap_or(self.generation);
    }

    /// Tells all peers that there is a session with.
    fn tell(&mut self, record: &Record) {
        let mut bytes = Vec::with_capacity(192);
        write_record(record, &mut bytes);
        for peer in self.peers.iter_mut().filter(|peer| peer.is_up()) {
            peer.outbox.put(0, |to| to.extend(&bytes));
        }
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
            peer.take_records(&first, &mut heard, now);
            answer(peer, heard);
        }
        for peer in &mut self.peers {
            peer.connect(&self.key, self.secure.address, now);
            let heard = peer.receive(self.generation, now);
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
            match self.own.part(place) {
                Ok((records, next)) => {
                    telling.next = next;
                    self.put_all(number, records, &mut telling.digest);
                    if next.is_some() {
                        self.peers[number].telling = Some(telling);
                    } else {
                        self.end_telling(number, telling);
                    }
                }
                Err(()) => self.peers[number].wants_all = true,
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
            peer.outbox.put(0, |to| put_records_of(&record, digest, to));
        }
    }

    /// All connections are told: expectations and elements follow, and the end.
    fn end_telling(&mut self, number: usize, mut telling: peer::TellingAll) {
        let records: Vec<_> = self.own.rest(crate::now()).collect();
        self.put_all(number, records, &mut telling.digest);
        let end = Record::End { mark: telling.mark, digest: telling.digest };
        if let Some(peer) = self.peers.get_mut(number) {
            peer.outbox.put_record(&end);
        }
    }

    fn do_what_is_due(&mut self, now: u64) {
        self.own.announce(now);
        if now.saturating_sub(self.looked) < LOOK {
            return;
        }
        self.looked = now;
        if self.own.tick(now) {
            self.tell_all();
        }
        if self.peers.iter().any(Peer::is_up) {
            for record in self.own.changed_elements(now) {
                self.tell(&record);
            }
        }
        let complete = self.own.is_complete();
        self.peers.iter_mut().for_each(|peer| peer.tick(complete, now));
    }

    /// Everything is told anew.
    fn tell_all(&mut self) {
        self.peers.iter_mut().for_each(|peer| peer.wants_all = true);
    }
}

impl Turns for SecureExchange {
    fn asked(&self) -> &Inbox<Request> {
        &self.asked
    }

    fn told(&self) -> &TellingEnd {
        &self.own.told
    }

    fn transition(&mut self, transition: Transition) -> Result<String, String> {
        let all = self.peers.iter_mut().map(|peer| &mut peer.external).collect();
        let outcome = self.own.transition(transition, all);
        if outcome.tells_all {
            self.tell_all();
        }
        if transition == Transition::Backup {
            self.tell(&Record::Ask);
        }
        Ok(outcome.sentence)
    }

    fn status(&self) -> Status {
        let now = crate::now();
        Status::Secure(Box::new(SecurePeersStatus {
            public_key: self.key.public().to_string(),
            peers: self.peers.iter().map(|peer| peer.status(now)).collect(),
            refused_strangers: self.strangers.refused,
            own: self.own.status(now),
        }))
    }

    fn take_event(&mut self, told: Told) {
        // Who connects is told everything.
        if self.peers.iter().any(Peer::is_up) {
            let record = self.own.record_of(told);
            self.tell(&record);
        }
    }

    fn turn(&mut self, now: u64) -> bool {
        let mut busy = self.receive(now);
        busy |= self.tell_parts();
        self.do_what_is_due(now);
        self.peers.iter_mut().for_each(|peer| peer.send(now));
        busy
    }

    fn due(&self) -> u64 {
        self.own.due(self.looked + LOOK)
    }

    fn descriptors(&self) -> impl Iterator<Item = (BorrowedFd<'_>, bool)> {
        let peers = self.peers.iter().filter_map(|peer| peer.wire().map(wire::Wire::waits));
        self.strangers.descriptors().chain(peers)
    }

    fn end(mut self) -> Kept {
        self.peers.iter_mut().for_each(Peer::leave);
        let SecureExchange { peers, own, generation, .. } = self;
        Kept {
            peers,
            purge: own.purge,
            generation: Some(generation),
            went_on: true,
            ..Kept::default()
        }
    }
}

/// Sends numbers back that a peer has sent.
fn answer(peer: &mut Peer, heard: Heard) {
    for sequence in heard.answers {
        peer.outbox.put_record(&Record::Heard { sequence });
    }
}
