// SPDX-License-Identifier: Apache-2.0

//! One of the peers: the session with it, what it is told, and what it has told.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;

use penstock_ctsync::config::{Config, SecurePeer};
use penstock_ctsync::secure::{Digest, Handshake, PrivateKey, PublicKey, Record, Session};
use penstock_print::show::secure_peer::SecurePeerStatus;

use super::wire::Wire;
use crate::failover::bulk::Place;
use crate::failover::external::External;
use crate::failover::outbox::Outbox;
use crate::log;

/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;
/// How often a peer is told that this side is there.
const ALIVE: u64 = SECOND;
/// How long a peer is silent before the session ends.
const SILENCE: u64 = 10 * SECOND;
/// How long is waited before a peer is connected to again.
const RETRY: u64 = SECOND;
/// How long a handshake may take.
pub(super) const HANDSHAKE: u64 = 5 * SECOND;
/// How soon a peer is asked again for all that it has, if a digest was wrong.
const ASK: u64 = 30 * SECOND;
/// Bytes that wait in the socket's queue at most, so that records wait where they are counted.
const SEALED: usize = 256 << 10;
/// Frames that are opened before others have their turn.
const FRAMES: usize = 64;
/// Seconds between two looks at what has ended of a generation that is no more.
const OLD: u64 = 10;
/// Answers to `Alive` that are waited for.
const UNHEARD: usize = 16;

/// How far the connection to a peer is.
enum Link {
    /// It is connected to, and its answer to the handshake is waited for.
    Begins(Box<Wire>, Option<Box<Handshake>>, u64),
    /// It is the peer.
    Up(Box<Wire>, Box<Session>),
}

/// All that there is, on its way to the peer.
pub(super) struct TellingAll {
    pub(super) mark: u64,
    pub(super) digest: Digest,
    /// Where the next part of the tables begins; `None` after the last one.
    pub(super) next: Option<Place>,
}

pub(in crate::failover) struct Peer {
    pub(super) config: SecurePeer,
    /// This side connects.
    connects: bool,
    link: Option<Link>,
    retry_at: u64,
    pub(super) outbox: Outbox,
    /// Everything is to be told anew.
    pub(super) wants_all: bool,
    pub(super) telling: Option<TellingAll>,
    marks: u64,
    alive: (u64, u64),
    unheard: VecDeque<(u64, u64)>,
    asked: u64,
    pub(in crate::failover) external: External,
    heard: Option<u64>,
    in_sync: Option<u64>,
    told: Option<u64>,
    pub(super) refused_handshakes: u64,
    sessions: u64,
}

impl Peer {
    pub(super) fn new(config: SecurePeer, own: &PublicKey, limits: &Config) -> Self {
        Peer {
            config,
            connects: *own < config.key,
            link: None,
            retry_at: 0,
            outbox: Outbox::new(1),
            wants_all: false,
            telling: None,
            marks: 0,
            alive: (0, 0),
            unheard: VecDeque::new(),
            asked: 0,
            external: External::new(limits),
            heard: None,
            in_sync: None,
            told: None,
            refused_handshakes: 0,
            sessions: 0,
        }
    }

    /// Closes the connection.
    pub(super) fn leave(&mut self) {
        self.link = None;
        self.outbox.clear();
    }

    /// Whether there is a session.
    pub(super) fn is_up(&self) -> bool {
        matches!(self.link, Some(Link::Up(..)))
    }

    /// What is waited for.
    pub(super) fn wire(&self) -> Option<&Wire> {
        match self.link.as_ref()? {
            Link::Begins(wire, ..) | Link::Up(wire, _) => Some(wire),
        }
    }

    /// Begins to connect, if this side does that and it is time.
    pub(super) fn connect(&mut self, own: &PrivateKey, from: SocketAddr, now: u64) {
        if !self.connects || self.link.is_some() || now < self.retry_at {
            return;
        }
        self.retry_at = now + RETRY;
        let Ok(mut wire) = Wire::connecting(from, self.config.address) else { return };
        let mut first = Vec::new();
        if let Ok(handshake) = Handshake::connect(own, &self.config.key, &mut first) {
            wire.sending.extend(first);
            self.link = Some(Link::Begins(Box::new(wire), Some(Box::new(handshake)), now));
        }
    }

