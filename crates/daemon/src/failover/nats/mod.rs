// SPDX-License-Identifier: Apache-2.0

//! The thread that speaks with the other nodes of a cluster by way of a stream of NATS JetStream
//! ([`penstock_ctsync::cluster`]).
//!
//! | file | is |
//! | --- | --- |
//! | `link` | keys, and what servers ask for |
//! | `client` | the thread that speaks with servers |
//! | `hearing` | what the client tells is taken |
//! | `node` | another node: what it has told |
//! | `snapshot` | when all that there is is told anew |

mod client;
mod hearing;
mod link;
mod node;
mod snapshot;

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use penstock_ctsync::cluster::{Head, Sealing, shard_of};
use penstock_ctsync::config::Nats;
use penstock_ctsync::secure::{Digest, Record, Records, put_records_of, write_record};
use penstock_print::show::nats::NatsStatus;

use super::outbox::Outbox;
use super::own_side::OwnSide;
use super::turns::{LOOK, Turns};
use super::{Kept, Request, Status, Transition};
use crate::peer_watcher::{TellingEnd, Told};
use crate::requests::inbox::Inbox;
use crate::seccomp::{self, Thread};
use client::{ClientEnd, IN, OUT, Outgoing, Tag, client, shard_subject, told_subject};
pub(crate) use link::NatsLink;
pub(super) use node::Node;
use snapshot::Snapshots;

/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;
/// How often others are told that this node is there.
const ALIVE: u64 = SECOND;
/// Bytes that wait at most while all that there is is told.
const TELLING: usize = 1 << 20;
/// How often what has ended is forgotten.
const FORGET: u64 = 10 * SECOND;

/// What the thread has.
pub(super) struct NatsExchange {
    own: OwnSide,
    config: Nats,
    sealing: Sealing,
    is_sealed: bool,
    asked: Arc<Inbox<Request>>,
    client: ClientEnd,
    thread: Option<JoinHandle<()>>,
    /// Of shards, and of the node itself after them.
    subjects: Vec<Arc<str>>,
    outbox: Outbox,
    nodes: Vec<Node>,
    /// When this exchange has begun to send, in nanoseconds of the clock of the day.
    epoch: u64,
    sequence: u64,
    /// Of the tables of this process: when it began.
    generation: u64,
    snapshots: Snapshots,
    /// The server, while there is a connection.
    server: Option<String>,
    /// Why there is none.
    error: Option<String>,
    /// Up to here, messages were stored before there was a connection.
    until: u64,
    /// The place of the last message.
    read: u64,
    alive: (u64, u64),
    /// The first complete `Alive` that is not stored yet, and when it was sent.
    told: Option<(u64, u64)>,
    stored: Option<u64>,
    connections: u64,
    refused: u64,
    nodes_refused: u64,
    same_name: u64,
    renamed: u64,
    looked: u64,
    forgot: u64,
}

/// Nanoseconds since 1970: epochs of one name grow, also over a restart.
fn clock_of_the_day() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(1, |now| u64::try_from(now.as_nanos()).unwrap_or(u64::MAX - 1))
}

impl NatsExchange {
    /// Begins the thread of the client as well.
    ///
    /// # Errors
    /// There is no thread, or no descriptor.
    pub(super) fn begin(
        own: OwnSide,
        config: Nats,
        link: NatsLink,
        asked: Arc<Inbox<Request>>,
    ) -> std::io::Result<Self> {
        let is_sealed = link.is_sealed;
        let sealing = link.sealing.clone();
        let (runs, client) = client(config.clone(), link)?;
        let thread = Builder::new().name("nats".into()).spawn(move || {
            seccomp::enter(Thread::Nats);
            runs.run();
        })?;
        let shards = (0..config.shards).map(|shard| shard_subject(&config.cluster, shard));
        let told = told_subject(&config.cluster, &config.node);
        Ok(NatsExchange {
            subjects: shards.chain([told]).collect(),
            outbox: Outbox::new(config.shards + 1),
            own,
            config,
            sealing,
            is_sealed,
            asked,
            client,
            thread: Some(thread),
            nodes: Vec::new(),
            epoch: clock_of_the_day(),
            sequence: 0,
            generation: clock_of_the_day(),
            snapshots: Snapshots::default(),
            server: None,
            error: None,
            until: 0,
            read: 0,
            alive: (0, 0),
            told: None,
            stored: None,
            connections: 0,
            refused: 0,
            nodes_refused: 0,
            same_name: 0,
            renamed: 0,
            looked: 0,
            forgot: 0,
        })
    }

