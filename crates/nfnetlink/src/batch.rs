// SPDX-License-Identifier: Apache-2.0

//! Batches: messages between `NFNL_MSG_BATCH_BEGIN` and `NFNL_MSG_BATCH_END`, which count together
//! or not at all (`nfnetlink_rcv_batch()`).

use std::sync::Arc;

use penstock_ruleset::transaction::Applied;
use penstock_ruleset::{Change, Errno, Error, Generation, Table, Transaction};

use crate::message::{Check, Failure, MIN_TYPE, Message, Policy, acknowledge, flags};
use crate::nf_tables::{self, Batch, Event, GROUP, SUBSYSTEM, Stamp, Told};
use crate::process::Process;
use crate::socket::{Answers, Notification, Socket};
use crate::{Backend, Refused};

/// `NFNL_MSG_BATCH_BEGIN`
pub const BEGIN: u16 = 0x10;
/// `NFNL_MSG_BATCH_END`
pub const END: u16 = 0x11;
/// `NFNL_BATCH_GENID`
const GENERATION: u16 = 1;
/// `nfnl_batch_policy`
const POLICY: Policy = &[(GENERATION, Check::U32)];
/// `NFNL_SUBSYS_COUNT`
const SUBSYSTEMS: u16 = 13;
/// Bytes after which notifications continue in another datagram (`NLMSG_GOODSIZE`).
const NOTIFICATION_MAX: usize = 3776;

/// An answer to a message.
struct Ack<'a> {
    /// Number of the message, counted from 1; 0 is the beginning of the batch.
    number: usize,
    message: Message<'a>,
    failure: Option<Failure>,
}

/// Closes a socket: the tables that it owns go with it, or stay without an owner. The kernel tells
/// nobody of that.
///
/// # Errors
/// Those of [`Backend::commit`].
pub fn close(port: u32, backend: &mut dyn Backend) -> Result<(), Refused> {
    if !owns(port, &backend.generation()) {
        return Ok(());
    }
    let mut batch = backend.begin();
    backend.apply(&mut batch, Change::Closed { port })?;
    backend.commit(batch, &Process { id: 0, name: "".into(), may_change: true })
}

/// Whether a socket owns a table.
pub fn owns(port: u32, generation: &Generation) -> bool {
    port != 0 && generation.tables.iter().any(|table| table.owner == port)
}

/// An answer to a message.
struct Run<'a> {
    socket: &'a Socket,
    /// Messages to answer at the end.
    acks: Vec<Ack<'a>>,
    failed: bool,
    /// The end was reached.
    complete: bool,
}

/// The subsystem that a batch is for. Old versions of nft wrote it in host order.
fn subsystem(begin: &Message<'_>) -> u16 {
    let resource = begin.resource();
    match u16::from_ne_bytes(resource) == u16::from(SUBSYSTEM) {
        true => u16::from(SUBSYSTEM),
        false => u16::from_be_bytes(resource),
    }
}