    /// There is a session, in place of another one.
    pub(super) fn begin(
        &mut self,
        wire: Box<Wire>,
        session: Box<Session>,
        generation: u64,
        now: u64,
    ) {
        self.link = Some(Link::Up(wire, session));
        self.outbox.clear();
        self.outbox.is_closed = false;
        self.telling = None;
        self.external.lose();
        (self.wants_all, self.heard, self.alive.1) = (true, Some(now), 0);
        self.unheard.clear();
        self.sessions += 1;
        self.outbox.put_record(&Record::Generation(generation));
        log(format_args!("peer {}: connected", self.config.address));
    }

    fn end(&mut self, why: &str, now: u64) {
        if self.is_up() {
            log(format_args!("peer {}: {why}", self.config.address));
        }
        (self.link, self.telling) = (None, None);
        self.external.lose();
        self.outbox.clear();
        self.retry_at = self.retry_at.max(now + RETRY / 4);
    }

    /// Receives what is there. Whether there was anything.
    pub(super) fn receive(&mut self, generation: u64, now: u64) -> Heard {
        let mut heard = Heard::default();
        match self.link.take() {
            Some(Link::Begins(mut wire, Some(handshake), since)) => {
                let alive = wire.receive().is_ok();
                if alive && wire.received().len() >= handshake.wants() {
                    heard.any = true;
                    self.complete_handshake(wire, *handshake, generation, now);
                } else if alive && now.saturating_sub(since) < HANDSHAKE {
                    self.link = Some(Link::Begins(wire, Some(handshake), since));
                }
            }
            Some(Link::Up(wire, session)) => {
                self.link = Some(Link::Up(wire, session));
                self.receive_frames(&mut heard, now);
            }
            Some(Link::Begins(..)) | None => {}
        }
        heard
    }

    fn complete_handshake(
        &mut self,
        mut wire: Box<Wire>,
        handshake: Handshake,
        generation: u64,
        now: u64,
    ) {
        let wants = handshake.wants();
        let answer = wire.received().get(..wants).unwrap_or_default();
        match handshake.receive(answer, |_| true, &mut Vec::new()) {
            Ok((session, _)) => {
                wire.take(wants);
                self.begin(wire, Box::new(session), generation, now);
            }
            Err(refused) => {
                self.refused_handshakes += 1;
                log(format_args!("peer {}: {}", self.config.address, refused.sentence()));
                self.retry_at = now + 10 * RETRY;
            }
        }
    }

    fn receive_frames(&mut self, heard: &mut Heard, now: u64) {
        let Some(Link::Up(mut wire, mut session)) = self.link.take() else { return };
        let alive = wire.receive();
        let mut wrong = None;
        for _ in 0..FRAMES {
            let (records, len) = match session.open(wire.received()) {
                Ok(Some(opened)) => opened,
                Ok(None) => break,
                Err(refused) => {
                    wrong = Some(refused.sentence().to_owned());
                    break;
                }
            };
            self.take_records(records, heard, now);
            wire.take(len);
        }
        self.link = Some(Link::Up(wire, session));
        let silent = now.saturating_sub(self.heard.unwrap_or(now)) >= SILENCE;
        let wrong = wrong.or_else(|| alive.err().map(|e: io::Error| e.to_string()));
        if let Some(why) = wrong.or_else(|| silent.then(|| "it is silent".to_owned())) {
            self.end(&why, now);
        }
    }