    /// Goes on where another exchange has ended.
    pub(super) fn resume(&mut self, kept: Kept) {
        for before in kept.nodes {
            let mut node = Node::new(&before.name, &self.own.config);
            node.external.resume(before.external);
            self.nodes.push(node);
        }
        self.own.purge = kept.purge;
        self.generation = kept.generation.unwrap_or(self.generation);
    }

    /// Whether there is a connection.
    fn is_up(&self) -> bool {
        self.server.is_some()
    }

    /// Whether all that was stored before the connection began is read.
    fn follows(&self) -> bool {
        self.is_up() && self.read >= self.until
    }

    /// Tells something of a connection, an expectation or an element.
    fn tell(&mut self, record: &Record) {
        let shard = shard_of(record, self.config.shards);
        self.outbox.put(shard, |to| write_record(record, to));
    }

    /// Tells the next part of all that there is; whether there is one.
    fn tell_part(&mut self, now: u64) -> bool {
        if !self.is_up() {
            return false;
        }
        if self.outbox.is_closed {
            self.snapshots.interrupt();
            self.snapshots.want();
        }
        // Records that wait are older than what is told now: all are before it.
        if self.outbox.bytes() > TELLING {
            return false;
        }
        if let Some(begin) = self.snapshots.begin(now) {
            self.outbox.is_closed = false;
            self.outbox.put_record(&begin);
        }
        let Some(mut telling) = self.snapshots.telling.take() else { return false };
        match self.own.part(telling.next) {
            Ok((records, next)) => {
                self.put_all(records, &mut telling.digest);
                if let Some(next) = next {
                    telling.next = next;
                    self.snapshots.telling = Some(telling);
                } else {
                    let rest: Vec<_> = self.own.rest(crate::now()).collect();
                    self.put_all(rest, &mut telling.digest);
                    let end = Record::End { mark: telling.mark, digest: telling.digest };
                    self.outbox.put_record(&end);
                }
            }
            Err(()) => self.snapshots.want(),
        }
        true
    }

    fn put_all(&mut self, records: Vec<Record>, digest: &mut Digest) {
        for record in records {
            let shard = shard_of(&record, self.config.shards);
            self.outbox.put(shard, |to| put_records_of(&record, digest, to));
        }
    }

    fn do_what_is_due(&mut self, now: u64) {
        self.own.announce(now);
        if now.saturating_sub(self.looked) < LOOK {
            return;
        }
        self.looked = now;
        if self.own.tick(now) {
            self.snapshots.want();
        }
        if now.saturating_sub(self.forgot) >= FORGET {
            self.forgot = now;
            self.nodes.retain_mut(|node| !node.forget_ended(now));
        }
        if !self.is_up() {
            return;
        }
        for record in self.own.changed_elements(now) {
            self.tell(&record);
        }
        if self.follows() {
            for node in &mut self.nodes {
                if node.is_to_be_asked(now) {
                    self.outbox.put_record(&Record::AskNode(node.name.as_str().into()));
                }
            }
        }
        if now.saturating_sub(self.alive.1) >= ALIVE {
            self.alive = (self.alive.0 + 1, now);
            let complete =
                self.own.is_complete() && self.snapshots.is_told() && !self.outbox.is_closed;
            self.outbox.put_record(&Record::Alive { sequence: self.alive.0, complete });
            if complete {
                self.told.get_or_insert(self.alive);
            }
        }
    }

