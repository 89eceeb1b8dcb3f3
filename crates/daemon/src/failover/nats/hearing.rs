// SPDX-License-Identifier: Apache-2.0

//! What the client tells becomes what is known of other nodes, and of the stream.

use penstock_ctsync::cluster::Head;
use penstock_ctsync::secure::{Record, write_record};
use tokio::sync::mpsc::error::TryRecvError;

use super::client::{Incoming, Tag};
use super::node::Node;
use super::{NatsExchange, clock_of_the_day};
use crate::log;

/// What is taken before anything else is done.
const MESSAGES: usize = 64;
/// Other nodes at most.
const NODES: usize = 64;
/// How often another epoch is begun because messages with the own name are newer, in nanoseconds.
const RENAMED: u64 = 10_000_000_000;

impl NatsExchange {
    /// Takes what the client tells; whether there was anything.
    pub(super) fn receive(&mut self, now: u64) -> bool {
        self.client.event.clear();
        for taken in 0..MESSAGES {
            match self.client.incoming.try_recv() {
                Ok(incoming) => self.take(incoming, now),
                Err(TryRecvError::Empty) => return taken > 0,
                Err(TryRecvError::Disconnected) => {
                    if self.is_up() || self.error.is_none() {
                        self.lose_connection("the client has ended".into());
                    }
                    return false;
                }
            }
        }
        true
    }

    pub(super) fn take(&mut self, incoming: Incoming, now: u64) {
        match incoming {
            Incoming::Up { server, after, until } => {
                (self.server, self.error) = (Some(server), None);
                (self.read, self.until) = (after, until);
                self.connections += 1;
                // What is in the queue of the client is not sent.
                self.outbox.clear();
                self.outbox.is_closed = false;
                self.snapshots.begin_anew();
            }
            Incoming::Down(why) => self.lose_connection(why),
            Incoming::Stored { tag: Tag::Alive(number), .. } => {
                if let Some((_, at)) = self.told.take_if(|(told, _)| *told <= number) {
                    self.stored = Some(at);
                }
            }
            Incoming::Stored { tag, place } => {
                if let Some(begin) = self.snapshots.stored(tag, place) {
                    let record = Record::ToldAt(begin);
                    self.outbox.put(self.config.shards, |to| write_record(&record, to));
                }
            }
            Incoming::Kept { first } => {
                if self.snapshots.kept(first, now) {
                    log("NATS: MaxBytes or MaxAge of the stream is less than all connections need");
                }
            }
            Incoming::Message { mut payload, place, age } => {
                let live = self.read >= self.until;
                self.read = place;
                self.take_message(&mut payload, (!live).then_some(age), now);
            }
        }
    }

    fn lose_connection(&mut self, why: String) {
        (self.server, self.error) = (None, Some(why));
        self.snapshots.interrupt();
        self.outbox.clear();
        self.outbox.is_closed = false;
        self.told = None;
    }

    /// Takes a message; one that was stored before the connection began has an age.
    fn take_message(&mut self, payload: &mut [u8], age: Option<u64>, now: u64) {
        let is_echo = |head: Head<'_>| head.sender == self.config.node && head.epoch == self.epoch;
        if Head::of(payload).is_some_and(is_echo) {
            return;
        }
        let Ok((head, records)) = self.sealing.open(payload) else {
            self.refused += 1;
            return;
        };
        if head.sender == self.config.node {
            self.take_own(&head, age.is_none(), now);
            return;
        }
        let found = self.nodes.iter().position(|node| node.name == head.sender);
        let place = match found {
            Some(place) => place,
            None if self.nodes.len() < NODES => {
                self.nodes.push(Node::new(head.sender, &self.own.config));
                self.nodes.len() - 1
            }
            None => {
                self.nodes_refused += 1;
                return;
            }
        };
        let follows = self.follows();
        let Some(node) = self.nodes.get_mut(place) else { return };
        for record in node.take(&head, records, age.unwrap_or(0), follows, now) {
            match record {
                // Questions that were asked before were answered, or are asked again.
                Record::Ask if age.is_none() => self.snapshots.want(),
                Record::AskNode(name) if age.is_none() && *name == *self.config.node => {
                    self.snapshots.want();
                }
                _ => {}
            }
        }
    }

    /// A message has the name of this node: it is its own, or one of an earlier process, or of
    /// another one with the same name.
    fn take_own(&mut self, head: &Head<'_>, is_live: bool, now: u64) {
        if head.epoch <= self.epoch {
            if head.epoch < self.epoch && is_live && head.generation != self.generation {
                self.same_name += 1;
            }
            return;
        }
        self.same_name += u64::from(is_live);
        if self.renamed == 0 || now.saturating_sub(self.renamed) >= RENAMED {
            self.renamed = now;
            log(format_args!(
                "NATS: messages of a node {} are newer than those of this one: another node has its \
                 name, or the clock went back",
                self.config.node
            ));
            // Others take later epochs only.
            self.epoch = clock_of_the_day().max(head.epoch.saturating_add(1));
            self.sequence = 0;
            self.outbox.clear();
            self.snapshots.begin_anew();
        }
    }
}