/// Runs a batch: `begin`, and the messages after it.
pub fn run(
    socket: &Socket,
    begin: &Message<'_>,
    rest: &[u8],
    from: &Process,
    backend: &mut dyn Backend,
) -> Answers {
    if !begin.has_family() {
        return Answers::default();
    }
    // The kernel answers with the message at the head of what is left, which is the first one.
    let head = Message::first(rest).map_or(*begin, |(message, _)| message);
    let refuse = |to: &Message<'_>, errno: Errno| Answers {
        datagrams: vec![acknowledge(to, Some(&errno.into()), socket.port, socket.acks)],
        ..Answers::default()
    };
    if !from.may_change {
        return refuse(begin, Errno::Eperm);
    }
    let generation = match begin.attributes(POLICY) {
        Ok(given) => given.be32(GENERATION).unwrap_or(0),
        Err(failure) => {
            let failure = failure.blaming_nothing();
            let ack = acknowledge(begin, Some(&failure), socket.port, socket.acks);
            return Answers { datagrams: vec![ack], ..Answers::default() };
        }
    };
    match subsystem(begin) {
        SUBSYSTEMS.. => return refuse(begin, Errno::Einval),
        subsystem if subsystem != u16::from(SUBSYSTEM) => {
            return refuse(begin, Errno::Eopnotsupp);
        }
        _ => {}
    }
    if generation != 0 && generation != backend.generation().id {
        return refuse(begin, Errno::Erestart);
    }
    let before = backend.generation().id;
    let mut batch = Batch::new(backend, socket.port, socket.listened);
    let mut run = Run { socket, acks: Vec::new(), failed: false, complete: false };
    if begin.header.has(flags::ACK) {
        run.acks.push(Ack { number: 0, message: *begin, failure: None });
    }
    let last = run.messages(rest, &mut batch);
    let mut answers = Answers::default();
    if !run.failed {
        match nf_tables::end(&mut batch) {
            Ok(()) => run.validate(rest, &batch),
            Err(failure) => {
                let ack = acknowledge(&head, Some(&failure), socket.port, socket.acks);
                answers.datagrams.push(ack);
                run.failed = true;
            }
        }
    }
    if run.complete && !run.failed {
        match batch.commit(from) {
            Ok(events) => {
                if let Some(last) = last.filter(|last| last.header.has(flags::ACK)) {
                    run.acks.push(Ack { number: usize::MAX, message: last, failure: None });
                }
                let after = backend.generation().id;
                if after != before {
                    run.tell(&head, after, events, from, &mut answers);
                }
            }
            Err((message, failure)) => {
                let blamed = message.and_then(|number| run.nth(rest, number)).unwrap_or(head);
                let ack = acknowledge(&blamed, Some(&failure), socket.port, socket.acks);
                answers.datagrams.push(ack);
            }
        }
    }
    for Ack { message, failure, .. } in &run.acks {
        let ack = acknowledge(message, failure.as_ref(), socket.port, socket.acks);
        answers.datagrams.push(ack);
    }
    answers
}

impl<'a> Run<'a> {
    /// Takes the messages up to the end, and gives the last one. Errors do not stop it: the program
    /// learns of all of them.
    fn messages(&mut self, mut rest: &'a [u8], batch: &mut Batch<'_>) -> Option<Message<'a>> {
        let mut last = None;
        for number in 0.. {
            if rest.len() < crate::message::HEADER {
                return last;
            }
            let Some((message, after)) = Message::first(rest).filter(|(m, _)| m.has_family())
            else {
                self.acks.clear();
                self.failed = true;
                return last;
            };
            last = Some(message);
            rest = after;
            batch.begin_message(number);
            let result = match message.header.kind {
                _ if !message.header.has(flags::REQUEST) => Err(Failure::einval()),
                BEGIN => {
                    self.acks.clear();
                    self.failed = true;
                    return last;
                }
                END => {
                    self.complete = true;
                    return last;
                }
                kind if kind < MIN_TYPE || message.subsystem() != SUBSYSTEM => {
                    Err(Failure::einval())
                }
                _ => nf_tables::change(batch, &message),
            };
            let failed = result.is_err();
            if failed || message.header.has(flags::ACK) {
                self.acks.push(Ack { number: number + 1, message, failure: result.err() });
            }
            self.failed |= failed;
        }
        last
    }

    /// Blames the messages that leave a table wrong as a whole. The kernel also looks if the batch
    /// has no end, which makes it a check only.
    fn validate(&mut self, mut rest: &'a [u8], batch: &Batch<'_>) {
        let Err(wrong) = batch.validate() else { return };
        self.failed = true;
        let mut wrong = wrong.into_iter().peekable();
        // Answers go in the order of the messages; those that want one anyway are there.
        let mut wanted = std::mem::take(&mut self.acks).into_iter().peekable();
        self.acks.extend(wanted.next_if(|ack| ack.number == 0));
        for number in 0.. {
            let Some((message, after)) = Message::first(rest) else { break };
            rest = after;
            let ack = wanted.next_if(|ack| ack.number == number + 1);
            match wrong.next_if(|(blamed, _)| *blamed == number) {
                Some((_, failure)) => {
                    self.acks.push(Ack { number: number + 1, message, failure: Some(failure) });
                }
                None => self.acks.extend(ack),
            }
        }
    }

    /// The message with a number after the first one.
    fn nth(&self, mut rest: &'a [u8], number: usize) -> Option<Message<'a>> {
        for _ in 0..number {
            rest = Message::first(rest)?.1;
        }
        Some(Message::first(rest)?.0)
    }

    /// Tells the sender, where it wants that, and everybody of what is new.
    fn tell(
        &self,
        head: &Message<'_>,
        generation: u32,
        events: Vec<Event>,
        from: &Process,
        answers: &mut Answers,
    ) {
        let mut own = Vec::new();
        let mut all = Vec::new();
        for event in &events {
            if event.echo {
                add(&mut own, &event.bytes);
            }
            if self.socket.listened {
                add(&mut all, &event.bytes);
            }
        }
        let stamp = Stamp { sequence: head.header.sequence, port: self.socket.port, generation };
        let end = nf_tables::new_generation(stamp, from);
        if head.header.has(flags::ECHO) {
            own.push(end.clone());
        }
        if self.socket.listened {
            all.push(end);
        }
        answers.datagrams.append(&mut own);
        answers.notifications.extend(all.into_iter().map(notification));
    }
}