    /// Gives the client what waits, as far as it takes it. Whether it took anything.
    fn send(&mut self) -> bool {
        let mut any = false;
        while self.is_up()
            && self.client.out.capacity() > 0
            && let Some((shard, records)) = self.outbox.take()
        {
            any = true;
            self.sequence += 1;
            let head = Head {
                sender: &self.config.node,
                epoch: self.epoch,
                generation: self.generation,
                sequence: self.sequence,
            };
            let sealed = self.sealing.seal(&head, &records);
            let subject = self.subjects.get(shard).cloned();
            let (Ok(payload), Some(subject)) = (sealed, subject) else { continue };
            self.snapshots.sent(payload.len());
            let tag = tag_of(&records);
            // There is place, and the client is there while there is a connection.
            let _ = self.client.out.try_send(Outgoing { subject, payload, tag });
        }
        any
    }

    fn nats_status(&self) -> NatsStatus {
        let now = crate::now();
        NatsStatus {
            cluster: self.config.cluster.clone(),
            node: self.config.node.clone(),
            sealed: self.is_sealed,
            connected: self.is_up(),
            server: self.server.clone(),
            error: self.error.clone(),
            replaying: self.is_up() && !self.follows(),
            stored_ago: self.stored.map(|at| now.saturating_sub(at) as f64 / SECOND as f64),
            sessions: self.connections,
            sent: self.outbox.records,
            messages: self.sequence,
            waiting: (self.outbox.bytes()) as u64,
            waiting_messages: (OUT - self.client.out.capacity()) as u64,
            overruns: self.outbox.overruns,
            snapshots: self.snapshots.told,
            telling_all: self.is_up() && !self.snapshots.is_told(),
            refused_messages: self.refused,
            nodes: self.nodes.iter().map(|node| node.status(now)).collect(),
            nodes_refused: self.nodes_refused,
            same_name: self.same_name,
            own: self.own.status(now),
        }
    }
}

impl Turns for NatsExchange {
    fn asked(&self) -> &Inbox<Request> {
        &self.asked
    }

    fn told(&self) -> &TellingEnd {
        &self.own.told
    }

    fn transition(&mut self, transition: Transition) -> Result<String, String> {
        // What has come counts.
        let now = crate::now();
        for _ in 0..IN {
            let Ok(incoming) = self.client.incoming.try_recv() else { break };
            self.take(incoming, now);
        }
        let all = self.nodes.iter_mut().map(|node| &mut node.external).collect();
        let outcome = self.own.transition(transition, all);
        if outcome.tells_all {
            self.snapshots.want();
        }
        if transition == Transition::Backup && self.is_up() {
            self.outbox.put_record(&Record::Ask);
        }
        Ok(outcome.sentence)
    }

    fn status(&self) -> Status {
        Status::Nats(Box::new(self.nats_status()))
    }

    fn take_event(&mut self, told: Told) {
        // Everything is told once there is a connection.
        if self.is_up() {
            let record = self.own.record_of(told);
            self.tell(&record);
        }
    }

    fn turn(&mut self, now: u64) -> bool {
        let mut busy = self.receive(now);
        busy |= self.tell_part(now);
        self.do_what_is_due(now);
        busy |= self.send();
        busy
    }

    fn due(&self) -> u64 {
        self.own.due(self.looked + LOOK)
    }

    fn descriptors(&self) -> impl Iterator<Item = (BorrowedFd<'_>, bool)> {
        std::iter::once((self.client.event.as_fd(), false))
    }

    fn end(self) -> Kept {
        let NatsExchange { nodes, own, generation, client, thread, .. } = self;
        drop(client);
        // One that has panicked has said so.
        thread.into_iter().for_each(|thread| drop(thread.join()));
        Kept {
            nodes,
            purge: own.purge,
            generation: Some(generation),
            went_on: true,
            ..Kept::default()
        }
    }
}

/// What is to be known of a message once it is stored: records that others must not pass are in
/// messages of their own.
fn tag_of(records: &[u8]) -> Option<Tag> {
    /// Bytes of the longest of them.
    const LONGEST: usize = 3 + 3 * 8;
    if records.len() > LONGEST {
        return None;
    }
    match Records::of(records).next(&mut Digest::default())?.ok()?? {
        Record::Begin { mark } => Some(Tag::Begin(mark)),
        Record::End { mark, .. } => Some(Tag::End(mark)),
        Record::Alive { sequence, .. } => Some(Tag::Alive(sequence)),
        _ => None,
    }
}