    /// Takes the records of a frame.
    pub(super) fn take_records(&mut self, records: &[u8], heard: &mut Heard, now: u64) {
        heard.any = true;
        self.heard = Some(now);
        let mut others = Vec::new();
        self.external.take_records(records, &mut others, now);
        for record in others {
            match record {
                Record::Ask => self.wants_all = true,
                Record::Alive { sequence, complete } => {
                    if complete && self.external.complete {
                        self.in_sync = Some(now);
                    }
                    heard.answers.push(sequence);
                }
                Record::Heard { sequence } => {
                    while let Some((sent, at)) = self.unheard.front().copied()
                        && sent <= sequence
                    {
                        self.told = Some(at);
                        self.unheard.pop_front();
                    }
                }
                // Of clusters.
                _ => {}
            }
        }
        let is_wrong = std::mem::take(&mut self.external.is_wrong);
        if is_wrong && now.saturating_sub(self.asked) >= ASK {
            self.asked = now;
            self.outbox.put_record(&Record::Ask);
        }
    }

    /// All that there is is told from now on.
    pub(super) fn begin_telling_all(&mut self) -> &mut TellingAll {
        self.wants_all = false;
        self.outbox.is_closed = false;
        self.marks += 1;
        let mark = self.marks;
        self.outbox.put_record(&Record::Begin { mark });
        self.telling.insert(TellingAll {
            mark,
            digest: Digest::default(),
            next: Some(Place::default()),
        })
    }

    /// Does what is due: says that this side is there, and forgets what has ended.
    pub(super) fn tick(&mut self, complete: bool, now: u64) {
        if !self.is_up() || now.saturating_sub(self.alive.1) < ALIVE {
            return;
        }
        self.alive = (self.alive.0 + 1, now);
        let complete =
            complete && !self.wants_all && self.telling.is_none() && !self.outbox.is_closed;
        self.outbox.put_record(&Record::Alive { sequence: self.alive.0, complete });
        if complete {
            self.unheard.push_back((self.alive.0, now));
            if self.unheard.len() > UNHEARD {
                self.unheard.pop_front();
            }
        }
        if self.alive.0.is_multiple_of(OLD) {
            self.external.forget_ended(now);
        }
    }

    /// Sends what waits, as far as the peer takes it.
    pub(super) fn send(&mut self, now: u64) {
        let sent = match &mut self.link {
            None => return,
            Some(Link::Begins(wire, ..)) => wire.send(),
            Some(Link::Up(wire, session)) => {
                let mut sealed = Vec::new();
                while wire.sending.len() < SEALED
                    && let Some((_, records)) = self.outbox.take()
                {
                    sealed.clear();
                    // A frame is shorter than the longest one, and there are not so many.
                    let _ = session.seal(&records, &mut sealed);
                    wire.sending.extend(&sealed);
                }
                wire.send()
            }
        };
        if let Err(e) = sent {
            self.end(&e.to_string(), now);
        }
    }

    /// How it is.
    pub(super) fn status(&self, now: u64) -> SecurePeerStatus {
        let ago = |at: Option<u64>| at.map(|at| now.saturating_sub(at) as f64 / SECOND as f64);
        SecurePeerStatus {
            address: self.config.address.to_string(),
            up: self.is_up(),
            in_sync_ago: ago(self.in_sync),
            told_ago: ago(self.told),
            heard_ago: ago(self.heard),
            sessions: self.sessions,
            refused_handshakes: self.refused_handshakes,
            sent: self.outbox.records,
            received: self.external.received,
            malformed: self.external.malformed,
            wrong_digests: self.external.wrong_digests,
            waiting: self.outbox.bytes() as u64,
            overruns: self.outbox.overruns,
            telling_all: self.telling.is_some() || self.wants_all,
            cached: self.external.connections.len() as u64,
            expected: self.external.expected.len() as u64,
            elements: self.external.elements.len() as u64,
            cache_full: self.external.refused(),
        }
    }
}

/// What came from a peer that others have to do something about.
#[derive(Debug, Default)]
pub(super) struct Heard {
    /// Something came.
    pub(super) any: bool,
    /// Numbers that are to be sent back.
    pub(super) answers: Vec<u64>,
}