/// Adds messages to the last datagram, or to new ones.
fn add(to: &mut Vec<Vec<u8>>, mut bytes: &[u8]) {
    while let Some((_, rest)) = Message::first(bytes) {
        let (message, rest) = bytes.split_at(bytes.len() - rest.len());
        match to.last_mut() {
            Some(last) if last.len() + message.len() <= NOTIFICATION_MAX => {
                last.extend_from_slice(message);
            }
            _ => to.push(message.to_vec()),
        }
        bytes = rest;
    }
}

fn notification(datagram: Vec<u8>) -> Notification {
    Notification { group: GROUP, datagram }
}

/// What the members of groups are told of a ruleset that another process has changed, at a time of
/// the packet clock in nanoseconds. It is not known who did that: process id 0, without a name.
pub fn changes_between(before: &Generation, after: &Generation, now: u64) -> Vec<Notification> {
    let same = |(a, b): (&Arc<Table>, &Arc<Table>)| Arc::ptr_eq(a, b);
    let (old, new) = (&before.tables, &after.tables);
    if before.id == after.id
        || !Arc::ptr_eq(&before.globals, &after.globals)
            && old.len() == new.len()
            && old.iter().zip(new).all(same)
    {
        return Vec::new();
    }
    let stamp = Stamp { sequence: 0, port: 0, generation: after.id };
    let nobody = Process { id: 0, name: "".into(), may_change: false };
    notifications(&nf_tables::difference(before, after, stamp, now), stamp, &nobody)
}

/// Messages of a change, and the new generation at the end.
fn notifications(messages: &[Vec<u8>], stamp: Stamp, by: &Process) -> Vec<Notification> {
    let mut all = Vec::new();
    for message in messages {
        add(&mut all, message);
    }
    all.push(nf_tables::new_generation(stamp, by));
    all.into_iter().map(notification).collect()
}

/// What the members of groups are told of changes that came from elsewhere: as the kernel tells
/// them, in the order in which they are applied.
#[derive(Debug)]
pub struct Teller {
    stamp: Stamp,
    told: Told,
    /// There were changes of tables: of others nobody is told.
    of_tables: bool,
}

impl Teller {
    /// Of the changes that make a generation with this number, at a time of the packet clock in
    /// nanoseconds.
    pub fn new(generation: u32, now: u64) -> Self {
        let stamp = Stamp { sequence: 0, port: 0, generation };
        Teller { stamp, told: Told::new(stamp, now), of_tables: false }
    }

    /// Applies a change to a copy of the ruleset, and notes what is told of it.
    ///
    /// # Errors
    /// The ruleset's; nothing is told then.
    pub fn apply(&mut self, to: &mut Transaction, change: Change) -> Result<Applied, Error> {
        self.of_tables |= !matches!(change, Change::Global(_));
        self.told.apply(to, change)
    }

    /// The notifications; the process made the changes.
    pub fn finish(self, by: &Process) -> Vec<Notification> {
        match self.of_tables {
            true => notifications(&self.told.finish(), self.stamp, by),
            false => Vec::new(),
        }
    }
}
